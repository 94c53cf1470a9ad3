"""The pages of the documentation, and the commands they show.

A ```console block is a promise: `$ ` begins a command, other lines are what it prints. The comment before the block
says how it is kept:

    <!-- run -->                   run where conftest_examples/ is
    <!-- run, status 1 0 -->       the first command ends with status 1, those after it with 0
    <!-- run in a clone -->        run in a copy of the repository, where nothing is installed
    <!-- run in a session -->      run after the others of its page, in one directory, where nothing is but dist/
    <!-- not run: needs a model -->

In the README of an example no comment is needed, and commands run in a copy of the example. A block that begins with the
name of a benchmark, `# hello.bench.yaml`, or of tests, `# hidden/test_it.py`, is that file for the commands of its page.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "conftest_examples"
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").rglob("*.md")), *sorted(EXAMPLES.glob("*/README.md")))

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```console\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_RUN = re.compile(r"^run(?: in a (?P<place>clone|session))?(?:, status (?P<status>\d+(?: \d+)*))?$")
# What differs from run to run: times, sizes of images, ids of jobs and hashes, and the width of rules around titles.
_VOLATILE = re.compile(
    r"cmp_\d{8}T\d{6}Z_[0-9a-f]{8}|\d+h\d\dm|\d+m\d\ds|\d+(?:\.\d+)?m?s\b|\d+(?:\.\d+)? [KMG]B\b|\d{8}-\d{6}-[0-9a-f]+|={3,}|-{3,}"
)
_MANIFEST = re.compile(r"(?ms)^```\w+\n(# (?P<name>[\w-]+(?:\.bench\.yaml|/\w+\.py))\n.*?)^```$")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command and what the page shows of its output."""

    line: str
    status: int
    output: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Block:
    """Commands to run one after the other."""

    page: Path
    number: int
    commands: tuple[Command, ...]
    place: str | None
    """`clone` or `session`, if it does not run where the examples are."""
    manifests: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.number}"

    @property
    def example(self) -> str | None:
        """The example it belongs to."""
        return self.page.parent.name if self.page.parent.parent == EXAMPLES else None

    def write(self, directory: Path) -> None:
        """Write the manifests that the page shows."""
        for name, manifest in self.manifests.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(manifest, "utf-8")

    def check(self, run: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
        """Run its commands, and compare what they print and their statuses with the page."""
        for command in self.commands:
            done = run(command.line)
            assert done.returncode == command.status, f"$ {command.line}\n{done.stdout}"
            printed = iter([steady(line) for line in done.stdout.splitlines()])
            for line in command.output:
                assert steady(line) in printed, (
                    f"{self.name} shows the line\n{line}\nbut:\n$ {command.line}\n{done.stdout}"
                )


def when_changed(page: Path, lines: Iterable[str]) -> pytest.MarkDecorator:
    """Have a test of a page run when the page changed, or a room that its name or one of the lines is about."""
    called = [word for line in lines for word in re.findall(r"benchjobs ([a-z-]+)", line)]
    words = (page.stem.removesuffix("s"), *page.stem.split("-"), *called)
    return pytest.mark.when_changed(*words, page=str(page.relative_to(ROOT)))


def steady(line: str) -> str:
    """The line without what differs from run to run."""
    return " ".join(_VOLATILE.sub("#", line).split())


def blocks() -> list[Block]:
    """Every block that is to be run."""
    return [block for page in PAGES for block in _blocks(page)]


def _blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    manifests = {match["name"]: match[1] for match in _MANIFEST.finditer(text)}
    found = []
    for match in _BLOCK.finditer(text):
        number = text.count("\n", 0, match.start("body")) + 1
        note = match["note"] or ("run" if page.parent.parent == EXAMPLES else "")
        if note.startswith("not run: "):
            continue
        run = _RUN.match(note)
        if run is None:
            raise ValueError(
                f"{page}:{number}: a console block needs `<!-- run -->` or `<!-- not run: WHY -->` before it"
            )
        statuses = [int(part) for part in (run["status"] or "0").split()]
        commands = _commands(match["body"], statuses)
        found.append(Block(page, number, commands, run["place"], manifests))
    return found


def _commands(body: str, statuses: list[int]) -> tuple[Command, ...]:
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    statuses += statuses[-1:] * (len(parts) - len(statuses))
    commands = []
    for part, status in zip(parts, statuses, strict=True):
        line, *output = part.splitlines()
        commands.append(Command(line, status, tuple(line for line in output if line.strip(" ."))))
    return tuple(commands)
