"""A job: one invocation, its configuration, and who runs it."""

from __future__ import annotations

import enum
import fnmatch
from pathlib import Path
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field, model_validator

from .agent import AgentSpec
from .base import SCHEMA_VERSION, Model, SchemaVersion, Score, Seconds, Size
from .gate import GateConfig, RoundReport
from .policy import EACH, AttemptPolicy
from .quota import OnQuota, Quota
from .result import Failure, Trial
from .scenario import FreshContainer, GradeIn, OnTamper
from .usage import Usage


class JobStatus(enum.StrEnum):
    """Status of a job."""

    INITIALIZING = "initializing"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    """A limit on money, tokens or calls ended it; it can be resumed with a higher one."""
    PAUSED = "paused"
    """The quota of a provider is used up (`--bench-on-quota pause`); it can be resumed when the quota is back."""

    @property
    def ended(self) -> bool:
        """True if the job has ended."""
        return self not in (JobStatus.INITIALIZING, JobStatus.QUEUED, JobStatus.RUNNING)


Attempts = Annotated[int, Field(ge=1, le=10_000)]
Multiplier = Annotated[float, Field(gt=0, le=1000)]


class Keep(enum.StrEnum):
    """Choice of trials to keep file systems of, as they were after the agent and before grading."""

    NEVER = "never"
    FAILED = "failed"
    """Those that did not pass."""
    ALWAYS = "always"


Usd = Annotated[float, Field(gt=0, le=1e9)]
Positive = Annotated[int, Field(ge=1, le=10**15)]
Examples = Annotated[int, Field(ge=1, le=10**9)]


def _of_today(values: Any) -> Any:
    """Read `grading` of earlier versions: `contract` was the agent's container, `strict` is no more."""
    if isinstance(values, dict) and "grading" in values:
        values = dict(values)
        if values.pop("grading") == "contract" and values.get("grade_in") is None:
            values["grade_in"] = GradeIn.AGENT_CONTAINER
    return values


class Overrides(Model):
    """Overrides by `--bench-extra` for one benchmark. None: as for the whole job."""

    attempts: Attempts | None = None
    agent_timeout: Seconds | None = None
    scorer_timeout: Seconds | None = None
    timeout_multiplier: Multiplier | None = None
    threshold: Score | None = None
    max_examples: Examples | None = None
    sample: str | None = None
    seed: int | None = None
    agents: tuple[AgentSpec, ...] | None = None
    """With a provider or model that is for this benchmark only."""
    strict_capabilities: bool | None = None
    ignore_capabilities: bool | None = None
    params: dict[str, Any] = {}
    """Unknown keys, for agents and scorers. They override the job's."""


