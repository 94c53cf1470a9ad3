"""Changes of the official harness for solutions: limits, standard streams, and commands that kill nothing."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import importlib
import io
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

_GIB = 1024**3
_MEMORY = 30 * _GIB
_STACK = 10 * 1024**2


def limit() -> None:
    """Apply the limits and variables of the official harness, and remove what a solution must not use."""
    os.environ.update(TZ="UTC", OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")
    time.tzset()
    for what, size in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_DATA, _MEMORY),
        (resource.RLIMIT_STACK, _STACK),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (size, size))
    faulthandler.disable()
    builtins.exit = builtins.quit = None  # type: ignore[assignment]
    with contextlib.suppress(ImportError):
        importlib.import_module("matplotlib.pyplot").close("all")


class _Unreadable(io.StringIO):
    """A stream whose output is dropped, and whose input cannot be read."""

    def read(self, *_: Any) -> NoReturn:
        raise OSError

    readline = readlines = read

    def readable(self) -> bool:
        return False


class _Input(contextlib._RedirectStream[io.StringIO]):
    _stream = "stdin"


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Context with standard streams that lead nowhere, and commands as the official harness lets solutions run them."""
    nothing = _Unreadable()
    with (
        contextlib.redirect_stdout(nothing),
        contextlib.redirect_stderr(nothing),
        _Input(nothing),
    ):
        _guard_commands()
        yield


def _guard_commands() -> None:
    """Make killing commands do nothing and succeed; others run in sessions of their own, with their output in pipes."""
    started = set[int]()
    safe_kill, functions = _signals(started)
    changes: dict[Any, dict[str, Any]] = {
        os: functions
        | _shell_commands()
        | dict.fromkeys(("execv", "execvp", "execvpe"), lambda *_, **__: None),
        subprocess: {**_subprocesses(), "Popen": _popen(started, safe_kill)},
    }
    for module, replacements in changes.items():
        for name, function in replacements.items():
            setattr(module, name, function)


def _kills(command: Any) -> bool:
    return "kill" in command or "killall" in command


def _signals(started: set[int]) -> tuple[Callable[[int, int], None], dict[str, Any]]:
    """Return a `kill` for this process and those it started, and the functions of `os` that send signals."""
    kill, killpg = os.kill, os.killpg
    own, group = os.getpid(), os.getpgid(0)

    def safe_kill(pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if pid == own or pid in started:
                kill(pid, number)

    def safe_killpg(wanted: int, number: int) -> None:
        if wanted == group or wanted in started:
            killpg(wanted, number)

    return safe_kill, {"kill": safe_kill, "killpg": safe_killpg}


def _shell_commands() -> dict[str, Any]:
    system, popen = os.system, os.popen
    return {
        "system": lambda command: 0 if _kills(command) else system(command),
        "popen": lambda command: popen("echo Intercepted" if _kills(command) else command),
    }


def _subprocesses() -> dict[str, Any]:
    call, check_output, run = subprocess.call, subprocess.check_output, subprocess.run

    def safe_run(*args: Any, **kwargs: Any) -> Any:
        if _kills(args[0]):
            return subprocess.CompletedProcess(args, 0, b"", b"")
        if not kwargs.get("capture_output"):
            kwargs.setdefault("stdout", subprocess.PIPE)
            kwargs.setdefault("stderr", subprocess.PIPE)
        return run(*args, **kwargs)

    return {
        "call": lambda command, *args, **more: 0 if _kills(command) else call(command, *args, **more),
        "check_output": lambda command, *args, **more: (
            b"" if "ps" in command else check_output(command, *args, **more)
        ),
        "run": safe_run,
    }


def _popen(started: set[int], kill: Callable[[int, int], None]) -> type:
    """Return a `Popen` whose processes have sessions of their own, and are recorded as started."""
    popen = subprocess.Popen

    class Popen(popen):  # type: ignore[valid-type, misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.setdefault("stdout", subprocess.PIPE)
            kwargs.setdefault("stderr", subprocess.PIPE)
            kwargs["preexec_fn"] = os.setsid
            super().__init__(*args, **kwargs)
            started.add(self.pid)

        def communicate(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().communicate(*args, **kwargs)
            except subprocess.TimeoutExpired:
                return None, None

        def kill(self) -> None:
            kill(self.pid, signal.SIGTERM)

        terminate = kill

    return Popen
