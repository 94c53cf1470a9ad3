"""`scenario`: write, list, show, validate and import scenarios of your own."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from ..model.errors import InputError
from ..report.documents import mirror
from ..report.documents.changes import WrittenDocument, WrittenFile
from ..report.documents.scenarios import ImportDocument, LeftOut, ScenarioItem, ScenariosDocument
from ..report.table import Column, tabulate, width
from ..report.units import counted
from ..sources import find_sources
from ..sources.manifest import Manifest, is_manifest
from ..sources.manifest_text import editor_line, manifest_text, to_yaml, with_scenario
from ..sources.project import benchmark_directories
from ..sources.runloop import imported, read_scenarios
from ..store.text import one_line
from ._checkout import look_at
from ._directory import GivenPath
from ._output import emit, output_option, say
from ._run_options import Named
from ._scenarios import Found, document_of, found, item_of, lines_of, places, sources
from ._schema_file import write_schema
from .check import check_command


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
@output_option("written")
def new(
    *,
    name: str,
    manifest: Path | None,
    statement: str | None,
    reference: str | None,
    checks: tuple[str, ...],
    files: tuple[str, ...],
    tags: tuple[str, ...],
    image: str | None,
    output: str,
) -> None:
    """Write a scenario with this ID, without questions: what is not given is detected, or an example that passes.

    It is added at the end of a manifest, whose comments stay, or to a new one. A manifest in which it would be wrong
    stays as it is.
    """
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
    action: Literal["added", "wrote"] = "added" if path.exists() else "wrote"
    files_written = [WrittenFile(path=os.path.relpath(one), action=action) for one in add(path, made, image)]
    shown = os.path.relpath(path)
    step = f"edit {shown}, then: benchjobs scenario validate {shown}::{name}"

    def lines() -> Iterator[str]:
        for one in files_written:
            yield f"{action}  {one.path if action == 'wrote' else f'{name} to {one.path}'}"
        yield f"next   {step}"

    emit(WrittenDocument(files=tuple(files_written), notes=(step,)), lines, output)


def _pair(text: str, manifest: Path) -> tuple[str, str]:
    target, sign, path = text.partition("=")
    if not sign or not target or not path:
        raise click.UsageError(f"--file: TARGET=PATH is expected, not {text!r}")
    return target, os.path.relpath(path, manifest.parent)


@scenario.command("list")
@click.argument("whats", nargs=-1, metavar="[PATH|NAME]...")
@output_option("scenarios")
def list_(whats: tuple[str, ...], output: str) -> int:
    """List scenarios of benchmarks in PATHS, or of those known by NAME; by default those in `benchmarks/`.

    A file with a mistake is reported, the others are listed, and the exit status is 1.
    """
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
    shown = [
        (Column("scenario", least=20, most=200), lambda item: f"{item.benchmark}::{item.scenario}"),
        (
            Column("tags", most=60, spare=True),
            lambda item: ", ".join((*item.tags, *(["archived"] if item.archived else []))),
        ),
        (Column("scorers", most=60), lambda item: ", ".join(item.scorers)),
        (
            Column("file", least=20, most=200),
            lambda item: f"{item.file}:{item.line}" if item.line else item.file,
        ),
    ]
    yield from tabulate(items, width(), shown)
    yield counted(len(items), "scenario")


@scenario.command()
@click.argument("what", metavar="PATH::ID|NAME::ID|ID")
@output_option("scenario")
def show(what: str, output: str) -> None:
    """Show a scenario: what is asked, where it runs, how it is graded. Its reference and its tests are not shown."""
    named = Named.read(what)
    listed = list(found(named)) if named.scenario is not None else _called(what)
    if len(listed) != 1:
        places_of = ", ".join(f"{os.path.relpath(one.source.path)}::{what}" for one in listed)
        raise InputError(
            f"there are several scenarios {what!r}; name one: {places_of}"
            if listed
            else f"there is no scenario {what!r} here; `benchjobs scenario list` lists them"
        )
    document = document_of(listed[0])
    emit(document, lambda: lines_of(document), output)


def _called(what: str) -> list[Found]:
    """Find the scenarios with an id. A file with a mistake is reported, and the others are still searched."""
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
@output_option("scenario-import")
def import_(path: Path, to: Path | None, image: str | None, output: str) -> int:
    """Write a manifest from scenarios of Runloop, FILE.json, or one that borrows the Harbor tasks in DIRECTORY.

    FILE.json is what Runloop's API shows: one scenario, a list, or a page. What has no equivalent is named. Exit
    status 1 when the manifest needs to be corrected.
    """
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


def manifest_for(given: Path | None) -> Path:
    """Return the manifest that a new scenario goes to: the one given, else the only one there is, else a new one."""
    if given is not None:
        if not is_manifest(given):
            raise InputError(f"--in {given}: a manifest ends in .bench.yaml, .bench.yml or .bench.toml")
        return given
    root, *directories = benchmark_directories()
    listed = [path for place in (root, *directories) for path in sorted(place.glob("*")) if is_manifest(path)]
    if len(listed) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in listed[:5])
        raise InputError(f"there are several manifests; choose one with --in: {names}")
    if listed:
        return listed[0]
    return (directories or [root])[0] / f"{look_at(Path.cwd(), None, 'none').project}.bench.yaml"


def example(name: str) -> dict[str, Any]:
    """Return a scenario that passes, to be edited."""
    return {
        "id": name,
        "problem_statement": f'Write the word "{name}" to /app/out.txt.',
        "reference": f"echo {name} > /app/out.txt",
        "scorers": [{"name": "right", "type": "command", "command": f"grep -qx {name} /app/out.txt"}],
    }


def add(path: Path, scenario: Mapping[str, Any], image: str | None) -> list[Path]:
    """Add a scenario to a manifest, which stays as it is if it would be wrong, or write one; return what is written."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.name.partition(".bench.")[0]
        header = {
            "benchmark": name,
            "version": "1.0",
            "defaults": {"image": image or look_at(Path.cwd(), None, "none").image, "workdir": "/app"},
        }
        if path.suffix == ".toml":
            text = _toml_header(header) + _toml(scenario)
        else:
            text = manifest_text(path, header, [dict(scenario)])
        return [*_write_manifest(path, text, None), *write_schema(path.parent)]
    before = path.read_text("utf-8")
    if scenario["id"] in {ref.id for ref in Manifest(path).refs()}:
        raise InputError(f"has a scenario {scenario['id']!r} already", path=path)
    table = {**scenario, **({"image": image} if image is not None else {})}
    item = _toml(table) if path.suffix == ".toml" else to_yaml([table])
    return _write_manifest(path, with_scenario(path, before, item), before)


