"""An agent that is driven from outside: by a test function, a script, a person at a prompt.

Its trial is like any other, but its step "the agent works" waits for calls of the driver. `Handover` is the border
between two threads. The trial's thread runs every call on the sandbox, one after the other, as the protocol of
sandboxes requires; the driver's thread waits for the results. Scorers enter only when the driver has ended its work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar

from ..model.agent import AgentSpec
from ..model.ending import Ending
from ..model.endpoint import GATEWAY_URL, Endpoint, Wire
from ..model.environ import HOST
from ..model.errors import AgentSetupFailed, NotLive
from ..store.calls import logged_bytes
from ..store.text import one_line
from .completion import log
from .protocol import AgentCall, AgentCommand, AgentReading, DrivenShell, TrialScore
from .providers import ModelTarget, target_of
from .reading.values import at, bounded, count_at, items_at, text_at

_WIRES: tuple[Wire, ...] = ("openai", "anthropic", "google")
_POLL = 0.2
"""Seconds between looks at the clock of the agent."""
_LOGGED = 32_000
"""Most characters of a text in the log."""

R = TypeVar("R")
_Call = tuple[Callable[[DrivenShell], Any], Future[Any]]
"""A call of the driver, on its way to the trial's thread, and its result."""


class Stage(enum.Enum):
    """Stage of a trial that is driven from outside."""

    STARTING = "it has not begun"
    WORKING = "it is at work"
    SCORING = "it is being scored"
    SCORED = "it has been scored"
    ENDED = "it has ended"


