"""Runs captured earlier, each a scenario: `*.replay.json` in a directory that the job names.

No agent runs. A run is scored by the outcome that was recorded with it, and by checks of what happened in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StrictBool, StrictStr, ValidationError

from ...model.base import Model, is_name_character
from ...model.errors import InputError
from ...model.scenario import Answer, Environment, Scenario, ScorerSpec, Validation
from ...system.paths import exists, with_home
from ..captures import Check, read_capture
from ..complaints import did_you_mean, first_mistake
from ..protocol import ScenarioRef, SourceWarning

if TYPE_CHECKING:
    from ..catalogue.entry import Entry, Parameters

SUFFIX = ".replay.json"
FILE = "capture.replay.json"
"""Name of the capture in the sandbox of its trial, for scorers that run there."""
IMAGE = "debian:bookworm-slim"
MOST = 10_000
"""The most captures of a job."""
_LONGEST_NAME = 120
_STATEMENT_LIMIT = 32_000


class Options(Model):
    """Parameters of the benchmark."""

    capture_path: StrictStr
    capture_glob: Annotated[StrictStr, Field(min_length=1)] = f"*{SUFFIX}"
    outcome: StrictBool = True
    checks: tuple[Check, ...] = ()
    scorers: tuple[dict[str, Any], ...] = ()
    image: Annotated[StrictStr, Field(min_length=1)] = IMAGE


class Captures:
    """The captures below a directory, or a single one."""

    def __init__(self, entry: Entry, path: Path, options: Options, scorers: Sequence[ScorerSpec]) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100  `resolve` follows links
        self.benchmark = entry.name
        self.version = entry.version
        self.warnings: Sequence[SourceWarning] = ()
        self._options = options
        self._scorers = scorers
        self._files: dict[str, Path] | None = None

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """List the captures in order of their paths. None is opened.

        Raises InputError: there is none, or one cannot be a capture.
        """
        types = tuple(scorer.type for scorer in self._scorers)
        return [ScenarioRef(name, scorers=types) for name in self.files() if wanted is None or wanted(name)]

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario. A broken capture has one, too: its trial is an error that is kept like any other.

        Raises InputError: there is no such capture.
        """
        path = self.files().get(scenario_id)
        if path is None:
            raise InputError(
                f"no capture {scenario_id!r}.{did_you_mean(scenario_id, self.files())}", path=self.path
            )
        problem = None
        with contextlib.suppress(InputError):
            problem = read_capture(path).problem
        statement = problem or f"A run that was captured earlier, in {path.name}."
        return Scenario(
            id=scenario_id,
            benchmark=self.benchmark,
            benchmark_version=self.version,
            problem_statement=statement[:_STATEMENT_LIMIT],
            validation=Validation.EVALUATION,
            environment=Environment(image=self._options.image, workdir="/app", network="none"),
            answer=Answer(file=FILE),
            scorers=tuple(
                spec.model_copy(update={"path": path}) if spec.path is None else spec
                for spec in self._scorers
            ),
            source=path,
        )

    def files(self) -> Mapping[str, Path]:
        """Captures by the ids of their scenarios. Raises InputError: there is none, or one cannot be a capture."""
        if self._files is None:
            self._files = self._find()
        return self._files

    def _find(self) -> dict[str, Path]:
        if not self.path.is_dir():
            return {_name(self.path.name): self.path}
        pattern = self._options.capture_glob
        try:
            found = sorted(path for path in self.path.glob(pattern) if not path.is_dir())
            root = self.path.resolve()
            outside = [path for path in found if not path.resolve().is_relative_to(root)]
        except (OSError, ValueError, NotImplementedError, RuntimeError) as error:
            raise InputError(f"capture_glob: {pattern[:200]!r}: {error}", path=self.path) from None
        if outside:
            raise InputError("is a link that leads out of capture_path", path=outside[0])
        if not found:
            raise InputError(
                f"has no captured run: no file matches {pattern[:200]!r} (capture_glob)", path=self.path
            )
        if len(found) > MOST:
            raise InputError(f"has {len(found)} captured runs; a job takes at most {MOST}", path=self.path)
        names: dict[str, Path] = {}
        for path in found:
            name = _name(path.relative_to(self.path).as_posix())
            if name in names:
                raise InputError(f"would have the name of {names[name]}: {name}; rename one", path=path)
            names[name] = path
        return names


