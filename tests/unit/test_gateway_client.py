"""A gateway is there for a job and a route for a trial, no longer, and nobody waits for one that is gone."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from pytest_benchjobs.gateway import client
from pytest_benchjobs.gateway.client import Gateway, GatewaySettings, Terms, open_route
from pytest_benchjobs.model.errors import GatewayLost, InputError
from pytest_benchjobs.system.temporary import directory_for_sockets
from tests.unit.gateways import KEY, Agent, Model, Said, agent, chat_answer, hand_over, running, wait_until

PID = (42).to_bytes(4, "little")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("gateway"), forks=False) as gateway:
        yield gateway


def _listening(address: str = "127.0.0.1") -> socket.socket:
    handed = socket.socket()
    handed.bind((address, 0))
    handed.listen()
    return handed


def test_everything_it_makes_is_for_this_user_only_and_goes_with_it(tmp_path: Path, model: Model) -> None:
    with running(tmp_path, forks=False) as gateway:
        directory = Path(gateway.address).parent
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        with agent(gateway, model) as one:
            # The user of a container is another one; only what is mounted into it is reached there.
            assert stat.S_IMODE(one.route.socket.stat().st_mode) == 0o666
            assert stat.S_IMODE(one.route.socket.with_name("host").stat().st_mode) == 0o600
            assert stat.S_IMODE(one.route.socket.parent.stat().st_mode) == 0o700
            assert len(str(one.route.socket)) < 100
    assert not directory.exists()
    assert gateway._process.returncode == 0


def test_a_route_goes_with_its_trial(gateway: Gateway, model: Model) -> None:
    with agent(gateway, model) as one:
        place = one.route.socket.parent
        assert place.is_dir()

    def is_over() -> bool:
        with contextlib.suppress(ConnectionResetError):
            try:
                one.chat()
            except ConnectionRefusedError:
                return not place.exists()
        return False

    wait_until(is_over)


def test_a_closed_route_says_the_same_again(gateway: Gateway, model: Model) -> None:
    model.says(chat_answer())
    with agent(gateway, model) as one:
        one.chat()
        assert one.route.close() is one.route.close()
        assert not one.route.stop_asked()
        # A container that has it mounted can be started again.
        assert one.route.socket.exists()


def test_the_door_is_open_for_one_listening_socket_of_a_loopback(gateway: Gateway, model: Model) -> None:
    model.says(chat_answer())
    with open_route(gateway.address, "a/s/1", model.upstreams(), Terms()) as route:
        assert route.pid() is None
        with (
            socket.socket() as silent,
            _listening("0.0.0.0") as everywhere,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
            socket.socket(socket.AF_UNIX) as local,
            Path(os.devnull).open() as file,
            _listening() as proper,
        ):
            for wrong in (silent, everywhere, datagrams, local, file):
                hand_over(route.socket, wrong, PID)  # type: ignore[arg-type]
            hand_over(route.socket, proper, b"12")
            hand_over(route.socket, proper, (0).to_bytes(4, "little"))
            with socket.socket(socket.AF_UNIX) as nothing:
                nothing.connect(str(route.socket))
                nothing.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert route.pid() is None
        one = Agent(route, pid=77)
        wait_until(lambda: route.pid() == 77)
        assert one.chat().status == 200
        with _listening() as late, socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(route.socket))
            with contextlib.suppress(BrokenPipeError):
                socket.send_fds(connection, [(78).to_bytes(4, "little")], [late.fileno()])
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        assert route.pid() == 77
        assert route.socket.exists()


def test_another_turn_is_let_in_anew_and_counted_with_the_first(tmp_path: Path, model: Model) -> None:
    model.otherwise = chat_answer()
    with running(tmp_path) as gateway, agent(gateway, model) as first:
        route = first.route
        with _listening() as waits, socket.socket(socket.AF_UNIX) as connection:
            first.chat()
            assert route.close().usage.calls == 1
            connection.connect(str(route.socket))
            socket.send_fds(connection, [PID], [waits.fileno()])
            route.again()
            assert route.pid() is None
        second = Agent(route, pid=78)
        wait_until(lambda: route.pid() == 78)
        assert second.chat().status == 200
        report = route.close()
        assert (report.usage.calls, report.ending) == (2, None)


def test_the_key_is_in_no_process_list(tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "localhost")
    model.says(chat_answer())
    with running(tmp_path, forks=False, secrets={"X": KEY}) as gateway, agent(gateway, model) as one:
        assert one.chat().status == 200
        process = Path(f"/proc/{gateway._process.pid}")
        assert KEY.encode() not in (process / "environ").read_bytes()
        assert b"NO_PROXY=localhost" in (process / "environ").read_bytes()
        assert KEY.encode() not in (process / "cmdline").read_bytes()
        for file in Path(gateway.address).parent.rglob("*"):
            assert not file.is_file() or KEY.encode() not in file.read_bytes()
    assert KEY not in repr(model.upstreams())
    assert KEY not in repr(GatewaySettings(secrets={"X": KEY}))


def test_when_it_dies_nobody_waits(tmp_path: Path, model: Model) -> None:
    with running(tmp_path) as gateway, agent(gateway, model) as one:
        assert not one.route.stop_asked()
        Path(gateway.address).with_name("log").write_text("MemoryError:\n it was too much\n")
        os.kill(gateway._process.pid, signal.SIGKILL)
        wait_until(one.route.stop_asked)
        with pytest.raises(
            GatewayLost, match=r"is not running.*its last output: MemoryError: it was too much"
        ):
            one.route.close()
        with pytest.raises(GatewayLost):
            one.route.post("http://127.0.0.1:4180/openai/v1/chat/completions", {}, 5)
        with pytest.raises(GatewayLost):
            open_route(gateway.address, "a/s/1", [], Terms())


def test_when_it_hangs_nobody_waits_for_long(tmp_path: Path, model: Model) -> None:
    with running(tmp_path) as gateway, agent(gateway, model) as one:
        os.kill(gateway._process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError, match="no answer from the model within"):
                one.route.post("http://127.0.0.1:4180/openai/v1/chat/completions", {}, 0.05)
            with pytest.raises(GatewayLost, match=r"no answer within|timed out"):
                open_route(gateway.address, "a/s/2", [], Terms(), timeout=0.05)
        finally:
            os.kill(gateway._process.pid, signal.SIGCONT)


_PARENT = """
import sys, time
from pathlib import Path
from pytest_benchjobs.gateway.client import Gateway, GatewaySettings, Terms, open_route
gateway = Gateway.start(GatewaySettings())
open_route(gateway.address, "a/s/1", [], Terms())
print(gateway._process.pid, gateway.address, flush=True)
time.sleep(60)
"""


def test_it_does_not_outlive_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, address = parent.stdout.readline().split()
        parent.kill()

    def is_over() -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return True

    wait_until(is_over, 20)
    wait_until(lambda: not Path(address).parent.exists())


def _files(gateway: Gateway) -> list[str]:
    """Open files of the gateway's process."""
    found = []
    for one in Path(f"/proc/{gateway._process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(one.readlink()))
    return sorted(found)


def test_a_route_leaves_no_open_files_and_no_word_in_the_log(tmp_path: Path, model: Model) -> None:
    model.otherwise = chat_answer()
    with running(tmp_path) as gateway:
        with agent(gateway, model) as one:  # what is loaded once
            assert one.chat().status == 200
        wait_until(lambda: not list(Path(gateway.address).parent.glob("r*")))
        log = Path(gateway.address).with_name("log")
        before, words = len(_files(gateway)), log.read_text()
        for _ in range(2):
            with agent(gateway, model) as one, _listening() as late:
                assert one.chat().status == 200
                with socket.create_connection(("127.0.0.1", one.port), timeout=20) as raw:
                    raw.sendall(b"\x16\x03\x01 not HTTP\r\n\r\n")
                    raw.recv(100)
                with contextlib.suppress(OSError):
                    hand_over(one.route.socket, late, PID)
                url = "http://127.0.0.1:4180/openai/v1/chat/completions"
                assert one.route.post(url, {"model": "m-1"}, 20)[0] == 200
                one.route.close()
                one.route.again()
        with open_route(gateway.address, "a/s/2", [], Terms()):
            pass
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(gateway.address)
        wait_until(lambda: len(_files(gateway)) <= before)
        assert log.read_text() == words


def test_one_that_hangs_is_killed_and_what_it_made_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_END_TIMEOUT", 0.05)
    with running(tmp_path, forks=False) as gateway:
        os.kill(gateway._process.pid, signal.SIGSTOP)
        gateway.close()
        assert gateway._process.returncode == -signal.SIGKILL
        assert not Path(gateway.address).parent.exists()


def test_one_that_cannot_be_started_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setattr(client.subprocess, "Popen", mock.Mock(side_effect=OSError("no more processes")))
        with pytest.raises(GatewayLost, match="could not be started: no more processes"):
            Gateway.start(GatewaySettings())
        assert list(Path(short).iterdir()) == []
        monkeypatch.setattr(tempfile, "tempdir", f"{short}/missing")
        with pytest.raises(GatewayLost, match=r"could not be started: .*No such file"):
            Gateway.start(GatewaySettings())


@pytest.mark.parametrize(("length", "fits"), [(90, True), (91, False)])
def test_the_address_of_a_socket_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, length: int, fits: bool
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="x") as short:
        deep = Path(short) / ("z" * (length - len(f"{short}//benchjobs-12345678")))
        deep.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(deep))
        found = directory_for_sockets("benchjobs-")
        try:
            assert (found.parent == deep) is fits
            assert found.parent in (deep, Path("/tmp"))
            assert list(deep.iterdir()) == ([found] if fits else [])
        finally:
            found.rmdir()


