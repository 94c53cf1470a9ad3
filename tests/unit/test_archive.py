"""Whatever an archive holds, nothing is written outside its directory or beyond its limits."""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.sandbox.archive import open_stream, pack, safe_name, unpack
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
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.DIRTYPE,
    tarfile.CHRTYPE,
)


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


def test_packing_sends_what_is_in_the_way_first_and_makes_root_the_owner(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "run.sh").write_text("x")
    (tmp_path / "t" / "run.sh").chmod(0o755)
    files = [
        File("in.txt", content=b"1"),
        File("/clean", clean=True, mode=0o777),
        File("/tests", source=tmp_path / "t"),
    ]
    with pack(files, "/app") as archive, tarfile.open(fileobj=archive) as tar:
        members = [(m.name, m.type, oct(m.mode), m.uid, m.uname) for m in tar]
    assert members[:3] == [
        ("app/in.txt", FILE, "0o644", 0, ""),
        ("clean", FILE, "0o644", 0, ""),
        ("clean", DIRECTORY, "0o777", 0, ""),
    ]
    assert members[-1] == ("tests/run.sh", FILE, "0o755", 0, "")


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

    kept = modes()
    assert (kept["top/plain"], kept["top/inner"], kept["top/inner/program"]) == (0o600, 0o700, 0o700)
    readable = modes(readable=True)
    assert (readable["top/plain"], readable["top/inner"], readable["top/inner/program"]) == (
        0o644,
        0o755,
        0o744,
    )
    assert modes(mode=0o500)["top"] == 0o500
    assert modes(mode=0o500)["top/plain"] == 0o600


def test_a_directory_may_come_after_what_is_in_it_and_more_than_once(tmp_path: Path) -> None:
    fetched = _unpack(
        _tar(("o/a/b", FILE, b"1"), ("o/a", DIRECTORY, ""), ("o/a", DIRECTORY, ""), ("o/c", DIRECTORY, "")),
        tmp_path / "out",
    )
    assert fetched == Fetched(("a/b",), 1, ())
    assert (tmp_path / "out" / "c").is_dir()
