"""Harbor task directories, schema 1.0 to 1.4: `task.toml`, `instruction.md`, `environment/`, `tests/`, `solution/`.

harbor_steps.py has the steps of a task, harbor_parts.py what a task and a step have in common. Features that this
package does not support (GPUs, ...) are recognised and refused with the line that asks for them (`Unsupported`); no
task is run in part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os.path
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..model.base import ScenarioName, is_name_character
from ..model.errors import InputError, InputErrors
from ..model.scenario import (
    MAIN,
    GradeIn,
    Reference,
    Scenario,
    StepScore,
)
from .complaints import Complaints
from .compose import COMPOSE_FILE, ComposeFile, read_compose
from .documents import Document, read_document, read_text
from .harbor_keys import CollectCommand, EnvironmentTable, TaskFile, hosts_of
from .harbor_parts import (
    MEBIBYTE,
    NETWORKS,
    artifact_spec,
    brings_tests,
    environment_of,
    fresh_container,
    instruction_at,
    is_separate,
    scorer_of,
)
from .harbor_steps import (
    check_artifacts,
    check_hosts,
    check_scripts,
    check_steps,
    steps_of,
    whole_statement,
)
from .plain import Place
from .protocol import ScenarioRef, SourceWarning, Unsupported
from .servers import faults_of_servers
from .toml_data import load_toml
from .written import WrittenArtifact

TASK_FILE = "task.toml"
HARBOR_SKILLS = "/harbor/skills"
"""Skills of a task that names no `skills_dir`."""
_KNOWN_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
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

        Raises Unsupported: the task needs something that is not supported; InputErrors: every mistake found.
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
        """The whole scenario. Raises InputError: the directory has become wrong since, or has another id."""
        if scenario_id != self._id():
            raise InputError(f"no scenario {scenario_id!r} here, only {self._id()!r}", path=self.path)
        document = read_document(self.path / TASK_FILE, keys="harbor.md")
        task = _check(self.path, scenario_id, document, Complaints(document))
        statement = ""
        if not task.steps:
            statement = instruction_at(self.path / "instruction.md")
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

    Raises Unsupported: everything unsupported that it asks for. Other mistakes may follow from that: a task of several
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
    services = _check_services(directory, task, complaints)
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
        check_hosts(place, table, table, complaints)
    for index, why in faults_of_servers(environment.mcp_servers):
        complaints.wrong(("environment", "mcp_servers", index), why)
    if verifier.environment is not None:
        for key in ("mcp_servers", "skills_dir"):
            if getattr(verifier.environment, key):
                complaints.odd(("verifier", "environment", key), "has no effect: no agent works there")
    check_hosts(("agent",), task.agent, task.agent, complaints)
    check_hosts(("verifier",), verifier, verifier, complaints)
    check_artifacts((), task.artifacts, complaints)
    version = task.schema_version or task.version
    if version is not None and version not in _KNOWN_VERSIONS:
        key = "schema_version" if task.schema_version else "version"
        complaints.odd((key,), f"{version!r} is not a known version of the format (1.0 to 1.4); read as 1.4")
    check_scripts(directory, ("tests/test.sh", "solution/solve.sh"), complaints)
    if (directory / "solution").is_dir() and not (directory / "solution" / "solve.sh").is_file():
        complaints.odd(("solution",), "solution/ has no solve.sh: the oracle cannot solve this task")


def _check_services(directory: Path, task: TaskFile, complaints: Complaints) -> ComposeFile | None:
    """Note mistakes about services; return the file that describes those beside the agent, if there is one."""
    own = directory / "environment" / COMPOSE_FILE
    described = read_compose(own) if own.exists() else None
    _check_verifier(directory, task, complaints)
    names = (MAIN,) if described is None else described.names
    hint = f"there is no environment/{COMPOSE_FILE}" if described is None else f"there are {', '.join(names)}"
    for place, listed in _naming(task):
        for index, one in enumerate(listed):
            if one.service not in names:
                complaints.wrong((*place, index, "service"), f"there is no service {one.service!r}; {hint}")
            if isinstance(one, WrittenArtifact) and one.destination == "manifest.json":
                complaints.wrong(
                    (*place, index, "destination"), "is the name of another file; choose another"
                )
    return described


def _check_verifier(directory: Path, task: TaskFile, complaints: Complaints) -> None:
    tests = directory / "tests"
    if not (tests / COMPOSE_FILE).exists():
        return
    if not is_separate(task):
        why = "has no effect without verifier.environment_mode = 'separate'"
        complaints.odd((), f"tests/{COMPOSE_FILE} {why}")
        return
    described = read_compose(tests / COMPOSE_FILE)
    own = task.verifier.environment
    image = (own is not None and own.docker_image) or described.image_of(MAIN)
    if not image and not (tests / "Dockerfile").is_file():
        complaints.wrong((), f"tests/{COMPOSE_FILE} gives `main` no image, and there is no tests/Dockerfile")


def _naming(task: TaskFile) -> Iterator[tuple[Place, Sequence[WrittenArtifact | CollectCommand]]]:
    """Yield the lists whose items name services, and their places."""
    yield ("artifacts",), task.artifacts
    yield ("verifier", "collect"), task.verifier.collect
    for index, step in enumerate(task.steps):
        yield ("steps", index, "artifacts"), step.artifacts
        if step.verifier is not None:
            yield ("steps", index, "verifier", "collect"), step.verifier.collect


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
        steps, scorers = steps_of(directory, task)
        statement, solved, fresh = whole_statement(steps), False, None
    else:
        steps, fresh = (), fresh_container(directory, task)
        scorers = (
            scorer_of(directory, task, "reward", tests if (tests / "test.sh").is_file() else None, None),
        )
    return Scenario(
        id=scenario_id,
        benchmark=benchmark,
        benchmark_version=task.task.version if task.task else None,
        problem_statement=statement,
        tags=_tags(task.metadata),
        metadata=task.metadata,
        environment=environment_of(task.environment, directory / "environment" / "Dockerfile").model_copy(
            update={"skills_if_there": HARBOR_SKILLS}
        ),
        reference=Reference(solution=solution, env=task.solution.env) if solved else None,
        agent_timeout=task.agent.timeout_sec,
        agent_user=task.agent.user,
        agent_network=NETWORKS[task.agent.network_mode],
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


def _check_legacy(place: Place, table: EnvironmentTable, complaints: Complaints) -> None:
    for legacy, key in (
        ("memory", "memory_mb"),
        ("storage", "storage_mb"),
        ("allow_internet", "network_mode"),
    ):
        old, new = getattr(table, legacy), getattr(table, key)
        if old is None or new is None:
            continue
        same = (NETWORKS[new] == "public") is old if legacy == "allow_internet" else old == new * MEBIBYTE
        if not same:
            complaints.wrong((*place, legacy), f"contradicts {key}; remove it")
