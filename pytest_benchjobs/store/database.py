"""SQLite for the history: opening, migrations, the journal, messages for errors."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..model.errors import InfrastructureError, InputError, ResultsUnwritable
from .files import write_error, writing
from .filesystem import on_network, wal_works, why_no_locks

BUSY_SECONDS = 30.0
"""Seconds that a connection waits for another one to finish writing."""
_UPGRADE_SECONDS = 600.0
"""Seconds that it waits for another one to upgrade the history. A million trials take half a minute."""
_OPEN_RETRY_SECONDS = 0.02
_SWITCH_SECONDS = 1.0
_REBUILD = "The results themselves are safe in jobs/: `benchjobs db rebuild` rebuilds the history from them"
_MOST_STEPS = 9999
"""Migrations are numbered with four digits. A larger version means a damaged file."""
_STEP = re.compile(r"^(\d{4})_\w+\.sql$")


class NewerHistory(InputError):
    """A newer version of this package wrote the history."""


def connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open a history; create or upgrade it if needed. For one thread at a time.

    Raises InputError: with `readonly`, there is none, or an empty one beside jobs; it is not a history, or a newer
    version wrote it, and it stays as it is; DiskFull, ResultsUnwritable: the directory cannot be written, or has no
    locks.
    """
    if not readonly:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.is_file():
        refuse_lost(path, "is not there")
        raise InputError("there is no history yet; run a benchmark first", path=path)
    if (why := why_no_locks(path.parent)) is not None:
        raise ResultsUnwritable(
            f"{path}: its file system gives no locks ({why}), which a history needs. Choose a --bench-dir on another "
            "one, or start the lock service of this one"
        )
    _refuse_newer(path)
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            with explained(path):
                return _connect(path, readonly)
        except InfrastructureError as error:
            # The last process to close the file locks it for a moment, and no busy timeout applies to that.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_OPEN_RETRY_SECONDS)


def refuse_lost(path: Path, what: str) -> None:
    """Refuse a missing or empty history if there are jobs. Raises InputError: there are jobs, which it should have."""
    if next(path.parent.glob("jobs/*/job.json"), None) is not None:
        raise InputError(f"{what}. {_REBUILD}", path=path)


@cache
def migrations() -> tuple[str, ...]:
    """Return the migrations of the schema, in order."""
    files = sorted(
        (file for file in resources.files(f"{__package__}.migrations").iterdir() if _STEP.match(file.name)),
        key=lambda file: file.name,
    )
    return tuple(file.read_text(encoding="utf-8") for file in files)


