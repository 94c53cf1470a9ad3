"""Entry of the catalogue: origin, content and grading of a benchmark."""

from __future__ import annotations

import dataclasses
import importlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ...model.base import Model, Name
from ...model.errors import InputError
from ...system.cache import cache_directory

if TYPE_CHECKING:
    from ...model.scenario import Scenario
    from ..protocol import ScenarioRef, Source


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError("a relative path without '..' is expected")
    return path


def _in_package(text: str) -> str:
    package, _, path = text.partition(":")
    return f"{package}:{_inside(path)}"


RelativePath = Annotated[str, AfterValidator(_inside)]
"""Path below a directory."""


class GitOrigin(Model, defer_build=True):
    """A commit of a git repository. Its id is the checksum of its whole content."""

    repository: Annotated[str, Field(pattern=r"^(https|ssh|file)://|^git@")]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    paths: tuple[RelativePath, ...] = ()
    """Directories and files of it that are needed; default: all. Their common beginning is left out."""
    placed: dict[RelativePath, RelativePath] = {}
    """Instead of `paths`: path in the repository -> its path here."""

    @property
    def places(self) -> dict[str, str]:
        """Path in the repository -> its path here. Empty: the repository, or the directory of the files."""
        if self.placed:
            return dict(self.placed)
        paths = [path.strip("/") for path in self.paths]
        if len(paths) < 2:
            return dict.fromkeys(paths or [""], "")
        common = posixpath.commonpath(paths)
        return {path: posixpath.relpath(path, common) if common else path for path in paths}

    def __str__(self) -> str:
        return f"{self.repository} at commit {self.commit}"


class FileOrigin(Model, defer_build=True):
    """A file at a URL."""

    url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    """None: it cannot be fetched; the user provides the file."""
    name: Annotated[RelativePath, Field(min_length=1)]
    """Name of the file in the benchmark's directory."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Hexadecimal."""
    bytes: int | None = None

    @model_validator(mode="after")
    def _is_checked(self) -> FileOrigin:
        if self.url is not None and self.url.startswith("http:") and self.sha256 is None:
            raise ValueError("an address without encryption needs a sha256")
        return self


def _several(value: Any) -> Any:
    """`[git]` is one origin, `[[git]]` one of several."""
    return (value,) if isinstance(value, Mapping | GitOrigin) else value


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a job for one benchmark, for the function that opens it."""

    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """All of them, also those that are meant for agents and scorers."""
    own: frozenset[str] = frozenset()
    """Names of those that were given for this benchmark alone."""
    directories: tuple[Path, ...] = ()
    """Directories that relative paths among them start at: the first in which there is such a file."""


class Entry(Model, defer_build=True):
    """One benchmark of the catalogue."""

    name: Name
    version: Name
    title: str
    aliases: tuple[str, ...] = ()
    source: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    """`module:function`; the function takes this entry and the directory of its files, and returns sources.

    If it has `parameters`, the function also takes those of the job.
    """
    parameters: dict[str, str] = {}
    """Parameters by which a job says what the benchmark consists of -> their meaning, in one line."""
    agent: Name | None = None
    """The one agent that its scenarios run with, whichever the job names; None: those of the job."""
    prepare: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """`module:function`, called once with the directory of the fetched files, and the directory to fill."""
    scenarios: int
    """Number of scenarios, as the benchmark's authors count them."""
    homepage: str = ""
    licence: str
    environment: str
    """One line: the container its scenarios run in, or none."""
    scoring: str
    """One line: how a scenario is graded, and when it passes."""
    attempts: Annotated[int, Field(ge=1)] = 1
    """Independent attempts of which its published figures are a mean."""
    confidential: bool = False
    """True if its authors ask that its content be not published."""
    gated: str | None = None
    """Instructions for getting gated data: where, and under what terms."""
    git: Annotated[tuple[GitOrigin, ...], BeforeValidator(_several)] = ()
    files: tuple[FileOrigin, ...] = ()
    bundled: Annotated[str, Field(pattern=r"^[\w.]+:[\w./-]+$"), AfterValidator(_in_package)] | None = None
    """`package:directory` of its files, where they come with an installed package: nothing is fetched."""
    other_rows: tuple[Annotated[str, Field(pattern=r"^\.\w")], ...] = ()
    """Suffixes of files that the user may give instead of the one of `files`, of any version: `prepare` reads them."""
    exceptions: dict[str, str] = {}
    """Scenarios known to be broken -> the reason."""
    published: dict[str, float] = {}
    """Agent and model -> their published score, for comparison."""

    @model_validator(mode="after")
    def _has_an_origin(self) -> Entry:
        if not self.git and not self.files and self.bundled is None:
            raise ValueError("give `git`, `files` or `bundled`: its origin is missing")
        if self.bundled is not None and (self.git or self.files or self.prepare):
            raise ValueError("what is `bundled` is not fetched: leave out `git`, `files` and `prepare`")
        return self

    @property
    def is_fetchable(self) -> bool:
        """True if everything can be fetched without the user."""
        return self.gated is None and all(file.url is not None for file in self.files)

    @property
    def directory(self) -> Path:
        """Its directory in the cache of this machine."""
        return cache_directory("benchmarks") / self.name / self.version

    @property
    def place(self) -> Path:
        """The directory of its files, whether they are there or not.

        Raises InputError: the package that they come with is not installed.
        """
        if self.bundled is None:
            return self.directory / "files"
        package, _, path = self.bundled.partition(":")
        try:
            return Path(str(resources.files(package))) / path
        except ImportError as error:
            raise InputError(f"the files of {self} come with {package}: {error}") from None

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def is_called(self, name: str) -> bool:
        """Return True if a name is its own or an alias; case, `_` and `-` do not matter."""
        return same(name) in map(same, (self.name, *self.aliases))

    def is_meant_by(self, text: str) -> bool:
        """Return True if `NAME` or `NAME@VERSION` refers to it."""
        name, _, version = text.partition("@")
        return version in ("", self.version) and self.is_called(name)

    def sources(self, directory: Path | None = None, given: Parameters | None = None) -> Sequence[Source]:
        """Open it, from its place or from another directory with the same files.

        Raises InputError: something in it is missing or wrong.
        """
        more = (given or Parameters(),) if self.parameters else ()
        made: Sequence[Source] = load(self.source)(self, directory or self.place, *more)
        return tuple(map(Confidential, made)) if self.confidential else made


class Confidential:
    """A source all of whose scenarios are confidential."""

    confidential = True

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the source itself: its path, benchmark, version and warnings."""
        return getattr(self._source, name)

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """List the wanted scenarios."""
        return self._source.refs(wanted)

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario."""
        return self._source.load(scenario_id).model_copy(update={"confidential": True})


def same(name: str) -> str:
    """The name in the form used for comparison."""
    return name.lower().replace("_", "-").replace(" ", "-")


def read_entry(text: str, path: Path | str) -> Entry:
    """Read an entry from TOML. Raises InputErrors: every mistake in it, with its line."""
    from ..complaints import Complaints
    from ..documents import parse_document

    document = parse_document(Path(path or "entry.toml"), text, keys="benchmarks/index.md")
    return Complaints(document).whole(Entry)


def entry_at(path: Path) -> Entry:
    """Read the entry in a file. Raises InputError: it cannot be read, or is wrong."""
    from ..documents import SETTINGS_BYTES, read_text

    return read_entry(read_text(path, limit=SETTINGS_BYTES), path)


def load(reference: str) -> Any:
    """Import the object named by `module:function`. Raises InputError: it does not exist."""
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{reference} cannot be loaded: {error}; fix or remove its entry") from None
