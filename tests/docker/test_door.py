"""Agents reach the gateway through their door, in any container, and reach nothing else; mounts are what was promised."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import docker.types
import pytest

from pytest_benchjobs.gateway.client import Gateway as RealGateway
from pytest_benchjobs.gateway.client import GatewaySettings, Terms, Upstream, open_route
from pytest_benchjobs.model.endpoint import Endpoint
from pytest_benchjobs.model.errors import FilesRefused, Ungradable
from pytest_benchjobs.model.scenario import Network
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.door import DOOR_FAILED, SOCKET, door_command, door_file, through_door
from pytest_benchjobs.sandbox.program import PROGRAM
from pytest_benchjobs.sandbox.protocol import ExecResult, File, Mount, Stopping
from tests.support import IMAGE

from .sandboxes import started

pytestmark = pytest.mark.docker

ASK = "exec 3<>/dev/tcp/127.0.0.1/4180 && echo hello >&3 && cat <&3"


class Gateway:
    """Takes one listening socket and no other, as the real one does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = 0
        self._door = socket.socket(socket.AF_UNIX)
        self._door.settimeout(120)
        self._door.bind(str(path))
        self._door.listen()
        path.chmod(0o666)

    @property
    def mount(self) -> Mount:
        return Mount(self.path, SOCKET)

    def take(self) -> socket.socket:
        connection, _ = self._door.accept()
        self._door.close()
        with connection:
            message, (descriptor,), _, _ = socket.recv_fds(connection, 16, 1)
        self.pid = int.from_bytes(message, "little")
        listener = socket.socket(fileno=descriptor)
        listener.settimeout(120)
        return listener

    def answer(self, listener: socket.socket, text: bytes) -> bytes:
        connection, _ = listener.accept()
        with connection:
            asked = connection.recv(100)
            connection.sendall(text)
        return asked

    def close(self) -> None:
        self._door.close()


class Agent(threading.Thread):
    """A command behind the door."""

    def __init__(
        self,
        sandbox: DockerSandbox,
        script: str,
        *,
        user: str | None = None,
        stopping: Stopping | None = None,
    ) -> None:
        super().__init__()
        self.sandbox = sandbox
        self.argv = through_door(["/bin/bash", "-c", script])
        self.user = user
        self.stopping = stopping
        self.output = bytearray()
        self.result: ExecResult | None = None
        self.start()

    def run(self) -> None:
        self.result = self.sandbox.exec(
            self.argv, timeout=180, sink=self.output.extend, user=self.user, stopping=self.stopping
        )

    def end(self) -> tuple[int | None, str]:
        self.join()
        assert self.result is not None
        return self.result.exit_status, self.output.decode()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "g.sock")
    yield gateway
    gateway.close()


def _sandbox(
    provider: DockerProvider, *mounts: Mount, files: tuple[File, ...] = (), **more: Any
) -> contextlib.AbstractContextManager[DockerSandbox]:
    return started(provider, door_file(provider.machine()), *files, mounts=mounts, **more)


def _sh(sandbox: DockerSandbox, script: str) -> tuple[int | None, str]:
    output = bytearray()
    result = sandbox.exec(["bash", "-c", script], timeout=60, sink=output.extend)
    return result.exit_status, output.decode()


def test_the_machine_of_the_engine_is_named_as_programs_name_it(provider: DockerProvider) -> None:
    with _sandbox(provider) as sandbox:
        assert _sh(sandbox, "uname -m") == (0, f"{provider.machine()}\n")


@pytest.mark.parametrize("network", ["none", "public"])
def test_an_agent_reaches_the_gateway_through_its_own_loopback(
    provider: DockerProvider, gateway: Gateway, network: Network
) -> None:
    with _sandbox(provider, gateway.mount, network=network) as sandbox:
        script = f"grep -E '^(NoNewPrivs|Uid)' /proc/self/status; {ASK}"
        agent = Agent(sandbox, script, user="1234")
        with gateway.take() as listener:
            assert gateway.answer(listener, b"hi\n") == b"hello\n"
            assert agent.end() == (0, "Uid:\t1234\t1234\t1234\t1234\nNoNewPrivs:\t1\nhi\n")
        # With the gateway's socket gone, nobody listens there.
        assert _sh(sandbox, ASK)[0] == 1


