"""What git ignores of what an agent left, by what git says in the container for grading."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterable
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EnvironmentFailed
from pytest_benchjobs.sandbox.protocol import ExecResult, File, Taken
from pytest_benchjobs.trial.fresh import Carried, _batches
from pytest_benchjobs.trial.ignored import without_ignored

FILE, DIRECTORY, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE


class Sandbox:
    """One in which git ignores these paths, and gives up on paths behind a link or in a submodule."""

    workdir = "/app"

    def __init__(
        self,
        *ignored: str,
        links: Iterable[str] = (),
        submodules: Iterable[str] = (),
        breaks: str | None = None,
    ) -> None:
        self.ignored, self.links, self.submodules, self.breaks = set(ignored), links, submodules, breaks
        self.asked: list[list[str]] = []
        self.ran: list[str] = []

    def put(self, files: Iterable[File]) -> None:
        (file,) = files
        assert file.content is not None
        assert file.clean
        self.asked.append(file.content.decode("utf-8", "surrogateescape").split("\0"))

    def exec(self, argv: Any, *, timeout: float, sink: Any, stdout: Any, user: str) -> ExecResult:
        assert user == "root"
        command = argv[-1]
        self.ran.append(command)
        status, found = 0, []
        if "check-ignore" in command:
            behind = [name for name in self.asked[-1] for way in (*self.links, *self.submodules)
                      if name.startswith(f"{way}/")]  # fmt: skip
            found = [name for name in self.asked[-1] if name in self.ignored]
            status = 128 if behind or self.breaks is not None else int(not found)
            sink(f"fatal: {self.breaks or behind}\n".encode() if self.breaks != "" else b"")
        elif "ls-files" in command:
            found = [f"160000 abc 0\t{name.removeprefix('/app/')}" for name in self.submodules]
            found.append("100644 abc 0\tplain")
        else:
            found = list(self.links)
        stdout("".join(f"{name}\0" for name in found).encode("utf-8", "surrogateescape"))
        return ExecResult(status, timed_out=False, seconds=0.1)


def carried(*members: tuple[str, bytes, bytes | str], gone: tuple[str, ...] = ()) -> Carried:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, what in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if isinstance(what, bytes):
                member.size = len(what)
                tar.addfile(member, io.BytesIO(what))
            else:
                member.linkname = what
                tar.addfile(member)
    buffer.seek(0)
    return Carried(taken=(Taken(buffer, ("a note",)),), gone=gone)


def left(of: Carried) -> dict[str, bytes | None]:
    (taken,) = of.taken
    assert taken.archive.tell() == 0
    with contextlib.closing(taken.archive), tarfile.open(fileobj=taken.archive) as tar:
        return {
            member.name: content.read() if (content := tar.extractfile(member)) is not None else None
            for member in tar
        }


def test_what_is_ignored_is_left_out_and_not_removed_either() -> None:
    sandbox: Any = Sandbox("/app/build/", "/app/build/x", "/app/\udcff.pyc", "/app/old.log")
    of = carried(
        ("app/a", FILE, b"1"), ("app/build", DIRECTORY, b""), ("app/build/x", FILE, b"2"),
        ("app/\udcff.pyc", FILE, b"3"), gone=("/app/old.log", "/app/b"),
    )  # fmt: skip
    found = without_ignored(of, sandbox)
    assert left(found) == {"app/a": b"1"}
    assert (found.gone, found.notes) == (("/app/b",), ("a note",))
    assert sandbox.asked == [
        sorted(["/app/a", "/app/build/", "/app/build/x", "/app/\udcff.pyc", "/app/old.log", "/app/b"])
    ]
    assert len(sandbox.ran) == 1


def test_where_nothing_is_ignored_it_is_carried_as_it_is() -> None:
    of = carried(("app/a", FILE, b"1"))
    assert without_ignored(of, Sandbox()) is of  # type: ignore[arg-type]
    assert left(of) == {"app/a": b"1"}
    sandbox: Any = Sandbox()
    nothing = carried()
    assert without_ignored(nothing, sandbox) is nothing
    assert sandbox.asked == []


def test_a_second_name_of_what_is_ignored_becomes_the_file() -> None:
    of = carried(
        ("app/x.log", FILE, b"12345"),
        ("app/kept", HARD, "app/x.log"),
        ("app/b", FILE, b"1"),
        ("app/c", HARD, "app/b"),
    )
    found = without_ignored(of, Sandbox("/app/x.log"))  # type: ignore[arg-type]
    assert left(found) == {"app/kept": b"12345", "app/b": b"1", "app/c": b"1"}


def test_behind_a_link_the_link_is_asked_for_and_of_a_submodule_nothing_comes() -> None:
    sandbox: Any = Sandbox("/app/data", "/app/z", links=("/app/data", "/app/other"), submodules=("/app/sub",))
    of = carried(
        ("app/data/in/a", FILE, b"1"), ("app/other/b", FILE, b"2"), ("app/sub/c", FILE, b"3"),
        ("app/sub2", FILE, b"4"), ("app/z", FILE, b"5"),
    )  # fmt: skip
    assert left(without_ignored(of, sandbox)) == {"app/other/b": b"2", "app/sub2": b"4"}
    assert sandbox.asked[1:] == [["/app/data", "/app/other", "/app/sub2", "/app/z"]]


@pytest.mark.parametrize(
    ("said", "shown"), [("not a git repository", "not a git repository"), ("", "it said nothing")]
)
def test_a_git_that_cannot_tell_is_an_error_of_the_environment(said: str, shown: str) -> None:
    with pytest.raises(EnvironmentFailed, match=shown):
        without_ignored(carried(("app/a", FILE, b"1")), Sandbox(breaks=said))  # type: ignore[arg-type]


def test_paths_to_remove_come_in_batches_that_fit_a_command() -> None:
    def sizes(*lengths: int) -> list[list[int]]:
        return [list(map(len, batch)) for batch in _batches(["x" * length for length in lengths])]

    assert sizes() == []
    assert sizes(24_999, 24_999) == [[24_999, 24_999]]
    assert sizes(24_999, 25_000) == [[24_999], [25_000]]
    assert sizes(60_000, 1) == [[60_000], [1]]
    assert sizes(30_000, 20_000, 29_998, 5) == [[30_000], [20_000, 29_998], [5]]
    assert len(list(_batches(["é" * 12_500] * 2))) == 2
