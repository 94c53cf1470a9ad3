"""Paths of results: of a results directory, of a job in it, and of a trial of a job.

This module only names files; other modules read and write them. It imports only the standard library.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

RESULT = "result.json"
"""File that marks a directory as an ended trial. A string, as thousands of paths are made with it."""
AGENT_FILES = ("agent.log", "trajectory.jsonl")
"""Files of a trial that the agent wrote."""
MARKER = ".benchjobs"
"""File that marks directories written by agents, where pytest collects nothing."""
HIDDEN_TRIAL = re.compile(r"^\.(?:tmp|old)-[0-9a-f]+-(\d+)$")
"""Matches names made by `hidden` and `aside` for a trial; the group is its final name."""
_UNSAFE = re.compile(r"[^a-z0-9._=+-]+")
_SLUG_LIMIT = 80
_RESERVED = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\.|$)")


class _Path:
    """An attribute of a layout: a path below its root."""

    def __init__(self, relative: str) -> None:
        self._relative = relative

    def __get__(self, layout: Layout | JobLayout | TrialLayout, owner: type) -> Path:
        return layout.root / self._relative


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Paths of a results directory (`bench_dir`).

    <root>/
      .gitignore            gitignore       keeps what agents wrote out of commits
      history.sqlite        history         index over all jobs, can be rebuilt from them
      baselines.json        baselines       jobs of the named baselines, which no bundle has
      comparisons/          comparisons     documents that `compare` writes
      jobs/                 jobs
        .benchjobs          marker          tells pytest to collect nothing below
        .recover.lock       recover_lock    locked by the process that closes jobs whose process died
        <job id>/           job(id)         `JobLayout`
    """

    root: Path
    gitignore = _Path(".gitignore")
    history = _Path("history.sqlite")
    baselines = _Path("baselines.json")
    comparisons = _Path("comparisons")
    jobs = _Path("jobs")
    marker = _Path(f"jobs/{MARKER}")
    recover_lock = _Path("jobs/.recover.lock")

    def job(self, job_id: str) -> JobLayout:
        """Paths of a job."""
        return JobLayout(self.jobs / job_id)


@dataclasses.dataclass(frozen=True, slots=True)
class JobLayout:
    """Paths of a job: of its bundle.

    <root>/
      job.json                          record      record of the job; a directory without it is not a job
      trials/                           trials
        <agent>/<scenario>/<attempt>/   trial(...)  `TrialLayout`
      gates.json                        gates       the latest reports of gates
      report.json                       report      every result
      summary.md                        summary     for people and merge requests
      junit.xml                         junit       written last: where it is, all reports are
      pytest.log                        log         output of pytest, of a detached job
      .lock                             lock        locked by the process that runs the job
      .heartbeat                        heartbeat   touched every few seconds by that process
      .spent.json                       spent       cost of models so far
      .flight/                          flight      messages between processes of the running job; removed at its end
        cancel                          cancel      request to stop
        quotas.json                     quotas      quotas of providers that are used up
        probes/                         probes      one lock for each of them: the trial that tries it again
        crew                            crew        lock shared by the processes that write trials
        tokens/                         tokens      one file for each trial that may run at once
        events/                         events      one file of JSON lines for each process
        <worker>/                       worker(id)  trials in flight of a worker of pytest-xdist
    """

    root: Path
    record = _Path("job.json")
    trials = _Path("trials")
    gates = _Path("gates.json")
    report = _Path("report.json")
    summary = _Path("summary.md")
    junit = _Path("junit.xml")
    log = _Path("pytest.log")
    lock = _Path(".lock")
    heartbeat = _Path(".heartbeat")
    spent = _Path(".spent.json")
    flight = _Path(".flight")
    cancel = _Path(".flight/cancel")
    quotas = _Path(".flight/quotas.json")
    probes = _Path(".flight/probes")
    crew = _Path(".flight/crew")
    tokens = _Path(".flight/tokens")
    events = _Path(".flight/events")

    @property
    def reports(self) -> tuple[Path, ...]:
        """All reports. The first one is written last."""
        return self.junit, self.report, self.summary

    def worker(self, worker_id: str) -> Path:
        """Trials in flight of a worker of pytest-xdist."""
        return self.flight / worker_id

    def trial(self, agent: str, scenario: str, attempt: int) -> Path:
        """Directory of a trial, by its agent's label and its scenario's id, unless a namesake has it."""
        return self.root / trial_path(agent, scenario, attempt)


@dataclasses.dataclass(frozen=True, slots=True)
class TrialLayout:
    """Paths of a trial.

    <root>/
      result.json       result          written last
      agent.log         agent_log       output of the agent
      trajectory.jsonl  trajectory      steps of the agent, if it reports them
      answer.txt        answer          answer of an agent without a container
      scorers/<name>/   scorer(name)    files of a scorer
      artifacts/        artifacts       files that the scenario asks to keep
      control/          control         files of scorers that graded an untouched sandbox
      failure.json      failure         why it failed, in an earlier try
      turn-N/           earlier_turn(N) files of an earlier turn, where the scenario gives feedback
      steps/<name>/     step(name)      `TrialLayout` of one of several steps: the same files, and
        reply.txt       reply           reply of the agent, if it is graded
      try-N/            earlier_try(N)  files of an earlier try
    """

    root: Path
    result = _Path(RESULT)
    agent_log = _Path(AGENT_FILES[0])
    trajectory = _Path(AGENT_FILES[1])
    answer = _Path("answer.txt")
    scorers = _Path("scorers")
    artifacts = _Path("artifacts")
    control = _Path("control")
    reply = _Path("reply.txt")
    steps = _Path("steps")
    failure = _Path("failure.json")

    def scorer(self, name: str) -> Path:
        """Directory of one scorer."""
        return self.scorers / name

    def step(self, name: str) -> TrialLayout:
        """Files of one of several steps."""
        return TrialLayout(self.steps / slug(name))

    def earlier_turn(self, number: int) -> Path:
        """Files of an earlier turn of this try."""
        return self.root / f"turn-{number}"

    def earlier_try(self, number: int) -> Path:
        """Files of an earlier try."""
        return self.root / f"try-{number}"


def trial_path(agent: str, scenario: str, attempt: int) -> str:
    """Path of a trial relative to its job."""
    return f"trials/{slug(agent.replace(':', '_', 1))}/{slug(scenario)}/{attempt}"


def namesakes(final: Path, node_id: str) -> Iterator[Path]:
    """Return the possible directories of a trial: its own, and two more in case of a scenario of the same name."""
    yield final
    yield _beside(final, _digest(node_id.rpartition("::")[0]))
    yield _beside(final, _digest(node_id))


@functools.lru_cache(maxsize=1024)
def slug(text: str) -> str:
    """Make a directory name for any file system. Different texts get different names, even if case is ignored."""
    safe = _UNSAFE.sub("_", text.lower())[:_SLUG_LIMIT].strip("._-")
    if text and safe == text and not _RESERVED.match(safe):
        return safe
    return f"{safe or 'x'}-{_digest(text)}"


def hidden(final: Path) -> Path:
    """Make a temporary path, to be renamed to `final`."""
    return final.with_name(hidden_name(final.name))


def hidden_name(name: str) -> str:
    """Make the temporary name of a file or directory called `name` later."""
    return f".tmp-{secrets.token_hex(4)}-{name}"


def aside(final: Path) -> Path:
    """Make a path for an old version while it is replaced."""
    return final.with_name(f".old-{secrets.token_hex(4)}-{final.name}")


def _beside(final: Path, digest: str) -> Path:
    return final.parent.with_name(f"{final.parent.name}-{digest}") / final.name


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
