"""What goes through our program as records, and is an archive on this side, is the same after it as before."""

from __future__ import annotations

import itertools
import os
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_benchjobs.sandbox.archive import open_stream, pack, unpack
from pytest_benchjobs.sandbox.carry.records import HEADER, Kind, new_record
from pytest_benchjobs.sandbox.inside import archive_of_listing, script_of
from pytest_benchjobs.sandbox.protocol import Fetched, File

from .carrying import run_program

MOST = 1 << 16


def put(files: Iterable[File]) -> bool:
    """Put files in by the program; return whether it said nothing of any that it could not make."""
    with pack(files, "/") as archive:
        found = script_of(archive, MOST)
        assert found is not None
        return len(b"".join(run_program(("unpack", *found[0]), found[1]))) == HEADER.size


def listed(path: Path) -> bytes:
    """List a path with contents."""
    return b"".join(run_program(("walk", "-c", str(1 << 20), str(path)), ()))


def fetch(listing: bytes, destination: Path, step: int = 1000) -> Fetched | None:
    """Unpack what is listed."""
    pieces = archive_of_listing(listing[at : at + step] for at in range(0, len(listing), step))
    first = next(pieces, None)
    if first is None:
        return None
    return unpack(open_stream(itertools.chain((first,), pieces)), destination, limit=1 << 20)


def test_files_go_in_and_come_out_as_they_are(tmp_path: Path) -> None:
    source, there, back = (tmp_path / name for name in ("source", "there", "back"))
    long = "/".join(["n" * 200] * 4)
    contents = {
        "empty": b"",
        "a b/\u00fc": b"1",
        os.fsdecode(b"\xff\n"): b"2",
        long: b"3",
        "big": b"x" * 600_000,
    }
    for name, content in contents.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    (source / "link").symlink_to("a b")
    (source / "big").chmod(0o750)
    there.mkdir()
    (there / "empty").touch()
    assert put(
        [
            File(f"{there}/tree", clean=True),
            File(f"{there}/tree", source=source, readable=True),
            File(f"{there}/tree/big", source=source / "big", mode=0o755),
            File(f"{there}/new/made/x", content=b"x", owner=(os.getuid(), os.getgid())),
            File(f"{there}/empty", mode=0o700),
        ]
    )
    assert {path.relative_to(source) for path in source.rglob("*")} == {
        path.relative_to(there / "tree") for path in (there / "tree").rglob("*")
    }
    assert all((there / "tree" / name).read_bytes() == content for name, content in contents.items())
    modes = {
        name: stat.S_IMODE((there / name).stat().st_mode)
        for name in ("tree/big", "new", "new/made/x", "empty")
    }
    assert modes == {"tree/big": 0o755, "new": 0o755, "new/made/x": 0o644, "empty": 0o700}
    assert (there / "tree" / "big").stat().st_mtime == pytest.approx((source / "big").stat().st_mtime)
    fetched = fetch(listed(there / "tree"), back)
    assert fetched is not None
    assert fetched.notes == ()
    assert fetched.owners["big"] == os.getuid()
    assert (back / "link").is_symlink()
    assert (back / "big").read_bytes() == contents["big"]
    assert (back / long).read_bytes() == b"3"
    assert (back / "__").read_bytes() == b"2"


def test_a_hole_comes_as_zeros_and_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with (tmp_path / "there" / "hole").open("wb") as file:
        file.truncate(300_000)
        file.seek(100_000)
        file.write(b"x")
    os.mkfifo(tmp_path / "there" / "pipe")
    fetched = fetch(listed(tmp_path / "there"), tmp_path / "back")
    assert fetched is not None
    assert fetched.notes == ("pipe: neither a file nor a directory",)
    assert (tmp_path / "back" / "hole").read_bytes() == bytes(100_000) + b"x" + bytes(199_999)
    assert fetch(listed(tmp_path / "none"), tmp_path / "nothing") is None
    assert fetch(listed(tmp_path / "none" / "below"), tmp_path / "nothing") is None
    (tmp_path / "led").symlink_to("there")
    for path in (tmp_path / "led", tmp_path / "led" / "hole"):
        with pytest.raises(tarfile.ReadError):
            fetch(listed(path), tmp_path / "nothing")


@pytest.mark.parametrize(
    "there", ["directory/file", "led/file"], ids=["it-holds-something", "a-link-leads-there"]
)
def test_what_the_program_cannot_make_it_says(tmp_path: Path, there: str) -> None:
    (tmp_path / "directory" / "file").mkdir(parents=True)
    (tmp_path / "directory" / "file" / "kept").touch()
    (tmp_path / "led").symlink_to("directory")
    assert not put([File(f"{tmp_path}/{there}", content=b"x", clean=True)])


@pytest.mark.parametrize(
    "files", [[File("/x", content=b"", mode=0o4755)], [File("/")], [File(f"/{'x' * 200}/{at}") for at in range(400)]],
    ids=["set-id", "the-root", "too-many"],
)  # fmt: skip
def test_what_it_does_not_make_is_left_to_the_engine(files: list[File]) -> None:
    with pack(files, "/") as archive:
        assert script_of(archive, MOST) is None


def test_a_second_name_of_a_file_is_left_to_the_engine(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    with pack([File("/x", source=tmp_path)], "/") as archive:
        assert script_of(archive, MOST) is None


def test_a_listing_that_is_cut_or_makes_no_sense_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"content")
    whole = listed(tmp_path / "there")
    assert fetch(whole, tmp_path / "whole") == Fetched(("file",), 7)
    at = whole.index(b"content")
    forged = {
        "missing": whole[: at + 19] + b"\5\0\0\0" + whole[at + 23 :],
        "beyond": whole[: at - 12] + b"\1" + whole[at - 11 :],
        "endless": whole[: at - 4] + b"\xff\xff\xff\xff" + whole[at:],
        "unread": whole[: -3 * HEADER.size] + _unread() + whole[-2 * HEADER.size :],
        **{f"cut at {end}": whole[:end] for end in range(HEADER.size, len(whole), 7)},
    }
    for what, listing in forged.items():
        with pytest.raises(tarfile.ReadError):
            fetch(listing, tmp_path / what)


def _unread() -> bytes:
    record = new_record(Kind.LEAVE)
    return record[:-24] + b"\5" + record[-23:]
