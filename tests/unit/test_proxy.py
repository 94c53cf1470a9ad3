"""The proxy of a network `allowlist`: who is let through, who is not, and what is said about it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import http.server
import ipaddress
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineError, EnvironmentFailed
from pytest_benchjobs.sandbox import proxy as module
from pytest_benchjobs.sandbox.proxied import Streams
from pytest_benchjobs.sandbox.proxy import Proxy, is_of_this_machine
from tests.unit.gateways import hand_over, wait_until

pytestmark = pytest.mark.when_changed

PID = (77).to_bytes(4, "little")
PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"


class _Site(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path, dict(self.headers)))  # type: ignore[attr-defined]
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "http://evil.example/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._say(b"hello from " + self.headers["Host"].encode())

    def do_POST(self) -> None:
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if len(body) < int(self.headers["Content-Length"]):
                return
        self.server.seen.append((self.command, self.path, dict(self.headers)))  # type: ignore[attr-defined]
        self._say(body[::-1])

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1000):
            self.request.sendall(data)


class World:
    """Names with addresses, addresses with servers; all of them are on this machine's loopback."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {}
        """Answers to the questions for a name, one after the other; the last is repeated."""
        self.asked: list[str] = []
        self.connected: list[str] = []
        self.servers: dict[str, int] = {}
        self.own: set[str] = set()

    async def resolve(self, name: str, port: int) -> list[Any]:
        self.asked.append(name)
        if name not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self.names[name]
        return [ipaddress.ip_address(one) for one in (answers.pop(0) if len(answers) > 1 else answers[0])]

    async def connect(self, address: Any, port: int) -> Streams:
        self.connected.append(f"{address}:{port}")
        return await asyncio.open_connection("127.0.0.1", self.servers[str(address)])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World()
    monkeypatch.setattr(module, "resolve", world.resolve)
    monkeypatch.setattr(module, "connect", world.connect)
    monkeypatch.setattr(module, "is_of_this_machine", lambda address: str(address) in world.own)
    return world


@pytest.fixture
def site(world: World) -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        server.seen = []  # type: ignore[attr-defined]
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        world.servers[PUBLIC] = server.server_port
        world.names["good.example"] = [[PUBLIC]]
        yield server
        server.shutdown()


@pytest.fixture
def echo(world: World) -> Iterator[None]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        world.servers[OTHER] = server.server_address[1]
        world.names["echo.example"] = [[OTHER]]
        yield
        server.shutdown()


