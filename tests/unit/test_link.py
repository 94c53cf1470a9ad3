"""The link with the first process of a Pod: our program in namespaces of its own, and connections that are cut."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import ContainerLost, EngineLost
from pytest_benchjobs.sandbox.kubernetes import link
from pytest_benchjobs.sandbox.kubernetes.link import KilledInside, Link, StreamEnded
from pytest_benchjobs.sandbox.kubernetes.server import PodServer
from pytest_benchjobs.sandbox.program import program_file
from pytest_benchjobs.sandbox.protocol import ExecResult, Stopping

_ALONE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--pid",
    "--mount",
    "--mount-proc",
    "--fork",
    "--kill-child",
)


class _Attached:
    """One `attach` beside the first process."""

    def __init__(self, pid: int, program: Path) -> None:
        self._process = subprocess.Popen(
            [
                "nsenter",
                "--target",
                str(pid),
                "--user",
                "--preserve-credentials",
                "--net",
                "--pid",
                "--mount",
                program,
                "attach",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def send(self, data: bytes) -> None:
        try:
            while data:
                data = data[self._in.write(data) or 0 :]
        except (OSError, ValueError) as error:
            raise StreamEnded("cut") from error

    def receive(self, timeout: float) -> bytes:
        try:
            if not select.select([self._out], [], [], timeout)[0]:
                return b""
            data = self._out.read(1 << 16)
        except (OSError, ValueError) as error:
            raise StreamEnded("cut") from error
        if not data:
            raise StreamEnded("ended", killed=self._process.wait() == -signal.SIGKILL)
        return data

    def kill(self) -> None:
        """Kill it, as root in the Pod can."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.001)
        os.kill(int(found[0]), signal.SIGKILL)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._in.close()
        self._out.close()


class _Pod:
    """A first process, and connections with it."""

    def __init__(self, directory: Path) -> None:
        file = program_file(platform.machine())
        assert file is not None
        assert file.content is not None
        self.program = directory / "program"
        self.program.write_bytes(file.content)
        self.program.chmod(0o755)
        self._process = subprocess.Popen([*_ALONE, self.program, "serve", "pod", "600"])
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.01)
        self.pid = int(found[0])
        self.connections: list[_Attached] = []
        self.gone = self.away = self.kills = False
        self.unknown = 0
        """How many more times it is called gone when it is connected with."""
        self.link = Link(self._connect, self._check)
        self.server = PodServer(self.link)

    def _connect(self) -> _Attached:
        if self.away:
            raise EngineLost("the cluster does not answer")
        if self.unknown:
            self.unknown -= 1
            raise ContainerLost("pod does not exist")
        self.connections.append(_Attached(self.pid, self.program))
        if self.kills:
            self.connections[-1].kill()
        return self.connections[-1]

    def _check(self) -> None:
        if self.gone:
            raise ContainerLost("the Pod is gone")

    def run(
        self, *argv: str, sink: Callable[[bytes], object] = lambda _: None, timeout: float = 60.0
    ) -> ExecResult:
        return self.server.execute(
            ("", "", ".", "PATH=/usr/bin:/bin", "", *argv),
            timeout=timeout,
            sink=sink,
            stdout=None,
            silent=None,
            stopping=None,
            stdin=None,
            check=lambda: None,
        )

    def output(self, *argv: str) -> bytes:
        output = bytearray()
        result = self.run(*argv, sink=output.extend)
        assert result.exit_status == 0
        return bytes(output)

    def close(self) -> None:
        self.server.close()
        self._process.kill()
        self._process.wait()
        for one in self.connections:
            one.close()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[_Pod]:
    if subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare cannot make namespaces here")
    made = _Pod(tmp_path)
    yield made
    made.close()


@contextlib.contextmanager
def _cut_now_and_then(pod: _Pod, seed: int) -> Iterator[None]:
    over, chance = threading.Event(), random.Random(seed)

    def cut() -> None:
        while not over.wait(chance.uniform(0.005, 0.06)):
            pod.connections[-1].close()

    cutting = threading.Thread(target=cut)
    cutting.start()
    yield
    over.set()
    cutting.join()


def test_the_first_process_ends_when_its_time_is_up(pod: _Pod) -> None:
    brief = subprocess.Popen([*_ALONE, pod.program, "serve", "pod", "1"])
    assert brief.wait(30) == 0


def test_commands_run_and_say_how_they_ended(pod: _Pod) -> None:
    assert pod.output("echo", "here") == b"here\n"
    assert pod.run("sh", "-c", "exit 7").exit_status == 7
    assert pod.run("sh", "-c", "kill -9 $$").exit_status == 137
    late = pod.run("sleep", "60", timeout=0.2)
    assert (late.timed_out, late.exit_status) == (True, None)


def test_what_cannot_be_started_says_so(pod: _Pod) -> None:
    missing, refused = pod.run("no-such-program"), pod.run("/etc/passwd")
    assert (missing.started, missing.exit_status) == (False, 127)
    assert (refused.started, refused.exit_status) == (False, 126)
    as_missing = pod.run("sh", "-c", "exit 127")
    assert (as_missing.started, as_missing.exit_status) == (True, 127)


def test_a_command_may_have_a_megabyte_of_words(pod: _Pod) -> None:
    words = [str(number) * 1000 for number in range(100, 400)]
    assert pod.output("sh", "-c", 'printf %s "$*" | wc -c', "sh", *words).strip() == b"%d" % (
        len(" ".join(words))
    )


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_doubled_where_connections_are_cut(pod: _Pod, seed: int) -> None:
    pod.server.await_hello()
    with _cut_now_and_then(pod, seed):
        for count in (30_000, 400_000):
            assert pod.output("seq", str(count)) == b"".join(
                b"%d\n" % number for number in range(1, count + 1)
            )
        content = random.Random(seed).randbytes(3 << 20)
        pieces = [content[at : at + 50_000] for at in range(0, len(content), 50_000)]
        came = bytearray()
        status = pod.server.run(["/bin/cat"], stdout=came.extend, stderr=lambda _: None, stdin=pieces)
    assert (status, bytes(came) == content) == (0, True)


