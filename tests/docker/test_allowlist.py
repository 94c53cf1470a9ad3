"""The network `allowlist` in real containers: what is reached, what is not, and that nothing inside can change it."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import ipaddress
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.scenario import Network
from pytest_benchjobs.sandbox import proxy
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.door import door_command
from pytest_benchjobs.sandbox.proxied import Streams
from tests.support import IMAGE, results, run

from .sandboxes import machine_on, said, started

pytestmark = pytest.mark.docker

PUBLIC = "93.184.216.34"
_ASK = """
IFS=: read -r host port <<<"${http_proxy#http://}"
exec 3<>"/dev/tcp/$host/$port" && printf 'GET %s HTTP/1.1\\r\\n\\r\\n' "$1" >&3 && cat <&3
"""
"""Asks the proxy that the environment names for a URL."""
_CONNECT = """
use Socket; my ($host, $port) = @ARGV;
socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
$SIG{ALRM} = sub { print "timed out"; exit }; alarm 3;
my $address = inet_aton($host) or do { print "no such name"; exit };
print connect($s, sockaddr_in($port, $address)) ? "connected" : "$!";
"""
_UDP = """
use Socket; my ($host, $port) = @ARGV;
socket(my $s, PF_INET, SOCK_DGRAM, 0) or die;
print send($s, "hello", 0, sockaddr_in($port, inet_aton($host))) ? "sent" : "$!";
"""
_ASK_FORGED = """
exec 3<>/dev/tcp/127.0.0.1/4999 && printf 'GET http://good.example/ HTTP/1.1\\r\\n\\r\\n' >&3
timeout 2 cat <&3; echo "status $?"
"""


class _Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"hello from {self.headers['Host']}".encode()
        self.send_response(302 if self.path == "/elsewhere" else 200)
        if self.path == "/elsewhere":
            self.send_header("Location", "http://evil.example/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[int]:
    """A service of this machine on all of its addresses; its port."""
    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), _Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, site: int) -> list[str]:
    """Names that were resolved. All are at an address of the internet, where the site is."""
    names: list[str] = []

    async def resolve(name: str, port: int) -> list[Any]:
        names.append(name)
        return [ipaddress.ip_address(PUBLIC)]

    async def connect(address: Any, port: int) -> Streams:
        return await asyncio.open_connection("127.0.0.1", site)

    monkeypatch.setattr(proxy, "resolve", resolve)
    monkeypatch.setattr(proxy, "connect", connect)
    return names


def _sandbox(
    provider: DockerProvider, *hosts: str, network: Network = "allowlist"
) -> contextlib.AbstractContextManager[DockerSandbox]:
    return started(provider, network=network, workdir="/", allowed_hosts=hosts, limited=True)


def _ask(sandbox: DockerSandbox, url: str, user: str | None = None) -> str:
    answer = said(sandbox, "/bin/bash", "-c", _ASK, "ask", url, user=user)
    return (
        answer.split("\r\n")[0].removeprefix("HTTP/1.1 ").removeprefix("HTTP/1.0 ")
        + answer.partition("\r\n\r\n")[2]
    )


def test_what_is_listed_is_reached_and_nothing_else(
    provider: DockerProvider, asked: list[str], site: int
) -> None:
    with _sandbox(provider, "good.example", "*.sub.example") as sandbox:
        for user in (None, "1234"):
            assert _ask(sandbox, "http://good.example/", user) == "200 OKhello from good.example"
        assert _ask(sandbox, "http://a.sub.example/").startswith("200 ")
        assert _ask(sandbox, "http://good.example/elsewhere").startswith("302 ")
        assert asked == ["good.example"] * 2 + ["a.sub.example", "good.example"]
        assert sandbox.refused() == ()
        assert _ask(sandbox, "http://evil.example/") == (
            "403 Forbiddenbenchjobs: evil.example:80: not among the allowed hosts: good.example, *.sub.example\n"
        )
        assert _ask(sandbox, "http://dGhlIGtleQ.tunnel.example/").startswith("403 ")
        assert _ask(sandbox, f"http://{PUBLIC}/").startswith("403 ")
        assert _ask(sandbox, f"http://127.0.0.1:{site}/").startswith("403 ")
        assert len(asked) == 4  # what is not listed is not even looked up
        assert len(sandbox.refused()) == 4
        assert sandbox.notes == ()


def test_nothing_leads_out_beside_the_proxy(
    provider: DockerProvider, asked: list[str], site: int, machine: str
) -> None:
    with _sandbox(provider, "good.example", "0.0.0.0/0") as sandbox:
        assert said(sandbox, "ls", "/sys/class/net") == "lo\n"
        for host in (PUBLIC, machine, "169.254.169.254"):
            assert said(sandbox, "perl", "-e", _CONNECT, host, str(site)) == "Network is unreachable"
            assert said(sandbox, "perl", "-e", _UDP, host, "53") == "Network is unreachable"
        assert said(sandbox, "perl", "-e", _CONNECT, "good.example", "80") == "no such name"
        assert said(sandbox, "getent", "hosts", "good.example") == ""
        assert _ask(sandbox, f"http://{machine}:{site}/").startswith("403 ")
        assert _ask(sandbox, "http://169.254.169.254/").startswith("403 ")
        assert asked == []


def test_root_in_the_container_cannot_change_it(provider: DockerProvider, asked: list[str]) -> None:
    with _sandbox(provider, "good.example") as sandbox:
        for attempt in (
            "mount --bind /etc/hostname /bench/proxy.sock",
            "umount /bench/proxy.sock",
            "rm -f /bench/proxy.sock",
            "ip link add x type dummy",
            "ip route add default dev lo",
            "unshare -n true",
            "nsenter -t 1 -n true && false",
        ):
            assert "0" not in said(sandbox, "/bin/bash", "-c", f"{{ {attempt}; }} >/dev/null 2>&1; echo $?").split(), attempt  # fmt: skip
        said(sandbox, "/bin/bash", "-c", "rm -f /bench/program; echo 'exec sleep 300' > /bench/program")
        assert _ask(sandbox, "http://good.example/").startswith("200 ")
        assert _ask(sandbox, "http://evil.example/").startswith("403 ")
        sandbox._restart(runs=True)
        assert _ask(sandbox, "http://good.example/").startswith("200 ")
        assert _ask(sandbox, "http://evil.example/").startswith("403 ")
        assert asked == ["good.example"] * 2


def test_a_socket_that_the_agent_hands_over_is_served_by_nobody(
    provider: DockerProvider, asked: list[str]
) -> None:
    forged = door_command(4999, "/bench/proxy.sock")
    with _sandbox(provider, "good.example") as sandbox:
        result = sandbox.exec(forged, timeout=20, sink=lambda data: None)
        assert result.exit_status == 0
        assert "hello" not in said(sandbox, "/bin/bash", "-c", _ASK_FORGED)
        sandbox.exec(forged, timeout=20, sink=lambda data: None)
        sandbox._restart(runs=True)  # what was handed over before is not taken for that of the next start
        assert _ask(sandbox, "http://good.example/").startswith("200 ")
        assert asked == ["good.example"]


def test_the_network_can_change_while_it_runs(provider: DockerProvider, asked: list[str], site: int) -> None:
    with _sandbox(provider, network="none") as sandbox:
        assert said(sandbox, "printenv", "http_proxy") == ""
        sandbox.set_network("allowlist", ["good.example"])
        assert _ask(sandbox, "http://good.example/").startswith("200 ")
        sandbox.set_network("allowlist", ["other.example"])
        assert _ask(sandbox, "http://good.example/").startswith("403 ")
        assert _ask(sandbox, "http://other.example/").startswith("200 ")
        sandbox.set_network("public")
        assert "eth0" in said(sandbox, "ls", "/sys/class/net")
        assert said(sandbox, "printenv", "http_proxy") == ""
        sandbox.set_network("allowlist", ["good.example"])
        assert said(sandbox, "ls", "/sys/class/net") == "lo\n"
        assert _ask(sandbox, "http://good.example/").startswith("200 ")
        sandbox.end_processes()
        assert _ask(sandbox, "http://good.example/").startswith("200 ")
        sandbox.set_network("none")
        assert said(sandbox, "/bin/bash", "-c", f"http_proxy=http://127.0.0.1:4181; set -- http://good.example/; {_ASK}").startswith("HTTP/1.1 403 ")  # fmt: skip


def test_each_container_has_its_own_list(provider: DockerProvider, asked: list[str]) -> None:
    with _sandbox(provider, "one.example") as one, _sandbox(provider, "two.example") as two:
        for sandbox, mine, other in ((one, "one", "two"), (two, "two", "one")):
            assert _ask(sandbox, f"http://{mine}.example/").startswith("200 ")
            assert _ask(sandbox, f"http://{other}.example/").startswith("403 ")


# Trials

_CONFTEST = """
import ipaddress
from pytest_benchjobs.sandbox import proxy