class Sandboxed:
    """A proxy that was handed a socket."""

    def __init__(self) -> None:
        self.proxy = Proxy()
        self.port = 0
        self.join()

    def join(self) -> None:
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self.port = listening.getsockname()[1]
        with listening:
            self.proxy.join(lambda: hand_over(self.proxy.mount.source, listening, PID))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def raw(self, request: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def get(self, url: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(client):
            client.request(method, url, body, headers)
            answer = client.getresponse()
            return answer.status, answer.read()

    def tunnel(self, target: str) -> tuple[socket.socket, bytes]:
        connection = self.connect()
        connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        return connection, connection.recv(65536)


@pytest.fixture
def sandbox() -> Iterator[Sandboxed]:
    sandbox = Sandboxed()
    sandbox.proxy.allow(["good.example", "echo.example", "*.sub.example"])
    yield sandbox
    sandbox.proxy.close()


def test_an_allowed_host_is_reached(sandbox: Sandboxed, site: Any, world: World) -> None:
    assert sandbox.get("http://good.example/a?b=c#d") == (200, b"hello from good.example")
    assert sandbox.get("http://GOOD.example.:8080/") == (200, b"hello from GOOD.example.:8080")
    assert world.connected == [f"{PUBLIC}:80", f"{PUBLIC}:8080"]
    assert [path for _, path, _ in site.seen] == ["/a?b=c", "/"]
    assert sandbox.proxy.refused() == ()


def test_a_body_goes_along(sandbox: Sandboxed, site: Any) -> None:
    assert sandbox.get("http://good.example/", "POST", b"x" * 300_000 + b"y") == (200, b"y" + b"x" * 300_000)
    assert sandbox.get("http://good.example/", "POST", iter([b"ab", b"cd"])) == (200, b"dcba")


def test_a_tunnel_goes_both_ways(sandbox: Sandboxed, echo: None) -> None:
    connection, said = sandbox.tunnel("echo.example:443")
    with connection:
        assert said.startswith(b"HTTP/1.1 200 ")
        for _ in range(3):
            connection.sendall(b"ping")
            assert connection.recv(100) == b"ping"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""


@pytest.mark.parametrize(
    "target", ["evil.example:443", "93.184.216.34:443", "good.example.evil.example:443", "sub.example:443", "[2606:2800::1]:443"]
)  # fmt: skip
def test_another_host_is_refused_and_not_even_resolved(
    sandbox: Sandboxed, world: World, target: str, site: Any
) -> None:
    connection, said = sandbox.tunnel(target)
    connection.close()
    assert said.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"not among the allowed hosts: echo.example, good.example, *.sub.example" in said
    assert sandbox.get(f"http://{target}/")[0] == 403
    assert world.asked == world.connected == []
    (line,) = sandbox.proxy.refused()
    assert line.startswith("the network refused ")
    assert line.endswith("*.sub.example (2 times)")
    assert sandbox.proxy.refused() == ()


@pytest.mark.parametrize(
    "address", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "::1", "::ffff:169.254.169.254", "192.168.7.7"]
)
def test_an_allowed_name_does_not_lead_to_an_address_inside(
    sandbox: Sandboxed, world: World, address: str
) -> None:
    world.names["good.example"] = [[address]]
    status, said = sandbox.get("http://good.example/")
    assert status == 403
    assert f"it is at {ipaddress.ip_address(address)}: ".encode() in said
    assert world.connected == []


def test_an_allowed_name_does_not_lead_to_this_machine(sandbox: Sandboxed, world: World, site: Any) -> None:
    world.own.add(PUBLIC)
    status, said = sandbox.get("http://good.example/")
    assert (status, b"an address of this machine" in said) == (403, True)
    assert world.connected == []


def test_a_name_that_changes_its_mind_gains_nothing(sandbox: Sandboxed, world: World, site: Any) -> None:
    world.names["good.example"] = [[PUBLIC], ["127.0.0.1"]]
    assert sandbox.get("http://good.example/")[0] == 200
    assert (world.asked, world.connected) == (["good.example"], [f"{PUBLIC}:80"])
    assert sandbox.get("http://good.example/")[0] == 403
    world.names["good.example"] = [["127.0.0.1", PUBLIC]]
    assert sandbox.get("http://good.example/")[0] == 200
    assert world.connected == [f"{PUBLIC}:80"] * 2


def test_an_address_is_reached_where_it_is_listed(sandbox: Sandboxed, world: World, site: Any) -> None:
    world.servers["10.2.3.4"] = site.server_port
    sandbox.proxy.allow(["10.2.0.0/16"])
    assert sandbox.get("http://10.2.3.4:8000/") == (200, b"hello from 10.2.3.4:8000")
    assert sandbox.get("http://10.3.3.4/")[0] == 403
    # Resolvers would take these for addresses.
    assert sandbox.get("http://167903236/")[0] == 403
    assert sandbox.get("http://0x0a.2.3.4/")[0] == 403
    assert world.asked == []


def test_a_redirect_leads_to_the_list_again(sandbox: Sandboxed, site: Any) -> None:
    client = http.client.HTTPConnection("127.0.0.1", sandbox.port, timeout=20)
    client.request("GET", "http://good.example/elsewhere")
    location = client.getresponse().getheader("Location")
    client.close()
    assert location is not None
    assert sandbox.get(location)[0] == 403


def test_a_host_is_told_its_own_name(sandbox: Sandboxed, site: Any) -> None:
    said = sandbox.raw(
        b"GET http://user:password@good.example/ HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n"
        b"Connection: X-Hop, close\r\nX-Hop: 1\r\nUpgrade: h2c\r\nX-Kept: 2\r\n\r\n"
    )
    assert said.endswith(b"hello from good.example")
    ((_, _, headers),) = site.seen
    assert headers == {"Host": "good.example", "X-Kept": "2", "Connection": "close"}


def test_a_second_request_on_a_connection_goes_nowhere(sandbox: Sandboxed, site: Any) -> None:
    one = b"GET http://good.example/first HTTP/1.1\r\nHost: good.example\r\n\r\n"
    smuggled = b"GET /second HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert sandbox.raw(one + smuggled).count(b"HTTP/1.1 200") == 1
    with_body = b"POST http://good.example/third HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"
    assert sandbox.raw(with_body + smuggled).endswith(b"ba")
    chunked = (
        b"POST http://good.example/fourth HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    )
    assert sandbox.raw(chunked + smuggled).endswith(b"ba")
    assert [path for _, path, _ in site.seen] == ["/first", "/third", "/fourth"]


@pytest.mark.parametrize(
    "request_",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"GET https://good.example/ HTTP/1.1\r\n\r\n",
        b"GET ftp://good.example/ HTTP/1.1\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\n\r\n",
        b"GET http://good.example/ HTTP/2\r\n\r\n",
        b"CONNECT good.example HTTP/1.1\r\n\r\n",
        b"CONNECT good.example:0 HTTP/1.1\r\n\r\n",
        b"CONNECT good.example:99999 HTTP/1.1\r\n\r\n",
        b"GET http://good.example/ HTTP/1.1\r\nBad header\r\n\r\n",
        b"GET http://good.example/ HTTP/1.1\r\n folded: x\r\n\r\n",
        b"GET http://good.example/\x00 HTTP/1.1\r\n\r\n",
        b"GET http://good.example/ HTTP/1.1\r\nX: a\rb\r\n\r\n",
        b"POST http://good.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://good.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST http://good.example/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"GET http://good.example/ HTTP/1.1\r\nX: " + b"a" * 40000 + b"\r\n\r\n",
        b"GET http://good.example/ HTTP/1.1\r\n" + b"X: a\r\n" * 20000 + b"\r\n",
        b"A" * 70000,
    ],
)
def test_what_is_no_request_goes_nowhere(
    sandbox: Sandboxed, site: Any, world: World, request_: bytes
) -> None:
    with contextlib.suppress(ConnectionError):
        assert sandbox.raw(request_).startswith(b"HTTP/1.1 400 ")
    assert world.asked == world.connected == []
    assert sandbox.get("http://good.example/")[0] == 200


def test_a_request_that_breaks_off_does_not_reach_its_end(sandbox: Sandboxed, site: Any) -> None:
    with sandbox.connect() as connection:
        connection.sendall(b"POST http://good.example/ HTTP/1.1\r\nContent-Length: 100\r\n\r\nonly this")
        connection.shutdown(socket.SHUT_WR)
        assert b"200" not in connection.recv(1000)
    assert site.seen == []


def test_a_host_that_is_not_there_is_no_refusal(sandbox: Sandboxed, world: World) -> None:
    status, said = sandbox.get("http://x.sub.example/")
    assert (status, b"cannot be resolved" in said) == (502, True)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        world.servers["1.1.1.1"] = nobody.getsockname()[1]
        world.names["x.sub.example"] = [["1.1.1.1"]]
        assert sandbox.get("http://x.sub.example/")[0] == 502
    assert sandbox.proxy.refused() == ()


def test_a_phase_has_its_own_list_and_connections_of_another_end(
    sandbox: Sandboxed, echo: None, site: Any
) -> None:
    connection, said = sandbox.tunnel("echo.example:443")
    with connection:
        assert b" 200 " in said
        sandbox.proxy.allow(["good.example"])
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"ping")
            assert connection.recv(100) == b""
    assert sandbox.get("http://good.example/")[0] == 200
    assert sandbox.get("http://echo.example/")[0] == 403
    sandbox.proxy.allow(None)
    status, said = sandbox.get("http://good.example/")
    assert (status, b"the network is no allowlist now" in said) == (403, True)


