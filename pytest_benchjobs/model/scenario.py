"""A scenario: one self-contained task, as every source of scenarios describes it."""

from __future__ import annotations

import enum
import os.path
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from .base import Capability, Model, Name, Numerous, ScenarioName, Score, Seconds, Size
from .metric import MOST, OWN_SCORE, MetricName, MetricSpec
from .pattern import pattern_fault

DEFAULT_PIDS = 2048
TURN = "turn"
"""Type of the scorer that grades one turn of a conversation."""
MAIN = "main"
"""The service that is the container of the trial, in a file of Docker Compose."""

Network = Literal["public", "none", "allowlist"]
TOOL_NAME = r"^[a-z][a-z0-9_]{0,59}$"
ProviderTool = Annotated[str, Field(pattern=TOOL_NAME)]
"""Name of a tool that an endpoint runs, in lower case and without its version: `web_search`."""
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvTable = dict[EnvName, str]


class NetworkAccess(Model):
    """A network, and the hosts that an allowlist permits."""

    network: Network = "public"
    allowed_hosts: tuple[str, ...] = ()


class McpServer(Model):
    """A server of the Model Context Protocol, whose tools an agent is given."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    transport: Literal["stdio", "http", "sse"]
    """`http`: streamable HTTP."""
    command: str | None = None
    """Of `stdio`: a program in the container, and `args`."""
    args: tuple[str, ...] = ()
    url: str | None = None
    """Of `http` and `sse`."""


class HealthCheck(Model):
    """A command repeated inside the container until it exits 0. Times in seconds."""

    command: str
    interval: Seconds = 5.0
    timeout: Seconds = 30.0
    start_period: Annotated[float, Field(ge=0)] = 0.0
    start_interval: Seconds = 5.0
    retries: Annotated[int, Field(ge=1)] = 3


class GradeIn(enum.StrEnum):
    """Place where a trial is graded."""

    FRESH = "fresh"
    """An untouched container, which gets the agent's files: nothing else that it did is there."""
    AGENT_CONTAINER = "agent_container"
    """The container that the agent worked in, as Harbor's tasks expect: daemons live on, and nothing is undone."""


class OnTamper(enum.StrEnum):
    """Outcome of a trial graded in the agent's container where the agent changed files of the image."""

    NOTE = "note"
    """That of its score, with a note."""
    FAIL = "fail"
    """Failed, with a score of 0."""


class ServiceImage(Model):
    """The image of a service: a name, or a Dockerfile with its context."""

    image: str | None = None
    dockerfile: Path | None = None
    context: Path | None = None
    build_args: dict[str, str] = {}


class Compose(Model):
    """Services beside the container of a trial, which a file of Docker Compose describes."""

    file: Path
    """Absolute path. All that the services are given of this machine is in its directory."""
    images: dict[str, ServiceImage] = {}
    """Service -> its image, as far as the file says it without Docker Compose; without `main`."""


