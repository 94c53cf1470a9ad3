"""What comes along into a container for grading: files, and nothing that could do harm there."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterator

import pytest

from pytest_benchjobs.sandbox import carrying
from pytest_benchjobs.sandbox.carrying import Open, take
from pytest_benchjobs.sandbox.docker.changes import changed_below
from pytest_benchjobs.sandbox.protocol import Changed

FILE, LINK, HARD, PIPE, DIRECTORY = (
    tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
)  # fmt: skip


def _engine(*members: tuple[str, bytes, str | bytes], at: str = "/app") -> Open:
    """What an engine would answer: an archive of `at`, from (name, type, content or target)."""

    @contextlib.contextmanager
    def opened(path: str) -> Iterator[tuple[str, tarfile.TarFile] | None]:
        if path != at:
            yield None
            return
        with io.BytesIO() as buffer:
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                for name, kind, what in members:
                    member = tarfile.TarInfo(name)
                    member.type, member.mode, member.uid = kind, 0o6755, 7
                    member.pax_headers = {"SCHILY.xattr.security.capability": "x"}
                    if isinstance(what, bytes):
                        member.size = len(what)
                        tar.addfile(member, io.BytesIO(what))
                    else:
                        member.linkname = what
                        tar.addfile(member)
            buffer.seek(0)
            with tarfile.open(fileobj=buffer) as tar:
                yield path, tar

    return opened


def _taken(
    opened: Open, *, limit: int = 1000, only: frozenset[str] | None = None, exclude: tuple[str, ...] = ()
) -> tuple[dict[str, tarfile.TarInfo], str]:
    taken = take(opened, {"/app": exclude}, limit=limit, only=only)
    with contextlib.closing(taken.archive), tarfile.open(fileobj=taken.archive) as tar:
        return {member.name: member for member in tar}, "\n".join(taken.notes)


def test_files_keep_their_owner_and_lose_the_rights_of_others() -> None:
    found, notes = _taken(_engine(("app/", DIRECTORY, ""), ("app/a", FILE, b"1"), ("app/b", HARD, "app/a")))
    assert list(found) == ["app", "app/a", "app/b"]
    assert (found["app/a"].mode, found["app/a"].uid, found["app/a"].pax_headers) == (0o755, 7, {})
    assert found["app/b"].linkname == "app/a"
    assert notes == ""


@pytest.mark.parametrize(
    ("target", "comes"),
    [
        ("a", True),
        ("../app/a", True),
        ("/app/d/a", True),
        ("/tests/expected.txt", False),
        ("../tests/expected.txt", False),
        ("d/../../tests/expected.txt", False),
        ("d/e/up/../tests/x", False),
        ("/../tests/x", False),
        ("/application", False),
    ],
)
def test_a_link_comes_along_only_if_it_can_lead_nowhere_else(target: str, *, comes: bool) -> None:
    found, notes = _taken(_engine(("app/link", LINK, target)))
    assert ("app/link" in found) is comes
    assert ("a link that leads elsewhere" in notes) is not comes


def test_neither_pipes_nor_names_that_point_outside_nor_second_names_of_what_is_left_out_come_along() -> None:
    hostile = (("app/p", PIPE, ""), ("app/../etc/passwd", FILE, b"x"))
    second = (("app/x.tmp", FILE, b"1"), ("app/y", HARD, "app/x.tmp"))
    found, notes = _taken(_engine(*hostile, *second, ("app/ok", FILE, b"x")), exclude=("*.tmp",))
    assert list(found) == ["app/ok"]
    assert "/app/p is neither a file nor a directory" in notes


def test_more_bytes_or_files_than_the_limit_are_said_and_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = _engine(("app/a", FILE, b"12345"), ("app/b", FILE, b"123456"), ("app/c", FILE, b"1"))
    found, notes = _taken(opened, limit=10)
    assert list(found) == ["app/a"]
    assert "/app/b and what comes after it: too many bytes" in notes
    _, notes = _taken(
        _engine(("app/.git/x", FILE, b"1" * 50), ("app/z", FILE, b"1")), limit=10, exclude=(".git",)
    )
    assert "too much to read through" in notes
    monkeypatch.setattr(carrying, "FILES", 2)
    just = _engine(("app/a", FILE, b"12345"), ("app/b", FILE, b"12345"))
    found, notes = _taken(just, limit=10)
    assert (list(found), notes) == (["app/a", "app/b"], "")
    found, notes = _taken(opened)
    assert list(found) == ["app/a", "app/b"]
    assert "more than 2 files" in notes


def test_of_a_patch_only_what_changed_comes_along_with_the_directories_on_the_way() -> None:
    opened = _engine(
        ("app/", DIRECTORY, ""),
        ("app/same", FILE, b"1"),
        ("app/src/", DIRECTORY, ""),
        ("app/src/changed", FILE, b"1"),
        ("app/new/", DIRECTORY, ""),
        ("app/new/file", FILE, b"1"),
        ("app/other/", DIRECTORY, ""),
    )
    found, _ = _taken(opened, only=frozenset({"/app/src/changed", "/app/new"}))
    assert list(found) == ["app", "app/src", "app/src/changed", "app/new", "app/new/file"]


def test_what_is_not_there_is_said_in_no_more_than_twenty_notes() -> None:
    for missing, kept in ((1, 1), (20, 20), (21, 20)):
        taken = take(_engine(at="/else"), {f"/{number}": () for number in range(missing)}, limit=1)
        taken.archive.close()
        assert len(taken.notes) == kept
        assert taken.notes[0] == "not carried into the container for grading: /0 is not there"


def test_changes_below_a_directory_are_told_by_their_tops() -> None:
    changes = {
        "/app": 0, "/app/src": 0, "/app/src/a.py": 0, "/app/src/gone.py": 2, "/app/new": 1, "/app/new/b": 1,
        "/app/emptied": 0, "/app/emptied/x": 2, "/application": 1, "/etc/x": 1,
    }  # fmt: skip
    assert changed_below(changes, "/app") == Changed(
        ("/app/new", "/app/src/a.py"), ("/app/emptied/x", "/app/src/gone.py")
    )
