"""From paths to handlers."""

from .router import Router

__all__ = ["Router"]
