"""`scenario`: write, list, show, validate and import scenarios of your own."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..model.errors import InputError
from ..report.table import Column, render, width
from ..report.units import counted
from ..store.text import one_line
from ._directory import GivenPath
from ._output import emit, output_option, say
from ._scenarios import (
    Found,
    Named,
    document_of,
    found,
    item_of,
    lines_of,
    places,
    sources,
)
from .check import check_command

if TYPE_CHECKING:
    from ..report.documents.scenarios import ImportDocument, ScenarioItem


@click.group()
def scenario() -> None:
    """Write, list, show, validate and import scenarios of your own."""


@scenario.command()
@click.argument("name", metavar="ID")
@click.option(
    "--in",
    "manifest",
    type=GivenPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Manifest it goes to.  [default: the only one in benchmarks/, else a new one]",
)
@click.option("--statement", metavar="TEXT", help="Problem statement.")
@click.option("--reference", metavar="SCRIPT", help="Shell script that solves it.")
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="COMMAND",
    help="Command that ends with 0 if the work is right; several share the score.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="TARGET=PATH",
    help="File in the container, relative to the workdir, and the one it is copied from; repeatable.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag, repeatable.")
@click.option("--image", metavar="IMAGE", help="Image.  [default: that of the manifest's defaults]")
def new(
    name: str,
    manifest: Path | None,
    statement: str | None,
    reference: str | None,
    checks: tuple[str, ...],
    files: tuple[str, ...],
    tags: tuple[str, ...],
    image: str | None,
) -> None:
    """Write a scenario with this ID, and ask nothing: what is not given is seen, or an example that passes.

    It is added at the end of a manifest, whose comments stay, or to a new one. A manifest in which it would be wrong
    stays as it is.
    """
    from ._new_scenario import add, example, manifest_for

    content = {"--statement": statement, "--check": checks, "--reference": reference}
    if any(content.values()) and not (statement and checks):
        missing = " and ".join(option for option in ("--statement", "--check") if not content[option])
        raise click.UsageError(
            f"{missing} is missing; without --statement, --reference and --check an example is written, to be edited"
        )
    path = manifest_for(manifest)
    made: dict[str, Any] = {"id": name}
    if tags:
        made["tags"] = [*tags]
    if files:
        made["files"] = dict(_pair(text, path) for text in files)
    if statement is None:
        made |= example(name)
    else:
        made["problem_statement"] = statement
        if reference is not None:
            made["reference"] = reference
        numbered = [(f"check-{number}", command) for number, command in enumerate(checks, 1)]
        made["scorers"] = [
            {**({"name": label} if len(checks) > 1 else {}), "type": "command", "command": command}
            for label, command in numbered
        ]
    is_new = not path.exists()
    for written in add(path, made, image):
        shown = os.path.relpath(written)
        say(f"{'wrote' if is_new else 'added'}  {shown if is_new else f'{name} to {shown}'}")
    shown = os.path.relpath(path)
    say(f"next   edit {shown}, then: benchjobs scenario validate {shown}::{name}")


def _pair(text: str, manifest: Path) -> tuple[str, str]:
    target, sign, path = text.partition("=")
    if not sign or not target or not path:
        raise click.UsageError(f"--file: TARGET=PATH is expected, not {text!r}")
    return target, os.path.relpath(path, manifest.parent)


@scenario.command("list")
@click.argument("whats", nargs=-1, metavar="[PATH|NAME]...")
@output_option
def list_(whats: tuple[str, ...], output: str) -> int:
    """List scenarios of benchmarks in PATHS, or of those known by NAME; by default those in `benchmarks/`.

    A file with a mistake is told, the others are listed, and the exit status is 1.
    """
    from ..report.documents.scenarios import ScenariosDocument

    items: list[ScenarioItem] = []
    wrong = False
    for named in places(whats):
        try:
            items += map(item_of, found(named))
        except InputError as error:
            wrong = True
            say(str(error), err=True)
    emit(ScenariosDocument(scenarios=tuple(items)), lambda: _table(items), output)
    return 1 if wrong else 0


def _table(items: Sequence[ScenarioItem]) -> Iterator[str]:
    columns = (
        Column("scenario", least=20),
        Column("tags", spare=True),
        Column("scorers"),
        Column("file", least=20),
    )
    rows = [
        (
            one_line(f"{item.benchmark}::{item.scenario}", 200),
            one_line(", ".join((*item.tags, *(["archived"] if item.archived else []))), 60),
            one_line(", ".join(item.scorers), 60),
            one_line(f"{item.file}:{item.line}" if item.line else item.file, 200),
        )
        for item in items
    ]
    yield from render(columns, rows, width())
    yield counted(len(items), "scenario")


@scenario.command()
@click.argument("what", metavar="PATH::ID|NAME::ID|ID")
@output_option
def show(what: str, output: str) -> None:
    """Show a scenario: what is asked, where it runs, how it is graded. Its reference and its tests are not shown."""
    named = Named.read(what)
    listed = list(found(named)) if named.scenario is not None else _called(what)
    if len(listed) != 1:
        places_of = ", ".join(f"{os.path.relpath(one.source.path)}::{what}" for one in listed)
        raise click.ClickException(
            f"there are several scenarios {what!r}; name one: {places_of}"
            if listed
            else f"there is no scenario {what!r} here; `benchjobs scenario list` lists them"
        )
    document = document_of(listed[0])
    emit(document, lambda: lines_of(document), output)


def _called(what: str) -> list[Found]:
    """Find the scenarios with an id. A file with a mistake is told, and hides no scenario of the others."""
    listed: list[Found] = []
    for place in places(()):
        try:
            own = sources(place.place)
        except InputError as error:
            say(str(error), err=True)
            continue
        for source in own:
            try:
                listed += [Found(source, ref) for ref in source.refs() if ref.id == what]
            except InputError as error:
                say(str(error), err=True)
    return listed


scenario.add_command(check_command(reads_first=True), "validate")


@scenario.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path), metavar="FILE|DIRECTORY")
@click.option(
    "--to",
    type=GivenPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Manifest to write.  [default: benchmarks/NAME.bench.yaml]",
)
@click.option("--image", metavar="IMAGE", help="Image of the scenarios, instead of Runloop's blueprints.")
@output_option
def import_(path: Path, to: Path | None, image: str | None, output: str) -> int:
    """Write a manifest from scenarios of Runloop, FILE.json, or one that borrows the Harbor tasks in DIRECTORY.

    FILE.json is what Runloop's API shows: one scenario, a list, or a page. What has no equivalent is named. Exit
    status 1 when the manifest needs to be corrected.
    """
    from ._import_scenarios import import_from

    document = import_from(path, to, image)
    emit(document, lambda: _imported(document), output)
    return 1 if document.mistakes else 0


def _imported(document: ImportDocument) -> Iterator[str]:
    yield f"wrote  {document.file}: {counted(len(document.scenarios), 'scenario')}"
    for name in document.written:
        yield f"wrote  {one_line(name, 300)}"
    for left in document.left_out:
        yield f"left   {one_line(f'{left.scenario}: {left.key}: {left.why}', 500)}"
    for line in document.mistakes:
        yield f"wrong  {one_line(line, 500)}"
    yield f"next   benchjobs scenario validate {document.file}"
