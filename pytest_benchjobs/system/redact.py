"""Redaction of secrets in everything that is written."""

from __future__ import annotations

import base64
import dataclasses
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping

MIN_LENGTH = 6
"""Fewest characters of a secret to redact; shorter values would mangle logs."""
UNMISTAKABLE = 16
"""Fewest characters of a value that is no ordinary word."""
_LINE_LENGTH = 16
_LONGEST_PLACEHOLDER = 12
_COMPILED_LIMIT = 64
_SWITCH = re.compile(r"(?i)true|false|yes|no|on|off")
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}(\.[0-9]+)?")
_WORD = r"(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,15})"
_WORDS = re.compile(rf"{_WORD}(?:[\W_]+{_WORD})*[\W_]*[0-9]{{0,4}}[\W_]*")
_KEY_NAME = re.compile(r"(?i)(^|_)(key|token)s?($|_)")
_COUNT_NAME = re.compile(r"(?i)(^|_)tokens($|_)")
_SECRET_NAME = re.compile(r"(?i)(^|_)(api_?)?(key|token|secret|password|passwd|pwd|credentials?|auth)s?($|_)")


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """Pattern of secrets.

    It has no look-around, so that it matches the same in the pieces of a stream, and matches no line end.
    """

    name: str
    literals: tuple[bytes, ...]
    """Literals of which every match has one."""
    expression: bytes
    longest: int
    """Most bytes of a match."""
    escaped: bool = False
    """True if the literals are escaped characters, as `_escapes` lists those of a text."""


PATTERNS = (
    Pattern("api-key", (b"sk-",), rb"sk-[A-Za-z0-9_-]{20,200}", 203),
    Pattern(
        "github-token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[A-Za-z0-9]{36,200}", 204
    ),
    Pattern("google-key", (b"AIza",), rb"AIza[A-Za-z0-9_-]{35}", 39),
    Pattern("aws-key", (b"AKIA",), rb"AKIA[A-Z0-9]{16}", 20),
)
"""Patterns of secrets that are not known by value."""


def looks_secret(name: str, value: str) -> bool:
    """Return whether a variable holds a secret, such as `OPENAI_API_KEY=sk-...`.

    Switches, numbers too short to be redacted, and numbers of tokens (`MAX_TOKENS=200000`) are not secrets.
    """
    if _SWITCH.fullmatch(value):
        return False
    if _NUMBER.fullmatch(value):
        if len(value) < MIN_LENGTH:
            return False
        name = _COUNT_NAME.sub("_", name)
    return _SECRET_NAME.search(name) is not None


def is_wordy(value: str) -> bool:
    """Return whether a value is made of words, and a few digits after them: `EMPTY`, `lm-studio`, `token-abc123`."""
    return _WORDS.fullmatch(value) is not None


def is_placeholder(value: str) -> bool:
    """Return whether a value stands in the place of a key: a key is random."""
    return len(value) < MIN_LENGTH or (len(value) <= _LONGEST_PLACEHOLDER and is_wordy(value))


