"""Jobs in the background: `run --detach` starts `background`, waits a moment, and tells what became of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from ..model.errors import InfrastructureError
from ..model.job import JobStatus
from ..store.bundle import JobBundle, new_job_id
from .background import LOG

if TYPE_CHECKING:
    from ..report.documents.detach import DetachDocument
    from .asking import Asked

_PATIENCE = 5.0
"""Seconds until a job counts as started; mistakes show before that, and as a rule the job has begun after one."""
_POLL = 0.05


def start(asked: Asked) -> DetachDocument:
    """Start a job that needs nobody any more, and wait until it runs, has failed, or has been starting for long.

    Raises:
        InfrastructureError: there is no place for its files.

    """
    from ..report.documents.detach import DetachDocument

    job_id = new_job_id()
    order = {
        "job": job_id,
        "name": asked.name,
        "directory": str(asked.directory),
        "command": [*asked.call.command, "--bench-job-id", job_id],
        "arguments": asked.call.arguments,
        "cwd": str(asked.call.directory),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.background"],
        cwd=asked.call.directory,
        env=asked.call.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101  both are pipes
    assert process.stdout is not None  # noqa: S101
    with process.stdin as stdin, process.stdout as stdout:
        stdin.write(json.dumps(order).encode())
        stdin.close()
        answer = stdout.read().decode("utf-8", "replace")
    process.returncode = 0  # it goes on without us
    if answer != "ok":
        raise InfrastructureError(answer or "the background process died at once")
    bundle = JobBundle(asked.directory, job_id)
    deadline = time.monotonic() + _PATIENCE
    while (record := bundle.read()).status is JobStatus.INITIALIZING and time.monotonic() < deadline:
        time.sleep(_POLL)
    agent_timeout = record.config.agent_timeout
    return DetachDocument(
        job=job_id,
        name=asked.name,
        status=record.status,
        planned=record.planned,
        agent_timeout=asked.agent_timeout if agent_timeout is None else agent_timeout,
        message=record.message,
        pid=record.owner.pid,
        directory=str(bundle.root),
        log=str(bundle.root / LOG),
    )
