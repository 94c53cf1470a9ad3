"""Statuses of tests in the logs of the test runners of SWE-bench's repositories. Pure, and linear in the log.

The formats overlap and are odd in places. Each oddity is that of the official harness, with which the lists of tests in
the rows were made. A status is the printed word: `verified.py` says what it counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

PASSED, FAILED, SKIPPED, ERROR, XFAIL = "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL"
STATUSES = (FAILED, PASSED, SKIPPED, ERROR, XFAIL)

Statuses = dict[str, str]
Parser = Callable[[str], Statuses]

_COUNT = re.compile(r"^\[\d+\]$")
_COLOUR = re.compile(r"\[\d+m")
_CONTROL = dict.fromkeys(range(1, 32))
_MOUSE_BUTTONS = (("MouseButton.LEFT", "1"), ("MouseButton.RIGHT", "3"))


def parse_pytest(log: str) -> Statuses:
    """Pytest's summary (`-rA`): `STATUS id`, the id up to its first space."""
    return {words[1]: words[0] for words in _summary(log.split("\n"))}


def parse_pytest_options(log: str) -> Statuses:
    """The same, with parameters that are a path shortened to its last part: `test[/a/b]` is `test[/b]`."""
    return {_shortened(words[1]): words[0] for words in _summary(log.split("\n"))}


def parse_matplotlib(log: str) -> Statuses:
    """The same, with mouse buttons as numbers, as they were named when the rows were made."""
    for name, number in _MOUSE_BUTTONS:
        log = log.replace(name, number)
    return parse_pytest(log)


def parse_pytest_colours(log: str) -> Statuses:
    """Pytest's summary with colours, and ids with spaces; also `id STATUS`, as older versions print it."""
    statuses: Statuses = {}
    for coloured in log.split("\n"):
        line = _COLOUR.sub("", coloured).translate(_CONTROL)
        if line.startswith(STATUSES):
            if line.startswith(FAILED):
                line = line.split(" - ", 1)[0]
            words = line.split()
            if len(words) > 1 and not _is_count(words):
                statuses[" ".join(words[1:])] = words[0]
        elif line.endswith(STATUSES):
            words = line.split()
            if len(words) > 1:
                statuses[" ".join(words[:-1])] = words[-1]
    return statuses


def parse_seaborn(log: str) -> Statuses:
    """Pytest's summary of failed and passed tests; also `id PASSED ...`."""
    statuses: Statuses = {}
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith(FAILED):
            statuses[words[1]] = FAILED
        elif f" {PASSED} " in line:
            if words[1] == PASSED:
                statuses[words[0]] = PASSED
        elif line.startswith(PASSED):
            statuses[words[1]] = PASSED
    return statuses


def parse_sympy(log: str) -> Statuses:
    """The runner of sympy: `test_name ok`, and headings `____ file.py:test_name ____` of failures."""
    statuses: Statuses = {}
    lines = log.split("\n")
    for line in lines:
        # The name is between the first and the last space of a heading.
        title, space, _ = line.partition(" ")[2].rpartition(" ")
        if space and ".py:" in title:
            statuses[title] = FAILED
    endings = {" E": ERROR, " F": FAILED, " ok": PASSED}
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("test_"):
            for ending, status in endings.items():
                if stripped.endswith(ending):
                    statuses[stripped.split()[0]] = status
    return statuses


_VERSION_TEST = "--version is equivalent to version"
_DJANGO_PASSED = (" ... ok", " ... OK", " ...  OK")
_MIGRATIONS = "Applying sites.0002_alter_domain_unique...test_no_migrations"
_INTERRUPTED = re.compile(
    r"\s\.\.\.\s(?=(Testing against Django installed in |Internal Server Error: /"
    r"|System check identified no issues \(0 silenced\)))"
)
_SILENCED = re.compile(r" silenced\)\.\nok$", re.MULTILINE)
_OK_LINE = re.compile(r"\nok$", re.MULTILINE)


