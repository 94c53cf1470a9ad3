"""What `benchjobs ab` refuses before anything runs, and what its verdict has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.cli import ab, main
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.gate import SIDE_A, GateConfig
from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.store.reader import HistoryReader

from .jobs import ended, make_job


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--b other --a told --baseline last", "--baseline: side A is the baseline of side B"),
        ("--b other --a told --agent x", "--agent: --a and --b name the agents"),
        (
            "--b other --a told --until-decided",
            "--until-decided and --confirm need a baseline that exists when ",
        ),
        ("--b other --a other", "--a and --b are the same: other"),
    ],
)
def test_sides_are_two_agents_without_another_baseline(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ab", "--benchmark", "x", *words.split()])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"benchjobs: {message}")


def test_its_verdict_has_the_details_that_those_of_gates_have(tmp_path: Path) -> None:
    known = Known(mode=KnownMode.EXPECTED_FAIL, reason="nobody can", place="bench-known.toml:12")
    results = [
        ended(letter, scenario, agent, 1).model_copy(update={"known": known} if letter == "F" else {})
        for agent, letters in (("told", "PP"), ("other", "PF"))
        for scenario, letter in zip(("one", "two"), letters, strict=True)
    ]
    agents = (AgentSpec.parse("told"), AgentSpec.parse("other"))
    job = make_job(tmp_path, "20260101-000000-aaaaaa", results, config={"agents": agents})
    with HistoryReader.of(tmp_path) as history:
        _, judged = ab._judged(history, job.id, ("told", "other"), GateConfig(baseline=SIDE_A))
    found = [
        change.known for name in ("known", "broke", "suspects") for change in getattr(judged.report, name)
    ]
    assert {one.place for one in found if one is not None} == {"bench-known.toml:12"}
