"""`ast_grep`: counts patterns in the syntax trees of source files, on this machine, with the program `ast-grep`.

The files are copied out of the container, so the image needs nothing, and nothing in the container can change the
program. They are data of an agent that may want to hide code:

    ignore files, hidden directories    are not respected
    a project file, sgconfig.yml        ast-grep is given another one, without native libraries
    comments that silence a rule        are taken out of the copies
    links to files, invalid UTF-8       the copies are plain files of valid UTF-8
    names written otherwise             the copies have them as the language reads them (`source_text`)
    more than can be searched           a pattern counts as forbidden code wherever not everything was searched
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import itertools
import json
import posixpath
import re
import shutil
import sysconfig
import tempfile
import tokenize
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictInt, StrictStr, model_validator

from ..model.base import Model
from ..model.environ import program_environment
from ..model.errors import InputError, ScorerCrashed, ScorerTimeout
from ..model.scenario import ScorerSpec
from ..sandbox.host_command import LocalCommand
from ..sandbox.protocol import Stopping
from ..store.text import clean
from ..system.temporary import temporary_directory
from .params import parsed
from .protocol import Graded, ScoringContext

PROGRAM = "ast-grep"
_FILES_LIMIT = 64 * 1024 * 1024
_OUTPUT_LIMIT = 64 * 1024 * 1024
_ERRORS_SHOWN = 500
_SILENCERS = (b"ast-grep-ignore", b"ast-grep-ignorE")
"""The word of a comment that silences rules, and what takes its place: of the same length."""
_HARMLESS = ("a link that points outside, or to nothing", "neither a file nor a directory")
"""Ends of notes about things that cannot be source files."""
_SEARCH_ALL = ("hidden", "dot", "exclude", "global", "parent", "vcs")
_CONFIGURATION = "ruleDirs: []\n"
_ENCODINGS = frozenset({"utf-8", "utf-8-sig", "ascii", "iso-8859-1", "iso8859-15", "cp1252"})
"""Encodings of Python files that are read. Others may take long, or are not those of this Python."""
# Looked for where a word begins, so that the time is linear in the text.
_BEYOND_ASCII = re.compile(r"(?<![0-9A-Za-z_])[0-9A-Za-z_]*+[^\x00-\x7f][\w\x80-\U0010ffff]*")
_ESCAPE = re.compile(r"\\\\|\\u+([0-9A-Fa-f]{4})|\\u\{0{0,20}([0-9A-Fa-f]{1,5})\}")
_LONGEST = 1000
"""The most characters of a name that is read: to sort the accents of a long one takes quadratic time."""


class Check(Model):
    """A pattern, and how often it has to be found."""

    pattern: Annotated[StrictStr, Field(min_length=1)] | None = None
    """A pattern of ast-grep, such as `eval($A)`; this or `rule`."""
    rule: dict[str, Any] | None = None
    """A rule object of ast-grep: `{kind: ..., has: ...}`."""
    lang: Annotated[StrictStr, Field(min_length=1)]
    path: Annotated[StrictStr, Field(min_length=1)] = "."
    """File or directory; a relative one starts at the workdir."""
    exclude: tuple[StrictStr, ...] = ()
    """Patterns of paths that are left out."""
    min: Annotated[StrictInt, Field(ge=0)] | None = None
    """The fewest matches; default: 1, or 0 with `max`."""
    max: Annotated[StrictInt, Field(ge=0)] | None = None
    """The most matches; default: any number. 0 forbids the pattern."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.pattern is None) is (self.rule is None):
            raise ValueError("give pattern or rule, one of the two")
        if self.max is not None and self.fewest > self.max:
            raise ValueError(f"no number is at least {self.fewest} and at most {self.max}")
        return self

    @property
    def fewest(self) -> int:
        """The fewest matches."""
        return self.min if self.min is not None else 1 if self.max is None else 0

    @property
    def place(self) -> tuple[str, tuple[str, ...]]:
        """Files to search."""
        return self.path, self.exclude


class Checks(Model):
    """Several checks; the score is the share that hold."""

    checks: Annotated[tuple[Check, ...], Field(min_length=1, max_length=1000)]


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """Matches of the rules in one place."""

    counts: Mapping[str, int]
    """Name of a rule -> matches."""
    gaps: tuple[str, ...] = ()
    """Files that were not searched, with the reason. They may hold a pattern."""


