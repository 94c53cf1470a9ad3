"""Room of a job for its images: who needs them, who waits, and what is removed, without an engine."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import ImageTooLarge
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import room as module
from pytest_benchjobs.sandbox.docker.claims import Claims
from pytest_benchjobs.sandbox.docker.images import Images
from pytest_benchjobs.sandbox.docker.ledger import RUNNING, Ledger
from pytest_benchjobs.sandbox.docker.pulling import Registries
from pytest_benchjobs.sandbox.docker.registry import Sizes
from pytest_benchjobs.sandbox.docker.room import NoRoomNow, Room, Urgency
from tests.support import until

HOST = "unix:///engine.sock"


class Engine:
    """One with images of ten bytes, that removes one when `may_remove` is set."""

    host = HOST

    def __init__(self) -> None:
        self.images: dict[str, str] = {}
        """Name -> id."""
        self.containers: list[str] = []
        """Ids of their images."""
        self.listed = 0
        self.may_remove = threading.Event()
        self.may_remove.set()
        self.removing: list[str] = []
        self.client = SimpleNamespace(remove_image=self._remove)

    def get(self, path: str, **_: object) -> Any:
        if path == "/version":
            return {"Os": "linux", "Arch": "amd64"}
        if path == "/images/json":
            self.listed += 1
            return [{"Id": image} for image in set(self.images.values())]
        if path == "/containers/json":
            return [{"ImageID": image} for image in self.containers]
        name = path.removeprefix("/images/").removesuffix("/json")
        image = next((image for known, image in self.images.items() if name in (known, image)), None)
        return None if image is None else {"Id": image, "Size": 10, "RepoTags": [name]}

    def _remove(self, name: str) -> None:
        self.removing.append(name)
        assert self.may_remove.wait(20)
        del self.images[name]

    @contextlib.contextmanager
    def guard(self, *, running: bool = True) -> Iterator[None]:
        yield


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "_LOOK", 0.01)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def _room(engine: Engine, limit: int | None = 20, job: str = "job") -> Room:
    return Room(engine, current_owner(), job, limit, lambda _: None)  # type: ignore[arg-type]


def _bring(
    room: Room, engine: Engine, name: str, urgency: Urgency = Urgency.TRIAL, check: Any = None
) -> None:
    with room.bringing(name, urgency, check or (lambda: None), lambda: Sizes(stored=10, unpacked=10)):
        engine.images[name] = f"id-{name}"
        room.note(name, f"id-{name}", ())
        room.record(name, engine.get(f"/images/{name}/json"), urgency)


@contextlib.contextmanager
def _removing(room: Room, engine: Engine) -> Iterator[None]:
    """Have "a" removed for "b" by another thread, which comes to no end before it may."""
    engine.may_remove.clear()
    thread = threading.Thread(target=_bring, args=(room, engine, "b"))
    thread.start()
    try:
        until(lambda: engine.removing == ["a"])
        yield
    finally:
        engine.may_remove.set()
        thread.join(5)


class Stopped(Exception):
    pass


# Who needs what

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["expect", "begin"]),
            st.integers(0, 5),
            st.lists(st.sampled_from("abc"), min_size=1),
        ),
        st.tuples(st.just("end"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("note"), st.sampled_from("abc"), st.lists(st.sampled_from("123"), min_size=1)),
    ),
    max_size=30,
)


class Counted:
    """Claims, counted anew from all places each time."""

    def __init__(self, *, always: bool) -> None:
        self.always = always
        self.places: dict[int, tuple[list[str], list[int]]] = {}
        self.ids: dict[str, tuple[str, ...]] = {}

    def expect(self, place: int, keys: list[str]) -> None:
        self.places.setdefault(place, (keys, [0]))

    def begin(self, place: int, keys: list[str]) -> None:
        self.expect(place, keys)
        self.places[place][1][0] += 1

    def end(self, place: int, *, last: bool) -> None:
        if place in self.places:
            running = self.places[place][1]
            running[0] = max(0, running[0] - 1)
            if last:
                del self.places[place]

    def note(self, key: str, ids: tuple[str, ...]) -> None:
        self.ids[key] = ids

    def of(self, image: str) -> int | None:
        found = []
        for place, (keys, running) in self.places.items():
            for number, key in enumerate(keys):
                for order, one in enumerate(self.ids.get(key, ())):
                    if one == image:
                        runs = running[0] and number == 0 and order == 0
                        found.append(RUNNING if runs or self.always else place)
        return min(found, default=None)


@given(STEPS, st.booleans())
@example([("begin", 0, ["a"]), ("note", "a", ["1"]), ("end", 0, False)], False)
@example([("begin", 0, ["a"]), ("note", "a", ["1"]), ("expect", 1, ["a"]), ("end", 0, True)], False)
def test_each_change_of_what_is_needed_is_noticed(steps: list[Any], always: bool) -> None:
    claims, counted = Claims(always=always), Counted(always=always)
    for what, place, more in steps:
        before = {image: counted.of(image) for image in "123"}
        claims.changed.clear()
        for one in (claims, counted):
            if what == "end":
                one.end(place, last=more)
            elif what == "note":
                one.note(place, tuple(more))
            else:
                getattr(one, what)(place, more)
        assert {image: claims.of(image) for image in "123"} == {image: counted.of(image) for image in "123"}
        assert {image for image in "123" if counted.of(image) != before[image]} <= claims.changed


def test_a_trial_costs_the_same_among_few_and_among_many() -> None:
    def steps(many: int) -> int:
        claims = Claims(always=False)
        for place in range(many):
            claims.expect(place, [f"key-{place}"])
            claims.note(f"key-{place}", (f"image-{place}", "base"))
        looked = 0
        for place in range(many):
            claims.changed.clear()
            claims.begin(place, [f"key-{place}"])
            claims.end(place, last=True)
            looked += len(claims.changed)
            for image in claims.changed:
                claims.of(image)
        return looked

    assert steps(400) == 10 * steps(40)


def test_a_record_is_written_only_where_something_has_changed(engine: Engine) -> None:
    room = _room(engine)
    room.expect(0, ["a"])
    room.expect(1, ["a"])
    assert Ledger(HOST).stamp() is None, "nothing is known of the image"
    _bring(room, engine, "a")
    before = Ledger(HOST).stamp()
    room.expect(2, ["a"])
    room.note("a", "id-a", ())
    room.end(1, last=True)
    assert Ledger(HOST).stamp() == before
    room.begin(2, ["a"])
    assert Ledger(HOST).read().processes[str(current_owner())].claims == {"id-a": RUNNING}
    room.end(2, last=True)
    room.end(0, last=True)
    assert Ledger(HOST).read().processes[str(current_owner())].claims == {}


# How large an image is


@pytest.mark.parametrize("told", [Sizes(stored=30, unpacked=30), None])
def test_a_registry_is_asked_once_for_the_size_of_an_image_whatever_it_says(
    engine: Engine, told: Sizes | None
) -> None:
    room, asked = _room(engine, 10), []

    def sizes() -> Sizes | None:
        asked.append(told)
        return told

    _bring(room, engine, "other")
    room.begin(0, ["other"])
    for _ in range(10):
        with (
            pytest.raises((NoRoomNow, ImageTooLarge)),
            room.bringing("large", Urgency.AHEAD, lambda: None, sizes),
        ):
            raise AssertionError("there is room")
        room.begin(0, ["other"])  # whatever changes
        room.end(0, last=False)
    assert asked == [told]


# Room is waited for


def test_while_nothing_changes_nobody_lists_images_and_an_end_is_noticed_at_once(engine: Engine) -> None:
    room = _room(engine, 10)
    _bring(room, engine, "a")
    room.begin(0, ["a"])
    waits = 0

    def check() -> None:
        nonlocal waits
        waits += 1

    thread = threading.Thread(target=_bring, args=(room, engine, "b", Urgency.TRIAL, check))
    thread.start()
    until(lambda: waits > 3)
    listed, waits = engine.listed, 0
    until(lambda: waits > 20)
    assert engine.listed == listed
    room.end(0, last=True)
    thread.join(5)
    assert engine.images == {"b": "id-b"}


def test_room_that_becomes_free_unnoticed_is_found_in_the_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_ANYWAY", 0.05)
    room = _room(engine, 10)
    _bring(room, engine, "a")
    engine.containers.append("id-a")
    thread = threading.Thread(target=_bring, args=(room, engine, "b"))
    thread.start()
    time.sleep(0.1)  # it looks in vain meanwhile
    assert "b" not in engine.images
    engine.containers.clear()
    thread.join(5)
    assert engine.images == {"b": "id-b"}


def test_what_is_brought_ahead_looks_for_room_once_until_something_changes(engine: Engine) -> None:
    room = _room(engine, 10)
    _bring(room, engine, "a")
    room.begin(0, ["a"])
    for _ in range(2):  # the first look may itself write something down
        with pytest.raises(NoRoomNow):
            _bring(room, engine, "b", Urgency.AHEAD)
    listed = engine.listed
    for _ in range(10):
        with pytest.raises(NoRoomNow):
            _bring(room, engine, "b", Urgency.AHEAD)
    assert engine.listed == listed
    room.end(0, last=True)
    _bring(room, engine, "b", Urgency.AHEAD)
    assert engine.images == {"b": "id-b"}


# Removed


def test_while_an_image_is_removed_the_record_is_free_and_its_bytes_are_not(engine: Engine) -> None:
    room, other = _room(engine, 10), _room(engine, 10)
    _bring(room, engine, "a")
    with _removing(room, engine):
        room.expect(1, ["c"])
        with Ledger(HOST).opened(_stop) as book:
            assert book.is_going("id-a")
        with pytest.raises(NoRoomNow):
            _bring(other, engine, "c", Urgency.AHEAD)
        assert engine.removing == ["a"], "nobody else removes it"
    assert engine.images == {"b": "id-b"}
    book = Ledger(HOST).read()
    assert (set(book.images), book.is_going("id-a")) == ({"id-b"}, False)


def _stop() -> None:
    raise Stopped


def test_who_comes_to_need_an_image_that_is_being_removed_waits_and_brings_it_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(self: Registries, name: str, check: object, *, patient: bool = True) -> None:
        engine.images[name] = f"id-{name}"

    monkeypatch.setattr(Registries, "pull", pull)
    monkeypatch.setattr(
        "pytest_benchjobs.sandbox.docker.registry.sizes_of", lambda *_: Sizes(stored=10, unpacked=10)
    )
    images = Images(engine)  # type: ignore[arg-type]
    room = _room(engine, 20)
    images.keep_within(room)
    environment = Environment(image="a")
    assert images.resolve(environment, {}, {}).id == "id-a"
    other = _room(engine, 10)
    other.begin(0, ["b"])
    waiting: list[None] = []
    found: list[str] = []

    def resolve() -> None:
        found.append(images.resolve(environment, {}, {}, lambda: waiting.append(None)).id)

    with _removing(other, engine):
        room.begin(0, [images.key(environment, {}, {})])
        with pytest.raises(Stopped):
            images.resolve(environment, {}, {}, _stop)
        trial = threading.Thread(target=resolve)
        trial.start()
        until(lambda: len(waiting) > 3)
        assert found == []
        engine.may_remove.set()
        trial.join(5)
        assert found == ["id-a"]
        room.end(0, last=True)  # the place may have gone to the trial, and the other one waits for it
    assert "b" in engine.images


def test_without_a_limit_too(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    limited, free = _room(engine, 10), _room(engine, None, "other job")
    _bring(limited, engine, "a")
    with _removing(limited, engine):
        assert not free.settle("id-a", _stop)
        free.begin(0, ["key"])
        free.note("key", "id-a", ())
        with pytest.raises(Stopped):
            free.settle("id-a", _stop)
    assert free.settle("id-a", lambda: None)
    assert not free.settle("id-a", _stop), "that is over"


def test_what_is_brought_while_images_are_listed_is_not_forgotten(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, other = _room(engine, 30), _room(engine, 30)
    listed = room._listed

    def slowly() -> object:
        found = listed()
        if "b" not in engine.images:
            _bring(other, engine, "b")
        return found

    monkeypatch.setattr(room, "_listed", slowly)
    _bring(room, engine, "a")
    assert set(Ledger(HOST).read().images) == {"id-a", "id-b"}


def test_an_image_is_counted_once_also_while_it_is_recorded(engine: Engine) -> None:
    room, other = _room(engine), _room(engine)
    with room.bringing("a", Urgency.TRIAL, lambda: None, lambda: Sizes(stored=10, unpacked=10)):
        engine.images["a"] = "id-a"
        room.note("a", "id-a", ())
        room.expect(1, ["a"])
        room.record("a", engine.get("/images/a/json"), Urgency.TRIAL)
        # 10 of 20 bytes are taken, not 20.
        with other.bringing("b", Urgency.AHEAD, lambda: None, lambda: Sizes(stored=10, unpacked=10)):
            engine.images["b"] = "id-b"
            other.record("b", engine.get("/images/b/json"), Urgency.AHEAD)
    assert sorted(engine.images) == ["a", "b"]
    assert engine.removing == []


def test_an_image_that_is_too_large_is_removed_and_forgotten(engine: Engine) -> None:
    room = _room(engine, 5)
    engine.images["a"] = "id-a"
    with pytest.raises(ImageTooLarge, match="a takes 10 B"):
        room.record("a", engine.get("/images/a/json"), Urgency.TRIAL)
    book = Ledger(HOST).read()
    assert (engine.images, book.images, book.sizes) == ({}, {}, {"a": 10})
    assert [process.removing for process in book.processes.values()] == [[]]