def test_an_end_without_a_connection_is_heard_later(pod: _Pod) -> None:
    printed = bytearray()
    thread = threading.Thread(
        target=lambda: pod.run("sh", "-c", "sleep 0.5; echo late; exit 3", sink=printed.extend)
    )
    thread.start()
    time.sleep(0.2)
    pod.connections[-1].close()
    thread.join()
    assert printed == b"late\n"


def test_an_outage_is_not_the_commands_time(pod: _Pod) -> None:
    results: list[ExecResult] = []
    thread = threading.Thread(
        target=lambda: results.append(pod.run("sh", "-c", "sleep 1; exit 3", timeout=3))
    )
    thread.start()
    time.sleep(0.3)
    pod.away = True
    pod.connections[-1].close()
    time.sleep(4)
    pod.away = False
    thread.join()
    assert (results[0].exit_status, results[0].timed_out) == (3, False)


def test_a_command_that_prints_faster_than_it_is_heard_can_be_asked_to_end(pod: _Pod) -> None:
    pids = bytearray()

    def signal(name: str) -> None:
        argv = (str(pod.program), "signal", name, pids.split()[0].decode())
        pod.server.run(argv, stdout=lambda _: None, stderr=lambda _: None)

    def slowly(data: bytes) -> None:
        pids.extend(data[:20] if not pids else b"")
        time.sleep(0.003)

    result = pod.server.execute(
        ("", "", ".", "PATH=/usr/bin:/bin", "", "sh", "-c", "echo $$; exec yes"),
        timeout=1,
        sink=slowly,
        stdout=None,
        silent=None,
        stopping=Stopping(lambda: False, signal),
        stdin=None,
        check=lambda: None,
    )
    assert (result.timed_out, result.exit_status) == (True, 130)


def test_whoever_connects_from_inside_and_says_nothing_keeps_nobody_out(pod: _Pod) -> None:
    stranger = (
        "import socket, time; s = socket.socket(socket.AF_UNIX); s.connect('\\0bench-link'); time.sleep(60)"
    )
    pod.run("sh", "-c", f'"{sys.executable}" -c "{stranger}" & sleep 1')
    pod.connections[-1].close()
    assert pod.output("echo", "in") == b"in\n"


def test_everything_is_ended_but_the_first_process(pod: _Pod) -> None:
    results: list[ExecResult] = []
    thread = threading.Thread(target=lambda: results.append(pod.run("sh", "-c", "sleep 60; true")))
    pod.run("sh", "-c", "setsid sleep 61 & setsid setsid sleep 62 &")
    thread.start()
    while b"sleep 60" not in pod.output(str(pod.program), "processes"):
        time.sleep(0.05)
    pod.server.end_all(lambda: None)
    thread.join()
    assert results[0].exit_status == 137
    assert b"sleep" not in pod.output(str(pod.program), "processes")
    assert (pod.link.again, pod.link.lost) == ([], 0)


def test_whoever_does_not_say_the_secret_is_refused(pod: _Pod) -> None:
    assert pod.output("echo", "1") == b"1\n"
    stranger = _Attached(pod.pid, pod.program)
    stranger.send(bytes(24))
    with pytest.raises(StreamEnded, match="ended"):
        stranger.receive(30)
    stranger.close()
    assert pod.output("echo", "2") == b"2\n"
    assert len(pod.connections) == 1


def test_a_pod_that_is_gone_ends_what_waits(pod: _Pod) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            pod.run("sleep", "60")
        except ContainerLost as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    pod.gone = True
    os.kill(pod.pid, 9)
    thread.join(30)
    assert [str(one) for one in failed] == ["the Pod is gone"]


def test_a_pod_that_is_called_gone_for_a_moment_goes_on(pod: _Pod) -> None:
    assert pod.output("echo", "1") == b"1\n"
    pod.unknown = 3
    pod.connections[-1].close()
    assert pod.output("echo", "2") == b"2\n"
    assert pod.unknown == 0
    assert len(pod.server.again) == 1


def test_a_pod_that_is_called_gone_for_long_is_lost(pod: _Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_UNKNOWN", 1.5)
    assert pod.output("echo", "1") == b"1\n"
    pod.unknown = 10**6
    pod.connections[-1].close()
    with pytest.raises(ContainerLost, match="pod does not exist"):
        pod.run("sleep", "60")
    assert pod.unknown < 10**6 - 2


def test_a_pod_that_kills_what_connects_with_it_is_no_fault_of_the_cluster(
    pod: _Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_OUTAGE", 1.5)
    assert pod.output("echo", "1") == b"1\n"
    pod.kills = True
    pod.connections[-1].kill()
    with pytest.raises(KilledInside, match="could not be reached"):
        pod.run("sleep", "60")
    assert len(pod.connections) > 2


def test_a_pod_gains_no_time_where_it_kills_what_connects_with_it(pod: _Pod) -> None:
    for number in range(5):
        assert pod.output("echo", str(number)) == b"%d\n" % number
        pod.connections[-1].kill()
    assert pod.output("echo", "in") == b"in\n"
    assert pod.link.lost == 0


def test_a_pod_that_cannot_be_reached_is_the_clusters_fault(
    pod: _Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_OUTAGE", 1.5)
    assert pod.output("echo", "1") == b"1\n"
    pod.away = True
    pod.connections[-1].kill()
    with pytest.raises(EngineLost, match="could not be reached"):
        pod.run("sleep", "60")
