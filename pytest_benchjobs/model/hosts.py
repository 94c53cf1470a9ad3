"""Hosts that a network `allowlist` permits: names, `*.suffix`, addresses and networks."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Iterable
from typing import Self

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_LONGEST = 253
_WILDCARD = "*."
_SHOWN = 10
# No address in these networks may be allowed, even where it is listed: the container itself, the machine, and the
# metadata services of clouds, which hand out credentials.
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "168.63.129.16/32",
            "100.100.100.200/32",
            "224.0.0.0/4",
            "240.0.0.0/4",
            "::/128",
            "::1/128",
            "fe80::/10",
            "fd00:ec2::254/128",
            "ff00::/8",
        ),
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")


def parsed_host(text: str) -> str | Subnet:
    """Return a name or `*.suffix` in its one form, or the network that an address or a network is.

    Raises:
        ValueError: it is none of these.
    """
    host = text.strip().removesuffix(".").lower()
    try:
        return ipaddress.ip_network(host, strict=False)
    except ValueError:
        pass
    wildcard = _WILDCARD if host.startswith(_WILDCARD) else ""
    name = ascii_name(host.removeprefix(wildcard))
    if name is None or looks_like_address(name):
        raise ValueError(
            f"{text!r} is not a host: write a name, *.suffix, an IP address or a network, not a URL"
        )
    return wildcard + name


def ascii_name(name: str) -> str | None:
    """Return the name of a host in lower case and ASCII; None if it is none."""
    name = name.removesuffix(".").lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return None
    return name if len(name) <= _LONGEST and _NAME.fullmatch(name) else None


def looks_like_address(name: str) -> bool:
    """Return True for what resolvers take for an address, though it is not written as one: `127.1`, `0x7f000001`."""
    last = name.rsplit(".", 1)[-1]
    return last.isdigit() or (
        last.startswith("0x") and all(digit in "0123456789abcdef" for digit in last[2:])
    )


def plain_address(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address leads to, as far as it is known; else the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and (address in _NAT64 or (address in _COMPATIBLE and int(address) > 1)):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address if inner is None else inner


@dataclasses.dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The hosts of an allowlist. Pure: it resolves no names."""

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    """With the point that they begin with."""
    subnets: tuple[Subnet, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str]) -> Self:
        """Parse a list.

        Raises:
            ValueError: one of them is no host.
        """
        found = [parsed_host(host) for host in hosts]
        written = [one for one in found if isinstance(one, str)]
        return cls(
            frozenset(name for name in written if not name.startswith(_WILDCARD)),
            tuple(name[1:] for name in written if name.startswith(_WILDCARD)),
            tuple(one for one in found if not isinstance(one, str)),
        )

    def __str__(self) -> str:
        listed = [*sorted(self.names), *(f"*{suffix}" for suffix in self.suffixes)]
        listed += [str(one.network_address if one.num_addresses == 1 else one) for one in self.subnets]
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        return f"{', '.join(listed[:_SHOWN])}{more}" if listed else "none"

    def why_not_name(self, name: str) -> str | None:
        """Return why a name, as `ascii_name` returns it, must not even be resolved; None: it is on the list."""
        if looks_like_address(name):
            return "an address has to be written in full"
        if name in self.names or any(name.endswith(suffix) for suffix in self.suffixes):
            return None
        return f"not among the allowed hosts: {self}"

    def why_not_address(self, address: Address, *, named: bool, own: bool) -> str | None:
        """Return why an address must not be connected to; None: it may be.

        Args:
            address: It.
            named: An allowed name was resolved to it.
            own: It is one of this machine.
        """
        plain = plain_address(address)
        if any(plain in subnet for subnet in _NEVER):
            return "such addresses are never allowed"
        holding = [subnet for subnet in self.subnets if plain in subnet]
        if own or not plain.is_global:
            # A network that is all of the internet does not mean what is private.
            if any(subnet.num_addresses == 1 or subnet.is_private for subnet in holding):
                return None
            whose = "an address of this machine" if own else "a private address"
            return f"{whose}, which only an address or a private network among the allowed hosts permits"
        return None if named or holding else f"not among the allowed hosts: {self}"
