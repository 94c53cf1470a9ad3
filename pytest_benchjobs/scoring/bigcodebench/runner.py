"""The program that runs a solution of BigCodeBench with its tests, in the container for grading.

    parent   root. Knows the task, starts the child, takes its report, ends all its processes, prints the verdict
    child    an unprivileged user with no way to the parent but one pipe. Runs the solution, then the tests, in one
             module, as the official harness does, and reports what became of each test

The child's report counts only with the number that it was given, for all tests, and if `unittest` is what it was: the
solution runs in the same process. It is Python 3.9 or newer, with the standard library alone; what the official
harness changes for solutions (`_emulate`) is changed here in the same way.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import importlib
import io
import json
import os
import pwd
import resource
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.async_case
import unittest.mock
from pathlib import Path
from typing import Any, NoReturn

_USER = "bigcodebenchuser"
_NOBODY = 65534
_MODULE = "__test__"
_GIB = 1024**3
_MEMORY = 30 * _GIB
_STACK = 10 * 1024**2
_REPORT = 4 * 1024**2
_TRACE = 1500
_STARTED = b"\n"
"""The first that a child sends. None of it: the container is to blame, not the solution."""
_SANITIZE_SECONDS = 60.0
_WATCHED = (
    *("unittest", "unittest.case", "unittest.suite", "unittest.result", "unittest.loader", "unittest.util"),
    *("unittest.async_case", "unittest.mock"),
)
_MACHINERY = frozenset(name for name in dir(unittest.TestCase) if callable(getattr(unittest.TestCase, name)))


# parent


def main() -> None:
    """Grade `task.json` beside this file; prints one line of JSON."""
    here = Path(__file__).resolve().parent
    task = json.loads((here / "task.json").read_text("utf-8"))
    os.umask(0o022)
    solution = task["solution"]
    if task["is_reply"]:
        sys.path.insert(0, str(here))
        sanitize = importlib.import_module("sanitize").sanitize
        del sys.path[0]
        said = _in_child(lambda: sanitize(solution, task["entry_point"]), _SANITIZE_SECONDS)
        if not isinstance(said, str):
            _say({"status": "fail", "reason": "no program could be found in the reply", "tests": {}})
            return
        solution = said
    code = f"{task['code_prompt']}\n    pass\n{solution}"
    number = secrets.token_hex(16)
    said = _in_child(lambda: _examine(code, task["test"], number), float(task["seconds"]))
    _say({**_verdict(said, number), "solution": solution if task["is_reply"] else None})


def _verdict(said: Any, number: str) -> dict[str, Any]:
    """Judge what the child reported; None: it did not, in time."""
    if said is _LATE:
        return {"status": "timeout", "reason": "it did not end in time", "tests": {}}
    if not isinstance(said, dict) or said.pop("number", None) != number:
        return {"status": "fail", "reason": "the process ended before its tests did", "tests": {}}
    tests, reason = said["tests"], said["reason"]
    passed = reason is None and all(trace is None for trace in tests.values())
    return {"status": "pass" if passed else "fail", "reason": reason, "tests": tests}


_LATE = object()


def _in_child(work: Any, seconds: float) -> Any:
    """What a function returns that runs as another user in a process of its own; None: nothing that can be read."""
    user = _user()
    home = tempfile.mkdtemp(prefix="bigcodebench-")
    os.chown(home, user, user)
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _become(user, home, sending)
            os.write(sending, _STARTED)
            said = json.dumps(work()).encode("utf-8", "replace")
            while said:
                said = said[os.write(sending, said) :]
        _exit(0)
    os.close(sending)
    try:
        return _received(receiving, time.monotonic() + seconds)
    finally:
        os.close(receiving)
        _end_all(user, child)
        shutil.rmtree(home, ignore_errors=True)


_exit = os._exit


def _received(pipe: int, deadline: float) -> Any:
    """The one object that comes through the pipe. The end of the pipe is not waited for: children may hold it."""
    content = b""
    while len(content) <= _REPORT:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return _LATE
        chunk = os.read(pipe, 65536)
        content += chunk
        if not content.startswith(_STARTED):
            sys.exit("no process of another user can be started in this container")
        if not chunk or chunk.endswith((b"}", b'"')):
            with contextlib.suppress(ValueError):
                return json.loads(content)
        if not chunk:
            break
    return None


def _user() -> int:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_USER).pw_uid
    return _NOBODY


def _end_all(user: int, child: int) -> None:
    """Kill every process of the user, until there is none: whoever forks is stopped first."""
    for _ in range(50):
        found = [pid for pid in _numbers("/proc") if _owner(pid) == user]
        if not found:
            break
        for name in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, name)
        with contextlib.suppress(OSError):
            os.waitpid(child, os.WNOHANG)
        time.sleep(0.02)


def _numbers(directory: str) -> list[int]:
    return [int(path.name) for path in Path(directory).iterdir() if path.name.isdigit()]


def _owner(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        if "\nState:\tZ" not in status:
            return int(status.partition("\nUid:")[2].split()[0])
    return None


def _say(verdict: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(verdict) + "\n")
    sys.stdout.flush()


# child


def _become(user: int, home: str, sending: int) -> None:
    """Turn into the other user, with nothing of the parent's but one end of a pipe."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for descriptor in _numbers("/proc/self/fd"):
        if descriptor not in (0, 1, 2, sending):
            with contextlib.suppress(OSError):
                os.close(descriptor)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.chdir(home)
    place = _home_of(user) or home
    os.environ.update(HOME=place, USER=_USER, LOGNAME=_USER)
    for name in [name for name in os.environ if name.startswith("BENCH_")]:
        del os.environ[name]


