"""Trees for tests of carrying: how they are made, and what is to be seen of one. And our program, run on this machine."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from pytest_benchjobs.sandbox.program import program_file

SECOND = 10**9


@functools.cache
def program() -> Path:
    """Return the program for this machine, as a file."""
    file = program_file(platform.machine())
    assert file is not None
    assert file.content is not None
    directory = tempfile.mkdtemp(prefix="benchjobs-program-")
    atexit.register(shutil.rmtree, directory)
    path = Path(directory, "program")
    path.write_bytes(file.content)
    path.chmod(0o755)
    return path


def run_program(arguments: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[bytes]:
    """Run the program on this machine: a `Place`."""
    return run((program(), *arguments), stdin)


def run(command: Sequence[str | bytes | Path], stdin: Iterable[bytes]) -> Iterator[bytes]:
    """Run a command, feed it `stdin`, and yield what it prints."""
    failed: list[BaseException] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        feeding = threading.Thread(target=feed, args=(process.stdin, stdin, failed))
        feeding.start()
        while chunk := process.stdout.read1(1 << 18):
            yield chunk
        feeding.join()
        said = process.stderr.read()
    if failed:
        raise failed[0]
    if process.returncode:
        raise Refused(said.decode())


class Refused(Exception):
    """The program ended with an error."""


def feed(pipe: IO[bytes], chunks: Iterable[bytes], failed: list[BaseException]) -> None:
    """Write chunks to a pipe, whose reader may go away."""
    try:
        for chunk in chunks:
            pipe.write(chunk)
        pipe.close()
    except BrokenPipeError:
        pass
    except BaseException as error:
        failed.append(error)
        pipe.close()


@dataclasses.dataclass(frozen=True)
class Node:
    """A file, directory, link or FIFO."""

    kind: str
    content: bytes = b""
    """Of a file; target of a link; index of the file that a further name is for."""
    hole: int = 0
    """Size of a hole before the content, and of one after it."""
    mode: int = 0o644
    seconds: int = 1_000_000_000
    entries: tuple[tuple[bytes, Node], ...] = ()


def make(node: Node, at: Path, files: list[Path] | None = None) -> None:
    """Make a tree. `files`: those that further names can be for."""
    files = [] if files is None else files
    if node.kind == "directory":
        at.mkdir()
        for name, entry in dict(node.entries).items():
            make(entry, at / os.fsdecode(name), files)
    elif node.kind == "link":
        at.symlink_to(os.fsdecode(node.content))
    elif node.kind == "fifo":
        os.mkfifo(at)
    elif node.kind == "name" and files:
        at.hardlink_to(files[len(node.content) % len(files)])
        return
    else:
        with at.open("wb") as file:
            file.seek(node.hole)
            file.write(node.content)
            file.truncate(2 * node.hole + len(node.content))
        files.append(at)
    if node.kind != "link":
        at.chmod(node.mode)
    os.utime(at, ns=(0, node.seconds * SECOND + 5), follow_symlinks=False)


def seen(top: Path) -> dict[str, object]:
    """Return all that there is to be seen of a tree; files with several names have the first of them."""
    found: dict[str, object] = {}
    firsts: dict[int, str] = {}
    below = top.rglob("*") if top.is_dir() and not top.is_symlink() else ()
    for at in sorted((top, *below)) if os.path.lexists(top) else ():
        path, about = str(at.relative_to(top)), at.lstat()
        meta = (
            stat.S_IFMT(about.st_mode),
            about.st_mode & 0o1777,
            about.st_uid,
            about.st_gid,
            about.st_mtime_ns,
        )
        if stat.S_ISLNK(about.st_mode):
            found[path] = (*meta, at.readlink())
        elif stat.S_ISREG(about.st_mode):
            content = hashlib.sha256(at.read_bytes()).hexdigest()
            found[path] = (
                *meta,
                about.st_size,
                about.st_blocks,
                content,
                firsts.setdefault(about.st_ino, path),
            )
        else:
            found[path] = meta
    return found
