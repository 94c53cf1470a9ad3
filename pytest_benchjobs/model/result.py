"""A trial and its result."""

from __future__ import annotations

import enum
import hashlib
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, Field, model_validator

from .agent import AgentSpec
from .base import SCHEMA_VERSION, Model, SchemaVersion, Score
from .ending import Ending
from .known_failure import Known
from .metric import Metric
from .scenario import GradeIn, Scenario
from .usage import Usage

COMPARED = ("agent", "parameters", "place", "reading", "sandbox_options", "runtime", "headroom")
"""Parts of a signature that a comparison is about, or notes."""


class Outcome(enum.StrEnum):
    """Outcome of a trial. `failed` is the agent's doing, `error` is not."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class FailureClass(enum.StrEnum):
    """Class of a trial that `failed`. The classes of `error` are the codes in `model.errors`."""

    BELOW_THRESHOLD = "below_threshold"
    AGENT_TIMEOUT = "agent_timeout"
    AGENT_CRASHED = "agent_crashed"
    LIMIT_EXCEEDED = "limit_exceeded"
    TURN_LIMIT = "turn_limit"
    MODEL_REFUSED = "model_refused"
    UNGRADABLE = "ungradable"
    TAMPERED = "tampered"
    FORBIDDEN = "forbidden"


INCOMPATIBLE = "incompatible"
"""Class of a trial that was skipped, since its agent or sandbox lacks what the scenario requires."""


class Failure(Model):
    """Reason why a trial is not `passed`: a class for programs and a message for people."""

    class_: str = Field(alias="class", serialization_alias="class")
    message: str
    phase: str | None = None
    detail: str | None = None
    """The last lines of the log that shows it."""

    model_config = {**Model.model_config, "populate_by_name": True}


class ScorerResult(Model):
    """Result of one scorer."""

    name: str
    type: str
    weight: float
    definition: dict[str, str] = {}
    """What it runs: its `command` or `script`, the `path` of its files, the `model` and `criteria` of a judge."""
    step: str | None = None
    """Name of the step that it graded, in a trial of several steps."""
    score: Score | None = None
    error: Failure | None = None
    seconds: float = 0.0
    output: str = ""
    """The tail of what it printed."""
    usage: Usage | None = None
    """Usage of the model that graded: not part of the trial's, which is the agent's. The job's limits count it."""
    details: dict[str, Any] = {}
    """For example how many tests passed."""
    metrics: tuple[Metric, ...] = ()
    """Metrics beside the score."""


class Phase(Model):
    """One step of a trial and how long it took, in seconds since the trial began."""

    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.end - self.start


class ImageRecord(Model):
    """The image a trial really ran in."""

    reference: str
    """As the scenario names it: an image, or `Dockerfile`."""
    id: str
    """Content digest."""
    key: str = ""
    """Key of its content, the same on every machine: its digest; of a built image, the digest of its recipe."""
    substituted: dict[str, str] = {}
    """Base images replaced by the image map. A result with any is not comparable with one without."""


class Amount(Model):
    """Processors, or bytes of memory."""

    request: float
    """What is guaranteed, as far as the engine can."""
    limit: float


class Resources(Model):
    """What a trial had to run on. None: no limit, or the engine's own runtime."""

    sandbox: str
    runtime: str | None = None
    cpus: Amount | None = None
    memory: Amount | None = None


class AgentEnd(Model):
    """End of the agent's process."""

    exit_status: int | None = None
    timed_out: bool = False
    silent: bool = False
    """It timed out for having printed nothing for too long."""
    limit: str | None = None
    """The limit it ran into: `storage` or `memory`."""
    oom_kills: int = 0
    leftovers: tuple[str, ...] = ()
    """Commands of processes it had left running."""
    killed: tuple[str, ...] = ()
    """Those of them that were killed before grading."""
    ending: Ending | None = None
    """Ending, by its last message or the gateway. None: only the exit status is known."""
    message: str | None = None
    """More about that, in a line."""
    tampered: tuple[str, ...] = ()
    """Paths of the image outside of the workdir that it changed, where it is graded in that container: the first of
    many. Of earlier versions: what was undone before grading."""
    elsewhere: tuple[str, ...] | None = None
    """Of earlier versions: changes that a patch of the workdir would not have."""
    output_bytes: int = 0

    @property
    def lived_on(self) -> bool:
        """True if processes that it had left running were there for grading."""
        return len(self.leftovers) > len(self.killed)


class StepResult(Model):
    """One step of a trial of several steps."""

    name: str
    score: Score | None = None
    """None: it did not run, or could not be graded."""
    not_run: str | None = None
    """Reason for not running. None: it ran."""
    scorers: tuple[str, ...] = ()
    """Names of the scorers that graded it."""
    agent_end: AgentEnd | None = None
    start: float = 0.0
    """Seconds since the trial began."""
    end: float = 0.0
    artifacts: tuple[str, ...] = ()
    """Paths under the `artifacts/` of the step."""
    kept: str | None = None
    """Image with the file system that the agent left after the step."""
    path: str | None = None
    """Directory of its logs, relative to the trial's."""

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.end - self.start


