"""Killing a piece of work at each of its operations on files and on a database, in a fork each time."""

from __future__ import annotations

import os
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

KILLED = 9
_FILE_EVENTS = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime", "os.link", "os.truncate"}
)
_READS = ("SELECT", "PRAGMA", "EXPLAIN", "--")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def killed_at(operation: int, work: Callable[[], object]) -> bool:
    """Do the work in a fork that dies just before an operation, counted from 0; False: it has none, and was done.

    What is in a buffer then is lost, as when the process is killed from outside.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _die_at(operation)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED), f"the work failed at operation {operation}"
    return code == KILLED


def _die_at(operation: int) -> None:
    left = operation

    def count() -> None:
        nonlocal left
        if left == 0:
            os._exit(KILLED)
        left -= 1

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FILE_EVENTS or (event == "open" and _writes(*arguments)):
            count()

    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(
            lambda statement: None if statement.lstrip().upper().startswith(_READS) else count()
        )
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    sys.addaudithook(on_event)


def _writes(path: object, _mode: object, flags: object) -> bool:
    of_python = isinstance(path, str | Path) and "__pycache__" in str(path)
    return isinstance(flags, int) and bool(flags & _WRITE_FLAGS) and not of_python
