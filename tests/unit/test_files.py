"""Writing of files so that a power cut loses none."""

from __future__ import annotations

import contextlib
import os
import tempfile
import types
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import DiskFull
from pytest_benchjobs.store.files import check_room, remove_tree, sync_directory

from .rights import as_nobody


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


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_tree_goes_whatever_permissions_an_agent_gave_it() -> None:
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    root.chmod(0o777)
    trees = [root / f"{mode:o}" for mode in (0o000, 0o400, 0o500)]

    def work() -> None:
        for tree in trees:
            inner = tree / "agent/locked/inner"
            inner.mkdir(parents=True)
            (inner / "file").touch()
            inner.chmod(int(tree.name, 8))
            (inner.parent / "file").touch()
            inner.parent.chmod(int(tree.name, 8))
            remove_tree(tree)

    try:
        assert as_nobody(work) == 0
        assert [tree.name for tree in trees if tree.exists()] == []
    finally:
        remove_tree(root)


def test_a_tree_deeper_than_python_calls_goes(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    here = os.open(top, os.O_RDONLY)
    for level in range(3000):
        os.mkdir("deep", dir_fd=here)
        os.close(os.open(f"file-{level}", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        if level % 500 == 0:
            os.symlink(outside, "link", dir_fd=here)
            os.chmod(here, 0o500)  # noqa: PTH101  a descriptor
            os.chmod(here, 0o700)  # noqa: PTH101
    os.chmod(here, 0o000)  # noqa: PTH101
    os.close(here)
    for _ in range(2):  # one that is not there needs no removal
        remove_tree(top)
    assert not top.exists()
    assert (outside / "file").exists()