class Environment(Numerous):
    """The container a trial runs in. Sizes in bytes, times in seconds."""

    image: str | None = None
    dockerfile: Path | None = None
    """Absolute path of a Dockerfile; wins over `image` when both are there and the image cannot be had."""
    context: Path | None = None
    """Absolute path of the build context; default: the directory of the Dockerfile."""
    snapshot: str | None = None
    """Instead of an image: what was kept of a trial, `JOB/TRIAL` or its reference."""
    build_args: dict[str, str] = {}
    build_timeout: Seconds = 600.0
    hidden: tuple[Path, ...] = ()
    """Absolute paths that no build context holds: of the manifest, and of what its references and scorers name."""
    git_history: str | None = None
    """End of the history of the repositories in the workdir: `base`, the commit of `HEAD`, or a commit."""
    workdir: str | None = None
    """Absolute path in the container; default: the image's own."""
    user: str | None = None
    """User of set-up steps; default: the image's own."""
    env: EnvTable = {}
    """`${VAR}` and `${VAR:-default}` are filled in from the host just before the container is made."""
    cpus: Annotated[float, Field(gt=0)] | None = None
    """Limit; `cpus_request` is what is guaranteed. The same goes for memory."""
    cpus_request: Annotated[float, Field(gt=0)] | None = None
    """None: as much as the limit."""
    memory: Size | None = None
    memory_request: Size | None = None
    storage: Size | None = None
    """Bytes that the trial may write to the container's file system."""
    pids: Annotated[int, Field(ge=16)] = DEFAULT_PIDS
    gpus: Annotated[int, Field(ge=0)] = 0
    network: Network = "public"
    allowed_hosts: tuple[str, ...] = ()
    keep_entrypoint: bool = False
    """Start the image's ENTRYPOINT instead of overriding it (what Harbor does)."""
    allow_sudo: bool = False
    """Leave out `no-new-privileges`, so that set-user-id programs such as sudo work."""
    setup: tuple[str, ...] = ()
    """Shell commands run in order before the agent."""
    setup_timeout: Seconds = 600.0
    healthcheck: HealthCheck | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    """Handed to the agent."""
    skills_dir: str | None = None
    """Directory in the container, each of whose directories is a skill that the agent is given."""
    skills_if_there: str | None = None
    """The same, for agents that take skills, if there is such a directory; used without `skills_dir`."""

    compose: Compose | None = None
    """Services beside the container; default: none."""

    def access(
        self, network: Network | None = None, allowed_hosts: tuple[str, ...] | None = None
    ) -> NetworkAccess:
        """Network of a phase with these keys, in such a container; where it has none, that of the container."""
        chosen = network or self.network
        if chosen != "allowlist":
            return NetworkAccess(network=chosen)
        hosts = self.allowed_hosts if allowed_hosts is None else allowed_hosts
        return NetworkAccess(network=chosen, allowed_hosts=hosts)

    def with_headroom(self, headroom: float) -> Environment:
        """Return it with limits of `headroom` times what is guaranteed, where one number stands for both."""
        update: dict[str, float] = {}
        for name in ("cpus", "memory"):
            one = getattr(self, name)
            if headroom != 1 and one is not None and getattr(self, f"{name}_request") is None:
                update |= {name: type(one)(one * headroom), f"{name}_request": one}
        return self.model_copy(update=update)

    def of_service(self, image: ServiceImage) -> Environment:
        """Return what it takes to have the image of a service."""
        return Environment(**dict(image), build_timeout=self.build_timeout, hidden=self.hidden)

    @property
    def image_source(self) -> tuple[object, ...]:
        """All that decides which image it is, beside what a job maps and adds. Hashable."""
        return (
            self.image,
            self.dockerfile,
            self.context,
            self.snapshot,
            tuple(sorted(self.build_args.items())),
            self.hidden,
            *((self.git_history, self.workdir) if self.git_history else ()),
        )

    @property
    def image_shown(self) -> str:
        """Its image in words."""
        if self.image is None and self.snapshot is not None:
            return f"snapshot {self.snapshot}"
        return self.image or str(self.dockerfile)


class Reference(Numerous):
    """Reference solution for `oracle`: a shell script, a patch, files, or a directory with a `solve.sh` (Harbor)."""

    script: str | None = None
    patch: Path | None = None
    files: dict[str, Path] = {}
    """Path in the container (relative to the workdir, or absolute) -> absolute path of a host file or directory."""
    solution: Path | None = None
    env: EnvTable = {}
    reply: str | None = None
    """Right reply in a turn of a conversation; `script` runs before it."""


