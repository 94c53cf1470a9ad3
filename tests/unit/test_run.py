"""`benchjobs run`: flags of both seeds, as one call of pytest."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.cli import main
from pytest_benchjobs.cli._earlier_job import EarlierJob, call_again
from pytest_benchjobs.cli._pytest_call import Call, call_pytest
from pytest_benchjobs.job.detach import why_it_ended
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.job import Invocation, JobRecord, JobStatus

from . import records

HOW = ["--bench-reuse", "--bench-dir=reports"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Arguments of pytest."""
    options = list(arguments)
    options.insert(options.index("--") if "--" in options else len(options), "--print-command")
    assert run(*options) == 0
    out, err = capsys.readouterr()
    assert err == ""
    words = shlex.split(out)
    assert words[0] == "pytest"
    return words[1:]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line.removeprefix("benchjobs: ")


# --- translation


def test_a_benchmark_and_agents(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = ["--bench=tb2", "--bench-agent=codex:gpt-4o", "--bench-agent=oracle", *HOW]
    for agents in (
        ["--agent", "codex:gpt-4o", "--agent", "oracle"],
        ["--agent", "codex:gpt-4o", "oracle"],
        ["--agent=codex:gpt-4o", "oracle"],
    ):
        assert shown(capsys, *agents, "--benchmark", "tb2") == expected
    assert list(project.iterdir()) == [project / "pytest.ini"]


@pytest.mark.parametrize(
    ("flags", "words", "how"),
    [
        (["--benchmarks", "a", "b"], ["--bench=a", "--bench=b"], ["--bench-reuse"]),
        (["--benchmarks", "a,b", "a"], ["--bench=a", "--bench=b"], ["--bench-reuse"]),
        (["--scenarios", "s1", "s2"], ["--bench=*", "--bench-scenario=s1", "--bench-scenario=s2"], ["--bench-reuse"]),
        (["--benchmarks", "a", "--scenarios", "s1"], ["--bench=a", "--bench-scenario=s1"], ["--bench-reuse"]),
        (["--all"], ["--bench=*"], ["--bench-reuse"]),
        (["--all", "--force"], ["--bench=*"], ["--bench-force"]),
        (["--all", "--no-reuse"], ["--bench=*"], ["--bench-force"]),
        (["--all", "--rerun-failed"], ["--bench=*"], ["--bench-reuse", "--bench-rerun-failed"]),
        (["--all", "--rerun-errors"], ["--bench=*"], ["--bench-reuse", "--bench-rerun-errors"]),
        (["--all", "--show-incompatible"], ["--bench=*"], ["--bench-reuse", "--bench-show-incompatible"]),
    ],
    ids=lambda value: " ".join(value),
)  # fmt: skip
def test_what_to_run_and_reuse_is_on_unless_told(
    project: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: list[str], how: list[str]
) -> None:
    assert shown(capsys, *flags) == [*words, *how, "--bench-dir=reports"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--metadata", "a=1", "--metadata", "b="], ["--bench-meta=a=1", "--bench-meta=b="]),
        (["--temperature", "0.0"], ["--bench-param=temperature=0"]),
        (["--env-vars", "DEBUG=true", "LOG=a b"], ["--bench-env", "DEBUG=true", "--bench-env", "LOG=a b"]),
        (["--resume"], []),
        (["--skip-incompatible"], []),
    ],
    ids=lambda value: " ".join(value),
)
def test_flags_that_are_more_than_a_setting_of_the_table(
    project: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: list[str]
) -> None:
    found = shown(capsys, "--benchmark", "tb2", *flags)
    assert [word for word in found if word not in HOW and word != "--bench=tb2"] == words
    assert shown(capsys, *flags, "--benchmark", "tb2") == found


def test_files_that_name_what_to_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "job.yaml").write_text("benchmarks: [toy]\n")
    (project / "pyproject.toml").write_text(
        '[tool.benchjobs.profiles]\nci = {benchmarks = ["toy"]}\nbare = {attempts = 2}'
    )
    assert shown(capsys, "-f", "job.yaml") == ["--bench-job-file=job.yaml", *HOW]
    for flag in ("--profile", "--model-profile"):
        assert shown(capsys, flag, "ci") == ["--bench-profile=ci", *HOW]
    assert refused(capsys, "--profile", "bare").startswith("nothing to run; ")
    assert shown(capsys, "--profile", "bare", "--all")[:2] == ["--bench=*", "--bench-profile=bare"]


def test_benchmarks_and_scenarios_are_arguments_as_of_check(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, "a", "./b.bench.yaml") == shown(capsys, "--benchmarks", "a", "./b.bench.yaml")
    expected = shown(capsys, "--benchmark", "b.bench.yaml", "--scenarios", "s", "t")
    assert shown(capsys, "b.bench.yaml::s", "b.bench.yaml::t") == expected


