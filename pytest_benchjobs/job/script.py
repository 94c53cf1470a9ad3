"""Jobs that a script drives: trials with live sandboxes, without pytest.

    with benchjobs.start("ours.bench.yaml", "fix-bug", agent="my-loop") as trial:
        trial.exec("...")

They are jobs as any other: with history, reports and gates.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..agents.catalogue import all_agents
from ..agents.interactive import InteractiveAgent
from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..model.node_ids import node_name
from ..model.owner import current_owner
from ..sandbox.late import LateProvider
from ..sandbox.providers import builtin_providers
from ..scoring.builtin import builtin_scorers
from ..scoring.registering import add_scorers_of
from ..settings.layers import Layer
from ..settings.parse import parse
from ..settings.setting import KINDS, Setting
from ..settings.table import BY_NAME, SETTINGS
from ..sources import did_you_mean
from ..sources.project import finder_of, ini_value, rootdir
from . import models, rounds
from .begin import Request, begin
from .interactive import AsyncTrial, DrivenTicket, InteractiveTrial
from .job_settings import JobSettings, Said, settings_from
from .provider import provider_of
from .running import RunningJob
from .trials import Supplies

if TYPE_CHECKING:
    from ..analysis.gate.job import Judged
    from ..model.job import Owner
    from ..model.result import TrialResult
    from ..sandbox.protocol import SandboxProvider
    from ..scoring.protocol import Scorer
    from ..sources.protocol import Source

_OWN = frozenset({"agents", "benchmarks", "resume", "rescore", "plan", "from", "trial", "job_id", "detach"})
"""Settings that mean nothing here."""
_ARGUMENTS = ("agent", "model", "provider", "base_url", "params", "sandbox", "scorers")
"""Arguments of a job of a script."""

Provider = Callable[["Owner"], "SandboxProvider"]


class DrivenJob:
    """A job whose trials a script drives, one after the other or several at once.

    Args:
        agent: Name of the agent in results: you.
        model: Its model, which trials reach through the gateway; None: it has none.
        provider: Provider of the model.
        base_url: Base URL of the model's endpoint, such as that of a server of your own.
        params: Parameters that tell variants of the agent apart.
        sandbox: Name of a kind of sandboxes, or a class that makes them.
        scorers: Further types of scorers, by name.
        settings: Settings of the job by the names in `docs/options.md`, such as `name="nightly"`, `dir="reports"`,
            `trial_max_cost=1`, `baseline="last"`.

    Raises:
        InputError: a setting is wrong.
    """

    def __init__(
        self,
        agent: str = "interactive",
        *,
        model: str | None = None,
        provider: str | None = None,
        base_url: str | None = None,
        params: Mapping[str, Any] | None = None,
        sandbox: str | Provider | None = None,
        scorers: Mapping[str, Scorer] | None = None,
        **settings: Any,
    ) -> None:
        spec = AgentSpec.parse(agent)
        given = {"model": model, "provider": provider, "base_url": base_url, "params": dict(params or {})}
        self._spec = AgentSpec.model_validate(
            {**spec.model_dump(), **{key: one for key, one in given.items() if one}}
        )
        if self._spec.name in all_agents(()):
            raise InputError(
                f"there is an agent {self._spec.name!r} already; give yours another name with agent=NAME"
            )
        self._agent = InteractiveAgent(
            self._spec.name, needs_model=self._spec.model is not None, code=_code()
        )
        name = sandbox if isinstance(sandbox, str) else getattr(sandbox, "__name__", None)
        self._settings = _settings(self._spec, {**settings, **({"sandbox": name} if name else {})})
        self._provider = _provider(sandbox, self._settings)
        self._scorers = {**builtin_scorers(), **(scorers or {})}
        self._trials: list[InteractiveTrial] = []
        self._running: RunningJob[DrivenTicket] | None = None
        self._is_closed = False

    @property
    def id(self) -> str:
        """Id of the job."""
        return self._begun().bundle.id

    @property
    def directory(self) -> Path:
        """Directory of its results."""
        return self._begun().bundle.root

    @property
    def results(self) -> Sequence[TrialResult]:
        """Results of the trials that have ended, in the order they were started until the job has ended."""
        if not self._is_closed:
            return [trial.result for trial in self._trials if trial.result is not None]
        return self._begun().results

    @property
    def verdict(self) -> Judged | None:
        """Verdict of its gates, once it has ended; None: there are none."""
        return self._begun().judged

    def start(
        self,
        benchmark: str | Path | Source,
        scenario: str,
        *,
        attempt: int = 1,
        patience: float = 0.0,
        on_end: Callable[[], object] = lambda: None,
    ) -> InteractiveTrial:
        """Start a trial. It has a sandbox once it is entered with `with`, or used.

        Args:
            benchmark: Path of a manifest, a task directory or a Python file, name of a benchmark, or a source such as a
                `Benchmark`.
            scenario: Id of the scenario.
            attempt: Number of the attempt, from 1.
            patience: Seconds for which the sandbox outlives its timeouts, as a person may look at it.
            on_end: Called when the trial has ended.

        Raises:
            InputError: there is no such benchmark or scenario; the job has ended.
        """
        if self._is_closed:
            raise InputError("the job has ended; begin another one")
        source = _source(benchmark, scenario)
        add_scorers_of(source, self._scorers)
        label = self._spec.label
        ticket = DrivenTicket(
            node_id=f"{source.benchmark}::{node_name(scenario, label, attempt if attempt > 1 else None)}",
            source=source,
            scenario=scenario,
            agent=self._spec,
            attempt=attempt,
        )
        if any(trial.id == ticket.node_id for trial in self._trials):
            raise InputError(f"the job has a trial {ticket.node_id} already; give this one another attempt=")
        running = self._begun()

        def ended(result: TrialResult) -> None:
            running.record(result)
            on_end()

        trial = InteractiveTrial(running, ticket, self._agent, patience, ended)
        self._trials.append(trial)
        return trial

    def pending_scenarios(self, benchmark: str | Path | Source, *, attempt: int = 1) -> tuple[str, ...]:
        """Return the ids of a benchmark's scenarios of which no trial of this attempt was started, in their order.

        Raises:
            InputError: there is no such benchmark.
        """
        started = {(trial.benchmark, trial.scenario) for trial in self._trials if trial.attempt == attempt}
        return tuple(ref for source, ref in _refs(benchmark) if (source.benchmark, ref) not in started)

    def close(self) -> None:
        """End the job: cancel what still runs, write history and reports, judge by the gates."""
        if self._is_closed:
            return
        self._is_closed = True
        atexit.unregister(self.close)
        for trial in self._trials:
            trial.cancel()
        if self._running is not None:
            self._running.disarm()
            self._running.trials.close()
            self._running.finish(len(self._trials), None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)

    def _begun(self) -> RunningJob[DrivenTicket]:
        """Begin the job with its first trial."""
        if self._running is None:
            job = self._settings.job
            rounds.check(job, job.gate, distributed=False)
            agents = {self._agent.name: self._agent}
            provider = LateProvider(self._provider)
            supplies = Supplies(agents, self._scorers, provider, self._settings.secrets)
            with contextlib.ExitStack() as undo:
                undo.callback(provider.close)
                models.make_ready(job, agents, supplies.secrets, lambda _line: None, supplies.machine)
                supplies.check_runtime(job)
                begun = begin(_request(self._settings))
                self._running = RunningJob(job, begun.bundle, supplies, begun)
                undo.pop_all()
            atexit.register(self.close)
            # Scorers of later trials are not known yet, and one may ask a model.
            self._running.start({self._spec.label: 1}, models_for_scorers=True)
        return self._running


def start(
    benchmark: str | Path | Source,
    scenario: str,
    *,
    attempt: int = 1,
    patience: float = 0.0,
    **about: Any,
) -> InteractiveTrial:
    """Start a trial in a job of its own, which ends with it. `about` is for `DrivenJob`.

    Raises:
        InputError: there is no such benchmark or scenario, or a setting is wrong.
    """
    job = DrivenJob(**about)
    try:
        return job.start(benchmark, scenario, attempt=attempt, patience=patience, on_end=job.close)
    except BaseException:
        job.close()
        raise


def scenario_ids(benchmark: str | Path | Source) -> tuple[str, ...]:
    """Return the ids of a benchmark's scenarios, in their order and without archived ones. Nothing is run.

    Args:
        benchmark: As for `start`. One of the catalogue is fetched if it is not on this machine.

    Raises:
        InputError: there is no such benchmark, or a file is wrong.
    """
    return tuple(ref for _, ref in _refs(benchmark))


@contextlib.asynccontextmanager
async def start_async(benchmark: str | Path | Source, scenario: str, **about: Any) -> Any:
    """Start a trial in a job of its own, for asynchronous code: an asynchronous context manager."""
    trial = await asyncio.to_thread(start, benchmark, scenario, **about)
    async with AsyncTrial(trial) as entered:
        yield entered


def _settings(spec: AgentSpec, settings: Mapping[str, Any]) -> JobSettings:
    """Return the requested job."""
    here, root = Path.cwd(), rootdir()
    values: dict[str, Any] = {"agents": [spec]}
    line: dict[str, Any] = {}
    known = [setting.name for setting in SETTINGS if setting.name not in _OWN]
    for name, value in settings.items():
        if name not in known:
            raise InputError(
                f"there is no setting {name!r};{did_you_mean(name, {*known, *_ARGUMENTS}) or ' see docs/options.md'}"
            )
        setting = BY_NAME[name]
        if value is None or value is False:
            continue
        if setting.apart:
            line[name] = parse(setting, str(value), name, here)
        else:
            values[name] = parse(setting, _written(setting, value), name, here)
    ini = {"benchmarks": (), "dir": ini_value(root, "bench_dir"), "known": ini_value(root, "bench_known")}
    return settings_from(Said([Layer(values)], line, ini, lambda name: name, here, root))


def _written(setting: Setting, value: object) -> object:
    """Return a value in the form that the value of an option has."""
    if KINDS[setting.kind].ini != "linelist":
        return str(value) if isinstance(value, Path) else value
    if isinstance(value, Mapping):
        return [f"{key}={one}" for key, one in value.items()]
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _provider(sandbox: str | Provider | None, settings: JobSettings) -> Callable[[], SandboxProvider]:
    own = {} if sandbox is None or isinstance(sandbox, str) else {settings.job.sandbox: sandbox}
    make = provider_of(settings.job, {**builtin_providers(), **own})
    return lambda: make(current_owner())


def _refs(benchmark: str | Path | Source) -> Iterator[tuple[Source, str]]:
    for source in _sources(benchmark):
        yield from ((source, ref.id) for ref in source.refs(None) if not ref.archived)


def _source(benchmark: str | Path | Source, scenario: str) -> Source:
    """Find the source of a scenario."""
    ids: list[str] = []
    for source in _sources(benchmark):
        found = [ref.id for ref in source.refs(None)]
        if scenario in found:
            return source
        ids += found
    hint = did_you_mean(scenario, ids).strip() or f"available: {', '.join(ids[:10])}"
    raise InputError(f"benchmark {benchmark} has no scenario {scenario!r}; {hint}")


def _sources(benchmark: str | Path | Source) -> list[Source]:
    if not isinstance(benchmark, str | Path):
        return [benchmark]
    from ..sources.catalogue.fetching import fetch
    from ..sources.catalogue.kept import opened

    finder = finder_of(
        open_entry=lambda entry: entry.sources(opened(entry, lambda one: fetch(one, lambda _line: None)))
    )
    return finder.find(str(benchmark), Path.cwd())[1]


def _request(settings: JobSettings) -> Request:
    script = Path(sys.argv[0]).name or "a script"
    return Request(
        settings=settings,
        planned={},
        # Whoever repeats it with pytest reads that in an error.
        arguments=("--bench", f"(driven by {script}: run that again)"),
        directory=Path.cwd(),
        root=rootdir(),
        partial=True,
        narrowed=True,
        named=True,
    )


def _code() -> str:
    """Return a digest of the script, for the signature of its trials."""
    try:
        return hashlib.sha256(inspect.getsource(sys.modules["__main__"]).encode()).hexdigest()[:16]
    except (OSError, TypeError, KeyError):
        return ""
