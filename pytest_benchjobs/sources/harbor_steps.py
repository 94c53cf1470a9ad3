"""The steps of a Harbor task, `[[steps]]` and `steps/<name>/`: instruction, workdir, tests and solution of each.

Tests of the task are shared: those of a step are put over them. What a step's tables leave out is that of the task.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..model.base import Name
from ..model.errors import InputError
from ..model.scenario import ArtifactSpec, HealthCheck, Network, Reference, ScorerSpec, Step
from ..system.paths import is_file
from .complaints import Complaints, Written
from .documents import has_windows_line_ends, read_text
from .harbor_keys import HealthCheckTable, TaskFile, hosts_of
from .harbor_keys import Step as StepTable
from .harbor_verifier import brings_tests, has_own_dockerfile

_SCRIPT = "setup.sh"
_name: TypeAdapter[str] = TypeAdapter(Name)

Scorer = Callable[[Path, TaskFile, str, Path | None, Path | None], ScorerSpec]
"""Makes the scorer of a step: of a directory, the task as it is for the step, a name, its tests and those over them."""


def step_directory(directory: Path, step: StepTable) -> Path:
    """Return the directory of a step."""
    return directory / "steps" / step.name


def task_of(task: TaskFile, step: StepTable) -> TaskFile:
    """Return the task as it is for one step."""
    verifier = _over(task.verifier, step.verifier)
    if step.verifier is not None:
        verifier = verifier.model_copy(update={"env": {**task.verifier.env, **step.verifier.env}})
    changes = {
        "agent": _over(task.agent, step.agent),
        "verifier": verifier,
        "artifacts": [*task.artifacts, *step.artifacts],
    }
    return task.model_copy(update=changes)


def _over(task: Any, step: Written | None) -> Any:
    """Return a table of the task with the keys that a step gives."""
    if step is None:
        return task
    return task.model_copy(update={name: getattr(step, name) for name in step.model_fields_set})


def verifier_directory(directory: Path, task: TaskFile, step: StepTable) -> Path:
    """Return the directory whose `tests/` may have the Dockerfile of the verifier: of the step, else of the task."""
    own = step_directory(directory, step)
    return own if has_own_dockerfile(own, task) else directory


def check_steps(directory: Path, task: TaskFile, complaints: Complaints) -> None:
    """Note mistakes in the steps of a task, and missing files of them."""
    seen: dict[str, str] = {}
    for index, step in enumerate(task.steps):
        place = ("steps", index, "name")
        try:
            _name.validate_python(step.name)
        except ValidationError:
            complaints.wrong(
                place, f"{step.name!r} is no name of a directory: letters, digits, . _ + = - are allowed"
            )
            continue
        same = seen.setdefault(unicodedata.normalize("NFKC", step.name).casefold(), step.name)
        if same is not step.name:
            complaints.wrong(place, f"{step.name!r} is already the name of a step ({same})")
        _check_files(directory, task_of(task, step), index, complaints)
        _check_artifacts(index, step, complaints)
        _check_hosts(task, index, complaints)
    solved = [is_file(step_directory(directory, step) / "solution" / "solve.sh") for step in task.steps]
    if any(solved) and not all(solved):
        missing = ", ".join(step.name for step, has in zip(task.steps, solved, strict=True) if not has)
        complaints.odd(("steps",), f"no solution/solve.sh for {missing}: the oracle cannot solve this task")


def _check_files(directory: Path, task: TaskFile, index: int, complaints: Complaints) -> None:
    step = task.steps[index]
    own = step_directory(directory, step)
    if not is_file(own / "instruction.md"):
        complaints.wrong(("steps", index), f"steps/{step.name}/instruction.md is missing")
    tested = any(is_file(place / "tests" / "test.sh") for place in (own, directory))
    if not tested and not brings_tests(verifier_directory(directory, task, step), task):
        complaints.wrong(
            ("steps", index), f"steps/{step.name}/tests/test.sh is missing, and so is tests/test.sh"
        )
    for script in ("tests/test.sh", f"workdir/{_SCRIPT}", "solution/solve.sh"):
        if has_windows_line_ends(own / script):
            complaints.odd(
                (),
                f"steps/{step.name}/{script} has Windows line endings (CRLF), and will not run: convert it to LF",
            )


def _check_hosts(task: TaskFile, index: int, complaints: Complaints) -> None:
    step = task.steps[index]
    whole = task_of(task, step)
    for key in ("agent", "verifier"):
        own, merged = getattr(step, key), getattr(whole, key)
        if own is not None and own.allowed_hosts and merged.network_mode != "allowlist":
            complaints.wrong(
                ("steps", index, key, "allowed_hosts"), "has no effect without network_mode = 'allowlist'"
            )


def _check_artifacts(index: int, step: StepTable, complaints: Complaints) -> None:
    for number, artifact in enumerate(step.artifacts):
        place = ("steps", index, "artifacts", number)
        for key in ("source", "destination"):
            if ".." in (getattr(artifact, key) or "").split("/"):
                complaints.wrong((*place, key), "'..' is not allowed")
        if (artifact.destination or "").startswith("/"):
            complaints.wrong((*place, "destination"), "must be relative")


def steps_of(
    directory: Path,
    task: TaskFile,
    scorer: Scorer,
    fresh: Callable[[Path, TaskFile], Any],
    networks: Mapping[str | None, Network | None],
    instruction: Callable[[str], str],
) -> tuple[tuple[Step, ...], tuple[ScorerSpec, ...]]:
    """Return the steps, and their scorers, which are named like the steps.

    Raises:
        InputError: an instruction is empty.
    """
    steps, scorers = [], []
    for table in task.steps:
        own, whole = step_directory(directory, table), task_of(task, table)
        statement = instruction(read_text(own / "instruction.md"))
        if not statement.strip():
            raise InputError("is empty", path=own / "instruction.md")
        given = verifier_directory(directory, whole, table)
        shared, over = _tests(directory / "tests"), _tests(own / "tests")
        scorers.append(scorer(given, whole, table.name, shared or over, over if shared else None))
        workdir, solution = own / "workdir", own / "solution"
        solved = (solution / "solve.sh").is_file()
        steps.append(
            Step(
                name=table.name,
                instruction=statement,
                scorers=(table.name,),
                least=_least(table),
                files=workdir if workdir.is_dir() else None,
                setup=f"./{_SCRIPT}" if (workdir / _SCRIPT).is_file() else None,
                healthcheck=health_check(table.healthcheck),
                reference=Reference(solution=solution, env=task.solution.env) if solved else None,
                agent_timeout=whole.agent.timeout_sec,
                agent_user=whole.agent.user,
                agent_network=networks[whole.agent.network_mode],
                agent_allowed_hosts=hosts_of(whole.agent),
                artifacts=tuple(artifact_spec(artifact) for artifact in table.artifacts),
                fresh_container=fresh(given, whole),
            )
        )
    return tuple(steps), tuple(scorers)


def _tests(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _least(table: StepTable) -> dict[str, float]:
    least = table.min_reward
    if least is None:
        return {}
    return dict(least) if isinstance(least, dict) else {"reward": least}


def health_check(table: HealthCheckTable | None) -> HealthCheck | None:
    """Return a health check as scenarios have it."""
    return None if table is None else HealthCheck(**{key.removesuffix("_sec"): value for key, value in table})


def artifact_spec(artifact: Any) -> ArtifactSpec:
    """Return an artifact as scenarios have it."""
    return ArtifactSpec.model_validate(artifact.model_dump())


def whole_statement(steps: tuple[Step, ...]) -> str:
    """Return the instructions of all steps, for readers of results: an agent gets one after the other."""
    return "\n\n".join(
        f"# Step {number}: {step.name}\n\n{step.instruction.strip()}" for number, step in enumerate(steps, 1)
    )
