"""Token buckets without a clock of their own."""

from .bucket import Bucket
from .limiter import Limiter

__all__ = ["Bucket", "Limiter"]
