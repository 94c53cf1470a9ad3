"""The parent: starts the children, reads their reports, and judges them.

    parent   root. Knows the task, starts the child, takes its report, ends all its processes, prints the verdict
    child    an unprivileged user with no way to the parent but one pipe. Runs the solution, then the tests, in one
             module, as the official harness does, and reports the result of each test

The solution runs in the process that reports, so the report is not trusted: it must have every test in the text of the
tests, and of the probes (`probes.py`) exactly those must have failed that have to.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pwd
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .examine import examine
from .probes import draw, must_fail
from .sanitize import sanitize

Record = Sequence[str]
"""A record of a child's report: a kind, and texts."""
_USER = "bigcodebenchuser"
_NOBODY = 65534
_REPORT = 8 * 1024**2
_STARTED = b"\n"
"""The first byte that a child sends. Without it, the container is at fault, not the solution."""
_END = b"\n\n"
_SANITIZE_SECONDS = 60.0
_CASES = "TestCases"
_EXCUSES = ("skip", "Skip", "expectedFailure")
_LATE = object()
_write, _exit = os.write, os._exit


def main() -> None:
    """Grade `task.json` in the directory above; prints one line of JSON."""
    task = json.loads((Path(__file__).resolve().parents[1] / "task.json").read_text("utf-8"))
    os.umask(0o022)
    verdict = grade(task)
    sys.stdout.write(json.dumps(verdict) + "\n")
    sys.stdout.flush()


def grade(task: Mapping[str, Any]) -> dict[str, Any]:
    """Run a solution with its tests; returns the verdict."""
    solution = task["solution"]
    if task["is_reply"]:
        said = _in_child(lambda: [("program", sanitize(solution, task["entry_point"]))], _SANITIZE_SECONDS)
        if not isinstance(said, list):
            return {"status": "fail", "reason": "no program could be found in the reply", "tests": {}}
        solution = said[0][1]
    code = f"{task['code_prompt']}\n    pass\n{solution}"
    planned, probes = planned_tests(task["test"]), draw()
    said = _in_child(lambda: examine(code, task["test"], probes), float(task["seconds"]))
    if said is _LATE:
        reason = f"it did not end within {task['seconds']:g} s"
        verdict: dict[str, Any] = {"status": "timeout", "reason": reason, "tests": {}, "overload": overload()}
    else:
        # Computed here, so that a child cannot find it in a frame.
        verdict = judge(said, planned, must_fail(probes))
    return {**verdict, "solution": solution if task["is_reply"] else None}


def overload() -> str | None:
    """Describe how overloaded the machine has been for a minute; None: it was not, or that is unknown."""
    with contextlib.suppress(OSError):
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
        if load > processors:
            return f"a load of {load:.1f} on {processors} processors"
    return None


def planned_tests(test: str) -> dict[str, bool]:
    """Return the tests in the text of a row's tests: name -> True if it may be skipped, or may fail."""
    try:
        classes = [node for node in ast.parse(test).body if isinstance(node, ast.ClassDef)]
    except SyntaxError as error:
        sys.exit(f"the tests of the row are no Python {sys.version_info[0]}.{sys.version_info[1]}: {error}")
    cases = next((node for node in reversed(classes) if node.name == _CASES), None)
    tests = {
        node.name: node
        for node in ([] if cases is None else cases.body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    }
    if cases is None or not tests:
        sys.exit(f"the row has no class {_CASES} with tests")
    shared = [*cases.decorator_list, *(node for node in cases.body if node not in tests.values())]
    texts = {name: "\n".join(map(ast.unparse, [*shared, node])) for name, node in tests.items()}
    return {name: any(word in text for word in _EXCUSES) for name, text in texts.items()}


def judge(said: Any, planned: Mapping[str, bool], failing: frozenset[str]) -> dict[str, Any]:
    """Judge the child's report; None: it could not be read."""
    if not isinstance(said, list):
        return {"status": "fail", "reason": "the process ended before its tests did", "tests": {}}
    tests = {record[1]: record[2] if len(record) > 2 else None for record in said if record[0] == "test"}
    told = {
        kind: {record[1] for record in said if record[0] == kind} for kind in ("reason", "excused", "probe")
    }
    missing = [name for name in planned if name not in tests]
    excused = [name for name in sorted(told["excused"]) if not planned.get(name, False)]
    reason: str | None = None
    if told["reason"]:
        reason = min(told["reason"])
    elif told["probe"] != failing:
        reason = "how it is tested was changed: tests that have to fail did not, or others did"
    elif excused:
        reason = f"tests were skipped, or expected to fail, that do not say so: {', '.join(excused[:5])}"
    elif missing and all(trace is None for trace in tests.values()):
        reason = f"not all tests were run: {', '.join(missing[:5])}"
    passed = reason is None and not missing and all(trace is None for trace in tests.values())
    return {"status": "pass" if passed else "fail", "reason": reason, "tests": tests}


def _in_child(work: Callable[[], list[Record]], seconds: float) -> list[Record] | object | None:
    """Return the report of a function run as another user, in its own process; None: it could not be read."""
    user = _user()
    home = tempfile.mkdtemp(prefix="bigcodebench-")
    os.chown(home, user, user)
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _become(user, home, sending)
            _write(sending, _STARTED)
            said = _written(work())
            while said:
                said = said[_write(sending, said) :]
        _exit(0)
    os.close(sending)
    try:
        return _received(receiving, time.monotonic() + seconds)
    finally:
        os.close(receiving)
        _end_all(user, child)
        shutil.rmtree(home, ignore_errors=True)


def _written(records: list[Record]) -> bytes:
    """Return records as bytes, by methods of built-in types alone, which no solution can change."""
    lines = [
        b" ".join([str.__str__(text).encode("utf-8", "replace").hex().encode() for text in record])
        for record in records
    ]
    return b"\n".join(lines) + _END


def _read(content: bytes) -> list[Record] | None:
    try:
        return [
            [bytes.fromhex(text.decode("ascii")).decode("utf-8") for text in line.split(b" ")]
            for line in content.removesuffix(_END).split(b"\n")
            if b" " in line
        ]
    except ValueError:
        return None


def _received(pipe: int, deadline: float) -> list[Record] | object | None:
    """Return the content of the pipe. Does not wait for its end, because children may hold it open."""
    content = bytearray()
    while len(content) <= _REPORT:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([pipe], [], [], max(0.0, left))
        if not ready or left < 0:
            return _LATE
        chunk = os.read(pipe, 65536)
        content += chunk
        if not content.startswith(_STARTED):
            sys.exit("no process of another user can be started in this container")
        if not chunk:
            break
        if len(content) > len(_END) and content.endswith(_END):
            return _read(bytes(content[len(_STARTED) :]))
    return None


def _user() -> int:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_USER).pw_uid
    return _NOBODY


def _end_all(user: int, child: int) -> None:
    """Kill the child and every process of the user, until there is none: forking processes are stopped first."""
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
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


def _become(user: int, home: str, sending: int) -> None:
    """Become the other user, keeping nothing of the parent's but one end of a pipe."""
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