def sources(entry: Entry, directory: Path, given: Parameters) -> Sequence[Captures]:
    """Return the captures that the parameters name. `directory` has samples.

    Raises InputError: a parameter is missing or wrong.
    """
    if given.values.get("capture_path") is None:
        raise InputError(
            f"{entry.name}: capture_path is missing: name a file or a directory of *{SUFFIX}, with "
            f"--bench-param capture_path=PATH; samples are in {directory}"
        )
    return [_captures(entry, given)]


def samples(entry: Entry, directory: Path, given: Parameters) -> Sequence[Captures]:
    """Return the captures that come with the package. Raises InputError: a parameter is wrong."""
    from ..catalogue.entry import Parameters

    values = {**given.values, "capture_path": str(directory)}
    return [_captures(entry, Parameters(values, given.own, given.directories))]


def _captures(entry: Entry, given: Parameters) -> Captures:
    names = Options.model_fields
    for name in given.own - names.keys():
        if hint := did_you_mean(name, names):
            raise InputError(f"{entry.name}: there is no parameter {name!r};{hint}")
    try:
        options = Options.model_validate(
            {name: value for name, value in given.values.items() if name in names and value is not None}
        )
        scorers = _scorers_of(options)
    except ValidationError as error:
        raise InputError(f"{entry.name}: {first_mistake(error)}") from None
    except ValueError as error:
        raise InputError(f"{entry.name}: {error}") from None
    if os.path.isabs(options.capture_glob) or ".." in options.capture_glob.split("/"):  # noqa: PTH117
        raise InputError(
            f"{entry.name}: capture_glob: {options.capture_glob[:200]!r} leads out of capture_path; "
            "give a pattern below it"
        )
    return Captures(entry, _existing(entry, options.capture_path, given.directories), options, scorers)


def _scorers_of(options: Options) -> tuple[ScorerSpec, ...]:
    scorers = (
        [ScorerSpec(name="outcome", type="capture", params={"outcome": True})] if options.outcome else []
    )
    if options.checks:
        written = [check.model_dump(exclude_defaults=True) for check in options.checks]
        scorers.append(ScorerSpec(name="checks", type="capture", params={"checks": written}))
    scorers += [ScorerSpec.model_validate({"name": own.get("type"), **own}) for own in options.scorers]
    names = [scorer.name for scorer in scorers]
    if not names:
        raise ValueError("nothing would be scored: with outcome: false, give checks or scorers")
    if len(set(names)) < len(names):
        raise ValueError(f"scorers: {max(names, key=names.count)!r} is the name of two")
    return tuple(scorers)


def _existing(entry: Entry, text: str, directories: Sequence[Path]) -> Path:
    path = with_home(text)
    places = [path] if path.is_absolute() else [directory / path for directory in directories or (Path(),)]
    found = next((place for place in places if text.strip() and exists(place)), None)
    if found is None:
        raise InputError(f"{entry.name}: capture_path: there is no file or directory {text[:500]!r}")
    return found


def _name(path: str) -> str:
    """Return the id of the scenario of a capture: its path, as far as a name may have its characters."""
    plain = unicodedata.normalize("NFC", path.removesuffix(SUFFIX).removesuffix(".json").replace("/", "."))
    name = "".join(char if is_name_character(char) else "-" for char in plain)[:_LONGEST_NAME].lstrip(".-")
    if name == plain and unicodedata.category(name[0])[0] != "M":
        return name
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"capture-{name}-{digest}" if name else f"capture-{digest}"