def test_an_agent_without_network_reaches_nothing_else(provider: DockerProvider, gateway: Gateway) -> None:
    with _sandbox(provider, gateway.mount) as sandbox, socket.create_server(("0.0.0.0", 0)) as host:
        port = host.getsockname()[1]
        elsewhere = ("127.0.0.1", "172.17.0.1", "host.docker.internal", "192.0.2.1", "169.254.169.254")
        tries = "; ".join(
            f"exec 3<>/dev/tcp/{address}/{port} && echo reached {address}" for address in elsewhere
        )
        agent = Agent(sandbox, f"exec 2>/dev/null; {tries}; ls /sys/class/net; {ASK}")
        with gateway.take() as listener:
            gateway.answer(listener, b"hi\n")
            assert agent.end() == (0, "lo\nhi\n")


def test_containers_do_not_get_in_each_others_way(provider: DockerProvider, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        gateways = [stack.enter_context(contextlib.closing(Gateway(tmp_path / f"g{n}"))) for n in range(2)]
        sandboxes = [stack.enter_context(_sandbox(provider, gateway.mount)) for gateway in gateways]
        agents = [Agent(sandbox, ASK) for sandbox in sandboxes]
        listeners = [stack.enter_context(gateway.take()) for gateway in gateways]
        for number, gateway in enumerate(gateways):
            gateway.answer(listeners[number], str(number).encode())
        assert [agent.end() for agent in agents] == [(0, "0"), (0, "1")]


def test_the_door_needs_no_rights_at_all(
    provider: DockerProvider, client: docker.APIClient, gateway: Gateway, tmp_path: Path
) -> None:
    program = tmp_path / "door"
    program.write_bytes(door_file(provider.machine()).content or b"")
    program.chmod(0o755)
    mounts = [
        docker.types.Mount(target, str(source), type="bind", read_only=True)
        for target, source in ((PROGRAM, program), (SOCKET, gateway.path))
    ]
    config = client.create_host_config(
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        mounts=mounts,
    )
    container = client.create_container(
        IMAGE, list(through_door(["/bin/bash", "-c", ASK])), user="1234:1234", host_config=config
    )["Id"]
    try:
        client.start(container)
        with gateway.take() as listener:
            gateway.answer(listener, b"hi\n")
            assert client.wait(container, timeout=30)["StatusCode"] == 0
        assert client.logs(container) == b"hi\n"
        assert gateway.pid == 1
    finally:
        client.remove_container(container, force=True)


def test_a_second_socket_is_refused(provider: DockerProvider, gateway: Gateway) -> None:
    other = " ".join(door_command(4181, SOCKET))
    with _sandbox(provider, gateway.mount) as sandbox:
        agent = Agent(sandbox, f"{ASK}; exec 2>&1; {other} /bin/echo never; echo $?")
        with gateway.take() as listener:
            gateway.answer(listener, b"hi\n")
            refused = "bench: the gateway cannot be reached: errno 111 of connect\n"
            assert agent.end() == (0, f"hi\n{refused}{DOOR_FAILED}\n")


def test_the_door_names_the_process_group_of_the_agent(provider: DockerProvider, gateway: Gateway) -> None:
    asked = threading.Event()
    with _sandbox(provider, gateway.mount) as sandbox:
        stopping = Stopping(asked.is_set, lambda name: sandbox.signal(gateway.pid, name), (("INT", 30.0),))
        agent = Agent(sandbox, f"trap 'echo used 5; exit 3' INT; {ASK}; sleep 60", stopping=stopping)
        with gateway.take() as listener:
            gateway.answer(listener, b"hi\n")
            asked.set()
            assert agent.end() == (3, "hi\nused 5\n")
        assert agent.result is not None
        assert agent.result.stopped
        assert sandbox.processes() == ()


def test_a_replaced_door_is_never_run(provider: DockerProvider, gateway: Gateway) -> None:
    script = rf"printf '#!/bin/sh\necho ran >> /app/ran\n' > {PROGRAM}.new; mv {PROGRAM}.new {PROGRAM}; {ASK}; sleep 60 >/dev/null 2>&1 & sleep 0.1"
    with _sandbox(provider, gateway.mount) as sandbox:
        agent = Agent(sandbox, script)
        with gateway.take() as listener:
            gateway.answer(listener, b"hi\n")
            agent.end()
        sandbox.end_processes()
        assert sandbox.processes() == ()
        assert _sh(sandbox, f"ls /app; head -c 9 {PROGRAM}") == (0, "#!/bin/sh")
        # The mount is there again, and nobody is behind it.
        assert _sh(sandbox, f"test -S {SOCKET}")[0] == 0


def test_a_container_starts_again_after_its_route_was_closed(provider: DockerProvider) -> None:
    nowhere = Upstream(Endpoint(wire="openai", provider="openai", base_url="http://127.0.0.1:9/v1"), None)
    with (
        contextlib.closing(RealGateway.start(GatewaySettings())) as real,
        open_route(real.address, "a/s/1", [nowhere], Terms()) as route,
        _sandbox(provider, Mount(route.socket, SOCKET)) as sandbox,
    ):
        request = "GET /nothing HTTP/1.1\\r\\nHost: gateway\\r\\nConnection: close\\r\\n\\r\\n"
        script = f"exec 3<>/dev/tcp/127.0.0.1/4180; printf '{request}' >&3; head -c 5 <&3"
        assert Agent(sandbox, script).end() == (0, "HTTP/")
        assert route.pid() is not None
        assert route.close().usage.calls == 0
        sandbox.end_processes()
        # Its socket is still there, for a next turn.
        assert Agent(sandbox, "echo again").end() == (0, "again\n")


@pytest.mark.parametrize(
    "attack",
    [
        "mkdir /bench; ln -s /bin/bash /bench/gateway.sock",
        "ln -s /etc /bench",
        "mkdir -p /bench/gateway.sock",
        "touch /bench",
    ],
)
def test_a_mount_cannot_be_sent_elsewhere(provider: DockerProvider, gateway: Gateway, attack: str) -> None:
    with _sandbox(provider, gateway.mount) as sandbox:
        assert _sh(sandbox, f"mv /bench /away; {attack}") == (0, "")
        provider.engine.client.kill(sandbox.id)  # so it is started anew
        # Whether the engine mounts before it looks at a file depends on its version.
        with pytest.raises((Ungradable, FilesRefused), match=r"the agent moved a directory|put files into"):
            sandbox.end_processes()


def test_a_mount_is_made_anew_where_its_directory_is_gone(provider: DockerProvider, gateway: Gateway) -> None:
    with _sandbox(provider, gateway.mount) as sandbox:
        assert _sh(sandbox, "mv /bench /away") == (0, "")
        provider.engine.client.kill(sandbox.id)  # so it is started anew
        sandbox.end_processes()
        assert _sh(sandbox, f"test -S {SOCKET} && test -f /away/gateway.sock") == (0, "")


def test_what_is_mounted_can_be_read_and_run_but_not_changed(
    provider: DockerProvider, tmp_path: Path
) -> None:
    (tmp_path / "agent").mkdir()
    program = tmp_path / "agent" / "run"
    program.write_text("#!/bin/sh\necho version 1\n")
    program.chmod(0o755)
    with _sandbox(provider, Mount(tmp_path / "agent", "/opt/agent")) as sandbox:
        for _ in range(2):
            assert _sh(sandbox, "/opt/agent/run") == (0, "version 1\n")
            status, output = _sh(sandbox, "echo x > /opt/agent/new")
            assert (status, "Read-only file system" in output) == (1, True)
            assert _sh(sandbox, "rm -rf /opt/agent; mount -o remount,rw /opt/agent")[0] != 0
            sandbox.put([File("/app/in", content=b"1"), File("/opt/other", content=b"2")])
            assert _sh(sandbox, "cat /app/in /opt/other") == (0, "12")
            assert sandbox.read("/opt/agent/run", limit=1000) == program.read_bytes()
            sandbox.end_processes()
    assert os.listdir(tmp_path / "agent") == ["run"]  # noqa: PTH208


def test_what_is_mounted_is_not_kept(provider: DockerProvider, gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "big").write_bytes(bytes(1 << 20))
    mounts = (gateway.mount, Mount(tmp_path / "agent", "/opt/agent"))
    with _sandbox(provider, *mounts) as sandbox:
        _sh(sandbox, "echo done > /app/out")
        reference = sandbox.keep("test-door")
    try:
        (kept,) = [one for one in provider.kept() if one.reference == reference]
        assert kept.bytes < 100_000
        with _sandbox(provider, kept=reference) as sandbox:
            assert _sh(sandbox, f"cat /app/out; ls -A /opt/agent; stat -c '%F, %s' {SOCKET}") == (
                0,
                "done\nregular empty file, 0\n",
            )
    finally:
        assert provider.forget_kept(reference)
