"""What the options of a job do, where they may be said, and which of them wins."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pytest_benchjobs.settings.table import SETTINGS

from .conftest import Bench

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
TWO = """
benchmark: {name}
scenarios:
  - {{id: one, image: none, problem_statement: x, reference: "true", scorers: [{{name: s, type: command, command: "true"}}]}}
  - {{id: two, image: none, problem_statement: x, reference: "true", scorers: [{{name: s, type: command, command: "true"}}]}}
"""


@pytest.fixture
def toys(bench: Bench) -> Bench:
    bench.conftest(AGENTS)
    bench.toy()
    return bench


@pytest.fixture
def wide(bench: Bench) -> Bench:
    """Forty scenarios, a quarter of them hard; and another benchmark."""
    bench.conftest(AGENTS)
    listed = [
        {
            "id": f"s{number:02}",
            "image": "none",
            "problem_statement": "Try.",
            "reference": "true",
            "tags": ["easy" if number % 4 else "hard"],
            "scorers": [{"name": "s", "type": "command", "command": "true"}],
        }
        for number in range(40)
    ]
    bench.write("wide.bench.yaml", json.dumps({"benchmark": "wide", "scenarios": listed}))
    bench.write("small.bench.yaml", TWO.format(name="small"))
    return bench


def collected(bench: Bench, *arguments: str) -> list[str]:
    """Node ids without their directories."""
    result = bench.run("--collect-only", "-q", *arguments)
    return [line for line in result.outlines if "::" in line]


def refused(bench: Bench, *arguments: str) -> str:
    """The one line that is said, of a call that is wrong."""
    result = bench.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    assert not (bench.path / "reports").exists()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    (line,) = [line for line in result.errlines if line.strip()]
    return line.removeprefix("ERROR: ")


def shown(bench: Bench, *arguments: str) -> list[str]:
    result = bench.run(*arguments)
    return [line for line in result.outlines if line.strip()]


# --- agents


def test_provider_and_model_are_for_agents_without(toys: Bench) -> None:
    arguments = ("--bench-scenario", "solved", "--bench-provider", "groq", "--bench-model", "qwen/q3")
    agents = ("--bench-agent", "codex", "--bench-agent", "mini:own", "--bench-agent", "oracle")
    assert collected(toys, *arguments, *agents) == [
        "toy.bench.yaml::solved[codex:groq/qwen/q3]",
        "toy.bench.yaml::solved[mini:groq/own]",
        "toy.bench.yaml::solved[oracle]",
    ]
    assert refused(toys, "--bench-model", "m") == (
        "--bench-model: oracle would ignore it; name an agent that uses it with --bench-agent"
    )
    assert refused(toys, "--bench-agent", "codex") == (
        "--bench-agent: codex needs a model. Use format: codex:model, or --bench-model"
    )
    # In the ini file they are for whatever agent comes.
    toys.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_model = m\nbench_provider = p\n")
    assert len(collected(toys)) == 3


def test_parameters_reach_the_agent_and_decide_results(toys: Bench) -> None:
    arguments = ("--bench-agent", "mini:m", "--bench-scenario", "solved", "--bench-reuse")
    toys.run(
        *arguments,
        "--bench-param",
        "temperature=0.5",
        "--bench-param",
        "effort=high",
        "--bench-provider",
        "p",
    )
    (result,) = toys.results()
    log = (toys.bundle() / result["path"] / "agent.log").read_text()
    assert 'BENCH_PARAMS={"temperature": 0.5, "effort": "high"}' in log
    assert "BENCH_PROVIDER=p" in log
    assert result["node_id"] == "toy.bench.yaml::solved[mini:p/m]"
    for value, reused in (("0.5", True), ("0.6", False)):
        toys.run(
            *arguments,
            "--bench-param",
            f"temperature={value}",
            "--bench-param",
            "effort=high",
            "--bench-provider",
            "p",
        )
        assert (toys.results()[0]["reused"] is not None) is reused


def test_a_matrix_is_every_agent_with_every_combination(toys: Bench) -> None:
    arguments = ("--bench-scenario", "solved", "--bench-agent", "oracle", "--bench-agent", "mini")
    found = collected(toys, *arguments, "--bench-matrix", "t=0,1", "--bench-matrix", "effort=low,high")
    assert found == [
        f"toy.bench.yaml::solved[{agent},effort={effort},t={t}]"
        for agent in ("oracle", "mini")
        for t in (0, 1)
        for effort in ("low", "high")
    ]
    # And each can be given back.
    assert collected(toys, *arguments, "--bench-matrix", "t=0,1", found[0].replace("effort=low,", "")) == [
        "toy.bench.yaml::solved[oracle,t=0]"
    ]


EXCLUDING = """
agents: [oracle, mini]
matrix:
  parameters: {t: [0, 1]}
  exclude:
    - {agent: mini, t: 1}
    - {benchmark: small, t: 0}
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_what_a_matrix_excludes_is_counted_or_listed(wide: Bench, workers: tuple[str, ...]) -> None:
    wide.write("job.yaml", EXCLUDING)
    arguments = (
        "small.bench.yaml",
        "wide.bench.yaml",
        "--bench-job-file",
        "job.yaml",
        "--bench-max-examples",
        "1",
        *workers,
    )
    done = wide.run(*arguments)
    assert done.ret == 0
    assert {result["node_id"] for result in wide.results()} == {
        "wide.bench.yaml::s00[oracle,t=0]",
        "wide.bench.yaml::s00[oracle,t=1]",
        "wide.bench.yaml::s00[mini,t=0]",
        "small.bench.yaml::one[oracle,t=1]",
    }
    done.stdout.fnmatch_lines(
        ["4 cells of the matrix are incompatible; --bench-show-incompatible lists them"]
    )
    done.stdout.no_fnmatch_line("skipped: *")
    listed = [
        line for line in wide.run(*arguments, "--bench-show-incompatible").outlines if "incompatible:" in line
    ]
    assert sorted(listed) == [
        "skipped: small [mini,t=0]: incompatible: excluded by the matrix",
        "skipped: small [mini,t=1]: incompatible: excluded by the matrix",
        "skipped: small [oracle,t=0]: incompatible: excluded by the matrix",
        "skipped: wide [mini,t=1]: incompatible: excluded by the matrix",
    ]


