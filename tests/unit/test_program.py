"""The program inside sandboxes: how it is had, and what its door does, on every machine there is one for."""

from __future__ import annotations

import errno
import json
import os
import platform
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import AgentSetupFailed, EnvironmentFailed
from pytest_benchjobs.sandbox import program as module
from pytest_benchjobs.sandbox.door import DOOR_FAILED, behind_door, door_file, through_door
from pytest_benchjobs.sandbox.program import PROGRAM, compiling, program_file
from pytest_benchjobs.sandbox.program.compiling import MACHINES
from pytest_benchjobs.sandbox.runner import ERRORS, EXIT, KILL, OUTPUT, UNFED, Frames

from ..building import ROOT
from .carrying import program, run_program

NOT_RUN = 127
CALL = """
import sys, urllib.request
port = sys.stdin.readline().strip()
print(urllib.request.urlopen(f"http://127.0.0.1:{port}/hello", timeout=20).read().decode())
"""
LOOK = """
import fcntl, json, os, sys
def opened(descriptor):
    try:
        fcntl.fcntl(descriptor, fcntl.F_GETFD)
    except OSError:
        return False
    return True
descriptors = [descriptor for descriptor in range(64) if opened(descriptor)]
found = {name: os.environ.get(name) for name in "ABC"}
print(json.dumps({"argv": sys.argv[1:], "descriptors": descriptors, **found}))
sys.exit(7)
"""


class Door:
    """A door, and the gateway it leads to. It listens on any free port."""

    def __init__(self, directory: Path, machine: str) -> None:
        self.socket = directory / "gateway.sock"
        self.program = directory / "program"
        self.machine = machine
        self.gateway = socket.socket(socket.AF_UNIX)
        self.gateway.settimeout(20)
        self.port = 0
        file = program_file(machine)
        assert file is not None
        self.program.write_bytes(file.content or b"")
        self.program.chmod(0o755)

    def listen(self) -> None:
        self.gateway.bind(str(self.socket))
        self.gateway.listen(5)

    def start(self, *argv: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*_emulator(self.machine), self.program, "door", str(self.port), self.socket, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            text=True,
        )

    def run(self, *argv: str, **env: str) -> tuple[int, str, str]:
        process = self.start(*argv, **env)
        out, err = process.communicate(timeout=20)
        return process.returncode, out, err

    def take(self) -> tuple[socket.socket, int]:
        """What the gateway does."""
        connection, _ = self.gateway.accept()
        with connection:
            message, descriptors, _, _ = socket.recv_fds(connection, 16, 4)
            (descriptor,) = descriptors
            assert connection.recv(16) == b""
        assert len(message) == 4
        listener = socket.socket(fileno=descriptor)
        listener.settimeout(20)
        return listener, int.from_bytes(message, "little")


def _emulator(machine: str) -> list[str]:
    if machine == platform.machine():
        return []
    for name in (f"qemu-{machine}-static", f"qemu-{machine}"):
        if found := shutil.which(name):
            return [found]
    pytest.skip(f"this is no {machine}, and there is no qemu-user-static")


@pytest.fixture(params=MACHINES)
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    _emulator(request.param)
    door = Door(tmp_path, request.param)
    with door.gateway:
        yield door


def test_the_gateway_answers_on_the_loopback_of_the_agent(door: Door) -> None:
    door.listen()
    agent = door.start(sys.executable, "-c", CALL)
    listener, pid = door.take()
    with listener:
        assert pid == agent.pid
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        assert agent.stdin is not None
        agent.stdin.write(f"{port}\n")
        agent.stdin.flush()
        connection, _ = listener.accept()
    with connection:
        assert connection.recv(4096).startswith(b"GET /hello ")
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
    out, err = agent.communicate(timeout=20)
    assert (agent.returncode, out, err) == (0, "hi\n", "")


def test_the_agent_gets_its_arguments_and_variables_and_nothing_else(door: Door) -> None:
    door.listen()
    status, out, err = door.run(sys.executable, "-c", LOOK, "", "a b", "*", A="1 2", B="")
    assert (status, err) == (7, "")
    assert json.loads(out) == {
        "argv": ["", "a b", "*"],
        "A": "1 2",
        "B": "",
        "C": None,
        "descriptors": [0, 1, 2],
    }


@pytest.mark.parametrize(
    ("argv", "printed"), [(["/bin/echo", "done"], "done\n"), ([], "")], ids=["agent", "nothing"]
)
def test_the_socket_is_handed_over_and_the_agent_begins_whether_or_not_the_gateway_has_looked(
    door: Door, argv: list[str], printed: str
) -> None:
    door.listen()
    assert door.run(*argv) == (0, printed, "")
    listener, _ = door.take()
    listener.close()


