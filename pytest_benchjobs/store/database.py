"""SQLite as the history needs it: migrations, a probe for WAL, errors in words."""

from __future__ import annotations

import contextlib
import errno
import re
import secrets
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ..model.errors import InfrastructureError, InputError
from .files import write_error

BUSY_SECONDS = 30.0
"""How long a connection waits for another one to finish writing."""
_STEP = re.compile(r"^(\d{4})_\w+\.sql$")


class NewerHistory(InputError):
    """A newer version of this package wrote the history."""


def pragma(connection: sqlite3.Connection, pragma: str) -> Any:
    """Run `PRAGMA ...`; returns the value of its first row."""
    row = connection.execute(f"PRAGMA {pragma}").fetchone()
    return None if row is None else row[0]


def wal_works(directory: Path) -> bool:
    """Whether write-ahead logging works on this file system."""
    # On network file systems WAL may be reported as on and fail at the first write, so try it on a database
    # that nobody needs.
    probe = directory / f".wal-probe-{secrets.token_hex(4)}"
    try:
        writer = sqlite3.connect(probe, isolation_level=None)
        try:
            if pragma(writer, "journal_mode = WAL") != "wal":
                return False
            writer.execute("CREATE TABLE probe (x)")
            writer.execute("INSERT INTO probe VALUES (1)")
            reader = sqlite3.connect(probe)
            try:
                return bool(reader.execute("SELECT x FROM probe").fetchall() == [(1,)])
            finally:
                reader.close()
        finally:
            writer.close()
    except sqlite3.Error:
        return False
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                probe.with_name(probe.name + suffix).unlink()


@cache
def migrations() -> tuple[str, ...]:
    """The steps of the schema, in order."""
    files = sorted(
        (file for file in resources.files(f"{__package__}.migrations").iterdir() if _STEP.match(file.name)),
        key=lambda file: file.name,
    )
    return tuple(file.read_text(encoding="utf-8") for file in files)


def statements(script: str) -> Iterator[str]:
    """The statements of a step."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Inside, an SQLite error becomes one that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: sqlite3.Error) -> InfrastructureError | InputError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return write_error(path, OSError(errno.ENOSPC, "no space left"))
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PERM")):
        return write_error(path, OSError(errno.EACCES, str(error)))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return write_error(
            path, OSError(errno.EBUSY, f"another process has kept it locked for {BUSY_SECONDS:g} s")
        )
    return InputError(
        f"is damaged or not a history ({error}). The results themselves are safe in jobs/: "
        "`benchjobs db rebuild` makes a new one from them",
        path=path,
    )
