"""Requested job: configuration, agents and secrets, from the layers of settings. Does not import pytest."""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from ..model.agent import AgentSpec
from ..model.environ import Variable
from ..model.errors import InputError
from ..model.gate import GateConfig
from ..model.job import JobConfig, Overrides
from ..model.known_failure import KNOWN_FILE
from ..sandbox.providers import usual_headroom
from ..settings.agents import takes_model, with_defaults
from ..settings.gates import KEYS as GATE_KEYS
from ..settings.gates import gate_config
from ..settings.layers import Layer, merge
from ..settings.matrix import Matrix
from ..settings.setting import texts_of
from ..settings.table import BY_NAME
from ..settings.values import EXPORTS, export_kind, lacks_package
from ..sources import did_you_mean
from ..store.text import clean
from ..system.paths import exists, is_directory, is_file, with_home
from ..trial.secrets import unmistakable

if TYPE_CHECKING:
    from ..model.result import Outcome
    from ..settings.known import KnownFailures

_CONTRADICTIONS = (
    ("force", "reuse", "run everything, or reuse earlier results"),
    ("force", "rerun_failed", "--bench-force runs everything anyway"),
    ("force", "rerun_errors", "--bench-force runs everything anyway"),
    ("rescore", "resume", "resume the job, or grade its trials again"),
    ("resume", "job_id", "a resumed job keeps its id"),
    ("resume", "parent", "a resumed job is not a new one"),
    ("plan", "rescore", "only trials to run can be planned"),
    ("record", "replay", "record the traffic, or replay recorded traffic"),
)


