"""One bucket."""


class Bucket:
    """A bucket of whole tokens, full at first."""

    def __init__(self, capacity, rate, now=0.0):
        if capacity < 1 or rate <= 0:
            raise ValueError("a bucket needs a capacity of at least 1, and a rate above 0")
        self.capacity = capacity
        self.rate = rate
        self._tokens = capacity
        self._filled_at = now

    def tokens(self, now):
        """The whole tokens that are there."""
        self._refill(now)
        return self._tokens

    def take(self, count=1, *, now):
        """Take tokens: all of them, or none if there are fewer."""
        self._refill(now)
        if count > self._tokens:
            return False
        self._tokens -= count
        return True

    def wait(self, count=1, *, now):
        """Seconds until so many tokens are there; None if there never will be."""
        if count > self.capacity:
            return None
        self._refill(now)
        missing = count - self._tokens
        return missing / self.rate if missing > 0 else 0.0

    def _refill(self, now):
        gained = int((now - self._filled_at) * self.rate)
        self._tokens = min(self.capacity, self._tokens + gained)
        self._filled_at = now