def test_a_matrix_that_leaves_nothing(wide: Bench) -> None:
    wide.write("job.yaml", "matrix:\n  parameters: {t: [0]}\n  exclude: [{benchmark: small}]\n")
    assert refused(wide, "small.bench.yaml", "--bench-job-file", "job.yaml") == (
        "the matrix excludes every agent from every benchmark here; nothing is left to run"
    )


# --- which scenarios


def test_the_first_ones_of_each_benchmark(wide: Bench) -> None:
    assert collected(wide, "--bench-max-examples", "1") == [
        "small.bench.yaml::one[oracle]",
        "wide.bench.yaml::s00[oracle]",
    ]
    extra = '{"max_tasks": 1, "per_benchmark": {"wide": {"max_questions": 3}}}'
    assert len(collected(wide, "--bench-extra", extra)) == 4


@pytest.mark.extended
def test_a_sample_has_its_share_of_each_tag(wide: Bench) -> None:
    drawn = collected(wide, "wide.bench.yaml", "--bench-sample", "20%")
    assert len(drawn) == 8
    assert len(collected(wide, "wide.bench.yaml", "--bench-sample", "20%", "-m", "hard")) == 2
    assert drawn == collected(wide, "wide.bench.yaml", "--bench-sample", "8")
    assert drawn != collected(wide, "wide.bench.yaml", "--bench-sample", "8", "--bench-seed", "1")
    # The other benchmark is sampled by itself, and never empty.
    assert len(collected(wide, "--bench-sample", "1%")) == 2


def test_attempts_and_agents_of_a_sampled_scenario_stay_together(wide: Bench) -> None:
    found = collected(
        wide,
        "wide.bench.yaml",
        "--bench-sample",
        "2",
        "--bench-attempts",
        "3",
        "--bench-agent",
        "nop",
        "--bench-agent",
        "oracle",
    )
    assert len(found) == 12
    assert len({node_id.partition("[")[0] for node_id in found}) == 2


