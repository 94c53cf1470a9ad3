"""The keys of a native manifest, as people write them. `benchmark_schema` publishes these docstrings."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from ..model.base import Capability, Name, ScenarioName, parse_size
from ..model.hosts import parsed_host
from ..model.metric import Direction, MetricName, Unit
from ..model.scenario import MAIN, TOOL_NAME, EnvName, GradeIn, Network, ProviderTool, Validation
from .complaints import Written, in_words

Text = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Strict()]
Count = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]
Duration = Annotated[Number, Field(gt=0, le=31_536_000)]
"""Seconds, at most a year."""
Processors = Annotated[Number, Field(gt=0, le=4096)]
ByteSize = Annotated[int, BeforeValidator(parse_size, json_schema_input_type=int | str)]
Variables = dict[EnvName, str]
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _day(value: object) -> object:
    """Parse a day. Dates of TOML arrive as text; a date with a time is refused."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"there is no day {value}") from None
    raise ValueError("a day such as 2027-01-31 is expected")


Day = Annotated[datetime.date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]


def _uid_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"must be an absolute path in the container, for example '/{value.lstrip('./')}'")
    return value


def _host(value: str) -> str:
    name, colon, port = value.partition(":")
    if colon and port.isdigit() and not value.startswith(":"):
        raise ValueError(f"{value!r} has a port; write the host only: {name!r}")
    parsed_host(value)
    return value


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _lines(value: object) -> object:
    """The lines of a text, without comments and empty ones."""
    if not isinstance(value, str):
        return value
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in value.splitlines())
    return [line for line in lines if line]


def _script(value: object) -> object:
    return {"script": value} if isinstance(value, str) else value


def _tools(value: object) -> object:
    """A switch for all, or names."""
    names = value if isinstance(value, list) else []
    if not isinstance(value, bool | list | None) or not all(re.match(TOOL_NAME, str(name)) for name in names):
        raise ValueError(
            f"has to be true, false, or names in lower case without versions, such as [web_search], not {value!r}"
        )
    return value


def sources(value: object) -> object:
    """A list of tables, in which a text is short for a table with `source`."""
    if isinstance(value, list):
        return [{"source": item} if isinstance(item, str) else item for item in value]
    return value