def test_a_sandbox_that_starts_again_is_served_again(sandbox: Sandboxed, site: Any) -> None:
    before = sandbox.port
    # Whatever ran in it had left this for the next start.
    with socket.create_server(("127.0.0.1", 0)) as forged:
        hand_over(sandbox.proxy.mount.source, forged, PID)
        sandbox.join()
        forged.settimeout(0.2)
        with pytest.raises(TimeoutError):
            forged.accept()
    assert sandbox.get("http://good.example/")[0] == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", before), timeout=5)


def test_a_program_that_hands_nothing_over_is_an_error(
    sandbox: Sandboxed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HANDOVER_SECONDS", 0.2)
    with pytest.raises(EngineError, match="could not be reached from the container"):
        sandbox.proxy.join(lambda: None)


def test_there_is_a_program_for_known_machines(sandbox: Sandboxed) -> None:
    assert sandbox.proxy.door("aarch64").mode == 0o755
    with pytest.raises(EnvironmentFailed, match="sandboxes' machine is s390x"):
        sandbox.proxy.door("s390x")


@pytest.mark.extended
def test_many_connections_wait_and_all_are_answered(sandbox: Sandboxed, site: Any) -> None:
    idle = [sandbox.connect() for _ in range(63)]
    try:
        assert sandbox.get("http://good.example/")[0] == 200
    finally:
        for one in idle:
            one.close()
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(sandbox.get("http://good.example/")[0]))
        for _ in range(90)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 90


def test_only_so_many_refusals_are_told_apart(sandbox: Sandboxed) -> None:
    for number in range(60):
        sandbox.get(f"http://e{number}.example/")
    lines = sandbox.proxy.refused()
    assert len(lines) == 51
    assert lines[-1] == "the network refused further hosts (10 times)"
    wait_until(lambda: not sandbox.proxy._open)  # or memory grows with each connection


def test_the_socket_goes_with_the_sandbox_and_stays_where_only_we_are() -> None:
    sandbox = Sandboxed()
    source = sandbox.proxy.mount.source
    assert source.parent.stat().st_mode & 0o777 == 0o700
    sandbox.proxy.close()
    sandbox.proxy.close()
    assert not source.parent.exists()
    with pytest.raises(ConnectionRefusedError):
        sandbox.connect()


def test_a_long_temporary_path_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    sandbox = Sandboxed()
    assert len(str(sandbox.proxy.mount.source)) < 108
    sandbox.proxy.close()


def test_addresses_of_this_machine_are_known() -> None:
    assert is_of_this_machine(ipaddress.ip_address("127.0.0.1"))
    assert not is_of_this_machine(ipaddress.ip_address("93.184.216.34"))


def test_names_are_resolved_as_this_machine_does() -> None:
    async def scenario() -> None:
        here = ipaddress.ip_address("127.0.0.1")
        assert here in await module.resolve("localhost", 80)
        with socket.create_server(("127.0.0.1", 0)) as server:
            _, writer = await module.connect(here, server.getsockname()[1])
            assert writer.get_extra_info("peername") == server.getsockname()
            writer.close()
            await writer.wait_closed()

    asyncio.run(scenario())