def test_shards_have_everything_once(wide: Bench) -> None:
    parts = [collected(wide, "--bench-shard", f"{part}/3") for part in (1, 2, 3)]
    assert sorted(node_id for part in parts for node_id in part) == sorted(collected(wide))
    assert all(parts)


def test_several_task_directories_of_one_benchmark_are_sampled_together(bench: Bench) -> None:
    for name in ("one", "two", "three"):
        bench.write(
            f"tasks/{name}/task.toml", "[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n"
        )
        bench.write(f"tasks/{name}/instruction.md", "Do it.")
        bench.write(f"tasks/{name}/environment/Dockerfile", "FROM none\n")
        bench.write(f"tasks/{name}/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n")
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bench-from", "last:faild"], "--bench-from: unknown outcome 'faild'; did you mean 'failed'?"),
        (["--bench-from", "nothing"], "--bench-from: there is no job 'nothing'*"),
        (
            ["--bench-from", "last", "--bench-agent", "mini"],
            "--bench-from: none of the 3 trials of job * is here; name its benchmarks, agents and attempts",
        ),
    ],
)
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_an_earlier_job_that_does_not_fit(
    toys: Bench, arguments: list[str], message: str, workers: tuple[str, ...]
) -> None:
    toys.run("toy.bench.yaml")
    done = toys.run("toy.bench.yaml", *arguments, *workers)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_a_scenario_reached_twice_runs_once(bench: Bench) -> None:
    bench.toy()
    path, name = "toy.bench.yaml", "toy"
    assert len(collected(bench, path, "--bench", name)) == 3
    assert len(collected(bench, "--bench", name, "--bench", path)) == 3
    assert collected(bench, f"{path}::solved[oracle]", "--bench", name) == [
        "toy.bench.yaml::solved[oracle]",
        "toy::partial[oracle]",
        "toy::unscored[oracle]",
    ]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_filter_that_fits_nothing_says_so(bench: Bench, workers: tuple[str, ...]) -> None:
    bench.toy()
    text = (bench.path / "toy.bench.yaml").read_text("utf-8")
    bench.write("toy.bench.yaml", text.replace("tags: [hard]", "metadata: {area: files, level: 3}"))
    for arguments, hint in (
        (("area=net",), "--bench-filter: no scenario has area=net"),
        (("aera=files",), "--bench-filter: no scenario has aera=files; did you mean 'area'?"),
        (("zz=1",), "--bench-filter: no scenario has zz=1; known keys: area, level"),
    ):
        filters = [part for argument in arguments for part in ("--bench-filter", argument)]
        done = bench.run(*filters, *workers)
        assert done.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        done.stdout.fnmatch_lines([f"*BenchWarning: {hint.replace('[', '[[]')}"])
    assert bench.run("--bench-filter", "area=files", *workers).ret == 1


# --- one verdict of several attempts


def test_under_a_policy_of_one_verdict_there_is_one_item(toys: Bench) -> None:
    arguments = ("--bench-scenario", "solved", "--bench-attempts", "3")
    assert collected(toys, *arguments, "--bench-attempt-policy", "any") == ["toy.bench.yaml::solved[oracle]"]
    assert len(collected(toys, *arguments, "--bench-attempt-policy", "each")) == 3


def test_attempts_of_one_benchmark(wide: Bench) -> None:
    extra = '{"per_benchmark": {"small": {"attempts": 2, "model": "big", "temperature": 1}}}'
    found = collected(wide, "--bench-extra", extra, "--bench-max-examples", "1", "--bench-agent", "mini:m")
    # An agent with a model of its own keeps it.
    assert found == [
        "small.bench.yaml::one[mini:m-1]",
        "small.bench.yaml::one[mini:m-2]",
        "wide.bench.yaml::s00[mini:m]",
    ]
    found = collected(wide, "--bench-extra", extra, "--bench-max-examples", "1", "--bench-agent", "mini")
    assert found == [
        "small.bench.yaml::one[mini:big-1]",
        "small.bench.yaml::one[mini:big-2]",
        "wide.bench.yaml::s00[mini]",
    ]


