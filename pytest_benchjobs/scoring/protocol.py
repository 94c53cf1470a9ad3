"""The protocol of scorers: a finished trial in, a number within [0, 1] out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ..model.errors import EnvironmentFailed, OutOfMemory, ScorerCrashed, ScorerTimeout
from ..model.scenario import Scenario, ScorerSpec
from ..model.usage import Usage
from ..sandbox.protocol import ExecResult, File, Sandbox, Sink
from ..sandbox.shell import shell
from ..system.cutting import end_of, last_line
from .bench_run import BenchRun
from .output import Lines, Tail

VERIFIER_DIRECTORY = "/logs/verifier"
_SIGNALLED = 128


def no_other() -> AbstractContextManager[Sandbox]:
    """Raise: there is no other sandbox."""
    raise EnvironmentFailed("there is no other sandbox")


class Ask(Protocol):
    """A model that a scorer may ask."""

    def __call__(self, system: str, prompt: str, options: Mapping[str, Any], /) -> str:
        """Return the reply; InfrastructureError: there is none. `options` are of the model's protocol."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScoringContext:
    """Everything a scorer may use. The agent has ended; its sandbox still exists."""

    scenario: Scenario
    spec: ScorerSpec
    sandbox: Sandbox
    timeout: float
    """Seconds this scorer may take."""
    env: Mapping[str, str]
    directory: Path
    """Directory of this machine for files that the scorer wants to keep."""
    agent_log: Path
    usage: Usage
    is_reply: bool = False
    """True if the scenario's answer is a model's reply; False if it is a file that the agent had to write."""
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Parameters of the job (`--bench-extra`, `--bench-param`, `--bench-matrix`), also as JSON in `$BENCH_PARAMS`."""
    ask: Ask | None = None
    """Asks the model that the scorer's type needs (`Needs.model`), through the gateway."""
    reply: str | None = None
    """Reply of the agent in this turn of a conversation. None: it did not run, or did not end by itself."""
    untouched: Callable[[], AbstractContextManager[Sandbox]] = no_other
    """Makes another sandbox of the scenario, without anything of the agent's, for programs that read its work."""
    bench_run: BenchRun | None = None
    """Runs the scorer's commands, whose scripts nobody else can read, and programs of the agent where it worked.

    None: the sandbox cannot, or the scorer's commands are to run as Harbor runs them.
    """
    owner: Callable[[], tuple[int, int] | None] = lambda: None
    """User and group id of the scorer's user; None: anybody may write what is read after it has run."""
    probed: object = None
    """Result of the probe of the scorer's type (`Needs.probe`), if it ran."""
    printed: list[str] = dataclasses.field(default_factory=list)
    """Output of its commands so far, which explains a missing score."""

    def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        stdout: Sink | None = None,
        whole: Sink | None = None,
        hidden: str | None = None,
        signals_matter: bool = True,
    ) -> tuple[ExecResult, str]:
        """Run a shell command, by `bash` or else `sh`, in the workdir; return its result and the end of its output.

        `timeout` in seconds is by default the scorer's. `stdout` also takes standard output, `whole` all output, as it
        comes. Lines that begin with `hidden` are left out of what is returned. ScorerTimeout: it did not end in time.
        OutOfMemory: the kernel killed part of it. ScorerCrashed: a signal killed it, if `signals_matter`.
        """
        limit = self.timeout if timeout is None else timeout
        tail = Tail()
        keep = tail if hidden is None else Lines(lambda _: None, hidden.encode(), tail)

        def sink(chunk: bytes) -> None:
            keep(chunk)
            if whole is not None:
                whole(chunk)

        if self.bench_run is None:
            start = functools.partial(self.sandbox.exec, shell(command))
        else:
            start = functools.partial(self.bench_run.exec, command)
        result = start(timeout=limit, sink=sink, stdout=stdout, user=self.spec.user, env=self.env)
        self.printed.append(tail.text())
        name = self.spec.name
        if result.timed_out or result.exit_status is None:
            raise ScorerTimeout(f"scorer {name!r} did not end within {limit:g} s. {_last(tail.text())}")
        if result.oom_kills:
            raise OutOfMemory(f"the container ran out of memory while scorer {name!r} graded it")
        if signals_matter and result.exit_status > _SIGNALLED:
            signal = result.exit_status - _SIGNALLED
            raise ScorerCrashed(f"scorer {name!r} was killed by signal {signal}. {_last(tail.text())}")
        return result, tail.text()

    def run_agent(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None
    ) -> tuple[int | None, bytes]:
        """Run a program of the agent, in the workdir where the agent worked; the scorer's own files are not there.

        Returns its exit status, None if it did not end in time (by default the scorer's), and the last MiB of what it
        printed, which is the agent's word. EnvironmentFailed: no programs can be run there.
        """
        if self.bench_run is None:
            raise EnvironmentFailed("no programs of the agent can be run for this scorer")
        return self.bench_run.run(argv, stdin, self.timeout if timeout is None else timeout)

    def empty(self, path: str, *, directory: bool = False) -> File:
        """Return an empty file or directory that only the scorer's user can write, or everybody: see `owner`."""
        owner = self.owner()
        mode = (0o755 if directory else 0o644) if owner else (0o777 if directory else 0o666)
        return File(path, None if directory else b"", mode=mode, clean=True, owner=owner or (0, 0))


def run_to_end(context: ScoringContext, command: str, advice: str, stdout: Sink | None = None) -> str:
    """Run a command that has to exit with status 0; return the end of its output. ScorerCrashed: it does not."""
    result, output = context.run(command, stdout=stdout)
    if result.exit_status != 0:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} exited with status {result.exit_status}; {advice}. "
            f"Output: {end_of(output, 600).strip() or 'none'}"
        )
    return output


def _last(output: str) -> str:
    return f"Its last line: {last_line(output, 200)}" if output.strip() else "It printed nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class Graded:
    """A score, with details for readers."""

    score: float | None
    """None: it is made of metrics alone, by the weights that the scenario gives them."""
    output: str = ""
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Name -> number, or a mapping with `value`, and possibly `unit` and `direction` (`higher`, `lower`)."""


class Scorer(Protocol):
    """A type of scorer: `(context) -> float or Graded`. Raise an InfrastructureError if there is no score."""

    def __call__(self, context: ScoringContext, /) -> float | Graded:
        """Grade."""