def test_both_options_for_benchmarks_go_with_scenarios(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [shown(capsys, option, "a", "--scenarios", "s") for option in ("--benchmark", "--benchmarks")]
    assert calls[0] == calls[1]
    assert "--bench-scenario=s" in calls[0]


def test_what_is_behind_two_dashes_is_for_pytest(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "toy.bench.yaml").write_text("")
    expected = ["--bench=tb2", *HOW, *["-n", "4", "-k", "a or b"]]
    assert shown(capsys, "--benchmark", "tb2", "--", "-n", "4", "-k", "a or b") == expected
    assert shown(capsys, "--", "toy.bench.yaml::one")[-1] == "toy.bench.yaml::one"


def test_results_go_where_the_other_commands_look(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    assert shown(capsys, "--all")[-1] == f"--bench-dir={project}/reports"
    (project / "pytest.ini").write_text("[pytest]\nbench_dir = results\n")
    assert shown(capsys, "--all")[-1] == f"--bench-dir={project}/results"
    assert shown(capsys, "--all", "--dir", "here")[-1] == "--bench-dir=here"
    (project / "sub" / "pytest.ini").write_text("[pytest]\n")
    assert shown(capsys, "--all")[-1] == "--bench-dir=reports"
    expected = ["--rootdir=..", f"--bench-dir={project}/results"]
    assert shown(capsys, "--all", "--rootdir", "..")[-2:] == expected


def test_values_that_look_secret_are_not_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "--all", "--env-vars", "API_KEY=s3cret", "MAX_TOKENS=32000", "DEBUG=1")
    assert found[-6:] == [
        "--bench-env", "API_KEY=[redacted]", "--bench-env", "MAX_TOKENS=32000", "--bench-env", "DEBUG=1",
    ]  # fmt: skip


@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6), max_size=4))
def test_whatever_is_typed_is_quoted_so_that_a_shell_gives_it_back(words: list[str]) -> None:
    assert shlex.split(Call(tuple(words), Path()).shown()) == ["pytest", *words]