@pytest.mark.parametrize("there", [True, False], ids=["closed", "missing"])
def test_without_a_gateway_there_is_no_agent(door: Door, there: bool) -> None:
    if there:
        door.listen()
        door.gateway.close()
    number = errno.ECONNREFUSED if there else errno.ENOENT
    assert door.run("/bin/echo", "never") == (
        DOOR_FAILED,
        "",
        f"bench: the gateway cannot be reached: errno {number:03} of connect\n",
    )


def test_a_port_that_is_taken_is_told(door: Door) -> None:
    door.listen()
    with socket.create_server(("127.0.0.1", 0)) as other:
        door.port = other.getsockname()[1]
        status, out, err = door.run("/bin/echo", "never")
    assert (status, out) == (DOOR_FAILED, "")
    assert err == f"bench: the gateway cannot be reached: errno {errno.EADDRINUSE:03} of bind\n"


def test_a_port_is_taken_again_though_connections_of_the_turn_before_have_not_timed_out(door: Door) -> None:
    door.listen()
    with socket.create_server(("127.0.0.1", 0)) as other:
        door.port = other.getsockname()[1]
    for _ in range(2):
        assert door.run("/bin/echo", "done") == (0, "done\n", "")
        listener, _ = door.take()
        with listener, socket.create_connection(("127.0.0.1", door.port)) as client:
            listener.accept()[0].close()  # whoever closes first is the one that waits
            assert client.recv(1) == b""


@pytest.mark.parametrize(("argv", "number"), [(["/no/such"], errno.ENOENT), (["/"], errno.EACCES)])
def test_a_program_that_cannot_be_run_is_told(door: Door, argv: list[str], number: int) -> None:
    door.listen()
    status, out, err = door.run(*argv)
    assert (status, out) == (NOT_RUN, "")
    assert err == f"bench: the agent's program cannot be run: errno {number:03} of execve\n"


@pytest.mark.parametrize("argv", [[], ["other"], ["door "]])
def test_it_is_nothing_else(door: Door, argv: list[str]) -> None:
    done = subprocess.run([*_emulator(door.machine), door.program, *argv], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_programs_without_a_path_are_left_to_the_shell(door: Door) -> None:
    argv = ["/opt/agent", "-p", "x y"]
    assert through_door(argv) == (PROGRAM, "door", "4180", "/bench/gateway.sock", *argv)
    assert behind_door(through_door(argv)) == tuple(argv)
    assert behind_door(argv) is None
    door.listen()
    behind = behind_door(through_door(["printf", "[%s]", "a b", "$HOME", "'"]))
    assert behind is not None
    assert door.run(*behind, PATH=os.defpath) == (0, "[a b][$HOME][']", "")


def test_a_command_has_all_its_variables_however_many_there_are() -> None:
    variables = [f"V{number}=" for number in range(6000)]
    words = ("", "", "/", *variables, "", "/usr/bin/env", "")
    request, printed, ended = "\0".join(words).encode(), bytearray(), threading.Event()

    def requests() -> Iterator[bytes]:
        yield struct.pack("<BxHI", UNFED, 1, len(request)) + request
        ended.wait(20)

    def take(kind: int, number: int, content: bytes) -> None:
        printed.extend(content if kind == OUTPUT else b"")
        if kind == EXIT:
            ended.set()

    frames = Frames(take)
    for piece in run_program(("serve", "open"), requests()):
        frames.feed(piece)
    assert {*variables} <= {*printed.decode().splitlines()}


def test_a_tree_of_any_depth_is_removed_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "bench-00000001").write_text("a name that is taken")
    (tmp_path / "gone" / "bench-00000002" / "full").mkdir(parents=True)
    (tmp_path / "stays").write_text("x")
    (tmp_path / "gone" / "link").symlink_to(tmp_path)
    here = os.open(tmp_path / "gone", os.O_RDONLY)
    for _ in range(6000):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.mkdir("d", dir_fd=here)
        above, here = here, os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(here)
    try:
        assert (
            list(run_program(("remove", str(tmp_path / "gone"), str(tmp_path / "never" / "there")), ())) == []
        )
        assert [path.name for path in tmp_path.iterdir()] == ["stays"]
    finally:
        # What a failure leaves is too deep for the cleaning of pytest.
        subprocess.run(["rm", "-rf", tmp_path / "gone"], check=True)


