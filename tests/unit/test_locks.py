"""A file system without locks is told at once, and by its name."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import ResultsUnwritable
from pytest_benchjobs.store.database import connect
from pytest_benchjobs.store.filesystem import why_no_locks
from pytest_benchjobs.system.keeping import side_by_side

# What the C library of a process is given in place of its own: every lock is refused, as by NFS without a lock service.
NO_LOCKS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
static int refuse(int cmd, void *arg) {
  return (cmd == F_SETLK || cmd == F_SETLKW) && ((struct flock *)arg)->l_type != F_UNLCK;
}
#define WRAP(NAME) int NAME(int fd, int cmd, ...) { \
  va_list list; va_start(list, cmd); void *arg = va_arg(list, void *); va_end(list); \
  if (refuse(cmd, arg)) { errno = ENOLCK; return -1; } \
  int (*real)(int, int, ...) = dlsym(RTLD_NEXT, #NAME); return real(fd, cmd, arg); }
WRAP(fcntl)
WRAP(fcntl64)
"""


def test_who_is_to_be_alone_waits_until_the_others_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path))
    order = []

    def be_alone() -> None:
        with side_by_side("tests", alone=True):
            order.append("alone")

    with side_by_side("tests", alone=False), side_by_side("tests", alone=False):
        thread = threading.Thread(target=be_alone)
        thread.start()
        thread.join(0.1)
        order.append("others")
    thread.join()
    assert order == ["others", "alone"]


@pytest.mark.parametrize("readonly", [False, True])
def test_a_history_where_there_are_no_locks(tmp_path: Path, readonly: bool) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, and Linux")
    source, library = tmp_path / "no_locks.c", tmp_path / "no_locks.so"
    source.write_text(NO_LOCKS)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    path = tmp_path / "reports" / "history.sqlite"
    connect(path, readonly=False).close()
    script = (
        "import sys, pathlib\nfrom pytest_benchjobs.store.database import connect\n"
        f"connect(pathlib.Path(sys.argv[1]), readonly={readonly})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ResultsUnwritable" in done.stderr
    assert "history.sqlite: its file system gives no locks (No locks available)" in done.stderr
    assert "--bench-dir" in done.stderr


@pytest.mark.parametrize(
    ("number", "known"),
    [(errno.ENOLCK, True), (errno.ENOSYS, True), (errno.EAGAIN, False), (errno.EIO, False)],
)
def test_only_what_says_that_there_are_none_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, known: bool
) -> None:
    def lockf(descriptor: int, how: int) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(fcntl, "lockf", lockf)
    assert why_no_locks(tmp_path) == (os.strerror(number) if known else None)
    assert list(tmp_path.iterdir()) == []
    if known:
        with pytest.raises(ResultsUnwritable, match="no locks"):
            connect(tmp_path / "history.sqlite", readonly=False)


def test_a_directory_that_cannot_be_written_tells_nothing(tmp_path: Path) -> None:
    assert why_no_locks(tmp_path / "nothing") is None
    assert why_no_locks(tmp_path) is None
