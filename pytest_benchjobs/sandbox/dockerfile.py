"""Reading and rewriting the base images of a Dockerfile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_DIRECTIVE = re.compile(r"^\s*#\s*escape\s*=\s*(\S)", re.IGNORECASE)
_PARSER_LINE = re.compile(r"^\s*#\s*\w+\s*=")
_FROM = re.compile(r"^(\s*FROM\s+(?:--\S+\s+)*)(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_COPY = re.compile(r"^(\s*(?:COPY|ADD)\s(?:.*?\s)?--from=)(\S+)", re.IGNORECASE)
_HEREDOC = re.compile(r"<<(-?)\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\2")
_HEREDOC_USERS = re.compile(r"^\s*(RUN|COPY|ADD)\b", re.IGNORECASE)


def base_images(text: str) -> tuple[str, ...]:
    """Images the Dockerfile starts from or copies from; not its own stages, and none named by a variable."""
    return tuple(dict.fromkeys(image for _, _, image in _references(text)))


def substitute(text: str, image_map: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The Dockerfile with its base images mapped, and what was replaced by what."""
    lines = text.splitlines(keepends=True)
    replaced: dict[str, str] = {}
    for number, column, image in _references(text):
        other = lookup(image, image_map)
        if other is not None and other != image:
            line = lines[number]
            lines[number] = line[:column] + other + line[column + len(image) :]
            replaced[image] = other
    return "".join(lines), replaced


def lookup(image: str, image_map: Mapping[str, str]) -> str | None:
    """What the map says of an image, however either of them is spelled (`ubuntu`, `docker.io/library/ubuntu`)."""
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


def _references(text: str) -> Iterator[tuple[int, int, str]]:
    """Line, column and name of every image of somebody else."""
    stages: set[str] = set()
    for number, line in _instructions(text):
        if match := _FROM.match(line):
            image, stage = match[2], match[3]
            if not ("$" in image or image.lower() == "scratch" or image.lower() in stages):
                yield number, match.start(2), image
            if stage:
                stages.add(stage.lower())
        elif match := _COPY.match(line):
            image = match[2]
            if not ("$" in image or image.isdigit() or image.lower() in stages):
                yield number, match.start(2), image


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """First lines of instructions: neither continuations of one, nor comments, nor the inside of a here-document."""
    escape = "\\"
    waiting: list[tuple[str, bool]] = []
    continued = heading = False
    preamble = True
    for number, line in enumerate(text.splitlines()):
        if waiting:
            word, tabs = waiting[0]
            if (line.lstrip("\t") if tabs else line) == word:
                waiting.pop(0)
            continue
        if preamble and (match := _DIRECTIVE.match(line)):
            escape = match[1]
        preamble = preamble and _PARSER_LINE.match(line) is not None
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not continued:
            yield number, line
            heading = _HEREDOC_USERS.match(line) is not None
        if heading:
            waiting = [(match[3], bool(match[1])) for match in _HEREDOC.finditer(line)]
        continued = line.rstrip().endswith(escape)