@contextlib.contextmanager
def _instead(tmp_path: Path, says: bytes) -> Iterator[tuple[str, queue.SimpleQueue[bytes]]]:
    """What says this in place of a gateway, and all that it hears on each connection."""
    heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "control"))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(20)
                connection.sendall(says)
                content = b""
                while more := connection.recv(1000):
                    content += more
                heard.put(content)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield str(tmp_path / "control"), heard
        thread.join(20)


@pytest.mark.parametrize(("says", "words"), [(b"", "no answer within 0.05 s"), (b"x\n", None)])
def test_who_gives_a_gateway_up_hangs_up(tmp_path: Path, says: bytes, words: str | None) -> None:
    with _instead(tmp_path, says) as (address, heard):
        with pytest.raises(GatewayLost if words else ValueError, match=words) as caught:
            open_route(address, "a/s/1", [], Terms(), timeout=0.05)
        assert caught.tb is not None  # its frames are alive, and what they hold
        assert heard.get(timeout=20).startswith(b'{"trial": "a/s/1"')


def test_a_call_from_this_machine_has_its_query_and_any_answer(gateway: Gateway, model: Model) -> None:
    model.says(Said(200, b"[" * 100_000), Said(200, b'{"data": \xff}'), Said(200, b"{}"))
    with agent(gateway, model) as one:
        url = "http://127.0.0.1:4180/anthropic/v1/messages/count_tokens"
        assert one.route.post(f"{url}?beta=true", {}, 20) == (200, "[" * 100_000)
        assert one.route.post(url, {}, 20) == (200, '{"data": \ufffd}')
        assert one.route.post(url, {}, 20) == (200, {})
    assert [asked.path.partition("count_tokens")[2] for asked in model.asked] == ["?beta=true", "", ""]


