"""What the options of a job do, where they may be said, and which of them wins."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import pytest

from pytest_benchjobs.plugin.options import INI_ALONE
from pytest_benchjobs.settings.table import SETTINGS

from .conftest import TOY, Bench

AGENTS = """
    import dataclasses
    from pytest_benchjobs.agents.protocol import AgentCommand

    @dataclasses.dataclass(frozen=True)
    class Stand:
        name: str
        needs_model: bool = False
        trusted: bool = False

        def prepare(self, call):
            return AgentCommand(("sh", "-c", "env | grep BENCH_ | sort; env | grep ^MY_ || true"))

    def pytest_benchjobs_agents(config):
        return [Stand("mini"), Stand("codex", True)]
"""
TWO: dict[str, dict[str, str]] = {"one": {}, "two": {}}


@pytest.fixture
def toys(bench: Bench) -> Bench:
    bench.conftest(AGENTS)
    bench.toy()
    return bench


@pytest.fixture
def wide(bench: Bench) -> Bench:
    """Forty scenarios, a quarter of them hard; and another benchmark."""
    bench.conftest(AGENTS)
    tags = {f"s{number:02}": {"tags": ["easy" if number % 4 else "hard"]} for number in range(40)}
    bench.manifest(tags, "wide.bench.yaml")
    bench.manifest(TWO, "small.bench.yaml")
    return bench


def collected(bench: Bench, *arguments: str) -> list[str]:
    """Node ids without their directories."""
    result = bench.run("--collect-only", "-q", *arguments)
    return [line for line in result.outlines if "::" in line]


# --- agents


def test_parameters_reach_the_agent_and_decide_results(toys: Bench) -> None:
    arguments = ("--bench-agent", "mini:m", "--bench-scenario", "solved", "--bench-reuse")
    arguments += ("--bench-param=effort=high", "--bench-provider=p")
    toys.run(*arguments, "--bench-param=temperature=0.5")
    (result,) = toys.results()
    log = (toys.bundle() / result["path"] / "agent.log").read_text()
    assert 'BENCH_PARAMS={"effort": "high", "temperature": 0.5}' in log
    assert "BENCH_PROVIDER=p" in log
    assert result["node_id"] == "toy.bench.yaml::solved[mini:p/m]"
    for value, reused in (("0.5", True), ("0.6", False)):
        toys.run(*arguments, f"--bench-param=temperature={value}")
        assert (toys.results()[0]["reused"] is not None) is reused


EXCLUDING = """
agents: [oracle, mini]
matrix:
  parameters: {t: [0, 1]}
  exclude:
    - {agent: mini, t: 1}
    - {benchmark: small, t: 0}