class Redactor:
    """Replaces secrets by `[redacted:NAME]`, also if they are quoted for URLs, HTML or JSON, or in base64.

    JSON may be nested in JSON: a tool's arguments are a string, and so is its output. With `escapes`, any character of
    a secret may be escaped, also those that need not be. Looking for that takes too long for logs.
    """

    def __init__(
        self, values: Mapping[str, str], patterns: Iterable[Pattern] = PATTERNS, *, escapes: bool = False
    ) -> None:
        forms: dict[bytes, Pattern] = {}
        for name, value in values.items():
            if _KEY_NAME.search(name) and is_placeholder(value):
                continue
            for expression, literals, longest in _forms(value):
                forms.setdefault(expression, Pattern(name, literals, expression, longest))
            if escapes and len(value.strip()) >= MIN_LENGTH:
                expression, literals, longest = _escaped(value.strip())
                forms.setdefault(expression, Pattern(name, literals, expression, longest, escaped=True))
        # A secret that begins with another one comes before it.
        ordered = sorted(forms.values(), key=lambda search: search.longest, reverse=True)
        self._searches = [*ordered, *patterns]
        self.longest = max((search.longest for search in self._searches), default=0)
        self._escapes = escapes
        self._in_lines = [
            form[:_LINE_LENGTH] for value in values.values() for form in _base64_forms(_bytes(value))
        ]
        self._has_lines = any("\n" in value for value in values.values())
        self._compiled: dict[tuple[int, ...], _Replacing] = {}

    def redact(self, data: bytes) -> bytes:
        """Copy `data` without secrets."""
        replacing = self._replacing(data)
        return data if replacing is None else replacing.expression.sub(replacing.replacement, data)

    def redact_text(self, text: str) -> str:
        """Copy `text` without secrets."""
        encoded = text.encode("utf-8", "surrogatepass")
        return self.redact(encoded).decode("utf-8", "surrogatepass")

    def stream(self, sink: Callable[[bytes], object]) -> RedactedStream:
        """Return a stream that redacts pieces, wherever they begin and end."""
        return RedactedStream(self, sink)

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the certain part of `data`, redacted, and the rest, to be checked again with the following data."""
        certain = len(data) - self.longest
        if certain <= 0:
            return b"", data
        replacing = self._replacing(data)
        if replacing is None:
            return data[:certain], data[certain:]
        pieces = []
        position = 0
        for match in replacing.expression.finditer(data):
            # A match that starts here ends within the data, so following data cannot change it.
            if match.start() >= certain:
                break
            pieces += [data[position : match.start()], replacing.replacement(match)]
            position = match.end()
        pieces.append(data[position : max(position, certain)])
        return b"".join(pieces), data[max(position, certain) :]

    def whole_lines(self, data: bytes) -> int:
        """Return how much of `data`, which ends with a line, holds no beginning of a secret that may go on after it.

        Only what has several lines itself goes on, and base64, which programs break into lines.
        """
        end = 0 if self._has_lines or self._escapes else data.rfind(b"\n") + 1
        if not end or not self._in_lines:
            return end
        joined = data[:end].replace(b"\r\n", b"").replace(b"\n", b"").replace(b" ", b"")
        may_go_on = b"\\n" in joined or any(
            begin in joined or any(joined.endswith(begin[:length]) for length in range(1, len(begin)))
            for begin in self._in_lines
        )
        return 0 if may_go_on else end

    def places(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where each secret begins and ends."""
        if (replacing := self._replacing(data)) is not None:
            yield from (match.span() for match in replacing.expression.finditer(data))

    def _replacing(self, data: bytes) -> _Replacing | None:
        # A regular expression of all patterns runs at 2 MB/s, and an agent may print gigabytes. Searching for each
        # literal is a hundred times as fast, and usually there is none.
        escapes = _escapes(data) if self._escapes else frozenset()
        found = tuple(
            number
            for number, search in enumerate(self._searches)
            if any(literal in (escapes if search.escaped else data) for literal in search.literals)
        )
        if not found:
            return None
        replacing = self._compiled.get(found)
        if replacing is None:
            if len(self._compiled) >= _COMPILED_LIMIT:
                self._compiled.clear()
            replacing = self._compiled[found] = _Replacing([self._searches[number] for number in found])
        return replacing


class _Replacing:
    def __init__(self, searches: list[Pattern]) -> None:
        self.expression = re.compile(b"|".join(b"(%b)" % search.expression for search in searches))
        self._names = [search.name for search in searches]

    def replacement(self, match: re.Match[bytes]) -> bytes:
        assert match.lastindex is not None  # noqa: S101  every alternative is a group
        return f"[redacted:{self._names[match.lastindex - 1]}]".encode("utf-8", "replace")


class RedactedStream:
    """Stream that holds back as many bytes as a secret may have, so that one in two pieces is found.

    Lines after which no secret can go on are passed on at once: people read the log of an agent that is at work.
    """

    def __init__(self, redactor: Redactor, sink: Callable[[bytes], object]) -> None:
        self._redactor = redactor
        self._sink = sink
        self._held = b""

    def write(self, data: bytes) -> None:
        """Pass the certain part on."""
        certain, held = self._redactor.split(self._held + data)
        lines = self._redactor.whole_lines(held)
        certain, self._held = certain + self._redactor.redact(held[:lines]), held[lines:]
        if certain:
            self._sink(certain)

    def close(self) -> None:
        """Pass the rest on."""
        rest, self._held = self._redactor.redact(self._held), b""
        if rest:
            self._sink(rest)


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _forms(value: str) -> Iterator[tuple[bytes, tuple[bytes, ...], int]]:
    """Yield each form of a secret: an expression, literals of which a match has one, and its most bytes."""
    whole = _bytes(value)
    if len(whole.strip()) < MIN_LENGTH:
        return
    texts = [
        value,
        value.strip(),
        *(line.strip() for line in value.splitlines() if len(line.strip()) >= _LINE_LENGTH),
    ]
    for form in {*_base64_forms(whole)}:
        yield _wrapped(form)
    literals = {whole, whole.strip()}
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        quoted = {
            urllib.parse.quote(raw, safe=""),
            urllib.parse.quote(raw),
            urllib.parse.quote_plus(raw),
        }
        literals |= {raw, *(form.encode() for form in quoted)}
        literals |= {_ESCAPED_BYTE.sub(lambda match: match[0].lower(), form).encode() for form in quoted}
        if _SPECIAL.search(text):
            yield _quoted(text)
    yield from ((re.escape(form), (form,), len(form)) for form in literals if len(form) >= MIN_LENGTH)


def _wrapped(form: bytes) -> tuple[bytes, tuple[bytes, ...], int]:
    """Yield forms of base64 that is broken into lines of 64 or 76 characters, where one of two neighbours is whole."""
    if len(form) < 2 * _LINE_LENGTH:
        return re.escape(form), (form,), len(form)
    pieces = form[:_LINE_LENGTH], form[_LINE_LENGTH : 2 * _LINE_LENGTH]
    characters = (re.escape(form[at : at + 1]) for at in range(len(form)))
    return rb"(?:\r?\n|\\n| )?".join(characters), pieces, 3 * len(form)


