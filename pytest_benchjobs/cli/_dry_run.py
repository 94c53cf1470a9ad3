"""Dry runs: pytest collects in this process, and hands its trials to a planner."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..job.detach import why_it_ended
from ..job.planning import PLANNER, Planner
from ..model.errors import InputError
from ..system.temporary import temporary_directory
from ._output import say_wait
from ._pytest_call import INTERRUPTED, Call


def dry_run(call: Call, planner: Planner) -> None:
    """Let pytest collect for a call, and hand the trials to a planner."""
    # No workers, even if an ini file asks for them. Nothing is run, so no assertion needs to be rewritten: pytest would
    # warn of modules that this process has imported.
    alone = () if any("no:xdist" in argument for argument in call.arguments) else ("-n0",)
    status = 0
    say_wait("collecting the trials")
    with temporary_directory("plan") as place:
        log = place / "pytest.log"
        token = PLANNER.set(planner)
        try:
            with log.open("w", encoding="utf-8", errors="replace") as file, _as_called(call, file):
                sys.argv = ["pytest", *call.arguments, "--bench-plan", "--assert=plain", *alone]
                runpy.run_module("pytest", run_name="__main__")
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
        finally:
            PLANNER.reset(token)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if status:
            raise InputError(why_it_ended(log, status))


@contextlib.contextmanager
def _as_called(call: Call, output: IO[str]) -> Iterator[None]:
    """Give this process what `pytest` has: the call's variables, nothing to read, an output."""
    variables, places, argv = dict(os.environ), [*sys.path], sys.argv
    descriptors = {number: os.dup(number) for number in (0, 1, 2)}
    os.environ.clear()
    os.environ.update(call.environment)
    try:
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        for number in (1, 2):
            os.dup2(output.fileno(), number)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield
    finally:
        for number, before in descriptors.items():
            os.dup2(before, number)
            os.close(before)
        sys.path[:], sys.argv = places, argv
        os.environ.clear()
        os.environ.update(variables)
