"""The tables of docs/commands.md, and a project to run their commands in."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import forking
from .documents import ROOT

PAGE = ROOT / "docs" / "commands.md"
PROJECT = Path(__file__).parent / "project"
# So long may a command take that hangs.
PATIENCE = 300

_COMMANDS = {"benchjobs": ["-c", "from pytest_benchjobs.cli import main; main()"], "pytest": ["-m", "pytest"]}
_CELL = re.compile(r"(?<!\\)\|")


@dataclasses.dataclass(frozen=True)
class Example:
    """A line that others show, and ours."""

    id: str
    theirs: str
    ours: str


@dataclasses.dataclass(frozen=True)
class Option:
    """A command or option of others, and ours."""

    theirs: str
    ours: str
    example: str


def examples() -> list[Example]:
    """Rows of the tables of examples."""
    return [Example(_code(row[0]), _code(row[1]), _code(row[2])) for row in _rows("Examples")]


def options() -> list[Option]:
    """Rows of the table of commands and options."""
    return [Option(row[0], row[1], _code(row[3])) for row in _rows("Every command and option")]


def _rows(heading: str) -> Iterator[list[str]]:
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith("| theirs ") and not line.startswith("| | theirs "):
            cells = _CELL.split(line)[1:-1]
            assert len(cells) == 4, line
            yield [cell.strip().replace("\\|", "|") for cell in cells]


def _code(cell: str) -> str:
    """A cell without the backticks, if they are around all of it."""
    return cell[1:-1] if re.fullmatch(r"`[^`]+`", cell) else cell


def called(line: str) -> list[str]:
    """What a shell does with a line; where that is only to call one of our commands, without a shell."""
    plain = not re.search(r"[$*?~`{}\[\]\\!|&;<>()]", re.sub(r"'[^']*'", "", line))
    words = shlex.split(line)
    if plain and words[0] in _COMMANDS:
        return [sys.executable, "-P", *_COMMANDS[words[0]], *words[1:]]
    return ["bash", "-c", line]


@dataclasses.dataclass(frozen=True)
class Project:
    """A copy of the prepared project."""

    path: Path
    env: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def new(cls, path: Path, like: Path = PROJECT) -> Project:
        shutil.copytree(like, path, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
        return cls(path)

    def run(self, line: str, status: int | None = 0, **words: str) -> str:
        """Run a line of a shell; returns its stdout. Words in capitals stand for what `words` says."""
        with self.start(line, **words) as process:
            stdout, stderr = process.communicate(timeout=PATIENCE)
        shown = f"$ {line}\n{stdout}\n--- stderr\n{stderr}\n--- status {process.returncode}"
        assert status is None or process.returncode == status, shown
        assert "Traceback" not in stdout + stderr, shown
        return stdout

    @contextmanager
    def start(self, line: str, **words: str) -> Iterator[subprocess.Popen[str]]:
        """Start a line of a shell."""
        for word, meaning in words.items():
            assert re.search(rf"\b{word}\b", line), f"{line}: no {word}"
            line = re.sub(rf"\b{word}\b", shlex.quote(meaning).replace("\\", r"\\"), line)
        clean = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTEST_", "BENCH", "COV_"))
        }
        process = forking.Popen(
            called(line),
            cwd=self.path,
            env={
                **clean,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "COLUMNS": "160",
                "PYTHONUNBUFFERED": "1",
                "PYTEST_ADDOPTS": "-p no:hypothesispytest",
                **self.env,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            process.stderr.close()

    def document(self, line: str) -> Any:
        """What a command prints as JSON."""
        return json.loads(self.run(line))

    @property
    def bundles(self) -> list[Path]:
        """Those of all jobs, the oldest first."""
        jobs = (self.path / "reports" / "jobs").glob("*/job.json")
        return [
            path.parent for path in sorted(jobs, key=lambda path: json.loads(path.read_text())["created_at"])
        ]

    def job(self) -> dict[str, Any]:
        """`job.json` of the last job."""
        return json.loads((self.bundles[-1] / "job.json").read_text("utf-8"))  # type: ignore[no-any-return]

    def results(self) -> list[dict[str, Any]]:
        """The results of its trials."""
        found = sorted(self.bundles[-1].glob("trials/*/*/*/result.json"))
        return [json.loads(path.read_text("utf-8")) for path in found]

    def told(self) -> dict[str, dict[str, str]]:
        """Node id of each trial of the last job -> what the stand-in told its log that it was given."""
        found = {}
        for result in self.results():
            lines = (self.bundles[-1] / result["path"] / "agent.log").read_text("utf-8").splitlines()
            pairs = re.findall(r"(\w+)=((?:\{.*\})|\S*)", "\n".join(lines[:2]))
            found[result["node_id"]] = dict(pairs)
        return found
