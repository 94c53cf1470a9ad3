"""The network of public trials: found or made once, closed by rules, and removed when nobody has it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import ContainerStartFailed, EngineRefused
from pytest_benchjobs.sandbox.docker import network as module
from pytest_benchjobs.sandbox.docker.calling import NetworkGone, SubnetTaken
from pytest_benchjobs.sandbox.docker.dialects import DOCKER
from pytest_benchjobs.sandbox.docker.network import PublicNetwork, remove_public_network
from pytest_benchjobs.sandbox.docker.rules import rules_of

from .records import OWNER


def _network(
    name: str, created: str = "2026-01-01", subnet: str = "198.19.0.0/20", label: str = "public"
) -> Any:
    return {
        "Id": name,
        "Created": created,
        "Labels": {"benchjobs.network": label} if label else None,
        "IPAM": {"Config": [{"Subnet": subnet}]},
    }


class Engine:
    """Has networks, containers and images; refuses what it is told to."""

    local = True
    dialect = DOCKER

    def __init__(self, *networks: Any) -> None:
        self.networks = list(networks)
        self.bridge: dict[str, Any] = {}
        self.users: dict[str, list[str]] = {}
        self.images = [{"Id": "image"}]
        self.refusals: list[Exception] = []
        self.made: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.client = SimpleNamespace(create_network=self._create, remove_network=self._remove)

    def get(self, path: str, **query: Any) -> Any:
        if path == "/networks":
            return self.networks
        if path == "/networks/bridge":
            return self.bridge
        if path == "/images/json":
            return self.images
        if path == "/containers/json":
            ((name,),) = query["filters"].values()
            return self.users.get(name, [])
        name = path.removeprefix("/networks/")
        return next((one for one in self.networks if one["Id"] == name), None)

    def guard(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def _create(self, name: str, **given: Any) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        subnet = given["ipam"]["Config"][0]["Subnet"]
        self.made.append({"name": name, "subnet": subnet, **given})
        found = _network(f"made-{len(self.made)}", "2026-06-01", subnet)
        self.networks.append(found)
        return found

    def _remove(self, name: str) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.removed.append(name)


@pytest.fixture(autouse=True)
def applied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Bridges whose rules were made, or removed; none are here already."""
    found: list[tuple[str, bool]] = []

    def apply(_: object, owner: object, image: str, rules: Any, *, remove: bool = False) -> str | None:
        assert (owner, image) == (OWNER, "image")
        assert rules in [
            rules_of(rules[0].interface, subnet) for subnet in ("198.19.0.0/20", "198.19.32.0/20")
        ]
        found.append((rules[0].interface, remove))
        return None

    monkeypatch.setattr(module, "_apply", apply)
    monkeypatch.setattr(module, "rules_here", set)
    monkeypatch.setattr(module, "_routed", lambda _: False)
    monkeypatch.delenv("BENCHJOBS_NETWORK", raising=False)
    return found


def _public(engine: Engine) -> PublicNetwork:
    return PublicNetwork(engine, OWNER)  # type: ignore[arg-type]


def test_trials_without_a_network_need_none() -> None:
    engine = Engine()
    found = _public(engine).of("none", "image")
    assert (found.name, found.note, engine.made) == ("none", None, [])


def test_of_several_networks_of_ours_the_oldest_is_everybodys(applied: list[tuple[str, bool]]) -> None:
    engine = Engine(
        _network("other", "2020-01-01", label=""),
        _network("foreign", "2020-01-01", label="private"),
        _network("b" * 20, "2026-02-01"),
        _network("c" * 20, "2026-01-01"),
        _network("a" * 20, "2026-02-01"),
    )
    public = _public(engine)
    assert public.of("public", "image").name == public.of("public", "image").name == "c" * 20
    assert applied == [(f"br-{'c' * 12}", False)]
    engine.networks.pop(3)
    public.forget()
    assert public.of("public", "image").name == "a" * 20


def test_rules_that_hold_are_not_made_again_where_that_can_be_seen(
    applied: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "hold", lambda *_: True)
    engine = Engine(_network("n"))
    assert _public(engine).of("public", "image").note is None
    assert applied == []
    engine.local = False  # the rules of this machine say nothing of the engine's
    _public(engine).of("public", "image")
    assert applied == [("br-n", False)]


def test_a_network_that_cannot_be_closed_is_used_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_apply", lambda *_, **__: "operation not permitted")
    found = _public(Engine(_network("n"))).of("public", "image")
    assert found.name == "n"
    assert found.note is not None
    assert found.note.endswith("link-local addresses: operation not permitted")


def test_a_network_of_ones_own_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch, applied: list[tuple[str, bool]]
) -> None:
    monkeypatch.setenv("BENCHJOBS_NETWORK", "mine")
    found = _public(Engine(_network("mine", label=""))).of("public", "image")
    assert (found.name, found.note, applied) == ("mine", None, [])
    with pytest.raises(ContainerStartFailed, match=r"BENCHJOBS_NETWORK names 'mine', and .* no such network"):
        _public(Engine()).of("public", "image")


