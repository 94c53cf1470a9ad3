"""`resume --detach`: a job that is there already goes on in the background."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..job.detach import why_it_ended
from ..model.errors import InfrastructureError, InputError
from ..model.job import JobRecord, JobStatus
from ..store.bundle import JobBundle
from ._output import emit

if TYPE_CHECKING:
    from ._pytest_call import Call

_PATIENCE = 2.0
"""Seconds until it counts as started. Most mistakes show before that."""
_POLL = 0.05


def start(call: Call, directory: Path, record: JobRecord, output: str) -> int:
    """Start it, and say what became of it.

    Raises:
        InputError: pytest ended at once; with what it said.
        InfrastructureError: nothing can be written to the job's directory.

    """
    from ..report.documents.detach import DetachDocument

    bundle = JobBundle.open(directory, record.id)
    log = bundle.layout.log
    try:
        _set_aside(log)
        with log.open("ab") as file:
            process = subprocess.Popen(
                call.command,
                cwd=call.directory,
                env=call.environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise InfrastructureError(f"{bundle.root}: the job cannot be started: {error.strerror}") from error
    deadline = time.monotonic() + _PATIENCE
    while (status := process.poll()) is None and time.monotonic() < deadline:
        if (now := bundle.read()).owner.pid == process.pid and now.status is JobStatus.RUNNING:
            break
        time.sleep(_POLL)
    now = bundle.read()
    if status is not None and now.owner.pid != process.pid:
        raise InputError(f"{why_it_ended(log, status)}; pytest's output is in {log}")
    process.returncode = 0  # it goes on without us
    document = DetachDocument(
        job=record.id,
        name=record.name,
        status=now.status,
        planned=now.planned,
        agent_timeout=now.config.agent_timeout,
        message=now.message,
        pid=process.pid,
        directory=str(bundle.root),
        log=str(log),
    )
    emit(document, lambda: [f"Benchmark job resumed: {record.id}"], output)
    click.echo(f'Follow the run with "benchjobs watch {record.id}"', err=output != "text")
    return 0


def _set_aside(log: Path) -> None:
    """Keep what the job printed before under `pytest-1.log`, `pytest-2.log`, ..."""
    number = 1
    while (older := log.with_name(f"{log.stem}-{number}{log.suffix}")).exists():
        number += 1
    if log.exists():
        log.rename(older)
