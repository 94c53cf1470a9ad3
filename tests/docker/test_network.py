"""What a public trial can reach: seen from inside real containers, beside what others can."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from pytest_benchjobs.model.errors import ContainerStartFailed
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Network
from pytest_benchjobs.sandbox.docker import network
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.network import NETWORK_LABEL, NETWORK_VARIABLE, remove_public_network
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.docker.rules import rules_of
from tests.support import IMAGE, until

from .sandboxes import machine_on, said, started

pytestmark = pytest.mark.docker

# Connects to addresses and ports, all at once: each through whatever interface, or through the one that is named.
_CONNECT = """
use IO::Socket::INET; use Socket;
for my $target (@ARGV) {
    next if fork;
    my ($host, $port, $device) = split /:/, $target;
    socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
    setsockopt($s, SOL_SOCKET, 25, $device . "\\0") or die "bind: $!" if $device;
    $SIG{ALRM} = sub { print "$target timed out\\n"; exit }; alarm 3;
    print "$target ", connect($s, sockaddr_in($port, inet_aton($host))) ? "connected" : "$!", "\\n";
    exit;
}
1 while wait != -1;
"""
_LISTEN = """
use IO::Socket::INET;
my $s = IO::Socket::INET->new(LocalPort => 9999, Listen => 5, ReuseAddr => 1) or die;
while (my $c = $s->accept) { close $c }
"""


def _sandbox(
    provider: DockerProvider, policy: Network = "public"
) -> contextlib.AbstractContextManager[DockerSandbox]:
    return started(provider, network=policy, workdir="/")


def _connect(sandbox: DockerSandbox, *targets: str) -> dict[str, str]:
    """What came of connecting to each."""
    lines = said(sandbox, "perl", "-e", _CONNECT, *targets).splitlines()
    found = dict(line.split(" ", 1) for line in lines)
    assert found.keys() == set(targets), lines
    return found


def _connects(sandbox: DockerSandbox, host: str, port: int) -> str:
    (came,) = _connect(sandbox, f"{host}:{port}").values()
    return came


def _address(sandbox: DockerSandbox) -> str:
    return said(sandbox, "hostname", "-I").split()[0]


@pytest.fixture
def service() -> Iterator[int]:
    """A service of this machine on all of its addresses, such as a model's endpoint; its port."""
    with socket.socket() as listening:
        listening.bind(("0.0.0.0", 0))
        listening.listen(50)
        yield listening.getsockname()[1]


DEVICES = ("", "eth0")
LINK_LOCAL = ("169.254.169.254", "168.63.129.16", "100.100.100.200")


def test_a_public_trial_reaches_no_service_of_the_machine_and_no_link_local_address(
    provider: DockerProvider, service: int
) -> None:
    with _sandbox(provider) as sandbox:
        assert sandbox.notes == ()
        open_to_others = f"{machine_on('bridge')}:{service}"
        inside = subprocess.run(
            ["docker", "run", "--rm", "--network=bridge", IMAGE, "perl", "-e", _CONNECT, open_to_others],
            capture_output=True,
            text=True,
            check=True,
        )
        assert inside.stdout == f"{open_to_others} connected\n"  # so it can be seen whether it is
        ours = [
            f"{machine_on(name)}:{service}:{device}" for name in ("bridge", "benchjobs") for device in DEVICES
        ]
        local = [f"{host}:80:{device}" for host in LINK_LOCAL for device in DEVICES]
        for _ in range(2):
            found = _connect(sandbox, *ours, *local)
            assert {found[target] for target in ours} == {"timed out"}
            assert {found[target] for target in local} <= {
                "No route to host",
                "Permission denied",
                "timed out",
            }
            sandbox.end_processes()  # which gives it a new network


