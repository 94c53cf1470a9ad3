"""`schema`: print the JSON Schema of a file, or of a command's output."""

from __future__ import annotations

import importlib
import json

import click

from ..model.errors import InputError
from ..report.documents import DOCUMENTS, schema_of

_WRITTEN = {
    "manifest": ("..sources", "benchmark_schema"),
    "settings": ("..settings.written", "settings_schema"),
    "description": ("..agents.description", "description_schema"),
    "known": ("..settings.known", "known_schema"),
}
"""Schemas of files that people write: name -> module and function."""


@click.command()
@click.argument("name")
def schema(name: str) -> None:
    """Print the JSON Schema of a file (*.bench.yaml, profiles, result.json, job.json), or of a command's output.

    NAME is manifest, settings (profiles and job files), description (*.agent.yaml), known (bench-known.toml),
    result, job, or the name of a command with `-o json`; that of export describes a line of JSON.
    """
    if name not in _WRITTEN and name not in DOCUMENTS:
        names = ", ".join((*_WRITTEN, *DOCUMENTS))
        raise InputError(f"there is no schema {name!r}; there are {names}")
    if name in _WRITTEN:
        module, function = _WRITTEN[name]
        found = getattr(importlib.import_module(module, __package__), function)()
    else:
        found = schema_of(name)
    click.echo(json.dumps(found, indent=2))
