"""The project around a directory, as pytest would find it: its rootdir, its ini file, its benchmarks."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .finder import Finder, Named

_INI_FILES = (
    "pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg",
)  # fmt: skip
_SECTIONS = {"pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]", "setup.cfg": "[tool:pytest]"}
"""Section of pytest in files that other tools use too."""


def rootdir(here: Path | None = None) -> Path:
    """Guess the rootdir of pytest before it runs: where its ini file is, else a pyproject.toml, else here."""
    here = here or Path.cwd()
    around = (here, *here.parents)
    configured = next(filter(is_configured, around), None)
    return configured or next((place for place in around if (place / "pyproject.toml").is_file()), here)


def benchmark_directories(root: Path | None = None) -> list[Path]:
    """Directories that `--bench` looks for benchmarks in: the rootdir, and those of the ini key `bench_paths`."""
    root = root or rootdir()
    return [root, *(root / name for name in _lines(root, "bench_paths") or ("benchmarks",))]


def named_benchmarks(root: Path | None = None) -> dict[str, Named]:
    """Return the benchmarks that the ini key `bench_benchmarks` names. Raises InputError: a line is wrong."""
    from .finder import read_lines

    root = root or rootdir()
    return read_lines(_lines(root, "bench_benchmarks"), root)


def finder_of(root: Path | None = None, **more: Any) -> Finder:
    """Return what finds benchmarks of the project, by default the one around the current directory."""
    from .finder import Finder

    return Finder(benchmark_directories(root), named_benchmarks(root), **more)


def ini_value(place: Path, key: str) -> str | None:
    """Return the value of a key in the ini file of pytest in this directory."""
    found = _ini(place, key)
    return str(found) if found else None


def _lines(place: Path, key: str) -> list[str]:
    found = _ini(place, key) or ""
    lines = map(str, found) if isinstance(found, list) else str(found).split("\n")
    return [line.strip() for line in lines if line.strip()]


def _ini(place: Path, key: str) -> object:
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
            continue  # pytest reports what is wrong with it
        if found:
            return found
    return None


def is_configured(place: Path) -> bool:
    """Return whether an ini file makes this directory a rootdir of pytest."""
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