# --- which of them wins

PLACES = {
    "ini": "bench_attempts = 2",
    "profile": "attempts: 3",
    "later profile": "attempts: 4",
    "job file": "attempts: 5",
    "extra": '{"attempts": 6}',
    "later extra": '{"attempts": 7}',
    "per_benchmark": '{"attempts": 1, "per_benchmark": {"toy": {"attempts": 8}}}',
    "option": "9",
}


@pytest.mark.parametrize("strongest", range(len(PLACES)), ids=list(PLACES))
def test_the_last_word_is_that_of_the_strongest_place(bench: Bench, strongest: int) -> None:
    bench.toy()
    said = dict(list(PLACES.items())[: strongest + 1])
    bench.write("pytest.ini", f"[pytest]\nbench_sandbox = fake\n{said['ini']}\n")
    arguments = ["--bench-scenario", "solved"]
    for name in ("profile", "later profile", "job file"):
        if name in said:
            file = bench.write(f"{name.replace(' ', '-')}.yaml", said[name])
            arguments += ["--bench-job-file" if name == "job file" else "--bench-profile", file.name]
    for name in ("extra", "later extra", "per_benchmark"):
        if name in said:
            arguments += ["--bench-extra", said[name]]
    if "option" in said:
        arguments += ["--bench-attempts", said["option"]]
    # In any order on the line.
    assert len(collected(bench, *arguments)) == strongest + 2
    pairs = [arguments[at : at + 2] for at in range(0, len(arguments), 2)]
    profiles = [pair for pair in pairs if pair[0] in ("--bench-profile", "--bench-extra")]
    others = [pair for pair in pairs if pair not in profiles]
    assert (
        len(collected(bench, *(part for pair in others[::-1] + profiles for part in pair))) == strongest + 2
    )


def test_profiles_by_name_and_in_the_ini_file(bench: Bench) -> None:
    bench.toy()
    (bench.path / "pytest.ini").unlink()
    bench.write(
        "pyproject.toml",
        """
        [tool.pytest.ini_options]
        bench_sandbox = "fake"
        bench_profile = ["ci"]
        [tool.benchjobs.profiles.ci]
        scenarios = ["solved"]
        [tool.benchjobs.profiles.hard]
        scenarios = ["partial"]
        """,
    )
    assert collected(bench) == ["toy.bench.yaml::solved[oracle]"]
    assert collected(bench, "--bench-profile", "hard") == ["toy.bench.yaml::partial[oracle]"]
    assert refused(bench, "--bench-profile", "c") == "there is no profile 'c'; did you mean 'ci'?"


