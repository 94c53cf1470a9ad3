"""Attempts in rounds, fresh attempts of what looks worse, and agents that take turns."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from .conftest import Bench

# Agents take what they score from a variable, by scenario: an agent may be worse without being another program.
AGENTS = """
import os

def pytest_benchjobs_agents():
    return [Told("told"), Told("other")]

from pytest_benchjobs import AgentCommand

class Told:
    needs_model = False
    trusted = False

    def __init__(self, name):
        self.name = name

    def prepare(self, call):
        broken = os.environ.get("BROKEN", "").split()
        worth = "0" if call.scenario.id in broken else "1"
        return AgentCommand(argv=("/bin/sh", "-c", f"echo {worth} > out.txt"))
"""
NAMES = [f"s{number:02}" for number in range(12)]


@pytest.fixture
def suite(bench: Bench) -> Bench:
    """A benchmark of twelve scenarios, of which a baseline passed all in five attempts."""
    bench.conftest(AGENTS)
    bench.manifest(dict.fromkeys(NAMES, "cat out.txt"), "suite.bench.yaml")
    result = bench.run(
        "suite.bench.yaml", "--bench-agent", "told", "--bench-attempts", "5", "--bench-job-name", "first"
    )
    assert result.ret == 0
    return bench


def gate(bench: Bench) -> dict[str, Any]:
    (found,) = bench.job()["gates"]
    return dict(found)


def offline(bench: Bench, *arguments: str) -> tuple[int, str]:
    """Exit status and output of `benchjobs gate`."""
    done = bench.benchjobs("gate", "last", *arguments)
    return done.returncode, done.stdout


def attempts(bench: Bench) -> dict[str, int]:
    """Attempts that ran, by scenario."""
    ran: dict[str, int] = {}
    for result in bench.results():
        if result["outcome"] in ("passed", "failed"):
            ran[result["scenario"]] = ran.get(result["scenario"], 0) + 1
    return ran


def test_attempts_end_when_the_gate_is_decided(suite: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ("suite.bench.yaml", "--bench-agent", "told", "--bench-attempts", "5", "--bench-baseline", "job:first",
           "--bench-until-decided")  # fmt: skip
    result = suite.run(*ask, "-rs")
    assert result.ret == 0
    assert attempts(suite) == dict.fromkeys(NAMES, 1)
    result.stdout.fnmatch_lines(["bench: round 1 of 5: suite, told, mean:any: ok: *"])
    assert "decided after round 1 of 5" in result.stdout.str()
    result.assert_outcomes(passed=12, skipped=48)
    found = gate(suite)
    assert (found["verdict"], found["rounds"][0]["round"], found["rounds"][0]["stop"]) == ("ok", 1, "ok")

    monkeypatch.setenv("BROKEN", " ".join(NAMES[:8]))
    worse = suite.run(*ask)
    assert worse.ret == 10
    assert set(attempts(suite).values()) == {1}
    found = gate(suite)
    assert (found["verdict"], found["rounds"][0]["stop"]) == ("regressed", "regressed")
    assert {change["scenario"] for change in found["broke"]} == set(NAMES[:8])
    # Offline says the same.
    status, printed = offline(suite, "-o", "json")
    assert status == 10
    report = json.loads(printed)
    assert report["verdict"] == "regressed"
    assert report["rounds"] == found["rounds"]


def test_a_job_in_rounds_is_taken_up_again_in_rounds(suite: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", " ".join(NAMES[:8]))
    ask = ("suite.bench.yaml", "--bench-agent", "told", "--bench-attempts", "5")
    assert suite.run(*ask, "--bench-baseline", "job:first", "--bench-until-decided", "-x").ret == 12
    workers = suite.run(*ask, "--bench-resume", "last", "-n2")
    assert workers.ret != 0
    workers.stderr.fnmatch_lines(["*--bench-until-decided needs a single process*"])
    again = suite.run(*ask, "--bench-resume", "last")
    assert again.ret == 10
    assert set(attempts(suite).values()) == {1}
    assert gate(suite)["verdict"] == "regressed"


def test_what_looks_worse_is_confirmed_by_fresh_attempts(
    suite: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "s03")
    result = suite.run(
        "suite.bench.yaml", "--bench-agent", "told", "--bench-baseline", "job:first", "--bench-confirm", "5"
    )
    assert result.ret == 10
    result.stdout.fnmatch_lines(["bench: 1 scenario looks worse than in the baseline: 5 fresh attempts"])
    result.assert_outcomes(passed=11)
    # Eleven of twelve, as the gate says: attempts that were made because of a loss would bias the mean.
    result.stdout.fnmatch_lines(
        [
            "note: 5 fresh attempts of 1 scenario count in no figure but their own; *",
            "told *11 *1 *0 *12 *0.917 *",
            "beside these 5 fresh attempts (--bench-confirm), 0 passed: *",
        ]
    )
    assert attempts(suite) == {**dict.fromkeys(NAMES, 1), "s03": 6}
    found = gate(suite)
    (change,) = found["broke"]
    assert (change["scenario"], change["fresh_attempts"], change["fresh_passed"], change["confirmed"]) == (
        "s03", 5, 0, True,
    )  # fmt: skip
    assert change["now_attempts"] == 1
    with sqlite3.connect(suite.path / "reports" / "history.sqlite") as history:
        ((status, planned, trials),) = history.execute(
            "select status, planned, trials from jobs order by created_at desc limit 1"
        )
    assert (status, planned, trials) == ("completed", 17, 17)
    assert offline(suite)[0] == 10


@pytest.mark.parametrize("scope", ["session", "function"])
def test_fresh_attempts_are_inside_the_fixtures_of_their_scenario(
    suite: Bench, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    suite.conftest(
        AGENTS
        + f"""
