"""Results of earlier jobs are taken over when nothing that decides them has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_benchjobs.store.reader import HistoryReader

from .conftest import Bench

# What the agent and the scorers do is written here, outside of the sandboxes: who ran is counted, not believed.


@pytest.fixture
def counted(bench: Bench) -> Bench:
    ran = bench.path / "ran.txt"
    scripts = {"good": "echo score=1", "bad": "echo score=0.25", "broken": "exit 3"}
    bench.manifest(
        {name: {"reference": f"echo {name} >> {ran}", "script": script} for name, script in scripts.items()}
    )
    return bench


def ran(bench: Bench) -> list[str]:
    """Scenarios whose agent has run since the last call."""
    path = bench.path / "ran.txt"
    names = sorted(path.read_text().split()) if path.exists() else []
    path.unlink(missing_ok=True)
    return names


def change(bench: Bench, before: str, after: str, name: str = "many.bench.yaml") -> None:
    path = bench.path / name
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def last(bench: Bench) -> dict[str, dict[str, Any]]:
    return {result["scenario"]: result for result in bench.results()}


def test_what_has_a_result_is_not_run_again_by_the_loop_of_another_plugin(counted: Bench) -> None:
    counted.run("many.bench.yaml")
    assert ran(counted) == ["bad", "broken", "good"]
    (counted.path / "other_loop.py").write_text(
        """
import pytest

class Loop:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        for item in session.items:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        print("another loop was here")
        return True

def pytest_collection_finish(session):
    session.config.pluginmanager.register(Loop())  # after ours, so that it comes first