def test_who_waits_for_a_model_can_be_told_to_stop(gateway: Gateway, model: Model) -> None:
    done = threading.Event()
    model.says(lambda _handler: done.wait(20))
    told = iter([False])
    url = "http://127.0.0.1:4180/openai/v1/chat/completions"
    with agent(gateway, model) as one:
        try:
            with pytest.raises(TimeoutError, match="stopped while waiting for the model"):
                one.route.post(url, {"model": "m-1"}, 5, lambda: next(told, True))
        finally:
            done.set()


def test_a_wrong_table_of_prices_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("nonsense = 1\n")
    with (
        mock.patch.object(client, "_process") as started,
        pytest.raises(InputError, match=r"prices\.toml:1: nonsense: unknown key"),
    ):
        Gateway.start(GatewaySettings(prices=tmp_path / "prices.toml"))
    started.assert_not_called()


def test_no_more_connections_are_let_in_than_a_trial_may_have(gateway: Gateway, model: Model) -> None:
    model.otherwise = Said(200, b'{"data": []}')
    request = b"GET /openai/v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    with agent(gateway, model) as one, contextlib.ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", one.port), timeout=20))
            for _ in range(32)
        ]
        for line in held:
            line.sendall(request)
            assert line.recv(1000).startswith(b"HTTP/1.1 200")
        late = stack.enter_context(socket.create_connection(("127.0.0.1", one.port), timeout=0.2))
        late.sendall(request)
        with pytest.raises(TimeoutError):
            late.recv(1000)
        held[7].close()
        late.settimeout(20)
        assert late.recv(1000).startswith(b"HTTP/1.1 200")
