"""Events of a running job for watchers: a file of JSON lines for each of its processes.

Each line is one `write`, so a reader sees whole lines, except for the last one of a killed process. The files are
removed when the job has ended: its results have everything then.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..model.event import Ended, Event, PhaseBegan, Planned
from ..model.result import Trial, TrialResult
from ..model.usage import Usage
from .layout import JobLayout

_BATCH = 1 << 20
"""Bytes read at once."""


@functools.cache
def _event() -> TypeAdapter[Event]:
    """Return the validator of events, which only readers need."""
    return TypeAdapter(Event)


class EventLog:
    """The events file of this process. Thread-safe, and never raises: a job must not fail because of its watchers."""

    def __init__(self, root: Path) -> None:
        directory = JobLayout(root).events
        self.phases: dict[str, str] = {}
        """Node id of each trial in flight, of this process or of those that it follows -> its phase."""
        self.quiet_since = time.monotonic()
        """Time at which one of these trials last ended, by the monotonic clock."""
        self._descriptor = -1
        self._lock = threading.Lock()
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / f"{os.getpid()}.jsonl"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def planned(self, agents: dict[str, int]) -> None:
        """Write the number of planned trials, by label of the agent."""
        self._write(Planned(at=time.time(), agents=agents))

    def phase(self, trial: Trial, phase: str) -> None:
        """Write that a trial entered a phase."""
        self.phases[trial.node_id] = phase
        self._write(
            PhaseBegan(
                at=time.time(),
                node_id=trial.node_id,
                scenario=trial.scenario.id,
                agent=trial.agent.label,
                attempt=trial.attempt,
                phase=phase,
                benchmark=trial.scenario.benchmark,
                confidential=trial.scenario.confidential,
            )
        )

    def ended(self, result: TrialResult, *, now: bool) -> None:
        """Write that a trial has ended. `now`: it ran since the job was last begun or resumed."""
        self.phases.pop(result.node_id, None)
        self.quiet_since = time.monotonic()
        usage = result.usage if result.reused is None and result.rescored is None else Usage()
        self._write(
            Ended(
                at=time.time(),
                node_id=result.node_id,
                scenario=result.scenario,
                agent=result.agent.label,
                attempt=result.attempt,
                outcome=result.outcome,
                score=result.score,
                seconds=result.seconds if now else 0.0,
                class_=result.failure.class_ if result.failure else None,
                cost_usd=usage.cost_usd,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                reused=result.reused is not None,
                before=not now and result.reused is None,
            )
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _write(self, event: Event) -> None:
        with contextlib.suppress(OSError, ValueError):
            line = event.model_dump_json().encode("utf-8", "replace") + b"\n"
            with self._lock:  # a closed descriptor's number may be that of another file now
                os.write(self._descriptor, line)


class EventReader:
    """Reads the events of all processes of a job as they come."""

    def __init__(self, root: Path) -> None:
        self._directory = JobLayout(root).events
        self._read: dict[Path, int] = {}

    def poll(self) -> list[Event]:
        """Return the events since the last call, in order of time. Invalid lines are left out."""
        events = [event for batch in self.batches() for event in batch]
        return sorted(events, key=lambda event: event.at)

    def follow(self, log: EventLog) -> None:
        """Note in `log` what the trials of other processes do."""
        for event in self.poll():
            if isinstance(event, PhaseBegan):
                log.phases[event.node_id] = event.phase
            elif isinstance(event, Ended):
                log.phases.pop(event.node_id, None)
                log.quiet_since = time.monotonic()

    def batches(self) -> Iterator[list[Event]]:
        """Yield new events in batches of bounded size, sorted by time within a batch, and for each process over all."""
        while events := self._next():
            yield events

    def _next(self) -> list[Event]:
        events: list[Event] = []
        for path in self._files():
            for line in self._lines(path):
                with contextlib.suppress(ValidationError):
                    events.append(_event().validate_json(line))
        return sorted(events, key=lambda event: event.at)

    def _lines(self, path: Path) -> list[bytes]:
        start = self._read.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(start)
                new = file.read(_BATCH)
        except OSError:
            return []
        # An incomplete line is left for the next call.
        whole = new[: new.rfind(b"\n") + 1]
        self._read[path] = start + len(whole)
        return whole.splitlines()

    def _files(self) -> list[Path]:
        try:
            return sorted(self._directory.glob("*.jsonl"))
        except OSError:
            return []
