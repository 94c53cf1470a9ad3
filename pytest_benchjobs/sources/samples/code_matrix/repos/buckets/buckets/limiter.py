"""A bucket for each key."""

from .bucket import Bucket


class Limiter:
    """Buckets that are made when a key is first seen."""

    def __init__(self, capacity, rate):
        self.capacity = capacity
        self.rate = rate
        self._buckets = {}

    def allow(self, key, count=1, *, now):
        """True if the key may go on."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self.capacity, self.rate, now)
        return bucket.take(count, now=now)
