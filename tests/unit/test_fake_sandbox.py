"""The sandbox for tests of plugins keeps the promises of the protocol that such tests rely on."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.endpoint import GATEWAY_URL
from pytest_benchjobs.model.errors import AgentSetupFailed, ImageMissing
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.door import DOOR_FAILED, SOCKET, through_door
from pytest_benchjobs.sandbox.protocol import ExecResult, ImageRequest, Mount, SandboxSpec, Stopping
from pytest_benchjobs.testing import FakeProvider, FakeSandbox


@pytest.fixture(autouse=True)
def _kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(tmp_path / "kept"))


def _start(
    provider: FakeProvider, image: str = "one", kept: str | None = None, mounts: tuple[Mount, ...] = ()
) -> FakeSandbox:
    spec = SandboxSpec(
        environment=Environment(image=image),
        labels={"job": "j", "trial": "t", "bundle": "/b"},
        network="none",
        deadline=60,
        kept=kept,
        mounts=mounts,
    )
    return provider.start(spec, lambda phase: None)


def _sh(sandbox: FakeSandbox, script: str, **more: Any) -> tuple[ExecResult, str]:
    output = bytearray()
    result = sandbox.exec(["sh", "-c", script], timeout=20, sink=output.extend, **more)
    return result, output.decode()


@pytest.fixture
def sandbox() -> Iterator[FakeSandbox]:
    sandbox = _start(FakeProvider(current_owner()))
    yield sandbox
    sandbox.remove()


def test_what_is_kept_is_there_again_until_it_is_forgotten() -> None:
    provider = FakeProvider(current_owner())
    sandbox = _start(provider)
    _sh(sandbox, "echo done > /app/out.txt")
    reference = sandbox.keep("name")
    sandbox.remove()
    assert [(one.reference, one.job, one.trial, one.bundle) for one in provider.kept()] == [
        (reference, "j", "t", "/b")
    ]

    again = _start(provider, "two", reference)
    assert _sh(again, "cat out.txt")[1] == "done\n"
    assert again.image.key == "one"
    again.remove()

    assert provider.forget_kept(reference)
    assert not provider.forget_kept(reference)
    assert provider.kept() == []
    with pytest.raises(ImageMissing, match="--bench-keep"):
        _start(provider, "two", reference)
    provider.close()


def test_nothing_but_what_was_kept_can_be_forgotten(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("{}")
    assert not FakeProvider(current_owner()).forget_kept("fake-kept:../")
    assert (tmp_path / "kept.json").exists()


def test_an_image_is_known_by_its_name() -> None:
    provider = FakeProvider(current_owner())
    assert provider.identify(ImageRequest(Environment(image="one"))) == "one"
    assert provider.identify(ImageRequest(Environment(image="one"), {"one": "two"})) == "two"
    sandbox = _start(provider)
    assert sandbox.image.key == "one"
    sandbox.remove()


def test_a_silent_command_is_ended(sandbox: FakeSandbox) -> None:
    result, output = _sh(sandbox, "echo first; sleep 19", silent=0.2)
    assert (result.timed_out, result.silent, output) == (True, True, "first\n")
    result, _ = _sh(sandbox, "echo first", silent=10)
    assert (result.timed_out, result.silent, result.exit_status) == (False, False, 0)


def test_what_is_mounted_is_seen_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "version").write_text("1.2")
    provider = FakeProvider(current_owner())
    sandbox = _start(provider, mounts=(Mount(tmp_path / "agent", "/opt/agent"),))
    assert _sh(sandbox, "cat /opt/agent/version")[1] == "1.2"
    again = _start(provider, kept=sandbox.keep("name"))
    assert _sh(again, "ls /opt/agent || ls -A opt")[0].exit_status != 0
    again.remove()
    sandbox.remove()
    assert (tmp_path / "agent" / "version").exists()
    with pytest.raises(AgentSetupFailed, match="/opt/agent"):
        _start(provider, mounts=(Mount(tmp_path / "none", "/opt/agent"),))


@pytest.mark.parametrize(
    ("trap", "status"),
    [("trap 'echo bye; exit 3' INT", 3), ("trap '' INT; trap 'echo bye; exit 4' TERM", 4)],
    ids=["INT", "TERM"],
)
def test_a_command_is_asked_to_end_before_it_is_killed(sandbox: FakeSandbox, trap: str, status: int) -> None:
    asked = threading.Event()
    pids: list[int] = []
    output = bytearray()

    def sink(data: bytes) -> None:
        output.extend(data)
        if not pids:
            pids.append(int(output.split()[0]))
            asked.set()

    stopping = Stopping(
        asked.is_set, lambda name: sandbox.signal(pids[0], name), (("INT", 0.5), ("TERM", 10))
    )
    result = sandbox.exec(
        ["sh", "-c", f"{trap}; echo $$; while :; do sleep 0.05; done"],
        timeout=20,
        sink=sink,
        stopping=stopping,
    )
    assert (result.exit_status, result.timed_out, result.stopped, result.silent) == (
        status, True, True, False,
    )  # fmt: skip
    assert output.split()[-1] == b"bye"


def test_a_command_that_ends_in_time_is_not_asked(sandbox: FakeSandbox) -> None:
    said: list[str] = []
    result, _ = _sh(sandbox, "exit 5", stopping=Stopping(lambda: False, said.append))
    assert (result.exit_status, result.timed_out, result.stopped, said) == (5, False, False, [])
    result, _ = _sh(
        sandbox, "sleep 19", stopping=Stopping(lambda: True, said.append, (("INT", 0), ("TERM", 0)))
    )
    assert (result.exit_status, result.timed_out, result.stopped) == (None, True, True)
    assert said == ["INT", "TERM"]


CALL = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1] + '/hello', timeout=20).read().decode())"


def test_a_command_behind_the_door_reaches_the_gateway(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    with socket.socket(socket.AF_UNIX) as gateway:
        gateway.settimeout(20)
        gateway.bind(str(path))
        gateway.listen()
        sandbox = _start(FakeProvider(current_owner()), mounts=(Mount(path, SOCKET),))
        output = bytearray()
        argv = through_door([sys.executable, "-c", CALL, GATEWAY_URL["openai"]])
        agent = threading.Thread(
            target=sandbox.exec, args=(argv,), kwargs={"timeout": 20, "sink": output.extend}
        )
        agent.start()
        connection, _ = gateway.accept()
        with connection:
            message, (descriptor,), _, _ = socket.recv_fds(connection, 4, 1)
    with socket.socket(fileno=descriptor) as listener:
        listener.settimeout(20)
        call, _ = listener.accept()
        with call:
            assert call.recv(4096).startswith(b"GET /openai/v1/hello ")
            call.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        agent.join()
    assert output == b"hi\n"
    assert int.from_bytes(message, "little") > 1
    # Nobody listens any more.
    result = sandbox.exec(argv, timeout=20, sink=output.extend)
    assert result.exit_status == DOOR_FAILED
    sandbox.remove()