async def resolve(name, port):
    return [ipaddress.ip_address("MACHINE")]

proxy.resolve = resolve
"""


@pytest.fixture
def machine() -> str:
    """An address of this machine, which a list may name."""
    return machine_on("bridge")


def _listed(path: Path, *arguments: str, **scenario: object) -> tuple[dict[str, Any], str]:
    """Run a scenario whose network is limited; returns its result, and what pytest said."""
    keys = {
        "id": "one", "problem_statement": "Ask.", "image": IMAGE, "workdir": "/app", "network": "allowlist", **scenario
    }  # fmt: skip
    (path / "listed.bench.yaml").write_text(json.dumps({"benchmark": "listed", "scenarios": [keys]}))
    done = run(path, "listed.bench.yaml", *arguments)
    (result,) = results(path)
    return result, done.stdout


def _script(url: str) -> str:
    return f"set -- {url}; {_ASK}"


def _log(path: Path, result: dict[str, Any]) -> str:
    return (path / "reports/jobs" / result["job"] / result["path"] / "agent.log").read_text()


def test_a_native_scenario_has_a_list_for_each_phase(tmp_path: Path, site: int, machine: str) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST.replace("MACHINE", machine))
    agent = "\n".join(
        f"( {_script(f'http://{name}.example:{site}/')} ) | tail -n 1 > {name}.txt"
        for name in ("agent", "scorer", "setup")
    )
    scorer = f"""