class Output(NamedTuple):
    """A file that is written when the job has ended."""

    option: str
    """Setting that asks for it."""
    path: Path
    kind: str
    """A format of `EXPORTS`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """The given settings, and the places they are from."""

    layers: Sequence[Layer]
    """Layers, from the weakest to the strongest."""
    line: Mapping[str, Any]
    """Settings on the command line, by name, as text."""
    ini: Mapping[str, Any]
    """Settings in the ini file that are not values of a layer."""
    place: Callable[[str], str]
    """Returns the place of a setting in the ini file, for messages."""
    directory: Path
    """Working directory of the call, which paths on the command line are relative to."""
    root: Path
    """Rootdir, which paths in an ini file are relative to."""
    worker: bool = False
    """True if another process has checked the files already."""


@dataclasses.dataclass(frozen=True, slots=True)
class FromJob:
    """`--bench-from`: trials of an earlier job."""

    job: str
    """Id, beginning of an id, name, or `last`."""
    states: tuple[Outcome, ...] = ()
    """Outcomes to choose by; empty: all."""


@dataclasses.dataclass(frozen=True, slots=True)
class ForBenchmark:
    """The requested job for one benchmark."""

    job: JobConfig
    agents: tuple[AgentSpec, ...]
    labels: tuple[str, ...]
    excluded: tuple[str, ...]
    """Labels of the agents that the matrix leaves out here."""


@dataclasses.dataclass(frozen=True, slots=True)
class JobSettings:
    """A requested job, and its output options."""

    job: JobConfig
    benchmarks: tuple[str, ...]
    """Names, names with versions, paths, or `EVERY`, as written."""
    usual: tuple[AgentSpec, ...]
    """Agents of benchmarks without their own agents."""
    filters: tuple[tuple[str, str], ...]
    secrets: Mapping[str, str] = dataclasses.field(repr=False)
    places: Mapping[str, str]
    """Variable of a secret -> source of its value."""
    matrix: Matrix = dataclasses.field(default_factory=Matrix)
    known: KnownFailures | None = None
    """Known failures. None: there is no file of them."""
    show_incompatible: bool = False
    ci: str = "auto"
    """The CI system to write for; `auto`: the one this runs in."""
    outputs: tuple[Output, ...] = ()
    """Files to write when the job has ended."""
    explain_reuse: bool = False
    plan: bool = False
    from_job: FromJob | None = None
    trials: frozenset[str] = frozenset()
    """Node ids of the only trials of `from_job` to run; empty: all."""
    job_id: str | None = None
    """Id that a detached start announced."""
    resume: str | None = None
    """Job to resume."""
    rescore: str | None = None
    """Job whose kept trials are graded again."""
    parent: str | None = None
    """The job this one was made from."""
    origin: Callable[[str], str] = str
    """Returns the place of a setting, for messages."""
    seen: set[str] = dataclasses.field(default_factory=set)
    """Ids of all collected scenarios, selected or not; for suggestions."""
    _benchmarks: dict[str, ForBenchmark] = dataclasses.field(default_factory=dict)

    def of(self, benchmark: str) -> ForBenchmark:
        """Return the job as requested for one benchmark."""
        if benchmark not in self._benchmarks:
            changes = self.job.per_benchmark.get(benchmark)
            agents = self.usual if changes is None or changes.agents is None else changes.agents
            out = {agent.label for agent in agents if self.matrix.excludes(benchmark, agent)}
            runs = tuple(agent for agent in agents if agent.label not in out)
            self._benchmarks[benchmark] = ForBenchmark(
                self.job.of(benchmark), runs, tuple(agent.label for agent in runs), tuple(sorted(out))
            )
        return self._benchmarks[benchmark]

    def naming(
        self, benchmark: str, others: Iterable[str], agent: str | None = None, *, alone: bool = False
    ) -> JobSettings:
        """Return the same request in which settings for other names of a benchmark are settings for its own name.

        Args:
            benchmark: Its own name.
            others: Its other names, as far as settings use them.
            agent: The one agent that it runs with, in place of those of the job; None: those.
            alone: The job has no other benchmark, so no other agent either.

        Raises:
            InputError: settings for it are under two names.
        """
        said = dict(self.job.per_benchmark)
        names = [*(name for name in (benchmark,) if name in said), *others]
        if len(names) > 1:
            raise InputError(
                f"per_benchmark: {' and '.join(sorted(names))} are one benchmark; give its settings under one name"
            )
        changes = [said.pop(name) for name in names]
        if changes:
            said[benchmark] = changes[0]
        agents = self.job.agents
        if agent is not None:
            only = (AgentSpec(name=agent),)
            said[benchmark] = said.get(benchmark, Overrides()).model_copy(update={"agents": only})
            agents = only if alone else tuple({one.label: one for one in (*agents, *only)}.values())
        if said == self.job.per_benchmark:
            return self
        job = self.job.model_copy(update={"per_benchmark": said, "agents": agents})
        return dataclasses.replace(self, job=job, _benchmarks={})

    def selects(self, scenario: str) -> bool:
        """Return whether `--bench-scenario` selects this id."""
        self.seen.add(scenario)
        patterns = self.job.scenarios
        return not patterns or any(matches(scenario, pattern) for pattern in patterns)


def matches(scenario: str, pattern: str) -> bool:
    """Return whether a pattern of `--bench-scenario` matches this id."""
    return scenario == pattern or fnmatch.fnmatchcase(scenario, pattern)


def settings_from(said: Said) -> JobSettings:
    """Return the requested job.

    Raises:
        InputError: a setting is wrong, or contradicts another.
    """
    jobs = {name: _job_named(said, name) for name in ("job_id", "resume", "rescore", "parent", "from")}
    _refuse_contradictions(said)
    merged = merge(said.layers)
    values = merged.values
    found = _secrets(merged)
    secrets = {variable: one.value for variable, one in found.items()}
    base = _agents(merged, secrets)
    matrix = _matrix(merged, base)
    usual = _cells(merged, matrix, base, {})
    per_benchmark = {
        name: _of_benchmark(merged, matrix, base, changes) for name, changes in merged.per_benchmark.items()
    }
    job = _configuration(said, merged, usual, per_benchmark)
    _refuse_secrets(job, secrets, merged)
    return JobSettings(
        job=job,
        benchmarks=job.benchmarks,
        usual=usual,
        filters=tuple(values.get("filters", ())),
        secrets=secrets,
        places={variable: one.place for variable, one in found.items()},
        matrix=matrix,
        known=_known(said),
        show_incompatible=values.get("show_incompatible", False),
        ci=values.get("ci", "auto"),
        outputs=tuple(_outputs(said, merged)),
        explain_reuse="explain_reuse" in said.line,
        plan="plan" in said.line,
        from_job=_from_job(jobs["from"]),
        trials=frozenset(said.line.get("trial") or ()),
        job_id=jobs["job_id"],
        resume=jobs["resume"],
        rescore=jobs["rescore"],
        parent=jobs["parent"],
        origin=merged.origin,
    )


def _of_benchmark(
    merged: Layer, matrix: Matrix, agents: Iterable[AgentSpec], changes: Mapping[str, Any]
) -> Overrides:
    """Return the overrides for one benchmark. Its own provider or model makes its own agents."""
    own = {key: value for key, value in changes.items() if key not in ("provider", "model")}
    if len(own) < len(changes):
        own["agents"] = _cells(merged, matrix, agents, changes)
    return Overrides.model_validate(own)


def _configuration(
    said: Said, merged: Layer, usual: Iterable[AgentSpec], per_benchmark: Mapping[str, Overrides]
) -> JobConfig:
    values = merged.values
    special = [agent for changes in per_benchmark.values() for agent in changes.agents or ()]
    fields = {name: values[name] for name in JobConfig.model_fields if name in values}
    fields |= _reuse(said, values)
    fields |= {
        "agents": tuple({agent.label: agent for agent in (*usual, *special)}.values()),
        "benchmarks": tuple(
            said.line.get("benchmarks") or values.get("benchmarks") or said.ini["benchmarks"]
        ),
        "directory": _directory(said),
        "gate": _gate(said, merged),
        **_paths(said, merged, ("prices", "record", "replay", "shard_durations")),
        "per_benchmark": per_benchmark,
    }
    try:
        job = JobConfig.model_validate(fields)
    except ValidationError as error:
        from ..sources.complaints import in_words

        first = error.errors(include_url=False)[0]
        place = first["loc"]
        raise InputError(f"{merged.origin(str(place[0]))}: {in_words(first)}") from None
    if "headroom" in values:
        return job
    return job.model_copy(update={"usual_headroom": usual_headroom(job.sandbox)})


def _job_named(said: Said, name: str) -> str | None:
    text: str | None = said.line.get(name)
    if name == "job_id" and text is not None:
        from ..store.bundle import JobBundle

        try:
            JobBundle(Path(), text)
        except InputError as error:
            raise InputError(f"{_flag(name)}: {error}") from None
    return text


def _refuse_contradictions(said: Said) -> None:
    for one, other, why in _CONTRADICTIONS:
        if said.line.get(one) and said.line.get(other):
            raise InputError(f"{_flag(one)} and {_flag(other)} contradict each other: {why}")


def _reuse(said: Said, values: Mapping[str, Any]) -> dict[str, bool]:
    if "force" in said.line:
        return {"force": True, "reuse": False}
    rerun = {name: name in said.line for name in ("rerun_failed", "rerun_errors")}
    return {**rerun, "reuse": bool(values.get("reuse")) or any(rerun.values())}


def _secrets(merged: Layer) -> dict[str, Variable]:
    """Return variable of agents -> value and source."""
    sources: Mapping[str, str] = merged.values.get("secrets", {})
    if not sources:
        return {}
    from ..settings.secret_store import find

    blame = merged.origin("secrets")
    try:
        looked_up = {variable: find(name) for variable, name in sources.items()}
    except InputError as error:
        raise InputError(f"{blame}: {error}") from None
    missing = sorted({sources[variable] for variable, found in looked_up.items() if found is None})
    if missing:
        raise InputError(
            f"{blame}: {', '.join(missing)} is neither in the environment nor among the secrets kept here; "
            f"export it, or run `benchjobs secret set {missing[0]}`"
        )
    return {variable: found for variable, found in looked_up.items() if found is not None}


def _refuse_secrets(job: JobConfig, secrets: Mapping[str, str], merged: Layer) -> None:
    """Refuse secrets in the stored parts of a job. `_agents` has refused those in agents and parameters."""
    hidden = unmistakable(secrets)
    if not hidden:
        return
    from ..store.bundle import stored_config

    kept = {key: json.dumps(value) for key, value in stored_config(job).model_dump(mode="json").items()}
    for name, value in hidden.items():
        for key, text in kept.items():
            if json.dumps(value)[1:-1] in text:
                raise InputError(
                    f"{merged.origin(key)}: it holds the value of the secret {name}, and would be in every report"
                )


def _agents(merged: Layer, secrets: Mapping[str, str]) -> tuple[AgentSpec, ...]:
    """Return the given agents, without the defaults."""
    blame = merged.origin("agents")
    agents = tuple(merged.values.get("agents") or (AgentSpec(name="oracle"),))
    params = [
        merged.values.get("params"),
        *(changes.get("params") for changes in merged.per_benchmark.values()),
    ]
    for variable, value in unmistakable(secrets).items():
        if any(json.dumps(value, ensure_ascii=False)[1:-1] in agent.model_dump_json() for agent in agents):
            instead = f"write ${variable} instead" if variable in secrets else "leave it out"
            raise InputError(
                f"{blame}: it holds the value of the secret {variable}, and would be in every report; {instead}"
            )
        if any(json.dumps(value)[1:-1] in json.dumps(table) for table in params):
            raise InputError(
                f"{merged.origin('params')}: it holds the value of the secret {variable}, and would be in every report"
            )
    _refuse_twice(blame, agents)
    for key in ("provider", "model"):
        if merged.origin(key) == _flag(key) and not any(map(takes_model, agents)):
            names = ", ".join(agent.name for agent in agents)
            raise InputError(
                f"{_flag(key)}: {names} would ignore it; name an agent that uses it with --bench-agent"
            )
    return agents


def _refuse_twice(blame: str, agents: Iterable[AgentSpec]) -> None:
    labels = [agent.label for agent in agents]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"{blame}: {label} is given twice; for repeats use --bench-attempts")


def _matrix(merged: Layer, agents: tuple[AgentSpec, ...]) -> Matrix:
    matrix = Matrix(merged.values.get("parameters", {}), merged.values.get("exclude", ()))
    blame = merged.origin("parameters" if "parameters" in merged.values else "exclude")
    try:
        matrix.check(agents)
    except InputError as error:
        raise InputError(f"{blame}: {error}") from None
    both = sorted(matrix.parameters.keys() & merged.values.get("params", {}).keys())
    if both and merged.origin("params") == _flag("params"):
        raise InputError(f"{_flag('params')}: {both[0]} has several values already: {blame}")
    return matrix


def _cells(
    merged: Layer, matrix: Matrix, agents: Iterable[AgentSpec], changes: Mapping[str, Any]
) -> tuple[AgentSpec, ...]:
    """Return the agents with defaults, in every combination of parameters."""
    provider, model = (changes.get(key, merged.values.get(key)) for key in ("provider", "model"))
    cells = matrix.cells(with_defaults(agents, provider, model))
    _refuse_twice(merged.origin("agents"), cells)
    return cells


def _from_job(text: str | None) -> FromJob | None:
    if text is None:
        return None
    from ..model.result import Outcome

    job, colon, listed = text.rpartition(":")
    words = [word.strip().lower() for word in listed.split(",")]
    known = {outcome.value for outcome in Outcome}
    if not colon or not any(word in known or did_you_mean(word, known) for word in words):
        return FromJob(text)  # a job's name may have a colon
    for word in words:
        if word not in known:
            hint = did_you_mean(word, known).strip() or f"available: {', '.join(Outcome)}"
            raise InputError(f"--bench-from: unknown outcome {word!r}; {hint}")
    return FromJob(job, tuple(Outcome(word) for word in words))


def _paths(said: Said, merged: Layer, names: Iterable[str]) -> dict[str, Path]:
    """Return the settings that are files and directories."""
    found = {}
    for name in names:
        text = merged.values.get(name)
        if text is not None:
            found[name] = _path(said, name, text)
    for name, is_there in (("prices", is_file), ("replay", is_directory), ("shard_durations", exists)):
        if name in found and not is_there(found[name]):
            raise InputError(f"{merged.origin(name)}: {found[name]} is not there")
    if "prices" in found:
        from ..gateway.prices import load_prices

        try:
            load_prices(found["prices"])
        except InputError as error:
            raise InputError(f"{merged.origin('prices')}: {error}") from None
    return found


def _outputs(said: Said, merged: Layer) -> Iterator[Output]:
    for name in ("export", "markdown", "html", "metrics"):
        for text in texts_of(merged.values.get(name, ())):
            path = _path(said, name, text)
            kind = export_kind(path.name) if name == "export" else name
            if kind is None or is_directory(path):
                why = "a directory" if is_directory(path) else f"not {', '.join(EXPORTS)} by its name"
                raise InputError(f"{merged.origin(name)}: {text} is {why}")
            if (package := lacks_package(kind)) is not None:
                raise InputError(f"{merged.origin(name)}: {text}: {package}")
            yield Output(name, path, kind)


def _path(said: Said, name: str, text: str) -> Path:
    """Return the path of a setting: relative to the working directory on the command line, else to the rootdir."""
    base = said.directory if name in said.line else said.root
    return Path(os.path.abspath(base / with_home(text)))  # noqa: PTH100


_BASELINES = ("baseline", "anchor")


def _gate(said: Said, merged: Layer) -> GateConfig:
    """Return the gates. A baseline's path is relative to the working directory, in files to the rootdir."""
    values = {key: merged.values[key] for key in GATE_KEYS if key in merged.values}
    for name in _BASELINES:
        kind, _, path = str(values.get(name, "")).partition(":")
        if kind == "file" and path.strip() and name in said.line:
            place = str(_path(said, name, path))
            values[name] = "file:" + place.removeprefix(f"{said.root}{os.sep}")
    try:
        gate = gate_config(values, merged.origin)
        for name, spec in zip(_BASELINES, (gate.baseline, gate.anchor), strict=True):
            if spec is not None and not said.worker:
                _look_at_baseline(spec, said.root, merged.origin(name))
    except InputError as error:
        raise InputError(clean(str(error))) from None
    return gate


