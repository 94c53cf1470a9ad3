"""Where results of the project around the current directory are."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..sources.project import ini_value, is_configured
from .layout import Layout


def default_directory() -> Path:
    """Return the results directory of the current project: the one with jobs, else the one new jobs would use."""
    here = Path.cwd()
    for place in (here, *here.parents):
        candidate = directory_of(place)
        if Layout(candidate).jobs.is_dir() or is_configured(place):
            return candidate
    return directory_of(here)


def directory_of(root: Path) -> Path:
    """Return the results directory of a project."""
    return root / (ini_value(root, "bench_dir") or "reports")


def directory_argument(directory: Path) -> str:
    """Return the option that a command needs to find these results from here, with a blank before it; often none."""
    try:
        if directory.absolute() == default_directory().absolute():
            return ""
        directory = directory.absolute().relative_to(Path.cwd())
    except (OSError, ValueError):
        pass
    return f" --dir {shlex.quote(str(directory))}"
