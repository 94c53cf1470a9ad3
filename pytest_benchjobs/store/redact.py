"""Keeping secrets out of everything that is written."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping

MIN_LENGTH = 6
"""Shorter values are not secrets worth mangling a log for."""
_LINE_LENGTH = 16
_COMPILED_LIMIT = 64
_SWITCH = re.compile(r"(?i)true|false|yes|no|on|off")
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}(\.[0-9]+)?")
_COUNT_NAME = re.compile(r"(?i)(^|_)tokens($|_)")
_SECRET_NAME = re.compile(r"(?i)(^|_)(api_?)?(key|token|secret|password|passwd|pwd|credentials?|auth)s?($|_)")


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """What a secret nobody told us about looks like.

    No look-around: it must match the same in the pieces of a stream.
    """

    name: str
    prefix: bytes
    """How every match begins, literally."""
    rest: bytes
    """A regular expression for what follows."""
    longest: int
    """Bytes a match can have at most."""


PATTERNS = (
    Pattern("api-key", b"sk-", rb"[A-Za-z0-9_-]{20,200}", 203),
    *(Pattern("github-token", b"gh%c_" % kind, rb"[A-Za-z0-9]{36,200}", 204) for kind in b"pousr"),
    Pattern("google-key", b"AIza", rb"[A-Za-z0-9_-]{35}", 39),
    Pattern("aws-key", b"AKIA", rb"[A-Z0-9]{16}", 20),
)


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable holds something that must not be shown, such as `OPENAI_API_KEY=sk-...`.

    A switch does not, nor does a number that is too short to be redacted, nor a number of tokens (`MAX_TOKENS=200000`).
    """
    if _SWITCH.fullmatch(value):
        return False
    if _NUMBER.fullmatch(value):
        if len(value) < MIN_LENGTH:
            return False
        name = _COUNT_NAME.sub("_", name)
    return _SECRET_NAME.search(name) is not None


class Redactor:
    """Replaces secrets by `[redacted:NAME]`, also where they appear quoted for URLs or JSON, or in base64."""

    def __init__(self, values: Mapping[str, str], patterns: Iterable[Pattern] = PATTERNS) -> None:
        names: dict[bytes, str] = {}
        for name, value in values.items():
            for form in _forms(value):
                names.setdefault(form, name)
        ordered = sorted(names, key=len, reverse=True)
        patterns = tuple(patterns)
        self._searches = [
            *(_Search(names[form], form, re.escape(form)) for form in ordered),
            *(_Search(one.name, one.prefix, re.escape(one.prefix) + one.rest) for one in patterns),
        ]
        self.longest = max((*map(len, ordered), *(one.longest for one in patterns)), default=0)
        self._compiled: dict[tuple[int, ...], _Replacing] = {}

    def redact(self, data: bytes) -> bytes:
        """Copy `data` without secrets."""
        replacing = self._replacing(data)
        return data if replacing is None else replacing.expression.sub(replacing.replacement, data)

    def redact_text(self, text: str) -> str:
        """Copy `text` without secrets."""
        encoded = text.encode("utf-8", "surrogatepass")
        return self.redact(encoded).decode("utf-8", "surrogatepass")

    def stream(self, sink: Callable[[bytes], None]) -> RedactedStream:
        """Redact what is written piece by piece, wherever the pieces begin and end."""
        return RedactedStream(self, sink)

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what is certain of `data`, redacted, and the rest, to be seen again with what follows."""
        certain = len(data) - self.longest
        if certain <= 0:
            return b"", data
        replacing = self._replacing(data)
        if replacing is None:
            return data[:certain], data[certain:]
        pieces = []
        position = 0
        for match in replacing.expression.finditer(data):
            # A match that starts here ends within the data, so nothing that follows could change it.
            if match.start() >= certain:
                break
            pieces += [data[position : match.start()], replacing.replacement(match)]
            position = match.end()
        pieces.append(data[position : max(position, certain)])
        return b"".join(pieces), data[max(position, certain) :]

    def _replacing(self, data: bytes) -> _Replacing | None:
        # A regular expression of everything runs at 2 MB/s, and an agent may print gigabytes. Looking for each
        # literal is a hundred times as fast, and mostly there is none.
        found = tuple(number for number, search in enumerate(self._searches) if search.literal in data)
        if not found:
            return None
        replacing = self._compiled.get(found)
        if replacing is None:
            if len(self._compiled) >= _COMPILED_LIMIT:
                self._compiled.clear()
            replacing = self._compiled[found] = _Replacing([self._searches[number] for number in found])
        return replacing


@dataclasses.dataclass(frozen=True, slots=True)
class _Search:
    name: str
    literal: bytes
    """Without this there is no match."""
    expression: bytes


class _Replacing:
    def __init__(self, searches: list[_Search]) -> None:
        self.expression = re.compile(b"|".join(b"(%b)" % search.expression for search in searches))
        self._names = [search.name for search in searches]

    def replacement(self, match: re.Match[bytes]) -> bytes:
        assert match.lastindex is not None  # noqa: S101  every alternative is a group
        return f"[redacted:{self._names[match.lastindex - 1]}]".encode("utf-8", "replace")


class RedactedStream:
    """Holds back as many bytes as a secret may have: one that arrives in two pieces is still found."""

    def __init__(self, redactor: Redactor, sink: Callable[[bytes], None]) -> None:
        self._redactor = redactor
        self._sink = sink
        self._held = b""

    def write(self, data: bytes) -> None:
        """Pass on what is certain."""
        certain, self._held = self._redactor.split(self._held + data)
        if certain:
            self._sink(certain)

    def held(self) -> bytes:
        """Return what would come out if nothing followed."""
        return self._redactor.redact(self._held)

    def close(self) -> None:
        """Pass on the rest."""
        rest, self._held = self.held(), b""
        if rest:
            self._sink(rest)


def _forms(value: str) -> Iterator[bytes]:
    whole = value.encode("utf-8", "surrogatepass")
    texts = [value, *(line.strip() for line in value.splitlines() if len(line.strip()) >= _LINE_LENGTH)]
    forms = {whole, whole.strip(), *_base64_forms(whole)}
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        forms |= {
            raw,
            urllib.parse.quote(raw, safe="").encode(),
            urllib.parse.quote(raw).encode(),
            urllib.parse.quote_plus(raw).encode(),
            json.dumps(text)[1:-1].encode(),
        }
    if len(whole.strip()) >= MIN_LENGTH:
        yield from (form for form in forms if len(form) >= MIN_LENGTH)


def _base64_forms(value: bytes) -> Iterator[bytes]:
    # Three alignments: `user:secret` in base64 does not contain the base64 of `secret`, but one of its
    # shifts. Characters which also depend on a neighbour are left out.
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + value)
        first = -(-shift * 8 // 6)
        last = (shift + len(value)) * 8 // 6
        yield encoded[first:last]
        yield encoded[first:last].translate(bytes.maketrans(b"+/", b"-_"))
