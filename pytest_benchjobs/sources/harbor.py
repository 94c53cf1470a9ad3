"""Harbor task directories, schema 1.0 to 1.4: `task.toml`, `instruction.md`, `environment/`, `tests/`, `solution/`.

harbor_steps.py has the steps of a task. Features that this package does not support (GPUs, ...) are recognised and
refused with the line that asks for them (`Unsupported`); no task is run in part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os.path
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..model.base import ScenarioName, is_name_character
from ..model.errors import InputError, InputErrors
from ..model.scenario import (
    MAIN,
    Environment,
    GradeIn,
    Network,
    Reference,
    Scenario,
    ScorerSpec,
    StepScore,
)
from .complaints import Complaints
from .compose import COMPOSE_FILE, read_compose
from .documents import Document, has_windows_line_ends, read_document, read_text
from .harbor_keys import AgentTable, CollectCommand, EnvironmentTable, TaskFile, VerifierTable, hosts_of
from .harbor_services import check_services
from .harbor_steps import artifact_spec, check_steps, health_check, steps_of, whole_statement
from .harbor_verifier import brings_tests, fresh_container, has_own_dockerfile
from .plain import Place
from .protocol import ScenarioRef, SourceWarning, Unsupported
from .servers import faults_of_servers, mcp_server
from .toml_data import load_toml

TASK_FILE = "task.toml"
DEFAULT_VERIFIER_TIMEOUT = 600.0
HARBOR_SKILLS = "/harbor/skills"
"""Skills of a task that names no `skills_dir`."""
_KNOWN_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
_NETWORKS: dict[str | None, Network | None] = {
    None: None,
    "public": "public",
    "no-network": "none",
    "allowlist": "allowlist",
}
_MEBIBYTE = 1 << 20
_READABLE = 180
"""Characters of an invalid name that are kept in the id, before its digest."""
_name: TypeAdapter[str] = TypeAdapter(ScenarioName)


def is_task_directory(path: Path) -> bool:
    """Return True if a directory has a Harbor task, however broken. Another tool's `task.toml` does not count."""
    task = path / TASK_FILE
    # A link to nothing is a broken task.
    if not os.path.lexists(task) or os.path.isdir(task):  # noqa: PTH112  asked of every directory that pytest walks
        return False
    environment = (path / "environment").is_dir()
    if (path / "instruction.md").is_file() or (path / "tests" / "test.sh").is_file():
        return True
    if environment and ((path / "solution").is_dir() or (path / "steps").is_dir()):
        return True
    # The directory's files do not decide it: read task.toml.
    try:
        data = load_toml(read_text(task))
    except (InputError, ValueError):
        return environment
    sections = {key for key in ("agent", "verifier", "environment") if isinstance(data.get(key), dict)}
    versioned = not data.keys().isdisjoint({"schema_version", "version"})
    return len(sections) >= (1 if environment else 2 if versioned else 3)


