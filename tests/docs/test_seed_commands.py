"""The commands of two other systems, retyped with our names, do what those systems say of theirs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from pytest_benchjobs.agents.keys import KEYS
from pytest_benchjobs.cli._commands import benchjobs
from pytest_benchjobs.model.job import JobStatus

from . import eliza, runloop
from .checking import BROKEN, CHECKS, CLAUDE, CODEX, Line
from .commands import PAGE, Example, Option, Project, examples, options
from .documents import when_changed

SEEDS = os.environ.get("BENCHJOBS_SEEDS")
"""Directory with the documents of the two systems, which are not ours to hand on."""
FLAG = r"(?<![\w-])--?[a-z][a-z-]*"
assert eliza, runloop  # they register what they check


@pytest.fixture(scope="module")
def two_agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = Project.new(tmp_path_factory.mktemp("two") / "project")
    project.env["STAND_IN_FAILS"] = "fix-git"
    project.run(f"benchjobs run --agent {CLAUDE} {CODEX} --benchmark terminal-bench-2 -n nightly", status=1)
    return project.path


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = Project.new(tmp_path_factory.mktemp("all") / "project")
    project.env["STAND_IN_FAILS"] = " ".join(scenario for _, scenario in BROKEN)
    project.run("benchjobs run --all --provider groq --model qwen/qwen3-32b", status=1)
    return project.path


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, id=example.id, marks=when_changed(PAGE, [example.ours]))
        for example in examples()
    ],
)
def test_our_line_does_what_theirs_does(
    example: Example, tmp_path: Path, two_agents: Path, everything: Path
) -> None:
    CHECKS[example.id](Line(example, tmp_path, two_agents, everything))


def test_every_example_is_checked_and_every_check_has_an_example() -> None:
    ids = [example.id for example in examples()]
    assert sorted(ids) == sorted(CHECKS)


@pytest.mark.parametrize("option", options(), ids=lambda option: option.theirs)
def test_every_option_is_there_and_its_example_has_it(option: Option) -> None:
    lines = {example.id: example.ours for example in examples()}
    ours = re.findall(r"`(benchjobs [^`]*)`", option.ours)
    if not ours:
        assert re.fullmatch(r"nothing|`pip install pytest-benchjobs`", option.ours)
        return
    (written,) = ours
    name = written.split()[1]
    with click.Context(benchjobs) as context:
        command = benchjobs.get_command(context, name)
    assert command is not None, name
    # A group that has a command for arguments that name none of its own takes the options of this command.
    takers = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
    known = {
        text
        for taker in takers
        for parameter in taker.params
        for text in (*parameter.opts, *parameter.secondary_opts)
    }
    line = lines[option.example]
    assert f"benchjobs {name}" in line
    for aliases in re.findall(rf"{FLAG}(?:, {FLAG})*", written):
        names = set(re.findall(FLAG, aliases))
        assert names <= known
        assert names & set(re.findall(FLAG, line))


def test_every_command_of_ours_has_a_row() -> None:
    with click.Context(benchjobs) as context:
        names = benchjobs.list_commands(context)
    head = PAGE.read_text("utf-8").partition("\n## ")[0]
    assert set(re.findall(r"^\| `benchjobs ([a-z-]+)", head, re.MULTILINE)) == set(names)


# What the two documents show is all there.


@pytest.fixture(scope="module")
def seeds() -> list[str]:
    if SEEDS is None:
        pytest.skip("BENCHJOBS_SEEDS does not say where the documents are")
    found = [path.read_text("utf-8") for path in sorted(Path(SEEDS).glob("*.txt"))]
    return [
        text for text in found if "rli benchmark-job run" in text or "benchmarks.orchestrator run" in text
    ]


def test_every_option_of_theirs_has_a_row(seeds: list[str]) -> None:
    assert len(seeds) == 2
    wanted = {flag for text in seeds for flag in re.findall(r"(?<![\w-])--[a-z](?:-?[a-z])*", text)}
    assert len(wanted) > 30
    named = tuple(flag for option in options() for flag in re.findall(r"--[a-z][a-z-]*", option.theirs))
    # In one of them, words that follow are written without a space.
    assert [flag for flag in sorted(wanted) if not flag.startswith(named)] == []


def test_every_row_of_their_reference_is_a_row_of_ours(seeds: list[str]) -> None:
    (text,) = [text for text in seeds if "## Command Reference" in text]
    reference = text.partition("\n## Command Reference\n")[2].partition("\n## ")[0]
    wanted = []
    for section in reference.split("\n### `rli benchmark-job ")[1:]:
        command = section.partition("`")[0]
        wanted += [f"{command} {cell}" for cell in re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)]
    assert len(wanted) > 15
    assert (
        set(wanted) - {theirs for option in options() for theirs in re.findall(r"`([^`]*)`", option.theirs)}
        == set()
    )
    statuses = re.search(r"^Valid statuses: (.*)$", reference, re.MULTILINE)
    assert statuses is not None
    # Theirs knows no budgets.
    assert set(re.findall(r"\w+", statuses[1])) == set(JobStatus) - {JobStatus.BUDGET}


def test_their_agents_need_the_variables_that_we_know_of(seeds: list[str]) -> None:
    (text,) = [text for text in seeds if "Required Environment Variables" in text]
    table = text.partition("Required Environment Variables")[2].partition("\n\n")[0]
    needed = {
        agent: tuple(re.findall(r"`(\w+)`", cell))
        for agent, cell in re.findall(r"\| `([\w-]+)` +\|(.*)\|", table)
    }
    assert needed == KEYS


def test_every_command_of_theirs_has_a_row(seeds: list[str]) -> None:
    pattern = r"(?:rli benchmark-job|-m benchmarks\.orchestrator) ([a-z]+(?:-[a-z]+)*)"
    wanted = {command for text in seeds for command in re.findall(pattern, text)}
    assert len(wanted) == 12
    named = " ".join(option.theirs for option in options())
    assert [command for command in sorted(wanted) if not re.search(rf"\b{command}\b", named)] == []


def test_every_line_of_theirs_has_a_row(seeds: list[str]) -> None:
    ours = sorted((example.theirs for example in examples()), key=len, reverse=True)
    met = 0
    for text in seeds:
        joined = re.sub(r"\s*\\?\s*\n\s*", " ", text)
        joined = joined.replace("/opt/miniconda3/bin/", "")
        for match in re.finditer(r"(?:`| )rli benchmark-job |python -m benchmarks\.orchestrator ", joined):
            rest = joined[match.end() :]
            if match[0].startswith("`"):
                continue  # named in a sentence
            found = next((line for line in ours if rest.startswith(line)), None)
            assert found is not None, rest[:200]
            assert not re.match(r" (?:-|<)", rest[len(found) :]), (
                f"{found!r} is only the beginning of {rest[:200]!r}"
            )
            met += 1
    assert met > 35
