"""Output of commands: lines of text, JSON and YAML; and the question before something is destroyed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..store.text import harmless, plain

if TYPE_CHECKING:
    from pydantic import BaseModel
_TEXT_LIMIT = 100_000
FORMATS = ("text", "json", "yaml")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class OutputOption(click.Option):
    """The option `-o` of a command, and the name of the document in `DOCUMENTS` that the command prints."""

    def __init__(self, *names: Any, document: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.document = document


def output_option(document: str) -> Callable[[_Command], _Command]:
    """Return the option `-o` for a command that prints this document of `DOCUMENTS` by `emit`."""
    return click.option(
        "-o",
        "--output",
        cls=OutputOption,
        document=document,
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help=f"How to print. `benchjobs schema {document}` describes JSON and YAML.",
    )


yes_option = click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Do not ask. Where there is no terminal, as in scripts, nothing is asked.",
)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal before something is destroyed, and end the command with status 1 unless the answer is yes."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not click.confirm(harmless(question), err=True):
        say("nothing was removed", err=True)
        raise click.exceptions.Exit(1)


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


def say_wait(what: str) -> None:
    """Print what a command waits for, if somebody looks on."""
    if sys.stderr.isatty():
        say(f"{what} ...", err=True)


def say(line: str, *, err: bool = False) -> None:
    """Print a line that may quote an agent, without control characters."""
    click.echo(harmless(line), err=err)