def copy_database(source: Path, target: Path) -> None:
    """Copy a history that others may be writing, into a new file. Nothing is left beside the source.

    Raises InputError: it is not a history, or a newer version wrote it; DiskFull, ResultsUnwritable: the target cannot
    be written.
    """
    _refuse_newer(source)
    with explained(source), contextlib.closing(_open(source, readonly=True)) as reader:
        pragma(reader, "query_only = ON")
        foreign = reader.execute(
            "SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index')"
        ).fetchone()
        if version_of(reader) == 0 or foreign is not None:
            raise InputError("is not a history of pytest-benchjobs", path=source)
        with explained(target), contextlib.closing(sqlite3.connect(target)) as writer:
            reader.backup(writer)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a transaction, which takes the write lock at its beginning, before any read."""
    try:
        # IMMEDIATE: a transaction that reads before it writes fails at once when another process writes. Inside of
        # `try`: Ctrl-C during BEGIN is raised after it, and an open transaction would block all later writes.
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Convert errors of SQLite, and of what is read from it, inside the context into errors that say what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # of the schema, where a bit flipped
        raise _explain(path, error) from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise InputError(f"is damaged or not a history ({why}). {_REBUILD}", path=path) from error


def is_sound(connection: sqlite3.Connection) -> bool:
    """Return whether no page of a history is damaged, and its tables are those of a new one."""
    try:
        if pragma(connection, "integrity_check(1)") != "ok":
            return False
        with contextlib.closing(sqlite3.connect(":memory:")) as new:
            for script in migrations():
                new.executescript(script)
            return _tables(connection) == _tables(new)
    except (sqlite3.Error, UnicodeDecodeError):
        return False


def _tables(connection: sqlite3.Connection) -> list[Any]:
    query = (
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite@_%' ESCAPE '@' ORDER BY name"
    )
    return connection.execute(query).fetchall()


def pragma(connection: sqlite3.Connection, pragma: str) -> Any:
    """Run `PRAGMA ...`; return the value of its first row."""
    row = connection.execute(f"PRAGMA {pragma}").fetchone()
    return None if row is None else row[0]


def version_of(connection: sqlite3.Connection) -> int:
    """Return the number of migrations that a history has."""
    return int(pragma(connection, "user_version"))


def _connect(path: Path, readonly: bool) -> sqlite3.Connection:
    connection = _open(path, readonly)
    try:
        # Before any read: a write-ahead log on a network file system may not even open.
        _choose_journal(connection, path, readonly=readonly)
        version = version_of(connection)
        _refuse(path, version)
        if version < len(migrations()):
            _upgrade(connection, path, readonly)
        if readonly:
            pragma(connection, "query_only = ON")
        else:
            # A rollback journal without full sync can damage the file when the power fails.
            wal = pragma(connection, "journal_mode") == "wal"
            pragma(connection, f"synchronous = {'NORMAL' if wal else 'FULL'}")
            pragma(connection, "foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _open(path: Path, readonly: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri()

    def opened(parameters: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{uri}?{parameters}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    if not readonly:
        return opened("mode=rwc")
    if _writable(path):
        # A read-only connection leaves the files of the write-ahead log behind.
        return opened("mode=rw")
    connection = opened("mode=ro")
    try:
        version_of(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        refused = error.sqlite_errorname.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
        if not refused or path.with_name(f"{path.name}-wal").exists():
            raise
        # There is no room for the files of a log, and no process has it open.
        return opened("mode=ro&immutable=1")
    return connection


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _upgrade(connection: sqlite3.Connection, path: Path, readonly: bool) -> None:
    if readonly and not _writable(path):
        if not version_of(connection):
            refuse_lost(path, "is empty")
        raise InputError(
            "written by an older version of pytest-benchjobs, and cannot be written for the upgrade. "
            "Make it writable, or copy its directory to a writable place",
            path=path,
        )
    pragma(connection, f"busy_timeout = {_UPGRADE_SECONDS * 1000:.0f}")
    with transaction(connection):
        # Read again: another process may have upgraded it meanwhile.
        version = version_of(connection)
        _refuse(path, version)
        if readonly and not version:  # a writer fills it
            refuse_lost(path, "is empty")
        for number, script in enumerate(migrations()[version:], version + 1):
            for statement in _statements(script):
                connection.execute(statement)
            pragma(connection, f"user_version = {number}")
    pragma(connection, f"busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def _choose_journal(connection: sqlite3.Connection, path: Path, *, readonly: bool) -> None:
    """Choose a write-ahead log where it works, else a rollback journal."""
    if on_network(path.parent):
        if _writable(path):
            _leave_log(connection)
    elif not readonly and pragma(connection, "journal_mode") != "wal" and wal_works(path.parent):
        _switch(connection, "WAL")


def _leave_log(connection: sqlite3.Connection) -> None:
    """Leave the write-ahead log of a copied file, unless other processes have the file open."""
    # Opening a log needs shared memory, which does not work here, unless a process has the file exclusively.
    pragma(connection, "locking_mode = EXCLUSIVE")
    try:
        _switch(connection, "DELETE")
    finally:
        pragma(connection, "locking_mode = NORMAL")
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # releases the lock


def _switch(connection: sqlite3.Connection, mode: str) -> None:
    """Change the journal. That is not possible while other processes have the file open; a later one will do it."""
    deadline = time.monotonic() + _SWITCH_SECONDS
    pragma(connection, "busy_timeout = 0")
    try:
        while not _switched(connection, mode) and time.monotonic() < deadline:
            time.sleep(_OPEN_RETRY_SECONDS)
    finally:
        pragma(connection, f"busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def _switched(connection: sqlite3.Connection, mode: str) -> bool:
    try:
        return bool(pragma(connection, f"journal_mode = {mode}") == mode.lower())
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise
        return False


def _refuse_newer(path: Path) -> None:
    """Refuse a history of a newer version without changing a byte of it."""
    # Not by reading the file itself: closing it would drop all locks of this process on it.
    version = _peek(path, "mode=ro&immutable=1")
    with contextlib.suppress(OSError):
        if path.with_name(f"{path.name}-wal").stat().st_size:
            # The version may be in the log of a dead process. This way of reading leaves the log as it is.
            version = max(version, _peek(path, "mode=ro"))
    _refuse(path, version)


def _peek(path: Path, parameters: str) -> int:
    """Return the version of a history; 0 if it cannot be read now."""
    with contextlib.suppress(sqlite3.Error):
        uri = f"{path.absolute().as_uri()}?{parameters}"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as reader:
            return version_of(reader)
    return 0


def _refuse(path: Path, version: int) -> None:
    """Refuse an unknown version."""
    if not 0 <= version <= _MOST_STEPS:
        raise InputError(f"is damaged: {version} is the version of no history. {_REBUILD}", path=path)
    if version <= len(migrations()):
        return
    raise NewerHistory(
        f"written by a newer version of pytest-benchjobs (schema {version}, not {len(migrations())}). "
        "Upgrade pytest-benchjobs, choose another --bench-dir, or move this file away and run `benchjobs db rebuild`, "
        "which makes a history of the files in jobs/",
        path=path,
    )


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a migration."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _is_busy(error: InfrastructureError) -> bool:
    name = getattr(error.__cause__, "sqlite_errorname", None) or ""
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _explain(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> InfrastructureError | InputError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return write_error(path, OSError(errno.ENOSPC, "no space left"))
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PERM")):
        return write_error(path, OSError(errno.EACCES, str(error)))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return write_error(
            path, OSError(errno.EBUSY, f"another process has kept it locked for {BUSY_SECONDS:g} s")
        )
    return InputError(f"is damaged or not a history ({error}). {_REBUILD}", path=path)
