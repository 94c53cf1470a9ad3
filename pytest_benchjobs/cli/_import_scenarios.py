"""Manifests made of scenarios of other systems."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..report.documents.scenarios import ImportDocument, LeftOut
from ..sources import find_sources
from ..sources.manifest import Manifest, is_manifest
from ..sources.manifest_text import manifest_text
from ..sources.runloop import imported, read_scenarios
from ._schema_file import write_schema


def import_from(path: Path, to: Path | None, image: str | None) -> ImportDocument:
    """Write a manifest, and the files that its scenarios need, beside it.

    Raises:
        InputError: there are no scenarios that are known.
        ClickException: the manifest, or one of the files, is there already.
    """
    name = path.absolute().name.partition(".")[0] or "imported"
    target = to or Path("benchmarks") / f"{name}.bench.yaml"
    if not is_manifest(target) or target.suffix == ".toml":
        raise click.ClickException(f"--to {target}: a name that ends in .bench.yaml is expected")
    header = {"benchmark": target.name.partition(".bench.")[0], "version": "1.0"}
    if target.exists() and not (image and path.is_file() and _lacks_image(path, target, header)):
        raise click.ClickException(f"{target} exists already; name another with --to")
    scenarios, files, left = _borrowed(path, target) if path.is_dir() else _of_runloop(path, image)
    there = [
        one
        for one, content in files.items()
        if (target.parent / one).exists() and not _has(target.parent / one, content)
    ]
    if there:
        raise click.ClickException(
            f"{target.parent / there[0]} exists already; write to another directory with --to"
        )
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
        left += [LeftOut(scenario=item.scenario, key=item.key, why=item.why) for item in one.left]
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
