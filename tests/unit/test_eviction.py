"""Which images make way for another, and what a job knows of those of others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.eviction import Candidate, Need, evictions
from pytest_benchjobs.sandbox.docker.ledger import Brought, Ledger

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.integers(0, 10**9).map(str),
        bytes=st.integers(0, 100),
        used=st.floats(0, 1000),
        need=st.sampled_from(Need),
        place=st.integers(0, 50),
    ),
    max_size=12,
    unique_by=lambda image: image.id,
)
SIZES = st.integers(0, 300)


@given(CANDIDATES, SIZES, SIZES, SIZES, st.booleans())
def test_what_is_brought_fits_or_nothing_is_removed(
    images: list[Candidate], reserved: int, wanted: int, limit: int, ahead: bool
) -> None:
    chosen = evictions(images, reserved=reserved, wanted=wanted, limit=limit, ahead=ahead)
    removable = {Need.NONE} if ahead else {Need.NONE, Need.COMING}
    stays = sum(image.bytes for image in images if image.need not in removable)
    assert (chosen is None) == (stays + reserved + wanted > limit)
    if chosen is None:
        return
    left = [image for image in images if image not in chosen]
    assert sum(image.bytes for image in left) + reserved + wanted <= limit
    assert all(image.need in removable for image in chosen)
    if chosen:
        without_last = sum(image.bytes for image in left) + chosen[-1].bytes
        assert without_last + reserved + wanted > limit, "no more goes than has to"


@given(CANDIDATES, SIZES, SIZES)
def test_what_is_not_needed_goes_first_and_then_what_is_needed_last(
    images: list[Candidate], wanted: int, limit: int
) -> None:
    chosen = evictions(images, reserved=0, wanted=wanted, limit=limit, ahead=False) or ()
    assert [image.need for image in chosen] == sorted(image.need for image in chosen)
    unneeded = [image for image in chosen if image.need is Need.NONE]
    coming = [image for image in chosen if image.need is Need.COMING]
    assert [image.used for image in unneeded] == sorted(image.used for image in unneeded)
    assert [image.place for image in coming] == sorted((image.place for image in coming), reverse=True)
    left = [image for image in images if image not in chosen]
    if unneeded:
        assert all(one.used >= unneeded[-1].used for one in left if one.need is Need.NONE)
    if coming:
        assert not any(one.need is Need.NONE for one in left)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ledger:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path))
    return Ledger("unix:///engine.sock")


BROUGHT = Brought(name="a:1", bytes=5, job="one", used=1.0)


class Stopped(Exception):
    pass


def _stop() -> None:
    raise Stopped


def test_processes_share_a_record(ledger: Ledger, tmp_path: Path) -> None:
    assert not ledger.exists
    with ledger.opened() as book:
        (lock,) = (tmp_path / "locks").iterdir()
        assert lock.name.startswith("images-"), "with the other locks of the machine"
        book.images["sha256:1"] = BROUGHT
        book.process(current_owner(), "one").claims["sha256:1"] = 7
    other = Ledger("unix:///engine.sock").read()
    assert other.images == {"sha256:1": BROUGHT}
    assert other.processes[str(current_owner())].claims == {"sha256:1": 7}
    assert Ledger("tcp://elsewhere:2375").read().images == {}, "each engine has images of its own"
    assert [path.suffix for path in (tmp_path / "images").iterdir()] == [".json"]


def test_whoever_waits_for_the_record_can_be_stopped_be_it_a_thread_or_a_process_that_has_it(
    ledger: Ledger,
) -> None:
    for other in (ledger, Ledger("unix:///engine.sock")):
        with ledger.opened():
            started = time.monotonic()
            with pytest.raises(Stopped), other.opened(_stop):
                raise AssertionError("two of them")
            assert time.monotonic() - started < 5
    with ledger.opened(_stop):
        pass


def test_the_state_of_the_record_tells_if_anything_was_written(ledger: Ledger) -> None:
    assert ledger.stamp() is None
    with ledger.opened():
        pass
    assert not ledger.exists, "nothing to write down"
    with ledger.opened() as book:
        book.sizes["a:1"] = 1
    before = ledger.stamp()
    with ledger.opened() as book:
        assert book.sizes == {"a:1": 1}
    assert ledger.stamp() == before
    with ledger.opened() as book:
        book.sizes["a:1"] = 2
    assert ledger.stamp() != before


def test_of_jobs_that_nobody_works_on_only_so_many_images_are_remembered_those_used_last(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchjobs.sandbox.docker.ledger._MOST_IMAGES", 3)
    with ledger.opened() as book:
        book.process(current_owner(), "runs")
        for number in range(6):
            for job in ("runs", "ended"):
                used = float(-number)
                book.images[f"{job}-{number}"] = Brought(name="x", bytes=1, job=job, used=used)
    kept = [f"{job}-{number}" for job, count in (("runs", 6), ("ended", 3)) for number in range(count)]
    assert sorted(ledger.read().images) == sorted(kept)


def test_only_a_living_process_removes_or_needs_images(ledger: Ledger) -> None:
    dead = current_owner().model_copy(update={"pid": 2**22 + 1})
    with ledger.opened() as book:
        book.process(current_owner(), "one").removing.append("sha256:1")
        book.process(dead, "one").removing.append("sha256:2")
        assert [book.is_going(f"sha256:{number}") for number in (1, 2, 3)] == [True, False, False]
    with ledger.opened() as book:
        assert list(book.processes) == [str(current_owner())]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"images": 3}', b"\xff\x00"])
def test_a_record_that_cannot_be_read_is_empty(ledger: Ledger, tmp_path: Path, content: bytes) -> None:
    with ledger.opened() as book:
        book.images["sha256:1"] = BROUGHT
    (path,) = tmp_path.glob("images/*.json")
    path.write_bytes(content)
    assert ledger.read().images == {}
    with ledger.opened() as book:
        book.images["sha256:2"] = BROUGHT
    assert set(ledger.read().images) == {"sha256:2"}