def test_files_of_the_ini_file_are_meant_from_the_rootdir(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("sub/toy.bench.yaml", TWO.format(name="toy"))
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


def test_a_job_file_can_say_it_all(bench: Bench) -> None:
    bench.conftest(AGENTS)
    bench.write("there/toy.bench.yaml", TWO.format(name="toy"))
    bench.write("other.bench.yaml", TWO.format(name="other"))
    bench.write(
        "there/job.yaml",
        """
        name: nightly
        benchmarks: ./toy.bench.yaml
        agents: [nop, {agent: mini, model: m, params: {effort: high}}]
        scenarios: one
        n_attempts: 2
        env: {MY_FLAG: yes}
        metadata: {team: core}
        """,
    )
    bench.run("--bench-job-file", "there/job.yaml")
    assert sorted(bench.outcomes()) == [
        f"there/toy.bench.yaml::one[{agent}-{attempt}]"
        for agent in ("mini:m,effort=high", "nop")
        for attempt in (1, 2)
    ]
    config = bench.job()["job"]["config"]
    assert (bench.job()["job"]["name"], config["metadata"]) == ("nightly", {"team": "core"})
    log = next(bench.bundle().glob("trials/mini*/one/1/agent.log")).read_text()
    assert "MY_FLAG=true" in log


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bench-force", "--bench-reuse"], "--bench-force and --bench-reuse contradict each other: *"),
        (["--bench-force", "--bench-rerun-failed"], "--bench-force and --bench-rerun-failed contradict each other: *"),
        (["--bench-rescore", "x", "--bench-resume", "x"], "--bench-rescore and --bench-resume contradict each other: *"),
        (["--bench-resume", "x", "--bench-job-id", "x"], "--bench-resume and --bench-job-id contradict each other: *"),
        (["--bench-resume="], "--bench-resume: it is empty; name a job, or leave it out"),
        (["--bench-job-id", "../x"], "--bench-job-id: '../x' is not the id of a job"),
        (["--bench-scenario="], "--bench-scenario: it is empty; give a value, or leave it out"),
        (["--bench-scenario", " , "], "--bench-scenario: it is empty; name a scenario, or leave it out"),
        (["--bench-model="], "--bench-model: it is empty; give a value, or leave it out"),
        (["--bench-attempt-policy", "most"], "--bench-attempt-policy: 'most' is not a policy; *"),
        (["--bench-job-name", "last"], "--bench-job-name: 'last' is reserved for selecting a job by age; choose another name"),
        (["--bench-job-name", "a\tb"], "--bench-job-name: a name is one line, without control characters"),
        (["--bench-job-file", "named.yaml"], "named.yaml:1: name: 'last' is reserved for selecting a job by age; choose *"),
        (["--bench-keep", "sometimes"], "--bench-keep: 'sometimes' is not one of never, failed, always.*"),
        (["--bench-job-timeout", "0"], "--bench-job-timeout: must be greater than 0, not 0"),
        (["--bench-silent-timeout", "nan"], "--bench-silent-timeout: a finite number is expected, not nan"),
        (["--bench-max-examples", "1.5"], "--bench-max-examples: a whole number is expected, not 1.5"),
        (["--bench-sample", "all"], "--bench-sample: 'all' is not a sample; write a share such as 10%, or a number of scenarios"),
        (["--bench-shard", "0/2"], "--bench-shard: '0/2' is not a shard; write I/N, from 1/N to N/N"),
        (["--bench-seed", "x"], "--bench-seed: a whole number is expected, not 'x'"),
        (["--bench-matrix", "t"], "--bench-matrix: 't' is not of the form KEY=V1,V2"),
        (["--bench-matrix", "t=1,1"], "--bench-matrix: t has the value 1 twice"),
        (["--bench-matrix", "t=1", "--bench-matrix", "t=2"], "--bench-matrix: t is given twice; write t=V1,V2"),
        (["--bench-matrix", "t=1,2", "--bench-param", "t=3"], "--bench-param: t has several values already: --bench-matrix"),
        (["--bench-param", "t"], "--bench-param: 't' is not of the form KEY=VALUE"),
        (["--bench-rpm", "a=1", "--bench-rpm", "a=2"], "--bench-rpm: 'a=2': write N, or PROVIDER=N once for each provider"),
        (["--bench-rpm", "1", "--bench-rpm", "2"], "--bench-rpm: '2': write N, or PROVIDER=N once for each provider"),
        (["--bench-tpm", "=5"], "--bench-tpm: '=5': write N, or PROVIDER=N once for each provider"),
        (["--bench-tpm", "a=fast"], "--bench-tpm: a whole number is expected, not 'fast'"),
        (["--bench-rpm", "a=0"], "--bench-rpm: must be at least 1, not 0"),
        (["--bench-min-score", "0.5", "--bench-min-score", "0.6"], "--bench-min-score: '0.6': write X, or NAME=X once for *"),
        (["--bench-min-score", "=0.5"], "--bench-min-score: '=0.5': write X, or NAME=X once for each benchmark or agent"),
        (["--bench-max-tokens", "0"], "--bench-max-tokens: must be at least 1, not 0"),
        (["--bench-trial-max-cost", "0"], "--bench-trial-max-cost: must be greater than 0, not 0"),
        (["--bench-extra", "["], "--bench-extra: is not valid JSON: *; write an object, or --bench-extra=@FILE"),
        (["--bench-extra", '{"limit": 0}'], "--bench-extra: limit: must be at least 1, not 0"),
        (["--bench-extra=@gone.json"], "gone.json: cannot be read: No such file or directory"),
        (["--bench-profile", "gone"], "there is no profile 'gone'; write one into benchjobs-profiles/ or *"),
        (["--bench-job-file", "gone.yaml"], "gone.yaml: cannot be read: No such file or directory"),
        (["--bench-job-file", "bad.yaml"], "bad.yaml:2: attempts: must be at least 1, not 0"),
        (["--bench-dir", "toy.bench.yaml"], "--bench-dir: *toy.bench.yaml is not a directory; name another one with --bench-dir"),
        (["--bench-dir", "toy.bench.yaml/x"], "--bench-dir: *toy.bench.yaml is not a directory; name another one with --bench-dir"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_mistake_is_one_line(bench: Bench, arguments: list[str], message: str) -> None:
    bench.toy()
    bench.write("bad.yaml", "name: x\nattempts: 0\n")
    bench.write("named.yaml", "name: last\n")
    from fnmatch import fnmatchcase

    said = refused(bench, *arguments)
    assert fnmatchcase(said, message.replace("[", "[[]")), said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bench_attempts = two", "pytest.ini: bench_attempts: a whole number is expected, not 'two'"),
        ("bench_attempts = 0", "pytest.ini: bench_attempts: must be at least 1, not 0"),
        ("bench_threshold = 1.5", "pytest.ini: bench_threshold: must be at most 1, not 1.5"),
        ("bench_threshold = high", "pytest.ini: bench_threshold: a number is expected, not 'high'"),
        ("bench_reuse = perhaps", "pytest.ini: bench_reuse: true or false is expected, not 'perhaps'"),
        ("bench_sample = most", "pytest.ini: bench_sample: 'most' is not a sample; write a share such as 10%, or a number of scenarios"),
        ("bench_env = X", "pytest.ini: bench_env: 'X' is not of the form KEY=VALUE"),
        ("bench_extra = {", "pytest.ini: bench_extra: is not valid JSON: *"),
        ("bench_dir = pytest.ini", "pytest.ini: bench_dir: *pytest.ini is not a directory; name another one with --bench-dir"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_ini_file_names_key_and_file(bench: Bench, line: str, message: str) -> None:
    from fnmatch import fnmatchcase

    bench.toy()
    bench.write("pytest.ini", f"[pytest]\nbench_sandbox = fake\n{line}\n")
    said = refused(bench)
    assert fnmatchcase(said, message), said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bench_agnet = nop", "pytest.ini: bench_agnet: unknown ini key; did you mean bench_agent?"),
        ("bench-agent = nop", "pytest.ini: bench-agent: unknown ini key; did you mean bench_agent?"),
        ("bench_pathes = x", "pytest.ini: bench_pathes: unknown ini key; did you mean bench_paths?"),
        (
            "bench_plan = true",
            "pytest.ini: bench_plan: unknown ini key; it is for single calls: --bench-plan",
        ),
        ("bench_zzzzzz = 1", "pytest.ini: bench_zzzzzz: unknown ini key; `pytest --bench-help` lists all"),
    ],
)
def test_an_unknown_ini_key_is_refused_with_the_one_that_was_meant(
    bench: Bench, line: str, message: str
) -> None:
    bench.toy()
    bench.write("pytest.ini", f"[pytest]\nbench_sandbox = fake\n{line}\n")
    assert refused(bench) == message


def test_an_unknown_ini_key_in_other_places_is_refused(bench: Bench) -> None:
    bench.toy()
    assert refused(bench, "-o", "bench_agnet=nop").startswith("-o bench_agnet: unknown ini key; did you mean")
    (bench.path / "pytest.ini").unlink()
    bench.write("pyproject.toml", '[tool.pytest.ini_options]\nbench_sandbox = "fake"\nbench_agnet = "nop"\n')
    assert refused(bench) == "pyproject.toml: bench_agnet: unknown ini key; did you mean bench_agent?"


def test_ini_keys_of_other_plugins_are_left_alone(bench: Bench) -> None:
    bench.toy()
    bench.conftest('def pytest_addoption(parser):\n    parser.addini("bench_room", "of another plugin")\n')
    bench.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_room = 4\nbenchmark_x = 1\n")
    assert bench.run("--bench-scenario", "solved").ret == pytest.ExitCode.OK


def test_a_typed_ini_file_is_blamed_the_same(bench: Bench) -> None:
    bench.toy()
    (bench.path / "pytest.ini").unlink()
    bench.write("pytest.toml", '[pytest]\nbench_sandbox = "fake"\nbench_attempts = "two"\n')
    assert refused(bench) == "pytest.toml: bench_attempts: a whole number is expected, not 'two'"
    assert refused(bench, "-o", "bench_attempts=x").startswith("-o bench_attempts: ")


def test_a_secret_does_not_travel_as_a_parameter(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.toy()
    monkeypatch.setenv("MY_SECRET", "s3cret-value")
    params = ("--bench-param", "key=s3cret-value", "--bench-param", "other=1")
    agents = ("--bench-agent", "oracle", "--bench-agent", "nop:m,mode=fast")
    for more in ((), agents):
        said = refused(bench, "--bench-secret", "KEY=MY_SECRET", *params, *more)
    assert said == "--bench-param: it holds the value of the secret KEY, and would be in every report"


def test_plan_runs_nothing(toys: Bench) -> None:
    done = toys.run("--bench-plan", "--bench-sample", "1")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["1 trials would run, 0 would be reused"])
    assert not (toys.path / "reports").exists()


@pytest.mark.parametrize("agent", ["oracle", "command:true"])
@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            "date = 2026-11-21\n[[model]]\nnames = ['m']\ninput = 'dear'\noutput = 1\n",
            "prices.toml:4: `input` is a number",
        ),
        ("date = ", "prices.toml: not TOML"),
        ("[[model]]\n", "prices.toml:1: `date` is when these prices held"),
    ],
)
def test_a_wrong_table_of_prices_is_refused_before_there_is_a_job(
    bench: Bench, agent: str, table: str, said: str
) -> None:
    bench.toy()
    (bench.path / "prices.toml").write_text(table)
    options = (
        "--bench-prices",
        "prices.toml",
        "--bench-agent",
        agent,
        "--bench-secret",
        "OPENAI_API_KEY=PATH",
    )
    assert said in refused(bench, *options)