def _write_manifest(path: Path, text: str, before: str | None) -> list[Path]:
    """Write a manifest; if that is wrong, it is as before."""
    path.write_text(text, "utf-8")
    try:
        Manifest(path).refs()
    except InputError:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, "utf-8")
        raise
    return [path]


def _toml_header(header: Mapping[str, Any]) -> str:
    lines = [f"{key} = {_toml_value(value)}" for key, value in header.items()]
    return editor_line(Path("x.toml")) + "\n".join(lines) + "\n\n"


def _toml(scenario: Mapping[str, Any]) -> str:
    """Return a scenario as a table of an array."""
    lines = [f"{key} = {_toml_value(value)}" for key, value in scenario.items()]
    return "[[scenarios]]\n" + "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(key))} = {_toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def import_from(path: Path, to: Path | None, image: str | None) -> ImportDocument:
    """Write a manifest, and the files that its scenarios need, beside it."""
    name = path.absolute().name.partition(".")[0] or "imported"
    target = to or Path("benchmarks") / f"{name}.bench.yaml"
    if not is_manifest(target) or target.suffix == ".toml":
        raise InputError(f"--to {target}: a name that ends in .bench.yaml is expected")
    header = {"benchmark": target.name.partition(".bench.")[0], "version": "1.0"}
    if target.exists() and not (image and path.is_file() and _lacks_image(path, target, header)):
        raise InputError(f"{target} exists already; name another with --to")
    scenarios, files, left = _borrowed(path, target) if path.is_dir() else _of_runloop(path, image)
    there = [
        one
        for one, content in files.items()
        if (target.parent / one).exists() and not _has(target.parent / one, content)
    ]
    if there:
        raise InputError(f"{target.parent / there[0]} exists already; write to another directory with --to")
    target.parent.mkdir(parents=True, exist_ok=True)
    for one, content in files.items():
        place = target.parent / one
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, "utf-8")
    target.write_text(manifest_text(target, header, scenarios), "utf-8")
    write_schema(target.parent)
    return ImportDocument(
        file=os.path.relpath(target),
        scenarios=tuple(str(one.get("id") or one["from"].rpartition("::")[2]) for one in scenarios),
        written=tuple(os.path.relpath(target.parent / one) for one in files),
        left_out=tuple(left),
        mistakes=_mistakes(target),
    )


def _lacks_image(path: Path, target: Path, header: dict[str, str]) -> bool:
    """Return whether a manifest is what the same import wrote without an image, not edited, and is refused as it is."""
    text = manifest_text(target, header, _of_runloop(path, None)[0])
    return _has(target, text) and any("image: is missing" in line for line in _mistakes(target))


def _has(path: Path, content: str) -> bool:
    try:
        return path.read_bytes() == content.encode()
    except OSError:
        return False


def _of_runloop(path: Path, image: str | None) -> tuple[list[dict[str, Any]], dict[str, str], list[LeftOut]]:
    scenarios: list[dict[str, Any]] = []
    files: dict[str, str] = {}
    left: list[LeftOut] = []
    for data in read_scenarios(path):
        one = imported(data, image, {str(other["id"]) for other in scenarios})
        scenarios.append(one.scenario)
        files |= one.files
        left += [mirror(LeftOut, item) for item in one.left]
    return scenarios, files, left


def _borrowed(path: Path, target: Path) -> tuple[list[dict[str, Any]], dict[str, str], list[LeftOut]]:
    """Harbor tasks stay as they are: the manifest borrows them."""
    scenarios, left = [], []
    for source in find_sources(path.absolute()):
        place = os.path.relpath(source.path, target.absolute().parent)
        try:
            scenarios += [{"from": f"{place}::{ref.id}"} for ref in source.refs()]
        except InputError as error:
            left.append(LeftOut(scenario=source.path.name, key="task", why=str(error).partition("\n")[0]))
    if not scenarios:
        raise InputError("has no Harbor task or manifest that can be read", path=path)
    return scenarios, {}, left


def _mistakes(path: Path) -> tuple[str, ...]:
    try:
        Manifest(path).refs()
    except InputError as error:
        errors = error.errors
        return tuple(f"{os.path.relpath(path)}:{one.line}: {one.message}" for one in errors)
    return ()
