"""`schema`: the JSON Schema of a file, or of what a command prints."""

from __future__ import annotations

import json

import click

_WRITTEN = ("manifest", "settings", "description", "known")


@click.command()
@click.argument("name")
def schema(name: str) -> None:
    """Print the JSON Schema of a file (*.bench.yaml, profiles, result.json, job.json), or of what a command prints.

    NAME is manifest, settings (profiles and job files), description (*.agent.yaml), known (bench-known.toml),
    result, job, or the name of a command with `-o json`; for export, of a line of JSON.
    """
    from ..report.documents import DOCUMENTS, schema_of

    if name not in _WRITTEN and name not in DOCUMENTS:
        names = ", ".join((*_WRITTEN, *DOCUMENTS))
        raise click.ClickException(f"there is no schema {name!r}; there are {names}")
    if name == "manifest":
        from ..sources import benchmark_schema

        found = benchmark_schema()
    elif name == "settings":
        from ..settings.written import settings_schema

        found = settings_schema()
    elif name == "description":
        from ..agents.description import description_schema

        found = description_schema()
    elif name == "known":
        from ..settings.known import known_schema

        found = known_schema()
    else:
        found = schema_of(name)
    click.echo(json.dumps(found, indent=2))