class Handover:
    """Border between the thread of a trial and its driver.

    `patience` is in seconds for which the sandbox outlives its timeouts, for people who look at it.
    """

    def __init__(self, patience: float = 0.0) -> None:
        self.patience = patience
        self.statement = ""
        """Problem statement of this turn."""
        self.model: str | None = None
        """Name of the model, as its endpoint knows it."""
        self.wire: Wire | None = None
        """Protocol of the model."""
        self.score: TrialScore | None = None
        """Score of the last turn."""
        self.turn = 0
        self.gave_up: str | None = None
        """Reason why the driver gave up, such as the exception of its function."""
        self.cut = ""
        """Reason why the trial ended the work; emptied once the driver knows, by asking for the score."""
        self._lock = threading.Lock()
        self._stage = Stage.STARTING
        self._shell: DrivenShell | None = None
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._steps = 0
        self._is_paused = False
        self._reply: str | None = None
        self._answered = ""
        """Last text that the model answered in this turn."""
        self._logged: Path | None = None
        self._shown = 0
        """Bytes of the logged calls that earlier turns have shown."""

    @property
    def stage(self) -> Stage:
        """Stage of the trial."""
        return self._stage

    # The trial's side.

    def work(self, shell: DrivenShell) -> int:
        """Run the calls of the driver until it has ended its work, or its time is up; returns an exit status."""
        if self.turn:
            scores = shell.scores
            self.score = TrialScore(outcome=None, score=scores[-1] if scores else None)
        self.turn += 1
        self._logged = shell.calls
        self._event(shell, "begin", model=self.model)
        self._event(shell, "user", text=self.statement)
        self._reply, self._answered, self.cut = None, "", ""
        self._serve(shell, Stage.WORKING, Stage.SCORING)
        if self._reply and self._reply != self._answered:
            self._answer(shell, self._reply, [])
        if self.gave_up is not None:
            self._event(shell, "end", reason="gave_up", message=self.gave_up)
        return 0 if self.gave_up is None else 1

    def hold(self, shell: DrivenShell, score: TrialScore) -> None:
        """Keep the sandbox until the driver has looked at it."""
        self.score = score
        self._serve(shell, Stage.SCORED, Stage.ENDED)

    def read(self, log: Path, trajectory: Path) -> AgentReading:
        """Read the log of the driver, and the calls of models by clients of its own; write the trajectory."""
        from .reading.own import Own
        from .reading.reader import read_log

        there = self._logged is not None and self._logged.exists()
        with self._logged.open("rb") if self._logged and there else contextlib.nullcontext() as calls:
            reader = functools.partial(Own, calls=calls, after=self._shown)
            reading = read_log(log, trajectory, reader=reader, agent="interactive", model=self.model)
            self._shown = 0 if calls is None else calls.tell()
        if self.gave_up is None:
            return dataclasses.replace(reading, ending=None, message=None)
        return dataclasses.replace(reading, ending=Ending.CRASHED, message=one_line(self.gave_up, 500))

    def close(self) -> None:
        """Note that the trial has ended, however it did."""
        self.cut = ""
        self._leave(Stage.ENDED)

    def _serve(self, shell: DrivenShell, stage: Stage, after: Stage) -> None:
        """Run calls in a stage, until the driver or the trial ends it."""
        with self._lock:
            self._stage, self._shell = stage, shell
            if self._is_paused:
                shell.pause()
        try:
            while True:
                if shell.stopped:
                    self.cut = "it was ended: its time is up, a limit was reached, or it was cancelled"
                    return
                with contextlib.suppress(queue.Empty):
                    call = self._calls.get(timeout=_POLL)
                    if call is None:
                        return
                    function, result = call
                    try:
                        result.set_result(function(shell))
                    except BaseException as error:
                        result.set_exception(error)
        finally:
            self._leave(after)

    def _leave(self, stage: Stage) -> None:
        """Enter a stage in which no calls are run, and refuse those that wait."""
        with self._lock:
            self._stage, self._shell = stage, None
            with contextlib.suppress(queue.Empty):
                while True:
                    if (call := self._calls.get_nowait()) is not None:
                        call[1].set_exception(NotLive(self._refusal()))

    def _refusal(self) -> str:
        return f"the trial is not at work: {self.cut or self._stage.value}"

    # The driver's side.

    def call(self, function: Callable[[DrivenShell], R], *, scored: bool = True) -> R:
        """Run a function in the thread of the trial; `scored`: also after the work was scored. NotLive: not at work."""
        result: Future[R] = Future()
        with self._lock:
            looks = scored and self._stage is Stage.SCORED and not self.cut
            if self._stage is not Stage.WORKING and not looks:
                raise NotLive(self._refusal())
            self._calls.put((function, result))
        while not result.done():
            wait([result], timeout=_POLL)  # so that a signal is noticed
        return result.result()

    def end(self) -> None:
        """End the work, or the look at the scored sandbox."""
        with self._lock:
            if self._stage in (Stage.WORKING, Stage.SCORED):
                self._calls.put(None)

    def pause(self) -> None:
        """Stop the clock of the agent's timeout."""
        with self._lock:
            self._is_paused = True
            if self._shell is not None:
                self._shell.pause()

    def resume(self) -> None:
        """Let the clock of the agent's timeout run again."""
        with self._lock:
            self._is_paused = False
            if self._shell is not None:
                self._shell.resume()

    # Both sides; in the thread of the trial.

    def run(self, shell: DrivenShell, command: str, timeout: float, **how: Any) -> tuple[int | None, str]:
        """Run a command, as a step of the trajectory."""
        key = self._step(shell, "exec", {"command": command})
        status, output = shell.run(command, timeout, **how)
        ended = f"[timed out after {timeout:g} s]" if status is None else f"[exit status {status}]"
        self._event(shell, "result", id=key, output=f"{output}\n{ended}")
        return status, output

    def write(self, shell: DrivenShell, path: str, content: bytes, mode: int | None) -> None:
        """Write a file, as a step of the trajectory."""
        key = self._step(shell, "write_file", {"path": path, "bytes": len(content)})
        shell.write(path, content, mode)
        self._event(shell, "result", id=key, output="")

    def chat(self, shell: DrivenShell, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Call the model by Chat Completions, as a step of the trajectory."""
        status, said = shell.post(f"{GATEWAY_URL['openai']}/chat/completions", body)
        answer = {"error": at(said, "error")}
        for choice in itertools.islice(items_at(said, "choices"), 1):
            self._answered = text_at(choice, "message", "content")
            message = bounded(choice.get("message"), _LOGGED)
            whole = message if isinstance(message, dict) else {"content": message}
            usage = {name: count_at(said, "usage", name) for name in ("prompt_tokens", "completion_tokens")}
            answer = {"choices": [{"message": whole}], "usage": usage}
        self._event(shell, "chat", status=status, answer=bounded(answer, 2 * _LOGGED))
        return status, said

    def reply(self, shell: DrivenShell, text: str) -> None:
        """Give the reply of this turn. The last one is a step of the trajectory when the turn ends."""
        shell.reply(text)
        self._reply = text

    def _step(self, shell: DrivenShell, name: str, arguments: Mapping[str, Any]) -> str:
        key = f"call-{self._steps + 1}"
        self._answer(shell, "", [{"id": key, "name": name, "arguments": bounded(arguments, _LOGGED)}])
        return key

    def _answer(self, shell: DrivenShell, text: str, calls: list[dict[str, Any]]) -> None:
        self._steps += 1
        self._event(shell, "answer", turn=self._steps, text=text, calls=calls)

    def _event(self, shell: DrivenShell, kind: str, **fields: Any) -> None:
        logged = 0 if self._logged is None else logged_bytes(self._logged)
        log(shell, kind, **fields, **({"logged": logged} if logged else {}))


class InteractiveAgent:
    """The agent of trials that are driven from outside, by the name it has in results.

    `code` is the code of its driver, which is part of the signature of its trials.
    """

    trusted = False
    resumes = True

    def __init__(self, name: str, *, needs_model: bool = False, code: str = "") -> None:
        self.name = name
        self.needs_model = needs_model
        self._code = code
        self._expected: dict[tuple[str, str, str, int], Handover] = {}

    @contextlib.contextmanager
    def expecting(
        self, benchmark: str, scenario: str, spec: AgentSpec, attempt: int, handover: Handover
    ) -> Iterator[None]:
        """Hand a trial over to its driver when it runs inside the context."""
        key = (benchmark, scenario, spec.label, attempt)
        self._expected[key] = handover
        try:
            yield
        finally:
            self._expected.pop(key, None)

    def endpoints(
        self, spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]
    ) -> tuple[Endpoint, ...]:
        """The endpoint of its model, if it has one. InputError: the provider of the model is unknown."""
        target = _target(spec, environ, params)
        return () if target is None else (target.endpoint,)

    def prepare(self, call: AgentCall) -> AgentCommand:
        """The handover to the driver, as a function that runs on this machine. InputError: as `endpoints`."""
        target = _target(call.spec, HOST, call.params)
        key = (call.scenario.benchmark, call.scenario.id, call.spec.label, call.attempt)
        handover = self._expected.get(key) or _Undriven()
        handover.statement = call.scenario.problem_statement
        if target is not None:
            handover.model, handover.wire = target.model, target.endpoint.wire
        return AgentCommand(
            argv=(),
            endpoints=() if target is None else (target.endpoint,),
            models=() if target is None else (target.model,),
            identity=f"interactive/{self._code}",
            host=handover.work,
            hold=handover.hold,
            patience=handover.patience,
            read=handover.read,
        )


class _Undriven(Handover):
    """A trial without a driver, such as one of a dry run."""

    def work(self, shell: DrivenShell) -> int:  # noqa: ARG002  it does nothing
        raise AgentSetupFailed("this trial is driven by a test function or a script, and neither is at work")


def _target(spec: AgentSpec, environ: Mapping[str, str], params: Mapping[str, Any]) -> ModelTarget | None:
    return None if spec.model is None else target_of(spec, _WIRES, None, environ, params)
