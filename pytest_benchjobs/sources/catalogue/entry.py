"""Entry of the catalogue: where a benchmark comes from, what it holds, and how it is graded."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError, model_validator

from ...model.base import Model, Name
from ...model.errors import InputError
from ...system.cache import cache_directory
from ..toml_data import load_toml

if TYPE_CHECKING:
    from ..protocol import Source


class GitOrigin(Model):
    """A commit of a git repository. The id of the commit is the checksum of all its content."""

    repository: str
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    paths: tuple[str, ...] = ()
    """Directories and files of it that are needed; default: all."""


class FileOrigin(Model):
    """A file at an address."""

    url: str | None = None
    """None: there is no address anybody may fetch it from; the user gives the file."""
    name: str
    """Name of the file in the benchmark's directory."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Hexadecimal."""
    bytes: int | None = None


class Entry(Model):
    """One benchmark of the catalogue."""

    name: Name
    version: str
    title: str
    aliases: tuple[str, ...] = ()
    source: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    """`module:function`; the function takes this entry and the directory of its files, and returns sources."""
    prepare: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    """`module:function`, called once with the directory of what was fetched, and the directory to fill from it."""
    scenarios: int
    """Number of scenarios, as the benchmark's authors count them."""
    homepage: str = ""
    licence: str
    environment: str
    """In a line: the container its scenarios run in, or none."""
    scoring: str
    """In a line: how a scenario is graded, and when it has passed."""
    attempts: Annotated[int, Field(ge=1)] = 1
    """Independent attempts that its published figures are a mean of."""
    confidential: bool = False
    """True if its authors ask that its content be not published."""
    gated: str | None = None
    """Text for whoever has to get the data themselves: where, and under what terms."""
    git: GitOrigin | None = None
    files: tuple[FileOrigin, ...] = ()
    exceptions: dict[str, str] = {}
    """Scenarios known to be broken -> the reason."""
    published: dict[str, float] = {}
    """Who -> the score they reach, for comparison."""

    @model_validator(mode="after")
    def _has_an_origin(self) -> Entry:
        if self.git is None and not self.files:
            raise ValueError("give `git`, or `files`: where does it come from?")
        return self

    @property
    def directory(self) -> Path:
        """Its place in the cache of this machine."""
        return cache_directory("benchmarks") / self.name / self.version

    def sources(self, directory: Path | None = None) -> Sequence[Source]:
        """Open it, from the cache or from another directory with the same files.

        Raises:
            InputError: something is missing there, or wrong.
        """
        made: Sequence[Source] = load(self.source)(self, directory or self.directory / "files")
        return made


def read_entry(text: str, path: Path | str) -> Entry:
    """Read an entry from TOML.

    Raises:
        InputError: it is wrong.
    """
    try:
        return Entry.model_validate(load_toml(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not valid TOML: {error}", path=path) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", path=path) from None


def load(reference: str) -> Any:
    """Import what `module:function` names.

    Raises:
        InputError: there is none.
    """
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{reference} cannot be loaded: {error}; mend or remove its entry") from None
