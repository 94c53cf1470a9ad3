"""Whatever an archive holds, nothing is written outside its directory or beyond its limits."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.sandbox import archive as module
from pytest_benchjobs.sandbox.archive import excluded, open_stream, pack, safe_name, unpack
from pytest_benchjobs.sandbox.protocol import Fetched, File

from .examples import at_most


def _tar(*entries: tuple[str, bytes, object]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, value in entries:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                assert isinstance(value, bytes)
                member.size = len(value)
                tar.addfile(member, io.BytesIO(value))
            else:
                member.linkname = str(value)
                tar.addfile(member)
    return buffer.getvalue()


def _unpack(data: bytes, destination: Path, limit: int = 1000, step: int = 700) -> Fetched:
    chunks = (data[start : start + step] for start in range(0, len(data), step))
    return unpack(open_stream(chunks), destination, limit=limit)


FILE, LINK, HARD, DIRECTORY, DEVICE = (
    tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE,
)  # fmt: skip


def test_a_tree_arrives_whole(tmp_path: Path) -> None:
    fetched = _unpack(
        _tar(("o", DIRECTORY, ""), ("o/a", FILE, b"1"), ("o/s/b", FILE, b"22"), ("o/l", LINK, "s/b")),
        tmp_path / "out",
    )
    assert fetched == Fetched(("a", "s/b", "l"), 3, ())
    assert (tmp_path / "out" / "l").read_bytes() == b"22"


def test_nothing_is_written_through_links_or_outside(tmp_path: Path) -> None:
    fetched = _unpack(
        _tar(
            ("o/up", LINK, "../../.."),
            ("o/up/evil", FILE, b"x"),
            ("../evil", FILE, b"x"),
            ("/evil", FILE, b"x"),
            ("o/../../evil", FILE, b"x"),
            ("o/passwd", HARD, "/etc/passwd"),
            ("o/etc", LINK, "/etc"),
            ("o/null", DEVICE, ""),
        ),
        tmp_path / "out",
    )
    assert fetched.files == ("up/evil",)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(fetched.notes) == 7


def test_names_that_become_one_are_not_mixed_up_silently(tmp_path: Path) -> None:
    fetched = _unpack(_tar(("o/a\x1b", FILE, b"1"), ("o/a\x07/b", FILE, b"2")), tmp_path / "out")
    assert fetched.files == ("a_",)
    assert len(fetched.notes) == 1


def test_the_limit_holds_and_small_files_behind_a_big_one_still_come(tmp_path: Path) -> None:
    fetched = _unpack(
        _tar(("o/a", FILE, b"x" * 60), ("o/b", FILE, b"x" * 60), ("o/c", FILE, b"x" * 40)),
        tmp_path / "out",
        limit=100,
    )
    assert (fetched.files, fetched.bytes) == (("a", "c"), 100)
    assert fetched.notes == ("b: 60 bytes would exceed the limit of 100 bytes",)


NAMES = st.text(st.sampled_from("ab./\x1b\u202e é\\"), min_size=1, max_size=12)


@at_most(150)
@given(
    st.lists(
        st.one_of(
            st.tuples(NAMES, st.just(FILE), st.binary(max_size=50)),
            st.tuples(NAMES, st.sampled_from([LINK, HARD]), NAMES),
            st.tuples(NAMES, st.sampled_from([DIRECTORY, DEVICE]), st.just("")),
        ),
        max_size=8,
    )
)
def test_no_archive_escapes_or_raises(entries: list[tuple[str, bytes, object]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        fetched = _unpack(_tar(*entries), root / "out", limit=100)
        assert {path.name for path in root.iterdir()} <= {"out"}
        assert fetched.bytes <= 100
        for path in (root / "out").rglob("*"):
            assert path.resolve().is_relative_to(root.resolve())
            assert path.name.isprintable()


def test_a_name_is_made_harmless() -> None:
    assert safe_name("ok é\x1b[2J\n\udce4\u202e") == "ok é_[2J___"


def test_bytecode_that_python_left_on_this_machine_is_not_packed(tmp_path: Path) -> None:
    for name in ("__pycache__/a.pyc", "deeper/__pycache__/b.pyc", "deeper/b.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text("x")
    with (
        pack([File("/tests", source=tmp_path / "tests")], "/app") as archive,
        tarfile.open(fileobj=archive) as tar,
    ):
        assert sorted(tar.getnames()) == ["tests", "tests/deeper", "tests/deeper/b.py"]
    # Whoever names the directory itself means it.
    named = File("/here", source=tmp_path / "tests" / "__pycache__")
    with pack([named], "/app") as archive, tarfile.open(fileobj=archive) as tar:
        assert sorted(tar.getnames()) == ["here", "here/a.pyc"]


def test_what_has_to_be_readable_is_for_everybody_and_runs_no_more_than_before(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "inner").mkdir(parents=True)
    for name, mode in (("plain", 0o600), ("inner/program", 0o700)):
        (top / name).write_text("1")
        (top / name).chmod(mode)
    (top / "inner").chmod(0o700)

    def modes(**options: Any) -> dict[str, int]:
        with pack([File("/top", source=top, **options)], "/app") as data, tarfile.open(fileobj=data) as tar:
            return {member.name: member.mode & 0o777 for member in tar}

    places = ("top/plain", "top/inner", "top/inner/program")
    assert [modes()[place] for place in places] == [0o600, 0o700, 0o700]
    assert [modes(readable=True)[place] for place in places] == [0o644, 0o755, 0o744]
    assert modes(mode=0o500)["top"] == 0o500
    assert modes(mode=0o500)["top/plain"] == 0o600


def test_a_directory_may_come_after_what_is_in_it_and_more_than_once(tmp_path: Path) -> None:
    fetched = _unpack(
        _tar(("o/a/b", FILE, b"1"), ("o/a", DIRECTORY, ""), ("o/a", DIRECTORY, ""), ("o/c", DIRECTORY, "")),
        tmp_path / "out",
    )
    assert fetched == Fetched(("a/b",), 1, ())
    assert (tmp_path / "out" / "c").is_dir()


@pytest.mark.parametrize("top", ["o", ".", "..."])
def test_what_is_there_comes_whatever_the_top_is_called(top: str, tmp_path: Path) -> None:
    entries = [
        (f"{top}/", DIRECTORY, ""),
        (f"{top}/done", FILE, b""),
        (f"{top}/j/x", FILE, b"1"),
        (f"{top}/k/x", FILE, b"2"),
        (f"{top}/k/y", HARD, f"{top}/j/x"),
    ]
    fetched = _unpack(_tar(*entries), tmp_path / "out")
    assert fetched == Fetched(("done", "j/x", "k/x", "k/y"), 3, ())
    assert [(tmp_path / "out" / name).read_text() for name in fetched.files] == ["", "1", "2", "1"]


def test_as_many_notes_come_as_the_limit_and_then_it_is_said(tmp_path: Path) -> None:
    notes = _unpack(_tar(*[("o/x", DEVICE, "")] * 102), tmp_path / "x").notes
    assert (len(notes), notes[-1]) == (101, "more was left out")


def test_what_is_left_out_is_named_also_if_it_is_the_top(tmp_path: Path) -> None:
    for name, kind, note in (
        ("o", FILE, "out: 2 bytes would exceed the limit of 1 bytes"),
        ("o", DEVICE, "out: neither a file nor a directory"),
    ):
        assert _unpack(_tar((name, kind, b"12")), tmp_path / "out", limit=1) == Fetched((), 0, (note,))
    # The engine leaves out sockets.
    assert _unpack(_tar(), tmp_path / "out").notes == ("out: neither a file nor a directory",)


@pytest.mark.parametrize(
    ("limit", "files", "full"),
    [
        (8, ("a/1", "a/2", "a/3", "b", "c/1", "z"), []),
        (5, ("a/1", "a/2", "a/3", "b", "z"), [("c", 5)]),
        (4, ("a/1", "a/2", "a/3", "c/1", "z"), [("b", 4)]),
        (2, ("a/1", "b"), [("a", 2), ("c", 1)]),
    ],
)
def test_what_is_beside_too_many_files_still_comes(
    limit: int,
    files: tuple[str, ...],
    full: list[tuple[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", limit)
    names = ("a", "a/1", "a/2", "a/3", "b", "c/1", "z")
    data = _tar(*((f"o/{name}", DIRECTORY if name == "a" else FILE, b"1") for name in names))
    fetched = _unpack(data, tmp_path / "out")
    said = [f"{name}: more than {most} files: it, or the rest of it, is left out" for name, most in full]
    assert (fetched.files, list(fetched.notes)[: len(said)]) == (files, said)


def test_much_that_is_left_out_is_read_through_and_then_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LEAST_SKIPPED", 0)
    monkeypatch.setattr(module, "_MOST_SKIPPED", 40)
    for size, files in ((20, ("z",)), (21, ())):
        entries = [("o/a", FILE, b"x" * 20), ("o/b", FILE, b"x" * size), ("o/z", FILE, b"1")]
        found = _unpack(_tar(*entries), tmp_path / str(size), limit=10)
        assert found.files == files
        assert ("too much to read through: the rest is left out" in found.notes) is not bool(files)
        # What is left out on purpose counts as well.
        chunks = iter([_tar(*entries)])
        assert unpack(open_stream(chunks), tmp_path / f"x{size}", limit=10, exclude=("a", "b")).files == files
    assert _unpack(
        _tar(*[(f"o/{at}", FILE, b"x" * 8) for at in range(20)]), tmp_path / "b", limit=8
    ).files == ("0",)


def test_a_second_name_of_a_file_is_a_second_file_and_counts_as_one(tmp_path: Path) -> None:
    entries = [
        ("o/a", FILE, b"12345"),
        ("o/sub/b", HARD, "o/a"),
        ("o/c", HARD, "o/none"),
        ("o/d", FILE, b"1"),
    ]
    found = _unpack(_tar(*entries), tmp_path / "out", limit=11)
    assert found == Fetched(("a", "d", "sub/b"), 11, ("c: a link to something that was left out",))
    assert (tmp_path / "out/sub/b").read_bytes() == b"12345"
    found = _unpack(_tar(*entries), tmp_path / "less", limit=10)
    assert (found.files, found.bytes) == (("a", "d"), 6)
    assert "sub/b: would exceed the limit of 10 bytes" in found.notes
    _unpack(_tar(("o/a\x1b", FILE, b"1"), ("o/a\x07", HARD, "o/a\x1b")), tmp_path / "one")
    assert (tmp_path / "one/a_").read_bytes() == b"1"


def test_a_file_is_ours_to_read_and_as_runnable_as_it_was(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in (("none", 0), ("all", 0o7777), ("plain", 0o640)):
            member = tarfile.TarInfo(f"o/{name}")
            member.mode = mode
            tar.addfile(member)
    before = os.umask(0)
    try:
        _unpack(buffer.getvalue(), tmp_path / "out")
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o7777) for path in (tmp_path / "out").iterdir()}
    assert modes == {"none": "0o600", "all": "0o755", "plain": "0o640"}


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("n" * 200, True),
        ("n" * 201, False),
        ("é" * 101, False),
        ("/".join(["n" * 199] * 5) + "n", True),
        ("/".join(["n" * 199] * 5) + "/n", False),
    ],
)
def test_a_name_that_the_host_could_not_hold_is_left_out(name: str, *, fits: bool, tmp_path: Path) -> None:
    found = _unpack(_tar((f"o/{name}", FILE, b"1"), ("o/z", FILE, b"1")), tmp_path / "o")
    assert found.files == ((name, "z") if fits else ("z",))
    assert [note.endswith("...: the name is too long") for note in found.notes] == [True] * (not fits)


def test_one_file_alone_is_written_as_the_destination(tmp_path: Path) -> None:
    data = _tar(("o", FILE, b"12345"))
    # Engines send empty chunks now and then.
    chunks = iter([b"", data[:600], b"", b"", data[600:]])
    assert unpack(open_stream(chunks), tmp_path / "sub/x", limit=5) == Fetched(("x",), 5, ())
    assert (tmp_path / "sub/x").read_bytes() == b"12345"


def test_an_archive_is_whole_only_with_its_end(tmp_path: Path) -> None:
    # A name that takes a header of its own, content that looks like an end, and borders of members.
    entries = [
        ("d", DIRECTORY, ""),
        ("d/" + "n" * 150, FILE, bytes(1024)),
        ("d/l", LINK, "x"),
        ("d/b", FILE, b"1"),
    ]
    data = _tar(*entries)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        borders = {member.offset for member in tar}
        end = tar.offset
    assert {0, 512} < borders
    for cut in sorted({*range(0, end, 256), *borders, end}):
        with pytest.raises(tarfile.TarError):
            unpack(open_stream(iter([data[:cut]])), tmp_path / str(cut), limit=9999)
    assert unpack(open_stream(iter([data[: end + 512]])), tmp_path / "whole", limit=9999).bytes == 1025


@pytest.mark.parametrize(
    ("name", "patterns", "out"),
    [
        ("a/b/c", ("a/b",), True),
        ("a/b/c", ("b/",), True),
        ("a/b/c", ("b/c",), False),
        ("a/b/c", ("a/b/c",), True),
        ("a/b/c", ("x", "*c"), True),
        ("a/b/c", (), False),
        ("", ("*",), False),
    ],
)
def test_a_pattern_leaves_out_a_part_of_a_path_or_what_is_above_it(
    name: str, patterns: tuple[str, ...], *, out: bool
) -> None:
    assert excluded(name, patterns) is out


def test_what_is_packed_is_roots_has_the_mode_it_was_given_and_no_pipes_and_first_clears_the_way(
    tmp_path: Path,
) -> None:
    (tmp_path / "t").mkdir()
    os.mkfifo(tmp_path / "t/pipe")
    (tmp_path / "t/link").symlink_to("file")
    (tmp_path / "t/file").write_text("1")
    (tmp_path / "t/file").chmod(0o755)
    files = [
        File("/clean", clean=True, mode=0o777),
        File("plain", content=b""),
        File("private", content=b"1", mode=0o400),
        File("closed", content=b"1", mode=0),
        File("directory"),
        File("open", mode=0o777),
        File("nothing", mode=0),
        File("tree", source=tmp_path / "t"),
    ]
    with pack(files, "/app") as data, tarfile.open(fileobj=data) as tar:
        packed = list(tar)
    assert [(member.name, member.type, member.mode) for member in packed[:3]] == [
        ("clean", FILE, 0o644), ("clean", DIRECTORY, 0o777), ("app/plain", FILE, 0o644),
    ]  # fmt: skip
    members = {member.name.removeprefix("app/"): member for member in packed[2:]}
    modes = {name: member.mode for name, member in members.items() if name not in ("tree", "tree/link")}
    assert modes == {
        "plain": 0o644, "private": 0o400, "closed": 0, "directory": 0o755, "open": 0o777, "nothing": 0,
        "tree/file": 0o755,
    }  # fmt: skip
    assert sorted(name for name in members if name.startswith("tree")) == ["tree", "tree/file", "tree/link"]
    owners = {(member.uid, member.gid, member.uname, member.gname) for member in packed}
    assert owners == {(0, 0, "", "")}
    assert all(member.mtime > 0 for member in members.values())