def test_models_and_keys_that_are_allowed_are_in_the_record_of_the_job(bench: Bench) -> None:
    bench.toy()
    bench.run(
        "--bench-allow-model",
        "judge-*,other",
        "--bench-allow-model",
        "third",
        "--bench-allow-key",
        "OPENAI_API_KEY",
    )
    config = json.loads((bench.bundle() / "job.json").read_text())["config"]
    assert config["allow_model"] == ["judge-*", "other", "third"]
    assert config["allow_key"] == ["OPENAI_API_KEY"]


def test_what_every_trial_may_call_and_whether_replays_are_exact_reaches_the_gateway(bench: Bench) -> None:
    bench.toy()
    place = bench.path / "conftest.py"
    before = place.read_text() if place.exists() else ""
    place.write_text(
        before
        + """
from unittest import mock

def pytest_collection_finish(session):
    from pathlib import Path
    from pytest_benchjobs.gateway.client import Gateway
    from pytest_benchjobs.job import models
    from pytest_benchjobs.model.usage import Usage
    from pytest_benchjobs.plugin.wanted import asked
    read = asked(session.config)
    with mock.patch.object(Gateway, "start") as start:
        models.start_gateway(read.job, read.secrets, Usage(), Path("x"))
    (settings,), _ = start.call_args
    print("seen:", models.models_of(read.job, read.secrets, "x").allowed_models, settings.replay_exact, settings.patience)
"""
    )
    (bench.path / "records").mkdir()
    lines = shown(bench, "-s", "--bench-allow-model=a,b", "--bench-replay=records", "--bench-replay-exact")
    assert "seen: ('a', 'b') True 60.0" in lines
    assert "seen: () False 7.0" in shown(bench, "-s", "--bench-model-patience=7")