"""


def test_what_a_matrix_excludes_is_counted_or_listed(wide: Bench) -> None:
    wide.write("job.yaml", EXCLUDING)
    both = ("small.bench.yaml", "wide.bench.yaml", "--bench-job-file=job.yaml", "--bench-max-examples=1")
    done = wide.run(*both, "-n2")
    assert done.ret == 0
    assert {result["node_id"] for result in wide.results()} == {
        "wide.bench.yaml::s00[oracle,t=0]", "wide.bench.yaml::s00[oracle,t=1]",
        "wide.bench.yaml::s00[mini,t=0]", "small.bench.yaml::one[oracle,t=1]",
    }  # fmt: skip
    counted = "4 cells of the matrix are incompatible; --bench-show-incompatible lists them"
    assert [line for line in done.outlines if "incompatible" in line] == [counted]
    listed = wide.run(*both, "--bench-show-incompatible").outlines
    assert sorted(line for line in listed if "incompatible:" in line) == [
        f"skipped: {cell}: incompatible: excluded by the matrix"
        for cell in ("small [mini,t=0]", "small [mini,t=1]", "small [oracle,t=0]", "wide [mini,t=1]")
    ]
    one = "wide.bench.yaml::s00[mini,t=0]"
    assert collected(wide, "--bench-agent=mini", "--bench-matrix=t=0,1", one) == [one], "it can be given back"
    wide.write("job.yaml", "matrix:\n  parameters: {t: [0]}\n  exclude: [{benchmark: small}]\n")
    done = wide.run("small.bench.yaml", "--bench-job-file=job.yaml")
    done.stderr.fnmatch_lines(["ERROR: the matrix excludes every agent from every benchmark here; *"])


# --- which scenarios


def test_a_sample_is_of_scenarios_with_all_their_trials(wide: Bench) -> None:
    drawn = collected(
        wide, "--bench-sample=20%", "--bench-attempts=3", "--bench-agent=nop", "--bench-agent=oracle"
    )
    ids = [node_id.partition("[")[0] for node_id in drawn]
    # A fifth of each benchmark, and never none; all trials of each of them.
    assert (len(drawn), len(set(ids))) == (9 * 6, 9)
    hard = collected(wide, "wide.bench.yaml", "--bench-sample=8", "-m", "hard")
    assert len(hard) == 2
    assert {node_id.partition("[")[0] for node_id in hard} <= set(ids)


def test_shards_have_everything_once(wide: Bench) -> None:
    parts = [collected(wide, "--bench-shard", f"{part}/3") for part in (1, 2, 3)]
    assert sorted(node_id for part in parts for node_id in part) == sorted(collected(wide))
    assert all(parts)


def test_several_task_directories_of_one_benchmark_are_sampled_together(bench: Bench) -> None:
    for name in ("one", "two", "three"):
        bench.task(f"tasks/{name}")
    assert len(collected(bench, "tasks", "--bench-max-examples", "2")) == 2


def test_trials_of_an_earlier_job(toys: Bench) -> None:
    toys.run("toy.bench.yaml")
    outcomes = toys.outcomes()
    assert sorted(outcomes.values()) == ["error", "failed", "passed"]
    for states, wanted in (
        ("failed", {"failed"}),
        ("failed,error", {"failed", "error"}),
        ("passed", {"passed"}),
    ):
        assert collected(toys, "toy.bench.yaml", "--bench-from", f"last:{states}") == [
            node_id for node_id in collected(toys) if outcomes[node_id] in wanted
        ]
    job_id = toys.job()["job"]["id"]
    assert len(collected(toys, "--bench-from", job_id)) == 3
    assert toys.run("--bench-from", "last:cancelled").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    for workers, arguments, message in (
        ((), ("--bench-from=nothing",), "there is no job 'nothing'*"),
        (
            ("-n1",),
            ("--bench-from=last", "--bench-agent=mini"),
            "none of the 3 trials of job * is here; name its benchmarks, agents and attempts",
        ),
    ):
        done = toys.run("toy.bench.yaml", *arguments, *workers)
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        done.stderr.fnmatch_lines([f"ERROR: --bench-from: {message}"])


def test_a_scenario_reached_twice_runs_once(bench: Bench) -> None:
    bench.toy()
    path, name = "toy.bench.yaml", "toy"
    assert len(collected(bench, path, "--bench", name)) == 3
    assert len(collected(bench, "--bench", name, "--bench", path)) == 3
    expected = [f"toy.bench.yaml::{scenario}[oracle]" for scenario in ("solved", "partial", "unscored")]
    # Of what `--bench` names, ids choose.
    for place in (path, name):
        assert collected(bench, f"{place}::solved[oracle]", "--bench", name) == expected[:1]
        assert collected(bench, f"{place}::solved[oracle]", ".") == expected


def test_a_filter_that_fits_nothing_says_so(bench: Bench) -> None:
    bench.write("toy.bench.yaml", TOY.replace("tags: [hard]", "metadata: {area: files, level: 3}"))
    for workers, filtered, hint in (
        ((), "area=net", "no scenario has area=net"),
        (("-n2",), "aera=files", "no scenario has aera=files; did you mean 'area'?"),
        ((), "zz=1", "no scenario has zz=1; known keys: area, level"),
    ):
        done = bench.run("--bench-filter", filtered, *workers)
        assert done.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        done.stdout.fnmatch_lines([f"*BenchWarning: --bench-filter: {hint}"])


# --- one verdict of several attempts


def test_attempts_of_one_benchmark(wide: Bench) -> None:
    extra = '{"per_benchmark": {"small": {"attempts": 2, "model": "big", "temperature": 1}}}'
    found = collected(wide, "--bench-extra", extra, "--bench-max-examples", "1", "--bench-agent", "mini:m")
    # An agent with a model of its own keeps it.
    assert found == [
        "small.bench.yaml::one[mini:m-1]", "small.bench.yaml::one[mini:m-2]", "wide.bench.yaml::s00[mini:m]",
    ]  # fmt: skip
    found = collected(wide, "--bench-extra", extra, "--bench-max-examples", "1", "--bench-agent", "mini")
    assert found == [
        "small.bench.yaml::one[mini:big-1]",
        "small.bench.yaml::one[mini:big-2]",
        "wide.bench.yaml::s00[mini]",
    ]


# --- places


def test_files_of_the_ini_file_are_meant_from_the_rootdir(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.manifest(TWO, "sub/toy.bench.yaml")
    bench.write(
        "pytest.ini",
        "[pytest]\nbench_sandbox = fake\nbench_job_file = job.yaml\nbench_profile = ./mine.yaml\n",
    )
    bench.write("job.yaml", "scenarios: one\n")
    bench.write("mine.yaml", "agents: nop\n")
    bench.write("sub/other.yaml", "scenarios: two\n")
    monkeypatch.chdir(bench.path / "sub")
    found = [line.rpartition("::")[2] for line in bench.run("--collect-only", "-q").outlines if "::" in line]
    assert found == ["one[nop]"]
    other = bench.run("--collect-only", "-q", "--bench-job-file=other.yaml").outlines
    assert [line.rpartition("::")[2] for line in other if "::" in line] == ["two[nop]"]


def test_the_value_of_an_option_does_not_move_the_rootdir(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    bench.toy()
    bench.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_scenario = solved\n")
    for flag in ("--bench-replay", "--bench-dir"):
        refused = bench.refused("--collect-only", flag, other)
        assert f"write {flag}={other}" in refused
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", f"--bench-export {other}")
        assert f"write --bench-export={other}" in bench.refused("--collect-only")
    for words in ((f"--bench-dir={other}",), ("--bench-dir", other, "toy.bench.yaml")):
        collected = bench.run("--collect-only", "-q", *words).outlines
        assert [line for line in collected if "::" in line] == ["toy.bench.yaml::solved[oracle]"]
    (other / "pytest.ini").write_text("[pytest]\n")
    refused = bench.refused("--rootdir=.", "--bench-dir", other, "--bench-plan", "toy.bench.yaml")
    assert "so that ini file is" in refused
    assert f"in place of {bench.path}/pytest.ini; write --bench-dir={other}" in refused
    assert "--bench-plan=" not in refused


def test_variables_from_the_environment_are_as_if_typed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.conftest(AGENTS)
    bench.toy()
    monkeypatch.setenv("BENCHJOBS_ENV", '{"MY_ONE": "1", "MY_TWO": "1"}')
    bench.run("--bench-agent", "mini", "--bench-scenario", "solved", "--bench-env", "MY_TWO=2", "-n", "1")
    log = next(bench.bundle().glob("trials/mini/*/1/agent.log")).read_text()
    assert "MY_ONE=1\nMY_TWO=2\n" in log
    record = json.loads((bench.bundle() / "job.json").read_text())
    assert "--bench-env=MY_ONE=[redacted]" in record["invocation"]["arguments"]
    assert bench.run("--bench-agent", "mini", "-m", "easy", "--", "toy.bench.yaml").ret == 1
    invocation = json.loads((bench.bundle() / "job.json").read_text())["invocation"]
    assert [one.partition("=")[0] for one in invocation["settings"]["env"]] == ["MY_ONE", "MY_TWO"]
    assert invocation["rest"][-1] == "toy.bench.yaml"
    monkeypatch.setenv("BENCHJOBS_ENV", "{")
    assert bench.run().ret == pytest.ExitCode.USAGE_ERROR


# --- mistakes


def test_a_mistake_anywhere_is_one_line_and_nothing_is_made(bench: Bench) -> None:
    """One of each place that refuses something; all that may be wrong is in `tests/unit/test_wanted.py`."""
    bench.toy()
    bench.write("keys.env", "hunter2\n")
    for argument, message in (
        ("--bench-threshold=1.5", "--bench-threshold: *"),
        (
            "--bench-agent=codex",
            "--bench-agent: codex needs a model. Use format: codex:model, or --bench-model",
        ),
        ("--bench-agnet=nop", "unknown option --bench-agnet; *"),
        ("--bench-env-file=keys.env", "--bench-env-file: keys.env:1: KEY=VALUE is expected*"),
        ("--bench-sandbox=fakee", "--bench-sandbox: there is no sandbox 'fakee'; did you mean 'fake'?"),
        (
            "--bench-sandbox-option=place=x",
            "--bench-sandbox-option: sandbox 'fake' has no setting 'place'; it has none",
        ),
        (
            "--bench-runtime=runsc",
            "--bench-runtime: there is no runtime 'runsc'; sandbox 'fake' has no runtimes",
        ),
        ("--bench-headroom=0.5", "--bench-headroom: must be at least 1, not 0.5"),
        ("--bench=no/such.bench.yaml", "--bench: no such file or directory: no/such.bench.yaml"),
        ("--bench=toy.yaml", "--bench: no such file or directory: toy.yaml; did you mean 'toy.bench.yaml'?"),
        ("--bench-scenario=solvd", "--bench-scenario: no scenario is called 'solvd'; did you mean 'solved'?"),
        ("--sw", "--stepwise needs tests that end in order*"),
    ):
        assert fnmatchcase(bench.refused(argument), message), argument
    bench.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_benchmarks = toy =\n")
    said = "ini key bench_benchmarks: 'toy =' is not of the form NAME[@VERSION] = PATH"
    assert bench.refused("--bench=toy") == said


def test_help_has_the_usual_options_and_bench_help_has_all(bench: Bench) -> None:
    bench.write("pytest.ini", "[pytest]\nbench_replay_exact = false\nbench_attempts = 1\n")
    short = bench.run("--help", "--strict-config").stdout.str()
    options = re.findall(r"^  (--bench[a-z-]*)", short, re.MULTILINE)
    assert len(options) == 21
    assert {"--bench", "--bench-agent", "--bench-baseline", "--bench-help"} <= set(options)
    keys = set(re.findall(r"^  (bench\w*) ?\(", short, re.MULTILINE))
    assert {"bench_attempts", "bench_paths"} <= keys
    assert "bench_replay_exact" not in keys
    every = bench.run("--bench-help").stdout.str()
    named = set(re.findall(r"^  (--bench[a-z-]*)", every, re.MULTILINE))
    assert named == {setting.flag for setting in SETTINGS if setting.on_line and not setting.hidden}
    groups = set(re.findall(r"^([a-z ]+):$", every, re.MULTILINE))
    assert groups >= {"selection", "agents", "running", "models and budgets", "gate", "reuse", "output"}
    shown = re.findall(r"\bbench(?:_[a-z_]+)?\b(?=[,:\n])", every.partition("Ini keys:")[2] + "\n")
    assert set(shown) == {*INI_ALONE, *(one.option for one in SETTINGS if one.has_ini)}


def test_what_begins_as_ours_and_belongs_to_others_is_theirs(bench: Bench) -> None:
    bench.toy()
    bench.conftest(
        """
        def pytest_addoption(parser):
            parser.addoption("--bench-agents")
            parser.addoption("--benchmark-only", action="store_true")
            parser.addini("bench_room", "of another plugin")
        """
    )
    bench.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_room = 4\nbenchmark_x = 1\n")
    done = bench.run("--bench-agents", "x", "--benchmark-only", "toy.bench.yaml")
    assert done.parseoutcomes()["passed"] == 1


def test_a_parameter_that_no_agent_reads_is_told(bench: Bench) -> None:
    bench.toy()
    told = "warning: no agent of this job reads the parameter effrot (--bench-param); only scorers may"
    call = ("toy.bench.yaml", "-k", "solved", "--bench-param=effrot=high")
    judges = ("--bench-param=openai_base_url=http://127.0.0.1:1", "--bench-param=openai_key_variable=X")
    said = bench.run(*call, *judges, "--bench-agent=nop", "--bench-agent=baseline:half").stdout.str()
    assert said.count("no agent of this job reads") == said.count(told) == 1
    # A command may read anything.
    said = bench.run(*call, "--bench-agent=nop", "--bench-agent=command:true").stdout.str()
    assert "no agent of this job reads" not in said
