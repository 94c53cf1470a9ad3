"""The network of public trials: the internet, without other containers, link-local addresses and this machine.

There is one in an engine, made by whoever needs it first and found by its label afterwards. `benchjobs gc` removes it.

A trial with services has networks of its own beside it, which lead to its services and to nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import ipaddress
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from docker.types import IPAMConfig, IPAMPool, LogConfig

from ...model.errors import ContainerStartFailed, EngineRefused, InfrastructureError
from ...model.job import Owner
from ...model.scenario import Network
from ...system.cutting import on_one_line
from ..archive import pack
from ..command_timeout import Demultiplexer, drain
from ..program import program_file
from .calling import NetworkGone, SubnetTaken
from .engine import LABEL, ROOT_USER, Engine
from .library import ERRORS
from .rules import Rule, hold, refused, rules_command, rules_here, rules_of

T = TypeVar("T")

NETWORK_VARIABLE = "BENCHJOBS_NETWORK"
"""Environment variable: the network of the engine that public trials have instead, open as it may be."""
NETWORK_NAME = "benchjobs"
NETWORK_LABEL = f"{LABEL}network"
# Nobody's but benchmarks' (RFC 2544), and none that an engine gives to networks by itself: rules that outlive the
# network are about no other.
_SUBNETS = tuple(ipaddress.IPv4Network("198.19.0.0/16").subnets(new_prefix=20))
# Of trials with services. An engine has no more than some thirty subnets to give to networks by itself.
_OF_TRIALS = tuple(ipaddress.IPv4Network("198.18.0.0/16").subnets(new_prefix=27))
_BRIDGE = "com.docker.network.bridge"
_MTU = "com.docker.network.driver.mtu"
LOOKS = 3
"""Retries where others removed the public network: `benchjobs gc` of another job."""
_TIMEOUT = 60
_CONFLICT = 409


@dataclasses.dataclass(frozen=True, slots=True)
class Joinable:
    """A network for public trials."""

    name: str
    """Or id, as the engine knows it."""
    note: str | None = None
    """Parts of the machine that can be reached on it all the same, and why."""


class PublicNetwork:
    """The one of an engine, for all trials of this process. Thread-safe."""

    def __init__(self, engine: Engine, owner: Owner) -> None:
        self._engine = engine
        self._owner = owner
        self._lock = threading.Lock()
        self._found: Joinable | None = None

    def of(self, network: Network, image: str) -> Joinable:
        """Return the network that a container has to join; makes the public network if there is none.

        `image` is one that is here, in which our own program can run. Where none can be made, that is an error of
        the infrastructure.
        """
        if network != "public":
            return Joinable("none")  # an allowlist leads through the loopback: see `sandbox/proxy.py`
        with self._lock:
            if self._found is None:
                self._found = self._joinable(image)
            return self._found

    def forget(self) -> None:
        """It may be gone: look for it again."""
        with self._lock:
            self._found = None

    def _joinable(self, image: str) -> Joinable:
        engine = self._engine
        if name := os.environ.get(NETWORK_VARIABLE):
            if engine.get(f"/networks/{name}") is None:
                raise ContainerStartFailed(
                    f"{NETWORK_VARIABLE} names {name!r}, and the Docker Engine has no such network"
                )
            return Joinable(name)
        found = next(iter(_ours(engine)), None) or _make(engine)
        rules, reached = rules_of(*_place(engine, found)), []
        if not engine.dialect.separates:
            reached.append(
                f"each other, as {engine.dialect.name} does not keep containers of a network apart"
            )
        if not (engine.local and hold(rules, rules_here())):
            problem = _apply(engine, self._owner, image, rules)
            if problem is not None:
                reached.append(f"services of this machine and link-local addresses: {problem}")
        return Joinable(found["Id"], f"public trials can reach {'; and '.join(reached)}" if reached else None)


def in_network(network: PublicNetwork, join: Callable[[], T]) -> T:
    """Return what `join` does with a network, which is looked for again where others removed it meanwhile."""
    for _ in range(LOOKS):
        with contextlib.suppress(NetworkGone):
            return join()
        network.forget()
    return join()


def remove_public_network(engine: Engine, owner: Owner) -> int:
    """Remove our network, and its rules, unless a container has it; returns how many went."""
    removed = 0
    for found in _ours(engine):
        if engine.get("/containers/json", all=True, filters={"network": [found["Id"]]}):
            continue
        rules = rules_of(*_place(engine, found))
        images = engine.get("/images/json")
        here = rules_here() if engine.local else None
        gone = here is not None and not any(hold((rule,), here) for rule in rules)
        if images and not gone:
            _apply(engine, owner, images[0]["Id"], rules, remove=True)
        try:
            with engine.guard():
                engine.client.remove_network(found["Id"])
            removed += 1
        except InfrastructureError:
            continue  # somebody uses it by now
    return removed


def make_trial_network(engine: Engine, name: str, labels: Mapping[str, str]) -> str:
    """Make a network between the containers of one trial; return its id.

    It leads nowhere else: not to this machine either, which has no address on it. Where there is no free subnet, that
    is a `ContainerStartFailed`.
    """
    subnets = random.sample(_OF_TRIALS, len(_OF_TRIALS))  # others look for one at the same time
    options = {f"{_BRIDGE}.inhibit_ipv4": "true"}
    with engine.guard():
        made = _create(engine, subnets, name, options=options, labels=dict(labels), internal=True)
    if made is None:
        raise ContainerStartFailed("no network for the services of a trial: 198.18.0.0/16 has no free subnet")
    return made


def _create(
    engine: Engine, subnets: Iterable[ipaddress.IPv4Network], name: str, **options: Any
) -> str | None:
    """Make a network in the first of the subnets that is free; return its id. None: none is."""
    for subnet in subnets:
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
        with contextlib.suppress(SubnetTaken):
            return str(engine.client.create_network(name, driver="bridge", ipam=pool, **options)["Id"])
    return None


def _ours(engine: Engine) -> list[Mapping[str, Any]]:
    """Our networks, the oldest first, so that all who look agree on one."""
    networks = engine.get("/networks") or ()
    found = (one for one in networks if (one.get("Labels") or {}).get(NETWORK_LABEL) == "public")
    return sorted(found, key=lambda one: (one["Created"], one["Id"]))


def _make(engine: Engine) -> Mapping[str, Any]:
    """Make it; somebody else may be making it at the same time."""
    options = {f"{_BRIDGE}.enable_icc": "false"}
    # Networks do not take over what the engine was told of packets' size, on which connections break.
    bridge = engine.get("/networks/bridge") or {}
    default = bridge.get("Options") or {}
    if size := default.get(_MTU):
        options[_MTU] = size
    if not engine.dialect.separates:  # it numbers bridges, else
        options[f"{_BRIDGE}.name"] = NETWORK_NAME
    made = None
    subnets = (one for one in _SUBNETS if not (engine.local and _routed(one)))
    labels = {NETWORK_LABEL: "public"}
    try:
        # One that somebody else makes at the same time, or whose answer is lost, is found as made.
        made = _create(engine, subnets, NETWORK_NAME, options=options, labels=labels, check_duplicate=True)
    except EngineRefused as error:
        if error.status != _CONFLICT:
            raise
    found = next(iter(_ours(engine)), None)
    if found is None:
        raise ContainerStartFailed(
            f"no network for public trials can be made: a foreign one is named {NETWORK_NAME}, or there is no free "
            f"subnet in 198.19.0.0/16. Remove it, or name another network in {NETWORK_VARIABLE}"
        )
    if made is not None and made != found["Id"]:
        engine.client.remove_network(made)
    return found


def _place(engine: Engine, network: Mapping[str, Any]) -> tuple[str, str]:
    """The bridge of our network on the engine's machine, and its subnet."""
    bridge = f"br-{network['Id'][:12]}" if engine.dialect.separates else NETWORK_NAME
    return bridge, str(network["IPAM"]["Config"][0]["Subnet"])


