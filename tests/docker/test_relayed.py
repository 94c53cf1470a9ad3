"""What holds of doors and allowlists holds where the engine can mount nothing of this machine: see `sandbox/relay.py`."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.errors import EngineLost
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.delivery import DELIVERED, forget_deliveries
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.door import SOCKET
from pytest_benchjobs.sandbox.protocol import Mount, Stopping

from .sandboxes import said, sh, started
from .test_allowlist import (  # noqa: F401  what is reached, and that nothing else leads out
    asked,
    machine,
    site,
    test_a_socket_that_the_agent_hands_over_is_served_by_nobody,
    test_each_container_has_its_own_list,
    test_nothing_leads_out_beside_the_proxy,
    test_the_network_can_change_while_it_runs,
    test_what_is_listed_is_reached_and_nothing_else,
)
from .test_door import (  # noqa: F401  calls of an agent, and what it may do to its door
    Agent,
    Gateway,
    gateway,
    test_a_container_starts_again_after_its_route_was_closed,
    test_a_replaced_door_is_never_run,
    test_an_agent_reaches_the_gateway_through_its_own_loopback,
    test_an_agent_without_network_reaches_nothing_else,
    test_containers_do_not_get_in_each_others_way,
    test_the_door_names_the_process_group_of_the_agent,
)

pytestmark = pytest.mark.docker

_LARGE = 6_000_000
_TALK = r"""
use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0); connect($s, sockaddr_in(4180, inet_aton("127.0.0.1"))) or die;
$s->autoflush(1); print $s "0123456789" x (SIZE / 10); shutdown($s, 1); sleep 1;
while (sysread($s, my $piece, 65536)) { print $piece }
"""
"""Writes much, ends its side, is slow to begin with reading, and prints what it read."""


@pytest.fixture(scope="module")
def provider() -> Iterator[DockerProvider]:
    provider = DockerProvider(current_owner())
    provider._sees_files = False
    yield provider
    provider.close()


def test_large_bodies_are_carried_whole_both_ways_beside_each_other(
    provider: DockerProvider,
    gateway: Gateway,  # noqa: F811
) -> None:
    talk = f"perl -MIO::Handle -e '{_TALK.replace('SIZE', str(_LARGE))}' | sha256sum"
    answer = bytes(range(256)) * (_LARGE // 256)
    heard: list[bytes] = []

    def serve(listener: object) -> None:
        connection, _ = listener.accept()  # type: ignore[attr-defined]
        with connection:
            heard.append(b"".join(iter(lambda: connection.recv(65536), b"")))
            connection.sendall(answer)

    with started(provider, mounts=(gateway.mount,)) as sandbox:
        agent = Agent(sandbox, f"{talk} & {talk}; wait")
        with gateway.take() as listener:
            threads = [threading.Thread(target=serve, args=(listener,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            status, output = agent.end()
            for thread in threads:
                thread.join()
    assert heard == [b"0123456789" * (_LARGE // 10)] * 2
    assert (status, output) == (0, f"{hashlib.sha256(answer).hexdigest()}  -\n" * 2)


def test_a_call_that_the_gateway_breaks_off_is_broken_off_for_the_agent(
    provider: DockerProvider,
    gateway: Gateway,  # noqa: F811
) -> None:
    script = "exec 3<>/dev/tcp/127.0.0.1/4180; echo ask >&3; cat <&3; echo $?; exec 2>&1; : <>/dev/tcp/127.0.0.1/4180 && cat </dev/tcp/127.0.0.1/4180"
    with started(provider, mounts=(gateway.mount,)) as sandbox:
        agent = Agent(sandbox, script)
        with gateway.take() as listener:
            gateway.answer(listener, b"half")
        status, output = agent.end()
    assert output.startswith("half0\n")
    assert status == 1
    assert "reset by peer" in output


def test_a_relay_that_breaks_is_no_fault_of_the_agent(
    provider: DockerProvider,
    gateway: Gateway,  # noqa: F811
) -> None:
    """And one that the agent kills is."""
    with started(provider, mounts=(gateway.mount,)) as sandbox:
        kill = (
            "for at in /proc/[0-9]*; do grep -qzx relay $at/cmdline && kill -9 ${at#/proc/}; done 2>/dev/null"
        )
        agent = Agent(sandbox, f"{kill}; sleep 0.5; exec 2>&1; : </dev/tcp/127.0.0.1/4180 || echo gone")
        gateway.take().close()
        status, output = agent.end()
        assert (status, output.splitlines()[-1]) == (0, "gone"), output
    other = Gateway(gateway.path.with_name("other.sock"))
    with started(provider, mounts=(other.mount,)) as sandbox:
        stopping = Stopping(lambda: False, lambda _: None, graces=())
        broken: list[BaseException] = []

        def work() -> None:
            try:
                sandbox.exec(["/bench/program", "door", "4180", SOCKET, "/bin/sleep", "60"], timeout=60,
                             sink=lambda _: None, stopping=stopping)  # fmt: skip
            except BaseException as error:
                broken.append(error)

        thread = threading.Thread(target=work)
        began = time.monotonic()
        thread.start()
        with other.take():
            sandbox._relays._open[SOCKET]._error = EngineLost("the connection broke")
            thread.join()
        assert [str(error) for error in broken] == ["the connection broke"]
        assert time.monotonic() - began < 45
    other.close()


def test_a_directory_is_delivered_once_and_cannot_be_changed(
    provider: DockerProvider, client: docker.APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "agent"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "run").write_text(f"#!/bin/sh\necho {tmp_path}\n")
    (source / "bin" / "run").chmod(0o700)
    (tmp_path / "one.pem").write_text("certificate\n")
    mounts = (Mount(source, "/opt/agent"), Mount(tmp_path / "one.pem", "/etc/one.pem"))

    def keepers() -> list[str]:
        filters = {"label": [f"{DELIVERED}=/opt/agent"]}
        return [one["Id"] for one in client.containers(all=True, filters=filters)]

    before = set(keepers())
    try:
        for _ in range(2):
            with started(provider, mounts=mounts) as sandbox:
                assert said(sandbox, "/opt/agent/bin/run", user="1234") == f"{tmp_path}\n"
                assert said(sandbox, "cat", "/etc/one.pem") == "certificate\n"
                assert "Read-only" in sh(sandbox, "touch /opt/agent/x 2>&1")[1]
        # Another process finds it, too; what has changed since is another delivery.
        again = DockerProvider(current_owner())
        again._sees_files = False
        with started(again, mounts=mounts) as sandbox:
            assert said(sandbox, "/opt/agent/bin/run") == f"{tmp_path}\n"
        again.close()
        assert forget_deliveries(provider.engine) == 0, "it is not a week old"
        monkeypatch.setattr("pytest_benchjobs.sandbox.docker.delivery._KEPT_SECONDS", -60.0)
        with started(provider, mounts=mounts):
            forget_deliveries(provider.engine)
            assert len(set(keepers()) - before) == 1, "a container has it"
        assert len(made := set(keepers()) - before) == 1
        assert [one["State"] for one in client.containers(all=True) if one["Id"] in made] == ["created"]
        forget_deliveries(provider.engine)
        assert set(keepers()) <= before
        with pytest.raises(EngineLost, match="removed meanwhile"), started(provider, mounts=mounts):
            pass
        with started(provider, mounts=mounts) as sandbox:
            assert said(sandbox, "/opt/agent/bin/run") == f"{tmp_path}\n"
    finally:
        for one in set(keepers()) - before:
            client.remove_container(one, v=True, force=True)