def test_limits_and_rates_reach_the_gateway_and_the_record_of_the_job(bench: Bench) -> None:
    bench.toy()
    bench.conftest("""
        from unittest import mock

        def pytest_collection_finish(session):
            from pathlib import Path
            from pytest_benchjobs.gateway.client import Gateway
            from pytest_benchjobs.job import models
            from pytest_benchjobs.model.usage import Usage
            from pytest_benchjobs.plugin.wanted import asked
            read = asked(session.config)
            with mock.patch.object(Gateway, "start") as start:
                models.start_gateway(read.job, read.secrets, Usage(), Path("x"))
            (settings,), _ = start.call_args
            rates = sorted(settings.rates.items())
            print("seen:", settings.limits, models.models_of(read.job, read.secrets, "x").limits, rates)
    """)
    given: dict[str, Any] = {
        "max-cost": 1.5, "max-tokens": 1000, "max-calls": 100,
        "trial-max-cost": 0.5, "trial-max-tokens": 300, "trial-max-calls": 30,
        "scorer-timeout": 40.0, "keep-processes": ["sol*"],
    }  # fmt: skip
    typed = [
        f"--bench-{name}={value[0] if isinstance(value, list) else value}" for name, value in given.items()
    ]
    rates = ["--bench-rpm=60", "--bench-rpm=openai = 5", "--bench-tpm=openai=2000"]
    (line,) = [line for line in shown(bench, "-s", *typed, *rates) if line.startswith("seen: ")]
    assert "SpendingLimits(max_cost_usd=1.5, max_tokens=1000, max_calls=100)" in line
    assert "SpendingLimits(max_cost_usd=0.5, max_tokens=300, max_calls=30)" in line
    assert line.endswith("[('*', (60, None)), ('openai', (5, 2000))]")
    config = json.loads((bench.bundle() / "job.json").read_text())["config"]
    assert {name: config[name.replace("-", "_")] for name in given} == given
    (line,) = [line for line in shown(bench, "-s") if line.startswith("seen: ")]
    assert line.count("SpendingLimits(max_cost_usd=None, max_tokens=None, max_calls=None)") == 2
    assert line.endswith(" []")


