"""Calls of pytest: a new one, or an earlier job's again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from ..model.errors import InputError
from ..model.job import JobRecord
from ..settings.call import Said, split
from ..settings.table import BY_NAME
from ..store.bundle import new_job_id
from ..system.redact import looks_secret
from ._output import emit, say_wait

_ENV = BY_NAME["env"]
_REDACTED = "[redacted]"
INTERRUPTED, USAGE_ERROR = 2, 4
"""Exit statuses of pytest."""


class Call(NamedTuple):
    """A call of pytest."""

    arguments: tuple[str, ...]
    """Without `pytest` itself."""
    directory: Path
    """Its working directory."""
    env: Mapping[str, str] = {}
    """Variables for agents. They are passed through the environment: all users can see a command line."""

    @property
    def command(self) -> list[str]:
        """The whole command line, with the running Python; as for `pytest`, nothing is imported from the directory."""
        return [sys.executable, "-P", "-m", "pytest", *self.arguments]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the call."""
        environment = {name: value for name, value in os.environ.items() if name != _ENV.variable}
        handed_over = {_ENV.variable: json.dumps(dict(self.env))} if self.env and _ENV.variable else {}
        return environment | handed_over

    def shown(self) -> str:
        """Return the command as a user would type it, without values that look like secrets."""
        variables = [
            part
            for name, value in self.env.items()
            for part in (_ENV.flag, f"{name}={_REDACTED if looks_secret(name, value) else value}")
        ]
        return shlex.join(["pytest", *self.arguments, *variables])


def said_of(record: JobRecord) -> Said:
    """Return the settings of a job's call, and its other arguments. Older jobs recorded arguments only."""
    invocation = record.invocation
    if invocation is None:
        return Said({}, ())
    if invocation.settings is None:
        return split(invocation.arguments)
    return Said(dict(invocation.settings), invocation.rest)


def call_pytest(call: Call, *, stdout: IO[bytes] | int | None = None) -> int:
    """Make the call and wait for its end; return its exit status, 128 + N when signal N killed it.

    Ctrl-C reaches pytest from the terminal; SIGTERM and SIGHUP are passed on. pytest then ends by itself.
    """
    say_wait("starting pytest")
    with (
        subprocess.Popen(call.command, cwd=call.directory, env=call.environment, stdout=stdout) as process,
        passing_on(process),
    ):
        status = process.wait()
    return 128 - status if status < 0 else status


@contextmanager
def passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on to pytest inside the context."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            process.send_signal(number)

    # A handler instead of SIG_IGN: pytest would inherit SIG_IGN and never see Ctrl-C.
    before = {
        number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def call_and_summarise(call: Call, directory: Path, job_id: str, output: str) -> int:
    """Make the call. With JSON or YAML, pytest's output goes to stderr and the job's summary is printed at the end.

    Return the exit status of the command: that of pytest, but 2 for a usage error.
    """
    from ..report.overview import summary_document
    from ..store.reader import HistoryReader

    status = call_pytest(call, stdout=None if output == "text" else sys.stderr.fileno())
    if output != "text":
        # If no job began, pytest printed the reason.
        with suppress(InputError), HistoryReader.of(directory) as history:
            emit(summary_document(directory, history, job_id), lambda: (), output)
    return 2 if status == USAGE_ERROR else status


def call_new_job(call: Call, output: str) -> tuple[str, int]:
    """Make the call with an id for its job; return id and exit status. Unless output is text, pytest uses stderr."""
    job_id = new_job_id()
    stdout = None if output == "text" else sys.stderr.fileno()
    return job_id, call_pytest(with_id(call, job_id), stdout=stdout)


def with_id(call: Call, job_id: str) -> Call:
    """Return the call with `--bench-job-id`."""
    return call._replace(arguments=("--bench-job-id", job_id, *call.arguments))
