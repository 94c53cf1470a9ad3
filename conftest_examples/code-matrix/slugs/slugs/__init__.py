"""Titles in the form that addresses have."""

from .slug import slug

__all__ = ["slug"]
