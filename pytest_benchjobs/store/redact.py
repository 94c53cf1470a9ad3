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
_SECRET_NAME = re.compile(r"(?i)(^|_)(api_?)?(key|token|secret|password|passwd|pwd|credentials?|auth)s?($|_)")


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """What a secret nobody told us about looks like.

    No look-around: it must match the same in the pieces of a stream.
    """

    name: str
    expression: bytes
    longest: int
    """Bytes a match can have at most."""


PATTERNS = (
    Pattern("api-key", rb"sk-[A-Za-z0-9_-]{20,200}", 203),
    Pattern("github-token", rb"gh[pousr]_[A-Za-z0-9]{36,200}", 204),
    Pattern("google-key", rb"AIza[A-Za-z0-9_-]{35}", 39),
    Pattern("aws-key", rb"AKIA[A-Z0-9]{16}", 20),
)


def looks_secret(name: str) -> bool:
    """Whether a variable of this name holds something that must not be shown, such as `OPENAI_API_KEY`."""
    return _SECRET_NAME.search(name) is not None


class Redactor:
    """Replaces secrets by `[redacted:NAME]`, also where they appear quoted for URLs or JSON, or in base64."""

    def __init__(self, values: Mapping[str, str], patterns: Iterable[Pattern] = PATTERNS) -> None:
        needles: dict[bytes, str] = {}
        for name, value in values.items():
            for form in _forms(value):
                needles.setdefault(form, name)
        ordered = sorted(needles, key=len, reverse=True)
        self._names = [needles[needle] for needle in ordered]
        self.longest = max((len(needle) for needle in ordered), default=0)
        groups = [re.escape(needle) for needle in ordered]
        for pattern in patterns:
            self._names.append(pattern.name)
            groups.append(pattern.expression)
            self.longest = max(self.longest, pattern.longest)
        self._expression = re.compile(b"|".join(b"(%b)" % group for group in groups)) if groups else None

    def redact(self, data: bytes) -> bytes:
        """Copy `data` without secrets."""
        return data if self._expression is None else self._expression.sub(self._replacement, data)

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
        if self._expression is None:
            return data, b""
        pieces = []
        position = 0
        for match in self._expression.finditer(data):
            # A match that starts here ends within the data, so nothing that follows could change it.
            if match.start() >= certain:
                break
            pieces += [data[position : match.start()], self._replacement(match)]
            position = match.end()
        pieces.append(data[position : max(position, certain)])
        return b"".join(pieces), data[max(position, certain) :]

    def _replacement(self, match: re.Match[bytes]) -> bytes:
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
