"""Output of commands: lines of text, JSON and YAML."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from ..store.text import harmless, plain

if TYPE_CHECKING:
    from pydantic import BaseModel
_TEXT_LIMIT = 100_000
FORMATS = ("text", "json", "yaml")

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How to print.",
)


def emit(document: BaseModel, lines: Callable[[], Iterable[str]], output: str) -> None:
    """Print a document: as `lines` for people, else as JSON or YAML, with nothing else on stdout."""
    if output == "text":
        for line in lines():
            say(line)
        return

    # YAML is for people as well: what a terminal would take for a command, or for another line, goes.
    data = plain(document.model_dump(mode="json", by_alias=True), _TEXT_LIMIT)
    if output == "json":
        click.echo(json.dumps(data, indent=1))
        return
    import yaml

    # The one in C is ten times as fast, and not everywhere.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True), nl=False)


def say(line: str, *, err: bool = False) -> None:
    """Print a line in which there may be words of an agent."""
    click.echo(harmless(line), err=err)
