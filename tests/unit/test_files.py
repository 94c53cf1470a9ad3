"""Writing of files so that a power cut loses none."""

from __future__ import annotations

import contextlib
import os
import types
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import DiskFull
from pytest_benchjobs.store.files import check_room, sync_directory


def test_a_directory_that_was_synced_is_not_held_open(tmp_path: Path) -> None:
    lowest_free = os.open(tmp_path, os.O_RDONLY)
    os.close(lowest_free)
    sync_directory(tmp_path)
    sync_directory(tmp_path / "gone")
    again = os.open(tmp_path, os.O_RDONLY)
    os.close(again)
    assert again == lowest_free


@pytest.mark.parametrize(
    ("room", "is_full"),
    [
        ({"f_bavail": 1 << 30, "f_files": 1000, "f_favail": 10}, False),
        ({"f_bavail": 100, "f_files": 1000, "f_favail": 10}, True),
        ({"f_bavail": 1 << 30, "f_files": 1000, "f_favail": 0}, True),  # bytes, but no files
        ({"f_bavail": 1 << 30, "f_files": 0, "f_favail": 0}, False),  # one that does not count files
        ({"f_bavail": 256, "f_files": 0, "f_favail": 0}, False),  # just enough
        (None, False),
    ],
)
def test_a_disk_is_full_without_bytes_and_without_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: dict[str, int] | None, is_full: bool
) -> None:
    def statvfs(_: object) -> types.SimpleNamespace:
        if room is None:
            raise OSError
        return types.SimpleNamespace(f_frsize=4096, **room)

    monkeypatch.setattr(os, "statvfs", statvfs)
    with pytest.raises(DiskFull) if is_full else contextlib.nullcontext():
        check_room(tmp_path)
