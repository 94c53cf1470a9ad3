"""A socket that stands between a client and the real engine, and does harm by a plan."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import select
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from .faults import Fault, Kind
from .wire import HungUp, Message, Reader, Request, members, message, plain, relay, request, tunnel, unframed
from .words import garble

_UPGRADED = (
    b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
    b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
)
_LABEL = "benchjobs.trial"
_MAKES = ("POST /containers/create", "POST /networks/create", "POST /volumes/create")
NO_TRIAL = ""
"""Where calls are counted that are of no container."""


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """One call, as it was heard."""

    at: float
    scenario: str
    call: str
    command: str
    """What was to run, or to be pulled."""
    harm: str
    """Name of the kind of fault that it met."""


class _About(NamedTuple):
    """What a call is about: a scenario, which of its containers, and what is to run there, or to be pulled."""

    scenario: str
    container: int = 0
    command: str = ""


class Way:
    """How a job comes to a harmful socket, and that to the engine: here both are on this machine."""

    engine = "/var/run/docker.sock"
    place: Path | None = None
    """Where the harmful socket has to be."""

    def environment(self, path: Path) -> dict[str, str]:
        """Return variables that lead a job to the socket at `path`."""
        return {"DOCKER_HOST": f"unix://{path}"}


class HarmfulSocket:
    """Passes everything on to the engine but for faults: scenario -> those of calls about its containers.

    A scenario is known by the label of the trial which a container is created with. Each fault counts its own matches.
    `garbled`: every word of a refusal is nonsense, whoever said it.
    """

    way: ClassVar[Way] = Way()

    def __init__(
        self,
        faults: Mapping[str, Sequence[Fault]] | None = None,
        *,
        garbled: bool = False,
    ) -> None:
        self.seen: list[Seen] = []
        self._faults = {scenario: [*some] for scenario, some in (faults or {}).items()}
        self._matches: Counter[int] = Counter()
        self._engine, self._garbled = self.way.engine, garbled
        self._directory = Path(tempfile.mkdtemp(prefix="chaos-", dir=self.way.place))
        self.path = self._directory / "s"
        self._made: dict[str, tuple[str, int]] = {}
        """What was created -> its scenario, and how many containers that had then."""
        self._containers: Counter[str] = Counter()
        self._commands: dict[str, tuple[str, str]] = {}
        """Exec -> its container, and what it runs."""
        self._never_ran: dict[str, int] = {}
        """Exec -> exit status of one that we said could not be started."""
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._back: threading.Timer | None = None

    @property
    def host(self) -> str:
        """For DOCKER_HOST."""
        return f"unix://{self.path}"

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        if self._back is not None:
            self._back.cancel()
        self._refuse()
        shutil.rmtree(self._directory, ignore_errors=True)

    def counts(self, scenario: str) -> Counter[str]:
        """How often each call was made for a scenario."""
        with self._lock:
            return Counter(one.call for one in self.seen if one.scenario == scenario)

    def outage(self, seconds: float) -> None:
        """Refuse every connection for a while, and cut those that there are."""
        if self._refuse():
            self._back = threading.Timer(seconds, self._listen)
            self._back.daemon = True
            self._back.start()

    def _listen(self) -> None:
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen(128)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _refuse(self) -> bool:
        with self._lock:
            listener, self._listener = self._listener, None
            if listener is None:
                return False
            # Closing alone would leave the thread that accepts where it is.
            for one in (listener, *self._open):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            listener.close()
            return True

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    @contextlib.contextmanager
    def _tracked(self, connection: socket.socket) -> Iterator[socket.socket]:
        with connection:
            with self._lock:
                if self._listener is None:
                    raise HungUp("nobody is to be here")
                self._open.add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._open.discard(connection)

    def _serve(self, client: socket.socket) -> None:
        reader = Reader(client)
        with contextlib.suppress(OSError, HungUp), self._tracked(client):
            while (asked := request(reader)) is not None:
                if not self._handle(reader, asked):
                    return

    def _handle(self, client: Reader, asked: Request) -> bool:
        """Answer one request; False: the connection is used up."""
        about = self._about(asked)
        scenario = about.scenario
        kind = self._fault(about, asked)
        harm = kind.name if kind else ""
        with self._lock:
            self.seen.append(Seen(time.time(), scenario, asked.call, about.command, harm))
        if asked.call == "POST /exec/{}/start" and asked.ids[0] in self._never_ran:
            client.connection.sendall(self._refusal(409, f"exec command {asked.ids[0]} has already run"))
            return True
        if kind is None:
            return self._pass_on(client, asked, scenario)
        if kind.how == "refuse":
            client.connection.sendall(self._refusal(kind.status, kind.text))
            return True
        if kind.how == "not_started":
            text = (garble(kind.text) if self._garbled else kind.text).encode() + b"\r\n"
            self._never_ran[asked.ids[0]] = kind.status
            client.connection.sendall(_UPGRADED + struct.pack(">BxxxL", 1, len(text)) + text)
            return False
        if kind.how == "outage":
            self.outage(kind.seconds)
            return False
        if kind.how == "cut_before":
            return False
        return self._harm(client, asked, scenario, kind)

    def _about(self, asked: Request) -> _About:
        named, command = (asked.ids or ("",))[0], ""
        if asked.call in _MAKES:
            trial = str((asked.json.get("Labels") or {}).get(_LABEL, ""))
            return _About(trial.rpartition("::")[2].partition("[")[0])
        if "/exec/{}" in asked.call:
            named, command = self._commands.get(named, ("", ""))
        elif asked.call == "POST /containers/{}/exec":
            command = json.dumps(asked.json.get("Cmd"))
        elif "/networks/{}" in asked.call:
            named = str(asked.json.get("Container", named))
        elif asked.call == "POST /images/create":
            command = asked.query.get("fromImage", [""])[0]
        elif asked.call == "POST /commit":
            named = asked.query.get("container", [""])[0]
        scenario, number = self._made.get(named, (NO_TRIAL, 0))
        return _About(scenario, number, command)

    def _fault(self, about: _About, asked: Request) -> Kind | None:
        found = None
        with self._lock:
            for fault in self._faults.get(about.scenario, ()):
                if fault.call != asked.call or fault.holding not in about.command:
                    continue
                if fault.container not in (0, about.container):
                    continue
                if fault.kind.how in ("not_started", "stream_cut") and not asked.upgrades:
                    continue
                self._matches[id(fault)] += 1
                if fault.nth <= self._matches[id(fault)] < fault.nth + fault.times:
                    found = fault.kind
        return found

    @contextlib.contextmanager
    def _asked(self, client: Reader, asked: Request) -> Iterator[Message]:
        """Have the engine do the work; yields its answer."""
        with self._tracked(socket.socket(socket.AF_UNIX)) as engine:
            engine.connect(self._engine)
            # One that refuses early need not have read all.
            with contextlib.suppress(BrokenPipeError):
                engine.sendall(asked.written())
            answer = message(Reader(engine, lambda: _hangs_on(client.connection, engine)))
            if answer is None:
                raise HungUp("the engine has not answered")
            yield answer

    def _pass_on(self, client: Reader, asked: Request, scenario: str) -> bool:
        with self._asked(client, asked) as answer:
            if _is_hijacked(asked, answer):
                client.connection.sendall(answer.head)
                self._garble_stream(answer.reader)
                tunnel(client, answer.reader)
                return False
            if answer.status >= 400 and self._garbled:
                text = b"".join(answer.body(answers=asked.method))
                client.connection.sendall(self._refusal(answer.status, _words_of(text)))
                return True
            if answer.status == 201 and asked.call in (*_MAKES, "POST /containers/{}/exec"):
                return self._remember(client, asked, answer, scenario)
            if asked.call == "GET /exec/{}/json" and asked.ids[0] in self._never_ran:
                told = json.loads(b"".join(answer.body(answers="GET")))
                told.update(Running=False, ExitCode=self._never_ran[asked.ids[0]], Pid=0)
                _send(client.connection, answer, json.dumps(told).encode())
                return True
            relay(client.connection, answer, asked.method)
            return answer.chunked or "content-length" in answer.headers or answer.status in (204, 304)

    def _remember(self, client: Reader, asked: Request, answer: Message, scenario: str) -> bool:
        body = b"".join(answer.body(answers="POST"))
        self._learn(asked, body, scenario)
        _send(client.connection, answer, body)
        return True

    def _learn(self, asked: Request, body: bytes, scenario: str) -> None:
        """Keep whose a new container, network or volume is, and whose a new command."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            made = json.loads(body)
            if asked.call in _MAKES:
                self._containers[scenario] += asked.call == "POST /containers/create"
                for name in (made.get("Id"), made.get("Name"), asked.json.get("Name")):
                    self._made[str(name)] = scenario, self._containers[scenario]
            elif asked.call == "POST /containers/{}/exec":
                self._commands[made["Id"]] = asked.ids[0], json.dumps(asked.json.get("Cmd"))

    def _harm(self, client: Reader, asked: Request, scenario: str, kind: Kind) -> bool:
        """Have the work done, and spoil the answer."""
        if kind.how == "silence":
            time.sleep(kind.seconds)
            return self._pass_on(client, asked, scenario)
        with self._asked(client, asked) as answer:
            if _is_hijacked(asked, answer):
                if kind.how == "stream_cut":
                    client.connection.sendall(answer.head)
                elif kind.how == "refuse_after":
                    client.connection.sendall(self._refusal(kind.status, kind.text))
                return False
            # Events never end.
            body = b"" if asked.call == "GET /events" else b"".join(answer.body(answers=asked.method))
            self._learn(asked, body, scenario)
            if kind.how == "refuse_after":
                client.connection.sendall(self._refusal(kind.status, kind.text))
                return True
            if kind.how == "half":
                head = unframed(answer.head, b"Content-Length: %d" % len(body))
                client.connection.sendall(head + body[: len(body) // 2])
                return False
            if kind.how == "cut_after":
                return False
            _send_chunked(client.connection, answer, body[: _cut(kind, body)])
            return True

    def _refusal(self, status: int, text: str) -> bytes:
        return plain(status, garble(text) if self._garbled else text)

    def _garble_stream(self, reader: Reader) -> None:
        """Make nonsense of what the runtime says instead of a command's output."""
        if not self._garbled:
            return
        for piece in reader.pieces(None):
            header, text = piece[:8], piece[8:].decode("utf-8", "replace")
            reader.buffered = piece
            if text.startswith("OCI runtime"):
                reader.buffered = header + garble(text).encode()
            return


def _cut(kind: Kind, body: bytes) -> int:
    """Return how much of a body comes."""
    if kind.how == "half_clean":
        return len(body) // 2
    ends = members(body) or [len(body) // 2]  # as of the answer that there is no such path
    return ends[0] if kind.how == "border_clean" else ends[-1]


def _send(client: socket.socket, answer: Message, body: bytes) -> None:
    client.sendall(unframed(answer.head, b"Content-Length: %d" % len(body)) + body)


def _send_chunked(client: socket.socket, answer: Message, body: bytes) -> None:
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    client.sendall(unframed(answer.head, b"Transfer-Encoding: chunked") + chunk + b"0\r\n\r\n")


def _is_hijacked(asked: Request, answer: Message) -> bool:
    return answer.status == 101 or (
        asked.upgrades
        and answer.status == 200
        and "content-length" not in answer.headers
        and not answer.chunked
    )


def _words_of(body: bytes) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(body)["message"])
    return body.decode("utf-8", "replace")


def _hangs_on(client: socket.socket, engine: socket.socket) -> None:
    """Wait until the engine says something; raises when the client hangs up first."""
    both = [client, engine]
    while True:
        readable, _, _ = select.select(both, [], [])
        if engine in readable:
            return
        if not client.recv(1, socket.MSG_PEEK):
            raise HungUp("the client has")
        both = [engine]  # it has sent its next request already
