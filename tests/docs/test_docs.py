"""What the documentation says is true: its commands run, its tables are complete, its links lead somewhere."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_benchjobs.model import errors
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.result import FailureClass
from pytest_benchjobs.sources import written

from .. import forking
from ..building import clone
from .commands import called
from .documents import EXAMPLES, PAGES, README, ROOT, Block, blocks, when_changed

DOCS = ROOT / "docs"


# Examples whose commands run many containers, and show little that the pages of docs/ do not.
LONG = {
    "code-matrix", "command-agent", "harbor-compose", "interactive-script", "known-failures", "mixed",
    "nightly", "research-matrix", "unsound",
}  # fmt: skip


# What a newcomer reads is run every day.
FIRST = {"guide.md", "first-session.md"}


def marks(block: Block) -> list[pytest.MarkDecorator]:
    """Choose what runs every day, and what when its page or a room that the page is about changed."""
    if block.example:
        return [pytest.mark.extended] if block.example in LONG else []
    if block.page.name in FIRST:
        return []
    return [when_changed(block.page, (command.line for command in block.commands))]


@pytest.mark.docker
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.name, marks=marks(block))
        for block in blocks()
        if block.place is None and block.page != README
    ],
)
def test_commands_do_what_the_page_shows(block: Block, tmp_path: Path) -> None:
    with_examples(tmp_path)
    block.write(tmp_path)
    directory = tmp_path / EXAMPLES.name / block.example if block.example else tmp_path
    block.check(lambda line: shell(line, directory))


@pytest.mark.docker
@pytest.mark.parametrize(
    "block",
    [pytest.param(block, id=block.name) for block in blocks() if block.page == README and not block.place],
)
class TestReadme:
    """Its commands do what it shows, whichever way of installing it describes somebody chose."""

    def test_in_a_clone(self, block: Block, tmp_path: Path) -> None:
        clone(tmp_path)
        block.write(tmp_path)
        # Not forked: the processes that are have imported `tests` from elsewhere.
        block.check(lambda line: genuine(["bash", "-c", line], tmp_path, Path(sys.executable).parent))

    @pytest.mark.when_changed(page="pyproject.toml")
    def test_from_the_wheel(self, block: Block, tmp_path: Path, installed: Path) -> None:
        with_examples(tmp_path)
        block.write(tmp_path)
        block.check(lambda line: genuine(["bash", "-c", line], tmp_path, installed / "bin"))


def test_the_wheel_is_what_the_commands_of_readme_run(tmp_path: Path, installed: Path) -> None:
    """The environment has its other packages from where this package is installed as well."""
    show = "import pytest_benchjobs.plugin as plugin, sys; print(plugin.__file__, sys.executable)"
    done = genuine(["python", "-c", show], tmp_path, installed / "bin")
    assert [word.startswith(f"{installed}/") for word in done.stdout.split()] == [True, True]


def with_examples(directory: Path) -> None:
    """Make a project of the examples alone."""
    shutil.copytree(EXAMPLES, directory / EXAMPLES.name)
    (directory / "pytest.ini").write_text("[pytest]\n", "utf-8")


@pytest.mark.docker
@pytest.mark.when_changed(page="scripts/demo.py")
def test_what_the_demo_says_to_try_next_works(tmp_path: Path) -> None:
    with_examples(tmp_path)
    demo = runpy.run_path(str(ROOT / "scripts" / "demo.py"))
    agents = " ".join(f"--bench-agent={agent}" for agent in demo["AGENTS"])
    assert shell(f"pytest {demo['BENCHMARKS'][0]} {agents} --bench-job-name=demo", tmp_path).returncode == 1
    commands = re.findall(r"^  ((?:benchjobs|pytest) .*?)(?:   .*)?$", demo["NEXT"], re.MULTILINE)
    for line, status in zip(commands, (0, 1, 0, 0, 10), strict=True):
        done = shell(line, tmp_path)
        assert done.returncode == status, f"$ {line}\n{done.stdout}"


def shell(line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a line where a page has it run, in the environment of the tests."""
    return ended(called(line), directory, Path(sys.executable).parent, forking.Popen)


def genuine(words: Sequence[str], directory: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in another environment."""
    return ended(words, directory, programs, forking.GENUINE)


def ended(
    words: Sequence[str], directory: Path, programs: Path, popen: type[subprocess.Popen[str]]
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "100"}
    for variable in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"):
        environment.pop(variable, None)
    with popen(
        words,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        stdout, _ = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, stdout)


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == {
        block.example for block in blocks() if block.example
    }


def test_every_example_is_listed() -> None:
    listed = re.findall(r"^\| \[([\w-]+)\]", (DOCS / "examples.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir())


def test_there_is_an_example_of_everything_that_people_bring_along() -> None:
    wanted = (
        "custom-scorer custom-agent own-benchmark interactive-test interactive-script multi-turn replay-scoring "
        "code-matrix research-matrix judge training-export ci"
    )
    assert set(wanted.split()) - {block.example for block in blocks()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("The file", written.WrittenManifest),
        ("A scenario", written.WrittenScenario),
        ("A borrowed scenario", written.WrittenBorrowed),
        ("The container", written.WrittenEnvironment),
        ("A scorer", written.WrittenScorer),
        ("Health check", written.WrittenHealthCheck),
        ("Reference", written.WrittenReference),
        ("Artifact", written.WrittenArtifact),
        ("Requirements", written.WrittenRequires),
    ],
)
def test_every_key_of_a_manifest_has_a_row(heading: str, model: type[written.Written]) -> None:
    page = (DOCS / "manifest.md").read_text("utf-8")
    section = re.split(r"^## ", page.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    keys = {field.alias or name for name, field in model.model_fields.items()}
    if model is written.WrittenScenario:
        keys -= set(written.WrittenEnvironment.model_fields)
    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == keys


def test_every_class_of_failure_and_error_has_a_row() -> None:
    page = (DOCS / "outcomes.md").read_text("utf-8")
    classes = page.partition("\n## Classes of failed\n")[2].partition("\n## How agents end\n")[0]
    codes = {"input", "internal", "unsupported", *(item.value for item in FailureClass)}
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.InfrastructureError):
            codes.add(value.code)
    codes -= {"infrastructure"}
    assert set(re.findall(r"^\| `(\w+)`", classes, re.MULTILINE)) == codes


def test_every_way_an_agent_ends_has_a_row() -> None:
    section = (
        (DOCS / "outcomes.md").read_text("utf-8").partition("\n## How agents end\n")[2].partition("\n## ")[0]
    )
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| *")]
    assert {word for row in rows for word in re.findall(r"\*(\w+)\*", row)} == set(Ending)


def test_every_key_of_a_profile_has_a_row_with_its_other_names() -> None:
    from pytest_benchjobs.settings.table import ALIASES
    from pytest_benchjobs.settings.written import Settings

    section = (DOCS / "profiles.md").read_text("utf-8").partition("\n## Keys\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    keys = {
        key: set(re.findall(r"`(\w+)`", row[2])) for row in rows for key in re.findall(r"`(\w+)`", row[0])
    }
    assert set(keys) == set(Settings.model_fields)
    for alias, key in ALIASES.items():
        assert alias in keys[key], f"{alias} is another name of {key}"
    assert {alias for aliases in keys.values() for alias in aliases} - set(Settings.model_fields) == set(
        ALIASES
    )
