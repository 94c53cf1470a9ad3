"""The look for a reference solution, in a directory in place of a sandbox."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.scenario import Reference, Scenario
from pytest_benchjobs.trial.leaks import leaks_in, looking

from .records import scenario_of

LINES = "sort -u names.txt > sorted.txt\n", "wc -l < sorted.txt > count.txt\n"
SCRIPT = f"#!/bin/sh\n# Sorts.\n{LINES[0]}{LINES[1]}"


class Shell:
    """Runs commands in a directory that is all there is."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workdir = str(directory / "app")
        self.logged: list[str] = []
        Path(self.workdir).mkdir()

    def run(self, command: str, timeout: float, **_: object) -> tuple[int | None, str]:
        command = command.replace("find / ", f"find {self.directory} ")
        env = {"HOME": str(self.directory / "home"), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            ["sh", "-c", command], cwd=self.workdir, env=env, capture_output=True, text=True, timeout=timeout
        )
        return done.returncode, done.stdout

    def read(self, path: str, limit: int) -> bytes | None:
        file = Path(self.workdir, path)
        content = file.read_bytes() if file.is_file() else None
        if content is not None and len(content) > limit:
            raise ValueError
        return content

    def log(self, line: str) -> None:
        self.logged.append(line)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def scenario(statement: str = "Sort the names.", **reference: Any) -> Scenario:
    return scenario_of(problem_statement=statement, reference=Reference(**reference))


def look(shell: Shell, about: Scenario) -> list[str]:
    command = looking(about)
    if command is None:
        return []
    assert command.host is not None
    assert command.host(shell) == 0  # type: ignore[arg-type]
    log = shell.directory / "agent.log"
    log.write_text("".join(f"{line}\n" for line in ["other", *shell.logged]))
    return [found.replace(str(shell.directory), "") for found in leaks_in(log)]


@pytest.mark.parametrize(
    ("place", "content", "found"),
    [
        ("app/names.txt", LINES[0], False),
        *(("var/lib/x", copy, True) for copy in (SCRIPT, SCRIPT.strip(), f"{SCRIPT}\n")),
        # All of its lines, in the workdir and at home.
        *((place, f"To check it:\n\n    {LINES[1]}    {LINES[0]}", True) for place in ("app/sub/README.md", "home/.history")),
    ],
)  # fmt: skip
def test_a_copy_is_found_anywhere(shell: Shell, place: str, content: str, found: bool) -> None:
    path = shell.directory / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    assert look(shell, scenario(script=SCRIPT)) == [f"/{place} has its script"] * found


def test_the_problem_statement_is_searched(shell: Shell) -> None:
    said = "Run this:\nsort -u names.txt > sorted.txt\nwc -l < sorted.txt > count.txt\n"
    assert look(shell, scenario(said, script=SCRIPT)) == ["the problem statement has its script"]


def test_patches_and_directories_are_looked_for(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    patch = outside / "fix.patch"
    patch.write_text(
        "--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n-return 1\n+value = compute_total(items)\n+return value * 100\n"
    )
    (shell.directory / "app/x.py").write_text(
        "def f():\n    value = compute_total(items)\n    return value * 100\n"
    )
    assert look(shell, scenario(patch=patch)) == ["/app/x.py has fix.patch"]
    solution = outside / "solution"
    solution.mkdir()
    (solution / "solve.sh").write_text("python3 /solution/compute.py < table.csv\n")
    (solution / "compute.py").write_text("import sys\nprint(sum(map(int, sys.stdin)))\n")
    (solution / "table.csv").write_text("a,1\nb,2\nc,3\nd,4\ne,5\nf,6\ng,7\nh,8\n")
    (shell.directory / "app/table.csv").write_bytes((solution / "table.csv").read_bytes())
    (shell.directory / "app/.cache").write_text("import sys\nprint(sum(map(int, sys.stdin)))")
    shell.logged.clear()
    assert look(shell, scenario(solution=solution)) == ["/app/.cache has compute.py"]


def test_what_is_short_is_alike_by_chance(shell: Shell) -> None:
    (shell.directory / "app/run.sh").write_text("echo hi > x\n")
    assert look(shell, scenario(script="echo hi > x\n")) == []
    assert looking(scenario(script="echo hi > x\n")) is None


def test_a_huge_file_and_odd_names_do_not_stop_it(shell: Shell) -> None:
    (shell.directory / "app/huge").write_text(SCRIPT + "x\n" * 2_000_000)
    (shell.directory / "app/a b'c").write_text(SCRIPT)
    assert look(shell, scenario(script=SCRIPT)) == ["/app/a b'c has its script"]
