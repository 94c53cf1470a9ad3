"""What the functions that check an example share: where its line is run, and how they are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.model.owner import current_owner

from ..unit.jobs import make_job
from .commands import PROJECT, Example, Project

CLAUDE, CODEX = "claude-code:claude-sonnet-4-6", "codex:gpt-4o"
QWEN = "eliza:groq/qwen/qwen3-32b"
COUNTS = {
    "custom": 3,
    "gaia_orchestrated": 12,
    "orchestrator_lifecycle": 13,
    "osworld": 3,
    "solana": 10,
    "swe_bench_orchestrated": 4,
    "terminal-bench-2": 12,
}
"""Scenarios of the benchmarks in the prepared project."""
BROKEN = {("osworld", "gimp"), ("gaia_orchestrated", "question-03")}
LIST_IDS = {
    "running": "20261121-120000-aaaaaa",
    "completed": "20261121-090000-bbbbbb",
    "failed": "20261121-070000-cccccc",
    "three days": "20261118-090000-dddddd",
    "long ago": "20261001-090000-eeeeee",
}

Check = Callable[["Line"], None]
CHECKS: dict[str, Check] = {}


class Line:
    """A line of the table, and where to run it."""

    def __init__(self, example: Example, tmp_path: Path, two_agents: Path, everything: Path) -> None:
        self.text = example.ours
        self._tmp_path, self._two_agents, self._everything = tmp_path, two_agents, everything

    def fresh(self, **env: str) -> Project:
        """Nothing has run."""
        return self._project(PROJECT, env)

    def ran(self, status: int = 0, **env: str) -> Project:
        """It alone has run."""
        project = self.fresh(**env)
        project.run(self.text, status)
        return project

    def after_two_agents(self, **env: str) -> Project:
        """Two agents have run terminal-bench-2; both failed at fix-git."""
        return self._project(self._two_agents, env)

    def after_everything(self, **env: str) -> Project:
        """Everything has run, with `BROKEN` failing."""
        return self._project(self._everything, env)

    def after_some_weeks(self) -> Project:
        """There are jobs of all ages and states."""
        project = self.fresh()
        reports = project.path / "reports"
        one = {"oracle": {"count": "P", "sums": "F"}}
        ages = {"running": 0.5, "completed": 3, "failed": 5, "three days": 75, "long ago": 24 * 40}
        for name, job_id in LIST_IDS.items():
            status = JobStatus(name) if name in set(JobStatus) else JobStatus.COMPLETED
            make_job(
                reports, job_id, one, hours_ago=ages[name], name=name, status=status, owner=current_owner()
            )
        return project

    def _project(self, like: Path, env: dict[str, str]) -> Project:
        project = Project.new(self._tmp_path / "project", like)
        project.env.update(env)
        return project


def shows(example: str) -> Callable[[Check], Check]:
    """The function checks that the example with this id does what it should."""

    def register(check: Check) -> Check:
        assert example not in CHECKS, example
        CHECKS[example] = check
        return check

    return register