class ScorerSpec(Numerous):
    """One scorer of a scenario.

    `type` is one of the built-in kinds (`bash`, `command`, `tests`, `answer` ...) or a name that a plugin registered.
    """

    name: Name
    type: str = Field(min_length=1)
    weight: Annotated[float, Field(gt=0)] = 1.0
    script: str | None = None
    """`bash` and `python`: prints `score=X`, or a number on its last line. Of `python` also an expression."""
    command: str | None = None
    """`command`: exit status 0 is 1.0. `tests`: how to run the files; default: test.sh, else pytest."""
    runner: Literal["pytest", "unittest"] | None = None
    """`tests`: what runs the files, in place of a `command` or a `test.sh`."""
    path: Path | None = None
    """`tests`, `harbor`, `python`: absolute path of what is put into the container after the agent is gone."""
    overlay: Path | None = None
    """`harbor`: absolute path of a directory whose files are put over those of `path`."""
    requirements: tuple[str, ...] = ()
    """`python`: packages that it imports, such as `numpy==2.1.0`."""
    python_version: str | None = None
    """`python`: versions of Python that it runs with, such as `==3.12.*`."""
    timeout: Seconds | None = None
    user: str | None = None
    env: EnvTable = {}
    network: Network | None = None
    """Network while this scorer runs; default: the environment's."""
    allowed_hosts: tuple[str, ...] | None = None
    """Hosts of its `allowlist`; default: the environment's."""
    params: dict[str, Any] = {}
    """Handed to registered scorers as they are."""
    metrics: dict[MetricName, MetricSpec] = {}
    """Metrics that it reports beside its score; without any, all that it reports are kept."""

    @model_validator(mode="after")
    def _weighs_its_score(self) -> Self:
        own = self.metrics.get(OWN_SCORE)
        if own is not None and own.model_fields_set - {"weight"}:
            raise ValueError(f"metrics: {OWN_SCORE!r} is the scorer's own score; it takes only a weight")
        if len(self.metrics) > MOST:
            raise ValueError(f"metrics: there are {len(self.metrics)}; {MOST} are allowed")
        return self


class ArtifactSpec(Model):
    """A path in the container to keep after the trial, or a pattern (`*`, `?`, `[...]`) of paths.

    Relative ones start at the workdir.
    """

    source: str = Field(min_length=1)
    destination: str | None = None
    """Relative path under the trial's `artifacts/`; default: the source's own, of a service below its name."""
    exclude: tuple[str, ...] = ()
    service: str = MAIN
    """Service whose container it is in."""


class CarriedPath(Model):
    """A file or directory that comes along into the container for grading. Relative ones start at the workdir."""

    source: str = Field(min_length=1)
    exclude: tuple[str, ...] = ()
    service: str = MAIN
    """Service whose container it is in."""


class FreshContainer(Model):
    """Grade in a container of its own: what the agent left comes along as files, and nothing else of it does.

    Without `paths` and `patch` that is the workdir.
    """

    paths: tuple[CarriedPath, ...] = ()
    """These instead of the workdir."""
    carry: tuple[CarriedPath, ...] = ()
    """These beside the workdir."""
    patch: bool = False
    """Carry along the workdir, but for what is called `.git`."""
    ignored: bool = True
    """Of a patch, also what the repository in the workdir has git ignore, which no diff has."""
    environment: Environment | None = None
    """Environment of the container; default: as the agent's, set up the same way."""

    @property
    def is_workdir(self) -> bool:
        """True if the whole workdir comes along."""
        return not self.paths and not self.patch

    @property
    def is_default(self) -> bool:
        """True if its scenario asks for nothing in particular."""
        return self == _WORKDIR


_WORKDIR = FreshContainer()


class Answer(Model):
    """The whole of the work is one short text: a number, a letter, a grid.

    An agent that is a bare model is asked the problem statement alone; its reply is the answer, and there is no
    container. Any other agent is told, below the problem statement, where to write the answer.
    """

    file: str = "answer.txt"
    """Path in the container; a relative one starts at the workdir."""
    instruction: str = "Write your final answer to the file `{file}`, and nothing else into that file."
    """Addition to the problem statement for an agent that works in a container; `{file}` stands for the path."""
    reference: str | None = None
    """The right answer, as `oracle` writes it."""
    questions: tuple[str, ...] = ()
    """Questions for a bare model in place of the problem statement, each in a conversation of its own.

    The answer is then a JSON array of the replies.
    """
    needs_container: bool = False
    """True if the way to the answer leads through a container, for every agent: it holds data, or programs."""
    reply_file: str | None = None
    """File that the reply of a bare model goes to where a container is needed to grade it: it has to be run."""


