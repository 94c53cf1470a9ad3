"""Sandboxes that are Pods of a Kubernetes cluster."""
