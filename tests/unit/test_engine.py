"""Asking the Docker Engine, by a unix socket and by TCP, and what its answers and silences are."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import docker.errors
import pytest
import requests

from pytest_benchjobs.model.errors import (
    ContainerLost,
    EngineError,
    EngineLost,
    EngineRefused,
    EngineUnavailable,
    FilesRefused,
    OutputLost,
)
from pytest_benchjobs.sandbox.docker import calling, library
from pytest_benchjobs.sandbox.docker.calling import Caller
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.library import UnixAdapter
from pytest_benchjobs.sandbox.docker.reaper import message

from ..support import until


class Scripted:
    """A socket that gives each caller the next answer, and keeps what they sent; `states` are answered by path."""

    def __init__(self, path: Path | None) -> None:
        self.asked: list[bytes] = []
        self.answers: list[bytes] = []
        self.states: dict[str, bytes] = {
            "/_ping": http(200, b"OK"),
            "/version": http(200, {"ApiVersion": "1.47"}),
        }
        self.connections = 0
        self.ended = 0
        self._listening = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
        self._listening.bind(("127.0.0.1", 0) if path is None else str(path))
        self.address = self._listening.getsockname()
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
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as sent:
            while head := b"".join(itertools.takewhile(lambda line: line not in (b"", b"\r\n"), sent)):
                length = re.search(rb"Content-Length: (\d+)", head)
                request = head + b"\r\n" + sent.read(0 if length is None else int(length[1]))
                place = re.sub(r"^/v[0-9.]+", "", (head.split() * 2)[1].decode()).partition("?")[0]
                if (state := self.states.get(place)) is not None:
                    answer = state
                else:
                    self.asked.append(request)
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
    for module in (calling, library):
        monkeypatch.setattr(module, "PAUSES", (0.0,) * 4)
    return Engine()


def http(status: int, body: object, keep: bool = False) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    close = "" if keep else "Connection: close\r\n"
    close += "Content-Type: application/json\r\n" if data else ""
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


def test_what_the_engine_does_not_know_is_nothing_and_half_an_answer_or_a_fault_is_none(
    engine: Engine, scripted: Scripted
) -> None:
    scripted.answers += [http(404, {"message": "no such image"})] * 2
    assert engine.get("/images/x/json") is None
    scripted.answers += [
        http(200, b'{"Id":'),
        b"",
        b"nonsense\r\n\r\n",
        http(500, {}),
        http(200, {"Id": "1"}),
    ]
    assert engine.get("/images/x/json") == {"Id": "1"}
    scripted.answers += [http(500, {"message": "broken"})] * 5
    with pytest.raises(EngineRefused, match=r"refused to answer, 5 times in a row \(500: broken\)"):
        engine.get("/images/x/json")
    assert scripted.answers == []


def test_who_hangs_up_whatever_is_asked_is_no_engine(
    engine: Engine, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.states = {"/_ping": b"", "/version": b""}
    monkeypatch.setattr(calling, "_FIRST", 0.5)
    with pytest.raises(EngineUnavailable, match="no Docker Engine answers at unix://"):
        engine.check()


@pytest.mark.parametrize("far", [False, True])
def test_an_engine_whose_first_connections_break_is_asked_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, far: bool
) -> None:
    scripted = Scripted(None if far else path)
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{scripted.address[1]}" if far else f"unix://{path}")
    scripted.states, version = {}, http(200, {"ApiVersion": "1.47"})
    scripted.answers += [b"", b"", b"", version, version]
    engine = Engine()
    engine.check()
    engine.close()
    scripted.close()


def test_ssh_whose_first_connections_are_cut_is_started_again(
    path: Path, scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried, ssh = tmp_path / "tried", tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        f"#!/bin/sh\necho x >> {tried}\n"
        f'[ $(wc -l < {tried}) -gt 2 ] || {{ echo "Connection closed by 10.9.9.9 port 22" >&2; exit 255; }}\n'
        f'while [ "$1" != -L ]; do shift; done; ln -s {path} "${{2%%:*}}"; exec cat\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(ssh.parent), prepend=":")
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@far")
    scripted.states = {"/version": http(200, {"ApiVersion": "1.47"})}
    with contextlib.closing(Engine()) as engine:
        engine.check()
    assert tried.read_text() == "x\n" * 3


def test_without_a_socket_there_is_no_engine(engine: Engine) -> None:
    with pytest.raises(
        EngineUnavailable, match=r"no .* answers at unix://.*: start it there, or correct DOCKER"
    ):
        engine.check()


def test_a_user_who_may_not_is_told_what_to_do(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    monkeypatch.setattr("os.access", lambda *_: False)
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
    monkeypatch.setenv("DOCKER_HOST", "npipe:////./pipe/engine")
    with pytest.raises(
        EngineUnavailable, match=r"DOCKER_HOST=npipe:.* is not supported; use a unix://, ssh:// or tcp://"
    ):
        _ = Engine().client


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("ssh://me@nobody.invalid", "`ssh me@nobody.invalid` does not connect: "),
        ("ssh://", "names no machine"),
    ],
)
def test_what_ssh_says_is_told(monkeypatch: pytest.MonkeyPatch, host: str, why: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with contextlib.closing(Engine()) as engine, pytest.raises(EngineUnavailable, match=why):
        engine.check()


def test_the_current_context_of_dockers_client_names_the_engine_but_not_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("docker.context.config.find_config_file", lambda *_: str(tmp_path / "config.json"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"currentContext": "far"}')
    with (
        contextlib.closing(Engine()) as engine,
        pytest.raises(EngineUnavailable, match="no Docker context 'far'"),
    ):
        engine.check()
    name = hashlib.sha256(b"far").hexdigest()
    meta, tls = tmp_path / "contexts/meta" / name, tmp_path / "contexts/tls" / name / "docker"
    meta.mkdir(parents=True)
    tls.mkdir(parents=True)
    for file in ("ca.pem", "cert.pem", "key.pem"):
        (tls / file).touch()
    endpoint = {"Host": "tcp://far:2376", "SkipTLSVerify": False}
    (meta / "meta.json").write_text(
        json.dumps({"Name": "far", "Metadata": {}, "Endpoints": {"docker": endpoint}})
    )
    monkeypatch.setenv("DOCKER_AUTH_CONFIG", "a password")
    found = Engine().variables
    assert "a password" not in found.values()
    assert (found["DOCKER_HOST"], found["DOCKER_CERT_PATH"], found["DOCKER_TLS_VERIFY"]) == (
        "tcp://far:2376",
        str(tls),
        "1",
    )
    monkeypatch.setenv("DOCKER_HOST", "unix:///x")
    assert Engine().host == "unix:///x"


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


def _command(*, running: bool) -> bytes:
    return http(200, {"Running": running, "ExitCode": None})


@pytest.mark.parametrize(
    "answer",
    [
        http(409, {"message": "container x is paused"}),
        b"",
        b"what?\r\n\r\nConnection: close",
        # A head without an end is not read for ever.
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    ],
)
def test_a_command_is_started_again_unless_it_may_have_begun(
    talking: Engine, scripted: Scripted, answer: bytes
) -> None:
    scripted.states["/exec/1/json"] = _command(running=False)
    scripted.answers += [answer, b"HTTP/1.1 101 UPGRADED\r\n\r\n"]
    talking.hijack("/exec/1/start", {})[0].close()
    scripted.states["/exec/1/json"] = _command(running=True)
    scripted.answers += [answer]
    with pytest.raises(OutputLost):
        talking.hijack("/exec/1/start", {})


def test_a_connection_that_is_refused_is_an_error_in_the_engines_words(
    talking: Engine, scripted: Scripted
) -> None:
    scripted.states["/exec/1/json"] = _command(running=False)
    scripted.answers += [http(409, {"message": "container x is paused"})] * 3
    with pytest.raises(
        EngineRefused, match=r"to start a command, 3 times in a row \(409: container x is paused\)"
    ):
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
    client: Client = Client(object(), SimpleNamespace(hang_up=lambda: client.done.append("hung up")))
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


def test_what_the_client_raises_of_its_own_is_the_engines(engine: Engine) -> None:
    with pytest.raises(EngineLost, match="went away: reset"), engine.guard():
        raise requests.ConnectionError("reset")
    answer = SimpleNamespace(status_code=404)
    with pytest.raises(EngineError, match=r"refused \(404: no such image\)"), engine.guard():
        raise docker.errors.APIError("x", response=answer, explanation=" no such image\n")  # type: ignore[arg-type]
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
    with pytest.raises(EngineError, match=r"refused \(409: in use\)"):
        engine.post("/commit", {}, 7.0)


def _state(status: str) -> bytes:
    return http(200, {"Id": "long", "State": {"Status": status, "ExitCode": 0}})


def test_files_are_sent_from_their_beginning_each_time(engine: Engine, scripted: Scripted) -> None:
    scripted.states["/containers/c/json"] = _state("created")
    scripted.answers += [http(500, {"message": "unexpected EOF"}), b"", http(200, b"")]
    with tempfile.SpooledTemporaryFile() as archive:
        archive.write(b"0123456789")
        archive.seek(2)
        engine.client.put_archive("c", "/", archive)
    assert [request.partition(b"\r\n\r\n")[2] for request in scripted.asked] == [b"23456789"] * 3


@pytest.mark.parametrize("answer", [b"", http(201, b'{"Id": "lo'), http(409, {"message": "name in use"})])
def test_a_container_whose_making_was_not_told_is_found_by_its_name(
    engine: Engine, scripted: Scripted, answer: bytes
) -> None:
    scripted.states["/containers/n/json"] = _state("created")
    scripted.answers.append(answer)
    assert engine.client.create_container("image", [], name="n")["Id"] == "long"
    assert len(scripted.asked) == 1


def test_what_was_done_already_is_a_success(engine: Engine, scripted: Scripted) -> None:
    scripted.states["/containers/c/json"] = _state("running")
    scripted.answers += [b"", b""]
    engine.client.start("c")
    scripted.states["/containers/c/json"] = _state("exited")
    engine.client.kill("c")
    assert len(scripted.asked) == 2


def test_half_an_answer_is_asked_for_again(engine: Engine, scripted: Scripted) -> None:
    scripted.states["/containers/c/json"] = _state("running")
    scripted.answers += [http(200, b'{"Processes": [["1"'), http(200, {"Processes": []})]
    assert engine.client.top("c") == {"Processes": []}
    scripted.answers += [http(200, b"")]  # as for a file that was put in
    with tempfile.SpooledTemporaryFile() as archive:
        assert engine.client.put_archive("c", "/", archive)


def test_that_a_path_leads_nowhere_is_an_answer(engine: Engine, scripted: Scripted) -> None:
    scripted.states["/containers/c/json"] = _state("running")
    missing = http(404, {"message": "page not found"})
    nowhere = http(500, {"message": "lstat /app/out.txt: Not a directory"})
    # Where an engine does not say it of the file, HEAD has to, and one that it makes in every container to be found.
    for answers in ([missing, missing, http(404, {}), http(200, {})], [nowhere]):
        scripted.answers += answers
        with pytest.raises(docker.errors.APIError):
            engine.client.get_archive("c", "/app/out.txt")
    # The words are about another file: it is refused.
    scripted.answers += [nowhere] * 5
    with pytest.raises(FilesRefused):
        engine.client.get_archive("c", "/app/other.txt")
    assert len(scripted.asked) == 10


def test_a_path_that_only_some_answers_lack_is_asked_for_again(engine: Engine, scripted: Scripted) -> None:
    scripted.states["/containers/c/json"] = _state("running")
    missing, there = http(404, {"message": "page not found"}), http(200, {})
    scripted.answers += [missing, missing, there, http(200, b"right")]
    chunks, _ = engine.client.get_archive("c", "/app/out.txt")
    assert b"right" in b"".join(chunks)
    scripted.answers += [missing, missing, there] * 5
    with pytest.raises(EngineRefused, match="finds no file of a container"):
        engine.client.get_archive("c", "/app/out.txt")


def test_an_engine_that_finds_no_file_at_all_is_not_believed(engine: Engine, scripted: Scripted) -> None:
    scripted.states["/containers/c/json"] = _state("running")
    scripted.answers += [http(404, {"message": "page not found"})] * 25
    with pytest.raises(EngineRefused, match="finds no file of a container"):
        engine.client.get_archive("c", "/app/out.txt")
    assert len(scripted.asked) == 25


def test_a_refusal_of_a_question_is_the_clients_own_error(engine: Engine, scripted: Scripted) -> None:
    scripted.answers.append(http(400, {"message": "bad filter"}))
    with pytest.raises(docker.errors.APIError, match="bad filter"):
        engine.client.images()
    assert engine.client.ask("/_ping", 5) == (200, b"OK")


def test_an_engine_that_is_silent_is_called_twice(engine: Engine, scripted: Scripted) -> None:
    scripted.states["/containers/c/json"] = _state("running")
    engine.client.timeout = 0.1  # type: ignore[assignment]
    with pytest.raises(EngineRefused, match="2 times in a row"):
        engine.client.top("c")
    assert len(scripted.asked) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda engine: engine.client.top("c"),
        lambda engine: engine.get("/images/json"),
        lambda engine: engine.hijack("/exec/1/start", {}),
    ],
)
def test_a_call_that_hangs_ends_when_the_caller_is_stopped_and_nothing_is_asked_then(
    engine: Engine, scripted: Scripted, call: Callable[[Engine], object]
) -> None:
    _ = engine.client
    scripted.states.clear()  # it hangs, whatever it is asked
    who, ended = Caller(), []

    def run() -> None:
        try:
            with engine.guard(who):
                call(engine)
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: scripted.asked, what="nothing was asked")
    who.stop()
    thread.join(20)
    assert [type(error) for error in ended] == [ContainerLost]
    assert len(scripted.asked) == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message": "no such image"}', "no such image"),
        (b'{"error": "x"}', '{"error": "x"}'),
        (b"[1]", "[1]"),
        (b"{broken}", "{broken}"),
        (b"x" * 600, "x" * 500),
        (b"", ""),
    ],
)
def test_the_engines_own_words_are_quoted(body: bytes, words: str) -> None:
    assert message(body) == words


# Its connections


def _session(path: Path) -> tuple[requests.Session, UnixAdapter]:
    session, adapter = requests.Session(), UnixAdapter(lambda: str(path), 20)
    session.mount("http+docker://", adapter)
    return session, adapter


def test_calls_about_several_containers_share_a_connection_that_ends_with_the_client(
    path: Path, scripted: Scripted
) -> None:
    session, _ = _session(path)
    scripted.answers += [http(200, {}, keep=True)] * 3
    for number in range(3):
        session.get(f"http+docker://localhost/containers/{number}/json")
    assert (scripted.connections, scripted.ended) == (1, 0)
    session.close()
    until(lambda: scripted.ended, what="the connection stays open")


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
