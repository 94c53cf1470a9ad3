"""Text of a new scenario, and the manifest that it goes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..model.errors import InputError
from ..sources.manifest import Manifest, is_manifest
from ..sources.manifest_text import manifest_text, to_yaml, with_scenario
from ..store.project import benchmark_directories
from ._checkout import look_at
from ._schema_file import write_schema


def manifest_for(given: Path | None) -> Path:
    """Return the manifest that a new scenario goes to: the one given, else the only one there is, else a new one.

    Raises:
        ClickException: there are several.
    """
    if given is not None:
        if not is_manifest(given):
            raise click.ClickException(
                f"--in {given}: a manifest ends in .bench.yaml, .bench.yml or .bench.toml"
            )
        return given
    root, *directories = benchmark_directories()
    listed = [path for place in (root, *directories) for path in sorted(place.glob("*")) if is_manifest(path)]
    if len(listed) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in listed[:5])
        raise click.ClickException(f"there are several manifests; choose one with --in: {names}")
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
    """Add a scenario to a manifest, or write a new one; return the files that were written.

    Raises:
        InputError: the manifest is wrong, or would be: it stays as it is.
    """
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
        return [*_written(path, text, None), *write_schema(path.parent)]
    before = path.read_text("utf-8")
    if scenario["id"] in {ref.id for ref in Manifest(path).refs()}:
        raise InputError(f"has a scenario {scenario['id']!r} already", path=path)
    table = {**scenario, **({"image": image} if image is not None else {})}
    item = _toml(table) if path.suffix == ".toml" else to_yaml([table])
    return _written(path, with_scenario(path, before, item), before)


def _written(path: Path, text: str, before: str | None) -> list[Path]:
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
    from ..sources.manifest_text import editor_line

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
