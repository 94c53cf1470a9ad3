"""Names that no file can have, wherever a path or a benchmark may be given: one line, and never a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pytest_benchjobs.cli._commands import benchjobs
from pytest_benchjobs.sources import find_sources, open_source
from pytest_benchjobs.system.paths import exists, is_directory, is_file

from .jobs import run
from .test_settings_table import read

LONG = "n" * 300
NAMES = [LONG, f"{LONG}.bench.yaml", f"{LONG}/x.yaml", "x/" * 3000, "\udcff" * 200]
ENDLESS = ("serve", "watch")


def _commands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found, (*words, name))
    elif words[0] not in ENDLESS:
        yield words, command


def _calls() -> Iterator[tuple[str, ...]]:
    """Yield each command with the name for each of its paths, and for what it is about."""
    for words, command in _commands(benchjobs):
        for one in command.params:
            others = [
                "x"
                for other in command.params
                if isinstance(other, click.Argument) and other.required and other is not one
            ]
            if isinstance(one.type, click.Path) and isinstance(one, click.Option):
                yield (*words, *others, one.opts[-1], "NAME")
            elif isinstance(one, click.Argument) and words[0] in (
                "scenario",
                "benchmarks",
                "merge",
                "init",
                "doctor",
            ):
                yield (*words, "NAME", *others)


def test_no_command_fails_at_a_name_that_cannot_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = list(_calls())
    assert len(calls) > 40
    for words in calls:
        status = run(*(LONG if word == "NAME" else word for word in words))
        said = capsys.readouterr()
        assert status, (words, said.out)
        assert len(said.err) < 3000, words


def test_no_option_of_a_command_is_given_empty(capsys: pytest.CaptureFixture[str]) -> None:
    valued = [
        (words, one.opts[-1])
        for words, command in _commands(benchjobs)
        for one in command.params
        if isinstance(one, click.Option) and not one.is_flag
    ]
    assert len(valued) > 200
    for words, option in valued:
        for given in ([option, ""], [option, " "], *([[f"{option}="]] if option.startswith("--") else [])):
            assert run(*words, *given) == 2
            assert (
                f"benchjobs: {option}: it is empty; give a value, or leave it out" in capsys.readouterr().err
            )
    assert run("show", "") == 2
    assert "an argument: it is empty" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_exist_is_not_there(name: str, tmp_path: Path) -> None:
    assert [look(tmp_path / name) for look in (exists, is_file, is_directory)] == [False, False, False]
    assert open_source(tmp_path / name) is None


PATHS = (
    "bench",
    "known",
    "prices",
    "replay",
    "shard-durations",
    "job-file",
    "env-file",
    "profile",
    "baseline=file:",
    "agent=a=./",
    "dir",
    "extra=@",
)


@pytest.mark.parametrize("option", PATHS)
def test_no_option_fails_at_a_name_that_cannot_exist(pytester: pytest.Pytester, option: str) -> None:
    flag = f"--bench-{option}".replace("--bench-bench", "--bench")
    for name in NAMES[:3]:
        argument = f"{flag}{name}" if "=" in flag else f"{flag}={name}"
        try:
            read(pytester, argument)
        except pytest.UsageError as error:
            assert len(str(error)) < 1500


def test_a_task_whose_file_is_no_file_is_not_passed_over(pytester: pytest.Pytester) -> None:
    task = pytester.mkdir("t")
    (task / "instruction.md").write_text("Do it.")
    (task / "test_it.py").write_text("def test_it(): pass")
    (task / "conftest.py").write_text("raise SystemExit(7)")
    (task / "task.toml").symlink_to("gone")
    for words in ([], ["t"]):
        result = pytester.runpytest("-q", *words)
        assert result.ret not in (0, 7)
        assert "task.toml: cannot be read" in result.stdout.str()


@pytest.mark.parametrize("kind", ["dangling", "loop", "pipe"])
def test_a_manifest_that_is_no_file_is_not_passed_over(pytester: pytest.Pytester, kind: str) -> None:
    path = pytester.path / "b.bench.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("gone" if kind == "dangling" else path)
    assert [source.path for source in find_sources(pytester.path)] == [path]
    for words in ([], ["--bench"]):
        result = pytester.runpytest("-q", *words)
        assert result.ret != 0
        assert "b.bench.yaml: cannot be read" in result.stdout.str() + result.stderr.str()
