"""Rules of routing that close a bridge of the engine to what is not the internet, and the program that makes them.

They are of the engine's machine, so nothing in a container can get round them, and each is about one bridge or its
subnet alone. Our program makes them (`../program/rules.c`): it runs in any image.
"""

from __future__ import annotations

import dataclasses
import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence

from ...system.cutting import end_of
from ..program import PROGRAM

LINK_LOCAL = "169.254.0.0/16"
"""Addresses of the metadata service, with credentials of the machine, in most clouds."""
_AZURE, _ALIBABA = "168.63.129.16/32", "100.100.100.200/32"
"""Addresses of the metadata service in two others. The former also resolves names there."""
_PRIORITY = 4180
_TCP, _UDP, _DNS = 6, 17, 53
_MAIN = 254
_NEW, _DELETE, _DUMP = 32, 33, 34
_TO_TABLE, _BLACKHOLE, _PROHIBIT = 1, 6, 8
_REQUEST, _ACK, _EXCLUSIVE, _CREATE, _ALL = 1, 4, 0x200, 0x400, 0x300
_DESTINATION, _INTERFACE, _PREFERENCE, _PROTOCOL, _SOURCE_PORTS, _PORTS = 1, 3, 6, 22, 23, 24
_HEAD = struct.Struct("=IHHII")
_RULE = struct.Struct("=BBBBBBBBI")
_ANSWER = 20
"""Bytes of the answer to each rule that the program prints: a head, and an error number."""
_NETLINK_ROUTE = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One rule: for what comes from this interface (`lo`: the machine itself) and goes to this network."""

    place: int
    interface: str
    network: str
    action: int
    protocol: int | None = None
    from_port: int | None = None
    to_port: int | None = None

    def message(self, kind: int, number: int) -> bytes:
        """The request to the kernel."""
        network = ipaddress.IPv4Network(self.network)
        table = _MAIN if self.action == _TO_TABLE else 0
        body = _RULE.pack(socket.AF_INET, network.prefixlen, 0, 0, table, 0, 0, self.action, 0)
        body += _attribute(_DESTINATION, network.network_address.packed)
        body += _attribute(_INTERFACE, self.interface.encode() + b"\0")
        body += _attribute(_PREFERENCE, struct.pack("=I", _PRIORITY + self.place))
        if self.protocol is not None:
            body += _attribute(_PROTOCOL, bytes([self.protocol]))
        for name, port in ((_SOURCE_PORTS, self.from_port), (_PORTS, self.to_port)):
            if port is not None:
                body += _attribute(name, struct.pack("=HH", port, port))
        flags = _REQUEST | _ACK | (_EXCLUSIVE | _CREATE if kind == _NEW else 0)
        return _HEAD.pack(_HEAD.size + len(body), kind, flags, number, 0) + body


def rules_of(bridge: str, subnet: str) -> tuple[Rule, ...]:
    """Return the rules that close a bridge to where clouds tell secrets, and to the engine's machine but for its names.

    A service of the machine hears what is sent to it, but its answers go nowhere, so there is no connection.
    """
    return (
        Rule(0, bridge, LINK_LOCAL, _TO_TABLE, _UDP, to_port=_DNS),
        Rule(1, bridge, LINK_LOCAL, _PROHIBIT),
        Rule(2, "lo", subnet, _TO_TABLE, _UDP, from_port=_DNS),
        Rule(3, "lo", subnet, _BLACKHOLE, _TCP),
        Rule(4, "lo", subnet, _BLACKHOLE, _UDP),
        Rule(5, bridge, _AZURE, _TO_TABLE, _UDP, to_port=_DNS),
        Rule(6, bridge, _AZURE, _PROHIBIT),
        Rule(7, bridge, _ALIBABA, _PROHIBIT),
    )


def rules_command(rules: Iterable[Rule], *, remove: bool = False) -> list[str]:
    """The command that makes (or removes) rules, and prints what the kernel said to each: see `refused`."""
    kind = _DELETE if remove else _NEW
    return [PROGRAM, "rules", *(rule.message(kind, number).hex() for number, rule in enumerate(rules))]


def refused(printed: bytes, rules: Sequence[Rule], *, accepted: int = errno.EEXIST) -> str | None:
    """Return why not all rules hold, from what the program printed; None: all do."""
    if len(printed) != _ANSWER * len(rules):
        return end_of(printed, 200).decode("utf-8", "replace").strip() or "the kernel did not answer"
    for at in range(0, len(printed), _ANSWER):
        (number,) = struct.unpack_from("=i", printed, at + _HEAD.size)
        if -number not in (0, accepted):
            return os.strerror(-number)
    return None


def rules_here() -> set[tuple[int, str]] | None:
    """Priority and interface of every rule of ours in this process's network; None where that cannot be seen."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as kernel:
            kernel.settimeout(2)
            body = _RULE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)
            kernel.send(_HEAD.pack(_HEAD.size + len(body), _DUMP, _REQUEST | _ALL, 1, 0) + body)
            return set(_listed(kernel))
    except (OSError, AttributeError, struct.error):
        return None


def _listed(kernel: socket.socket) -> Iterator[tuple[int, str]]:
    while True:
        data = kernel.recv(1 << 16)
        while len(data) >= _HEAD.size:
            length, kind, *_ = _HEAD.unpack_from(data)
            if kind != _NEW:
                return
            found = dict(_attributes(data[_HEAD.size + _RULE.size : length]))
            (place,) = struct.unpack("=I", found.get(_PREFERENCE, bytes(4)))
            network = socket.inet_ntoa(found[_DESTINATION]) if _DESTINATION in found else ""
            interface = found.get(_INTERFACE, b"").rstrip(b"\0").decode()
            yield place - _PRIORITY, f"{interface} {network}"
            data = data[(length + 3) & ~3 :]


def hold(rules: Sequence[Rule], here: set[tuple[int, str]] | None) -> bool:
    """Return True if all these rules are among those that were seen."""
    return here is not None and all(
        (rule.place, f"{rule.interface} {rule.network.partition('/')[0]}") in here for rule in rules
    )


def _attribute(kind: int, content: bytes) -> bytes:
    size = 4 + len(content)
    return struct.pack("=HH", size, kind) + content + bytes(-size % 4)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        if size < 4:
            return
        yield kind, data[4:size]
        data = data[(size + 3) & ~3 :]
