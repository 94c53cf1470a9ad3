"""The router."""

from urllib.parse import unquote

from .patterns import compiled


class Router:
    """Patterns with their handlers."""

    def __init__(self):
        self._routes = []

    def add(self, pattern, handler):
        """Add a pattern; a second one that is the same replaces the first."""
        self._routes.append((compiled(pattern), handler))

    def match(self, path):
        """The handler of a path with its parameters; None if there is none."""
        path = unquote(path.partition("?")[0])
        for pattern, handler in self._routes:
            found = pattern.match(path)
            if found is not None:
                return handler, found.groupdict()
        return None
