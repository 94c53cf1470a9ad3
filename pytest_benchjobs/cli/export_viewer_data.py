"""`export-viewer-data`: write `viewer_data.json`, as the viewer of an earlier runner reads it."""

from __future__ import annotations

from pathlib import Path

import click

from ..store.files import write_atomically
from ._directory import FILE, directory_option
from ._high_scores import high_scores_of, high_scores_option
from ._output import say


@click.command("export-viewer-data")
@click.option("--out", type=FILE, help="File to write.  [default: viewer_data.json in the results directory]")
@high_scores_option
@directory_option
def export_viewer_data(out: Path | None, high_scores: Path | None, directory: Path) -> None:
    """Write viewer_data.json: the newest runs and jobs, with summaries, as other tools read them.

    `benchjobs serve` has the same at /api/viewer-data.
    """
    from ..store.reader import HistoryReader
    from ..viewer.results import Results
    from ..viewer.seed import viewer_document

    with HistoryReader.of(directory) as history:
        document = viewer_document(Results(directory, high_scores_of(high_scores, directory)), history)
    target = out or directory / "viewer_data.json"
    write_atomically(
        target, (document.model_dump_json(indent=1) + "\n").encode("utf-8", "replace"), durable=False
    )
    say(f"Wrote {target}: {len(document.runs)} runs of {len(document.run_groups)} jobs")
