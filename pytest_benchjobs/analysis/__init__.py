"""Figures over results. Pure functions."""
