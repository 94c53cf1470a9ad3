"""Starts of pytest as forks of a process that has imported it.

To import pytest and this package takes longer than what most tests start pytest for. So that is done once. A fork of
the process in which it was done, and nothing else, is to a test what `python -m pytest` is: a process with a
directory, variables, files, threads and signals of its own. The workers of xdist that it starts begin from nothing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO


class Forked:
    """What `pytest.Pytester` asks of a process."""

    stdin = None

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers

    def wait(self) -> int:
        """Its exit status, or less than 0 where a signal ended it."""
        return int(self._answers.readline())


class Forks:
    """The process that is forked."""

    def __init__(self) -> None:
        without_path = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=without_path,
        )

    def popen(
        self, command: Sequence[str], stdout: TextIO, stderr: TextIO, **_nothing_to_read: object
    ) -> Forked:
        """In the place of `pytest.Pytester.popen`."""
        assert command[:2] == (sys.executable, "-mpytest")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        directory = str(Path.cwd())
        paths = [directory, *filter(None, [os.environ.get("PYTHONPATH")])]
        call = {
            "arguments": command[2:],
            "directory": directory,
            "environment": {**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            "files": [stdout.name, stderr.name],
        }
        self._process.stdin.write(f"{json.dumps(call)}\n")
        self._process.stdin.flush()
        return Forked(self._process.stdout)

    def close(self) -> None:
        self._process.communicate()


def _import() -> None:
    # As a plugin first: what pytest did not import itself it would complain about.
    with contextlib.redirect_stdout(io.StringIO()):
        importlib.import_module("pytest").main(["--version", "--version", "-p", "no:hypothesispytest"])
    for name in ("pytest_benchjobs.plugin.loop", "pytest_benchjobs.testing", "xdist.dsession"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _become(call: dict[str, Any]) -> NoReturn:
    os.chdir(call["directory"])
    os.environ.clear()
    os.environ.update(call["environment"])
    for descriptor, path in enumerate((os.devnull, *call["files"])):
        os.dup2(os.open(path, os.O_RDWR), descriptor)
    sys.path[:1] = [call["directory"], *os.environ["PYTHONPATH"].split(os.pathsep)]
    sys.argv = ["pytest", *call["arguments"]]
    tempfile.tempdir = None
    time.tzset()
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    raise AssertionError("it exits")


def _serve() -> None:
    _import()
    answers = os.fdopen(os.dup(1), "w")
    while line := sys.stdin.readline():
        if not (pid := os.fork()):
            answers.close()
            _become(json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
