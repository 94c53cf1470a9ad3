"""The door hands its socket over and becomes the agent, on every machine there is a door for."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import AgentSetupFailed
from pytest_benchjobs.sandbox.assembly import MACHINES as ASSEMBLIES
from pytest_benchjobs.sandbox.assembly import Complaint, Register, _Arm
from pytest_benchjobs.sandbox.door import (
    DOOR,
    DOOR_FAILED,
    NOT_RUN,
    SOCKET,
    door_file,
    door_program,
    through_door,
)

MACHINES = ("x86_64", "aarch64")
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
        self.program = directory / "door"
        self.machine = machine
        self.gateway = socket.socket(socket.AF_UNIX)
        self.gateway.settimeout(20)
        self.write()

    def write(self, port: int = 0) -> None:
        self.program.write_bytes(door_program(self.machine, port=port, path=str(self.socket)))
        self.program.chmod(0o755)

    def listen(self) -> None:
        self.gateway.bind(str(self.socket))
        self.gateway.listen(5)

    def start(self, *argv: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*_emulator(self.machine), str(self.program), *argv],
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


def test_the_agent_begins_whether_or_not_the_gateway_has_looked(door: Door) -> None:
    door.listen()
    assert door.run("/bin/echo", "done") == (0, "done\n", "")
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
        f"bench: the gateway cannot be reached: errno {number:03} of connect \n",
    )


def test_a_port_that_is_taken_is_told(door: Door) -> None:
    door.listen()
    with socket.create_server(("127.0.0.1", 0)) as other:
        door.write(other.getsockname()[1])
        status, out, err = door.run("/bin/echo", "never")
    assert (status, out) == (DOOR_FAILED, "")
    assert err.split() == f"bench: the gateway cannot be reached: errno {errno.EADDRINUSE:03} of bind".split()


def test_a_port_is_taken_again_though_connections_of_the_turn_before_have_not_timed_out(door: Door) -> None:
    door.listen()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    door.write(port)
    for _ in range(2):
        assert door.run("/bin/echo", "done") == (0, "done\n", "")
        listener, _ = door.take()
        with listener, socket.create_connection(("127.0.0.1", port)) as client:
            listener.accept()[0].close()  # whoever closes first is the one that waits
            assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("argv", "number"), [(["/no/such"], errno.ENOENT), (["/"], errno.EACCES), ([], errno.EFAULT)]
)
def test_a_program_that_cannot_be_run_is_told(door: Door, argv: list[str], number: int) -> None:
    door.listen()
    status, out, err = door.run(*argv)
    assert (status, out) == (NOT_RUN, "")
    assert err.split() == f"bench: the agent's program cannot be run: errno {number:03} of execve".split()


@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_is_small_and_always_the_same_and_no_page_of_it_is_both_written_and_run(
    machine: str,
) -> None:
    program = door_program(machine)
    assert program == door_program(machine)
    assert len(program) < 2048
    offset, count = struct.unpack_from("<Q", program, 32)[0], struct.unpack_from("<H", program, 56)[0]
    flags = [struct.unpack_from("<I", program, offset + 56 * number + 4)[0] for number in range(count)]
    assert flags == [4 | 1, 4 | 2, 4 | 2]


def test_there_is_no_door_for_other_machines() -> None:
    with pytest.raises(AgentSetupFailed, match=r"x86_64 and aarch64.*s390x"):
        door_file("s390x")


def test_the_door_is_a_program_of_the_sandbox() -> None:
    file = door_file("x86_64")
    assert (file.path, file.mode) == (DOOR, 0o755)
    assert file.content == door_program("x86_64")
    assert SOCKET.encode() + b"\0" in file.content


def test_programs_without_a_path_are_left_to_the_shell(door: Door) -> None:
    assert through_door(["/opt/agent", "-p", "x y"]) == ("/bench/door", "/opt/agent", "-p", "x y")
    door.listen()
    _, *behind = through_door(["printf", "[%s]", "a b", "$HOME", "'"])
    assert door.run(*behind, PATH=os.defpath) == (0, "[a b][$HOME][']", "")


@pytest.mark.parametrize("machine", MACHINES)
def test_what_programs_decide_by_is_decided(tmp_path: Path, machine: str) -> None:
    made = ASSEMBLIES[machine]()
    one, same, other = (made.data(content) for content in (bytes(8), bytes(8), bytes(7) + b"\1"))
    turns, goal = made.data(b"1"), made.data(b"1")
    text, pid = made.data(b"0" * 8), made.data(bytes(8))

    def mark(digit: int, jump: int, *, taken: bool) -> None:
        """Make a digit 1 if the jump was (or was not) taken."""
        over = None if not taken else made.jump()
        if over is not None:
            made.land(jump)
        made.toggle(text + digit)
        made.land(jump if over is None else over)

    mark(0, made.jump_if_different(one, other), taken=True)
    mark(1, made.jump_if_different(one, same), taken=False)
    made.attempt("close", 999)
    mark(2, made.jump_if_failed(), taken=True)
    made.attempt("close", 999)
    mark(3, made.jump_if_error(errno.EBADF), taken=True)
    made.attempt("close", 999)
    mark(4, made.jump_if_error(errno.EAGAIN), taken=False)
    made.call("getpid", keep=Register.SECOND)
    mark(5, made.jump_if_failed(), taken=False)
    again = made.here()
    made.toggle(text + 6)
    made.toggle(turns)
    made.land(made.jump_if_different(turns, goal), again)  # twice: 0 becomes 1, and 0
    made.attempt("getpid")
    made.store(None, pid)
    made.store(Register.SECOND, pid + 4)
    made.attempt("write", 1, text, 8)
    made.attempt("write", 1, pid, 8)
    made.exit(3)
    made.on_failure()
    made.exit(4)
    program = tmp_path / "program"
    program.write_bytes(made.program())
    program.chmod(0o755)
    with subprocess.Popen([*_emulator(machine), program], stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out[:8]) == (3, b"11111100")
    assert struct.unpack("<II", out[8:]) == (process.pid, process.pid)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16])
def test_data_is_at_addresses_that_8_divides_and_comes_before_code(machine: str, size: int) -> None:
    made = ASSEMBLIES[machine]()
    first, second = made.data(bytes(size)), made.data(b"x")
    assert (first % 8, second % 8) == (0, 0)
    assert 0 <= second - first - size < 8
    made.exit(0)
    with pytest.raises(ValueError, match="data comes before code"):
        made.data(b"x")


ARM: dict[str, tuple[Callable[[_Arm, int], object], str]] = {
    # mov x12, address; movk x12, 96, lsl 16; ldr x10, [x12]; the same to x11; cmp x10, x11; b.ne 0x2c
    "different": (
        lambda arm, at: arm.land(arm.jump_if_different(at, at + 8), 0x2C),
        "d2801d0c f2a00c0c f940018a d2801e0c f2a00c0c f940018b eb0b015f 54000081",
    ),
    "error": (lambda arm, _: arm.land(arm.jump_if_error(11), 0), "b1002c1f 54ffffe0"),  # cmn x0, 11; b.eq 0
    "failed": (lambda arm, _: arm.land(arm.jump_if_failed(), 8), "b7f80040"),  # tbnz x0, 63, 8
    "jump": (
        lambda arm, _: (arm.exit(0), arm.land(arm.jump(), 0)),
        "d2800000 d2800bc8 d4000001 17fffffd",
    ),  # b 0
    "jump ahead": (lambda arm, _: arm.land(arm.jump(), 8), "14000002"),  # b 8
    # ldrb w10, [x12]; eor w10, w10, 1; strb w10, [x12]
    "toggle": (lambda arm, at: arm.toggle(at), "d2801d0c f2a00c0c 3940018a 5200014a 3900018a"),
    "store": (lambda arm, at: arm.store(Register.SECOND, at), "d2801d0c f2a00c0c b9000194"),  # str w20, [x12]
    # x21: the name; mov x8, 172; svc 0; tbnz x0, 63, 0; mov x19, x0
    "call": (
        lambda arm, _: arm.call("getpid", keep=Register.FIRST),
        "d28cacf5 f2ae0e95 f2cc8d35 f2e40415 d2801588 d4000001 b7f80000 aa0003f3",
    ),
    # mov x0, x19; mov x1, 9; mov x8, 129; svc 0
    "attempt": (lambda arm, _: arm.attempt("kill", Register.FIRST, 9), "aa1303e0 d2800121 d2801028 d4000001"),
    # x21: the name; ldr x0, [sp, 16]; add x1, sp, 16; ldr x2, [sp]; add x2, sp, x2, lsl 3; add x2, x2, 16; execve
    "arguments": (
        lambda arm, _: arm.become_arguments(),
        "d28f0cb5 f2ac6cb5 f2ccaed5 f2e40415 f9400be0 910043e1 f94003e2 8b226fe2 91004042 d2801ba8 d4000001",
    ),
    # neg x10, x0; mov x9, 10; for each digit, the last first: udiv x11, x10, x9; msub x10, x11, x9, x10;
    # add x10, x10, '0'; x12: its place; strb w10, [x12]; mov x10, x11. Then str x21, [name]; write(2, text, 25); exit(5)
    "complaint": (
        lambda arm, at: arm.give_up(Complaint(at, 25, at + 9, at + 16), 5),
        (
            "cb0003ea d2800149 9ac9094b 9b09a96a 9100c14a d2801e6c f2a00c0c 3900018a "
            "aa0b03ea 9ac9094b 9b09a96a 9100c14a d2801e4c f2a00c0c 3900018a "
            "aa0b03ea 9ac9094b 9b09a96a 9100c14a d2801e2c f2a00c0c 3900018a "
            "aa0b03ea d2801f0c f2a00c0c f9000195 "
            "d2800040 d2801d01 f2a00c01 d2800322 d2800808 d4000001 d28000a0 d2800bc8 d4000001"
        ),
    ),
}


@pytest.mark.parametrize("operation", ARM)
def test_the_instructions_of_the_machine_that_this_is_not(operation: str) -> None:
    """They are as `aarch64-linux-gnu-objdump` reads them: without an emulator nothing else here would tell."""
    emit, code = ARM[operation]
    arm = _Arm()
    at = arm.data(bytes(16))
    emit(arm, at)
    instructions = len(code.split())
    assert arm.program()[-4 * instructions :] == b"".join(
        int(word, 16).to_bytes(4, "little") for word in code.split()
    )
    assert arm.here() == 4 * instructions