class Signature(Model):
    """Inputs that decide the result of a trial, as digests: never a path, a clock or a secret."""

    value: str
    """Of all parts together."""
    parts: dict[str, str]
    """`scenario`, `environment`, `scorers`, `agent`, `parameters`, `limits`, `place`, `image` -> digest.

    `reading` -> name of the rule by which the answer is read, if the scenario wants one.
    """

    @property
    def comparable(self) -> str:
        """Digest of what both sides of a comparison must have in common.

        That is all parts but the agent, its parameters, where it was graded, and how its answer was read.
        """
        common = sorted([part for part in self.parts.items() if part[0] not in COMPARED])
        return hashlib.sha256(repr(common).encode()).hexdigest()[:16]


class Origin(Model):
    """Trial of an earlier job that a result is reused from."""

    job: str
    path: str
    """Of the trial's files, relative to that job's directory."""
    finished_at: AwareDatetime


class Trial(Model):
    """A trial to run: scenario x agent x attempt, and the pytest node id that names it."""

    node_id: str
    scenario: Scenario
    agent: AgentSpec
    attempt: Annotated[int, Field(ge=1)] = 1
    known: Known | None = None
    """A failure the team knows of. It goes into the result, and never into a signature."""


class TrialResult(Model):
    """`result.json`: everything that is known of a trial."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    job: str
    node_id: str
    benchmark: str
    benchmark_version: str | None = None
    scenario: str
    agent: AgentSpec
    agent_version: str | None = None
    """Version of the program that ran, also if none was requested. None: unknown."""
    attempt: int
    tries: int = 1
    outcome: Outcome
    score: Score | None = None
    threshold: Score
    turns: tuple[Score, ...] = ()
    """Score after each turn, where the scenario gives feedback. `score` is that of the last one."""
    steps: tuple[StepResult, ...] = ()
    """Of a trial of several steps: all of them, also those that did not run. `agent_end` is that of the step which
    failed the trial, else of the last one."""
    failure: Failure | None = None
    scorers: tuple[ScorerResult, ...] = ()
    metrics: tuple[Metric, ...] = ()
    """Metrics of all scorers. Where two have the same name, the second is `NAME#2`."""
    agent_end: AgentEnd | None = None
    graded_in: GradeIn | None = None
    """Container that programs of scorers ran in; of several steps, the agent's if any did there. None: none ran."""
    usage: Usage = Usage()
    """Of all tries together."""
    grading_usage: Usage = Usage()
    """Usage of models that scorers asked, such as judges, of all tries and turns together. Not part of `usage`."""
    models: dict[str, int] = {}
    """Models that were called through the gateway, as their endpoints name them -> calls, of all tries."""
    phases: tuple[Phase, ...] = ()
    started_at: AwareDatetime
    finished_at: AwareDatetime
    seconds: float
    image: ImageRecord | None = None
    resources: Resources | None = None
    """Of the container that its agent worked in. None: there was none, or an earlier version did not say."""
    signature: Signature | None = None
    """None for one that ended before everything was known."""
    reused: Origin | None = None
    """Not run in this job: this is the result of that trial, and no new sample."""
    rescored: Origin | None = None
    """Graded anew in this job: what the agent did is that of that trial."""
    tags: tuple[str, ...] = ()
    """Of its scenario."""
    cluster: str | None = None
    """Scenarios of one cluster, such as tasks on one repository, are not independent of each other."""
    category: str | None = None
    """Category of its scenario; summaries have the scores of each."""
    confidential: bool = False
    """True if its authors ask that its content be not published: no text here quotes it."""
    known: Known | None = None
    """Known failure of the trial, as given to the job of this result."""
    ran_because: str | None = None
    """With `--bench-reuse`: why nothing could be reused."""
    kept: str | None = None
    """Image with the file system the agent left, for `benchjobs shell` and `rescore`."""
    artifacts: tuple[str, ...] = ()
    """Paths under the trial's `artifacts/`."""
    notes: tuple[str, ...] = ()
    """Things a reader should know that changed nothing: an artifact that was missing, a log that was cut."""
    engine_retries: int = 0
    """Calls of the container engine that had to be made again, in all tries. Many tell of a sick engine."""
    path: str = ""
    """The trial's directory, relative to the job's."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse an outcome that its score contradicts: an edited file must not count as a pass."""
        if self.outcome is Outcome.PASSED and self.score is None:
            raise ValueError("its outcome is passed, but it has no score")
        if self.outcome is Outcome.PASSED and self.score is not None and self.score < self.threshold:
            raise ValueError(
                f"its outcome is passed, but its score {self.score:g} is below its threshold {self.threshold:g}"
            )
        if self.outcome not in (Outcome.PASSED, Outcome.FAILED) and self.score is not None:
            raise ValueError(
                f"its outcome is {self.outcome.value}, which has no score, but its score is {self.score:g}"
            )
        return self
