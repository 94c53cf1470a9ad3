"""What the commands share: where results are, how things are printed."""

from __future__ import annotations

import configparser
import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..store.layout import Layout

if TYPE_CHECKING:
    from pydantic import BaseModel

_INI_FILES = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
_TEXT_LIMIT = 100_000
_SECTIONS = {"pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]", "setup.cfg": "[tool:pytest]"}
"""Of files that are for others as well."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def directory_option(command: _Command) -> _Command:
    """`--dir DIR`, given to the command as `directory`."""
    return click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=default_directory,
        show_default="bench_dir of the ini file, else reports/ of the project",
        help="Where jobs and the history are.",
    )(command)


def output_option(command: _Command) -> _Command:
    """`-o text|json|yaml`, given to the command as `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml"]),
        default="text",
        show_default=True,
        help="How to print.",
    )(command)


def default_directory() -> Path:
    """The results of the project around the current directory: where its jobs are, else where they would go."""
    here = Path.cwd()
    for place in (here, *here.parents):
        candidate = directory_of(place)
        if Layout(candidate).jobs.is_dir() or _is_configured(place):
            return candidate
    return directory_of(here)


def directory_of(root: Path) -> Path:
    """Where the results of a project go."""
    return root / (ini_value(root, "bench_dir") or "reports")


def emit(document: BaseModel, lines: Callable[[], Iterable[str]], output: str) -> None:
    """Print a document: as `lines` for people, else as JSON or YAML, with nothing else on stdout."""
    from ..store.text import plain

    if output == "text":
        for line in lines():
            say(line)
        return

    # YAML is for people as well: what a terminal would take for a command, or for another line, goes.
    data = plain(document.model_dump(mode="json", by_alias=True), _TEXT_LIMIT)
    if output == "json":
        click.echo(json.dumps(data, indent=1))
        return
    import yaml

    # The one in C is ten times as fast, and not everywhere.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True), nl=False)


def say(line: str, *, err: bool = False) -> None:
    """Print a line in which there may be words of an agent."""
    from ..store.text import harmless

    click.echo(harmless(line), err=err)


def death_of(directory: Path, job_id: str) -> str | None:
    """What to say of a job that only seems to go on, since its process died; None of any other."""
    from ..report.overview import died

    if not died(directory, job_id):
        return None
    return (
        f"job {job_id} runs no more, its process died: `benchjobs resume {job_id}` finishes it, "
        "`benchjobs recover` closes it"
    )


def ini_value(place: Path, key: str) -> str | None:
    """What an ini file of pytest in this directory says of a key."""
    for name in _INI_FILES:
        path = place / name
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeError):
            continue
        if key not in text:
            continue
        try:
            found = _from_toml(name, text, key) if name.endswith(".toml") else _from_ini(name, text, key)
        except (tomllib.TOMLDecodeError, configparser.Error, AttributeError):
            continue  # pytest will say what is wrong with it
        if found:
            return str(found)
    return None


def _is_configured(place: Path) -> bool:
    """Whether an ini file there makes it a rootdir of pytest."""
    for name in _INI_FILES:
        try:
            text = (place / name).read_text("utf-8")
        except (OSError, UnicodeError):
            continue
        section = _SECTIONS.get(name)
        if section is None or section in text:
            return True
    return False


def _from_toml(name: str, text: str, key: str) -> object:
    data = tomllib.loads(text)
    if name != "pyproject.toml":
        return data.get("pytest", {}).get(key)
    section = data.get("tool", {}).get("pytest", {})
    return section.get("ini_options", {}).get(key) or section.get(key)


def _from_ini(name: str, text: str, key: str) -> str | None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    section = "tool:pytest" if name == "setup.cfg" else "pytest"
    return parser.get(section, key, fallback=None)
