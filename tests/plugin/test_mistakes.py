from __future__ import annotations

import pytest

from .conftest import Bench


@pytest.mark.parametrize(
    ("hook", "returned", "message"),
    [
        ("agents", "['x']", "returned a list with a value of type str; an agent is an object with*"),
        ("agents", "5", "returned a value of type int; return a list of agents, or None"),
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