_ESCAPED_BYTE = re.compile("%[0-9A-F]{2}")
_SPECIAL = re.compile(r"[^ !#$%()*+,.0-9:;=?@A-Z\[\]^_`a-z{|}~-]")
"""Characters that JSON or HTML may escape."""
_SHORT = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}
_ENTITIES = {"&": b"&amp;", "<": b"&lt;", ">": b"&gt;", '"': b"&(?:quot|#34);", "'": b"&(?:#0?39|#x27|apos);"}
_QUOTED = 15
"""Backslashes before a character that was quoted four times. Each quoting doubles them and adds one."""


def _quoted(text: str) -> tuple[bytes, tuple[bytes, ...], int]:
    """Return the form of a text that was quoted for JSON up to four times, or for HTML."""
    expression, longest, run = b"", 0, 0
    for char in text:
        if char == "\\":
            run += 1
            continue
        unit, length = _unit(run, char)
        expression += unit
        longest += length
        run = 0
    if run:
        expression += _backslashes(run, (_QUOTED + 1) * run)
        longest += (_QUOTED + 1) * run
    plain = max(_SPECIAL.split(text), key=len).encode()
    if plain:
        return expression, (plain,), longest
    first = next((char for char in text if char != "\\"), "\\")
    units = {form.encode() for code in _units(first) for form in (f"u{code:04x}", f"u{code:04X}")}
    named = {_SHORT[first]} if first in _SHORT else set()
    named |= {b"&"} if first in _ENTITIES else set()
    return expression, (first.encode("utf-8", "surrogatepass"), *sorted(units | named)), longest


def _unit(run: int, char: str) -> tuple[bytes, int]:
    """Return the expression for backslashes and the character after them, and the most bytes of a match."""
    raw = char.encode("utf-8", "surrogatepass")
    most = (_QUOTED + 1) * run
    if not _SPECIAL.match(char):
        return _backslashes(run, most) + re.escape(raw), most + len(raw)
    # A line break may be literal or \\n; a quotation mark literal or behind a backslash.
    plain = _backslashes(run, most + (0 if char in _SHORT else _QUOTED)) + re.escape(raw)
    ways = [plain]
    if char in _SHORT:
        ways.append(_backslashes(run + 1, most + _QUOTED) + _SHORT[char])
    if char in _ENTITIES:
        ways.append(_backslashes(run, most) + _ENTITIES[char])
    codes = b"".join(
        _backslashes(1 if number else run + 1, (0 if number else most) + _QUOTED)
        + b"u"
        + _any_case(f"{code:04x}")
        for number, code in enumerate(_units(char))
    )
    return b"(?:%b)" % b"|".join([*ways, codes]), most + 2 * (_QUOTED + 5)


def _escaped(text: str) -> tuple[bytes, tuple[bytes, ...], int]:
    """Return the form of a text of which any characters are escaped, for JSON, URLs or HTML."""
    expression, longest, literals = b"", 0, set[bytes]()
    for char in text:
        raw = char.encode("utf-8", "surrogatepass")
        ways = [
            re.escape(raw),
            b"".join(rb"\\{1,%d}u" % _QUOTED + _any_case(f"{code:04x}") for code in _units(char)),
            b"".join(b"%" + _any_case(f"{byte:02x}") for byte in raw),
            b"&#0{0,5}%d;" % ord(char),
            b"&#[xX]0{0,5}%b;" % _any_case(f"{ord(char):x}"),
        ]
        expression += b"(?:%b)" % b"|".join(ways)
        longest += 2 * (_QUOTED + 5)
        literals |= {
            b"\\u%04x" % _units(char)[0],
            b"%%%02x" % raw[0],
            b"&#%d" % ord(char),
            b"&#x%x" % ord(char),
        }
    return expression, tuple(sorted(literals)), longest


_ESCAPE = re.compile(rb"\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|&#0{0,5}([0-9]+|[xX]0{0,5}[0-9A-Fa-f]+)")


def _escapes(data: bytes) -> frozenset[bytes]:
    """Return the escaped characters of a text, each once: in lower case, without zeros that change nothing."""
    found = {match[0] if match[1] is None else b"&#" + match[1] for match in _ESCAPE.finditer(data)}
    return frozenset(re.sub(b"^&#x0+", b"&#x", escape.lower()) for escape in found)


def _backslashes(least: int, most: int) -> bytes:
    return rb"\\{%d,%d}" % (least, most) if most else b""


def _units(char: str) -> list[int]:
    """Return the character in UTF-16, as JSON writes it."""
    data = char.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def _any_case(digits: str) -> bytes:
    return "".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in digits).encode()


def _base64_forms(value: bytes) -> Iterator[bytes]:
    # Three alignments: `user:secret` in base64 contains the base64 of `secret` at one of three shifts.
    # Characters that also depend on a neighbour are left out.
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + value)
        first = -(-shift * 8 // 6)
        last = (shift + len(value)) * 8 // 6
        yield encoded[first:last]
        yield encoded[first:last].translate(bytes.maketrans(b"+/", b"-_"))
