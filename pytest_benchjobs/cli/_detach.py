"""Jobs in the background: `run --detach` starts `job.detach`, waits a moment, and tells what became of it."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.environ import HOST, Variable
from ..model.errors import InfrastructureError, InputError
from ..model.job import JobStatus
from ..settings.env_file import read_env_file
from ..settings.secret_store import find
from ..store.bundle import JobBundle, new_job_id
from ..store.reproducibility import redact_arguments
from ..trial.secrets import is_unmistakable, others_of_host, together
from ._pytest_call import Call

if TYPE_CHECKING:
    from ..report.documents.detach import DetachDocument
    from ._run_options import Asked

_PATIENCE = 30.0
"""Seconds until a job counts as started; mistakes show before that, and as a rule the job has begun after two."""
_POLL = 0.05


def start(asked: Asked) -> DetachDocument:
    """Start a job that needs nobody any more, and wait until it runs, has failed, or has been starting for long.

    Raises:
        UsageError: an argument holds a secret.
        InfrastructureError: there is no place for its files.

    """
    from ..report.documents.detach import DetachDocument

    _refuse_secrets(asked.call)
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
        [sys.executable, "-m", "pytest_benchjobs.job.detach"],
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
        log=str(bundle.layout.log),
    )


def _refuse_secrets(call: Call) -> None:
    """See that no argument holds a secret. pytest does it too when it starts, but by then they are written down."""
    below: dict[str, Variable] = {}
    names: dict[str, str] = {}
    for before, argument in itertools.pairwise(("", *call.arguments)):
        option, _, value = argument.partition("=") if argument.startswith("--") else (before, "", argument)
        if option == "--bench-env-file":
            with contextlib.suppress(InputError):  # which pytest will say
                below |= read_env_file(call.directory / Path(value).expanduser())
        elif option == "--bench-secret":
            variable, _, names[variable] = value.partition("=")
    undo = HOST.lay_below(below)
    try:
        given: dict[str, str] = {}
        for variable, name in names.items():
            with contextlib.suppress(InputError):
                if (found := find(name)) is not None:
                    given[variable] = found.value
        secrets = together(given, others_of_host())
    finally:
        undo()
    for before, argument in itertools.pairwise(("", *redact_arguments(call.arguments))):
        for name, secret in secrets.items():
            if is_unmistakable(secret) and secret in argument:
                option = argument.partition("=")[0] if argument.startswith("--") else before
                blame = "an argument" if secret in option else option or "an argument"
                raise click.UsageError(
                    f"{blame}: it holds the value of the secret {name}, and would be in every report; leave it out"
                )
