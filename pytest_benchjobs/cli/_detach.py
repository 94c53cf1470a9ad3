"""Jobs in the background, for `--detach`: start one, wait a moment, and print the state it is in.

A new job is started by `job.detach`, which closes it when pytest ends before it begins. A resumed job has its files
already, so pytest itself is started.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import click

from ..job.detach import why_it_ended
from ..model.environ import HOST, Variable
from ..model.errors import InfrastructureError, InputError
from ..model.job import JobRecord, JobStatus
from ..report.documents import mirror
from ..report.documents.jobs import DetachDocument
from ..settings.defaults import DEFAULT_AGENT_TIMEOUT
from ..settings.env_file import read_env_file
from ..settings.secret_store import find
from ..store.bundle import JobBundle, new_job_id
from ..store.reproducibility import redact_arguments
from ..system.paths import with_home
from ..trial.secrets import unmistakable
from ._output import emit, say_wait
from ._pytest_call import Call
from ._run_options import RunRequest

_SECONDS = 30.0
"""Seconds until a job counts as started that has not said so. Most jobs begin within two, and errors show earlier."""
_POLL_SECONDS = 0.05


def run_detached(request: RunRequest, output: str) -> int:
    """Start a new job, and print its id."""
    document = _start(request)
    if document.status == "failed":
        raise InputError(document.message or f"pytest ended at once; see {document.log}")
    own = document.agent_timeout
    timeout = f"{DEFAULT_AGENT_TIMEOUT:g}s unless a scenario has its own" if own is None else f"{own:g}s"
    return _print(document, f"Benchmark job created: {document.job} (agent timeout = {timeout})", output)


def resume_detached(call: Call, directory: Path, record: JobRecord, output: str) -> int:
    """Start pytest for a job that is to be resumed, and print the job's id."""
    bundle = JobBundle.open(directory, record.id)
    log = bundle.layout.log
    say_wait("starting the job")
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
    deadline = time.monotonic() + _SECONDS
    while (status := process.poll()) is None and time.monotonic() < deadline:
        if (now := bundle.read()).owner.pid == process.pid and now.status is JobStatus.RUNNING:
            break
        time.sleep(_POLL_SECONDS)
    now = bundle.read()
    if status is not None and now.owner.pid != process.pid:
        raise InputError(f"{why_it_ended(log, status)}; pytest's output is in {log}")
    process.returncode = 0  # it goes on without us
    document = _document(bundle, now, now.config.agent_timeout, process.pid)
    return _print(document, f"Benchmark job resumed: {record.id}", output)


def _start(request: RunRequest) -> DetachDocument:
    """Start a new job, and wait until it runs, has failed, or the wait is over."""
    _refuse_secrets(request.call)
    job_id = new_job_id()
    _launch(request, job_id)
    bundle = JobBundle(request.directory, job_id)
    deadline = time.monotonic() + _SECONDS
    while (record := bundle.read()).status is JobStatus.INITIALIZING and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    agent_timeout = record.config.agent_timeout
    timeout = request.agent_timeout if agent_timeout is None else agent_timeout
    return _document(bundle, record, timeout, record.owner.pid)


def _launch(request: RunRequest, job_id: str) -> None:
    """Start `job.detach`, which reports when the job has its files."""
    order = {
        "job": job_id,
        "name": request.name,
        "directory": str(request.directory),
        "command": [*request.call.command, "--bench-job-id", job_id],
        "arguments": request.call.arguments,
        "cwd": str(request.call.directory),
    }
    say_wait("starting the job")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_benchjobs.job.detach"],
        cwd=request.call.directory,
        env=request.call.environment,
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


def _document(bundle: JobBundle, record: JobRecord, agent_timeout: float | None, pid: int) -> DetachDocument:
    return mirror(
        DetachDocument,
        record,
        job=record.id,
        agent_timeout=agent_timeout,
        pid=pid,
        directory=str(bundle.root),
        log=str(bundle.layout.log),
    )


def _print(document: DetachDocument, line: str, output: str) -> int:
    emit(document, lambda: [line], output)
    click.echo(f'Follow the run with "benchjobs watch {document.job}"', err=output != "text")
    return 0


def _set_aside(log: Path) -> None:
    """Rename an earlier log of the job to `pytest-1.log`, `pytest-2.log`, ..."""
    number = 1
    while (older := log.with_name(f"{log.stem}-{number}{log.suffix}")).exists():
        number += 1
    if log.exists():
        log.rename(older)


def _refuse_secrets(call: Call) -> None:
    """Refuse an argument that holds a secret, before it is stored. pytest would refuse it too, but later."""
    secrets = _secrets_of(call)
    for before, argument in itertools.pairwise(("", *redact_arguments(call.arguments))):
        for name, secret in secrets.items():
            if secret in argument:
                option = argument.partition("=")[0] if argument.startswith("--") else before
                blame = "an argument" if secret in option else option or "an argument"
                raise click.UsageError(
                    f"{blame}: it holds the value of the secret {name}, and would be in every report; leave it out"
                )


def _secrets_of(call: Call) -> dict[str, str]:
    """Return the secrets of the call by name: those it names, and others of this machine."""
    below: dict[str, Variable] = {}
    names: dict[str, str] = {}
    for before, argument in itertools.pairwise(("", *call.arguments)):
        option, _, value = argument.partition("=") if argument.startswith("--") else (before, "", argument)
        if option == "--bench-env-file":
            with contextlib.suppress(InputError):  # pytest reports this error
                below |= read_env_file(call.directory / with_home(value))
        elif option == "--bench-secret":
            variable, _, names[variable] = value.partition("=")
    undo = HOST.lay_below(below)
    try:
        given: dict[str, str] = {}
        for variable, name in names.items():
            with contextlib.suppress(InputError):
                if (found := find(name)) is not None:
                    given[variable] = found.value
        return unmistakable(given)
    finally:
        undo()
