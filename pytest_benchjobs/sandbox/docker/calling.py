"""Calling the engine until the state of things tells what came of it: see `answers` for what an answer means.

A refusal that a state explains costs one look at that state; one that nothing explains is tried again a few times, and
an engine that answers nobody is waited for. What a call is made for may end that at any moment: a trial that is
cancelled, a session that ends.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import ipaddress
import json
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from ...model.errors import (
    ContainerEnded,
    ContainerLost,
    ContainerStartFailed,
    DiskFull,
    EngineLost,
    EngineRefused,
    FilesRefused,
    InfrastructureError,
    OutputLost,
)
from ...system.cutting import on_one_line
from .answers import PAUSES, Call, Kind, Meaning, State, Subject, meaning
from .words import DISK_FULL, OWN_FAULT

T = TypeVar("T")

OUTAGE = 90.0
"""Seconds to wait for an engine that answers no call."""
_FIRST = 5.0
"""Seconds to wait for one that has answered nothing yet, but takes connections: the way to it may be bad."""
_REMOVAL = 30.0
_LOOK = 0.2
_SHOWN = 500
_NOTED = 1000
_ABSENT = 404
_EQUAL_ANSWERS = 2
_FAR = 8
"""Further times to make a call of an engine elsewhere whose connection breaks: the way to it may be bad."""
_ON_THE_WAY = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, ssl.SSLEOFError)
_CONTAINER_STATES = {
    "created": State.CREATED,
    "running": State.RUNNING,
    "paused": State.RUNNING,
    "restarting": State.RUNNING,
    "removing": State.REMOVING,
    "exited": State.ENDED,
    "dead": State.REMOVING,
    "stopped": State.ENDED,  # Podman
    "configured": State.CREATED,
    "initialized": State.CREATED,
}


class NetworkGone(ContainerStartFailed):
    """The network of a container was removed meanwhile."""


class CommandRefused(EngineRefused):
    """A command cannot be started, for a reason of its own."""


class SubnetTaken(EngineRefused):
    """Another network has the subnet that a new one was to have."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is no success."""

    kind: Kind
    status: int | None
    words: str
    on_the_way: bool = False
    """There was a connection, which broke."""

    def __str__(self) -> str:
        told = on_one_line(self.words, _SHOWN) or "no reason given"
        return told if self.status is None else f"{self.status}: {told}"


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The thing that a call is about, as it is now."""

    state: State
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The engine's description of it, if there is one."""


class Caller:
    """The trial or job that calls the engine: it can end its calls, and learns how often one was retried.

    `check` is called several times a second while something is waited for; what it raises ends the call.
    """

    def __init__(self, check: Callable[[], object] = lambda: None, patience: float = OUTAGE) -> None:
        self.patience = patience
        """Seconds to wait for an engine that answers no call."""
        self.again: list[str] = []
        """A line for each call that was made again."""
        self._check = check
        self.stopped = threading.Event()
        """Set by `stop`."""
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def stop(self) -> None:
        """End calls that go on, in whatever thread, and allow no more."""
        self.stopped.set()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def note_again(self, line: str) -> None:
        """Note that a call is made again."""
        if len(self.again) < _NOTED:
            self.again.append(line)

    def settle(self) -> None:
        """End the checks: what they were for is over."""
        self._check = lambda: None

    def check(self) -> None:
        """Raise if it wants no more of it."""
        if self.stopped.is_set():
            raise ContainerLost("the container was killed to stop the trial")
        self._check()

    def rest(self, seconds: float) -> None:
        """Wait, unless it wants no more of it."""
        end = time.monotonic() + seconds
        self.check()
        while (left := end - time.monotonic()) > 0:
            self.stopped.wait(min(_LOOK, left))
            self.check()

    def hold(self, connection: socket.socket) -> None:
        """Have `stop` break this connection off."""
        self._open.add(connection)
        if self.stopped.is_set():
            connection.shutdown(socket.SHUT_RDWR)

    def let_go(self, connection: socket.socket) -> None:
        """Leave it alone: it may serve somebody else now."""
        self._open.discard(connection)


class Asks(Protocol):
    """An engine that can be asked once, without a second try."""

    host: str
    answered: bool
    """True once it has answered anything in this process."""

    def peek(self, path: str) -> tuple[int, bytes] | None:
        """Return status and body of a GET; None: no answer."""

    def unavailable(self) -> InfrastructureError:
        """Return the error for an engine that has not answered so far."""


_NOBODY = Caller()
_current = contextvars.ContextVar[Caller]("caller")


def caller() -> Caller:
    """Return the caller on whose behalf this thread calls the engine."""
    return _current.get(_NOBODY)


@contextlib.contextmanager
def on_behalf_of(who: Caller | None) -> Iterator[None]:
    """Make calls of this thread for somebody; None: as before."""
    before = _current.set(who or caller())
    try:
        yield
    finally:
        _current.reset(before)


