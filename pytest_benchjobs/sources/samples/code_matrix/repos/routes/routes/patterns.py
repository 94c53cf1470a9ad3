"""Patterns of paths."""

import re

_PARAMETER = re.compile(r"<(?P<rest>path:)?(?P<name>[a-z_]+)>")


def compiled(pattern):
    """The regular expression of a pattern."""
    parts = []
    for part in pattern.strip("/").split("/"):
        match = _PARAMETER.fullmatch(part)
        if match is None:
            parts.append(re.escape(part))
        else:
            parts.append(f"(?P<{match['name']}>{'.+' if match['rest'] else '[^/]+'})")
    return re.compile("/" + "/".join(parts) + "/?")
