"""Runs tests in forks of a process that has imported what they need besides this package: the mutant is imported anew."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of what is imported already
# No plugin of pytest, such as hypothesis: sessions that a test runs in its own process would warn of it, which fails.
_IMPORTED = ("aiohttp", "docker", "junitparser", "pydantic", "rich", "scipy.stats", "yaml")


class First:
    """Remembers the test that runs, and the first that failed."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Leave the name for whoever ends a process that hangs."""
        Path("running.txt").write_text(nodeid, "utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember it."""
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported is a failure, too."""
        if report.failed:
            self.failed = self.failed or report.nodeid


def run(tests: list[str], marks: str, seconds: float, without: list[str]) -> dict[str, Any]:
    """Run tests but some in a fork until one fails, or the time is up."""
    found = Path("failed.txt").absolute()
    found.unlink(missing_ok=True)
    Path("running.txt").unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(log, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        first = First()
        options = ["-x", "-q", "-p", "no:cacheprovider", "--basetemp=../tmp", "-m", marks, *_QUIET]
        options += [f"--deselect={test}" for test in without]
        status = pytest.main([*options, *tests], plugins=[first])
        broken = status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        found.write_text(first.failed or (f"status {status}" if broken else ""), "utf-8")
        os._exit(0)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            # A process that died without a word was killed by what it ran.
            return {"failed": found.read_text("utf-8") if found.is_file() else "died", "hangs": ""}
        time.sleep(0.02)  # so often
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    running = Path("running.txt")
    return {"failed": "", "hangs": running.read_text("utf-8") if running.is_file() else "collection"}


def main() -> None:
    """Answer one line of JSON after the other."""
    for name in _IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