User = Annotated[str, Field(min_length=1), BeforeValidator(_uid_as_text, json_schema_input_type=str | int)]
"""A user name or number, optionally with a group: `user:group`."""
ContainerPath = Annotated[Text, AfterValidator(_absolute)]
ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Name of an MCP server. Agents make names of tools of it."""
Transport = Literal["stdio", "streamable-http", "http", "sse"]
"""`http` is the same as `streamable-http`."""
Hosts = list[Annotated[str, AfterValidator(_host)]]


class WrittenHealthCheck(Written):
    """A command repeated in the container until it exits 0. Times in seconds."""

    command: Text
    interval: Duration = 5.0
    timeout: Duration = 30.0
    start_period: Annotated[Number, Field(ge=0, le=31_536_000)] = 0.0
    start_interval: Duration = 5.0
    retries: Annotated[Count, Field(ge=1, le=100_000)] = 3


class WrittenMcpServer(Written):
    """A server of the Model Context Protocol, whose tools the agent is given."""

    name: ServerName
    transport: Transport | None = None
    """`stdio` if there is a `command`, else `streamable-http`."""
    command: Text | None = None
    """Program in the container, of a server that speaks on its standard streams."""
    args: list[str] = []
    """Arguments of `command`."""
    url: Text | None = None
    """Address of any other server, as the container reaches it."""


class WrittenCpus(Written):
    """Processors: guaranteed, and at most."""

    request: Processors
    limit: Processors


class WrittenMemory(Written):
    """Memory: guaranteed, and at most."""

    request: ByteSize
    limit: ByteSize


def _two_numbers(one: Any, table: Any) -> BeforeValidator:
    """A `table` with `request` and `limit`, for which a single number of the type `one` stands as well."""
    single = TypeAdapter[float](one)

    def read(value: object) -> object:
        if isinstance(value, dict | Written):
            return value
        try:
            number = single.validate_python(value)
        except ValidationError as error:
            raise ValueError(in_words(error.errors(include_url=False)[0])) from None
        return {"request": number, "limit": number}

    return BeforeValidator(read, json_schema_input_type=one | table)


class WrittenEnvironment(Written):
    """The container a scenario runs in."""

    image: Text | None = None
    """An image; give this, `dockerfile` or `snapshot`."""
    dockerfile: Text | None = None
    """Path of a Dockerfile, from the manifest's directory."""
    context: Text | None = None
    """Directory of the build context; default: the directory of the Dockerfile."""
    snapshot: Text | None = None
    """Instead of an image, the kept file system of a trial: `JOB/TRIAL`, or what `kept` of its result says."""
    build_args: dict[str, str] = {}
    build_timeout: Duration | None = None
    """Seconds; default 600."""
    git_history: Annotated[str, Field(pattern=r"^(full|base|[0-9a-f]{40}|[0-9a-f]{64})$")] | None = None
    """`full` (default), `base` (up to HEAD of the image's repository in the workdir), or a commit: up to that one."""
    workdir: ContainerPath | None = None
    """Working directory of commands; default: the image's own."""
    user: User | None = None
    """User of set-up steps; default: the image's own."""
    env: Variables = {}
    """`${VAR}` and `${VAR:-default}` are filled in from the host when a trial starts."""
    cpus: Annotated[WrittenCpus, _two_numbers(Processors, WrittenCpus)] | None = None
    """A number, or a table: what is guaranteed as `request`, and the `limit`."""
    memory: Annotated[WrittenMemory, _two_numbers(ByteSize, WrittenMemory)] | None = None
    """For example 512M or 2G, or a table with `request` and `limit`."""
    storage: ByteSize | None = None
    """The most that a trial may write, for example 10G."""
    pids: Annotated[Count, Field(ge=16, le=4_194_304)] | None = None
    """The most processes and threads at a time; default 2048."""
    gpus: Annotated[Count, Field(ge=0, le=1024)] | None = None
    network: Network | None = None
    """Default: public."""
    allowed_hosts: Hosts = []
    """Hosts that the network `allowlist` permits."""
    keep_entrypoint: Flag = False
    """Start the image's ENTRYPOINT instead of replacing it."""
    allow_sudo: Flag = False
    """Allow set-user-id programs such as sudo."""
    grading: Literal["strict", "contract"] | None = None
    """Of earlier versions: `contract` is `grade_in: agent_container`, `strict` has no effect."""
    keep_processes: Flag = False
    """Of earlier versions: the same as `grade_in: agent_container`."""
    setup: Annotated[list[Text], BeforeValidator(_one_or_more, json_schema_input_type=str | list[str])] = []
    """Shell commands run in order before the agent."""
    setup_timeout: Duration | None = None
    """Seconds; default 600."""
    healthcheck: WrittenHealthCheck | None = None
    mcp_servers: list[WrittenMcpServer] = []
    """Servers of the Model Context Protocol, handed to the agent."""
    skills_dir: ContainerPath | None = None
    """Directory in the container; each directory in it is a skill that the agent is given."""
    compose: Text | None = None
    """Path of a file of Docker Compose, from the manifest's directory: services beside the container."""


class WrittenReference(Written):
    """Reference solution for `oracle`; one of the four."""

    script: Text | None = None
    """A shell script."""
    patch: Text | None = None
    """Path of a patch, applied in the workdir."""
    file: Text | None = None
    """Path of a file with a shell script."""
    files: dict[Text, Text] = {}
    """Path in the container -> path of a file or directory that belongs there."""