class Feedback(Model):
    """Further turns for an agent whose work does not pass: it gets the names of failed tests, and goes on.

    It goes on in the same container, as a new process with a new problem statement. Each turn is graded in a fresh
    container, so nothing that scorers put in is there when the agent goes on.
    """

    turns: Annotated[int, Field(ge=2, le=10)] = 2
    """All of them, the first one included."""
    statement: str
    """Problem statement of every turn but the first. `{problem}` stands for the scenario's, `{output}` for the names
    of the tests that failed, or the score of a scorer without tests."""
    shows_output: bool = False
    """`{output}` is all that the scorer printed, beside hidden files: where a benchmark's published protocol is so."""
    scorer: str | None = None
    """Name of the scorer to report; default: the first."""
    replace: tuple[tuple[str, str], ...] = ()
    """Regular expressions, in their order, and the replacement of their matches in the report."""
    characters: Annotated[int, Field(ge=1)] = 50_000
    """Limit of characters of the report, of which the end is kept."""

    @field_validator("replace")
    @classmethod
    def _compiles(cls, replace: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for pattern, text in replace:
            if (fault := pattern_fault(pattern, text)) is not None:
                raise ValueError(f"{pattern!r} {fault}")
        return replace


class Step(Model):
    """One of several steps of a trial, in one container: an instruction for the agent, and the grading of its work."""

    name: Name
    instruction: str = Field(min_length=1)
    """Problem statement of the step."""
    continues: bool = False
    """The agent continues its conversation of the steps before, and its reply is graded."""
    scorers: tuple[Name, ...] = ()
    """Names of the scenario's scorers that grade it."""
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Weight of its score in the mean of all steps."""
    least: dict[str, float] = {}
    """Reward -> the least value with which the following steps run. `reward` is the score, unless a scorer gives it."""
    files: Path | None = None
    """Absolute path of a directory whose content is put into the workdir before the agent starts."""
    setup: str | None = None
    """Shell command that then runs as the user of the agent."""
    healthcheck: HealthCheck | None = None
    """Passes before the agent starts, beside that of the environment."""
    reference: Reference | None = None
    agent_timeout: Seconds | None = None
    """These three default to those of the scenario."""
    agent_user: str | None = None
    agent_network: Network | None = None
    agent_allowed_hosts: tuple[str, ...] | None = None
    """Of this `agent_network`."""
    artifacts: tuple[ArtifactSpec, ...] = ()
    """Kept after the step, in addition to those of the scenario."""
    fresh_container: FreshContainer | None = None
    """Container for grading the step; None: the one that the agent works in."""


class StepScore(enum.StrEnum):
    """Score of a trial of several steps. A step that did not run has the score 0."""

    MEAN = "mean"
    """The weighted mean of all steps."""
    FINAL = "final"
    """That of the last step."""


class Requires(Model):
    """Requirements, checked before anything is spent."""

    env: tuple[EnvName, ...] = ()
    secrets: tuple[EnvName, ...] = ()
    commands: tuple[str, ...] = ()
    """Programs on the host's PATH."""
    capabilities: tuple[Capability, ...] = ()
    """Of the agent. One that is known to lack any does not run the scenario."""


class Validation(enum.StrEnum):
    """Expectation of `benchjobs check` for the untouched environment."""

    FORWARD = "forward"
    REVERSE = "reverse"
    EVALUATION = "evaluation"


class Scenario(Numerous):
    """One task: what to do, where, and how it is graded."""

    id: ScenarioName
    benchmark: str
    benchmark_version: str | None = None
    problem_statement: str = Field(min_length=1)
    additional_context: Any = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    archived: bool = False
    validation: Validation = Validation.FORWARD
    environment: Environment
    files: dict[str, Path] = {}
    """Path in the container (relative to the workdir, or absolute) -> absolute path of a host file or directory."""
    reference: Reference | None = None
    answer: Answer | None = None
    """A short answer that is expected instead of work on files."""
    confidential: bool = False
    """True if its problem statement, tests and reference are kept out of reports, exports and views."""
    threshold: Score | None = None
    """Pass mark; default: the job's."""
    agent_timeout: Seconds | None = None
    agent_user: str | None = None
    agent_env: EnvTable = {}
    agent_network: Network | None = None
    agent_allowed_hosts: tuple[str, ...] | None = None
    """Hosts of an `allowlist` while the agent works; default: the environment's."""
    provider_tools: bool | tuple[ProviderTool, ...] | None = None
    """Tools that endpoints of models may run for the agent, all or by name; default: all if its network is public."""
    scorer_timeout: Seconds = 1800.0
    scorers: tuple[ScorerSpec, ...] = Field(min_length=1)
    grade_in: GradeIn = GradeIn.FRESH
    """Choice of its author, whatever a job wants."""
    fresh_container: FreshContainer | None = _WORKDIR
    """Container for grading; None: the one that the agent worked in. Of several steps, each has its own."""
    feedback: Feedback | None = None
    """Further turns where the first does not pass; default: one turn."""
    steps: tuple[Step, ...] = ()
    """Steps of a trial of several steps, each with its own instruction and grading; `scorers` are those of all."""
    step_score: StepScore = StepScore.MEAN
    diagnostic: bool = False
    """A forbidden behaviour, and a low score, do not fail a trial: it measures."""
    artifacts: tuple[ArtifactSpec, ...] = ()
    requires: Requires = Requires()
    source: Path
    """The manifest or task directory it came from."""
    line: int | None = None

    @model_validator(mode="after")
    def _can_give_feedback(self) -> Self:
        if self.feedback is None:
            return self
        if self.fresh_container is None:
            raise ValueError(
                "feedback needs a fresh_container: in its own container the agent would find the files of scorers"
            )
        if self.feedback.scorer not in (None, *(spec.name for spec in self.scorers)):
            raise ValueError(f"feedback: there is no scorer {self.feedback.scorer!r}")
        return self

    @model_validator(mode="after")
    def _has_whole_steps(self) -> Self:
        if not self.steps:
            return self
        if self.feedback is not None or self.answer is not None:
            raise ValueError("a scenario of several steps has neither feedback nor a short answer")
        if len({step.name.lower() for step in self.steps}) < len(self.steps):
            raise ValueError("two steps have the same name")
        graded = [name for step in self.steps for name in step.scorers]
        if sorted(graded) != sorted(spec.name for spec in self.scorers):
            raise ValueError("each scorer grades one step")
        if not any(step.weight for step in self.steps):
            raise ValueError("no step has a weight")
        return self

    def at_step(self, number: int) -> Scenario:
        """Return the scenario of one step alone, counted from 0."""
        step = self.steps[number]
        return self.model_copy(
            update={
                "problem_statement": step.instruction,
                "scorers": tuple(spec for spec in self.scorers if spec.name in step.scorers),
                "reference": step.reference,
                "agent_timeout": step.agent_timeout or self.agent_timeout,
                "agent_user": step.agent_user or self.agent_user,
                "agent_network": step.agent_network or self.agent_network,
                "agent_allowed_hosts": step.agent_allowed_hosts
                if step.agent_network
                else self.agent_allowed_hosts,
                "artifacts": (*self.artifacts, *step.artifacts),
                "fresh_container": step.fresh_container,
                "steps": (),
            }
        )

    @property
    def tools_of_providers(self) -> tuple[str, ...] | None:
        """Names of the tools that endpoints of models may run for the agent; None: all."""
        given = self.provider_tools
        if given is None:
            agent = [step.agent_network or self.agent_network for step in self.steps] or [self.agent_network]
            given = all((network or self.environment.network) == "public" for network in agent)
        return () if given is False else None if given is True else given

    def networks(self, environment: Environment) -> frozenset[Network | None]:
        """Networks that a container of this environment has at some time. None stands for the first."""
        agent = (self.agent_network, *(step.agent_network for step in self.steps))
        return frozenset((environment.network, *agent, *(scorer.network for scorer in self.scorers)))

    @property
    def is_question(self) -> bool:
        """True if an agent that can answer needs nothing but the problem statement: no container, and no files."""
        environment = self.environment
        return (
            self.answer is not None
            and not self.answer.needs_container
            and not (self.files or self.artifacts or environment.setup)
            and environment.healthcheck is None
            and environment.compose is None
            and (self.fresh_container is None or self.fresh_container.is_default)
        )

    @property
    def graded_here(self) -> tuple[ScorerSpec, ...]:
        """Scorers that grade in a container of the agent's image. One of another image has never an agent in it."""

        def is_here(fresh: FreshContainer | None) -> bool:
            return fresh is None or fresh.environment is None

        if not self.steps:
            return self.scorers if is_here(self.fresh_container) else ()
        names = {name for step in self.steps if is_here(step.fresh_container) for name in step.scorers}
        return tuple(spec for spec in self.scorers if spec.name in names)

    @property
    def places(self) -> tuple[FreshContainer | None, ...]:
        """Container for grading, of each step where there are several; None: the agent's."""
        return tuple(step.fresh_container for step in self.steps) or (self.fresh_container,)

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Environments whose images its trials need, that of the agent first, those of services last."""
        graded = (one.environment for one in self.places if one is not None and one.environment is not None)
        own = (self.environment, *graded)
        services = (
            environment.of_service(image)
            for environment in own
            if environment.compose is not None
            for image in environment.compose.images.values()
        )
        return (*own, *services)

    @property
    def question(self) -> Answer | None:
        """Request to a bare model, without tools; its reply goes to `file`. None: it works as other agents do."""
        if self.is_question or self.answer is None or self.answer.reply_file is None:
            return self.answer if self.is_question else None
        return self.answer.model_copy(update={"file": self.answer.reply_file})

    @property
    def place(self) -> str:
        """Its file, from the working directory, and its line."""
        return f"{os.path.relpath(self.source)}{f':{self.line}' if self.line else ''}"

    @property
    def has_reference(self) -> bool:
        """True if `oracle` can solve it."""
        if self.steps:
            return all(step.reference is not None for step in self.steps)
        return self.reference is not None or (self.answer is not None and self.answer.reference is not None)

    @property
    def statement_in_container(self) -> str:
        """The problem statement for an agent that works in a container: where to write a short answer is added."""
        if self.answer is None:
            return self.problem_statement
        return f"{self.problem_statement}\n\n{self.answer.instruction.replace('{file}', self.answer.file)}"

    def without_content(self) -> Scenario:
        """Copy the keys that results need, without problem statement, files or scorers."""
        kept = ("id", "benchmark", "benchmark_version", "tags", "confidential", "threshold", "source", "line")
        return Scenario(
            **{name: getattr(self, name) for name in kept},
            problem_statement="(left out)",
            metadata={key: name for key in ("cluster", "category") if (name := self._named(key)) is not None},
            environment=Environment(),
            scorers=(ScorerSpec(name="none", type="left-out"),),
        )

    @property
    def cluster(self) -> str | None:
        """Group of scenarios that are not independent of each other. Kept in the metadata, as Harbor tasks do."""
        return self._named("cluster")

    @property
    def category(self) -> str | None:
        """Category, such as `safety`. Kept in the metadata, as Harbor tasks do."""
        return self._named("category")

    def _named(self, key: str) -> str | None:
        named = self.metadata.get(key)
        return str(named)[:200] if isinstance(named, str | int) and str(named) else None
