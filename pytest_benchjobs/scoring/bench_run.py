"""`bench-run`: a scorer has a program of the agent run where the agent worked, and gets what it prints.

The scorer's script is below `serve` of our program, which speaks frames over its own standard streams: the script, what
the scorer prints, and requests of `bench-run`. So there is no mount, no port and no file between the two places, and it
works without a network; and the script is a file without a name, where no program of the agent can read it. What such a
program prints is the agent's word, whatever it is called.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import posixpath
import queue
import shlex
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ..model.errors import InfrastructureError, OutputLost, Ungradable
from ..sandbox.carry.transfer import carry
from ..sandbox.program import PROGRAM
from ..sandbox.protocol import ExecResult, Sandbox, Sink
from ..sandbox.runner import CLOSE, ERRORS, EXIT, INPUT, KILL, OUTPUT, RUN, Frames, Runner
from ..sandbox.shell import by_shell
from ..system.cutting import HeadSink, TailSink

BENCH_RUN = "/bench/bench-run"
"""The client: our program under another name. Its directory is the first on a scorer's PATH."""
_SHELL = by_shell("/proc/self/fd/3")
_GIT = 'export GIT_NO_REPLACE_OBJECTS="${GIT_NO_REPLACE_OBJECTS-1}"; '
"""Git does not take one commit for another because a repository that was carried says so."""
_OWN_FILE = "exec 3<&-; "
"""Beginning of a script: what it starts does not have its file."""
MODULE = "/bench/lib/benchjobs_run.py"
"""The same as a function, for tests and scripts in Python; `MODULE_SOURCE` is its file here."""
MODULE_SOURCE = Path(__file__).with_name("benchjobs_run.py")
HOME = "/bench/home"
"""Home of a scorer whose own is among what the agent left."""
_FAILED, _TIMED_OUT = 125, 124
_OF_CUT = (0, 126)
"""Status of `serve` where the connection breaks: its own, and what engines say where that broke as it began."""
_HEAD = 2000
_MOST = 1 << 20
"""Most bytes of a program's output that a scorer gets, the last ones."""
_LOOK = 0.2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> _Parser:
    parser = _Parser(prog="bench-run", add_help=False, allow_abbrev=False)
    parser.add_argument("--in", dest="given", action="append", default=[])
    parser.add_argument("--out", dest="wanted", action="append", default=[])
    parser.add_argument("--stdin")
    parser.add_argument("--timeout", type=float)
    parser.add_argument("--user")
    parser.add_argument("--fresh", action="store_true")
    return parser


