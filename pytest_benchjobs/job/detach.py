"""The process behind `run --detach`: makes the bundle of a job, becomes pytest, and ends a job that never began.

It reads a request from stdin, answers `ok` or an error in one line, and has no terminal. A child makes the bundle and
becomes pytest, so that the owner of the job is the process that runs it. The parent waits for the child: pytest may
end, because of a wrong option for instance, before the job can end itself.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

_HEAD = 1 << 20


def main() -> None:
    """Start pytest as requested on stdin, and close the job if pytest dies before it begins."""
    order = json.load(sys.stdin)
    _redirect(0, os.open(os.devnull, os.O_RDONLY))
    child = os.fork()
    if child == 0:
        _become_pytest(order)
    _redirect(1, os.open(os.devnull, os.O_WRONLY))
    _, status = os.waitpid(child, 0)
    _close(order, os.waitstatus_to_exitcode(status))


def _become_pytest(order: dict[str, Any]) -> NoReturn:
    try:
        log = _announce(order)
    except BaseException as error:
        os.write(1, str(error).replace("\n", " ").encode("utf-8", "replace"))
        os._exit(1)
    os.write(1, b"ok")
    _redirect(1, log)
    os.dup2(1, 2)
    os.execv(order["command"][0], order["command"])  # noqa: S606


def _announce(order: dict[str, Any]) -> int:
    """Make the bundle of a job that has not begun; return a descriptor of its log."""
    from ..model.job import Invocation, JobConfig, JobRecord, JobStatus
    from ..model.owner import current_owner
    from ..store.bundle import JobBundle
    from ..store.history import History
    from ..store.reproducibility import redact_arguments, reproducibility

    directory, here = Path(order["directory"]), Path(order["cwd"])
    record = JobRecord(
        id=order["job"],
        name=order["name"],
        status=JobStatus.INITIALIZING,
        created_at=datetime.datetime.now(datetime.UTC),
        owner=current_owner(),
        config=JobConfig(directory=directory, name=order["name"]),
        invocation=Invocation(
            arguments=tuple(redact_arguments(order["arguments"])), directory=here, rootdir=here
        ),
        reproducibility=reproducibility(["pytest", *order["arguments"]], here),
    )
    bundle = JobBundle.create(directory, record)
    with History.of(directory) as history:
        history.save_job(record)
    return os.open(bundle.layout.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _close(order: dict[str, Any], status: int) -> None:
    """End a job that never began; complete the end of one that did."""
    from ..model.errors import InputError
    from ..model.job import JobStatus
    from ..store.bundle import JobBundle
    from ..store.history import History
    from .end import Ending, end, is_complete

    directory = Path(order["directory"])
    try:
        bundle = JobBundle.open(directory, order["job"])
    except InputError:
        return
    now = bundle.read().status
    if now is JobStatus.INITIALIZING:
        message = why_it_ended(bundle.layout.log, status)
        ending = Ending(JobStatus.FAILED, message, datetime.datetime.now(datetime.UTC))
    elif now.ended and not is_complete(bundle.layout):
        ending = None
    else:
        return
    with History.of(directory) as history:
        end(bundle, history, ending)


def why_it_ended(log: Path, status: int) -> str:
    """Return the first error line in the output of pytest."""
    from ..store.text import one_line

    with log.open("rb") as file:
        lines = file.read(_HEAD).decode("utf-8", "replace").splitlines()
    for index, line in enumerate(lines):
        if line.startswith("ERROR: usage: "):
            continue  # an unknown option; the reason is in the next line
        if ": error: " in line and index and lines[index - 1].startswith("ERROR: usage: "):
            return one_line(line.partition(": error: ")[2], 1000)
        if line.startswith("ERROR: "):
            return one_line(line.removeprefix("ERROR: "), 1000)
        if " ERROR collecting " in line:
            return one_line(next((more for more in lines[index + 1 :] if more.strip()), line), 1000)
        if line.startswith("E   "):
            return one_line(line.removeprefix("E").strip(), 1000)
    if status == 5:
        return "there is nothing to run"
    if status < 0:
        return f"pytest was killed by signal {-status} before the job began"
    last = next((line for line in reversed(lines) if line.strip()), "")
    return one_line(f"pytest ended with status {status} before the job began: {last}".rstrip(": "), 1000)


def _redirect(number: int, descriptor: int) -> None:
    os.dup2(descriptor, number)
    os.close(descriptor)


if __name__ == "__main__":
    main()