def persist(
    engine: Asks,
    call: Call,
    subject: str,
    perform: Callable[[], T],
    refusal_of: Callable[[T], Refusal | None],
    body: Mapping[str, Any] | None = None,
) -> T | Found:
    """Make a call until its answer, or the state of its subject, says what came of it; return either.

    `perform` makes it once, and an OSError that it raises is an answer, too; for `refusal_of` None is success.

    Raises:
        ContainerLost, NetworkGone, SubnetTaken, OutputLost: it can never succeed.
        EngineRefused: the engine refuses it again and again, in the same state.
        EngineLost, EngineUnavailable: the engine answers nobody, any more or at all.
        DiskFull: it has no room.
    """
    who, before = caller(), dict.fromkeys(Kind, 0)
    further = 0 if engine.host.startswith("unix:") else _FAR
    late = {State.AWAY: who.patience, State.REMOVING: min(who.patience, _REMOVAL)}
    waiting: tuple[State, float] | None = None
    while True:
        who.check()
        try:
            answer = perform()
        except OSError as broken:
            refusal: Refusal | None = _refusal_by(broken)
        else:
            refusal = refusal_of(answer)
        if refusal is None:
            engine.answered = True
            return answer
        who.check()  # an engine that hangs does not tell a state either
        if _is_full(call, refusal.words):
            raise DiskFull(f"the Docker Engine's disk is full: {refusal.words.strip()}")
        found = look(engine, call, subject, body or {})
        if found.state not in late or waiting is None or waiting[0] is not found.state:
            waiting = None if found.state not in late else (found.state, time.monotonic())
        if found.state is not State.AWAY:
            engine.answered = True
            before[refusal.kind] += 1
        counted = before[refusal.kind] - (further if refusal.kind is Kind.CUT else 0)
        what = meaning(call, refusal.kind, found.state, counted)
        if call.asks and refusal.status == _ABSENT and what in (Meaning.AGAIN, Meaning.OURS):
            if before[refusal.kind] < _EQUAL_ANSWERS:
                continue
            return answer
        if what is Meaning.DONE:
            return found
        if what is Meaning.NOT_YET and waiting is not None:
            patience = late[found.state] if engine.answered else _FIRST * refusal.on_the_way
            if time.monotonic() >= waiting[1] + patience:
                error = _lost(engine, call, refusal, found)
                # Nobody waits as long again, until it answers.
                engine.answered &= who.patience < OUTAGE or found.state is not State.AWAY
                raise error
            who.rest(_LOOK)
            continue
        if what is not Meaning.AGAIN:
            raise _error(call, refusal, found, before[refusal.kind])
        who.note_again(f"{call.does}: {refusal}")
        who.rest(PAUSES[min(sum(before.values()), len(PAUSES)) - 1])


def _is_full(call: Call, words: str) -> bool:
    """Return True if the engine says that it has no room. An agent may have given a file such a name."""
    reason = words.strip().removesuffix(": unknown").rpartition(": ")[2]
    return reason.lower() in DISK_FULL.signs if call.of_files else words in DISK_FULL


def _refusal_by(error: OSError) -> Refusal:
    if isinstance(error, TimeoutError):
        return Refusal(Kind.SILENT, None, str(error) or "no answer in time")
    cause: BaseException = error
    while (deeper := cause.__cause__ or cause.__context__) is not None:
        cause = deeper  # the innermost is the one that tells something
    return Refusal(Kind.CUT, None, str(cause) or type(cause).__name__, isinstance(cause, _ON_THE_WAY))


def look(engine: Asks, call: Call, subject: str, body: Mapping[str, Any]) -> Found:
    """Return the state of what a call is about, without a second try."""
    if (seen := _seen(engine, call, subject, body)) is not None:
        return seen
    answer = engine.peek("/_ping")
    # Anything that answers a ping with a fault of its own is no engine that could be asked.
    return Found(State.AWAY if answer is None or answer[0] >= 500 else State.UNKNOWN)


def _seen(engine: Asks, call: Call, subject: str, body: Mapping[str, Any]) -> Found | None:
    match call.subject:
        case Subject.CONTAINER:
            return _container(engine, call, subject, str(body.get("name", "")))
        case Subject.COMMAND:
            return _command(engine, subject)
        case Subject.NETWORK if call.method == "POST":
            return _new_network(engine, body)
        case Subject.MEMBER:
            return _member(engine, subject, str(body.get("Container")))
        case Subject.NETWORK | Subject.VOLUME as kind if subject:
            return Found(State.ABSENT) if _is_absent(engine, f"{kind.value}s", subject) else None
    return None


