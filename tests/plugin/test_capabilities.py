"""Agents that lack what scenarios require are left out before anything is spent, and everybody is told."""

from __future__ import annotations

import json

import pytest

from .conftest import Bench
from .test_plan import planned

NEEDY = """
benchmark: needy
defaults:
  image: none
  workdir: /app
  scorers: [{name: right, type: command, command: test -f out.txt}]
scenarios:
  - {id: look, problem_statement: Look., requires: {capabilities: [vision]}}
  - {id: both, problem_statement: Look and run., requires: {capabilities: [shell, vision]}}
  - {id: any, problem_statement: Write.}
"""
AGENT = """
name: {name}
argv: ["touch", "out.txt"]
{more}
"""
BLIND = "needy.bench.yaml::look[blind]"
INCOMPATIBLE = "incompatible: blind has no vision"


@pytest.fixture
def needy(bench: Bench) -> Bench:
    bench.write("needy.bench.yaml", NEEDY)
    bench.write("blind.agent.yaml", AGENT.format(name="blind", more="capabilities: [shell]"))
    bench.write("able.agent.yaml", AGENT.format(name="able", more="capabilities: [shell, vision]"))
    bench.write("unknown.agent.yaml", AGENT.format(name="unknown", more=""))
    return bench


def test_only_what_is_known_to_be_missing_skips(needy: Bench) -> None:
    agents = [word for name in ("blind", "able", "unknown") for word in ("--bench-agent", name)]
    done = needy.run("needy.bench.yaml", *agents, "-rs")
    assert done.ret == 0
    done.assert_outcomes(passed=7, skipped=2)
    outcomes = {
        result["node_id"]: (result["outcome"], result["score"], result["failure"])
        for result in needy.results()
        if result["agent"]["name"] == "blind"
    }
    why = {"class": "incompatible", "message": INCOMPATIBLE, "phase": None, "detail": None}
    assert outcomes == {
        BLIND: ("skipped", None, why),
        "needy.bench.yaml::both[blind]": ("skipped", None, why),
        "needy.bench.yaml::any[blind]": ("passed", 1.0, None),
    }
    # In the order in which they ended.
    done.stdout.fnmatch_lines_random(
        [f"SKIPPED [[]1[]] needy.bench.yaml:{line}: {INCOMPATIBLE}" for line in (8, 9)]
    )
    totals = needy.job()["job"]["totals"]
    assert (totals["trials"], totals["passed"], totals["skipped"], totals["mean_score"]) == (9, 7, 2, 1.0)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_they_are_counted_or_listed(needy: Bench, workers: tuple[str, ...]) -> None:
    arguments = ("needy.bench.yaml", "--bench-agent", "blind", "--bench-attempts", "2", *workers)
    done = needy.run(*arguments)
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        ["2 scenarios were skipped as incompatible; --bench-show-incompatible lists them"]
    )
    listed = [
        line for line in needy.run(*arguments, "--bench-show-incompatible").outlines if "skipped: " in line
    ]
    assert listed == [f"skipped: needy {name}[blind]: {INCOMPATIBLE}" for name in ("both", "look")]


def test_with_strict_capabilities_it_is_an_error(needy: Bench) -> None:
    extra = json.dumps({"per_benchmark": {"needy": {"strict_capabilities": True}}})
    # Of strict and ignored, strict holds.
    arguments = ("--bench-agent=blind", "--bench-ignore-capabilities", f"--bench-extra={extra}")
    assert needy.run("needy.bench.yaml", *arguments).ret == pytest.ExitCode.TESTS_FAILED
    [failure] = [result["failure"] for result in needy.results() if result["node_id"] == BLIND]
    assert (failure["class"], failure["message"]) == ("agent_setup", INCOMPATIBLE)
    assert sorted(needy.outcomes().values()) == ["error", "error", "passed"]


def test_a_place_that_the_gate_refuses_is_an_error_before_anything_is_spent(needy: Bench) -> None:
    arguments = ("needy.bench.yaml", "-k", "any", "--bench-agent=able", "--bench-require-fresh")
    assert needy.run(*arguments, "--bench-grade-in=agent_container").ret == 12
    [result] = needy.results()
    assert (result["failure"]["class"], result["failure"]["phase"], result["agent_end"]) == (
        "input",
        "prepare",
        None,
    )
    assert needy.run(*arguments).ret == 0


def test_a_result_of_before_the_agent_said_so_is_not_reused(needy: Bench) -> None:
    needy.write("blind.agent.yaml", AGENT.format(name="blind", more=""))
    arguments = ("needy.bench.yaml", "--bench-agent", "blind", "--bench-reuse")
    needy.run(*arguments)
    assert set(needy.outcomes().values()) == {"passed"}
    needy.write("blind.agent.yaml", AGENT.format(name="blind", more="capabilities: [shell]"))
    needy.run(*arguments)
    assert needy.outcomes()[BLIND] == "skipped"


def test_the_console_command_shows_what_agents_say(needy: Bench) -> None:
    said = {name: needy.benchjobs("agents", "show", name).stdout for name in ("blind", "unknown", "model")}
    assert "capabilities: shell\n" in said["blind"]
    assert "capabilities: code.edit, code.read, code.search, code.shell, code.write, shell\n" in said["model"]
    assert "capabilities" not in said["unknown"]


def test_a_plan_tells_beforehand(needy: Bench) -> None:
    document = planned(needy, "--benchmarks", "needy.bench.yaml", "--agent", "blind", "able")
    assert (document["trials"], document["runs"], document["skipped"], document["problems"]) == (6, 4, 2, 0)
    assert [group["skipped"] for group in document["groups"]] == [2, 0]
    assert [trial["node_id"] for trial in document["selected"] if trial["incompatible"] == INCOMPATIBLE] == [
        BLIND,
        "needy.bench.yaml::both[blind]",
    ]
    asked = ("plan", "--benchmarks", "needy.bench.yaml", "--agent", "blind", "-e")
    lines = needy.benchjobs(*asked).stdout.splitlines()
    assert lines[0] == "3 trials: 1 would run, 0 would be reused, 2 would be skipped"
    assert f"      2  {INCOMPATIBLE}" in lines
    assert f"skipped  {BLIND}  ({INCOMPATIBLE})" in lines
    strict = ("--benchmarks", "needy.bench.yaml", "--agent", "blind", "--strict-capabilities")
    assert planned(needy, *strict)["problems"] == 2


def test_for_diagnosis_they_run_all_the_same(needy: Bench) -> None:
    extra = json.dumps({"per_benchmark": {"needy": {"ignore_capabilities": True}}})
    assert needy.run("needy.bench.yaml", "--bench-agent=blind", f"--bench-extra={extra}").ret == 0
    assert set(needy.outcomes().values()) == {"passed"}
    notes = {result["scenario"]: result["notes"] for result in needy.results()}
    note = f"{INCOMPATIBLE}; it ran all the same, because of --bench-ignore-capabilities"
    assert notes == {"look": [note], "both": [note], "any": []}


def test_the_summary_has_the_mean_over_agents(needy: Bench) -> None:
    needy.write("lazy.agent.yaml", 'name: lazy\nargv: ["true"]\ncapabilities: [shell, vision]\n')
    agents = [word for name in ("able", "lazy", "blind") for word in ("--bench-agent", name)]
    needy.run("needy.bench.yaml", *agents)
    lines = needy.benchjobs("summary", "last").stdout.splitlines()
    # Of `blind`, one of three scenarios was skipped; it counts as much as the others.
    assert "Mean over 3 agents: pass rate 66.7%, score 0.667" in lines
