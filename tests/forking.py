"""Starts of pytest and of our commands as forks of a process that has imported them.

To import pytest and this package takes longer than what most tests start them for. So that is done once. A fork of
the process in which it was done, and nothing else, is to a test what `python -m pytest` is: a process with a
directory, variables, files, threads and signals of its own. What it starts itself, workers of xdist for one, is forked
from there again, not from it. Whatever a fork is not the same as, a session of its own below it for one, begins from
nothing.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import random
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

_MOST_FILES = 16
_HEEDED = ("LANG", "LC_", "PYTHON")
"""Beginnings of variables that an interpreter heeds when it starts."""
_HEEDED_HERE = ("PYTHONPATH", "PYTHONUNBUFFERED")
_IMPORTED = ("docker", "faulthandler", "junitparser", "pdb", "statistics", "xdist.dsession", "xdist.remote")
"""Besides all of this package, whose modules import most of what they need when it is needed."""
_OPTIONAL = "pytest_benchjobs.viewer"

address: str | None = None
"""Where forks are asked for."""
session = 0
"""That of the process which is forked."""


class Program(NamedTuple):
    """What Python is called for."""

    kind: str
    """`-m` or `-c`."""
    text: str
    arguments: Sequence[str]
    flags: Sequence[str]
    """`-P` keeps the directory out of `sys.path`, `-u` what is printed out of buffers."""


def program(command: Any) -> Program | None:
    """What a command runs, if it runs this Python in a way that can be forked."""
    if not isinstance(command, list | tuple) or not command or command[0] != sys.executable:
        return None
    words = [os.fspath(word) for word in command[1:]]
    flags = []
    while words and words[0] in ("-u", "-P"):
        flags.append(words.pop(0))
    if words and words[0][:2] in ("-m", "-c"):
        kind, text = words[0][:2], words[0][2:]
        rest = words[1:] if text else words[2:]
        text = text or words[1]
        if kind == "-c" or text.split(".")[0] in ("pytest", "pytest_benchjobs"):
            return Program(kind, text, rest, flags)
    return None


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """`subprocess.Popen`, which asks for a fork where one will do.

    Its private methods are those which make a process and wait for it; everything else is as it was.
    """

    _answers: socket.socket | None = None

    def _execute_child(self, *arguments: Any) -> None:
        asked = _SIGNATURE.bind(self, *arguments).arguments
        found = program(asked["args"])
        environment = dict(os.environ if asked["env"] is None else asked["env"])
        plain = asked["preexec_fn"] is None and not asked["shell"] and asked["executable"] is None
        if not (found and plain and address and os.getsid(0) == session and _heeded(environment) == _THERE):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        pipes = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [number if file == -1 else file for number, file in enumerate(pipes)]
        call = {
            "program": found,
            "directory": os.path.abspath(asked["cwd"] or "."),  # noqa: PTH100
            "environment": environment,
            "files": [0, 1, 2, *asked["pass_fds"]],
            "group": None if asked["start_new_session"] else os.getpgid(0),
        }
        self._answers = socket.socket(socket.AF_UNIX)
        self._answers.connect(address)
        socket.send_fds(self._answers, [b"!"], [*files, *asked["pass_fds"]])
        self._answers.sendall(f"{json.dumps(call)}\n".encode())
        self.pid = int(_line(self._answers))
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined]
            *(asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"))
        )

    def __del__(self) -> None:
        """Let go of one that nobody waits for."""
        if self._answers is not None:
            self._answers.close()
        super().__del__()

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._answers is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc,no-any-return]
        if wait_flags & os.WNOHANG and not select.select([self._answers], [], [], 0)[0]:
            return 0, 0
        status = int(_line(self._answers))
        self._answers.close()
        return self.pid, status

    def _internal_poll(self, *arguments: Any, **more: Any) -> int | None:
        if self._answers is None:
            return super()._internal_poll(*arguments, **more)  # type: ignore[misc,no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


GENUINE = subprocess.Popen
_SIGNATURE = inspect.signature(GENUINE._execute_child)  # type: ignore[attr-defined]


def _line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        if not (more := connection.recv(1)):
            raise OSError("the process that is forked is gone")
        line += more
    return line


def _heeded(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(_HEEDED) and name not in _HEEDED_HERE
    }


_THERE = _heeded(os.environ)


@contextlib.contextmanager
def served() -> Iterator[None]:
    """While it lasts, `Popen` forks; inside of another one, from the process that is there."""
    global address, session
    if address is not None:
        yield
        return
    directory = tempfile.mkdtemp(prefix="forking-")
    without_path = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with socket.socket(socket.AF_UNIX) as listening:
        address = f"{directory}/asked"
        listening.bind(address)
        listening.listen(64)
        process = GENUINE(
            [sys.executable, "-P", __file__, address, str(listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
            env=without_path,
        )
    session = os.getsid(0)
    try:
        yield
    finally:
        address = None
        process.communicate()
        shutil.rmtree(directory, ignore_errors=True)


def _import() -> None:
    # As a plugin first: what pytest did not import itself it would complain about.
    with contextlib.redirect_stdout(io.StringIO()):
        importlib.import_module("pytest").main(["--version", "--version", "-p", "no:hypothesispytest"])
    package = importlib.import_module("pytest_benchjobs")
    for found in pkgutil.walk_packages(package.__path__, "pytest_benchjobs."):
        # What needs an extra that is not installed is not started, either.
        if not found.name.startswith(_OPTIONAL):
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(found.name)
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _become(call: dict[str, Any]) -> NoReturn:
    found = Program(*call["program"])
    os.chdir(call["directory"])
    os.environ.clear()
    os.environ.update(call["environment"])
    path = [] if "-P" in found.flags else ["" if found.kind == "-c" else call["directory"]]
    if given := os.environ.get("PYTHONPATH"):
        path += [os.path.abspath(one) for one in given.split(os.pathsep) if one]  # noqa: PTH100
    sys.path[:0] = path
    tempfile.tempdir = None
    random.seed()
    time.tzset()
    at_once = "-u" in found.flags or bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, (name, mode) in enumerate((("stdin", "rb"), ("stdout", "wb"), ("stderr", "wb"))):
        was = getattr(sys, f"__{name}__")
        stream = io.TextIOWrapper(
            open(number, mode, 0 if at_once and mode == "wb" else -1, closefd=False),  # noqa: SIM115
            encoding=was.encoding,
            errors=was.errors,
            line_buffering=name == "stderr" or os.isatty(number),
            write_through=at_once and mode == "wb",
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    try:
        if found.kind == "-m":
            sys.argv = [found.text, *found.arguments]
            runpy.run_module(found.text, run_name="__main__", alter_sys=True)
        else:
            sys.argv = ["-c", *found.arguments]
            main = types.ModuleType("__main__")
            main.__dict__["__builtins__"] = builtins
            sys.modules["__main__"] = main
            exec(compile(found.text, "<string>", "exec"), main.__dict__)
    except SystemExit as ending:
        _end(ending)
    _end(SystemExit())


def _end(ending: SystemExit) -> NoReturn:
    """Do what Python does at its end, except to take all modules apart, which takes as long as a short test."""
    threading._shutdown()  # type: ignore[attr-defined]
    if ending.code is not None and not isinstance(ending.code, int):
        print(ending.code, file=sys.stderr)
    atexit._run_exitfuncs()
    status = 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            status = 120  # as of an interpreter that cannot say its last words
    os._exit(
        status or (0 if ending.code is None else ending.code & 0xFF if isinstance(ending.code, int) else 1)
    )


def _place(received: Sequence[int], wanted: Sequence[int]) -> None:
    """Give files the numbers they had."""
    above = max(*received, *wanted) + 1
    for number, file in enumerate(received):
        os.dup2(file, above + number, inheritable=False)
    for file in received:
        os.close(file)
    for number, file in enumerate(wanted):
        os.dup2(above + number, file)
        os.close(above + number)


def _answer(asked: socket.socket) -> dict[str, Any] | None:
    """Make a fork, and tell when it has ended. Returns in the fork."""
    _, received, _, _ = socket.recv_fds(asked, 1, _MOST_FILES)
    call: dict[str, Any] = json.loads(_line_of(asked))
    if pid := os.fork():
        for file in received:
            os.close(file)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            asked.sendall(b"%d\n" % status)
        return None
    if call["group"] is None:
        os.setsid()
    else:
        os.setpgid(0, call["group"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked.sendall(b"%d\n" % os.getpid())
    asked.close()
    _place(received, call["files"])
    return call


def _line_of(asked: socket.socket) -> bytes:
    with asked.makefile("rb") as file:
        return file.readline()


def _bury() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _serve(listening: socket.socket) -> None:
    while True:
        ready, _, _ = select.select([listening, 0], [], [])
        _bury()
        if 0 in ready:
            return
        asked, _ = listening.accept()
        if os.fork():
            asked.close()
            continue
        listening.close()
        call = _answer(asked)
        if call is None:
            os._exit(0)
        _become(call)


if __name__ == "__main__":
    _kept = sys.modules["__main__"]  # forks have a main module of their own
    address = sys.argv[1]
    session = os.getsid(0)
    _import()
    subprocess.Popen = Popen  # type: ignore[misc]
    _serve(socket.socket(fileno=int(sys.argv[2])))
