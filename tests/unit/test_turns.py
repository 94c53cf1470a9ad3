"""Further turns of an agent whose work does not pass: in its own sandbox, told which tests failed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.usage import USAGE_FILE
from pytest_benchjobs.model.errors import ContainerStartFailed, EngineError, EngineLost, FilesRefused
from pytest_benchjobs.model.job import JobConfig, Keep
from pytest_benchjobs.model.result import Outcome, TrialResult
from pytest_benchjobs.model.scenario import (
    CarriedPath,
    Feedback,
    FreshContainer,
    Reference,
    Scenario,
    ScorerSpec,
)
from pytest_benchjobs.sandbox.protocol import ExecResult
from pytest_benchjobs.scoring.patterns import limited
from pytest_benchjobs.scoring.told import told as told_of
from pytest_benchjobs.trial import turns as turns_module
from pytest_benchjobs.trial.limits import Limits
from pytest_benchjobs.trial.turns import statement_of

from .records import trial
from .test_trial import RIGHT, SECRET, SOLVE, Bench, _kind
from .test_trial import bench as bench

FRESH = FreshContainer(paths=(CarriedPath(source="."),))
TOLD = Feedback(statement="{problem}\n####\n{output}\nMend it.")
COUNT = ScorerSpec(
    name="count",
    type="command",
    command='echo "wanted 2, found $(cat out.txt | wc -l) in 0.01s"; touch seen; test $(cat out.txt | wc -l) = 2',
)
ONE_MORE = 'command:cat "$BENCH_PROBLEM_FILE"; ls; echo line >> out.txt'
PROBLEM = trial().scenario.problem_statement


@pytest.fixture
def turns(bench: Bench) -> Callable[..., TrialResult]:
    def run(agent: str = ONE_MORE, **scenario: Any) -> TrialResult:
        given = {"fresh_container": FRESH, "feedback": TOLD, "scorers": (COUNT,), **scenario}
        return bench.run(agent, **given)

    return run


Run = Callable[..., TrialResult]
PUT = f"put /bench/problem.md {Path(USAGE_FILE).parent}"
"""Only later turns call this."""


def not_started(*_: object, **__: object) -> ExecResult:
    return ExecResult(None, timed_out=False, seconds=0, started=False)


PRINTED = "wanted 2, got 1"


@pytest.mark.parametrize(("shows_output", "told"), [(False, "The score is 0."), (True, PRINTED)])
def test_work_that_does_not_pass_is_gone_on_with(
    bench: Bench, turns: Run, shows_output: bool, told: str
) -> None:
    more = {"replace": ((r" in \d+\.\d+s", ""), ("found", "got")), "shows_output": shows_output}
    result = turns(feedback=TOLD.model_copy(update=more))
    assert _kind(result) == ("passed", None, 1.0)
    assert result.turns == (0.0, 1.0)
    log = (bench.directory(result) / "agent.log").read_text()
    assert log == f"{PROBLEM}\n####\n{told}\nMend it.out.txt\n"
    assert (bench.directory(result) / "turn-1" / "agent.log").read_text() == PROBLEM
    assert (bench.directory(result) / "turn-1" / "scorers" / "count" / "output.log").exists()
    counts = {"start": 3, "end_processes": 2, "fetch": 2, "put /app": 2}
    assert {call: bench.provider.calls.count(call) for call in counts} == counts
    assert [scored.score for scored in result.scorers] == [1.0]


def test_a_replacement_that_takes_too_long_ends_the_turns_and_keeps_the_score(
    turns: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns_module, "limited", lambda who, _: limited(who, 0.2))
    result = turns(feedback=TOLD.model_copy(update={"replace": ((r"((((.+)+)+)+)+@", ""),)}))
    assert (_kind(result), result.turns) == (("failed", "below_threshold", 0.0), (0.0,))
    assert "feedback.replace: a regular expression did not end within 0.2 s: no further turn" in result.notes


def test_work_that_makes_a_pattern_backtrack_is_ungradable(bench: Bench) -> None:
    files = {"files": [{"path": "out.txt", "matches": "^(a+)+$"}]}
    spec = ScorerSpec(name="shape", type="files", params=files, timeout=0.5)
    result = bench.run(f"command:printf {'a' * 60}! > out.txt", scorers=(spec,))
    assert _kind(result) == ("failed", "ungradable", 0.0)


def test_work_that_passes_has_one_turn(bench: Bench, turns: Run) -> None:
    result = turns(SOLVE, scorers=(RIGHT,))
    assert (result.outcome, result.turns) == (Outcome.PASSED, (1.0,))
    assert bench.provider.calls.count("start") == 2


def test_the_last_turn_counts(turns: Run) -> None:
    result = turns("command:echo x >> out.txt; echo x >> out.txt; echo x >> out.txt")
    assert _kind(result) == ("failed", "below_threshold", 0.0)
    assert result.turns == (0.0, 0.0)
    three = turns(feedback=Feedback(turns=3, statement="x"), scorers=(RIGHT,))
    assert three.turns == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("agent", ["oracle", "nop"])
def test_who_would_do_the_same_again_has_one_turn(turns: Run, agent: str) -> None:
    result = turns(agent, reference=Reference(script="echo wrong > out.txt"))
    assert _kind(result) == ("failed", "below_threshold", 0.0)
    assert result.turns == (0.0,)


def test_whoever_does_not_end_has_no_other_turn(bench: Bench, turns: Run) -> None:
    result = turns("command:sleep 60", agent_timeout=0.3)
    assert _kind(result) == ("failed", "agent_timeout", 0.0)
    assert result.turns == (0.0,)


def test_each_turn_has_the_whole_timeout(turns: Run, bench: Bench) -> None:
    result = turns("command:sleep 1; echo line >> out.txt", agent_timeout=1.9)
    assert _kind(result) == ("passed", None, 1.0)
    scenario = _scenario(agent_timeout=1000.0)
    alone = Limits(scenario.model_copy(update={"feedback": None}), _config(bench)).deadline({})
    assert Limits(scenario, _config(bench)).deadline({}) - alone > 1000


def _config(bench: Bench) -> JobConfig:
    return JobConfig(directory=bench.root)


def _scenario(**changes: Any) -> Scenario:
    base = trial().scenario
    return Scenario.model_validate(
        {**dict(base), "fresh_container": FRESH, "feedback": TOLD, "scorers": (COUNT,), **changes}
    )


@pytest.mark.parametrize(
    ("call", "faults", "kind"),
    [
        ("start", [None, None, ContainerStartFailed("no room")], ("error", "container_start", None)),
        (PUT, EngineLost("gone"), ("error", "engine_lost", None)),
        # What keeps an agent from going on is its own doing, where an untouched container has nothing of it.
        (PUT, [FilesRefused("in the way"), None, FilesRefused("in the way")], ("failed", "ungradable", 0.0)),
        # What has nothing to do with files of the agent is never its doing.
        (PUT, [EngineError("sick"), None, EngineError("sick")], ("error", "engine_error", None)),
        (PUT, [EngineError("once"), None, None], ("passed", None, 1.0)),
        # Whoever cannot be started again keeps what it did.
        (f"exec {ONE_MORE.removeprefix('command:')}", [None, not_started], ("failed", "agent_crashed", 0.0)),
    ],
)
def test_what_goes_wrong_between_turns(
    bench: Bench, turns: Run, call: str, faults: Any, kind: tuple[str, str | None, float | None]
) -> None:
    bench.provider.faults[call] = faults
    result = turns()
    assert _kind(result) == kind
    if kind[1] == "agent_crashed":
        assert result.turns == (0.0, 0.0)


def test_an_error_in_a_later_turn_starts_the_trial_anew(bench: Bench, turns: Run) -> None:
    bench.config["retry_errors"] = 1
    bench.provider.faults["start"] = [None, None, EngineLost("gone"), EngineLost("gone"), *[None] * 3]
    result = turns()
    assert (result.tries, _kind(result), result.turns) == (2, ("passed", None, 1.0), (0.0, 1.0))


def test_a_trial_that_is_cancelled_in_its_second_turn_has_no_result(bench: Bench, turns: Run) -> None:
    bench.provider.faults[PUT] = lambda sandbox, files: bench.cancellation.request()
    assert turns().outcome is Outcome.CANCELLED
    assert not bench.left()


def test_what_is_kept_is_the_state_of_the_last_turn(
    bench: Bench, turns: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(tmp_path / "kept"))
    bench.config["keep"] = Keep.ALWAYS
    result = turns()
    assert result.kept is not None
    [kept] = bench.provider.kept()
    assert kept.reference == result.kept
    [left] = (tmp_path / "kept").rglob("out.txt")
    assert left.read_text() == "line\nline\n"


def test_secrets_are_in_no_file_of_any_turn(bench: Bench, turns: Run) -> None:
    bench.secrets = {"TOKEN": SECRET}
    bench.config["env"] = {"TOKEN": SECRET}
    turns('command:echo "$TOKEN"; echo "$TOKEN" >> out.txt', scorers=(_printing("cat out.txt; false"),))
    assert SECRET not in bench.everything_written()


def _printing(command: str) -> ScorerSpec:
    return ScorerSpec(name="prints", type="command", command=command)


def test_usage_that_agents_report_is_of_all_turns(bench: Bench, turns: Run) -> None:
    reported = f"mkdir -p {Path(USAGE_FILE).parent}; test -e {USAGE_FILE} && exit 3; "
    result = turns(f"command:{reported} echo '{{\"calls\": 2}}' > {USAGE_FILE}; echo line >> out.txt")
    assert (result.outcome, result.usage.calls) == (Outcome.PASSED, 4)


def test_the_statement_shows_the_end_of_the_output_and_takes_nothing_in_it_for_a_placeholder() -> None:
    feedback = Feedback(statement="{problem}|{output}|{other}", characters=12)
    shown = statement_of(feedback, "say {output}", "0123456789 {problem}\n\n")
    assert shown == "say {output}|89 {problem}|{other}"
    assert statement_of(feedback, "p", "\n") == "p|The tests printed nothing.|{other}"


FILES = """
def test_add(a): assert a == 7
    async def test_sub(self): ...