def _look_at_baseline(spec: str, root: Path, blame: str) -> None:
    """Validate the spec of a baseline, and its file if it names one. Other baselines are resolved later.

    Raises:
        InputError: it is not valid.
    """
    from ..analysis.baseline.file import side_of_file
    from ..analysis.baseline.resolve import parse_spec

    try:
        parsed = parse_spec(spec)
        path = root / with_home(parsed.value)
        if parsed.kind == "file" and exists(path):
            side_of_file(spec, path, None)
    except InputError as error:
        raise InputError(f"{blame}: {error}") from None


def _known(said: Said) -> KnownFailures | None:
    """Return the entries of the known-failures file: the named one, or the one in the rootdir."""
    text = said.line.get("known", said.ini["known"])
    path = said.root / KNOWN_FILE
    if text is not None:
        blame = _flag("known") if "known" in said.line else said.place("known")
        if text == "none":
            return None
        path = _path(said, "known", text)
        if not is_file(path):
            raise InputError(f"{blame}: {path} is not there")
    elif not os.path.lexists(path):
        return None
    from ..settings.known import read_known  # imports pydantic models, which take time to build

    root = f"{said.root}{os.sep}"
    try:
        return read_known(path, str(path).removeprefix(root), datetime.date.today())
    except InputError as error:
        raise InputError(clean(str(error).replace(root, ""))) from None


def _directory(said: Said) -> Path:
    flag, from_line = _flag("dir"), said.line.get("dir")
    if from_line is not None:
        directory: Path = said.directory / with_home(from_line)
        blame = flag
    else:
        directory = said.root / (said.ini["dir"] or "reports")
        blame = said.place("dir") if said.ini["dir"] else "reports"
    there = next((path for path in (directory, *directory.parents) if os.path.lexists(path)), directory)
    if os.path.lexists(there) and not is_directory(there):
        raise InputError(f"{blame}: {there} is not a directory; name another one with {flag}")
    return directory


def _flag(name: str) -> str:
    return BY_NAME[name].flag