def frame(kind: int, number: int, *words: str) -> bytes:
    content = "".join(f"{word}\0" for word in words).encode()
    return struct.pack("<BxHI", kind, number, len(content)) + content


def _runs(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


@pytest.mark.parametrize("mode", [[], ["open"]], ids=["kept", "open"])
def test_what_prints_without_end_is_killed_however_slowly_it_is_read(mode: list[str]) -> None:
    found: dict[int, bytes] = {}
    frames = Frames(lambda kind, _, content: found.setdefault(kind, content))
    with subprocess.Popen(
        [program(), "serve", *mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as serve:
        assert serve.stdin is not None
        assert serve.stdout is not None
        serve.stdin.write(
            frame(UNFED, 1, "", "", "/", "", "/bin/sh", "-c", "echo $$; exec cat /dev/zero 2>&1")
        )
        while OUTPUT not in found:
            frames.feed(serve.stdout.read(64))
        serve.stdin.write(frame(KILL, 1))
        pid = found[OUTPUT].split(b"\n")[0].decode()
        until = time.monotonic() + 60
        while EXIT not in found and time.monotonic() < until:
            while _runs(pid):  # it has filled its pipe before more is read
                pass
            frames.feed(serve.stdout.read(1 << 16))
        serve.kill()
    assert found.get(EXIT) == bytes([128 + signal.SIGKILL])


def _may_fork(times: int) -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
    resource.setrlimit(resource.RLIMIT_NPROC, (1 + times, 1 + times))


@pytest.mark.parametrize("times", [0, 1])
def test_a_call_ends_where_there_may_be_no_more_processes(times: int) -> None:
    file = os.open(program(), os.O_RDONLY)
    found: dict[int, bytes] = {}
    frames = Frames(lambda kind, _, content: found.__setitem__(kind, content))
    with subprocess.Popen(
        [f"/proc/self/fd/{file}", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        pass_fds=[file], preexec_fn=lambda: _may_fork(times),
    ) as serve:  # fmt: skip
        os.close(file)
        assert serve.stdin is not None
        assert serve.stdout is not None
        serve.stdin.write(frame(UNFED, 1, "", "", "/", "", "/bin/true"))
        while EXIT not in found:
            frames.feed(serve.stdout.read(64))
        serve.kill()
    assert found[EXIT] == bytes([126])
    assert found.get(ERRORS, b"bench: no process can be started\n") == b"bench: no process can be started\n"


@pytest.mark.parametrize("machine", MACHINES)
def test_it_is_small_and_always_the_same_and_no_page_of_it_is_both_written_and_run(machine: str) -> None:
    program = compiling.compile_program(machine)
    file = program_file(machine)
    assert file is not None
    assert (file.path, file.mode, file.content) == (PROGRAM, 0o755, program)
    assert len(program) < 1 << 16
    offset, count = struct.unpack_from("<Q", program, 32)[0], struct.unpack_from("<H", program, 56)[0]
    flags = {struct.unpack_from("<I", program, offset + 56 * number + 4)[0] for number in range(count)}
    assert flags == {4, 4 | 1, 4 | 2}


def test_there_is_no_program_for_other_machines() -> None:
    assert program_file("s390x") is None
    message = "agents that need a model can run on x86_64 and aarch64, and the sandboxes' machine is s390x"
    with pytest.raises(AgentSetupFailed, match=message):
        door_file("s390x")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing was compiled before."""
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "_program", module._program.__wrapped__)
    return tmp_path / "program"


def test_in_a_checkout_it_is_compiled_once_and_then_there_is_no_need_for_a_compiler(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = program_file("x86_64")
    monkeypatch.setattr(compiling.importlib.util, "find_spec", lambda name: None)
    assert program_file("x86_64") == first
    assert [path.suffix for path in sorted(cache.iterdir())] == ["", ".lock"]
    message = f"pip install ziglang=={compiling.ZIG}, or install pytest-benchjobs from a wheel"
    with pytest.raises(EnvironmentFailed, match=message):
        program_file("aarch64")
    assert f'"ziglang=={compiling.ZIG}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_what_the_compiler_says_is_told(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.c").write_text("int main(void) { return nothing; }\n")
    monkeypatch.setattr(compiling, "_HERE", tmp_path)
    with pytest.raises(EnvironmentFailed, match=r"does not compile it for x86_64: .*broken\.c:1:25: error: "):
        program_file("x86_64")
    assert [path.name for path in cache.iterdir() if path.suffix != ".lock"] == []
