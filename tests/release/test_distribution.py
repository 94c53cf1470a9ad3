"""The wheel and the sdist: what is in them, and that they work where nothing else is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

import pytest_benchjobs
from pytest_benchjobs.sandbox.program.compiling import MACHINES

from ..building import clone, committed
from ..docs.documents import EXAMPLES, PAGES, ROOT, Block, blocks, steady

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]
NAME = f"pytest_benchjobs-{VERSION}"
# Of what installs into a new environment, one of a kind is for every day.
EXTENDED = [pytest.mark.extended]
pytestmark = pytest.mark.slow
# What pip and Python are told by the environment of whoever runs the tests.
_OURS = ("PYTHON", "PYTEST_", "VIRTUAL_ENV", "PIP_REQUIRE", "BENCH")


def call(*command: str | Path, cwd: Path, status: int = 0) -> str:
    """Run a command as somebody would who has just installed it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={
            **environment,
            "PATH": f"{cwd / '.venv' / 'bin'}:{environment['PATH']}",
            "COLUMNS": "100",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",  # half the time of an installation
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == status, f"$ {' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as file:
        yield file


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Iterator[dict[str, bytes]]:
    with tarfile.open(dist / f"{NAME}.tar.gz") as file:
        yield {
            member.name.removeprefix(f"{NAME}/"): content.read()
            for member in file.getmembers()
            if (content := file.extractfile(member)) is not None
        }


def test_there_is_one_of_each(dist: Path) -> None:
    assert sorted(path.name for path in dist.iterdir()) == [f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"]


def test_the_wheel_has_the_package_and_the_compiled_program_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if not name.startswith(f"{NAME}.dist-info/")}
    compiled = {f"pytest_benchjobs/sandbox/program/bench-{machine}" for machine in MACHINES}
    assert names == committed("pytest_benchjobs") | compiled
    assert {name for name in names if wheel.read(name).startswith(b"\x7fELF")} == compiled


def test_the_sdist_has_what_its_own_documentation_names(sdist: dict[str, bytes]) -> None:
    wanted = {str(page.relative_to(ROOT)) for page in PAGES} | {"CHANGELOG.md", "LICENSE", "mkdocs.yml"}
    assert wanted - set(sdist) == set()
    assert committed("conftest_examples", "tests", "scripts", "docs") - set(sdist) == set()
    assert set(sdist) - committed() == {"PKG-INFO"}


def test_nothing_in_them_is_of_the_machine_that_built_them(
    wheel: zipfile.ZipFile, sdist: dict[str, bytes]
) -> None:
    files = {**sdist, **{name: wheel.read(name) for name in wheel.namelist()}}
    assert [name for name, content in files.items() if str(ROOT).encode() in content] == []


def test_the_page_of_an_index_links_to_nothing_that_is_not_there(wheel: zipfile.ZipFile) -> None:
    metadata = message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))
    page = metadata.get_payload()
    assert isinstance(page, str)
    assert page.startswith("# pytest-benchjobs\n")
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", page) == []
    assert metadata["Version"] == VERSION == pytest_benchjobs.__version__


def test_the_changelog_begins_with_this_version() -> None:
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading is not None
    assert re.fullmatch(rf"{re.escape(VERSION)} \((unreleased|\d{{4}}-\d\d-\d\d)\)", heading[1])


@pytest.mark.extended
def test_the_wheel_works_where_nothing_else_is(dist: Path, tmp_path: Path) -> None:
    call(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    commands = tmp_path / "venv" / "bin"
    call(commands / "pip", "install", "--quiet", dist / f"{NAME}-py3-none-any.whl", cwd=tmp_path)
    call(commands / "pip", "check", cwd=tmp_path)
    assert call(commands / "benchjobs", "--version", cwd=tmp_path) == f"benchjobs {VERSION}\n"
    assert "Usage: benchjobs" in call(commands / "benchjobs", "--help", cwd=tmp_path)
    assert "--bench-agent" in call(commands / "pytest", "--bench-help", cwd=tmp_path)
    assert "swe-bench-verified" in call(commands / "benchjobs", "benchmarks", "list", cwd=tmp_path)
    collected = call(commands / "pytest", "--collect-only", "-q", EXAMPLES / "quickstart", cwd=tmp_path)
    assert "quickstart.bench.yaml::access-log[oracle]" in collected


@pytest.mark.when_changed(page="README.md")
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.name, marks=EXTENDED if " wheel " in block.commands[1].line else [])
        for block in blocks()
        if block.place == "clone" and not block.example
    ],
)
def test_installing_works_as_the_page_types_it(block: Block, tmp_path: Path) -> None:
    clone(tmp_path)
    for command in block.commands:
        printed = call("bash", "-c", command.line, cwd=tmp_path)
        assert [line for line in command.output if line not in printed] == []


@pytest.mark.docker
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page == "first-session.md" else EXTENDED)
        for page in sorted({block.page.name for block in blocks() if block.place == "session"})
    ],
)
def test_a_session_goes_as_the_page_shows_it(dist: Path, tmp_path: Path, page: str) -> None:
    shutil.copytree(dist, tmp_path / "dist")
    session = [block for block in blocks() if block.place == "session" and block.page.name == page]
    for command in (command for block in session for command in block.commands):
        text = call("bash", "-c", command.line, cwd=tmp_path, status=command.status)
        printed = iter([steady(line) for line in text.splitlines()])
        for line in command.output:
            assert steady(line) in printed, f"the page shows\n{line}\nbut:\n$ {command.line}\n{text}"
