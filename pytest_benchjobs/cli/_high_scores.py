"""Option of commands for a file with high scores: `--high-scores`, else the one that the ini file names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..store.layout import Layout
from ..store.project import ini_value
from ._directory import FILE

if TYPE_CHECKING:
    from ..model.comparison import HighScore

high_scores_option = click.option(
    "--high-scores",
    type=FILE,
    help="File with high scores of benchmarks.  [default: bench_high_scores_file of the ini file]",
)


def high_scores_of(given: Path | None, directory: Path) -> dict[str, HighScore]:
    """Read the given file, else the one of the project that has the results in `directory`.

    Raises:
        InputError: it cannot be read, or is invalid.
    """
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
