"""Calls of pytest: a new one, or an earlier job's again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from ..model.errors import InputError
from ..model.job import JobRecord
from ..settings.call import Said, Written, split, words
from ..settings.setting import texts_of
from ..settings.table import BY_NAME
from ..store.bundle import new_job_id
from ..store.reproducibility import ini_variables
from ..system.redact import looks_secret
from ._output import emit

_ENV = BY_NAME["env"]
_REDACTED = "[redacted]"
USAGE_ERROR = 4
"""Exit status of pytest."""


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
        """The whole command line, with the running Python."""
        return [sys.executable, "-m", "pytest", *self.arguments]

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


def repeated_call(
    record: JobRecord,
    *more: str,
    changes: Mapping[str, Written] | None = None,
    without: Collection[str] = (),
    env: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Call:
    """Return the call of an earlier job, with some settings changed or left out, and further arguments.

    `env` has the values of its `--bench-env`, which are stored nowhere, and may have more. `directory` is where the
    results are now, by default where they were then.

    Raises:
        InputError: the call is not known, its directory is gone, or values of `--bench-env` are missing.
    """
    invocation = record.invocation
    if invocation is None:
        raise InputError(
            f"the pytest command of job {record.id} was not recorded; call pytest with --bench-resume {record.id}"
        )
    if not invocation.directory.is_dir():
        raise InputError(f"job {record.id} was started in {invocation.directory}, which no longer exists")
    said = said_of(record)
    rest, needed = _without_values(said.rest)
    needed += (text.partition("=")[0] for text in texts_of(said.settings.get("env", ())))
    given = dict(env or {})
    missing = [name for name in dict.fromkeys(needed) if name not in given]
    if missing:
        values = " ".join(f"{name}=..." for name in missing)
        raise InputError(
            f"values of --bench-env are not stored; give those of job {record.id} again: --env-vars {values}"
        )
    settings = {
        name: written
        for name, written in said.settings.items()
        if name in BY_NAME and not BY_NAME[name].forgotten and name not in ("env", *without)
    }
    if directory is not None:
        settings["dir"] = str(directory.absolute())
    return Call((*words({**settings, **(changes or {})}, rest), *more), invocation.directory, given)


def call_pytest(call: Call, *, stdout: IO[bytes] | int | None = None) -> int:
    """Make the call and wait for its end; return its exit status, 128 + N when signal N killed it.

    Ctrl-C reaches pytest from the terminal; SIGTERM and SIGHUP are passed on. pytest then ends by itself.
    """
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


def _without_values(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return arguments of pytest without the values of `-o bench_env=...`, and the names of those variables."""
    kept: list[str] = []
    overridden: list[str] = []
    for word in words:
        variables = ini_variables(kept[-1] if kept else "", word)
        if variables is not None:
            # The last `-o` overrides the ini file and any earlier `-o`.
            overridden = [line.partition("=")[0].strip() for line in variables.lines]
            word = variables.upto + "\n".join(
                f"{name}=" for name in overridden
            )  # given again beside the call
        kept.append(word)
    return kept, overridden


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