class JobConfig(Model):
    """Everything a user can say about a job; the same for every process that works on it."""

    benchmarks: tuple[str, ...] = ()
    """As `--bench` names them."""
    agents: tuple[AgentSpec, ...] = (AgentSpec(name="oracle"),)
    scenarios: tuple[str, ...] = ()
    attempts: Attempts = 1
    attempt_policy: AttemptPolicy = EACH
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 10
    agent_timeout: Seconds | None = None
    scorer_timeout: Seconds | None = None
    silent_timeout: Seconds | None = None
    """An agent that prints nothing for so long is stopped."""
    job_timeout: Seconds | None = None
    """Time limit of the job. Trials that have not ended by then are cancelled."""
    timeout_multiplier: Multiplier = 1.0
    threshold: Score = 1.0
    max_examples: Examples | None = None
    """Scenarios of a benchmark, the first in order."""
    sample: str | None = None
    """Share (`10%`) or number of a benchmark's scenarios, drawn alike from each group of tags."""
    seed: int = 0
    """Of the sample."""
    shard: Annotated[str, Field(pattern=r"^[0-9]{1,5}/[0-9]{1,5}$")] | None = None
    """`2/4`: the second of four parts of all scenarios."""
    shard_durations: Path | None = None
    """Results with the durations by which shards are balanced."""
    strict_capabilities: bool = False
    """A trial whose agent lacks what its scenario requires is an error instead of skipped."""
    ignore_capabilities: bool = False
    """Such a trial runs, with a note in its result."""
    reuse: bool = False
    rerun_failed: bool = False
    rerun_errors: bool = False
    force: bool = False
    keep: Keep = Keep.NEVER
    params: dict[str, Any] = {}
    """Unknown keys of `--bench-extra`, for agents and scorers."""
    per_benchmark: dict[str, Overrides] = {}
    max_cost: Usd | None = None
    """USD that the whole job may spend on models."""
    max_tokens: Positive | None = None
    max_calls: Positive | None = None
    trial_max_cost: Usd | None = None
    """The same for each trial."""
    trial_max_tokens: Positive | None = None
    trial_max_calls: Positive | None = None
    allow_model: tuple[str, ...] = ()
    """Models that agents may call besides their own; `*` stands for anything."""
    allow_key: tuple[str, ...] = ()
    """Variables with keys of models that scorers may have in the container."""
    rpm: dict[str, Positive] = {}
    """Provider -> calls a minute, of the whole job; `*` for any that is not named."""
    tpm: dict[str, Positive] = {}
    """The same of tokens."""
    model_patience: Seconds | None = None
    """Time for which a call of a model is held back and retried before the agent gets its error."""
    on_quota: OnQuota = OnQuota.FAIL
    """Reaction to a provider's quota that is used up."""
    prices: Path | None = None
    """A table of prices to use instead of the packaged one."""
    record: Path | None = None
    """Directory for recorded traffic with models."""
    replay: Path | None = None
    """Recording of traffic that answers calls instead of models."""
    replay_exact: bool = False
    """A call whose prompt is not the recorded one is refused."""
    retry_errors: Annotated[int, Field(ge=0, le=100)] = 0
    env: dict[str, str] = {}
    """For agents."""
    image_map: dict[str, str] = {}
    """Base image -> replacement, for images out of reach."""
    build_args: dict[str, str] = {}
    registry: str | None = None
    """`HOST/PATH`, the repository for images that were built."""
    image_budget: Size | None = None
    """Bytes that the images which this job brings may take."""
    interleave: bool = False
    """Agents take turns."""
    grade_in: GradeIn | None = None
    """For all scenarios; default: each one's own."""
    on_tamper: OnTamper = OnTamper.NOTE
    """Of agents, not of references."""
    keep_processes: tuple[str, ...] = ()
    """Patterns of scenario ids that are always graded in the agent's container."""
    check: bool = False
    """The benchmark itself is checked: `nop` looks for the reference, and after the first attempt no scorer has a
    network that it did not request."""
    sandbox: str = "docker"
    sandbox_options: dict[str, str] = {}
    """Settings of the provider of its sandboxes."""
    runtime: str | None = None
    """Runtime of the engine for containers of trials; default: the engine's own."""
    headroom: Annotated[float, Field(ge=1, le=1000)] = 1.0
    """Limit of cpus and memory as a multiple of what is guaranteed, where a scenario names one number."""
    usual_headroom: float | None = None
    """The same for scenarios that are no tasks of Harbor, as its sandboxes have it where no headroom was given."""
    gate: GateConfig = GateConfig()
    """Gates that judge the job, at its end and by `benchjobs gate`."""
    directory: Path
    """Directory of `jobs/` and `history.sqlite`."""
    name: str | None = None
    metadata: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _reads_earlier_keys(cls, values: Any) -> Any:
        return _of_today(values)

    @property
    def ran_on(self) -> str:
        """What its trials run on, in words that gates compare."""
        runtime = f", runtime {self.runtime}" if self.runtime else ""
        factor = self.usual_headroom or self.headroom
        headroom = f", headroom {factor:g}" if factor != 1 else ""
        return f"{self.sandbox}{self.sandbox_words and f' ({self.sandbox_words})'}{runtime}{headroom}"

    @property
    def sandbox_words(self) -> str:
        """Settings of the provider of its sandboxes, in words."""
        return ", ".join(f"{key}={value}" for key, value in sorted(self.sandbox_options.items()))

    def of(self, benchmark: str) -> JobConfig:
        """Configuration for one benchmark, with the overrides of `per_benchmark`."""
        overrides = self.per_benchmark.get(benchmark)
        if overrides is None:
            return self
        changes = {key: value for key, value in overrides if value is not None and key != "params"}
        return self.model_copy(update={**changes, "params": {**self.params, **overrides.params}})


def placed(trial: Trial, job: JobConfig) -> Trial:
    """Return a trial that is graded where its job wants it: itself where the job asks for nothing else.

    What has to be in a fresh container stays there: `paths`, a patch, another image, and feedback.
    """
    scenario, wanted = trial.scenario, job.grade_in
    if any(fnmatch.fnmatchcase(scenario.id, pattern) for pattern in job.keep_processes):
        wanted = GradeIn.AGENT_CONTAINER
    if wanted is None or scenario.feedback is not None:
        return trial
    steps = tuple(
        step.model_copy(update={"fresh_container": _placed(step.fresh_container, wanted)})
        for step in scenario.steps
    )
    fresh = _placed(scenario.fresh_container, wanted)
    return trial.model_copy(
        update={"scenario": scenario.model_copy(update={"fresh_container": fresh, "steps": steps})}
    )


