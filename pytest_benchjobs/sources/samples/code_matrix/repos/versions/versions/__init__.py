"""Semantic versions."""

from .parsing import Version, parse
from .ranges import fits, newest

__all__ = ["Version", "fits", "newest", "parse"]
