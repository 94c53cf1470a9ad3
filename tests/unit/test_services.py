"""What all containers of a process share: made when it is first needed, and let go of in order at the end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineLost, ImageMissing
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import services as module
from pytest_benchjobs.sandbox.docker import storage, watch
from pytest_benchjobs.sandbox.docker.compose.service import ServiceContainer
from pytest_benchjobs.sandbox.docker.dialects import PODMAN
from pytest_benchjobs.sandbox.docker.engine import LABEL, Engine
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.docker.services import EngineServices
from pytest_benchjobs.sandbox.docker.snapshots import find_snapshot
from pytest_benchjobs.sandbox.protocol import SandboxSpec

from .records import OWNER


class Made:
    """Notes what is done to it."""

    def __init__(self, name: str, done: list[str]) -> None:
        self._name, self._done = name, done

    def __getattr__(self, what: str) -> Any:
        if what.startswith("_"):
            raise AttributeError(what)

        def do(*arguments: Any, **more: Any) -> None:
            self._done.append(" ".join(map(str, (self._name, what, *arguments, *more.values()))))

        return do


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def services(done: list[str], monkeypatch: pytest.MonkeyPatch) -> EngineServices:
    swept = threading.Event()

    def sweep(engine: object, owner: object) -> None:
        done.append("swept")
        swept.set()
        raise EngineLost("gone")  # disturbs nobody

    def events(engine: object, owner: str) -> Made:
        done.append(f"events of {owner}")
        return Made("events", done)

    monkeypatch.setattr(module, "sweep", sweep)
    monkeypatch.setattr(watch, "Events", events)
    monkeypatch.setattr(storage, "StorageGuard", lambda _: Made("storage", done))
    made = EngineServices(OWNER)
    made.engine = Made("engine", done)  # type: ignore[assignment]
    made._reaper = Made("reaper", done)  # type: ignore[assignment]
    return made


def sandbox(name: str, services: EngineServices, done: list[str], *, goes: bool = True) -> Callable[[], None]:
    def remove() -> None:
        done.append(f"remove {name}")
        if goes:
            services.forget(name)

    return remove


def test_the_first_sandbox_has_its_reaper_before_it_is_watched_and_others_swept(
    services: EngineServices, done: list[str]
) -> None:
    services.begin()
    for thread in threading.enumerate():
        if thread.name == "bench-sweep":
            thread.join(20)
    assert done == ["reaper start", f"events of {OWNER}", "swept"]
    services.begin()
    assert len(done) == 3


def test_at_the_end_everything_is_removed_before_what_watches_it(
    services: EngineServices, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    services.begin()
    for name in ("a", "b"):
        services.remember(name, sandbox(name, services, done))
    services.forget("a")
    assert done[2:] == ["storage discard a", "events forget a"]
    done.clear()
    services.close()
    assert done == [
        "remove b", "storage discard b", "events forget b", "storage close", "events close",
        "reaper close True", "engine close",
    ]  # fmt: skip


def test_what_could_not_be_removed_is_left_to_the_reaper(services: EngineServices, done: list[str]) -> None:
    services.remember("a", sandbox("a", services, done, goes=False))
    services.close()
    assert done == ["remove a", "reaper close False", "engine close"]


@pytest.mark.parametrize(
    ("said", "machine"), [("amd64", "x86_64"), ("arm64", "aarch64"), ("riscv64", "riscv64")]
)
def test_machines_are_called_what_they_call_themselves_and_asked_once(
    monkeypatch: pytest.MonkeyPatch, said: str, machine: str
) -> None:
    engine, asked = Engine(), list[str]()
    components = [{"Name": "Podman Engine"}]
    monkeypatch.setattr(
        engine, "get", lambda path: asked.append(path) or {"Arch": said, "Components": components}
    )
    assert (engine.machine, engine.machine, engine.dialect) == (machine, machine, PODMAN)
    assert asked == ["/version"]


@pytest.mark.parametrize("ready", [True, False])
def test_a_container_whose_entrypoint_is_never_ready_is_removed(
    done: list[str], monkeypatch: pytest.MonkeyPatch, ready: bool
) -> None:
    def await_entrypoint(check: Callable[[], None]) -> None:
        check()
        if not ready:
            raise EngineLost("gone")

    container = SimpleNamespace(await_entrypoint=await_entrypoint, remove=lambda: done.append("removed"))
    provider = DockerProvider(OWNER)
    monkeypatch.setattr(EngineServices, "begin", lambda self: setattr(self, "network", None))
    monkeypatch.setattr(provider.builder, "resolve", lambda *_: None)
    monkeypatch.setattr(provider, "_started", lambda *_: container)
    spec = SandboxSpec(environment=Environment(image="x"), labels={}, network="none", deadline=60)
    if ready:
        assert provider.start(spec, done.append) is container
    else:
        with pytest.raises(EngineLost):
            provider.start(spec, done.append)
    assert done[-1] == ("start" if ready else "removed")
    assert done[0] == "image"


@pytest.mark.parametrize(
    ("state", "result"),
    [
        ({"Running": True}, (None, True, True)),
        ({"Running": False, "ExitCode": 3, "Pid": 7}, (3, False, True)),
        ({"Running": False, "ExitCode": 127, "Pid": 0}, (127, False, False)),
    ],
)
def test_a_command_in_a_service_ends_times_out_or_never_starts(
    state: dict[str, Any], result: tuple[int | None, bool, bool]
) -> None:
    ours, engines = socket.socketpair()
    engines.close()
    engine: Any = SimpleNamespace(
        client=SimpleNamespace(exec_create=lambda *_, **__: {"Id": "1"}, exec_inspect=lambda _: state),
        guard=contextlib.nullcontext,
        hijack=lambda *_: (ours, b""),
    )
    ended = ServiceContainer(engine, "c", "/").exec(["true"], timeout=0.05, sink=lambda _: None)
    assert (ended.exit_status, ended.timed_out, ended.started) == result


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("job/one", "benchjobs-kept:1"),
        ("job/a::two[x]", "benchjobs-kept:2"),
        ("job/two", "may be one of 2; "),
        ("benchjobs-kept:2", "benchjobs-kept:2"),
        ("benchjobs-kept:of-another-origin", "is not on this machine"),
    ],
)
def test_a_snapshot_is_found_unless_it_is_none_or_several_are_meant(text: str, found: str) -> None:
    nodes = enumerate(("a::one[x]", "a::two[x]", "a::two[y]"), 1)
    labels = {f"benchjobs-kept:{n}": {f"{LABEL}kept": "1", f"{LABEL}trial": node} for n, node in nodes}
    images = [{"RepoTags": [tag], "Labels": some} for tag, some in labels.items()]
    engine: Any = SimpleNamespace(
        client=SimpleNamespace(images=lambda **_: images),
        get=lambda path: {"Config": {"Labels": labels.get(path.split("/")[2])}, "path": path},
    )
    if " " in found:
        with pytest.raises(ImageMissing, match=found):
            find_snapshot(engine, text)
    else:
        assert find_snapshot(engine, text)["path"] == f"/images/{found}/json"