class BenchRun:
    """Programs of the agent, for one scorer, which runs in `place`.

    `agent` runs them where the agent worked, `another` in an untouched place with the agent's files (`--fresh`); `here`
    runs programs of ours where the scorer is, for `--in` and `--out`. `ids` are those of a user, of None the agent's.
    `without` are variables that the scorer does not have (NAME=PATH: not if there is such a file), and in `home` there
    is no home of it.
    """

    def __init__(
        self,
        place: Sandbox,
        agent: Callable[[], Runner],
        another: Callable[[], Runner],
        here: Callable[[], Runner],
        ids: Callable[[str | None], tuple[int, int]],
        without: Collection[str] = (),
        home: Collection[str] = (),
    ) -> None:
        self._place, self._ids, self._without = place, ids, without
        elsewhere = "|".join(f"{shlex.quote(path)}/*" for path in home)
        self._shell = (
            f'case "$HOME/" in {elsewhere}) export HOME={HOME};; esac; {_GIT}{_SHELL}' if home else _SHELL
        )
        self._agent, self._another, self._here = agent, another, here
        self._frames = Frames(self._take)
        self._sinks: dict[int, Sink] = {}
        self._inputs: dict[int, queue.SimpleQueue[bytes | None]] = {}
        self._killed: set[int] = set()
        self._has_ended = False
        """The scorer has said so: only then is its status its own."""

    def exec(
        self,
        script: str,
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None = None,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run a script of the scorer by `bash`, or `sh` where there is none, otherwise as `Sandbox.exec` does.

        OutputLost: the connection broke. `serve` hears no more then, and ends, whatever the script did.
        """
        self._has_ended = False
        frames = self._frames = Frames(self._take)
        without = (one for one in self._without if one.partition("=")[0] not in (env or {}))
        command = (*without, "", "/bin/sh", "-c", self._shell)

        def begin(send: Callable[[bytes], None]) -> None:
            frames.attach(send)
            with contextlib.suppress(OSError):  # it is gone, which its status and its silence tell
                frames.write(INPUT, 0, f"{_OWN_FILE}{script}\n".encode("utf-8", "surrogateescape"))
                frames.write(RUN, 0, b"".join(word.encode() + b"\0" for word in command))

        def both(content: bytes) -> None:
            sink(content)
            if stdout is not None:
                stdout(content)

        self._sinks = {OUTPUT: both, ERRORS: sink}
        head = HeadSink(_HEAD)

        def hear(content: bytes) -> None:
            if not frames.ready.is_set():
                head(content)

        result = self._place.exec(
            (PROGRAM, "serve", "scorer"),
            timeout=timeout,
            sink=hear,
            stdout=frames.feed,
            stdin=begin,
            user=user,
            env=env,
        )
        if result.exit_status in _OF_CUT and result.started and not self._has_ended:
            raise OutputLost("the connection with a scorer broke before it ended")
        if not frames.ready.is_set():
            sink(head.raw())  # why it did not start
        return result

    def run(self, command: Sequence[str], stdin: bytes, timeout: float) -> tuple[int | None, bytes]:
        """Run one program of the agent; returns its exit status, None if its time was up, and what it printed."""
        printed = TailSink(_MOST)
        status = self._agent().run(
            _found(command),
            stdout=printed,
            stderr=printed,
            stdin=(stdin,) if stdin else (),
            workdir=self._place.workdir,
            ids=self._ids(None),
            timeout=timeout,
        )
        return status, printed.raw()

    def _take(self, kind: int, number: int, content: bytes) -> None:
        if number == 0:
            self._has_ended |= kind == EXIT
            if kind in self._sinks:
                self._sinks[kind](content)
        elif kind == RUN:
            self._inputs[number] = queue.SimpleQueue()
            threading.Thread(
                target=self._serve, args=(number, content), name="bench-run", daemon=True
            ).start()
        elif kind == INPUT and number in self._inputs:
            self._inputs[number].put(content)
        elif kind in (CLOSE, KILL) and number in self._inputs:
            self._inputs[number].put(None)
            if kind == KILL:
                self._killed.add(number)

    def _serve(self, number: int, request: bytes) -> None:
        frames = self._frames
        try:
            status = self._run(number, request, lambda kind, data: frames.write(kind, number, data))
        except (ValueError, InfrastructureError, Ungradable) as error:
            status = _FAILED
            with contextlib.suppress(Exception):
                frames.write(ERRORS, number, f"bench-run: {error}\n".encode("utf-8", "replace"))
        finally:
            del self._inputs[number]
        with contextlib.suppress(Exception):
            frames.write(EXIT, number, bytes([status & 255]))

    def _run(self, number: int, request: bytes, tell: Callable[[int, bytes], None]) -> int:
        directory, *words = (part.decode("utf-8", "surrogateescape") for part in request.split(b"\0")[:-1])
        if "--" not in words or words[-1] == "--":
            raise ValueError("a command is expected after --")
        at = words.index("--")
        options, command = _parser().parse_args(words[:at]), words[at + 1 :]
        runner = self._another() if options.fresh else self._agent()
        given, wanted = (
            [posixpath.normpath(posixpath.join(directory, path)) for path in paths]
            for paths in (options.given, options.wanted)
        )
        if given:
            _move(self._here(), runner, given)

        status = runner.run(
            _found(command),
            stdout=functools.partial(tell, OUTPUT),
            stderr=functools.partial(tell, ERRORS),
            stdin=iter(self._inputs[number].get, None),
            workdir=directory,
            ids=self._ids(options.user),
            timeout=options.timeout,
            stopped=lambda: number in self._killed,
        )
        if status is None:
            return _TIMED_OUT
        if wanted:
            _move(runner, self._here(), wanted)
        return status


def _found(command: Sequence[str]) -> list[str]:
    """Return a command whose program has a path: the shell looks for one that has none."""
    return [*command] if "/" in command[0] else ["/bin/sh", "-c", 'exec "$@"', "sh", *command]


def _move(source: Runner, target: Runner, paths: Sequence[str]) -> None:
    """Make files and directories of one place what they are in another, as data."""
    if source is target:
        return
    # A link to a file of the scorer would have that file's content.
    moved = carry(source.program, target.program, paths, links_elsewhere=False)
    if moved.left_out:
        raise ValueError("; ".join(moved.notes[:3]))
