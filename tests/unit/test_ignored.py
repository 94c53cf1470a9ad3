"""What git ignores of what an agent left, by what git says in the container for grading."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EnvironmentFailed
from pytest_benchjobs.trial.fresh import ignored_by_git


class Place:
    """One in which git ignores these paths, and gives up on paths behind a link or in a submodule."""

    def __init__(
        self,
        *ignored: str,
        links: Iterable[str] = (),
        submodules: Iterable[str] = (),
        breaks: str | None = None,
    ) -> None:
        self.ignored, self.links, self.submodules, self.breaks = set(ignored), links, submodules, breaks
        self.asked: list[list[str]] = []

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdout: Callable[[bytes], None],
        stderr: Callable[[bytes], None],
        stdin: Iterator[bytes],
        workdir: str,
        timeout: float,
    ) -> int:
        assert workdir == "/app"
        command, names = argv[-1], os.fsdecode(b"".join(stdin)).split("\0")[:-1]
        status, found = 0, []
        if "check-ignore" in command:
            self.asked.append(names)
            behind = [
                name
                for name in names
                for way in (*self.links, *self.submodules)
                if name.startswith(f"{way}/")
            ]
            found = [name for name in names if name in self.ignored]
            status = 128 if behind or self.breaks is not None else int(not found)
            stderr(f"fatal: {self.breaks or behind}\n".encode() if self.breaks != "" else b"")
        elif "ls-files" in command:
            found = [f"160000 abc 0\t{name.removeprefix('/app/')}" for name in self.submodules]
            found.append("100644 abc 0\tplain")
        else:
            found = list(self.links)
        stdout(os.fsencode("".join(f"{name}\0" for name in found)))
        return status


def ignored(place: Place, *names: str) -> set[str]:
    given: Any = place
    return {os.fsdecode(path) for path in ignored_by_git(given, "/app", [*map(os.fsencode, names)])}


def test_git_is_asked_once_for_all_that_differs() -> None:
    place = Place("/app/build/", "/app/build/x", "/app/\udcff.pyc", "/app/old.log")
    names = ["/app/a", "/app/build/", "/app/build/x", "/app/\udcff.pyc", "/app/old.log", "/app/b"]
    assert ignored(place, *names) == {"/app/build", "/app/build/x", "/app/\udcff.pyc", "/app/old.log"}
    assert place.asked == [sorted(names)]
    assert ignored(place) == set()
    assert len(place.asked) == 1


def test_behind_a_link_the_link_is_asked_for_and_of_a_submodule_nothing_comes() -> None:
    place = Place("/app/data", "/app/z", links=("/app/data", "/app/other"), submodules=("/app/sub",))
    names = ("/app/data/in/a", "/app/other/b", "/app/sub/c", "/app/sub2", "/app/z")
    assert ignored(place, *names) == {"/app/data/in/a", "/app/sub/c", "/app/z"}
    assert place.asked[1:] == [["/app/data", "/app/other", "/app/sub2", "/app/z"]]


@pytest.mark.parametrize(
    ("said", "shown"), [("not a git repository", "not a git repository"), ("", "it said nothing")]
)
def test_a_git_that_cannot_tell_is_an_error_of_the_environment(said: str, shown: str) -> None:
    with pytest.raises(EnvironmentFailed, match=shown):
        ignored(Place(breaks=said), "/app/a")
