"""A trial that is driven from outside, for its driver: its live sandbox, its score, its result.

The trial runs in a thread of a flight, as any other trial of the job. `agents.interactive` is the border between that
thread and the driver.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from ..agents.interactive import Handover, InteractiveAgent, Stage
from ..agents.protocol import DrivenShell, TrialScore
from ..model.errors import BenchError, InputError, NotLive
from ..model.result import Outcome, TrialResult
from ..store.text import clean, one_line
from .ticket import SourceTicket

if TYPE_CHECKING:
    from ..gateway.local import LocalAddress
    from ..trial.flight import Flight
    from .running import RunningJob

COMMAND_SECONDS = 600.0
"""Default timeout of a command."""
READ_LIMIT = 16 << 20
"""Default limit of the size of a file, in bytes."""
_POLL = 0.05
_NO_MODEL = (
    "the trial has no model; name one: start(..., model=NAME), or the mark bench_scenario(..., model=NAME)"
)
_SNAPSHOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")

R = TypeVar("R")


class TrialFailed(BenchError):
    """The trial ended without a score: it could not be run or graded, or it was skipped."""

    def __init__(self, result: TrialResult) -> None:
        why = result.failure
        super().__init__(f"{why.class_}: {why.message}" if why else f"the trial is {result.outcome}")
        self.result = result


class Executed(NamedTuple):
    """Result of a command."""

    exit_status: int | None
    """None: it timed out, and was ended."""
    output: str
    """The end of its output, stdout and stderr together."""

    @property
    def ok(self) -> bool:
        """True if its exit status is 0."""
        return self.exit_status == 0


@dataclasses.dataclass(eq=False)
class DrivenTicket(SourceTicket):
    """Ticket of a trial that is driven from outside; its driver is run each time."""

    unwanted_because: str | None = None
    is_driven = True

    def unwanted(self) -> str | None:
        """Return why it is not to run."""
        return self.unwanted_because


class LiveSandbox:
    """The sandbox of a trial that is at work, or has been scored and not yet removed."""

    def __init__(self, handover: Handover, begun: Callable[[], object]) -> None:
        self._handover = handover
        self._begun = begun

    @property
    def workdir(self) -> str:
        """Absolute path in the sandbox that commands run in."""
        return self._call(lambda shell: shell.workdir)

    @property
    def container(self) -> str:
        """Id of the sandbox, as its engine names it, for `docker exec`."""
        return self._call(lambda shell: shell.container)

    def exec(
        self,
        command: str,
        timeout: float = COMMAND_SECONDS,
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
    ) -> Executed:
        """Run a shell command in the sandbox, as the agent's user in the workdir.

        NotLive: the trial is not at work. InfrastructureError: the engine failed.
        """
        how = {"user": user, "env": env, "workdir": workdir}
        return Executed(*self._call(lambda shell: self._handover.run(shell, command, timeout, **how)))

    def read_file(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a file; a relative path starts at the workdir.

        FileNotFoundError: there is none. ValueError: it has more than `limit` bytes. NotLive: the trial is not at work.
        """
        content = self._call(lambda shell: shell.read(path, limit))
        if content is None:
            raise FileNotFoundError(f"the sandbox has no file {path}")
        return content

    def write_file(self, path: str, content: str | bytes, mode: int | None = None) -> None:
        """Write a file, owned by root; a relative path starts at the workdir.

        NotLive: the trial is not at work. InfrastructureError: the engine cannot write it.
        """
        raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
        self._call(lambda shell: self._handover.write(shell, path, raw, mode))

    def snapshot(self, name: str) -> str:
        """Keep the file system as it is now; returns a reference, which the notes of the result have, too.

        Nothing should be running in the sandbox. `benchjobs gc` removes what is kept. ValueError: the name has others
        than letters, digits, `_` and `-`. NotLive: the trial is not at work; a scored sandbox has scorers in it.
        """
        if not _SNAPSHOT.fullmatch(name):
            raise ValueError(
                f"a snapshot is named by letters, digits, '_' and '-', at most 40, not {name[:80]!r}"
            )
        return self._call(lambda shell: shell.snapshot(name), scored=False)

    def _call(self, function: Callable[[DrivenShell], R], *, scored: bool = True) -> R:
        self._begun()
        return self._handover.call(function, scored=scored)


