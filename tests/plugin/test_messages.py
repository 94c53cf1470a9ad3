"""Typical mistakes, and the message each of them gets: docs/messages.md is made here, from the product itself.

With BENCHJOBS_WRITE_TABLES=1 the page is written; else it has to be as it would be written.
"""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from .conftest import Bench

PAGE = Path(__file__).parents[2] / "docs" / "messages.md"
TOY = """\
benchmark: toy
scenarios:
  - id: greeting
    image: debian:bookworm-slim
    problem_statement: Write hello to out.txt.
    reference: echo hello > out.txt
    scorers: [{type: command, command: grep -q hello out.txt}]
"""
INTRODUCTION = """\
# Messages

Mistakes that people make, and the message each of them gets. This page is made by a test, which makes each mistake in a directory
with this manifest, `toy.bench.yaml`:

```yaml
"""


class Mistake(NamedTuple):
    """Something that is typed in a directory, perhaps with a change of the manifest."""

    title: str
    command: str
    change: tuple[str, str] | None = None
    """Text of the manifest, and what stands there instead."""
    variables: tuple[tuple[str, str], ...] = ()


FILES = (
    Mistake("An unknown key", "pytest", ("    image:", "    imagee:")),
    Mistake(
        "A wrong value", "pytest", ("    problem_statement", "    agent_timeout: soon\n    problem_statement")
    ),
    Mistake("Wrong indentation", "pytest", ("    image:", "   image:")),
    Mistake("A key deeper than its neighbours", "pytest", ("    image:", "      image:")),
    Mistake("Text that needs quotes", "pytest", ("Write hello", "Do this: write hello")),
    Mistake("A tab", "pytest", ("    image:", "\timage:")),
    Mistake("No scorer", "pytest", ("    scorers: [{type: command, command: grep -q hello out.txt}]\n", "")),
    Mistake("A scorer that does not exist", "pytest", ("type: command", "type: comand")),
    Mistake(
        "Files that are not there",
        "pytest",
        ("type: command, command: grep -q hello out.txt", "type: tests, path: tests/"),
    ),
)
OPTIONS = (
    Mistake("A misspelt option", "pytest --bench-agnet nop"),
    Mistake("A number that is none", "pytest --bench-attempts many"),
    Mistake("A scenario that does not exist", "pytest --bench-scenario greting"),
    Mistake("A benchmark that does not exist", "pytest --bench terminal-bench-3"),
    Mistake("A baseline that was never set", "pytest --bench-baseline main"),
    Mistake("A rule about a metric that does not exist", "pytest --bench-fail-on-regression mena:5pp"),
    Mistake("A variable without a value", "pytest --bench-env TOKEN"),
    Mistake("A secret that is not there", "pytest --bench-secret TOKEN=MY_TOKEN"),
    Mistake("Workers where trials at a time are meant", "benchjobs run --benchmark toy.bench.yaml -n 4"),
    Mistake("A misspelt command", "benchjobs summry last"),
    Mistake("A job that does not exist", "benchjobs summary 2026"),
)
AGENTS = (
    Mistake("A misspelt agent", "pytest --bench-agent claud-code:claude-sonnet-4-6"),
    Mistake("An agent without a model", "pytest --bench-agent codex"),
    Mistake("A model without a key", "pytest --bench-agent claude-code:claude-sonnet-4-6"),
)
ENGINE = (
    Mistake(
        "No engine", "pytest --bench-sandbox docker", None, (("DOCKER_HOST", "unix:///nonexistent.sock"),)
    ),
    Mistake("A sandbox that does not exist", "pytest --bench-sandbox dokcer"),
)
SECTIONS = {"Files": FILES, "Options and commands": OPTIONS, "Agents": AGENTS, "Where trials run": ENGINE}
_KEYS = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "TOKEN", "MY_TOKEN")


def _message(text: str, directory: Path) -> str:
    """The part of the output that is about the mistake."""
    text = text.replace(f"{directory}/", "").replace(str(directory), ".")
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "20261121-054712-4f9a2c", text)
    for pattern in (
        r"_ ERROR collecting .* _+\n((?:.*\n)+?)=+ short test summary",
        r"(?m)^(ERROR: (?:.*\n)+)",
        r"(?m)^(\d+ errors? without(?:.*\n)+?)results:",
        r"(?m)^(benchjobs: (?:.*\n)+)",
    ):
        found = re.search(pattern, text)
        if found:
            return found[1].rstrip()
    raise AssertionError(f"there is no message in:\n{text}")


def _section(bench: Bench, mistake: Mistake) -> str:
    """The text of one mistake."""
    manifest = TOY
    shown = ""
    if mistake.change is not None:
        assert TOY.count(mistake.change[0]) == 1
        manifest = TOY.replace(*mistake.change)
        changed = [line for line in manifest.splitlines() if line not in TOY.splitlines()]
        shown = "".join(f"```yaml\n{line}\n```\n\n" for line in ["\n".join(changed)] if changed)
    bench.write("toy.bench.yaml", manifest)
    program, *arguments = shlex.split(mistake.command)
    if program == "pytest":
        done = bench.run("-p", "no:cacheprovider", *arguments)
        output = f"{done.stdout.str()}\n{done.stderr.str()}\n"
        assert done.ret != 0
    else:
        ended = bench.benchjobs(*arguments)
        output = f"{ended.stdout}\n{ended.stderr}\n"
        assert ended.returncode != 0
    assert "Traceback" not in output
    message = textwrap.indent(_message(output, bench.path), "")
    variables = "".join(f"{name}={value} " for name, value in mistake.variables)
    return f"### {mistake.title}\n\n{shown}```text\n$ {variables}{mistake.command}\n{message}\n```\n"


def test_each_mistake_gets_the_message_of_the_page(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("pytest.ini", "[pytest]\n")
    (bench.path / "conftest.py").unlink()
    for name in _KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    parts = [f"{INTRODUCTION}{TOY}```\n"]
    for title, mistakes in SECTIONS.items():
        parts.append(f"## {title}\n")
        for mistake in mistakes:
            with monkeypatch.context() as patched:
                for name, value in mistake.variables:
                    patched.setenv(name, value)
                parts.append(_section(bench, mistake))
    page = "\n".join(parts)
    if os.environ.get("BENCHJOBS_WRITE_TABLES") == "1":
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page
