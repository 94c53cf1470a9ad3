"""Writer of the reports of a job: `junit.xml`, `report.json` and `summary.md`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.gate import GateReport
from ..model.job import JobRecord
from ..model.result import TrialResult
from ..store.bundle import JobBundle

if TYPE_CHECKING:
    from .ci import Host


def write_reports(
    bundle: JobBundle,
    record: JobRecord,
    results: Sequence[TrialResult],
    gate: GateReport | None = None,
    host: Host | None = None,
) -> None:
    """Write `junit.xml`, `report.json` and `summary.md` into the bundle, each atomically.

    `gate` is the gate report of the job, `host` the CI system that will read the files.

    Raises DiskFull, ResultsUnwritable: the directory cannot be written.
    """
    from ..store.files import write_atomically
    from .json import report_json

    content = report_json(record, results, gate, bundle.root)
    write_atomically(bundle.layout.report, content, durable=False)
    summary = summary_of(bundle, record, results, gate).encode()
    write_atomically(bundle.layout.summary, summary, durable=False)
    # Last: where it exists, all reports do, even if the process was killed here.
    write_atomically(bundle.layout.junit, junit_of(bundle, record, results, gate, host), durable=False)


def summary_of(
    bundle: JobBundle, record: JobRecord, results: Sequence[TrialResult], gate: GateReport | None = None
) -> str:
    """Return the whole `summary.md`, with the last lines of logs."""
    from .excerpts import Evidence
    from .markdown import summary_markdown

    return summary_markdown(record, results, gate, Evidence(bundle.root, results, record.config))


def junit_of(
    bundle: JobBundle,
    record: JobRecord,
    results: Sequence[TrialResult],
    gate: GateReport | None = None,
    host: Host | None = None,
) -> bytes:
    """Return the whole `junit.xml`, with the paths of the CI system."""
    from ..store.layout import TrialLayout
    from .excerpts import Evidence
    from .junit import junit_xml

    def attachment(result: TrialResult) -> str | None:
        if result.confidential:
            return None
        path = TrialLayout(bundle.root / result.path).agent_log
        return host.attachment(path) if host is not None and result.path and path.is_file() else None

    def file(name: str) -> str:
        if host is None or record.invocation is None:
            return name
        return host.relative(record.invocation.rootdir / name) or name

    evidence = Evidence(bundle.root, results, record.config)
    return junit_xml(record, results, gate, attachment=attachment, file=file, evidence=evidence)