def test_a_name_that_is_empty_allows_nothing(bench: Bench) -> None:
    bench.toy()
    assert (
        refused(bench, "--bench-allow-model", "a,,b") == "--bench-allow-model: a name is empty; leave it out"
    )


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
    assert all(setting.option in every for setting in SETTINGS if setting.has_ini)


@pytest.mark.parametrize("words", [("--bench-agnet", "nop"), ("--bench-agnet=nop",)])
def test_a_misspelt_option_is_told_with_the_one_that_was_meant(bench: Bench, words: tuple[str, ...]) -> None:
    bench.toy()
    done = bench.run("toy.bench.yaml", *words)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: unknown option --bench-agnet; did you mean --bench-agent?*"])


def test_options_of_others_are_theirs(bench: Bench) -> None:
    bench.toy()
    bench.conftest(
        """
        def pytest_addoption(parser):
            parser.addoption("--bench-agents")
            parser.addoption("--benchmark-only", action="store_true")
        """
    )
    done = bench.run("--bench-agents", "x", "--benchmark-only", "toy.bench.yaml")
    assert done.parseoutcomes()["passed"] == 1


def test_a_parameter_that_no_agent_reads_is_told(bench: Bench) -> None:
    bench.toy()
    told = "warning: no agent of this job reads the parameter effrot (--bench-param); only scorers may"
    for agents in (("nop",), ("nop", "oracle"), ("baseline:half",)):
        named = [f"--bench-agent={agent}" for agent in agents]
        run = bench.run("toy.bench.yaml", "-k", "solved", *named, "--bench-param", "effrot=high")
        assert told in run.stdout.str()
    for more in (("--bench-agent=nop", "--bench-agent=command:true"), ("--bench-agent=command:true",)):
        run = bench.run("toy.bench.yaml", "-k", "solved", *more, "--bench-param", "effrot=high")
        assert "no agent of this job reads" not in run.stdout.str()
    judges = ("--bench-param=openai_base_url=http://127.0.0.1:1", "--bench-param=openai_key_variable=X")
    run = bench.run("toy.bench.yaml", "-k", "solved", "--bench-agent=nop", *judges)
    assert "no agent of this job reads" not in run.stdout.str()