class InteractiveTrial(LiveSandbox):
    """A trial with a live sandbox, for code of yours that is the agent.

    All methods block; `aio` has them for asynchronous code. As a context manager it is complete at the end of the
    block. If the block raises, the agent has crashed: what it did is scored, and the trial fails.
    """

    def __init__(
        self,
        job: RunningJob[Any],
        ticket: DrivenTicket,
        agent: InteractiveAgent,
        patience: float = 0.0,
        on_end: Callable[[TrialResult], object] = lambda _result: None,
    ) -> None:
        self._job = job
        self._ticket = ticket
        self._on_end = on_end
        super().__init__(Handover(patience), self.wait)
        self._lock = threading.RLock()
        self._result: TrialResult | None = None
        self._address: LocalAddress | None = None
        self._stack = contextlib.ExitStack()
        self._scenario = ticket.trial().scenario
        self.was_scored = False
        """True once `score` was called."""
        self._stack.enter_context(
            agent.expecting(ticket.benchmark, ticket.scenario, ticket.agent, ticket.attempt, self._handover)
        )
        self._flight: Flight[Any] = job.trials.flight()
        job.trials.submit(self._flight, ticket)

    # What it is about.

    @property
    def id(self) -> str:
        """Id of the trial, in results and reports."""
        return self._ticket.node_id

    @property
    def job(self) -> str:
        """Id of the job."""
        return self._job.bundle.id

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self._ticket.benchmark

    @property
    def scenario(self) -> str:
        """Id of the scenario."""
        return self._ticket.scenario

    @property
    def attempt(self) -> int:
        """Number of the attempt."""
        return self._ticket.attempt

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the scenario."""
        return dict(self._scenario.metadata)

    @property
    def problem_statement(self) -> str:
        """Problem statement of this turn, as an agent in the container would get it."""
        return self._handover.statement or self._scenario.statement_in_container

    @property
    def result(self) -> TrialResult | None:
        """Its result, once it has ended."""
        return self._result

    @property
    def files(self) -> Path | None:
        """Directory of its logs and results, once it has ended with a result."""
        result = self._result
        return self._job.bundle.root / result.path if result is not None and result.path else None

    # Its model.

    @property
    def model(self) -> str | None:
        """Name of the model to put into requests; None: the trial has none."""
        return self._handover.model

    @property
    def base_url(self) -> str:
        """Base URL of the model's endpoint, through the gateway of this trial, for HTTP clients in this process.

        InputError: the trial has no model. NotLive: it is not at work.
        """
        wire = self._handover.wire
        if wire is None:
            raise InputError(_NO_MODEL)
        return self._local().url(wire)

    @property
    def api_key(self) -> str:
        """Key for `base_url`. It is for this trial alone; the real one stays with the gateway."""
        return self._local().key

    @property
    def env(self) -> dict[str, str]:
        """Variables by which SDKs of models find `base_url` and `api_key`; empty without a model."""
        names = {"openai": "OPENAI", "anthropic": "ANTHROPIC", "google": "GOOGLE_GEMINI"}
        wire = self._handover.wire
        if wire is None:
            return {}
        key = "GEMINI_API_KEY" if wire == "google" else f"{names[wire]}_API_KEY"
        return {f"{names[wire]}_BASE_URL": self.base_url, key: self.api_key}

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Call the model by Chat Completions; returns the message of its answer.

        `options` are further keys of the request, such as `tools` and `temperature`. ConnectionError: the endpoint
        answered with an error, or not at all. InputError: the trial has no model. NotLive: it is not at work.
        """

        def answer(shell: DrivenShell) -> tuple[int, Any]:
            if self._handover.wire is None:
                raise InputError(_NO_MODEL)
            return self._handover.chat(shell, {"model": self.model, "messages": [*messages], **options})

        status, said = self._call(answer, scored=False)
        try:
            message = dict(said["choices"][0]["message"]) if status == 200 else None
        except (LookupError, TypeError, ValueError):
            message = None
        if message is None:
            raise ConnectionError(
                f"the model's endpoint answered {status}: {one_line(clean(str(said)), 500)}"
            )
        return message

    @property
    def sandbox(self) -> LiveSandbox:
        """Its sandbox alone."""
        return LiveSandbox(self._handover, self.wait)

    def reply(self, text: str) -> None:
        """Give the agent's reply of this turn, where the scenario is a conversation; the last one counts.

        NotLive: the trial is not at work.
        """
        self._call(lambda shell: self._handover.reply(shell, text), scored=False)

    def log(self, line: str) -> None:
        """Add a line to the agent's log."""
        self._call(lambda shell: shell.log(clean(line)))

    def pause(self) -> None:
        """Stop the clock of the agent's timeout, while a person looks at it."""
        self._handover.pause()

    def resume(self) -> None:
        """Let the clock of the agent's timeout run again."""
        self._handover.resume()

    # Its end.

    def wait(self) -> bool:
        """Wait until the sandbox is there; False: the trial has ended without it, or has a result already."""
        self._until(Stage.WORKING, Stage.SCORING, Stage.SCORED)
        return self._result is None

    def score(self) -> TrialScore:
        """End the work of the agent, and have it scored; the same again when called again.

        All processes of the agent are ended, as after any agent. The sandbox lives on for a look, until `complete`.
        TrialFailed: it could not be scored. NotLive: the trial was cancelled.
        """
        with self._lock:
            self.was_scored = True
            self.wait()
            turn = self._handover.turn
            if self._handover.stage is Stage.WORKING:
                self._disconnect()
                self._handover.end()
            self._until(Stage.SCORED, turn=turn)
            self._handover.cut = ""
            if (result := self._result) is not None and result.outcome is Outcome.CANCELLED:
                raise NotLive("the trial was cancelled")
            if self._handover.score is None:
                assert result is not None  # noqa: S101  neither scored nor at work: it has ended
                raise TrialFailed(result)
            return self._handover.score

    def complete(self) -> TrialResult:
        """Score the work unless it was, remove the sandbox, and store the result; the same when called again."""
        with self._lock:
            while self._result is None:
                self.wait()
                turn = self._handover.turn
                self._disconnect()
                self._handover.end()
                self._until(Stage.SCORED, turn=turn)
                self._handover.end()
                if self._handover.stage is not Stage.WORKING:
                    self._until()
            return self._result

    def cancel(self) -> None:
        """End the trial without a result, as if it had not been run. Does nothing once it has a result."""
        if self._result is None:
            self._flight.cancel()  # without the lock: another thread may wait for the score
            with self._lock:
                self._disconnect()
                self._until()

    def give_up(self, why: str) -> TrialResult:
        """End the trial like that of an agent that crashed: what it did is scored, and it fails."""
        with self._lock:
            if self._handover.stage in (Stage.STARTING, Stage.WORKING):
                self._handover.gave_up = one_line(clean(why), 500)
            return self.complete()

    def __enter__(self) -> Self:
        if not self.wait() and self._result is not None and self._result.score is None:
            raise TrialFailed(self._result)
        return self

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            self.complete()
        elif isinstance(error, Exception):
            self.give_up(described(error))
        else:
            self.cancel()

    @property
    def aio(self) -> AsyncTrial:
        """The same trial for asynchronous code: methods to await."""
        return AsyncTrial(self)

    def _local(self) -> LocalAddress:
        with self._lock:
            if self._address is None:
                gateway = self._call(lambda shell: shell.gateway, scored=False)
                if gateway is None:
                    raise InputError(_NO_MODEL)
                from ..gateway.local import LocalAddress

                self._address = self._stack.enter_context(LocalAddress(gateway))
            return self._address

    def _disconnect(self) -> None:
        """Close the address of the model: the agent has ended."""
        address, self._address = self._address, None
        if address is not None:
            address.close()

    def _until(self, *stages: Stage, turn: int | None = None) -> None:
        """Wait for one of these stages, for a turn after `turn`, or for the result."""
        while self._result is None and self._handover.stage not in stages:
            if turn is not None and self._handover.turn > turn:
                return
            landed = self._flight.next(timeout=_POLL)
            if landed is not None:
                self._landed(landed[1])

    def _landed(self, result: TrialResult) -> None:
        self._handover.close()
        self._disconnect()
        self._flight.close()
        self._stack.close()
        self._result = result
        self._on_end(result)


class AsyncTrial:
    """An interactive trial for asynchronous code: `await trial.exec("ls")`.

    It has all properties and methods of `InteractiveTrial`; methods are awaited. Calls of one trial run one after the
    other.
    """

    def __init__(self, trial: InteractiveTrial) -> None:
        self._trial = trial

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._trial, name)
        if not callable(found):
            return found

        return functools.partial(_in_thread, found)

    async def __aenter__(self) -> Self:
        await _in_thread(self._trial.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _in_thread(self._trial.__exit__, kind, error, trace)


async def _in_thread(call: Callable[..., R], *arguments: Any, **options: Any) -> R:
    import asyncio  # takes 20 ms, and every run imports this module

    return await asyncio.to_thread(call, *arguments, **options)


def described(error: BaseException) -> str:
    """Describe why the driver gave up."""
    return f"{type(error).__name__}: {error}"