class WrittenAnswer(Written):
    """A short answer: the whole of the work is one short text, which a scorer of type `answer` compares."""

    file: Text = "answer.txt"
    """File for the answer of an agent in a container; a relative path starts at the workdir."""
    instruction: Text | None = None
    """Added to the problem statement of an agent in a container; `{file}` stands for the file."""
    reference: Text | None = None
    """The right answer, for `oracle`."""


class WrittenMetric(Written):
    """A metric that a scorer reports beside its score."""

    unit: Unit | None = None
    """Shown with its values: `s`, `USD`, `MiB`."""
    direction: Direction | None = None
    """Direction of better values; default: as `worst` and `best` say, else `higher`."""
    worst: Number | None = None
    """Value that is worth 0, where it has a weight; default: 0, or 1 if lower is better."""
    best: Number | None = None
    """Value that is worth 1."""
    weight: Annotated[Number, Field(gt=0, le=1e9)] | None = None
    """Part in the scorer's score; default: none. `score` stands for the scorer's own score."""


class WrittenScorer(Written):
    """One scorer."""

    name: Name | None = None
    """Required if there is more than one scorer; default: its type."""
    type: Text
    """`bash` (needs `script`), `python` (`script` or `path`), `command` (`command`), `tests` (`path`), or another.

    `answer`, `files`, `ast_grep` and `judge` need `params`, `result_file` needs `command`, too. A plugin registers
    others by their names.
    """
    weight: Annotated[Number, Field(gt=0, le=1e9)] = 1.0
    script: Text | None = None
    """`bash` and `python`: prints `score=X`, or a number on its last line. Of `python` also an expression."""
    command: Text | None = None
    """`command`: exit status 0 is 1.0. `tests`: how to run the files."""
    runner: Literal["pytest", "unittest"] | None = None
    """`tests`: what runs the files, in place of a `command` or a `test.sh`."""
    path: Text | None = None
    """`tests`: file or directory copied into the container after the agent has ended. `python`: the script."""
    requirements: Annotated[list[Text], BeforeValidator(_lines, json_schema_input_type=list[str] | str)] = []
    """`python`: packages that it imports, as in a requirements.txt."""
    python_version: Text | None = None
    """`python`: versions of Python that it runs with: `==3.12.*`, `>=3.10`."""
    timeout: Duration | None = None
    """Seconds; default: the scenario's `scorer_timeout`."""
    user: User | None = None
    env: Variables = {}
    network: Network | None = None
    allowed_hosts: Hosts | None = None
    """Hosts that its network `allowlist` permits; default: the scenario's."""
    params: dict[str, Any] = {}
    """For `answer`, `ast_grep` and `judge`, how to grade; given to registered scorers unchanged."""
    metrics: dict[MetricName, WrittenMetric] = {}
    """What it measures beside the score. A script prints `metric NAME=VALUE`."""

    @property
    def label(self) -> str:
        """Its name, given or not."""
        return self.name or re.sub(r"[^A-Za-z0-9]+", "-", self.type).strip("-") or "score"


class WrittenArtifact(Written):
    """A path in the container to keep after the trial."""

    source: Text
    destination: Text | None = None
    """Relative path under the trial's `artifacts/`."""
    exclude: list[Text] = []
    service: Text = MAIN
    """Service of `compose` whose container it is in; default: the agent's."""


class WrittenCarriedPath(Written):
    """A file or directory of the agent's that is graded."""

    source: Text
    exclude: list[Text] = []
    service: Text = MAIN
    """Service of `compose` whose container it is in; default: the agent's."""


class WrittenFreshContainer(Written):
    """Table form of `grade_in: fresh`: which files of the agent the container gets; `paths` or `patch`."""

    paths: Annotated[
        list[WrittenCarriedPath],
        BeforeValidator(sources, json_schema_input_type=list[str | WrittenCarriedPath]),
    ] = []
    """Files and directories; relative ones start at the workdir."""
    patch: Flag = False
    """The workdir, but for what is called `.git`."""
    ignored: Flag = True
    """With `patch`, also files that git ignores, which no diff contains."""
    image: Text | None = None
    """With `paths`: image of the container, which has what scorers need; default: that of the agent, set up alike."""


