"""Asking the Docker Engine, by a unix socket and by TCP, and what its answers and silences are."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import docker.errors
import pytest
import requests

from pytest_benchjobs.model.errors import ContainerLost, EngineError, EngineLost, EngineUnavailable
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.library import UnixAdapter


class Scripted:
    """A socket that gives each caller the next answer, and keeps what they sent."""

    def __init__(self, path: Path) -> None:
        self.asked: list[bytes] = []
        self.answers: list[bytes] = []
        self.connections = 0
        self.ended = 0
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(5)
        self._opened: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._opened.append(connection)
                threading.Thread(target=self._talk, args=[connection], daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(65536):
                self.asked.append(data)
                if not self.answers:
                    continue  # it never says anything
                answer = self.answers.pop(0)
                connection.sendall(answer)
                if b"Connection: close" in answer or not answer:
                    return
            self.ended += 1

    def close(self) -> None:
        for one in (self._listening, *self._opened):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docker.sock"


@pytest.fixture
def scripted(path: Path) -> Iterator[Scripted]:
    server = Scripted(path)
    yield server
    server.close()


@pytest.fixture
def engine(path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    return Engine()


def http(status: int, body: object, keep: bool = False) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    close = "" if keep else "Connection: close\r\n"
    return f"HTTP/1.1 {status} X\r\n{close}Content-Length: {len(data)}\r\n\r\n".encode() + data


# Asking


def test_a_question_is_asked_by_its_path_and_parameters(engine: Engine, scripted: Scripted) -> None:
    scripted.answers.append(http(200, [{"Id": "1"}]))
    found = engine.get("/images/a b/json", all=True, filters={"label": ["x=y"]}, name="z")
    assert found == [{"Id": "1"}]
    line = scripted.asked[0].split(b"\r\n")[0].decode()
    assert (
        line
        == "GET /images/a%20b/json?all=true&filters=%7B%22label%22%3A+%5B%22x%3Dy%22%5D%7D&name=z HTTP/1.1"
    )


def test_what_the_engine_does_not_know_is_nothing_and_a_refusal_is_an_error(
    engine: Engine, scripted: Scripted
) -> None:
    scripted.answers += [http(404, {"message": "no such image"}), http(500, {"message": "broken"})]
    assert engine.get("/images/x/json") is None
    with pytest.raises(EngineError, match=r"refused \(500\): broken"):
        engine.get("/images/x/json")


@pytest.mark.parametrize("answer", [http(200, b"<html>"), b"", b"nonsense\r\n\r\nConnection: close"])
def test_who_does_not_answer_as_an_engine_is_none(engine: Engine, scripted: Scripted, answer: bytes) -> None:
    scripted.answers.append(answer)
    with pytest.raises(EngineUnavailable, match="no Docker Engine answers at unix://"):
        engine.check()


def test_without_a_socket_there_is_no_engine(engine: Engine) -> None:
    with pytest.raises(EngineUnavailable, match="no Docker Engine answers at unix://"):
        engine.check()


def test_a_user_who_may_not_is_told_what_to_do(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pytest_benchjobs.sandbox.docker.reaper._UnixConnection.connect", refuse)
    with pytest.raises(EngineUnavailable, match="group `docker`"):
        engine.check()


@pytest.mark.parametrize(
    ("host", "local"), [("unix:///x", True), ("tcp://h:1", False), ("https://h", False), (None, True)]
)
def test_only_an_engine_behind_a_socket_sees_the_files_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, host: str | None, local: bool
) -> None:
    if host is None:
        monkeypatch.setenv("DOCKER_HOST", "")
        assert Engine().host == "unix:///var/run/docker.sock"
    else:
        monkeypatch.setenv("DOCKER_HOST", host)
    assert Engine().local is local


def test_an_address_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@there")
    with pytest.raises(
        EngineUnavailable, match=r"DOCKER_HOST=ssh://me@there is not supported; use a unix://"
    ):
        _ = Engine().client


# Taking a connection over


@pytest.fixture
def talking(engine: Engine) -> Engine:
    engine._client = SimpleNamespace(api_version="1.47")  # type: ignore[assignment]
    return engine


@pytest.mark.parametrize("status", [101, 200])
def test_what_came_with_the_head_is_given_with_the_connection(
    talking: Engine, scripted: Scripted, status: int
) -> None:
    scripted.answers.append(f"HTTP/1.1 {status} UPGRADED\r\nUpgrade: tcp\r\n\r\nfirst".encode())
    connection, rest = talking.hijack("/exec/1/start", {"Tty": False})
    with connection:
        assert rest == b"first"
        connection.sendall(b"more")
    head, _, body = scripted.asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1.47/exec/1/start HTTP/1.1\r\n")
    assert b"\r\nUpgrade: tcp" in head
    assert b"\r\nContent-Length: %d" % len(body) in head
    assert json.loads(body) == {"Tty": False}


def test_a_connection_that_is_refused_is_an_error_in_the_engines_words(
    talking: Engine, scripted: Scripted
) -> None:
    scripted.answers.append(http(409, {"message": "container x is paused"}))
    with pytest.raises(EngineError, match=r"refused \(409\): container x is paused"):
        talking.hijack("/exec/1/start", {})


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"", "ended before an answer"), (b"what?\r\n\r\nConnection: close", "not an HTTP answer: b'what")],
)
def test_a_connection_that_ends_or_is_not_http_is_lost(
    talking: Engine, scripted: Scripted, answer: bytes, words: str
) -> None:
    scripted.answers.append(answer)
    with pytest.raises(EngineLost, match=words):
        talking.hijack("/exec/1/start", {})


def test_a_head_without_an_end_is_not_read_for_ever(talking: Engine, scripted: Scripted) -> None:
    scripted.answers.append(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000)
    with pytest.raises(EngineLost, match="ended before an answer"):
        talking.hijack("/exec/1/start", {})


class Listed:
    """In place of a TCP connection: lists what is set."""

    def __init__(self) -> None:
        self.options: list[tuple[int, int, int]] = []

    def setsockopt(self, *option: int) -> None:
        self.options.append(option)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "tls", "address"),
    [
        # The ports that the engine's documentation gives to plain and to encrypted connections.
        ("tcp://there", False, ("there", 2375)),
        ("tcp://there", True, ("there", 2376)),
        ("tcp://there:99", True, ("there", 99)),
        ("tcp://:99", False, ("localhost", 99)),
    ],
)
def test_an_engine_far_away_is_called_at_its_port_and_encrypted_if_it_is(
    monkeypatch: pytest.MonkeyPatch, host: str, tls: bool, address: tuple[str, int]
) -> None:
    called: list[object] = []
    plain = Listed()

    def connect(where: object, timeout: float) -> Listed:
        called.append(where)
        assert timeout > 1
        return plain

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setenv("DOCKER_HOST", host)
    engine = Engine()
    assert engine.encrypted is False
    if tls:
        wrap = lambda connection, server_hostname: ("wrapped", connection, server_hostname)  # noqa: E731
        engine._tls = SimpleNamespace(wrap_socket=wrap)  # type: ignore[assignment]
        assert engine.encrypted is True
    found: Any = engine._open()
    assert found == ("wrapped", plain, "there") if tls else found is plain
    assert called == [address]
    # A peer that vanished is noticed within a minute, although nothing is sent.
    options = {(level, name): value for level, name, value in plain.options}
    assert options[socket.SOL_SOCKET, socket.SO_KEEPALIVE] == 1
    idle, pause, count = (
        options[socket.IPPROTO_TCP, name]
        for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    assert idle + pause * count <= 60


# The client


class Client:
    def __init__(self, *adapters: object) -> None:
        self.adapters = dict(enumerate(adapters))
        self.done: list[str] = []

    def close(self) -> None:
        self.done.append("closed")


def test_a_call_apart_is_broken_off_at_its_end_whatever_happened(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(object(), SimpleNamespace(hang_up=lambda: client.done.append("hung up")))
    monkeypatch.setattr(engine, "_connect", lambda: client)

    def call() -> None:
        with engine.apart() as given:
            seen.append((given, list(client.done)))
            raise KeyError

    seen: list[Any] = []
    with pytest.raises(KeyError):
        call()
    assert seen == [(client, [])]
    assert client.done == ["hung up", "closed"]
    assert engine._client is None


def test_a_client_is_made_once_and_anew_after_it_was_closed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Client] = []

    def connect() -> Client:
        made.append(Client())
        return made[-1]

    monkeypatch.setattr(engine, "_connect", connect)
    engine.close()  # of nothing
    assert engine.client is engine.client
    engine.close()
    engine.close()
    assert engine.client is made[1]  # type: ignore[comparison-overlap]
    assert [one.done for one in made] == [["closed"], []]


def test_what_the_client_raises_is_told_by_what_was_known_before(engine: Engine) -> None:
    gone = requests.ConnectionError("outer")
    gone.__cause__ = OSError("connection reset")
    for running, kind, words in (
        (True, EngineLost, "went away: connection reset"),
        (False, EngineUnavailable, "no Docker Engine answers"),
    ):
        with pytest.raises(kind, match=words), engine.guard(running=running):
            raise gone
    answer = SimpleNamespace(status_code=404)
    with pytest.raises(EngineError, match=r"refused \(404\): no such image"), engine.guard():
        raise docker.errors.APIError("x", response=answer, explanation="no such image")  # type: ignore[arg-type]
    for other in (ValueError("ours"), ContainerLost("ours")):
        with pytest.raises(type(other), match="ours"), engine.guard():
            raise other


@pytest.mark.parametrize(
    ("status", "body", "found"), [(201, b'{"Id": "1"}', {"Id": "1"}), (200, b"", {}), (200, b"[]", [])]
)
def test_what_a_call_with_its_own_timeout_answers_is_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, found: object
) -> None:
    answer = requests.Response()
    answer.status_code, answer._content = status, body
    client = mock.Mock(base_url="http://engine", api_version="1.44")
    client.post.return_value = answer
    monkeypatch.setattr(engine, "_connect", lambda: client)
    assert engine.post("/commit", {"Cmd": ["x"]}, 7.0, tag="a") == found
    client.post.assert_called_once_with(
        "http://engine/v1.44/commit", params={"tag": "a"}, json={"Cmd": ["x"]}, timeout=7.0
    )
    answer.status_code, answer._content = 409, b'{"message": "in use"}'
    with pytest.raises(EngineError, match=r"refused \(409\): in use"):
        engine.post("/commit", {}, 7.0)


# Its connections


def _session(path: Path) -> tuple[requests.Session, UnixAdapter]:
    session, adapter = requests.Session(), UnixAdapter(str(path), 20)
    session.mount("http+docker://", adapter)
    return session, adapter


def test_calls_about_several_containers_share_a_connection(path: Path, scripted: Scripted) -> None:
    session, _ = _session(path)
    scripted.answers += [http(200, {}, keep=True)] * 3
    for number in range(3):
        session.get(f"http+docker://localhost/containers/{number}/json")
    session.close()
    assert scripted.connections == 1


def test_a_client_that_is_closed_keeps_no_connection(path: Path, scripted: Scripted) -> None:
    session, _ = _session(path)
    scripted.answers.append(http(200, {}, keep=True))
    session.get("http+docker://localhost/version")
    session.close()
    deadline = time.monotonic() + 10
    while not scripted.ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert scripted.ended == 1


def test_a_call_in_another_thread_ends_when_its_connection_is_hung_up(path: Path, scripted: Scripted) -> None:
    session, adapter = _session(path)
    failed: list[Exception] = []

    def call() -> None:
        try:
            session.get("http+docker://localhost/events")
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not scripted.asked:
        thread.join(0.01)
    adapter.hang_up()
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(failed[0], requests.ConnectionError)
    session.close()