def _placed(own: FreshContainer | None, wanted: GradeIn) -> FreshContainer | None:
    if wanted is GradeIn.FRESH:
        return own or FreshContainer()
    return None if own is None or (own.is_workdir and own.environment is None) else own


class Owner(Model):
    """A process, distinguished from later ones with its pid. See `pytest_benchjobs.model.owner`."""

    host: str
    boot: str
    pid: int
    started: str
    """Kernel start time of the process; a recycled pid has another one."""

    def __str__(self) -> str:
        return f"{self.boot}/{self.pid}/{self.started}"


class Totals(Model):
    """Counts of outcomes, and the mean score over the trials that have one."""

    trials: int = 0
    passed: int = 0
    failed: int = 0
    error: int = 0
    cancelled: int = 0
    skipped: int = 0
    mean_score: float | None = None
    reused: int = 0
    """Those of `trials` that are reused from an earlier job. They cost nothing in this one."""
    cost_usd: float | None = None
    """Cost of the trials that ran. None: unknown for all of them."""


class Checksum(Model):
    """Checksum of the results of a job, as gates and comparisons read them."""

    results: int
    """Their number."""
    digest: str


class Invocation(Model):
    """Command line of pytest: enough to repeat the call."""

    arguments: tuple[str, ...]
    """Without `pytest` itself. Values of `--bench-env` are left out: they may be secrets."""
    settings: Annotated[dict[str, bool | str | tuple[str, ...]] | None, BeforeValidator(_of_today)] = None
    """The settings among the arguments, by name, as they were written. None: of a job from before they were kept."""
    rest: tuple[str, ...] = ()
    """The arguments that are for pytest and its other plugins."""
    directory: Path
    """Working directory of the call."""
    rootdir: Path


class Decisions(Model):
    """Decisions of a job while it runs, each kept when it is made. A resumed job decides anew.

    The record itself has the configuration in force, how many trials are planned, and how the job ended.
    """

    unselected: int = 0
    """Number of results of trials that are not selected now. They stay."""
    stopped: str | None = None
    """Reason why no further trials are run, though more were planned."""
    settled: dict[str, dict[str, str]] = {}
    """Benchmark -> agent -> why no further attempts of it are run."""
    changed: dict[str, str] = {}
    """Trials that had ended before the job was resumed, and the parts of their signature that changed since."""
    problems: tuple[str, ...] = ()
    """Lines about what went wrong with the job itself."""
    engine_problem: Failure | None = None
    """Reason why its trials have no sandboxes."""
    quotas: tuple[Quota, ...] = ()
    """Quotas of providers that are used up."""


class Shard(Model):
    """A part of a job, for one machine."""

    scenarios: int
    trials: int
    seconds: float | None
    """Sum of the expected times of its trials; None: no durations were given."""


class Split(Model):
    """Division of a job into shards, which each of them computed."""

    digest: str
    """Of all trials and their shards: parts of one job have the same."""
    shards: tuple[Shard, ...]


class JobRecord(Model):
    """`job.json`: what a job is and how it stands."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: str
    name: str | None = None
    status: JobStatus
    created_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    owner: Owner
    config: JobConfig
    planned: int | None = None
    """Trials selected to run."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks of these trials, sorted."""
    partial: bool = False
    """True if the job has less than all scenarios of its benchmarks."""
    narrowed: bool = False
    """True if anything but a shard left scenarios out."""
    split: Split | None = None
    """The shards, if this job is one."""
    unselected_agents: tuple[str, ...] = ()
    """Labels of agents of which trials were deselected; `*`: trials were named by ids, so that all others were."""
    named: bool = False
    """True if its benchmarks were named one by one, so that others are not missing."""
    totals: Totals = Totals()
    checksum: Checksum | None = None
    """Of the results that it ended with; None: it has not ended, or an earlier version wrote it."""
    spent: Usage = Usage()
    """Usage of models by all its trials so far, also by those whose results a resume replaced. Judges count."""
    invocation: Invocation | None = None
    parent: str | None = None
    """The job this one was made from, by `rescore`, `rerun` or `merge`."""
    resumed_at: tuple[AwareDatetime, ...] = ()
    """Times at which the job was resumed, after it had died or been cancelled."""
    message: str | None = None
    """Reason for its status, unless that is plain."""
    rounds: tuple[RoundReport, ...] = ()
    """Findings of the rounds of attempts, if the job ran in rounds."""
    decisions: Decisions = Decisions()
    reproducibility: dict[str, Any] = {}
    """argv, git commit and state, versions, platform."""
