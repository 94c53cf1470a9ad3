"""What people and CI systems read: JUnit, JSON, Markdown, tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.job import JobRecord
from ..model.result import TrialResult
from ..store.bundle import JobBundle

REPORTS = ("junit.xml", "report.json", "summary.md")


def write_reports(bundle: JobBundle, record: JobRecord, results: Sequence[TrialResult]) -> None:
    """Write `junit.xml`, `report.json` and `summary.md` into the bundle, each in one step.

    Raises:
        DiskFull, ResultsUnwritable: the directory refuses.
    """
    from ..store.files import write_atomically
    from .json import report_json
    from .junit import junit_xml
    from .markdown import summary_markdown

    write_atomically(bundle.root / "junit.xml", junit_xml(record, results))
    write_atomically(bundle.root / "report.json", report_json(record, results))
    write_atomically(bundle.root / "summary.md", summary_markdown(record, results).encode())
