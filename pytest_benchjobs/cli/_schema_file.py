"""The JSON Schema beside manifests, which their first line names for editors."""

from __future__ import annotations

import json
from pathlib import Path

from ..sources import benchmark_schema
from ..sources.manifest_text import SCHEMA_FILE


def schema_text() -> str:
    """Return the schema, as a file."""
    return json.dumps(benchmark_schema(), indent=1) + "\n"


def write_schema(directory: Path) -> list[Path]:
    """Write the schema into a directory of manifests, also over one of an earlier version; return it if it changed."""
    path = directory / SCHEMA_FILE
    text = schema_text()
    try:
        if path.read_text("utf-8") == text:
            return []
    except (OSError, UnicodeError):
        pass
    path.write_text(text, "utf-8")
    return [path]
