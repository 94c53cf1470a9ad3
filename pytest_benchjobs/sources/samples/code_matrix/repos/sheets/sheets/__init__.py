"""Tables as comma-separated values."""

from .reading import loads
from .writing import dumps

__all__ = ["dumps", "loads"]