class WrittenFeedback(Written):
    """Further turns for an agent whose work does not pass, which is told of the tests that failed."""

    turns: Annotated[Count, Field(ge=2, le=10)] = 2
    """Number of turns, including the first."""
    statement: Text
    """Problem statement of the next turns; `{problem}` is the first one, `{output}` names of failed tests."""
    scorer: Text | None = None
    """Name of the scorer that is told of; default: the first."""
    replace: dict[str, str] = {}
    """Regular expressions -> replacement of their matches in what is told."""
    characters: Annotated[Count, Field(ge=1, le=1_000_000)] = 50_000
    """The most characters of it, from its end."""


class WrittenCheck(Written):
    """A check of one turn; one of the three. A text alone is `contains`."""

    contains: Text | None = None
    """The reply contains this text. Case does not matter, nor do kind and number of blanks."""
    matches: Text | None = None
    """This regular expression matches somewhere in the reply. Case does not matter."""
    command: Text | None = None
    """This shell command exits with status 0 in the container, after the agent's processes have ended."""


def _check(value: object) -> object:
    """A list of checks; a text is short for `contains`, and a single check for a list of one."""
    listed = value if isinstance(value, list) else [value]
    return [{"contains": item} if isinstance(item, str) else item for item in listed]


Checks = Annotated[
    list[WrittenCheck],
    BeforeValidator(_check, json_schema_input_type=str | WrittenCheck | list[str | WrittenCheck]),
]


class WrittenTurn(Written):
    """One message of a conversation with the agent, and the checks of its reply and of what it does then."""

    actor: Text = "user"
    """Speaker. The agent runs at each message of `user`; one of anybody else comes with the next of the user."""
    message: Text
    expect: Checks = []
    """What has to hold."""
    forbid: Checks = []
    """What must not hold. In `mode: strict` the trial fails if it does."""
    timeout: Duration | None = None
    """Seconds for the agent in this turn; default: `agent_timeout`."""
    reply: Text | None = None
    """A right reply, for `oracle`."""
    reference: Text | None = None
    """Shell script that does what a right agent would do in this turn, for `oracle`."""


class WrittenRequires(Written):
    """Requirements, checked before the trial starts."""

    env: list[EnvName] = []
    secrets: list[EnvName] = []
    commands: list[Text] = []
    """Programs on the host's PATH."""
    capabilities: list[Capability] = []
    """Capabilities of the agent, such as `vision`. A trial whose agent is known to lack one is skipped."""


