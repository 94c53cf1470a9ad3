"""Writing of files so that a power cut loses none."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_benchjobs.store.files import sync_directory


def test_a_directory_that_was_synced_is_not_held_open(tmp_path: Path) -> None:
    lowest_free = os.open(tmp_path, os.O_RDONLY)
    os.close(lowest_free)
    sync_directory(tmp_path)
    sync_directory(tmp_path / "gone")
    again = os.open(tmp_path, os.O_RDONLY)
    os.close(again)
    assert again == lowest_free
