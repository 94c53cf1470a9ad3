"""Results for tests of the viewer: two jobs that ended, with files of all kinds, a confidential one, and one that runs."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pytest_benchjobs.agents.reading.trajectory import Trajectory
from pytest_benchjobs.model.gate import GatePolicy, GateReport, GateVerdict, Rule, RuleReport
from pytest_benchjobs.model.result import Origin, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.gates import keep_gate
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import TrialLayout

from .jobs import ended, make_job
from .records import NOW
from .watched import WatchedJob

BEFORE, NOW_JOB, HIDDEN = "20261120-080000-aaaaaa", "20261121-080000-bbbbbb", "20261122-080000-cccccc"
CODEX = "codex:gpt-5"
HOSTILE = (
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>", "'\"><b>bold</b>", "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>", "&lt;script&gt;", "{{7*7}}", "${7*7}", "`x`", "<!--", "]]>",
    "<style>*{display:none}</style>", "<iframe src='//example.org'></iframe>", "<base href='//example.org/'>",
    "<meta http-equiv=refresh content='0;url=//example.org'>", "<a href=javascript:alert(1)>x</a>",
    "<textarea></textarea>", "</td></tr></table><h1>out</h1>", "=cmd|' /C calc'!A0", "+1+1", "@SUM(1+1)",
    "\u202egnp.exe\u202c", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\u2028b", "\ufeffbom", "__proto__",
    "constructor",
)  # fmt: skip
"""Texts that an agent may leave anywhere."""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class Made(NamedTuple):
    """What was made."""

    directory: Path
    trials: dict[str, str]
    """Word for a trial -> node id."""


def make(directory: Path) -> Made:
    """Make the results: `BEFORE` is named nightly, `NOW_JOB` is worse, of `HIDDEN` nothing may be shown."""
    git = {"git": {"branch": "main", "commit": "0a1b2c3d", "dirty": False}}
    make_job(
        directory,
        BEFORE,
        [*_trials("PP", "oracle"), *_trials("PP", CODEX)],
        hours_ago=30,
        name="nightly",
        reproducibility=git,
    )
    record = make_job(
        directory,
        NOW_JOB,
        [*_trials("PP", "oracle"), *_trials("FE", CODEX, tags=("easy", "1"))],
        hours_ago=3,
        reproducibility={"git": {"branch": "try", "commit": "ffff1111", "dirty": True}},
        config={"metadata": {"why": HOSTILE[0]}},
    )
    with History.of(directory) as history:
        trials = {row.scenario + row.agent[0]: row for row in history.trials(record.id)}
        report = gate(record.id)
        keep_gate(JobBundle(directory, record.id).root, report)
        history.save_gate(report)
    place = JobBundle(directory, record.id).root / trials["fixc"].path
    _fill(place)
    before = JobBundle(directory, BEFORE).root
    for result in JobBundle(directory, BEFORE).results():
        _steps(before / result.path, "ls", "out.txt")
    make_job(directory, HIDDEN, _trials("F", CODEX, confidential=True), hours_ago=2, config={"agents": ()})
    hidden = next(JobBundle(directory, HIDDEN).results())
    _fill(JobBundle(directory, HIDDEN).root / hidden.path)
    return Made(
        directory,
        {"count": trials["countc"].node_id, "fix": trials["fixc"].node_id, "hidden": hidden.node_id},
    )


def gate(job: str) -> GateReport:
    """A verdict."""
    rule = Rule(text="mean:5pp", metric="mean", amount=0.05)
    found = RuleReport(
        rule=rule, benchmark="texts", agent=CODEX, verdict=GateVerdict.REGRESSED, why=f"it fell {HOSTILE[2]}",
        before=1.0, now=0.0, change=-1.0, low=-1.0, high=-0.5, tolerance=0.05, p_value=0.01, detectable=0.4,
        scenarios=2,
    )  # fmt: skip
    return GateReport(
        job=job, at=NOW, policy=GatePolicy.EVIDENCE, baseline="nightly", verdict=GateVerdict.REGRESSED,
        why="regressed: mean:5pp", rules=(found,),
    )  # fmt: skip


def reused(of: TrialResult, job: str) -> TrialResult:
    """The same result, reused by another job."""
    origin = Origin(job=of.job, path=of.path, finished_at=of.finished_at)
    return of.model_copy(update={"job": job, "reused": origin, "path": ""})


def running(directory: Path, **changes: Any) -> WatchedJob:
    """A job of this process that runs a trial."""
    job = WatchedJob(directory, **changes)
    trial = job.fly("count")
    files = job.bundle.begin(trial)
    files.layout.agent_log.write_text("so far\n")
    return job


def _trials(letters: str, agent: str, **changes: Any) -> list[TrialResult]:
    usage = Usage(input_tokens=100, output_tokens=5, cached_tokens=50, calls=3, cost_usd=0.25)
    start = NOW + datetime.timedelta(seconds=agent != "oracle")
    return [
        ended(letter, scenario, agent, usage=usage, started_at=start, **changes)
        for letter, scenario in zip(letters, ("count", "fix"), strict=False)
    ]


def _fill(place: Path) -> None:
    """Write files of all kinds, and links out of the results."""
    layout = TrialLayout(place)
    layout.agent_log.write_text("\n".join((*HOSTILE, "the end")), "utf-8")
    _steps(place, "rm -rf /", HOSTILE[1])
    scorer = layout.scorer("right")
    scorer.mkdir(parents=True, exist_ok=True)
    (scorer / "output.log").write_text("secret test: assert x == 42\n")
    artifacts = layout.artifacts
    artifacts.mkdir(exist_ok=True)
    (artifacts / "page.html").write_text("<script>parent.document.title = 'owned'</script>")
    (artifacts / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    (artifacts / "pixel.png").write_bytes(PIXEL)
    (artifacts / "change.patch").write_text("--- a\n+++ b\n-1\n+2\n")
    (artifacts / "data.bin").write_bytes(bytes(range(256)) * 8)
    (artifacts / "käse 100%.txt").write_text("ok\n")
    (place.parents[6] / "outside.txt").write_text("outside\n")
    (artifacts / "link.txt").symlink_to(place.parents[6] / "outside.txt")
    (artifacts / "linked").symlink_to("/etc")


def _steps(place: Path, command: str, output: str) -> None:
    with TrialLayout(place).trajectory.open("wb") as file:
        trajectory = Trajectory(file, "codex", "0.50", "gpt-5")
        trajectory.say("user", "Count the words. The prompt.")
        trajectory.call("1", "bash", {"command": command})
        trajectory.result("1", output)
        trajectory.say("agent", "done " + "".join(HOSTILE[:3]))
        trajectory.finish(None, None)


def leaves(data: object) -> Iterator[str]:
    """Every text in a document, keys too."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from leaves(value)
    elif isinstance(data, list):
        for value in data:
            yield from leaves(value)
    elif isinstance(data, str):
        yield data