class HarborTask:
    """One task directory: a source of exactly one scenario. It keeps no content."""

    def __init__(self, path: Path, benchmark: str | None = None) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100  `absolute` keeps `..`, `resolve` follows links
        self.warnings: Sequence[SourceWarning] = ()
        self._benchmark = benchmark

    @property
    def benchmark(self) -> str:
        """Name of the benchmark: the one given, else the name of the directory above."""
        return self._benchmark or self.path.parent.name or "tasks"

    def refs(self, wanted: Callable[[str], bool] | None = None) -> list[ScenarioRef]:
        """Validate the task if its id is `wanted`. Reads `task.toml`, and checks that the other files exist.

        Raises:
            Unsupported: the task needs something that is not supported.
            InputErrors: every mistake found.
        """
        warnings: list[SourceWarning] = []
        scenario_id = self._id()
        if wanted is not None and not wanted(scenario_id):
            return []
        if scenario_id != self.path.name:
            message = f"the directory name is not a scenario id (letters, digits, . _ + = -); {scenario_id!r} is used"
            warnings.append(SourceWarning(message, self.path))
        document = read_document(self.path / TASK_FILE, keys="harbor.md")
        complaints = Complaints(document)
        try:
            task = _check(self.path, scenario_id, document, complaints)
        finally:
            self.warnings = (*warnings, *complaints.warnings)
        return [_ref(scenario_id, task.metadata)]

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario.

        Raises:
            InputError: the directory has become wrong since, or has another id.
        """
        if scenario_id != self._id():
            raise InputError(f"no scenario {scenario_id!r} here, only {self._id()!r}", path=self.path)
        document = read_document(self.path / TASK_FILE, keys="harbor.md")
        task = _check(self.path, scenario_id, document, Complaints(document))
        statement = ""
        if not task.steps:
            statement = strip_canary(read_text(self.path / "instruction.md"))
            if not statement.strip():
                raise InputError("is empty", path=self.path / "instruction.md")
        try:
            return _scenario(self.path, scenario_id, self.benchmark, task, statement)
        except ValidationError as error:
            raise InputError(str(error), path=self.path / TASK_FILE) from None

    def _id(self) -> str:
        """The name of the directory, or a unique id made from it."""
        name = self.path.name
        with contextlib.suppress(ValidationError, UnicodeError):
            return _name.validate_python(name)
        kept = "".join(char if is_name_character(char) else " " for char in name)
        readable = "-".join(kept.split()).lstrip("._+=-")[:_READABLE].rstrip("-")
        digest = hashlib.sha256(
            unicodedata.normalize("NFC", name).encode("utf-8", "surrogatepass")
        ).hexdigest()
        try:
            return _name.validate_python(f"{readable}-{digest[:8]}" if readable else "")
        except ValidationError:
            message = "the name of a task directory must have a letter or digit; rename the directory"
            raise InputError(message, path=self.path) from None


def strip_canary(text: str) -> str:
    """An instruction without the comment lines at its top that mark it for filters of training data."""
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines):
        line = lines[start].strip()
        marked = line.startswith(("<!--", "#", "//")) and "canary" in line.lower()
        if not marked and (start == 0 or line):
            break
        start += 1
    return "".join(lines[start:])


def _check(directory: Path, scenario_id: str, document: Document, complaints: Complaints) -> TaskFile:
    """The task file, if neither it nor the files beside it have a mistake."""
    complaints.unknown_keys(TaskFile, document.data, ignored=True)  # a later version may define them
    task = complaints.check(TaskFile, document.data)
    _refuse_unsupported(directory, scenario_id, document, complaints)
    if task is not None and task.steps:
        check_steps(directory, task, complaints)
    elif not document.data.get("steps"):
        if (directory / "steps").is_dir():
            complaints.odd((), "steps/ has no effect without [[steps]] in task.toml")
        # An image of the verifier's own may contain the tests.
        bundled = task is not None and brings_tests(directory, task)
        for name in ("instruction.md", *(() if bundled else ("tests/test.sh",))):
            if not (directory / name).is_file():
                complaints.wrong((), f"{name} is missing beside task.toml")
    if not (directory / "environment").is_dir():
        complaints.wrong((), "environment/ is missing beside task.toml")
    if task is not None:
        _check_sense(directory, task, complaints)
    complaints.raise_errors()
    if task is None:
        raise AssertionError("unreachable")
    return task


def _refuse_unsupported(
    directory: Path, scenario_id: str, document: Document, complaints: Complaints
) -> None:
    """Refuse a task that needs something unsupported.

    Raises:
        Unsupported: everything unsupported that it asks for. Other mistakes may follow from that: a task of several
            containers has its images elsewhere.
    """
    refused = Complaints(document)
    _find_unsupported(directory, document.data, refused, complaints)
    try:
        refused.raise_errors()
    except InputErrors as errors:
        found = document.data.get("metadata")
        metadata = found if isinstance(found, dict) else {}
        raise Unsupported(errors.errors, _ref(scenario_id, metadata), metadata) from None


def _find_unsupported(
    directory: Path, data: dict[str, Any], refused: Complaints, complaints: Complaints
) -> None:
    def at(*place: str) -> Any:
        value: Any = data
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def refuse(place: Place, what: str) -> None:
        refused.wrong(place, f"{what} not supported yet")

    if at("multi_step_reward_strategy") is not None and not at("steps"):
        complaints.odd(("multi_step_reward_strategy",), "has no effect without steps")
    steps = at("steps")
    for context in (directory, *(sorted((directory / "steps").glob("*")) if steps else ())):
        if (file := context / "trajectory.json").exists():
            refuse((), f"{file.relative_to(directory)}: context from an earlier session is")
    for table in (("environment",), ("verifier", "environment")):
        if at(*table, "tpu"):
            refuse((*table, "tpu"), "TPUs are")
        gpus = at(*table, "gpus")
        if isinstance(gpus, int) and gpus > 0:
            refuse((*table, "gpus"), "GPUs are")
        if at(*table, "os") == "windows":
            refuse((*table, "os"), "Windows containers are")


def _check_sense(directory: Path, task: TaskFile, complaints: Complaints) -> None:
    environment = task.environment
    services = check_services(directory, task, complaints)
    has_image = environment.docker_image or (services is not None and services.image_of(MAIN))
    if not has_image and not (directory / "environment" / "Dockerfile").is_file():
        complaints.wrong(
            ("environment",), "has neither docker_image nor a file environment/Dockerfile beside task.toml"
        )
    verifier = task.verifier
    if verifier.environment is not None and verifier.environment_mode == "shared":
        complaints.wrong(
            ("verifier", "environment_mode"), "'shared' contradicts [verifier.environment]; remove one"
        )
    tables: list[tuple[Place, EnvironmentTable]] = [(("environment",), environment)]
    if verifier.environment is not None:
        tables.append((("verifier", "environment"), verifier.environment))
    for place, table in tables:
        _check_legacy(place, table, complaints)
    for index, why in faults_of_servers(environment.mcp_servers):
        complaints.wrong(("environment", "mcp_servers", index), why)
    if verifier.environment is not None:
        for key in ("mcp_servers", "skills_dir"):
            if getattr(verifier.environment, key):
                complaints.odd(("verifier", "environment", key), "has no effect: no agent works there")
    owners: list[tuple[Place, EnvironmentTable | AgentTable | VerifierTable]] = [
        *tables, (("agent",), task.agent), (("verifier",), verifier)
    ]  # fmt: skip
    for place, owner in owners:
        if owner.allowed_hosts and owner.network_mode != "allowlist":
            complaints.wrong((*place, "allowed_hosts"), "has no effect without network_mode = 'allowlist'")
    for index, artifact in enumerate(task.artifacts):
        for key in ("source", "destination"):
            value = getattr(artifact, key)
            if value is not None and ".." in value.split("/"):
                complaints.wrong(("artifacts", index, key), "'..' is not allowed")
        if artifact.destination is not None and artifact.destination.startswith("/"):
            complaints.wrong(("artifacts", index, "destination"), "must be relative")
    version = task.schema_version or task.version
    if version is not None and version not in _KNOWN_VERSIONS:
        key = "schema_version" if task.schema_version else "version"
        complaints.odd((key,), f"{version!r} is not a known version of the format (1.0 to 1.4); read as 1.4")
    for script in ("tests/test.sh", "solution/solve.sh"):
        if has_windows_line_ends(directory / script):
            complaints.odd(
                (), f"{script} has Windows line endings (CRLF), and will not run: convert it to LF"
            )
    if (directory / "solution").is_dir() and not (directory / "solution" / "solve.sh").is_file():
        complaints.odd(("solution",), "solution/ has no solve.sh: the oracle cannot solve this task")


def _ref(scenario_id: str, metadata: dict[str, Any]) -> ScenarioRef:
    return ScenarioRef(id=scenario_id, tags=_tags(metadata), line=1, scorers=("harbor",))


def _tags(metadata: dict[str, Any]) -> tuple[str, ...]:
    listed = metadata.get("tags")
    words = [
        *(listed if isinstance(listed, list) else ()),
        metadata.get("difficulty"),
        metadata.get("category"),
    ]
    return tuple(dict.fromkeys(word for word in words if isinstance(word, str) and word))


def _scenario(directory: Path, scenario_id: str, benchmark: str, task: TaskFile, statement: str) -> Scenario:
    solution, tests = directory / "solution", directory / "tests"
    solved = (solution / "solve.sh").is_file()
    if task.steps:
        steps, scorers = steps_of(
            directory,
            task,
            _scorer,
            lambda place, whole: fresh_container(place, whole, _environment),
            _NETWORKS,
            strip_canary,
        )
        statement, solved, fresh = whole_statement(steps), False, None
    else:
        steps, fresh = (), fresh_container(directory, task, _environment)
        scorers = (
            _scorer(directory, task, "reward", tests if (tests / "test.sh").is_file() else None, None),
        )
    return Scenario(
        id=scenario_id,
        benchmark=benchmark,
        benchmark_version=task.task.version if task.task else None,
        problem_statement=statement,
        tags=_tags(task.metadata),
        metadata=task.metadata,
        environment=_environment(task.environment, directory / "environment" / "Dockerfile").model_copy(
            update={"skills_if_there": HARBOR_SKILLS}
        ),
        reference=Reference(solution=solution, env=task.solution.env) if solved else None,
        agent_timeout=task.agent.timeout_sec,
        agent_user=task.agent.user,
        agent_network=_NETWORKS[task.agent.network_mode],
        agent_allowed_hosts=hosts_of(task.agent),
        scorers=scorers,
        steps=steps,
        step_score=StepScore(task.multi_step_reward_strategy or "mean"),
        grade_in=GradeIn.AGENT_CONTAINER,
        fresh_container=fresh,
        artifacts=tuple(map(artifact_spec, task.artifacts)),
        source=directory,
        line=1,
    )


def _scorer(directory: Path, task: TaskFile, name: str, path: Path | None, over: Path | None) -> ScorerSpec:
    """Return the scorer of a task, or of a step of it: its tests are in `path`, and in `over`, which is put over it."""
    verifier, is_bundled = task.verifier, has_own_dockerfile(directory, task)
    fresh = fresh_container(directory, task, _environment)
    alone = None if fresh is None or fresh.environment is None else fresh.environment.network
    return ScorerSpec(
        name=name,
        type="harbor",
        path=None if is_bundled else path,
        overlay=None if is_bundled else over,
        timeout=verifier.timeout_sec or DEFAULT_VERIFIER_TIMEOUT,
        user=verifier.user,
        env=verifier.env,
        network=_NETWORKS[verifier.network_mode] or alone,
        allowed_hosts=hosts_of(verifier),
        params={"collect": [_collected(command) for command in verifier.collect]} if verifier.collect else {},
    )


def _collected(command: CollectCommand) -> dict[str, Any]:
    # Without what is as it usually is, which keeps the signatures of earlier results.
    return command.model_dump(exclude={"service"} if command.service == MAIN else set())


def _check_legacy(place: Place, table: EnvironmentTable, complaints: Complaints) -> None:
    for legacy, key in (
        ("memory", "memory_mb"),
        ("storage", "storage_mb"),
        ("allow_internet", "network_mode"),
    ):
        old, new = getattr(table, legacy), getattr(table, key)
        if old is None or new is None:
            continue
        same = (_NETWORKS[new] == "public") is old if legacy == "allow_internet" else old == new * _MEBIBYTE
        if not same:
            complaints.wrong((*place, legacy), f"contradicts {key}; remove it")


def _environment(written: EnvironmentTable, dockerfile: Path) -> Environment:
    built = dockerfile.is_file()
    offline = written.allow_internet is False
    services = dockerfile.parent / COMPOSE_FILE
    environment = Environment(
        image=written.docker_image,
        dockerfile=dockerfile if built else None,
        context=dockerfile.parent if built else None,
        build_timeout=written.build_timeout_sec,
        workdir=written.workdir,
        env=written.env,
        cpus=written.cpus,
        memory=written.memory_mb * _MEBIBYTE if written.memory_mb else written.memory,
        storage=written.storage_mb * _MEBIBYTE if written.storage_mb else written.storage,
        network=_NETWORKS[written.network_mode] or ("none" if offline else "public"),
        allowed_hosts=hosts_of(written) or (),
        mcp_servers=tuple(map(mcp_server, written.mcp_servers)),
        skills_dir=written.skills_dir,
        keep_entrypoint=True,
        healthcheck=health_check(written.healthcheck),
    )
    return read_compose(services).with_main(environment) if services.exists() else environment
