"""The cache."""

from collections import OrderedDict


class Cache:
    """Entries in the order of their last use, the least recent first."""

    def __init__(self, size, ttl):
        if size < 1 or ttl <= 0:
            raise ValueError("a cache needs a size of at least 1, and a time to live above 0")
        self.size = size
        self.ttl = ttl
        self._entries = OrderedDict()

    def put(self, key, value, *, now):
        """Keep a value from now on."""
        if key not in self._entries and len(self._entries) >= self.size:
            self._entries.popitem(last=False)
        self._entries[key] = (value, now + self.ttl)

    def get(self, key, default=None, *, now):
        """The value, if its time is not over."""
        if key not in self._entries:
            return default
        value, until = self._entries[key]
        if now > until:
            return default
        self._entries.move_to_end(key)
        return value

    def count(self, *, now):
        """The number of entries whose time is not over."""
        return len(self._entries)

    def keys(self, *, now):
        """Their keys, the least recently used first."""
        return list(self._entries)
