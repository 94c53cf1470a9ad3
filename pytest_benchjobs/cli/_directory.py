"""Paths that commands take: types, and the options for the results directory and for high scores."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..sources.project import ini_value
from ..store.layout import Layout
from ..store.project import default_directory
from ..system.paths import is_directory


class GivenPath(click.Path):
    """A path that need not exist, but can."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return it as a `Path`."""
        found = super().convert(value, param, ctx)
        try:
            os.lstat(found)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError) as error:
            self.fail(f"{value[:100]!r}: {getattr(error, 'strerror', None) or error}", param, ctx)
        return found


FILE = GivenPath(dir_okay=False, path_type=Path)
DIRECTORY = GivenPath(file_okay=False, path_type=Path)


def _existing(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """Return the directory, which exists if it was typed; the default one may be empty before the first job."""
    typed = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if typed and not is_directory(value):
        raise click.BadParameter(f"there is no directory {str(value)!r}", ctx, param)
    return value


_directory_option = functools.partial(
    click.option,
    "--dir",
    "directory",
    type=DIRECTORY,
    default=default_directory,
    show_default="bench_dir of the ini file, else reports/ of the project",
    help="Where jobs and the history are.",
)
directory_option = _directory_option(callback=_existing)
new_directory_option = _directory_option()
"""For commands that can make it."""


if TYPE_CHECKING:
    from ..model.comparison import HighScore

high_scores_option = click.option(
    "--high-scores",
    type=FILE,
    help="File with high scores of benchmarks.  [default: bench_high_scores_file of the ini file]",
)


def high_scores_of(given: Path | None, directory: Path) -> dict[str, HighScore]:
    """Read the given file, else the one of the project that has the results in `directory`."""
    from ..settings.high_scores import read_high_scores

    if given is not None:
        return read_high_scores(given)
    for place in (Path.cwd(), *Path.cwd().parents):
        named = ini_value(place, "bench_high_scores_file")
        if named:
            return read_high_scores(place / named)
        if Layout(place / directory.name).jobs.is_dir():
            break
    return {}