# --- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a::s", "b"], "name scenarios (PATH::ID), or whole benchmarks, not both"),
        ([], "nothing to run; give a PATH or NAME, --benchmark, --scenarios or --all"),
        (["--all", "--benchmarks", "a"], "--all and --benchmark cannot both be given"),
        (["--benchmarks", ","], "--benchmarks is empty; name a benchmark"),
        (["--benchmark", "a", "--secrets", "TOKEN="], "--secrets: TOKEN= names no secret; write VARIABLE=NAME"),
        (["--benchmark", "a", "--n-attempts"], "Option '--n-attempts' needs a value"),
        (["--benchmark", "--agent", "x"], "Option '--benchmark' needs a value"),
        (["--benchmark", "a", "--scenrios", "s"], "No such option '--scenrios'.*'--scenarios'*"),
        (["--benchmark", "a", "b", "stray", "-n"], "Option '-n' needs a value"),
        (["stray", "--all"], "--all and --benchmark cannot both be given"),
        (["--all", "-o", "xml"], "Invalid value for '-o' / '--output': 'xml' is not one of 'text', 'json', 'yaml'"),
        (["--all", "--no-reuse", "--rerun-errors"], "--rerun-errors and --no-reuse contradict each other"),
        (["--all", "--extra", '{"limit": "x"}'], "--extra: limit: a whole number is expected, not 'x'"),
        (["--profile", "gone"], "there is no profile 'gone'; *"),
        (["--all", "-n", "4"], "-n is the job name, and 4 is not a valid one; for 4 concurrent trials use --concurrency 4, for 4 xdist workers -- -n 4"),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, list) else "",
)  # fmt: skip
def test_a_mistake_is_one_line_before_anything_is_made(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    from fnmatch import fnmatchcase

    said = refused(capsys, *arguments).removesuffix(". See `benchjobs run --help`")
    assert fnmatchcase(said, message), said
    assert list(project.iterdir()) == [project / "pytest.ini"]


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--metadata", "note=a-key-of-twenty-letters"], "--bench-meta"),
        (["-n", "see a-key-of-twenty-letters"], "--bench-job-name"),
        (["--", "-k", "a-key-of-twenty-letters"], "-k"),
        (["--env-file", "keys.env", "--metadata", "x=in-a-file-of-the-team"], "--bench-meta"),
        (["--secrets", "TOKEN=KEPT_AS", "--agent", "command:echo a-word-kept-as-secret"], "--bench-agent"),
    ],
    ids=lambda value: " ".join(value)[-30:] if isinstance(value, list) else "",
)
def test_a_secret_in_the_arguments_is_refused_before_a_detached_job_writes_them_down(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    option: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-twenty-letters")
    monkeypatch.setenv("KEPT_AS", "a-word-kept-as-secret")
    (project / "keys.env").write_text("TEAM_TOKEN=in-a-file-of-the-team\n")
    said = refused(capsys, "--all", "--detach", *arguments)
    assert said.startswith(f"{option}: it holds the value of the secret ")
    assert sorted(path.name for path in project.iterdir()) == ["keys.env", "pytest.ini"]


# --- an old call again


def record(directory: Path, *arguments: str) -> JobRecord:
    invocation = Invocation(arguments=arguments, directory=directory, rootdir=directory)
    return records.record(directory, status=JobStatus.FAILED, invocation=invocation)


def again(old: JobRecord, *more: str, env: tuple[str, ...] = ()) -> Call:
    return call_again(EarlierJob(old.config.directory, old, []), env, {}, *more)


def test_an_old_call_without_what_it_was_for_once(tmp_path: Path) -> None:
    old = record(
        tmp_path, "toy.bench.yaml", "--bench-job-id", "x", "--bench-resume=y", "--bench-rescore", "z", "--bench-plan",
        "--bench-parent=p", "--bench-from", "last:failed", "-k", "a", "--bench-agent=codex:m",
    )  # fmt: skip
    call = again(old, "--bench-resume", old.id)
    kept = ("toy.bench.yaml", "-k", "a", "--bench-agent=codex:m")
    assert call.arguments == (*kept, "--bench-resume", old.id)
    assert call.directory == tmp_path
    moved = call_again(EarlierJob(tmp_path / "moved", old, []), (), {})
    assert moved.arguments[-1] == f"--bench-dir={tmp_path}/moved"


def test_values_of_variables_have_to_be_given_again(tmp_path: Path) -> None:
    old = record(tmp_path, "--bench-env", "A=[redacted]", "x", "--bench-env=B=[redacted]")
    with pytest.raises(InputError) as caught:
        again(old, env=("B=2",))
    assert str(caught.value) == (
        f"values of --bench-env are not stored; give those of job {old.id} again: --env-vars A=..."
    )
    call = again(old, env=("A=1", "B=2"))
    assert call.arguments == ("x",)
    assert not any("A=1" in word for word in call.command)
    assert json.loads(call.environment["BENCHJOBS_ENV"]) == {"A": "1", "B": "2"}


def test_values_of_variables_in_an_ini_key_have_to_be_given_again(tmp_path: Path) -> None:
    # The last of these counts alone, and none of what the ini file says.
    old = record(
        tmp_path, "-o", "bench_env=Z=[redacted]", "-obench_env=A=[redacted]\nB =[redacted]", "x",
        "--bench-env=C=[redacted]",
    )  # fmt: skip
    with pytest.raises(InputError, match=r"--env-vars A=\.\.\. B=\.\.\. C=\.\.\.$"):
        again(old)
    call = again(old, env=("A=1", "B=2", "C=3"))
    assert call.arguments == ("-o", "bench_env=Z=", "-obench_env=A=\nB=", "x")


def test_a_call_that_cannot_be_made_again(tmp_path: Path) -> None:
    unknown = record(tmp_path).model_copy(update={"invocation": None})
    with pytest.raises(InputError, match="the pytest command of job"):
        again(unknown)
    with pytest.raises(InputError, match="which no longer exists"):
        again(record(tmp_path / "gone"))


def test_variables_of_an_outer_call_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHJOBS_ENV", '{"OUTER": "1"}')
    assert "BENCHJOBS_ENV" not in Call((), Path()).environment


def test_the_status_is_that_of_pytest(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_it.py").write_text("import os\ndef test_it(): os.kill(os.getpid(), 9)\n")
    assert call_pytest(Call(("--version",), tmp_path)) == 0
    assert call_pytest(Call(("--nonsense",), tmp_path)) == 4
    assert call_pytest(Call(("test_it.py", "-p", "no:cacheprovider"), tmp_path)) == 137
    assert Call(("--version",), tmp_path).command == [sys.executable, "-P", "-m", "pytest", "--version"]


@pytest.mark.parametrize(
    ("log", "status", "message"),
    [
        ("collected\nERROR: --bench: there is no benchmark 'x'\nERROR: more\n", 4, "--bench: there is no benchmark 'x'"),
        ("___ ERROR collecting toy.bench.yaml ___\n\ntoy.bench.yaml:4: wrong\nERROR: Interrupted\n", 2, "toy.bench.yaml:4: wrong"),
        ("E   ImportError: nope\n", 4, "ImportError: nope"),
        ("ERROR: usage: python -m pytest [options]\npython -m pytest: error: unrecognized arguments: -z\n", 4, "unrecognized arguments: -z"),
        ("collected 0 items\n", 5, "there is nothing to run"),
        ("Killed\n", -9, "pytest was killed by signal 9 before the job began"),
        ("", 3, "pytest ended with status 3 before the job began"),
        ("\x1b[31mboom\n", 3, "pytest ended with status 3 before the job began: boom"),
    ],
)  # fmt: skip
def test_why_a_job_never_began(tmp_path: Path, log: str, status: int, message: str) -> None:
    (tmp_path / "pytest.log").write_text(log)
    found = why_it_ended(tmp_path / "pytest.log", status)
    assert found.replace("\x1b", "").replace("[31m", "") == message
    assert "\x1b" not in found
