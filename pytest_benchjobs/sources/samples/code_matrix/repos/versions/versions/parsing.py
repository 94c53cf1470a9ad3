"""A version, and its place in the order."""

import functools
import re

_PATTERN = re.compile(
    r"(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)"
    r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+(?P<build>[0-9A-Za-z.-]+))?"
)


@functools.total_ordering
class Version:
    """MAJOR.MINOR.PATCH, with a pre-release and build metadata where there are any."""

    def __init__(self, numbers, pre="", build=""):
        self.numbers = numbers
        self.pre = pre
        self.build = build

    def _key(self):
        # A release comes after its pre-releases.
        return (self.numbers, self.pre == "", self.pre.split("."))

    def __eq__(self, other):
        return self._key() == other._key()

    def __lt__(self, other):
        return self._key() < other._key()

    def __hash__(self):
        return hash((self.numbers, self.pre))

    def __str__(self):
        text = ".".join(map(str, self.numbers))
        text += f"-{self.pre}" if self.pre else ""
        return text + (f"+{self.build}" if self.build else "")


def parse(text):
    """Read a version; a leading `v` is ignored."""
    match = _PATTERN.fullmatch(text.strip().removeprefix("v"))
    if match is None:
        raise ValueError(f"not a version: {text!r}")
    numbers = tuple(int(match[name]) for name in ("major", "minor", "patch"))
    return Version(numbers, match["pre"] or "", match["build"] or "")