def _home_of(user: int) -> str | None:
    with contextlib.suppress(KeyError, OSError):
        place = pwd.getpwuid(user).pw_dir
        if Path(place).is_dir() and os.access(place, os.W_OK):
            return place
    return None


def _examine(code: str, test: str, number: str) -> dict[str, Any]:
    """Run a solution and its tests in one module; returns what became of each."""
    sys.modules["__main__"] = types.ModuleType("__main__")  # not this program
    module = types.ModuleType(_MODULE)
    vars(module).update(
        __builtins__=builtins, __file__=f"{_MODULE}.py", __package__=None, __doc__=None,
        sys=sys, os=os, environ=os.environ,
    )  # fmt: skip
    reason: str | None = None
    tests: dict[str, str | None] = {}
    pristine = _Pristine()
    _limit()
    with _emulated():
        try:
            exec(compile(code, f"{_MODULE}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102  what it is for
            pristine.restore()
            exec(compile(test, f"{_MODULE}.py", "exec", dont_inherit=True), vars(module))  # noqa: S102
            sys.modules[_MODULE] = module
            tests, reason = _run(vars(module)["TestCases"], pristine)
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"[:_TRACE]
    return {"number": number, "tests": tests, "reason": reason}


def _run(cases: Any, pristine: _Pristine) -> tuple[dict[str, str | None], str | None]:
    """Run the tests of a class as its suite would; stops where `unittest` is not what it was."""
    if not (isinstance(cases, type) and issubclass(cases, unittest.TestCase)):
        return {}, "there is no class TestCases of tests"
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromTestCase(cases)
    count = suite.countTestCases()
    result = _Result(pristine, cases, frozenset(loader.getTestCaseNames(cases)))
    suite.run(result)
    seen: dict[str, str | None] = {}
    for issue, trace in [*result.failures, *result.errors]:
        seen[str(issue.id()).rsplit(".", 1)[-1][:200]] = trace[-_TRACE:]
    if result.tampered is not None:
        return seen, result.tampered
    for name in result.ended:
        seen.setdefault(name, None)
    is_complete = len(result.ended) == count or any(trace is not None for trace in seen.values())
    return seen, None if is_complete else "not all tests were run"


class _Result(unittest.TestResult):
    """Results of tests, which also sees that each was run by the means of `unittest`."""

    def __init__(self, pristine: _Pristine, cases: type, tests: frozenset[str]) -> None:
        super().__init__()
        self.ended: list[str] = []
        self.tampered: str | None = None
        self._pristine = pristine
        self._cases = cases
        self._machinery = _MACHINERY | tests
        self._class = self._machinery_of(cases)
        self._outcomes = 0

    def _machinery_of(self, thing: object) -> dict[str, Any]:
        return {name: value for name, value in vars(thing).items() if name in self._machinery}

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802  unittest's
        """Count the test as one that has a result."""
        super().addSuccess(test)
        self._outcomes += 1

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802  unittest's
        """See that nothing was changed, and that the test has a result."""
        super().stopTest(test)
        self.ended.append(str(test.id()).rsplit(".", 1)[-1][:200])
        others: tuple[list[Any], ...] = (
            self.failures,
            self.errors,
            self.skipped,
            self.expectedFailures,
            self.unexpectedSuccesses,
        )
        changed = [f"{getattr(place, '__name__', place)}.{name}" for place, name in self._pristine.changed()]
        changed += sorted(
            name
            for name, value in self._machinery_of(self._cases).items()
            if value is not self._class.get(name)
        )
        changed += sorted(self._machinery_of(test))
        changed += sorted(name for name in vars(self) if name.startswith("add"))
        if self._outcomes + sum(len(other) for other in others) < len(self.ended):
            changed.append("results")
        if changed or self._machinery_of(self._cases).keys() != self._class.keys():
            self.tampered = f"how it is tested was changed: {', '.join(changed[:5])}"
            self.shouldStop = True


class _Pristine:
    """`unittest` as it was before anything of the solution ran."""

    def __init__(self) -> None:
        # Some of it is made when it is first asked for.
        _ = unittest.IsolatedAsyncioTestCase
        unittest.mock.mock_open()
        places: list[Any] = [importlib.import_module(name) for name in _WATCHED]
        places += [
            thing
            for module in list(places)
            for thing in vars(module).values()
            if isinstance(thing, type) and thing.__module__.startswith("unittest")
        ]
        places += [AssertionError, builtins]
        self._kept = [(place, dict(vars(place))) for place in {id(place): place for place in places}.values()]

    def changed(self) -> list[tuple[Any, str]]:
        """What differs by now; what was added to a module or to the builtins does not matter."""
        return [
            (place, name)
            for place, kept in self._kept
            for name in {*kept, *(vars(place) if isinstance(place, type) else ())}
            if name not in _VOLATILE and vars(place).get(name, _LATE) is not kept.get(name, _LATE)
        ]

    def restore(self) -> None:
        """Make everything what it was."""
        for place, name in self.changed():
            kept = dict(self._kept_of(place))
            with contextlib.suppress(AttributeError, TypeError):
                if name in kept:
                    setattr(place, name, kept[name])
                else:
                    delattr(place, name)

    def _kept_of(self, wanted: Any) -> dict[str, Any]:
        return next(kept for place, kept in self._kept if place is wanted)


_VOLATILE = frozenset(
    ("_", "exit", "quit", "__dict__", "__weakref__", "_abc_impl", "_class_cleanups", "_classSetupFailed")
) | {"open", "print", "input", "__import__", "_patch_multiple"}
"""Tests change these, and undo it after their end at times."""


# what the official harness changes for solutions


def _limit() -> None:
    """Limits and variables of the official harness; parts of the environment that a solution must not use."""
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
    """Output that is thrown away, and input that cannot be read."""

    def read(self, *_: Any) -> NoReturn:
        raise OSError

    readline = readlines = read

    def readable(self) -> bool:
        return False


class _Input(contextlib._RedirectStream[io.StringIO]):
    _stream = "stdin"


@contextlib.contextmanager
def _emulated() -> Any:
    """Standard streams into nothing; commands as the official harness lets solutions run them."""
    nothing = _Unreadable()
    with (
        contextlib.redirect_stdout(nothing),
        contextlib.redirect_stderr(nothing),
        _Input(nothing),
    ):
        _guard_commands()
        yield


def _guard_commands() -> None:
    """Commands that kill do nothing and succeed; others are run in sessions of their own, their output in pipes."""
    kill, getpgid, started = os.kill, os.getpgid, set[int]()
    own, group = os.getpid(), os.getpgid(0)
    call, check_output, run, popen = (
        subprocess.call,
        subprocess.check_output,
        subprocess.run,
        subprocess.Popen,
    )
    system, os_popen, killpg = os.system, os.popen, os.killpg

    def kills(command: Any) -> bool:
        return "kill" in command or "killall" in command

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
            safe_kill(self.pid, signal.SIGTERM)

        terminate = kill

    def safe_kill(pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            getpgid(pid)
            if pid == own or pid in started:
                kill(pid, number)

    def safe_killpg(wanted: int, number: int) -> None:
        if wanted == group or wanted in started:
            killpg(wanted, number)

    def safe_run(*args: Any, **kwargs: Any) -> Any:
        if kills(args[0]):
            return subprocess.CompletedProcess(args, 0, b"", b"")
        if not kwargs.get("capture_output"):
            kwargs.setdefault("stdout", subprocess.PIPE)
            kwargs.setdefault("stderr", subprocess.PIPE)
        return run(*args, **kwargs)

    changes: Any = {
        os: {
            "kill": safe_kill,
            "killpg": safe_killpg,
            "system": lambda command: 0 if kills(command) else system(command),
            "popen": lambda command: os_popen("echo Intercepted" if kills(command) else command),
            **dict.fromkeys(("execv", "execvp", "execvpe"), lambda *_, **__: None),
        },
        subprocess: {
            "call": lambda command, *args, **more: 0 if kills(command) else call(command, *args, **more),
            "check_output": lambda command, *args, **more: (
                b"" if "ps" in command else check_output(command, *args, **more)
            ),
            "run": safe_run,
            "Popen": Popen,
        },
    }
    for module, functions in changes.items():
        for name, function in functions.items():
            setattr(module, name, function)


if __name__ == "__main__":
    main()