def test_one_is_made_without_traffic_between_containers_in_the_first_free_subnet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine()
    engine.bridge = {"Options": {"com.docker.network.driver.mtu": "1400", "other": "x"}}
    monkeypatch.setattr(module, "_routed", lambda subnet: str(subnet) == "198.19.0.0/20")
    engine.refusals = [SubnetTaken("another network has the subnet")]
    assert _public(engine).of("public", "image").name == "made-1"
    (made,) = engine.made
    assert (made["name"], made["subnet"], made["driver"]) == ("benchjobs", "198.19.32.0/20", "bridge")
    assert made["options"] == {
        "com.docker.network.bridge.enable_icc": "false",
        "com.docker.network.driver.mtu": "1400",
    }
    assert made["labels"] == {"benchjobs.network": "public"}
    assert made["check_duplicate"] is True


def test_routes_of_this_machine_say_nothing_of_an_engine_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_routed", lambda _: True)
    engine = Engine()
    engine.local = False
    _public(engine).of("public", "image")
    assert engine.made[0]["subnet"] == "198.19.0.0/20"
    assert set(engine.made[0]["options"]) == {"com.docker.network.bridge.enable_icc"}
    with pytest.raises(ContainerStartFailed, match="no free subnet"):
        _public(Engine()).of("public", "image")


def test_who_makes_one_at_the_same_time_takes_the_other_and_removes_its_own() -> None:
    engine = Engine()
    older = _network("theirs", "2026-01-01")
    create = engine.client.create_network

    def meanwhile(*arguments: Any, **given: Any) -> Any:
        engine.networks.append(older)
        return create(*arguments, **given)

    engine.client.create_network = meanwhile
    assert _public(engine).of("public", "image").name == "theirs"
    assert engine.removed == ["made-1"]
    engine = Engine()
    engine.refusals = [EngineRefused("name", status=409)]
    with pytest.raises(ContainerStartFailed, match="a foreign one is named benchjobs"):
        _public(engine).of("public", "image")
    assert engine.made == []


def test_what_the_engine_refuses_otherwise_is_its_error() -> None:
    engine = Engine()
    engine.refusals = [EngineRefused("no bridge", status=500)]
    with pytest.raises(EngineRefused):
        _public(engine).of("public", "image")


def _removed(engine: Engine) -> int:
    return remove_public_network(engine, OWNER)  # type: ignore[arg-type]


def test_networks_nobody_has_are_removed_with_their_rules(applied: list[tuple[str, bool]]) -> None:
    engine = Engine(_network("used"), _network("free"), _network("foreign", label=""), _network("last"))
    engine.local = False
    engine.users = {"used": ["c"]}
    assert _removed(engine) == 2
    assert engine.removed == ["free", "last"]
    assert applied == [("br-free", True), ("br-last", True)]


def test_without_rules_or_images_only_the_network_goes(applied: list[tuple[str, bool]]) -> None:
    engine = Engine(_network("n"))
    assert _removed(engine) == 1
    engine.local, engine.images = False, []
    assert _removed(engine) == 1
    assert applied == []


def test_rules_that_are_here_go_and_so_do_those_nobody_can_see(
    applied: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(_network("n"))
    some = {(3, "lo 198.19.0.0")}
    for here in (some, None):
        monkeypatch.setattr(module, "rules_here", lambda here=here: here)
        _removed(engine)
    assert applied == [("br-n", True)] * 2


def test_a_network_that_somebody_took_meanwhile_stays() -> None:
    engine = Engine(_network("a"), _network("b"))
    engine.refusals = [EngineRefused("in use", status=403)]
    assert _removed(engine) == 1
    assert engine.removed == ["b"]


ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
br-1\t002013C6\t00000000\t0001\t0\t0\t0\t00F0FFFF\t0\t0\t0
"""


@pytest.mark.parametrize(
    ("subnet", "routed"), [("198.19.16.0/20", False), ("198.19.32.0/20", True), ("198.19.48.0/20", False)]
)
def test_a_subnet_that_this_machine_has_a_route_to_is_known(
    monkeypatch: pytest.MonkeyPatch, subnet: str, routed: bool
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(Path, "read_text", lambda _: ROUTES)
    assert module._routed(module.ipaddress.IPv4Network(subnet)) is routed


def test_without_a_table_of_routes_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> str:
        raise FileNotFoundError

    monkeypatch.undo()
    monkeypatch.setattr(Path, "read_text", refuse)
    assert not module._routed(module.ipaddress.IPv4Network("198.19.0.0/20"))


@pytest.mark.parametrize(("gone", "starts"), [(0, 1), (3, 4), (4, 4)])
def test_a_start_survives_that_others_remove_the_network_meanwhile(gone: int, starts: int) -> None:
    calls: list[str] = []

    def start() -> str:
        calls.append("start")
        if calls.count("start") <= gone:
            raise NetworkGone("the container does not start: network abc not found")
        return "started"

    network: Any = SimpleNamespace(forget=lambda: calls.append("forget"))
    if gone < starts:
        assert module.in_network(network, start) == "started"
    else:
        with pytest.raises(NetworkGone):
            module.in_network(network, start)
    assert calls == ["start", *["forget", "start"] * (starts - 1)]