class WrittenDefaults(WrittenEnvironment):
    """Default keys of every scenario. Tables are merged key by key."""

    problem_statement: Text | None = None
    """The task, as the agent gets it; this or `problem_file`."""
    problem_file: Text | None = None
    """Path of a UTF-8 text file with the problem statement."""
    additional_context: Any = None
    tags: list[Text] = []
    """Also pytest markers."""
    metadata: dict[str, Any] = {}
    cluster: Text | None = None
    """Group of scenarios that succeed and fail together, such as a repository."""
    archived: Flag = False
    """Kept for the record, not run unless asked for."""
    validation: Validation = Validation.FORWARD
    environment: WrittenEnvironment | None = None
    """The keys of the container may also be in a table of their own."""
    files: dict[Text, Text] = {}
    """Path in the container -> path of a file or directory, copied before the agent starts."""
    reference: Annotated[
        WrittenReference | None,
        BeforeValidator(_script, json_schema_input_type=str | WrittenReference | None),
    ] = None
    """Reference solution for `oracle`: a shell script, or a table."""
    answer: WrittenAnswer | None = None
    """A short answer is expected instead of work on files."""
    threshold: Annotated[Number, Field(ge=0, le=1)] | None = None
    """Score from which a trial passes; default: the job's."""
    agent_timeout: Duration | None = None
    """Seconds; default 7200."""
    agent_user: User | None = None
    agent_env: Variables = {}
    agent_network: Network | None = None
    agent_allowed_hosts: Hosts | None = None
    """Hosts that `agent_network: allowlist` permits; default: `allowed_hosts`."""
    provider_tools: Annotated[
        bool | list[str] | None,
        BeforeValidator(_tools, json_schema_input_type=bool | list[ProviderTool] | None),
    ] = None
    """Tools that providers run for the agent, such as `web_search`; default: all if its network is `public`."""
    scorer_timeout: Duration | None = None
    """Seconds; default 1800."""
    scorers: list[WrittenScorer] = []
    grade_in: GradeIn | None = None
    """`fresh` (default): an untouched container, which gets the agent's files. `agent_container`: its own."""
    carry: Annotated[
        list[WrittenCarriedPath],
        BeforeValidator(sources, json_schema_input_type=list[str | WrittenCarriedPath]),
    ] = []
    """Files and directories that are graded beside the workdir, such as `/var/lib/app`."""
    fresh_container: WrittenFreshContainer | None = None
    """Other files than those, or another image, for the fresh container."""
    feedback: WrittenFeedback | None = None
    """Further turns if the first does not pass."""
    turns: list[WrittenTurn] = []
    """A conversation of several turns in one container, instead of one problem statement."""
    mode: Literal["strict", "diagnostic"] = "strict"
    """With `turns`. `diagnostic`: a trial measures, and neither a forbidden behaviour nor a low score fails it."""
    category: Text | None = None
    """Category, also a tag and in `metadata`: summaries have the scores of each tag."""
    keep_changes: list[ContainerPath] = []
    """Of earlier versions: absolute paths are read as `carry`."""
    artifacts: Annotated[
        list[WrittenArtifact], BeforeValidator(sources, json_schema_input_type=list[str | WrittenArtifact])
    ] = []
    requires: WrittenRequires | None = None


class WrittenVariant(WrittenDefaults):
    """Differences of one variant of a scenario."""

    id: ScenarioName
    """Added to the scenario's own id after a point: `count.long`."""


class WrittenScenario(WrittenDefaults):
    """One scenario."""

    id: ScenarioName
    variants: Annotated[list[WrittenVariant], Field(min_length=1)] | None = None
    """Variants of the scenario, which replace it."""


class WrittenBorrowed(Written):
    """A scenario of another benchmark. What is asked and graded stays as it is there."""

    borrowed: Annotated[Text, Field(alias="from")]
    """`NAME[@VERSION]::ID` of a benchmark known by name, or `PATH::ID`, relative to this file."""
    id: ScenarioName | None = None
    """Default: its id there."""
    tags: list[Text] = []
    """Instead of its own."""
    metadata: dict[str, Any] = {}
    """Added to its own."""
    cluster: Text | None = None
    archived: Flag = False
    threshold: Annotated[Number, Field(ge=0, le=1)] | None = None
    agent_timeout: Duration | None = None
    scorer_timeout: Duration = 1800.0
    setup_timeout: Duration = 600.0
    agent_env: Variables = {}
    """Added to its own."""
    weights: dict[Name, Annotated[Number, Field(gt=0, le=1e9)]] = {}
    """Name of a scorer -> its weight."""
    requires: WrittenRequires | None = None
    """Added to its own."""


class WrittenHeader(Written):
    """The top of a manifest, without its scenarios."""

    benchmark: ScenarioName
    version: Text | None = None
    description: str | None = None
    metadata: dict[str, Any] = {}
    confidential: Flag = False
    """Keep problem statements, tests and references out of reports, exports and views."""
    defaults: WrittenDefaults | None = None


class WrittenManifest(WrittenHeader):
    """A benchmark: a named, versioned set of scenarios."""

    scenarios: Annotated[list[WrittenScenario | WrittenBorrowed], Field(min_length=1)]