def _container(engine: Asks, call: Call, subject: str, name: str) -> Found | None:
    if not (subject or name):
        return None
    status, about = _json(engine, f"/containers/{quote(subject or name)}/json")
    if status == 200 and isinstance(about, dict):
        state = _CONTAINER_STATES.get(about["State"].get("Status"), State.UNKNOWN)
        if state is State.CREATED and call.path.endswith("/start") and _without_network(engine, about):
            state = State.NO_NETWORK
        return Found(state, about)
    if status == 404:
        by = {"id": [subject]} if subject else {"name": [f"^/{name}$"]}
        if _json(engine, f"/containers/json?all=1&filters={quote(json.dumps(by))}") == (200, []):
            return Found(State.ABSENT)
    return None


def _without_network(engine: Asks, about: Mapping[str, Any]) -> bool:
    networks = (about.get("NetworkSettings") or {}).get("Networks") or {}
    names = {str(one.get("NetworkID") or name) for name, one in networks.items()}
    return any(_is_absent(engine, "networks", name) for name in names - {"none", "host", "bridge", "default"})


def _is_absent(engine: Asks, kind: str, name: str) -> bool:
    """Return True if the engine says twice that it has no such thing."""
    return all(_json(engine, f"/{kind}/{quote(name)}")[0] == 404 for _ in range(2))


def _command(engine: Asks, subject: str) -> Found | None:
    for _ in range(2):
        status, about = _json(engine, f"/exec/{subject}/json")
        if status == 200 and isinstance(about, dict):
            if about["Running"]:
                return Found(State.RUNNING, about)
            # Podman has a status before it starts one, and a process only while it runs.
            ended = about["ExitCode"] or about.get("Pid") or about.get("CanRemove")
            created = about["ExitCode"] is None or not ended
            return Found(State.CREATED if created else State.ENDED, about)
        if status != 404:
            return None
    return Found(State.ABSENT)


def _new_network(engine: Asks, body: Mapping[str, Any]) -> Found | None:
    status, networks = _json(engine, "/networks")
    if status != 200:
        return None
    ours = (body.get("Name"), body.get("Labels") or {})
    for one in networks:
        if (one["Name"], one.get("Labels") or {}) == ours:
            return Found(State.THERE, one)
    wanted = _subnets(body)
    taken = any(new.overlaps(old) for one in networks for old in _subnets(one) for new in wanted)
    return Found(State.TAKEN) if taken else None


def _subnets(network: Mapping[str, Any]) -> list[ipaddress.IPv4Network]:
    configured = (network.get("IPAM") or {}).get("Config") or ()
    found = [str(one.get("Subnet") or "") for one in configured]
    return [ipaddress.IPv4Network(subnet) for subnet in found if subnet and ":" not in subnet]


def _member(engine: Asks, subject: str, container: str) -> Found | None:
    status, about = _json(engine, f"/containers/{quote(container)}/json")
    if status != 200:
        return None
    networks = (about.get("NetworkSettings") or {}).get("Networks") or {}
    if any(subject in (name, one.get("NetworkID")) for name, one in networks.items()):
        return Found(State.JOINED, about)
    return Found(State.ABSENT if _is_absent(engine, "networks", subject) else State.APART)


def _json(engine: Asks, path: str) -> tuple[int | None, Any]:
    answer = engine.peek(path)
    if answer is None:
        return None, None
    with contextlib.suppress(ValueError):
        return answer[0], json.loads(answer[1])
    return (answer[0] if answer[0] == 404 else None), None


def is_json(body: bytes) -> bool:
    """Return True if an answer in JSON is whole."""
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _error(call: Call, refusal: Refusal, found: Found, times: int) -> Exception:
    """Return the error for a call that cannot succeed."""
    if found.state in call.gone:
        return _gone(call, refusal, found)
    often = f", {times} times in a row" if times > 1 else ""
    text = f"the Docker Engine refused to {call.does}{often} ({refusal})"
    kind = FilesRefused if call.of_files else EngineRefused
    return kind(text, status=refusal.status, words=refusal.words)


def _gone(call: Call, refusal: Refusal, found: Found) -> Exception:
    """Return the error for a call whose subject is gone."""
    match call.subject, found.state:
        case Subject.COMMAND, State.ENDED if refusal.words in OWN_FAULT and not found.about.get("Pid"):
            return CommandRefused(refusal.words, status=refusal.status, words=refusal.words)
        case Subject.COMMAND, _:
            return OutputLost(f"the connection with a command in the container broke ({refusal})")
        case (Subject.MEMBER, _) | (_, State.NO_NETWORK):
            return NetworkGone(f"the network of the container is gone: {refusal}")
        case _, State.TAKEN:
            return SubnetTaken(f"another network has the subnet: {refusal}")
        case _, State.ENDED:
            status = found.about["State"].get("ExitCode")
            return ContainerEnded(f"the container has ended, with status {status}")
    return ContainerLost("the container was killed or removed by something else")


def _lost(engine: Asks, call: Call, refusal: Refusal, found: Found) -> Exception:
    if not engine.answered:
        return engine.unavailable()
    if found.state is State.REMOVING:
        return ContainerLost("the container is being removed by something else")
    return EngineLost(f"the Docker Engine at {engine.host} does not answer any more ({call.does}: {refusal})")
