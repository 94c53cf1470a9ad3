"""Protocol of a source of scenarios: cheap references first, whole scenarios when they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ..model.errors import InputError, InputErrors
from ..model.scenario import Requires, Scenario


@dataclasses.dataclass(frozen=True, slots=True)
class ScenarioRef:
    """Reference to a scenario, with the data that collection needs."""

    id: str
    tags: tuple[str, ...] = ()
    line: int | None = None
    archived: bool = False
    scorers: tuple[str, ...] = ()
    """Types of its scorers. Only the plugin's registry can validate them."""
    needs_container: bool = False
    """True if every agent needs a container, although the scorers compare an answer."""
    requires: Requires | None = None
    """Requirements that are looked for before anything runs; None: a trial looks for its own."""


class Unsupported(InputErrors):
    """A scenario needs something that is not supported. It is an error of its own, and the others run."""

    code: ClassVar[str] = "unsupported"

    def __init__(self, errors: Sequence[InputError], ref: ScenarioRef, metadata: dict[str, Any]) -> None:
        super().__init__(errors)
        self.ref = ref
        self.metadata = metadata


@dataclasses.dataclass(frozen=True, slots=True)
class SourceWarning:
    """An oddity that is not a mistake, such as an unknown key. `str()` is the message for the user."""

    message: str
    path: Path
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


class Source(Protocol):
    """A manifest, or one Harbor task directory. Opening it is cheap; nothing is read before `refs`."""

    path: Path
    warnings: Sequence[SourceWarning]
    """Filled by `refs`."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """Validate and list the scenarios whose id is `wanted`, in file order. Validates only those.

        Raises Unsupported: the only scenario of this source needs something that is not supported; InputErrors: every
        mistake found, each with file and line.
        """

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario. Thread-safe; parses a file once for any number of trials."""
