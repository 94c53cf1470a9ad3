from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.analysis.live import Live
from pytest_benchjobs.cli._watch_view import View, picture, progress
from pytest_benchjobs.model.job import JobConfig, JobStatus
from pytest_benchjobs.model.result import Outcome
from pytest_benchjobs.report.documents.watch import watch_document

from .examples import at_most
from .records import NOW, record
from .test_live import ended, phase, planned

START = NOW.timestamp()
CODEX = "codex:gpt-5.5"


def view(
    live: Live,
    *,
    name: str | None = "nightly",
    silence: float = 0.0,
    log: tuple[str, ...] = (),
    **config: Any,
) -> View:
    job = record(
        Path("reports"), name=name, config=JobConfig(directory=Path("reports"), concurrency=4, **config)
    )
    return View(job, live, NOW + datetime.timedelta(seconds=100), silence, log)


def running(**changes: Any) -> Live:
    """Four trials of ten have ended, and three run."""
    live = Live()
    for event in (
        planned(**{CODEX: 5, "nop": 5}),
        phase("warehouse", "prepare", START + 1, CODEX),
        ended("access-log", START + 20, CODEX, cost_usd=0.25, input_tokens=90_000, output_tokens=1_000),
        ended("access-log", START + 21, "nop", outcome=Outcome.FAILED, score=0.5, class_="below_threshold"),
        ended("csv", START + 30, CODEX, outcome=Outcome.ERROR, score=None, class_="engine_lost", seconds=0.5),
        ended("csv", START + 31, "nop", reused=True, seconds=0.0, **changes),
        phase("warehouse", "agent", START + 4, CODEX),
        phase("dates", "score:right", START + 60, CODEX),
        phase("dates", "agent", START + 95, "nop"),
    ):
        live.take(event)
    return live


def shown(of: View, width: int, height: int, **options: Any) -> list[str]:
    return [line.plain.rstrip() for line in picture(of, width, height, **options)]


def test_eighty_columns() -> None:
    assert shown(view(running()), 80, 24) == [
        "nightly (20261121-054712-4f9a2c)                                   running 1m40s",
        "4/10 trials, 3 running of at most 4                                    ETA 1m46s",
        "━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━─────────────────────────────────────────────  40%",
        "",
        "Agent          Done  Passed  Failed  Errors  Reused   Mean  Spend  Tokens",
        "codex:gpt-5.5   2/5       1       0       1       0  1.000  $0.25     91k",
        "nop             2/5       1       1       0       1  0.750      -       -",
        "all            4/10       2       1       1       1      -  $0.25     91k",
        "",
        "Running 3                                   Agent          Phase             Age",
        "warehouse                                   codex:gpt-5.5  agent           1m39s",
        "dates                                       codex:gpt-5.5  score:right       40s",
        "dates                                       nop            agent              5s",
        "",
        "",
        "   Last ended                    Agent           Score     Time",
        "✓  csv                           nop               1.0   reused",
        "!  csv                           codex:gpt-5.5       -     0.5s  engine_lost",
        "✗  access-log                    nop               0.5      10s  below_threshold",
        "✓  access-log                    codex:gpt-5.5     1.0      10s",
        "",
        "",
        "",
        "arrows, Enter: follow one trial; q or Ctrl-C: stop watching; the job continues",
    ]


def test_two_hundred_columns_have_both_lists_side_by_side() -> None:
    lines = shown(view(running()), 200, 50)
    (titles,) = (line for line in lines if "Running" in line)
    assert titles.split() == [
        "Running", "3", "Agent", "Phase", "For", "Age", "Last", "ended", "Agent", "Score", "Time",
    ]  # fmt: skip
    (warehouse,) = (line for line in lines if "warehouse" in line)
    assert warehouse.split() == [
        *("warehouse", CODEX, "agent", "1m36s", "1m39s"),
        *("✓", "csv", "nop", "1.0", "reused"),
    ]


def test_of_several_attempts_each_has_its_number() -> None:
    lines = [line.split() for line in shown(view(running(), attempts=2), 80, 24)]
    assert ["Running", "3", "Agent", "No.", "Phase", "Age"] in lines
    assert ["warehouse", CODEX, "1", "agent", "1m39s"] in lines
    assert ["Last", "ended", "Agent", "No.", "Score", "Time"] in lines
    assert ["✓", "csv", "nop", "1", "1.0", "reused"] in lines


@pytest.mark.parametrize(
    ("status", "died", "is_over"),
    [
        (JobStatus.RUNNING, False, False),
        (JobStatus.RUNNING, True, True),
        (JobStatus.CANCELLED, False, True),
        (JobStatus.CANCELLED, True, True),
    ],
)
def test_what_is_over_is_not_said_to_end_later(status: JobStatus, died: bool, is_over: bool) -> None:
    live = running()
    now = NOW + datetime.timedelta(seconds=100)
    assert live.seconds_left(now.timestamp()) is not None
    ending = {"finished_at": now} if status.ended else {}
    document = watch_document(record(Path("reports"), status=status, **ending), live, now, died=died)
    assert (document.eta is None) == is_over
    assert (document.died, document.status) == (died, status.value)


def test_what_does_not_fit_is_counted() -> None:
    live = Live()
    for number in range(50):
        live.take(phase(f"s{number:02}", "agent", START + number))
    lines = shown(view(live), 80, 24)
    listed = [line for line in lines if line.startswith("s")]
    (more,) = (line for line in lines if line.startswith("..."))
    assert listed[0].startswith("s00 ")
    assert more == f"... and {50 - len(listed)} more"
    assert len(listed) >= 4