def _routed(subnet: ipaddress.IPv4Network) -> bool:
    """Return True if this machine has a route to part of it, such as the network of another engine."""
    try:
        rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    except OSError:
        return False
    for row in rows:
        address, mask = (int.from_bytes(bytes.fromhex(row[place]), "little") for place in (1, 7))
        if mask and subnet.overlaps(ipaddress.IPv4Network((address, mask.bit_count()))):
            return True
    return False


def _printed(engine: Engine, container: str) -> bytes:
    """Start a container, and take what it prints as it comes: that is no text, and its log keeps nothing else."""
    printed = bytearray()
    output = Demultiplexer(printed.extend)
    connection, first = engine.hijack(f"/containers/{container}/attach?stream=1&stdout=1&stderr=1", {})
    with connection:
        engine.client.start(container)
        output.feed(first)
        drain(connection, output, time.monotonic() + _TIMEOUT)
    return bytes(printed)


def _apply(
    engine: Engine, owner: Owner, image: str, rules: tuple[Rule, ...], *, remove: bool = False
) -> str | None:
    """Make or remove rules on the engine's machine; why not, if that failed.

    Only a container in the machine's own network can. It runs one program of ours, with the one capability it needs.
    """
    client = engine.client
    try:
        if (program := program_file(engine.machine)) is None:
            return f"the machine type {engine.machine} is not supported"
        created = client.create_container(
            image,
            [],
            entrypoint=rules_command(rules, remove=remove),
            user=ROOT_USER,
            labels={
                f"{LABEL}owner": str(owner),
                f"{LABEL}host": owner.host,
                f"{LABEL}deadline": str(int(time.time() + _TIMEOUT)),
            },
            host_config=client.create_host_config(
                network_mode="host",
                userns_mode="host",
                cap_drop=["ALL"],
                cap_add=["NET_ADMIN"],
                security_opt=["no-new-privileges"],
                log_config=LogConfig(type="json-file"),
            ),
        )["Id"]
        try:
            with pack([program], "/") as archive:
                client.put_archive(created, "/", archive)
            printed = _printed(engine, created)
        finally:
            client.remove_container(created, force=True, v=True)
    except (InfrastructureError, *ERRORS) as error:
        return on_one_line(str(error), 300)
    return refused(printed, rules, accepted=errno.ENOENT if remove else errno.EEXIST)
