"""Rules of routing, made by the program that makes them, in a network of their own."""

from __future__ import annotations

import errno
import platform
import shlex
import socket
import struct
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from pytest_benchjobs.sandbox.docker import rules
from pytest_benchjobs.sandbox.docker.rules import hold, refused, rules_command, rules_here, rules_of
from pytest_benchjobs.sandbox.program import program_file

RULES = rules_of("br-0123456789ab", "198.19.0.0/20")
_ALONE = ["unshare", "--map-root-user", "--net"]
_LOOK = "from pytest_benchjobs.sandbox.docker.rules import *; print(hold({rules!r}, rules_here()))"

needs_namespaces = pytest.mark.skipif(
    subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode != 0,
    reason="needs user namespaces",
)


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = program_file(platform.machine())
    assert file is not None
    path = tmp_path / "program"
    path.write_bytes(file.content or b"")
    path.chmod(0o755)
    return str(path)


@needs_namespaces
def test_rules_are_made_once_seen_and_removed(program: str) -> None:
    make, remove = (shlex.join([program, *rules_command(RULES, remove=gone)[1:]]) for gone in (False, True))
    look = [sys.executable, "-c", _LOOK.format(rules=RULES)]
    script = f'"$@"; {make}; {make}; "$@"; {remove}; {remove}; "$@"'
    done = subprocess.run([*_ALONE, "sh", "-c", script, "sh", *look], capture_output=True, check=True)
    size = 20 * len(RULES)
    before, rest = done.stdout.split(b"\n", 1)
    made, again, rest = rest[:size], rest[size : 2 * size], rest[2 * size :]
    during, rest = rest.split(b"\n", 1)
    removed, missing, after = rest[:size], rest[size : 2 * size], rest[2 * size :]
    assert (before, during, after) == (b"False", b"True", b"False\n"), done.stderr
    assert refused(made, RULES) is refused(again, RULES) is None
    assert refused(again, RULES, accepted=0) == "File exists"
    assert (
        refused(removed, RULES, accepted=errno.ENOENT)
        is refused(missing, RULES, accepted=errno.ENOENT)
        is None
    )
    assert refused(missing, RULES) == "No such file or directory"


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_without_the_right_to_it_is_told(program: str, tmp_path: Path) -> None:
    make = [program, *rules_command(RULES)[1:]]
    drop = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-all", "--ambient-caps=-all", "--reuid=65534"]
    tmp_path.chmod(0o755)
    command = [*drop, "--clear-groups", *make] if _is_root() else make
    done = subprocess.run(command, capture_output=True, check=False, cwd="/")
    if b"Permission denied" in done.stderr:
        pytest.skip("the temporary directory is root's alone")
    assert refused(done.stdout, RULES) == "Operation not permitted"


def _is_root() -> bool:
    return subprocess.run(["id", "-u"], capture_output=True, check=True).stdout.strip() == b"0"


@pytest.mark.parametrize("printed", [b"", b"bench: no rules can be made: errno 093 of socket\n", bytes(19)])
def test_a_program_that_did_not_get_far_is_told(printed: bytes) -> None:
    assert refused(printed, RULES)


def test_no_rule_is_about_another_network() -> None:
    for rule in RULES:
        assert rule.interface == "br-0123456789ab" or rule.network == "198.19.0.0/20"


@pytest.mark.parametrize(
    ("fails", "error"),
    [
        ("socket", OSError(errno.EPERM, "no")),
        ("socket", AttributeError("AF_NETLINK")),  # another system has none
        ("settimeout", OSError(errno.EBADF, "no")),
        ("send", OSError(errno.EPERM, "no")),
        ("recv", TimeoutError("timed out")),
    ],
)
def test_where_rules_cannot_be_seen_it_is_not_known_whether_they_hold(
    monkeypatch: pytest.MonkeyPatch, fails: str, error: Exception
) -> None:
    kernel = mock.MagicMock()
    kernel.__enter__.return_value = kernel
    made = mock.Mock(return_value=kernel)
    getattr(kernel, fails).side_effect = error
    if fails == "socket":
        made.side_effect = error
    monkeypatch.setattr(rules.socket, "socket", made)
    assert rules_here() is None


def test_what_the_kernel_lists_is_read_up_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(place: int | None, *attributes: tuple[int, bytes]) -> bytes:
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)
        if place is not None:
            attributes = ((rules._PREFERENCE, struct.pack("=I", place)), *attributes)
        for kind, value in attributes:
            body += struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
        return rules._HEAD.pack(rules._HEAD.size + len(body), rules._NEW, 0, 0, 0) + body

    first = rules._PRIORITY
    to = (rules._DESTINATION, socket.inet_aton("10.0.0.0"))
    by = (rules._INTERFACE, b"br-0\0")
    end = rules._HEAD.pack(rules._HEAD.size, 3, 0, 0, 0)
    kernel = mock.MagicMock()
    kernel.__enter__.return_value = kernel
    kernel.recv.side_effect = [
        listed(first, by),
        listed(first + 1, to) + listed(first + 9, by, to),
        listed(None) + end,
    ]
    monkeypatch.setattr(rules.socket, "socket", mock.Mock(return_value=kernel))
    assert rules_here() == {(0, "br-0 "), (1, " 10.0.0.0"), (9, "br-0 10.0.0.0"), (-first, " ")}


def test_one_missing_rule_is_seen() -> None:
    here = {(rule.place, f"{rule.interface} {rule.network.partition('/')[0]}") for rule in RULES}
    assert hold(RULES, here)
    assert not any(hold(RULES, here - {one}) for one in here)
    assert not hold(RULES, None)
    assert not hold(rules_of("br-another", "198.19.0.0/20"), here)
    assert struct.calcsize("=BBBBBBBBI") == 12


def test_each_rule_has_its_place_so_that_what_is_allowed_comes_before_what_is_not() -> None:
    assert [rule.place for rule in RULES] == list(range(8))
