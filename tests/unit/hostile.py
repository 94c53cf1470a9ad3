"""A job of an agent that left a hostile text in every field it can reach: a trial for each text."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_benchjobs.model.metric import Metric
from pytest_benchjobs.model.result import AgentEnd, Failure, ScorerResult, StepResult, TrialResult
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.layout import TrialLayout

from .jobs import ended, make_job
from .viewing import HOSTILE

JOB, BEFORE = "20261121-090000-eeeeee", "20261121-080000-eeeeee"
AGENT = "codex:gpt-5"


def make_hostile(directory: Path) -> list[str]:
    """Make two jobs of such trials; returns the node ids, in the order of `HOSTILE`."""
    for job, letter in ((BEFORE, "P"), (JOB, "F")):
        results = [_result(number, text, letter) for number, text in enumerate(HOSTILE)]
        make_job(directory, job, results, hours_ago=2)
        for result in JobBundle(directory, job).results():
            _fill(JobBundle(directory, job).root / result.path, HOSTILE[int(result.scenario[1:])])
    return [result.node_id for result in results]


def _result(number: int, text: str, letter: str) -> TrialResult:
    metric = Metric(name=text, value=-1.5, unit=text)
    error = Failure(class_="below_threshold", message=f"1 {text}", phase="grading", detail=f"2 {text}")
    end = AgentEnd(
        exit_status=1,
        message=f"3 {text}",
        leftovers=(f"4 {text}",),
        killed=(f"5 {text}",),
        tampered=(f"6 {text}",),
        elsewhere=(f"7 {text}",),
    )
    scorer = ScorerResult(
        name="right", type="bash", weight=1, score=1.0 if letter == "P" else 0.0, output=f"8 {text}",
        details={f"9 {text}": [f"10 {text}"]}, metrics=(metric,),
    )  # fmt: skip
    return ended(
        letter,
        f"s{number:02}",
        AGENT,
        failure=None if letter == "P" else error,
        scorers=(scorer,),
        metrics=(metric,),
        agent_end=end,
        agent_version=f"11 {text}",
        models={f"12 {text}": 1},
        notes=(f"13 {text}",),
        artifacts=(_as_name(text),),
        steps=(StepResult(name="one", score=scorer.score, agent_end=end), StepResult(name="two", not_run=f"14 {text}")),
    )  # fmt: skip


def _fill(place: Path, text: str) -> None:
    """Write the files of a trial."""
    layout = TrialLayout(place)
    layout.agent_log.write_text(f"15 {text}\n", "utf-8")
    layout.artifacts.mkdir(exist_ok=True)
    (layout.artifacts / _as_name(text)).write_text(f"16 {text}\n", "utf-8")
    call = {
        "tool_call_id": "1",
        "function_name": f"17 {text}",
        "arguments": {f"18 {text}": f"19 {text}", "b": 1},
    }
    lines: list[dict[str, object]] = [
        {"schema_version": "ATIF-v1.7", "agent": {"name": text, "version": text, "model_name": text}},
        {"step_id": 1, "source": "user", "message": f"20 {text}"},
        {
            "step_id": 2,
            "source": "agent",
            "message": f"21 {text}",
            "reasoning_content": f"22 {text}",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": "1", "content": f"23 {text}"}]},
        },
        {"final_metrics": {}, "notes": f"24 {text}"},
    ]
    layout.trajectory.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _as_name(text: str) -> str:
    """A name of a file with the text in it."""
    return text.replace("/", "_") + ".txt"


SHOWN = (1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23)
"""Numbers of the fields that a trial's page shows."""
