"""Calls of pytest: what they are made of, how one is made, and how that of an earlier job is made again."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from ..model.errors import InputError
from ..model.job import JobRecord
from ..settings import VARIABLES
from ..store.redact import looks_secret
from ..store.reproducibility import ini_variables

_ENV = "--bench-env"
_REDACTED = "[redacted]"
_OF_ONE_CALL = {"--bench-job-id", "--bench-resume", "--bench-rescore", "--bench-parent", "--bench-from"}
"""With a value each. They said what to do that time, not what the job is."""
_FLAGS_OF_ONE_CALL = {"--bench-plan"}


class Call(NamedTuple):
    """A call of pytest."""

    arguments: tuple[str, ...]
    """Without `pytest` itself."""
    directory: Path
    """Where it is made."""
    env: Mapping[str, str] = {}
    """Variables for agents. They go through the environment: everybody on the machine can see a command line."""

    @property
    def command(self) -> list[str]:
        """The whole command line, with the Python that runs this."""
        return [sys.executable, "-m", "pytest", *self.arguments]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the call."""
        environment = {name: value for name, value in os.environ.items() if name != VARIABLES}
        return {**environment, VARIABLES: json.dumps(dict(self.env))} if self.env else environment

    def shown(self) -> str:
        """What a user would type. Values of variables that look like secrets are left out."""
        variables = [
            part
            for name, value in self.env.items()
            for part in (_ENV, f"{name}={_REDACTED if looks_secret(name, value) else value}")
        ]
        return shlex.join(["pytest", *self.arguments, *variables])


def again(
    record: JobRecord,
    *extra: str,
    env: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Call:
    """The call that an earlier job was, with more arguments.

    `env` has the values of its `--bench-env`, which are kept nowhere, and may have more. `directory` is where the
    results are now; by default where they were then.

    Raises:
        InputError: it is not known, its directory is gone, or values of `--bench-env` are missing.

    """
    invocation = record.invocation
    if invocation is None:
        raise InputError(
            f"nobody knows how pytest was called for job {record.id}; call it with --bench-resume {record.id}"
        )
    if not invocation.directory.is_dir():
        raise InputError(
            f"job {record.id} was started in {invocation.directory}, which is not there any more"
        )
    arguments, needed = _without_what_was_for_once(invocation.arguments)
    given = dict(env or {})
    missing = [name for name in needed if name not in given]
    if missing:
        values = " ".join(f"{name}=..." for name in missing)
        raise InputError(
            f"values of --bench-env are kept nowhere; give those of job {record.id} again: --env-vars {values}"
        )
    # In one word: pytest takes a path of its own for a place where tests are, and its rootdir from there.
    where = () if directory is None else (f"--bench-dir={directory.absolute()}",)
    return Call((*arguments, *where, *extra), invocation.directory, given)


def call_pytest(call: Call, *, stdout: IO[bytes] | int | None = None) -> int:
    """Make the call and wait for its end; returns its exit status, 128 + N when signal N killed it.

    Ctrl-C reaches pytest from the terminal; SIGTERM and SIGHUP are passed on. It is for pytest to end then.
    """
    with (
        subprocess.Popen(call.command, cwd=call.directory, env=call.environment, stdout=stdout) as process,
        _passing_on(process),
    ):
        status = process.wait()
    return 128 - status if status < 0 else status


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            process.send_signal(number)

    # A handler, and not SIG_IGN: that would be inherited, and pytest would never see Ctrl-C.
    before = {
        number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _without_what_was_for_once(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Arguments that can be given again, and names of the variables whose values are missing in them."""
    kept: list[str] = []
    needed: dict[str, None] = {}
    overridden: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if option in _FLAGS_OF_ONE_CALL:
            continue
        if option in _OF_ONE_CALL or option == _ENV:
            value = value if equals else next(rest, "")
            if option == _ENV:
                needed[value.partition("=")[0]] = None
            continue
        variables = ini_variables(kept[-1] if kept else "", argument)
        if variables is None:
            kept.append(argument)
        else:
            # What the ini file says does not count, nor does an earlier one of these.
            kept.append(variables.upto)
            overridden = [line.partition("=")[0].strip() for line in variables.lines]
    return kept, list(dict.fromkeys((*overridden, *needed)))