grep -q 'hello from agent' agent.txt && grep -q 'not among the allowed hosts' scorer.txt || exit 1
( {_script(f"http://agent.example:{site}/")} ) | grep -q 'not among' || exit 1
( {_script(f"http://scorer.example:{site}/")} ) | grep -q 'hello from scorer' && echo 1
"""
    listed = {"network": "allowlist", "allowed_hosts": ["scorer.example", machine]}
    result, output = _listed(
        tmp_path,
        reference=agent,
        workdir="/app",
        allowed_hosts=["setup.example", machine],
        agent_allowed_hosts=["agent.example", machine],
        setup=[f"( {_script(f'http://setup.example:{site}/')} ) | grep hello"],
        scorers=[{"name": "asks", "type": "bash", "script": scorer, **listed}],
    )
    assert result["outcome"] == "passed", output
    refused = (
        f"the network refused scorer.example:{site}: not among the allowed hosts: agent.example, {machine}"
    )
    assert f"agent: {refused}" in result["notes"]
    assert f"benchjobs: {refused}" in _log(tmp_path, result)
    assert any(
        note.startswith(f"scorer asks: the network refused agent.example:{site}") for note in result["notes"]
    )


def test_a_harbor_task_has_a_list_for_each_phase(tmp_path: Path, site: int, machine: str) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST.replace("MACHINE", machine))
    task = tmp_path / "tasks" / "listed"
    for name in ("environment", "tests", "solution"):
        (task / name).mkdir(parents=True)
    (task / "instruction.md").write_text("Ask.\n")
    (task / "task.toml").write_text(
        f"""
schema_version = "1.4"
[environment]
docker_image = "{IMAGE}"
workdir = "/tmp"
network_mode = "no-network"
[agent]
network_mode = "allowlist"
allowed_hosts = ["agent.example", "{machine}"]
[verifier]
network_mode = "allowlist"
allowed_hosts = ["*.verifier.example", "{machine}"]
"""
    )
    (task / "solution" / "solve.sh").write_text(
        f"#!/bin/bash\n( {_script(f'http://agent.example:{site}/')} ) > /tmp/agent.txt\n"
        f"( {_script(f'http://x.verifier.example:{site}/')} ) > /tmp/other.txt\n"
    )
    (task / "tests" / "test.sh").write_text(
        f"""#!/bin/bash
grep -q 'hello from agent' /tmp/agent.txt && grep -q '403 Forbidden' /tmp/other.txt || exit 1
( {_script(f"http://agent.example:{site}/")} ) | grep -q '403 Forbidden' || exit 1
( {_script(f"http://x.verifier.example:{site}/")} ) | grep -q 'hello from' && echo 1 > /logs/verifier/reward.txt
"""
    )
    done = run(tmp_path, "tasks/listed")
    (result,) = results(tmp_path)
    assert result["outcome"] == "passed", done.stdout
    assert any(note.startswith("agent: the network refused x.verifier.example") for note in result["notes"])


def test_a_set_up_step_that_was_refused_tells_why(tmp_path: Path, site: int, machine: str) -> None:
    setup = [f"{_script(f'http://{machine}:{site}/')}\nexit 7"]
    scorers = [{"type": "bash", "script": "echo 1"}]
    result, _ = _listed(
        tmp_path, "--bench-agent=nop", allowed_hosts=["pypi.example"], setup=setup, scorers=scorers
    )
    assert (result["outcome"], result["failure"]["class"]) == ("error", "environment")
    assert f"the network refused {machine}:{site}: an address of this machine" in result["failure"]["message"]
