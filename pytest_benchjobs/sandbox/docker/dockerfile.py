"""Reading and rewriting the images that a Dockerfile takes from others."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping

_DIRECTIVE = re.compile(r"^\s*#\s*escape\s*=\s*(\S)", re.IGNORECASE)
_PARSER_LINE = re.compile(r"^\s*#\s*\w+\s*=")
_ARG = re.compile(r"^\s*ARG\s+(.*)", re.IGNORECASE | re.DOTALL)
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?", re.IGNORECASE)
_COPY = re.compile(r"^\s*(?:COPY|ADD)\s+(?:--\S+\s+)*?--from=(?P<image>\S+)", re.IGNORECASE)
_COPIES = re.compile(r"^\s*(?P<name>COPY|ADD)\s+(?:--\S+\s+)*(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_RUN = re.compile(r"^\s*RUN(?P<options>(?:\s+--\S+)+)", re.IGNORECASE)
_MOUNT_FROM = re.compile(r"--mount=(?:\S*,)?from=(?P<image>[^,\s]+)")
_HEREDOC = re.compile(r"<<(-?)\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2")
_HEREDOC_USERS = re.compile(r"^\s*(RUN|COPY|ADD)\b", re.IGNORECASE)
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_BLANK_INSIDE = re.compile(r"\W\W|^\W|\W$")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^}]*))?\})")

AUTOMATIC = frozenset(
    f"{of}{what}" for of in ("TARGET", "BUILD") for what in ("PLATFORM", "OS", "ARCH", "VARIANT")
)
"""Variables that BuildKit sets by itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """A place in a Dockerfile that names an image of somebody else."""

    start: int
    written: str
    image: str
    """With its variables filled in, as the builder does it."""
    unset: tuple[str, ...] = ()
    """Variables in it that have no value."""

    @property
    def complete(self) -> bool:
        """True if it may name an image, and is not what is left of a name where a variable has no value."""
        is_partial = self.unset and _BLANK_INSIDE.search(self.image)
        return bool(self.image) and self.image.isascii() and not is_partial


@dataclasses.dataclass(frozen=True, slots=True)
class Copied:
    """A source of a `COPY` or `ADD` in the build context."""

    line: int
    instruction: str
    source: str


