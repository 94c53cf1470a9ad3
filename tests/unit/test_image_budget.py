"""Images of a job within a limit: who needs them, who waits, and what is removed, without an engine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineError, ImageTooLarge, InfrastructureError
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import image_budget as module
from pytest_benchjobs.sandbox.docker import images as images_module
from pytest_benchjobs.sandbox.docker import registry
from pytest_benchjobs.sandbox.docker.image_budget import ImageBudget, NoRoomNow, Urgency
from pytest_benchjobs.sandbox.docker.image_record import RUNNING, Record, RecordFile, Sizes
from pytest_benchjobs.sandbox.docker.images import Images, ResolvedImage
from pytest_benchjobs.sandbox.docker.pulling import Registries
from pytest_benchjobs.sandbox.protocol import ImageRequest
from tests.support import until

HOST = "unix:///engine.sock"


class Engine:
    """One with images of ten bytes, that removes one when `may_remove` is set."""

    host = HOST

    def __init__(self) -> None:
        self.images: dict[str, str] = {}
        """Name -> id."""
        self.containers: set[str] = set()
        """Names of their images."""
        self.names: dict[str, list[str]] = {}
        """Further names of images."""
        self.asked = 0
        self.may_remove = threading.Event()
        self.may_remove.set()
        self.removing: list[str] = []
        self.client = SimpleNamespace(remove_image=self._remove)

    def get(self, path: str, **_: object) -> Any:
        self.asked += 1
        if path == "/version":
            return {"Os": "linux", "Arch": "amd64"}
        name = path.removeprefix("/images/").removesuffix("/json")
        image = next((image for known, image in self.images.items() if name in (known, image)), None)
        tags = [name, *self.names.get(name, ())]
        return None if image is None else {"Id": image, "Size": 10, "RepoTags": tags}

    def _remove(self, name: str) -> None:
        self.removing.append(name)
        assert self.may_remove.wait(20)
        if name in self.containers:
            raise EngineError("a container has it")
        del self.images[name]

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        yield


class Process:
    """A process of a job, with its images and its budget."""

    def __init__(self, engine: Engine, limit: int | None = 20, job: str = "job", host: str = "here") -> None:
        owner = current_owner().model_copy(update={"host": host, "pid": len(host)})
        self.images = Images(engine)  # type: ignore[arg-type]
        config = JobConfig(directory=Path(), image_budget=limit)
        self.budget = ImageBudget(engine, self.images, owner, job, config)  # type: ignore[arg-type]

    def bring(
        self, name: str, urgency: Urgency = Urgency.TRIAL, check: Callable[[], object] = lambda: None
    ) -> ResolvedImage:
        return self.images.resolve(ImageRequest(Environment(image=name)), check, urgency)

    def begin(self, place: int, *names: str) -> None:
        self.budget.begin(place, [Environment(image=name) for name in names])

    def expect(self, place: int, *names: str) -> None:
        self.budget.expect(place, [Environment(image=name) for name in names])

    def end(self, place: int, *, last: bool = True) -> None:
        self.budget.end(place, last=last)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    engine = Engine()

    def pull(self: Registries, name: str, check: object, *, patient: bool = True) -> None:
        engine.images[name] = f"id-{name}"

    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path))
    monkeypatch.setattr(images_module, "_NO_ROOM_SECONDS", 0.01)
    monkeypatch.setattr(Registries, "pull", pull)
    monkeypatch.setattr(registry, "sizes_of", lambda *_: Sizes(stored=10, unpacked=10))
    return engine


@contextlib.contextmanager
def aside(work: Callable[..., object], *arguments: object) -> Iterator[None]:
    """Have something done by another thread, which has ended with the context."""
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    yield
    thread.join(10)
    assert not thread.is_alive()


def record() -> Record:
    return RecordFile(HOST).read()


# Who needs what


def test_an_image_is_needed_until_the_last_trial_of_its_scenarios_has_ended(engine: Engine) -> None:
    process = Process(engine)
    steps: list[tuple[Callable[[], object], dict[str, int]]] = [
        (lambda: process.expect(7, "a", "b"), {}),
        (lambda: [process.bring(name) for name in "ab"], {"id-a": 7, "id-b": 7}),
        (lambda: process.begin(7, "a", "b"), {"id-a": RUNNING, "id-b": 7}),
        (lambda: process.expect(3, "b"), {"id-a": RUNNING, "id-b": 3}),
        (lambda: process.begin(7, "a", "b"), {"id-a": RUNNING, "id-b": 3}),
        (lambda: process.end(7, last=False), {"id-a": RUNNING, "id-b": 3}),
        (lambda: process.end(7, last=False), {"id-a": 7, "id-b": 3}),
        (lambda: process.begin(7, "a", "b"), {"id-a": RUNNING, "id-b": 3}),
        (lambda: process.end(7), {"id-b": 3}),
        (lambda: process.end(3), {}),
    ]
    for number, (step, needs) in enumerate(steps):
        step()
        written = [one.needs for one in record().processes.values()]
        assert written == ([needs] if written or needs else []), number


def test_without_a_limit_whatever_is_needed_stays_for_other_jobs(engine: Engine) -> None:
    limited, free = Process(engine, 10), Process(engine, None, "other job", "there")
    limited.bring("a")
    free.expect(5, "x", "a")
    free.bring("a")
    assert [one.needs for one in record().processes.values() if one.needs] == [{"id-a": RUNNING}]
    with pytest.raises(NoRoomNow):
        limited.bring("b", Urgency.AHEAD)


def test_the_record_is_written_only_where_something_has_changed(engine: Engine, tmp_path: Path) -> None:
    process = Process(engine)
    process.expect(0, "a")
    process.bring("a")
    (path,) = tmp_path.glob("images/*.json")
    before = path.stat()
    process.expect(1, "a")
    process.bring("a")
    process.end(1)
    assert path.stat() == before


# Room is made, or waited for


def test_what_no_trial_needs_goes_before_what_is_needed_last_and_ahead_of_trials_only_the_former(
    engine: Engine,
) -> None:
    process = Process(engine, 40)
    for place, name in enumerate("abcd"):
        process.expect(place, name)
        process.bring(name)
    process.begin(0, "a")
    process.end(1)
    process.expect(9, "e")
    process.bring("e", Urgency.AHEAD)
    with pytest.raises(NoRoomNow):
        process.bring("f", Urgency.AHEAD)
    process.bring("f")
    process.expect(10, "f")
    process.bring("g", Urgency.GRADING)
    process.expect(11, "g")
    process.begin(2, "c")
    process.begin(11, "g")
    process.begin(3, "d")
    process.bring("h", Urgency.GRADING)
    assert engine.removing == ["b", "e", "f"]
    assert set(engine.images) == {*"acdgh"}, "grading has no room, and comes all the same"


@pytest.mark.parametrize("told", [Sizes(stored=30, unpacked=30), None])
def test_a_registry_is_asked_once_for_the_size_of_an_image_whatever_it_says(
    engine: Engine, told: Sizes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, asked = Process(engine, 10), []
    process.begin(0, "other")
    process.bring("other")
    monkeypatch.setattr(registry, "sizes_of", lambda name, _: asked.append(name) or told)
    for _ in range(10):
        with pytest.raises((NoRoomNow, ImageTooLarge)):
            process.bring("large", Urgency.AHEAD)
        process.begin(0, "other")
    assert asked == ["large"]


@pytest.mark.parametrize("makes_room", ["a trial that ends", "another job", "grading"])
def test_who_waits_for_room_goes_on_when_there_is_some_and_holds_up_nobody_meanwhile(
    engine: Engine, makes_room: str
) -> None:
    process, other, waits = Process(engine, 10), Process(engine, None, "other job", "there"), 0
    process.begin(0, "a")
    process.bring("a")

    def check() -> None:
        nonlocal waits
        waits += 1

    with aside(process.bring, "b", Urgency.TRIAL, check):
        until(lambda: waits > 5)
        assert engine.images == {"a": "id-a"}
        match makes_room:
            case "a trial that ends":
                process.end(0)
            case "another job":
                other.bring("b")
            case _:
                process.bring("b", Urgency.GRADING)
    assert set(engine.images) == ({"b"} if makes_room == "a trial that ends" else {"a", "b"})


class Stopped(Exception):
    pass


def stop() -> None:
    raise Stopped


def test_a_trial_that_waits_for_room_can_be_stopped(engine: Engine) -> None:
    process = Process(engine, 10)
    process.begin(0, "a")
    process.bring("a")
    checks = iter(range(20))
    with pytest.raises(Stopped):
        process.bring("b", Urgency.TRIAL, lambda: next(checks, None) is None and stop())
    assert [one.bringing for one in record().processes.values()] == [{}]


@pytest.mark.parametrize("whose", ["a container", "another name", "found", "another job"])
def test_an_image_stays_that(engine: Engine, whose: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REFUSED_SECONDS", 0.0)
    process, other = Process(engine, 10), Process(engine, None, "other", "there")
    if whose == "found":
        engine.images["a"] = "id-a"
    process.bring("a")
    if whose == "another job":
        other.expect(1, "a")
        other.bring("a")
    engine.containers = {"a"} if whose == "a container" else set()
    engine.names = {"a": ["mine"]} if whose == "another name" else {}
    process.bring("b", Urgency.GRADING)
    assert set(engine.images) == {"a", "b"}
    engine.containers, engine.names = set(), {}
    other.end(1)
    process.bring("c")
    assert set(engine.images) == ({"a", "c"} if whose == "found" else {"c"})


def test_what_was_removed_by_hand_is_not_counted(engine: Engine) -> None:
    process = Process(engine)
    process.bring("a")
    process.bring("b")
    del engine.images["a"]
    process.bring("c", Urgency.AHEAD)
    assert (engine.removing, set(record().images)) == ([], {"id-b", "id-c"})


# Removed


def test_who_needs_an_image_that_is_being_removed_waits_and_brings_it_again(engine: Engine) -> None:
    limited, free = Process(engine, 10), Process(engine, None, "other job", "there")
    limited.bring("a")
    free.begin(0, "a")
    free.bring("a")
    free.end(0)
    engine.may_remove.clear()
    brought: list[str] = []

    def need() -> None:
        free.begin(1, "a")
        brought.append(free.bring("a").id)

    with aside(limited.bring, "b"):
        until(lambda: engine.removing == ["a"])
        with pytest.raises(Stopped), RecordFile(HOST).opened(stop):
            raise AssertionError("it is held meanwhile")
        with aside(need):
            assert brought == []
            engine.may_remove.set()
    assert brought == ["id-a"]
    assert set(engine.images) == {"a", "b"}
    assert {one.job for one in record().images.values()} == {"job", "other job"}


def test_an_image_is_counted_once_also_while_it_is_brought(engine: Engine) -> None:
    one, two = Process(engine), Process(engine, host="there")
    with one.budget.bringing("a", Urgency.TRIAL, lambda: None):
        two.bring("b")
        with pytest.raises(NoRoomNow), two.budget.bringing("c", Urgency.AHEAD, lambda: None, 11):
            raise AssertionError("there is room")
        engine.images["a"] = "id-a"
        one.budget.record("a", engine.get("/images/a/json"), Urgency.TRIAL)
        assert record().bytes_of("job") == 20
    assert record().bytes_of("job") == 20
    assert engine.removing == []


def test_an_image_that_is_too_large_is_removed_and_remembered(engine: Engine) -> None:
    for _ in range(2):
        process = Process(engine, 5)
        with pytest.raises(ImageTooLarge, match="a takes 10 B"):
            process.bring("a")
    assert (engine.images, record().images) == ({}, {})
    registry_size = record().told.pop("a")
    assert registry_size.stored == 10


def test_what_unpacks_to_more_than_the_limit_is_removed_and_its_size_remembered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "sizes_of", lambda *_: Sizes(stored=1, unpacked=3))
    with pytest.raises(ImageTooLarge, match="a takes 10 B"):
        Process(engine, 5).bring("a")
    assert (engine.removing, record().images, record().sizes) == (["a"], {}, {"a": 10})


def test_a_limit_needs_a_place_for_its_record_and_no_limit_does_not(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "images").write_text("no directory")
    with pytest.raises(InfrastructureError, match="the record of images cannot be written"):
        Process(engine).bring("a")
    process = Process(engine, None)
    process.begin(0, "a")
    assert process.bring("a").id == "id-a"
