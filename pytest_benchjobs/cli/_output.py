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
    """Print a document: `lines` as text, else JSON or YAML, with nothing else on stdout."""
    if output == "text":
        for line in lines():
            say(line)
        return

    # People read YAML on terminals too: remove control characters and line separators.
    data = plain(document.model_dump(mode="json", by_alias=True), _TEXT_LIMIT)
    if output == "json":
        click.echo(json.dumps(data, indent=1))
        return
    import yaml

    # The dumper in C is ten times as fast, but not installed everywhere.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True), nl=False)


def say(line: str, *, err: bool = False) -> None:
    """Print a line that may quote an agent, without control characters."""
    click.echo(harmless(line), err=err)