from pathlib import Path
import pytest

def note(line):
    with (Path(__file__).parent / "notes.txt").open("a") as file:
        print(line, file=file)

@pytest.fixture(autouse=True, scope="{scope}")
def around(request):
    note("up")
    yield
    note("down")
"""
    )
    notes = suite.path / "notes.txt"
    suite.manifest(dict.fromkeys(NAMES, f"echo ran >> '{notes}'; cat out.txt"), "suite.bench.yaml")
    first = suite.run("suite.bench.yaml", "--bench-agent", "told", "--bench-job-name", "other")
    assert first.ret == 0
    notes.unlink()
    monkeypatch.setenv("BROKEN", "s03")
    ask = ("--bench-agent", "told", "--bench-baseline", "job:other", "--bench-confirm", "5")
    suite.run("suite.bench.yaml", *ask)
    assert attempts(suite)["s03"] == 6
    seen = notes.read_text().split()
    assert seen == (["up", *["ran"] * 17, "down"] if scope == "session" else ["up", "ran", "down"] * 17)


def test_agents_take_turns(bench: Bench) -> None:
    bench.conftest(AGENTS)
    bench.manifest(dict.fromkeys(NAMES[:2], "cat out.txt"), "suite.bench.yaml")
    agents = (f"--bench-agent={name}" for name in ("told", "other", "nop"))
    ask = ("suite.bench.yaml", *agents, "--bench-attempts", "2", "--collect-only", "-q")
    plain = bench.run(*ask).outlines[:12]
    turns = bench.run(*ask, "--bench-interleave").outlines[:12]
    assert sorted(plain) == sorted(turns)
    assert [line.partition("[")[2] for line in turns] == [
        "nop-1]", "told-1]", "other-1]", "other-1]", "nop-1]", "told-1]",
        "other-2]", "nop-2]", "told-2]", "told-2]", "other-2]", "nop-2]",
    ]  # fmt: skip


def test_two_agents_against_each_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.conftest(AGENTS.replace('"BROKEN"', "self.name.upper()"))
    bench.manifest(dict.fromkeys(NAMES[:8], "cat out.txt"), "suite.bench.yaml")
    monkeypatch.setenv("OTHER", " ".join(NAMES[:6]))
    ask = ("ab", "--benchmark", "suite.bench.yaml", "--b", "other", "--a", "told")
    done = bench.benchjobs(*ask, "--n-attempts", "2")
    assert done.returncode == 10, done.stdout + done.stderr
    assert "regressed: mean 1.00 -> 0.25" in done.stdout
    assert "newly failing on B: 6" in done.stdout
    done = bench.benchjobs(*ask, "-o", "json", "--fail-on-regression", "mean:80pp")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["verdict"], report["baseline"]) == ("ok", "A")
