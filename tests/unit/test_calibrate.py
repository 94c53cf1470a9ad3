"""What benchmarks make of agents whose results are certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.agents.fixed_results import half_solves
from pytest_benchjobs.analysis.calibration import calibrate
from pytest_benchjobs.store.rows import PairRow, pair_row

from .jobs import documents, ended, make_job, run

NAMES = [f"s{number}" for number in range(6)]


def rows(**agents: str) -> dict[str, list[PairRow]]:
    """Letters of outcomes, one for each scenario, by agent (`baseline_half` is baseline:half)."""
    return {
        "texts": [
            pair_row(ended(letter, name, agent.replace("_", ":")))
            for agent, letters in agents.items()
            for name, letter in zip(NAMES, letters, strict=True)
        ]
    }


HALF = "".join("P" if half_solves(name) else "F" for name in NAMES)


@pytest.mark.parametrize(
    ("agents", "status", "says"),
    [
        ({"oracle": "PPPPPP", "nop": "FFFFFF"}, "valid", "reference solutions pass (1.000)"),
        ({"baseline_perfect": "PPPPPP", "baseline_wrong": "HHHHHH", "baseline_half": HALF}, "valid", "(0.250)"),
        ({"oracle": "PPPPPP"}, "missing", "no graded trial of nop; run it with --agent nop"),
        ({"oracle": "EEEEEE", "nop": "FFFFFF"}, "missing", "no graded trial of oracle"),
        ({"codex_a": "PPPPPP"}, "missing", "run it with --agent oracle nop"),
        ({"oracle": "PPPPPP", "nop": "PPPPPP"}, "all-right", "accept everything"),
        ({"oracle": "FFFFFF", "nop": "FFFFFF"}, "all-wrong", "reject everything"),
        ({"oracle": "PPPFFF", "nop": "FFFPPP"}, "flat", "the same mean score, 0.500"),
        ({"oracle": "PPPPPF", "nop": "FFFFFF"}, "mismatch", "1 result is not the known one"),
        ({"oracle": "PPPPPP", "nop": "PPFFFF"}, "mismatch", "2 results are not the known one"),
        # Of two agents that solve nothing the worse one, of two that solve everything the better one.
        ({"oracle": "PPPPPP", "nop": "FFFFFF", "baseline_wrong": "HHHHHH"}, "valid", "(0.000)"),
        ({"oracle": "PPPFFF", "baseline_perfect": "PPPPPP", "nop": "FFFPPP"}, "mismatch", "6 results"),
        ({"oracle": "PPPFFF", "nop": "FFFPPP", "baseline_wrong": "FFFFFF"}, "mismatch", "6 results"),
    ],
)  # fmt: skip
def test_statuses(agents: dict[str, str], status: str, says: str) -> None:
    (found,) = calibrate(rows(**agents))
    assert (found.benchmark, found.status) == ("texts", status)
    assert says in found.why
    assert found.suspicious == (status not in ("valid", "missing"))


def test_a_wrong_result_of_half_is_one() -> None:
    letters = "F" + HALF[1:] if HALF[0] == "P" else "P" + HALF[1:]
    (found,) = calibrate(rows(oracle="PPPPPP", nop="FFFFFF", baseline_half=letters))
    assert (found.status, found.mismatches) == ("mismatch", ("s0 [baseline:half]",))


@pytest.mark.parametrize(
    ("agents", "pattern"),
    [
        ({"oracle": "PPPPPP"}, "none"),
        ({"codex_a": "FFFFFF", "goose_b": "FFFFFF"}, "all-zero"),
        ({"codex_a": "PPPPPP"}, "all-one"),
        ({"codex_a": "PPPPPP", "goose_b": "PFFFFF"}, "mixed"),
        ({"codex_a": "FFFFFF", "goose_b": "PFFFFF"}, "mixed"),
        ({"codex_a": "PFFFFF", "goose_b": "FPFFFF"}, "all-equal"),
        ({"codex_a": "PFFFFF", "goose_b": "FPPFFF"}, "mixed"),
        ({"codex_a": "PFFFFF"}, "mixed"),
    ],
)
def test_patterns_of_the_others(agents: dict[str, str], pattern: str) -> None:
    assert calibrate(rows(**agents))[0].pattern == pattern


def test_the_latest_run_of_each_agent_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_job(tmp_path, "20261121-054712-4f9a2c", {"oracle": {"a": "F"}, "nop": {"a": "F"}}, hours_ago=3)
    make_job(tmp_path, "20261121-064712-aaaaaa", {"oracle": {"a": "P"}}, hours_ago=2)
    make_job(tmp_path, "20261121-074712-bbbbbb", {"oracle": {"a": "E"}}, hours_ago=1)
    document = documents(capsys, "calibrate", "calibrate", "--dir", tmp_path)
    assert [(one["benchmark"], one["status"]) for one in document["benchmarks"]] == [("texts", "valid")]
    assert run("calibrate", "--dir", tmp_path, "--fail-on-suspicious") == 0
    assert "texts      valid   -" in capsys.readouterr().out
    make_job(tmp_path, "20261121-084712-cccccc", {"nop": {"a": "P"}}, hours_ago=0.5)
    assert run("calibrate", "texts", "--dir", tmp_path, "--fail-on-suspicious") == 1
    capsys.readouterr()
    assert run("calibrate", "other", "--dir", tmp_path) == 2
    assert "there are no results of other" in capsys.readouterr().err
