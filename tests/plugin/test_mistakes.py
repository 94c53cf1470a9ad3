from __future__ import annotations

import pytest

from .conftest import Bench


@pytest.mark.parametrize(
    ("hook", "returned", "message"),
    [
        ("agents", "['x']", "returned a list with a value of type str, which has no method `prepare`; *"),
        ("agents", "5", "returned a value of type int; return a list of agents, or None"),
        (
            "scorers",
            "{'x': lambda: 1.0}",
            "returned a dict with 'x': a function that cannot be called with one*",
        ),
        ("benchmarks", "{'x': ['toy.bench.yaml']}", "returned a dict with *; return names to paths, or*"),
    ],
)
def test_a_hook_that_returns_something_else_is_named_in_one_line(
    bench: Bench, hook: str, returned: str, message: str
) -> None:
    bench.toy()
    bench.conftest(f"def pytest_benchjobs_{hook}(config): return {returned}")
    result = bench.run("--bench=toy.bench.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: hook pytest_benchjobs_{hook} {message}"])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert not (bench.path / "reports").exists()


PREPARED = """
class Mine:
    name, needs_model, trusted = "mine", False, False

    def prepare(self, call):
        return "echo 1"

def pytest_benchjobs_agents(config):
    return [Mine()]
"""


def test_an_agent_that_prepares_something_else_is_an_error_of_its_trial(bench: Bench) -> None:
    bench.toy()
    bench.conftest(PREPARED)
    bench.run("--bench-agent", "mine", "--bench-scenario", "solved")
    (result,) = bench.results()
    assert (result["outcome"], result["failure"]["class"]) == ("error", "agent_setup")
    assert "prepare returned a value of type str; return AgentCommand" in result["failure"]["message"]


SCORER = """
def helper(context):
    raise KeyError("no such column")

def rows(context):
    context.run("echo looked at the rows")
    return helper(context)

def pytest_benchjobs_scorers(config):
    return {"rows": rows}
"""


def test_the_traceback_of_a_scorer_is_kept_and_shown(bench: Bench) -> None:
    bench.write(
        "rows.bench.yaml",
        "benchmark: rows\ndefaults: {image: none}\nscenarios:\n"
        "  - {id: graded, problem_statement: Try., reference: 'true', scorers: [{name: rows, type: rows}]}\n",
    )
    bench.conftest(SCORER)
    shown = bench.run().stdout.str()
    (result,) = bench.results()
    assert result["failure"]["class"] == "scorer_crashed"
    (graded,) = result["scorers"]
    assert 'in helper\n    raise KeyError("no such column")' in graded["output"]
    assert graded["output"].startswith("looked at the rows")
    assert "run_scorer" not in graded["output"]
    (kept,) = bench.path.glob("reports/jobs/*/trials/*/graded/1/scorers/rows/output.log")
    assert "KeyError: 'no such column'" in kept.read_text()
    assert 'raise KeyError("no such column")' in shown


def test_unsolved_trials_are_listed_with_q_and_not_with_qq(bench: Bench) -> None:
    bench.manifest({"short": "echo 0.5"})
    shown = bench.run("-q").stdout
    shown.fnmatch_lines(["1 unsolved:", "  many.bench.yaml::short*"])
    # Each of pytest's own sections of failures looks through all reports, which is quadratic.
    for section in ("= FAILURES =", "short test summary info"):
        assert section not in shown.str()
    assert "unsolved:" not in bench.run("-qq").stdout.str()


def test_what_is_planned_is_known_while_the_job_runs(bench: Bench) -> None:
    bench.toy()
    bench.conftest(
        """
        import json, pathlib
        class Looks(FakeProvider):
            def start(self, spec, on_phase):
                (path,) = pathlib.Path("reports/jobs").glob("2*/job.json")
                job = json.loads(path.read_text())
                pathlib.Path("seen.jsonl").open("a").write(json.dumps([job["status"], job["planned"]]) + "\\n")
                return super().start(spec, on_phase)
        def pytest_benchjobs_sandboxes(config):
            return {"fake": Looks}
        """
    )
    bench.run("--bench-attempts", "2", "-k", "not partial")
    seen = (bench.path / "seen.jsonl").read_text().splitlines()
    # Each has a container for its agent, and one for grading; a reference that fails may have another.
    assert len(seen) >= 8
    assert set(seen) == {'["running", 4]'}
