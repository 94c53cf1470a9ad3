"""The steps of a Harbor task, `[[steps]]` and `steps/<name>/`: instruction, workdir, tests and solution of each.

Tests of the task are shared: those of a step are put over them. What a step's tables leave out is that of the task.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..model.base import Name
from ..model.scenario import Reference, ScorerSpec, Step
from ..system.paths import is_file
from .complaints import Complaints, Written
from .documents import has_windows_line_ends
from .harbor_keys import AgentTable, EnvironmentTable, TaskFile, VerifierTable, hosts_of
from .harbor_keys import Step as StepTable
from .harbor_parts import (
    NETWORKS,
    artifact_spec,
    brings_tests,
    fresh_container,
    has_own_dockerfile,
    health_check,
    instruction_at,
    scorer_of,
)
from .plain import Place
from .written import WrittenArtifact

_SCRIPT = "setup.sh"
_name: TypeAdapter[str] = TypeAdapter(Name)

_Networked = EnvironmentTable | AgentTable | VerifierTable


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
        check_artifacts(("steps", index), step.artifacts, complaints)
        for key in ("agent", "verifier"):
            if (own := getattr(step, key)) is not None:
                check_hosts(("steps", index, key), own, getattr(task_of(task, step), key), complaints)
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
    scripts = ("tests/test.sh", f"workdir/{_SCRIPT}", "solution/solve.sh")
    check_scripts(directory, [f"steps/{step.name}/{script}" for script in scripts], complaints)


def check_scripts(directory: Path, scripts: Iterable[str], complaints: Complaints) -> None:
    """Note scripts that shells cannot run."""
    for script in scripts:
        if has_windows_line_ends(directory / script):
            complaints.odd(
                (), f"{script} has Windows line endings (CRLF), and will not run: convert it to LF"
            )


def check_hosts(place: Place, own: _Networked, whole: _Networked, complaints: Complaints) -> None:
    """Note hosts of a table that allows none, once it is put over that of the task."""
    if own.allowed_hosts and whole.network_mode != "allowlist":
        complaints.wrong((*place, "allowed_hosts"), "has no effect without network_mode = 'allowlist'")


def check_artifacts(place: Place, artifacts: Iterable[WrittenArtifact], complaints: Complaints) -> None:
    """Note paths of artifacts that lead elsewhere."""
    for index, artifact in enumerate(artifacts):
        at = (*place, "artifacts", index)
        for key in ("source", "destination"):
            if ".." in (getattr(artifact, key) or "").split("/"):
                complaints.wrong((*at, key), "'..' is not allowed")
        if (artifact.destination or "").startswith("/"):
            complaints.wrong((*at, "destination"), "must be relative")


def steps_of(directory: Path, task: TaskFile) -> tuple[tuple[Step, ...], tuple[ScorerSpec, ...]]:
    """Return the steps, and their scorers, which are named like the steps.

    Raises InputError: an instruction is empty.
    """
    steps, scorers = [], []
    for table in task.steps:
        own, whole = step_directory(directory, table), task_of(task, table)
        given = verifier_directory(directory, whole, table)
        shared, over = _tests(directory / "tests"), _tests(own / "tests")
        scorers.append(scorer_of(given, whole, table.name, shared or over, over if shared else None))
        workdir, solution = own / "workdir", own / "solution"
        solved = (solution / "solve.sh").is_file()
        steps.append(
            Step(
                name=table.name,
                instruction=instruction_at(own / "instruction.md"),
                scorers=(table.name,),
                least=_least(table),
                files=workdir if workdir.is_dir() else None,
                setup=f"./{_SCRIPT}" if (workdir / _SCRIPT).is_file() else None,
                healthcheck=health_check(table.healthcheck),
                reference=Reference(solution=solution, env=task.solution.env) if solved else None,
                agent_timeout=whole.agent.timeout_sec,
                agent_user=whole.agent.user,
                agent_network=NETWORKS[whole.agent.network_mode],
                agent_allowed_hosts=hosts_of(whole.agent),
                artifacts=tuple(artifact_spec(artifact) for artifact in table.artifacts),
                fresh_container=fresh_container(given, whole),
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


def whole_statement(steps: tuple[Step, ...]) -> str:
    """Return the instructions of all steps, for readers of results: an agent gets one after the other."""
    return "\n\n".join(
        f"# Step {number}: {step.name}\n\n{step.instruction.strip()}" for number, step in enumerate(steps, 1)
    )
