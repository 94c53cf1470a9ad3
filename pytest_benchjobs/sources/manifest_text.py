"""Writing manifests: plain data as YAML that people go on editing, and scenarios added to a manifest that exists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ..model.errors import InputError
from .documents import parse_document

SCHEMA_FILE = ".bench.schema.json"
"""The JSON Schema of manifests, beside those that name it for editors."""
_LANGUAGE_SERVER = "# yaml-language-server: $schema={}\n"
_TAPLO = "#:schema {}\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text and not re.search(r"[ \t]\n|\t", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(data: object) -> str:
    """Plain data as YAML."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def editor_line(path: Path, schema: str = f"./{SCHEMA_FILE}") -> str:
    """The first line of a manifest by which editors find its JSON Schema: in the words of YAML's or TOML's."""
    return (_TAPLO if path.suffix == ".toml" else _LANGUAGE_SERVER).format(schema)


def manifest_text(path: Path, header: Mapping[str, Any], scenarios: list[dict[str, Any]]) -> str:
    """A whole manifest."""
    return editor_line(path) + to_yaml({**header, "scenarios": scenarios})


def with_scenario(path: Path, text: str, scenario: str) -> str:
    """The text of a manifest with a scenario, the lines of a list item without indentation, after the last one.

    Raises InputError: it has no place at its end for one, or is wrong.
    """
    before = parse_document(path, text, keys="manifest.md").data
    added = f"{text.rstrip()}\n\n{scenario}" if path.suffix == ".toml" else _appended_yaml(text, scenario)
    try:
        after = parse_document(path, added, keys="manifest.md").data
    except InputError:
        after = {}
    if after.get("scenarios", [])[:-1] != before.get("scenarios") or {**after, "scenarios": 0} != {
        **before,
        "scenarios": 0,
    }:
        raise InputError(
            "`scenarios` is not at its end, or not a list of lines that begin with `-`", path=path
        )
    return added


def _appended_yaml(text: str, scenario: str) -> str:
    found = re.search(r"^scenarios:[^\n]*\n(?:[ \t]*(?:#[^\n]*)?\n)*([ ]*)-", text, re.MULTILINE)
    indent = found[1] if found else "  "
    lines = [f"{indent}{line}" if line else "" for line in scenario.splitlines()]
    return f"{text.rstrip()}\n" + "\n".join(("", *lines)) + "\n"
