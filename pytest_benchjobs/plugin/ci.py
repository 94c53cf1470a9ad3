"""Output for CI systems: files, and workflow commands at the very end of pytest's output."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..model.errors import BenchError
from ..report.ci import Host, Places, comment, metrics_text, publish
from ..report.write import summary_of
from ..store.files import write_atomically
from ..store.text import harmless, one_line
from .items import TrialItem
from .job_settings import settings_of
from .options import flag
from .state import state_of

if TYPE_CHECKING:
    from ..model.job import JobRecord
    from .state import Job


def host_of(config: pytest.Config) -> Host | None:
    """Return the CI system this process runs in, if output for it is wanted."""
    return Host.find(settings_of(config).ci, os.environ)


def write_files(config: pytest.Config, job: Job) -> None:
    """Write the files of `--bench-export`, and of the options that name one kind. Errors go to the summary."""
    settings = settings_of(config)
    record, results = job.ended, job.results
    if record is None:
        return
    gate = None if job.judged is None else job.judged.shown
    for option, path, kind in settings.outputs:
        try:
            if kind == "markdown":
                summary = summary_of(job.bundle, record, results, gate)
                _write(path, comment(record, results, summary, host_of(config)))
            elif kind == "metrics":
                _write(path, metrics_text(record, results, gate))
            else:
                _export(record, path, kind)
        except (BenchError, OSError) as error:
            job.problems.lines.append(f"{flag(option)}: {error}")


def _export(record: JobRecord, path: Path, kind: str) -> None:
    """Write the job in a format."""
    from ..store.reader import HistoryReader
    from ..viewer.export import Export
    from ..viewer.results import Results

    directory = record.config.directory
    with HistoryReader.of(directory) as history:
        Export(kind, Results(directory), history, [record.id]).write(path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def tell(config: pytest.Config, job: Job) -> None:
    """Write the files for the CI system, and print its command lines: also with `-q`, and as the last lines."""
    session, host, record = state_of(config).session, host_of(config), job.ended
    if host is None or session is None or record is None:
        return
    gate = None if job.judged is None else job.judged.shown
    lines, troubles = publish(
        host,
        record=record,
        results=job.results,
        gate=gate,
        summary=summary_of(job.bundle, record, job.results, gate),
        status=int(session.exitstatus),
        places=_places(session),
    )
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    stream = sys.stdout if terminal is None else terminal._tw._file
    for line in [*(one_line(harmless(trouble), 500) for trouble in troubles), *lines]:
        stream.write(f"{line}\n")
    stream.flush()


def _places(session: pytest.Session) -> Places:
    """Return the places of scenarios collected by this process. The xdist controller collects none."""
    lines = {
        (item.nodeid.partition("::")[0], item.ref.id): item.ref.line
        for item in session.items
        if isinstance(item, TrialItem) and item.ref.line is not None
    }
    return Places(session.config.rootpath, lines)