def parse_django(log: str) -> Statuses:
    """The runner of Django at verbosity 2: `name ... ok`, sometimes with output of the test in between."""
    statuses: Statuses = {}
    last: str | None = None
    for raw in log.split("\n"):
        line = raw.strip()
        if _VERSION_TEST in line:
            statuses[_VERSION_TEST] = PASSED
        if " ... " in line:
            last = line.split(" ... ", 1)[0]
        line = _note_django_pass(line, statuses)
        if " ... skipped" in line:
            statuses[line.split(" ... skipped", 1)[0]] = SKIPPED
        for status, word in ((FAILED, "FAIL"), (ERROR, "ERROR")):
            if line.endswith(f" ... {word}"):
                statuses[line.split(f" ... {word}", 1)[0]] = status
            if line.startswith(f"{word}:") and len(words := line.split(None, 2)) > 1:
                statuses[words[1]] = status
        if line.startswith("ok") and last is not None:
            statuses[last] = PASSED  # it printed something before its `ok`
    for name in _interrupted(log):
        statuses[name] = PASSED
    return statuses


def _note_django_pass(line: str, statuses: Statuses) -> str:
    """Note a line that ends in `... ok`; returns the line, without the output of a migration before it."""
    for ending in _DJANGO_PASSED:
        if line.endswith(ending):
            if line.startswith(_MIGRATIONS):
                line = line.split("...", 1)[-1].strip()
            statuses[line.rsplit(ending, 1)[0]] = PASSED
            break
    return line


def _interrupted(log: str) -> Iterator[str]:
    """Yield names of tests whose `ok` comes after certain output of several lines."""
    # Each kind of output is searched for separately, and its last test before it. Line boundaries are kept from one
    # match to the next: a line may be as long as the log.
    ends = {"T": 0, "I": 0, "S": 0}
    has_more = True
    start = searched = line_end = 0
    for found in _INTERRUPTED.finditer(log):
        start = max(start, log.rfind("\n", searched, found.start()) + 1)
        searched = found.start()
        kind, at = found[1][0], found.end(1)
        if start < ends[kind] or (kind == "T" and not has_more):
            continue
        if line_end < at:
            line_end = log.find("\n", at) % (len(log) + 1)
        match kind:
            case "T":
                end = _SILENCED.search(log, at)
                has_more = end is not None
            case "I":
                end = _OK_LINE.match(log, line_end) if line_end > at and log[line_end - 1] == "/" else None
            case _:
                end = _OK_LINE.match(log, at)
        if end is not None:
            ends[kind] = end.end()
            yield log[start : found.start()]


def _summary(lines: list[str]) -> Iterator[list[str]]:
    """Yield the words of lines of pytest's summary: the status, and the id."""
    for line in lines:
        if not line.startswith(STATUSES):
            continue
        words = (line.replace(" - ", " ") if line.startswith(FAILED) else line).split(None, 2)
        if len(words) > 1 and not _is_count(words):
            yield words


def _is_count(words: list[str]) -> bool:
    """True for `SKIPPED [3] path:line: reason`, which names no test."""
    return words[0] == SKIPPED and _COUNT.match(words[1]) is not None


def _shortened(name: str) -> str:
    start, end = name.find("["), name.rfind("]")
    if not 0 <= start < end:
        return name
    option = name[start + 1 : end]
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = f"/{option.rsplit('/', 1)[-1]}"
    return f"{name[:start]}[{option}]"


PARSERS: Mapping[str, Parser] = {
    **dict.fromkeys(
        ("astroid", "flask", "marshmallow", "pvlib", "pytest", "pyvista", "sqlfluff", "xarray"), parse_pytest
    ),
    **dict.fromkeys(("pydicom", "pylint", "requests"), parse_pytest_options),
    **dict.fromkeys(("astropy", "scikit", "sphinx"), parse_pytest_colours),
    "django": parse_django,
    "matplotlib": parse_matplotlib,
    "seaborn": parse_seaborn,
    "sympy": parse_sympy,
}
"""Parsers by the name of a row's `log_parser`, without its `parse_log_`."""