def score_ast_grep(context: ScoringContext) -> Graded:
    """`ast_grep`: the share of the checks in `params` that hold.

    InputError: `params` are wrong, or there is no `ast-grep`. ScorerCrashed: `ast-grep` refuses a rule, or crashes.
    ScorerTimeout: it does not end in time.
    """
    checks, program = _checks(context.spec), _program(context.spec)
    held: list[dict[str, object]] = []
    searched: dict[tuple[str, tuple[str, ...]], Found | None] = {}
    for check in checks:
        if check.place not in searched:
            rules = {f"check-{n}": one for n, one in enumerate(checks) if one.place == check.place}
            searched[check.place] = _search(context, program, check, rules)
    for number, check in enumerate(checks):
        found = searched[check.place]
        shown = clean(f"{check.lang} {check.pattern or json.dumps(check.rule, default=str)}", 200)
        held.append({"check": shown, **_judge(check, found, f"check-{number}")})
    right = sum(entry["holds"] is True for entry in held)
    lines = [f"{'ok' if entry['holds'] else 'NOT'}  {entry['check']}: {entry['why']}" for entry in held]
    return Graded(right / len(held), "\n".join(lines), {"checks": held[:100]})


def check_ast_grep(spec: ScorerSpec) -> None:
    """Check the parameters, and that the program is there. InputError: they are wrong, or it is missing."""
    _checks(spec)
    _program(spec)


def _checks(spec: ScorerSpec) -> Sequence[Check]:
    if "checks" in spec.params:
        return parsed(Checks, spec).checks
    return (parsed(Check, spec),)


def _program(spec: ScorerSpec) -> str:
    """Find `ast-grep`, beside this Python or on PATH. Not `sg`, which is another program on Linux."""
    beside = Path(sysconfig.get_path("scripts")) / PROGRAM
    found = str(beside) if beside.is_file() else shutil.which(PROGRAM)
    if found is None:
        raise InputError(
            f"scorer {spec.name!r} needs the program ast-grep on this machine: "
            "pip install 'pytest-benchjobs[ast-grep]', or npm install -g @ast-grep/cli"
        )
    return found


def _judge(check: Check, found: Found | None, name: str) -> dict[str, object]:
    if found is None:
        return {"holds": False, "matches": None, "why": f"there is no {check.path}"}
    count = found.counts.get(name, 0)
    if count < check.fewest:
        why = f"{count} matches, of at least {check.fewest}"
    elif check.max is not None and count > check.max:
        why = f"{count} matches, of at most {check.max}"
    elif check.max is not None and found.gaps:
        why = f"not all was searched: {found.gaps[0]}"
    else:
        return {"holds": True, "matches": count, "why": f"{count} matches"}
    return {"holds": False, "matches": count, "why": why}


def _search(context: ScoringContext, program: str, check: Check, rules: Mapping[str, Check]) -> Found | None:
    """Search one place by several rules; None: it is not there."""
    with temporary_directory("ast-grep") as directory:
        path = posixpath.normpath(posixpath.join(context.sandbox.workdir, check.path))
        copies = directory / "files" / (posixpath.basename(path) or "root")
        copies.parent.mkdir()
        fetched = context.sandbox.fetch(path, copies, limit=_FILES_LIMIT, exclude=check.exclude)
        is_there = fetched is not None and copies.exists()
        gaps: list[str] = []
        if fetched is not None and is_there:
            gaps = [note for note in fetched.notes if not note.endswith(_HARMLESS)] + _make_plain(copies)
        else:
            # A rule that ast-grep refuses is a mistake of its author, whatever an agent left: never its fault.
            copies.mkdir(exist_ok=True)
        configuration = directory / "sgconfig.yml"
        configuration.write_text(_CONFIGURATION)
        documents = [
            json.dumps({"id": name, "language": one.lang, "rule": one.rule or {"pattern": one.pattern}})
            for name, one in rules.items()
        ]
        arguments = [
            *(program, "scan", "--config", str(configuration), "--inline-rules", "\n---\n".join(documents)),
            *(part for kind in _SEARCH_ALL for part in ("--no-ignore", kind)),
            *("--json=stream", "--inspect", "entity", "--threads", "2", "--", str(copies)),
        ]
        found = _run(context, arguments, directory)
        return dataclasses.replace(found, gaps=(*gaps, *found.gaps)) if is_there else None


