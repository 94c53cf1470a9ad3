"""What jobs record of their images: which may make way for another, and what a job knows of those of others."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.image_record import RUNNING, Brought, Process, Record, RecordFile

HOST = "unix:///engine.sock"
BROUGHT = Brought(name="a:1", bytes=5, job="one", used=1.0)
OWNER = current_owner()
JOBS = st.sampled_from(["one", "other"])
IDS = st.integers(0, 9).map(str)
RECORDS = st.builds(
    Record,
    images=st.dictionaries(
        IDS, st.builds(Brought, name=IDS, bytes=st.integers(0, 100), job=JOBS, used=st.floats(0, 1000))
    ),
    processes=st.dictionaries(
        st.sampled_from("abc"),
        st.builds(
            Process,
            owner=st.just(OWNER),
            job=JOBS,
            needs=st.dictionaries(IDS, st.integers(RUNNING, 20)),
            bringing=st.dictionaries(IDS, st.integers(0, 100)),
        ),
    ),
)


@given(RECORDS, st.booleans())
def test_what_no_trial_needs_goes_first_then_what_is_needed_last_and_the_rest_stays(
    record: Record, ahead: bool
) -> None:
    def place(image: str) -> int | None:
        """The first place at which it is needed; None: it is not."""
        needs = [
            process.needs[image] if process.job == "one" else RUNNING
            for process in record.processes.values()
            if image in process.needs
        ]
        return min(needs, default=None)

    removable = record.removable("one", ahead=ahead)
    own = [image for image, brought in record.images.items() if brought.job == "one"]
    unneeded = [image for image in own if place(image) is None]
    coming = [image for image in own if place(image) not in (None, RUNNING)]
    assert sorted(removable) == sorted(unneeded + ([] if ahead else coming))
    keys = [(0, record.images[one].used) if (at := place(one)) is None else (1, -at) for one in removable]
    assert keys == sorted(keys)
    brought = sum(record.images[image].bytes for image in own)
    bringing = [
        size for one in record.processes.values() if one.job == "one" for size in one.bringing.values()
    ]
    assert record.bytes_of("one") == brought + sum(bringing)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RecordFile:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path))
    return RecordFile(HOST)


class Stopped(Exception):
    pass


def _stop() -> None:
    raise Stopped


def test_processes_share_a_record(file: RecordFile, tmp_path: Path) -> None:
    with file.opened():
        (lock,) = (tmp_path / "locks").iterdir()
        assert lock.name.startswith("images-"), "with the other locks of the machine"
    assert [*(tmp_path / "images").iterdir()] == [], "nothing to write down"
    with file.opened() as record:
        record.images["sha256:1"] = BROUGHT
        record.process(OWNER, "one").needs["sha256:1"] = 7
    other = RecordFile(HOST).read()
    assert other.images == {"sha256:1": BROUGHT}
    assert other.processes[str(OWNER)].needs == {"sha256:1": 7}
    assert RecordFile("tcp://elsewhere:2375").read().images == {}, "each engine has images of its own"
    assert [path.suffix for path in (tmp_path / "images").iterdir()] == [".json"]


def test_what_was_changed_before_an_error_is_written(file: RecordFile) -> None:
    with contextlib.suppress(Stopped), file.opened() as record:
        record.images["sha256:1"] = BROUGHT
        _stop()
    assert file.read().images == {"sha256:1": BROUGHT}


def test_whoever_waits_for_the_record_can_be_stopped_be_it_a_thread_or_a_process_that_has_it(
    file: RecordFile,
) -> None:
    for other in (file, RecordFile(HOST)):
        with file.opened():
            started = time.monotonic()
            with pytest.raises(Stopped), other.opened(_stop):
                raise AssertionError("two of them")
            assert time.monotonic() - started < 5
    with file.opened(_stop):
        pass


def test_of_jobs_that_nobody_works_on_only_so_many_images_are_remembered_those_used_last(
    file: RecordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchjobs.sandbox.docker.image_record._MOST_IMAGES", 3)
    with file.opened() as record:
        record.process(OWNER, "runs")
        for number in range(6):
            for job in ("runs", "ended"):
                used = float(-number)
                record.images[f"{job}-{number}"] = Brought(name="x", bytes=1, job=job, used=used)
    kept = [f"{job}-{number}" for job, count in (("runs", 6), ("ended", 3)) for number in range(count)]
    assert sorted(file.read().images) == sorted(kept)


def test_only_a_living_process_needs_or_brings_images(file: RecordFile) -> None:
    dead = OWNER.model_copy(update={"pid": 2**22 + 1})
    with file.opened() as record:
        for owner in (OWNER, dead):
            record.process(owner, "one").bringing["x"] = 5
    with file.opened() as record:
        assert list(record.processes) == [str(OWNER)]
        assert record.bytes_of("one") == 5


@pytest.mark.parametrize("content", [b"", b"[]", b'{"images": 3}', b"\xff\x00"])
def test_a_record_that_cannot_be_read_is_empty(file: RecordFile, tmp_path: Path, content: bytes) -> None:
    with file.opened() as record:
        record.images["sha256:1"] = BROUGHT
    (path,) = tmp_path.glob("images/*.json")
    path.write_bytes(content)
    assert file.read().images == {}
    with file.opened() as record:
        record.images["sha256:2"] = BROUGHT
    assert set(file.read().images) == {"sha256:2"}
