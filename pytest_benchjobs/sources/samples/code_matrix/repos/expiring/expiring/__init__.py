"""A cache of limited size whose entries expire."""

from .cache import Cache

__all__ = ["Cache"]