def test_the_sum_over_many_agents_is_always_there() -> None:
    live = Live()
    live.take(planned(**{f"agent-{number}": 1 for number in range(40)}))
    live.take(phase("s", "agent", START, "agent-39"))
    lines = shown(view(live), 80, 24)
    agents = [line.split()[0] for line in lines if line.startswith(("agent-", "all", "..."))]
    assert agents == [*(f"agent-{number}" for number in range(5)), "...", "all"]


def test_before_the_first_trial_there_is_what_pytest_says() -> None:
    log = tuple(f"line {number}" for number in range(50))
    lines = shown(view(Live(), log=log), 80, 24)
    assert lines[4] == "Waiting for the first trial"
    assert lines[5:22] == [f"  line {number}" for number in range(33, 50)]
    assert shown(view(Live()), 80, 24)[4:23] == ["Waiting for the first trial", *[""] * 18]


def test_a_job_that_gives_no_sign_of_life_looks_so() -> None:
    assert shown(view(running(), silence=29), 80, 24)[0].endswith("running 1m40s")
    assert shown(view(running(), silence=75), 80, 24)[0].endswith("no heartbeat for 1m15s")


def test_what_had_ended_before_the_job_was_resumed_is_told_apart() -> None:
    live = running()
    live.take(ended("x", START + 99, "nop", before=True, seconds=0.0))
    lines = shown(view(live), 80, 24)
    assert lines[1].startswith("5/10 trials, 1 ended earlier, 3 running of at most 4 ")
    assert any(line.split() == ["✓", "x", "nop", "1.0", "before"] for line in lines)


def test_where_there_is_only_ascii_the_bar_is_too() -> None:
    lines = shown(view(running()), 80, 24, ascii_only=True)
    assert lines[2].startswith("##############################----")


def test_outcomes_have_colours_and_marks() -> None:
    styles = {}
    for line in picture(view(running()), 80, 24):
        if line.plain[:3].strip() in ("✓", "✗", "!"):
            styles[line.plain[0]] = str(line.spans[0].style)
    assert styles == {"✓": "color(2)", "✗": "color(1)", "!": "color(3)"}  # green, red, yellow


def test_names_are_neither_markup_nor_commands_to_the_terminal() -> None:
    evil = "\x1b[2J[bold]x[/bold]\n\x9b31m\u202e:smile:"
    live = Live()
    live.take(planned(oracle=2))
    live.take(phase("a", evil, START))
    live.take(ended("b", class_=evil, outcome=Outcome.FAILED, score=0.0))
    text = "".join(shown(view(live, name=evil, log=(evil,)), 160, 24))
    assert text.isprintable()
    assert text.startswith("[bold]x[/bold] :smile: (20261121-054712-4f9a2c)")
    assert text.count("[bold") >= 3


@at_most(150)
@given(
    width=st.integers(1, 260),
    height=st.integers(1, 70),
    name=st.text(max_size=60),
    phase_name=st.text(max_size=30),
    flying=st.integers(0, 40),
    landed=st.integers(0, 40),
    agents=st.integers(1, 12),
)
def test_no_screen_is_too_small_or_too_large(
    width: int, height: int, name: str, phase_name: str, flying: int, landed: int, agents: int
) -> None:
    live = Live()
    labels = [f"some-agent-{number}:with-a-model-of-some-name" for number in range(agents)]
    live.take(planned(**dict.fromkeys(labels, 40)))
    for number in range(flying):
        live.take(phase(f"flying-{number}", phase_name, START, labels[number % agents]))
    for number in range(landed):
        live.take(ended(f"landed-{number}", START, labels[number % agents], class_=phase_name))
    lines = picture(view(live, name=name), width, height)
    assert len(lines) == height
    assert all(line.cell_len <= width for line in lines)
    assert all("\n" not in line.plain and "\x1b" not in line.plain for line in lines)


def test_progress_in_a_line() -> None:
    assert progress(view(running())) == (
        "4/10 trials (2 passed, 1 failed, 1 errors, 1 reused), 3 running, mean 1.000 codex:gpt-5.5 0.750 nop, "
        "spend $0.25, elapsed 1m40s, ETA 1m46s"
    )
    assert progress(view(Live(), log=("collecting", "still collecting"))) == (
        "Waiting for the first trial: still collecting"
    )


def test_a_chosen_trial_is_marked_and_an_opened_one_fills_the_screen() -> None:
    of = view(running())
    flying, *_, first = of.rows
    chosen = dataclasses.replace(of, chosen=flying.node_id)
    marked = [
        line for line in picture(chosen, 80, 24) if any("reverse" in str(span.style) for span in line.spans)
    ]
    assert [line.plain.split()[0] for line in marked] == [flying.scenario]
    log = tuple(f"line {number}" for number in range(100))
    lines = shown(dataclasses.replace(of, opened=flying, log=log), 80, 24)
    assert len(lines) == 24
    assert lines[0] == "warehouse codex:gpt-5.5" + "agent 1m36s, 1m39s in all".rjust(57)
    assert lines[1] == flying.node_id
    assert lines[3] == "line 81"
    assert lines[-3:] == [
        "line 99",
        "",
        "Enter or Esc: back to the job; q or Ctrl-C: stop watching; the job continues",
    ]
    ended_one = shown(dataclasses.replace(of, opened=of.rows[3], log=()), 80, 10)
    assert ended_one[0].endswith("passed, score 1.0")
    assert ended_one[2] == "No output yet"
    assert len(shown(dataclasses.replace(of, opened=first, log=log), 20, 3)) == 3