def base_images(text: str, arguments: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the images the Dockerfile starts from, copies from or mounts; not its own stages."""
    return tuple(dict.fromkeys(found.image for found in references(text, arguments or {}) if found.complete))


def substitute(
    text: str, image_map: Mapping[str, str], arguments: Mapping[str, str] | None = None
) -> tuple[str, dict[str, str]]:
    """Return the Dockerfile with its base images mapped, and what was replaced by what."""
    replaced: dict[str, str] = {}
    # From the end, so that the places before stay where they are.
    for found in reversed(list(references(text, arguments or {}))):
        other = lookup(found.image, image_map) if found.complete else None
        if other is not None and other != found.image:
            text = text[: found.start] + other + text[found.start + len(found.written) :]
            replaced[found.image] = other
    return text, dict(reversed(replaced.items()))


def lookup(image: str, image_map: Mapping[str, str]) -> str | None:
    """Look an image up in the map, however either of them is spelled (`ubuntu`, `docker.io/library/ubuntu`)."""
    if image in image_map:
        return image_map[image]
    wanted = canonical(image)
    return next((to for name, to in image_map.items() if canonical(name) == wanted), None)


def canonical(image: str) -> str:
    """The full name of an image: registry, repository, and tag or digest."""
    name = image
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not ("." in first or ":" in first or first == "localhost"):
        name = f"docker.io/{name}"
    if "@" not in name and ":" not in name.rpartition("/")[2]:
        name += ":latest"
    return name


def familiar(image: str) -> str:
    """The name of an image without what an engine adds to one that names no registry: Podman does in all its lists."""
    return re.sub(r"^(docker\.io/library|docker\.io|localhost)/", "", image)


def references(text: str, arguments: Mapping[str, str]) -> Iterator[Reference]:
    """Yield every place that names an image of somebody else, in order.

    A variable in a `FROM` has the value of the build argument, else the default of the `ARG` before the first `FROM`.
    Those of `AUTOMATIC` are taken from `arguments` undeclared.
    """
    stages: set[str] = set()
    values = {name: value for name, value in arguments.items() if name in AUTOMATIC}
    staged = False
    for offset, line in _instructions(text):
        if match := _FROM.match(line):
            staged = True
            image, unset = _expand(match["image"], values)
            if image.lower() not in {"scratch", *stages}:
                yield Reference(offset + match.start("image"), match["image"], image, unset)
            if match["stage"]:
                stages.add(match["stage"].lower())
        elif not staged and (match := _ARG.match(line)):
            _declare(match[1], arguments, values)
        else:
            named = [match] if (match := _COPY.match(line)) else []
            if match := _RUN.match(line):
                named += _MOUNT_FROM.finditer(line, *match.span("options"))
            for match in named:
                image = match["image"]
                # Builders fill in no variables here.
                if not ("$" in image or image.isdigit() or image.lower() in stages):
                    yield Reference(offset + match.start("image"), image, image)


def copied(text: str, arguments: Mapping[str, str]) -> Iterator[Copied]:
    """Yield what a Dockerfile copies of its context, with arguments filled in."""
    values: dict[str, str] = {}
    for offset, line in _instructions(text):
        if match := _ARG.match(line):
            _declare(match[1], arguments, values)
        elif (match := _COPIES.match(line)) and not _COPY.match(line):
            number = text.count("\n", 0, offset) + 1
            for word in _words(match["rest"])[:-1]:
                if not word.startswith("<<"):
                    yield Copied(number, match["name"].upper(), _expand(word, values)[0])


def _words(rest: str) -> list[str]:
    """Return the words of an instruction, in either of its forms."""
    with contextlib.suppress(ValueError):
        found = json.loads(rest)
        return list(map(str, found)) if isinstance(found, list) else []
    return _WORD.findall(rest)


def _declare(written: str, arguments: Mapping[str, str], values: dict[str, str]) -> None:
    """Note what `ARG` gives the names it declares."""
    for word in _WORD.findall(written):
        name, equals, default = word.partition("=")
        if name in arguments:
            values[name] = arguments[name]
        elif equals:
            values[name] = _expand(default, values)[0]


def _expand(word: str, values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return a word without its quotes and with its variables filled in, and those that have no value."""
    unset: list[str] = []

    def value(match: re.Match[str]) -> str:
        name, operator, other = match[1] or match[2], match[3] or "", match[4] or ""
        known = values.get(name)
        there = bool(known) if operator.startswith(":") else known is not None
        if operator.endswith("+"):
            return _expand(other, values)[0] if there else ""
        if operator.endswith("-") and not there:
            return _expand(other, values)[0]
        if known is None:
            unset.append(name)
        return known or ""

    parts = []
    for part in re.findall(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^'"\\]+|.""", word, re.DOTALL):
        if part[0] == "'" and len(part) > 1:
            parts.append(part[1:-1])
        elif part[0] == "\\":
            parts.append(part[1:])
        else:
            inner = part[1:-1] if part[0] == '"' and len(part) > 1 else part
            parts.append(_VARIABLE.sub(value, inner))
    return "".join(parts), tuple(unset)


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each instruction starts, and the instruction in one line, every character in its place.

    Continuations and comments inside are blanks. The inside of a here-document is no instruction.
    """
    escape = "\\"
    waiting: list[tuple[str, bool]] = []
    parts: list[str] = []
    preamble = True
    start = end = 0
    for line in text.split("\n"):
        begin, end = end, end + len(line) + 1
        if waiting:
            word, tabs = waiting[0]
            bare = line.rstrip("\r")
            if (bare.lstrip("\t") if tabs else bare) == word:
                waiting.pop(0)
            continue
        if preamble and (match := _DIRECTIVE.match(line)):
            escape = match[1]
        preamble = preamble and _PARSER_LINE.match(line) is not None
        if not line.strip() or line.lstrip().startswith("#"):
            if parts:
                parts.append(" " * (end - begin))
            continue
        if not parts:
            start = begin
        body = line.rstrip()
        continued = body.endswith(escape)
        parts.append((body[:-1] if continued else body).ljust(end - begin))
        if continued:
            continue
        instruction = "".join(parts)
        parts.clear()
        if _HEREDOC_USERS.match(instruction):
            waiting = [(match[3], bool(match[1])) for match in _HEREDOC.finditer(instruction)]
        yield start, instruction
    if parts:
        yield start, "".join(parts)
