from __future__ import annotations

import pytest

from .conftest import Bench


@pytest.mark.parametrize(
    ("hook", "returned", "message"),
    [
        (
            "agents",
            "['x']",
            "returned a list with a value of type str, which has no method `prepare`; an agent is*",
        ),
        ("agents", "5", "returned a value of type int; return a list of agents, or None"),
        ("agents", "[type('A', (), {})]", "returned a list with the class A; give an object of it: A()"),
        (
            "agents",
            "[type('A', (), dict(name='a', prepare=lambda self, call: None))()]",
            "returned a list with the agent 'a', whose attribute `needs_model` is missing: True if*",
        ),
        (
            "agents",
            "[type('A', (), dict(name='a', needs_model=False, trusted=False, prepare=lambda self: None))()]",
            "returned a list with the agent 'a', whose `prepare` cannot be called with one argument*",
        ),
        ("scorers", "{'x': 'text'}", "returned a dict with 'x': a value of type str; give a function *"),
        (
            "scorers",
            "{'x': lambda: 1.0}",
            "returned a dict with 'x': a function that cannot be called with one*",
        ),
        ("scorers", "['x']", "returned a value of type list; return a dict of names to functions, or None"),
    ],
)
def test_a_hook_that_returns_something_else_is_named_in_one_line(
    bench: Bench, hook: str, returned: str, message: str
) -> None:
    bench.toy()
    bench.conftest(f"def pytest_benchjobs_{hook}(config): return {returned}")
    result = bench.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: hook pytest_benchjobs_{hook} {message}"])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert not (bench.path / "reports").exists()


PREPARED = """
from pytest_benchjobs import AgentCommand

class Mine:
    name, needs_model, trusted = "mine", False, False

    def prepare(self, call):
        return {returned}

def pytest_benchjobs_agents(config):
    return [Mine()]
"""


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            "'echo 1'",
            "prepare returned a value of type str; return AgentCommand(argv=(...)), or None to do nothing",
        ),
        (
            "AgentCommand(argv='echo 1')",
            "prepare returned an AgentCommand whose argv is one text; give a tuple of words",
        ),
        (
            "AgentCommand(argv=('echo', 1))",
            "prepare returned an AgentCommand whose argv is not a tuple of texts",
        ),
        ("AgentCommand(argv=('echo',), env={'A': 1})", "whose env is not a mapping of texts to texts"),
    ],
)
def test_what_an_agent_prepares_is_validated(bench: Bench, returned: str, message: str) -> None:
    bench.toy()
    bench.conftest(PREPARED.format(returned=returned))
    bench.run("--bench-agent", "mine", "--bench-scenario", "solved")
    (result,) = bench.results()
    assert result["outcome"] == "error"
    assert result["failure"]["class"] == "agent_setup"
    assert message in result["failure"]["message"]


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


def test_an_unknown_sandbox_is_refused_before_a_directory_is_made(bench: Bench) -> None:
    bench.toy()
    assert bench.run("--bench-sandbox", "fakee").ret == pytest.ExitCode.USAGE_ERROR
    assert not (bench.path / "reports").exists()


def test_a_benchmark_answers_to_the_version_of_its_manifest(bench: Bench) -> None:
    bench.toy()
    bench.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_benchmarks = listed = toy.bench.yaml\n")
    for name in ("toy", "listed"):
        assert bench.run(f"--bench={name}@1.0", "--collect-only", "-q").ret == pytest.ExitCode.OK
        result = bench.run(f"--bench={name}@2")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --bench: {name} is known in version 1.0, not '2'"])


def test_unsolved_trials_are_listed_with_q_and_not_with_qq(bench: Bench) -> None:
    bench.manifest({"short": "echo 0.5"})
    bench.run("-q").stdout.fnmatch_lines(["1 unsolved:", "  many.bench.yaml::short*"])
    assert "unsolved:" not in bench.run("-qq").stdout.str()


@pytest.mark.parametrize("line", ["nonsense", "= toy.bench.yaml", "toy ="])
def test_a_line_of_the_ini_file_that_registers_nothing_is_refused(bench: Bench, line: str) -> None:
    bench.toy()
    bench.write("pytest.ini", f"[pytest]\nbench_sandbox = fake\nbench_benchmarks =\n    {line}\n")
    result = bench.run("--bench", "toy")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: ini key bench_benchmarks: '{line}' is not of the form NAME[[]@VERSION] = PATH"]
    )
    assert not (bench.path / "reports").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[[model]\n", "--bench-prices: *prices.toml: not TOML: *"),
        ('[[model]]\nname = "x"\ninput = "dear"\n', "--bench-prices: *prices.toml:1: *"),
        (None, "*prices.toml is not there"),
    ],
)
def test_a_wrong_table_of_prices_is_refused_before_there_is_a_job(
    bench: Bench, table: str | None, message: str
) -> None:
    bench.toy()
    if table is not None:
        bench.write("prices.toml", table)
    result = bench.run("--bench-prices", "prices.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert not list(bench.path.glob("reports/jobs/2*"))


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
    assert seen == ['["running", 4]'] * 4
