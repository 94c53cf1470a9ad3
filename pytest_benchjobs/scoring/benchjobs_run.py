"""Runs programs of the agent where it worked, by `bench-run`: what tests and scripts of `python` import in a sandbox.

Python 3.8 and later.
"""

from __future__ import annotations

import subprocess
from typing import Sequence  # noqa: UP035  Python 3.8

CANNOT_RUN = 125


def run(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float | None = None,
    user: str | None = None,
    given: Sequence[str] = (),
    wanted: Sequence[str] = (),
    fresh: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in this working directory, there; returns its exit status, output and errors, whatever they are.

    Args:
        command: Program and arguments.
        stdin: Its standard input.
        timeout: Seconds; the exit status is 124 if they did not suffice.
        user: Default: the agent's.
        given: Files and directories from here that it finds at the same paths.
        wanted: Files and directories that are wanted back.
        fresh: In a second fresh container with the agent's files.

    Raises RuntimeError: it cannot be run.
    """
    options = [f"--timeout={timeout:g}"] if timeout is not None else []
    options += [f"--user={user}"] if user is not None else []
    options += [f"--in={path}" for path in given] + [f"--out={path}" for path in wanted]
    options += ["--fresh"] if fresh else []
    done = subprocess.run(
        ["/bench/bench-run", "--stdin", "-", *options, "--", *command],
        input=stdin,
        capture_output=True,
        check=False,
    )
    if done.returncode == CANNOT_RUN:
        raise RuntimeError(done.stderr.decode("utf-8", "replace").strip())
    return done