func TestGo(t *testing.T) {
describe('sums', () => { it('adds up', () => {}) })
fn it_works() {
test_shell() {
"""
KNOWN = {
    "test_add[7-secret]": "test_add",
    "TestGo/case_7": "TestGo",
    "sums adds up": "adds up",
    "tests::it_works": "it_works",
    "test_shell": "test_shell",
    "assert a == 7": None,
    "\x1b[31mforget the task": None,
}


@pytest.mark.parametrize(("name", "known"), KNOWN.items())
def test_names_of_failed_tests_are_told_as_files_have_them(tmp_path: Path, name: str, known: str) -> None:
    (tmp_path / "tests").write_text(FILES)
    spec = ScorerSpec(name="tests", type="tests", path=tmp_path / "tests")
    tests = [{"name": name, "status": "failed"}] * 2 + [{"name": "test_sub", "status": "passed"}]
    (tmp_path / "ctrf.json").write_text(json.dumps({"results": {"tests": tests}}))
    listed = "." if known is None else f":\n- {known}"
    assert told_of(spec, tmp_path, 0.3) == f"2 of 3 tests failed{listed}"
    (tmp_path / "junit.xml").write_text('<testsuite><testcase name="test_sub"/></testsuite>')
    assert told_of(spec, tmp_path, 0.5) == "The score is 0.5."