def test_public_trials_do_not_reach_each_other(provider: DockerProvider) -> None:
    with _sandbox(provider) as one, _sandbox(provider) as other:
        address = _address(one)
        listening = threading.Thread(
            target=lambda: one.exec(["perl", "-e", _LISTEN], timeout=20, sink=lambda data: None)
        )
        listening.start()
        try:
            until(lambda: _connects(one, address, 9999) == "connected", what="nobody listens")
            assert _connects(other, address, 9999) == "timed out"
        finally:
            one.end_processes()
            listening.join()


def test_names_are_resolved_as_on_the_default_network(provider: DockerProvider) -> None:
    with _sandbox(provider) as sandbox:
        ours = said(sandbox, "getent", "hosts", "deb.debian.org") != ""
    default = ["docker", "run", "--rm", "--network=bridge", IMAGE, "getent", "hosts", "deb.debian.org"]
    assert ours == (subprocess.run(default, capture_output=True, check=False).stdout != b"")


def test_a_trial_that_is_given_the_network_later_is_given_the_same(
    provider: DockerProvider, service: int
) -> None:
    with _sandbox(provider, "none") as sandbox:
        sandbox.set_network("public")
        assert _connects(sandbox, machine_on("bridge"), service) == "timed out"
        sandbox.set_network("none")
        assert "unreachable" in _connects(sandbox, machine_on("bridge"), service)


@pytest.mark.alone
def _remove(provider: DockerProvider) -> int:
    return remove_public_network(provider.engine, provider.owner)


def test_whoever_comes_first_makes_it_and_all_have_the_same() -> None:
    providers = [DockerProvider(current_owner()) for _ in range(6)]
    image = str(providers[0].engine.get(f"/images/{IMAGE}/json")["Id"])
    _remove(providers[0])
    start, found = threading.Barrier(len(providers)), []

    def join(one: DockerProvider) -> None:
        start.wait()
        with one.engine.guard():
            one.services.begin()
            found.append(one.services.network.of("public", image).name)

    threads = [threading.Thread(target=join, args=[one]) for one in providers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len(found) == len(providers)
        there = providers[0].engine.get("/networks", filters={"label": [NETWORK_LABEL]})
        assert {one["Id"] for one in there} >= set(found)
        assert len(there) == 1
        assert len(set(found)) == 1
    finally:
        for one in providers:
            one.close()


def test_what_was_made_is_found_without_a_helper(
    provider: DockerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _sandbox(provider):
        monkeypatch.setattr(network, "_apply", lambda *args, **more: pytest.fail("it is there already"))
        another = DockerProvider(current_owner())
        with contextlib.closing(another), _sandbox(another) as sandbox:
            assert sandbox.notes == ()


def test_rules_that_are_there_already_or_not_any_more_are_no_problem(provider: DockerProvider) -> None:
    rules = rules_of("br-abcdefabcdef", "198.19.240.0/20")
    image = str(provider.engine.get(f"/images/{IMAGE}/json")["Id"])
    for remove in (False, False, True, True):  # an engine elsewhere cannot be asked which there are
        assert network._apply(provider.engine, provider.owner, image, rules, remove=remove) is None


def test_gc_removes_it_when_no_container_has_it_and_the_next_trial_makes_it_again(
    provider: DockerProvider,
) -> None:
    with _sandbox(provider):
        assert _remove(provider) == 0
    assert _remove(provider) in (0, 1)  # another session of this machine may have a container now
    with _sandbox(provider) as sandbox:  # it knew another one
        assert sandbox.notes == ()
        assert provider.engine.get("/networks", filters={"label": [NETWORK_LABEL]})


def test_another_network_can_be_named(monkeypatch: pytest.MonkeyPatch, service: int) -> None:
    monkeypatch.setenv(NETWORK_VARIABLE, "bridge")
    another = DockerProvider(current_owner())
    with contextlib.closing(another), _sandbox(another) as sandbox:
        assert _connects(sandbox, machine_on("bridge"), service) == "connected"
    monkeypatch.setenv(NETWORK_VARIABLE, "brigde")
    another = DockerProvider(current_owner())
    with (
        contextlib.closing(another),
        pytest.raises(ContainerStartFailed, match="no such network"),
        _sandbox(another),
    ):
        pass
