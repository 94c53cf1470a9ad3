"""`view-comparison`: show a stored comparison."""

from __future__ import annotations

from pathlib import Path

import click

from ..report.table import width
from ._directory import directory_option
from ._output import emit, output_option


@click.command("view-comparison")
@click.argument("comparison", default="last")
@directory_option
@output_option
def view_comparison(comparison: str, directory: Path, output: str) -> None:
    """Show a stored COMPARISON: an id, the beginning of one, or last."""
    from ..report.comparison import comparison_lines
    from ..store.comparisons import find_comparison
    from ..store.reader import HistoryReader

    with HistoryReader.of(directory) as history:
        found = find_comparison(history, comparison)
    emit(found, lambda: comparison_lines(found, width()), output)