"""
    )
    again = counted.run("many.bench.yaml", "--bench-reuse", "-s", "-p", "other_loop")
    assert ran(counted) == ["broken"]  # an error is no result
    assert again.parseoutcomes() == {"passed": 1, "unsolved": 1, "errors": 1}
    again.stdout.fnmatch_lines("*another loop was here*")


def test_what_has_a_result_is_not_run_again(counted: Bench) -> None:
    first = counted.run("many.bench.yaml")
    assert ran(counted) == ["bad", "broken", "good"]
    first_job = counted.job()["job"]["id"]
    again = counted.run("many.bench.yaml", "--bench-reuse", "-v")
    # An error is no result.
    assert ran(counted) == ["broken"]
    assert again.ret == first.ret == 1
    again.stdout.fnmatch_lines(["*good* PASSED score=1.0 reused*"])
    again.stdout.fnmatch_lines([f"2 results reused without running: 2 of job {first_job}"])
    results = last(counted)
    again.stdout.fnmatch_lines(["agent *passed  failed  errors  reused  total  *", "oracle *1 *1 *1 *2 *3 *"])
    summary = (counted.bundle() / "summary.md").read_text()
    assert "| `oracle` | 1 | 1 | 1 | 1 | 2 | 3 |" in summary
    assert results["good"]["reused"]["job"] == first_job
    assert results["good"]["outcome"] == "passed"
    assert results["bad"]["score"] == 0.25
    assert results["broken"]["reused"] is None
    assert counted.job()["totals"]["reused"] == 2
    junit = next(
        (counted.path / "reports" / "jobs").glob(f"*{counted.job()['job']['id']}/junit.xml")
    ).read_text()
    assert junit.count(f'name="bench_reused" value="{first_job}"') == 2
    # Always the trial that ran, never a copy of a copy; and of the version that its benchmark has now.
    change(counted, '"benchmark": "many"', '"benchmark": "many", "version": "1.10"')
    workers = counted.run("many.bench.yaml", "-n", "2", "--bench-reuse")
    assert ran(counted) == ["broken"]
    workers.stdout.fnmatch_lines(["2 results reused*"])
    good = last(counted)["good"]
    assert (good["reused"]["job"], good["benchmark_version"]) == (first_job, "1.10")


@pytest.mark.usefixtures("from_nothing")
def test_a_run_that_only_reuses_imports_only_what_that_takes(counted: Bench) -> None:
    counted.run("--bench-scenario", "good")
    counted.write(
        "looking.py",
        """
        import sys

        def pytest_sessionfinish():
            names = ("trial.run", "trial.connection", "gateway.client", "agents.description", "sandbox.docker",
                "sources.harbor", "report.documents", "agents.interactive", "analysis.baseline", "analysis.forecast",
                "model.baseline", "analysis.statistics.power", "settings.secret_store", "store.results")
            idle = {"asyncio", "urllib.request", *(f"pytest_benchjobs.{name}" for name in names)}
            print("idle:", sorted(idle & set(sys.modules)))
            # pytest would read them thrice as slowly, to rewrite assertions that they do not have.
            print("as written:", type(sys.modules["pytest_benchjobs.job.reuse"].__loader__).__name__)
        """,
    )
    others = ("-p", "no:anyio", "-p", "no:hypothesispytest")  # which import asyncio
    done = counted.run("-s", "-p", "looking", *others, "--bench-scenario", "good", "--bench-reuse")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*idle: []", "as written: SourceFileLoader"])


def test_failed_and_errors_by_choice(counted: Bench) -> None:
    counted.run("many.bench.yaml")
    ran(counted)
    counted.run("many.bench.yaml", "--bench-rerun-failed")
    assert ran(counted) == ["bad", "broken"]
    counted.run("many.bench.yaml", "--bench-rerun-errors")
    assert ran(counted) == ["broken"]
    for more in ((), ("--bench-force",)):
        counted.run("many.bench.yaml", *more)
        assert ran(counted) == ["bad", "broken", "good"]


def test_one_byte_of_a_scorer_runs_that_scenario_only(counted: Bench) -> None:
    counted.run("many.bench.yaml")
    ran(counted)
    change(counted, "echo score=1", "echo score=1 ")
    done = counted.run("many.bench.yaml", "--bench-reuse", "--bench-explain-reuse")
    assert ran(counted) == ["broken", "good"]
    done.stdout.fnmatch_lines_random(
        [
            "*ran: *good*: changed since job *: scorers",
            "*reused: *bad*: failed in job *",
            "*ran: *broken*: it has no result yet: error (*) in job *",
        ]
    )


def test_paths_order_clock_and_secrets_run_nothing(counted: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_KEY", "first-value-1")
    options = ("--bench-secret", "API_KEY=HOST_KEY", "--bench-scenario", "good,bad", "--bench-reuse")
    counted.run("many.bench.yaml", *options)
    assert ran(counted) == ["bad", "good"]
    # Another place, another order, another time, another value.
    monkeypatch.setenv("HOST_KEY", "second-value-2")
    document = json.loads((counted.path / "many.bench.yaml").read_text())
    document["scenarios"].reverse()
    (counted.path / "many.bench.yaml").unlink()
    counted.write("deep/er/renamed.bench.yaml", json.dumps(document))
    counted.run("deep", *options)
    assert ran(counted) == []
    assert [result["outcome"] for result in counted.results()] == ["failed", "passed"]


def test_attempts_are_reused_and_a_parameter_or_place_of_grading_makes_another_trial(counted: Bench) -> None:
    only = ("many.bench.yaml", "--bench-scenario", "good", "--bench-reuse")
    counted.run(*only)
    counted.run(*only, "--bench-attempts", "3")
    assert ran(counted) == ["good"] * 3
    for more in (("--bench-extra", '{"temperature": 0}'), ("--bench-grade-in", "agent_container")):
        counted.run(*only, *more)
        assert ran(counted) == ["good"]


def test_a_number_of_tokens_decides_and_a_key_does_not(counted: Bench) -> None:
    def run(tokens: str, key: str) -> list[str]:
        variables = (f"--bench-env=MAX_THINKING_TOKENS={tokens}", f"--bench-env=ANTHROPIC_API_KEY={key}")
        counted.run("many.bench.yaml", "--bench-scenario", "good", "--bench-reuse", *variables)
        return ran(counted)

    assert run("100", "sk-ant-canary-1") == ["good"]
    assert run("100", "sk-ant-canary-2") == []
    assert run("32000", "sk-ant-canary-2") == ["good"]
    files = [path for path in (counted.path / "reports").rglob("*") if path.is_file()]
    assert [path for path in files if b"sk-ant-canary" in path.read_bytes()] == []


def test_an_agent_is_asked_once_how_it_is_called(counted: Bench) -> None:
    asked = counted.path / "asked.txt"
    counted.conftest(
        f"""
        from pytest_benchjobs.agents.builtin import Oracle

        class Counting(Oracle):
            def prepare(self, call):
                with open({str(asked)!r}, "a") as file:
                    print(call.scenario.id, file=file)
                return super().prepare(call)

        def pytest_benchjobs_agents(config):
            return [Counting()]
        """
    )
    for option in ("--bench-plan", "--bench-job-name=run", "--bench-job-name=again"):
        counted.run("many.bench.yaml", "--bench-scenario=good", "--bench-reuse", option)
        assert asked.read_text().split() == ["good"]
        asked.unlink()
    assert ran(counted) == ["good"]


def test_a_plan_runs_nothing_and_writes_nothing(counted: Bench) -> None:
    done = counted.run("many.bench.yaml", "--bench-plan", "--bench-reuse")
    done.stdout.fnmatch_lines(["3 trials would run, 0 would be reused"])
    assert ran(counted) == []
    assert not (counted.path / "reports").exists()
    counted.run("many.bench.yaml")
    ran(counted)
    before = sorted((counted.path / "reports" / "jobs").iterdir())
    done = counted.run("many.bench.yaml", "--bench-plan", "--bench-reuse")
    done.stdout.fnmatch_lines(["1 trials would run, 2 would be reused"])
    assert ran(counted) == []
    assert sorted((counted.path / "reports" / "jobs").iterdir()) == before


def test_what_is_graded_anew_is_no_result_of_what_its_agent_never_saw(counted: Bench) -> None:
    counted.run("many.bench.yaml", "--bench-scenario", "good", "--bench-keep", "always")
    first_job = counted.job()["job"]["id"]
    change(counted, "Try.", "Try hard.")
    counted.run("many.bench.yaml", "--bench-scenario", "good", "--bench-rescore", first_job)
    assert last(counted)["good"]["rescored"]["job"] == first_job
    ran(counted)
    counted.run("many.bench.yaml", "--bench-scenario", "good", "--bench-reuse")
    assert ran(counted) == ["good"]
    change(counted, "Try hard.", "Try.")
    counted.run("many.bench.yaml", "--bench-scenario", "good", "--bench-reuse")
    assert ran(counted) == []


_ONCE_MORE = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        for report in reports:
            report.outcome = "rerun" if report.failed else report.outcome
            item.ihook.pytest_runtest_logreport(report=report)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


@pytest.mark.parametrize(
    ("workers", "reuse"), [((), True), (("-n", "2"), False)], ids=["one process", "xdist"]
)
def test_of_a_trial_that_a_plugin_runs_again_the_last_result_counts_everywhere(
    bench: Bench, workers: tuple[str, ...], reuse: bool
) -> None:
    flag = bench.path / "flag"
    bench.manifest({"moody": f"test -e {flag} && echo 1 || {{ touch {flag}; echo 0; }}", "good": "echo 1"})
    if reuse:
        assert bench.run("many.bench.yaml").parseoutcomes() == {"passed": 1, "unsolved": 1}
    bench.conftest(_ONCE_MORE)
    bench.run("many.bench.yaml", *workers, *(["--bench-reuse"] if reuse else []))
    (moody,) = (result for result in bench.results() if result["scenario"] == "moody")
    assert (moody["outcome"], moody["reused"]) == ("passed", None)
    assert bench.outcomes() == dict.fromkeys(bench.outcomes(), "passed")
    report = bench.job()
    assert {result["outcome"] for result in report["results"]} == {"passed"}
    assert 'failures="0"' in (bench.bundle() / "junit.xml").read_text()
    record = json.loads((bench.bundle() / "job.json").read_text())
    assert (record["totals"]["passed"], record["totals"]["failed"]) == (2, 0)
    with HistoryReader.of(bench.path / "reports") as history:
        rows = {row.scenario: row.outcome for row in history.trials(record["id"])}
    assert rows == {"moody": "passed", "good": "passed"}


def test_what_is_to_be_kept_and_was_not_runs_again(counted: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(counted.path / "kept"))
    only = ("many.bench.yaml", "--bench-scenario", "good", "--bench-scenario", "bad", "--bench-reuse")
    counted.run(*only)
    assert ran(counted) == ["bad", "good"]
    result = counted.run(*only, "--bench-keep", "failed", "--bench-explain-reuse")
    assert ran(counted) == ["bad"]
    result.stdout.fnmatch_lines(
        ["*ran: *bad*: nothing of it was kept in job *, and --bench-keep failed asks for it"]
    )
    assert last(counted)["bad"]["kept"] is not None
    counted.run(*only, "--bench-keep", "failed")
    assert ran(counted) == []
    counted.run(*only, "--bench-keep", "always")
    assert ran(counted) == ["good"]