def _make_plain(top: Path) -> list[str]:
    """Make every copy a plain file of UTF-8 without comments that silence rules; return what could not be."""
    room, gaps = _FILES_LIMIT, []
    for path in [top] if top.is_file() else sorted(top.rglob("*")):
        if not path.is_file():  # a link to a directory, which is searched where it really is
            continue
        content = path.read_bytes()
        is_link = path.is_symlink()
        if is_link:
            room -= len(content)
            if room < 0:
                gaps.append("links lead to more than can be searched")
                break
            path.unlink()
        try:
            plain = source_text(content, path.suffix).encode("utf-8", "replace").replace(*_SILENCERS)
        except Unreadable:
            gaps.append(f"{path.relative_to(top.parent)}: its encoding is not read")
            plain = b""
        if is_link or plain != content:
            path.write_bytes(plain)
    return gaps


def _run(context: ScoringContext, arguments: Sequence[str], directory: Path) -> Found:
    """Run ast-grep, and count matches as they come: a hostile file can have an endless number of them."""
    name, matches = context.spec.name, _Matches()
    environment = {**program_environment(), "HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    with tempfile.TemporaryFile(dir=directory) as errors:
        command = LocalCommand.start(arguments, directory, environment, matches, stderr=errors)
        result = command.run(context.timeout, None, Stopping(lambda: matches.is_full, lambda _: None, ()))
        errors.seek(0)
        reported = errors.read(_OUTPUT_LIMIT).decode("utf-8", "replace").splitlines()
    if result.timed_out and not matches.is_full:
        raise ScorerTimeout(f"scorer {name!r}: ast-grep did not end within {context.timeout:g} s")
    if result.exit_status not in (0, 1) and not matches.is_full:
        why = clean(
            " ".join(line for line in reported if line and not line.startswith("sg: ")), _ERRORS_SHOWN
        )
        raise ScorerCrashed(
            f"scorer {name!r}: ast-grep ended with status {result.exit_status}: {why or 'no message'}"
        )
    gaps = [clean(line.removeprefix("sg: entity|file|"), 200) for line in reported if ": skipped=" in line]
    return Found(matches.counts, ("there are too many matches", *gaps) if matches.is_full else tuple(gaps))


class _Matches:
    """A sink that counts the matches of each rule, until there are too many to read."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.is_full = False
        self._room = _OUTPUT_LIMIT
        self._rest = bytearray()

    def __call__(self, chunk: bytes) -> None:
        self._room -= len(chunk)
        self.is_full = self._room < 0
        if self.is_full:
            return
        self._rest += chunk
        if b"\n" in chunk:  # looked for here, so that a long line takes no longer than it is long
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
                    self.counts[json.loads(line)["ruleId"]] += 1


class Unreadable(Exception):
    """A file is not in an encoding that is read."""


def source_text(content: bytes, suffix: str) -> str:
    r"""Return the text of a file as the language of its suffix reads it. Unreadable: in another encoding.

    Python                             the declared encoding, and names in NFKC: a wide `eval` is `eval`
    Rust                               names in NFC
    JavaScript, TypeScript, Java, C#   `\u0065val` is `eval`
    """
    read = _READERS.get(suffix)
    return content.decode("utf-8", "replace") if read is None else read(content)


def _python(content: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:  # Python itself does not read it
        encoding = "utf-8"
    if encoding not in _ENCODINGS:
        raise Unreadable
    return _normal(content.decode(encoding, "replace"), "NFKC")


def _normal(text: str, form: Literal["NFC", "NFKC"]) -> str:
    def name(found: re.Match[str]) -> str:
        if len(found[0]) > _LONGEST or unicodedata.is_normalized(form, found[0]):
            return found[0]
        parts = ("".join(part) for _, part in itertools.groupby(found[0], _is_of_name))
        return "".join(unicodedata.normalize(form, part) if _is_of_name(part[0]) else part for part in parts)

    return _BEYOND_ASCII.sub(name, text)


@functools.lru_cache(maxsize=10_000)
def _is_of_name(character: str) -> bool:
    return f"a{character}".isidentifier()


def _unescaped(content: bytes) -> str:
    def character(found: re.Match[str]) -> str:
        one = chr(int(found[1] or found[2] or "0", 16))
        return one if _is_of_name(one) or one == "$" else found[0]

    return _ESCAPE.sub(character, content.decode("utf-8", "replace"))


_READERS: dict[str, Callable[[bytes], str]] = {
    **dict.fromkeys((".py", ".py3", ".pyi", ".bzl"), _python),
    ".rs": lambda content: _normal(content.decode("utf-8", "replace"), "NFC"),
    **dict.fromkeys(
        (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx", ".java", ".cs"), _unescaped
    ),
}
