"""Files out of a container and into it, by what an engine says of a path and sends of it."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest
import requests

from pytest_benchjobs.model.errors import FilesRefused
from pytest_benchjobs.sandbox.docker import transfer
from pytest_benchjobs.sandbox.docker.calling import Caller, on_behalf_of
from pytest_benchjobs.sandbox.docker.dialects import DOCKER, PODMAN, Dialect
from pytest_benchjobs.sandbox.docker.transfer import EngineContainer
from pytest_benchjobs.sandbox.protocol import Fetched, File

# As Go's os.FileMode has them.
DIRECTORY, LINK, PIPE, SOCKET, DEVICE, CHARACTERS, IRREGULAR = (
    1 << bit for bit in (31, 27, 25, 24, 26, 21, 19)
)


def archive(*members: tuple[str, bytes | None]) -> bytes:
    """Of files, and of directories: those without content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size = len(content or b"")
            tar.addfile(member, io.BytesIO(content or b""))
    return buffer.getvalue()


class Chunks:
    """What the engine sends; somebody has to close it."""

    def __init__(self, data: bytes, *, breaks: bool = False) -> None:
        self._rest = [data[start : start + 300] for start in range(0, len(data), 300)]
        self._breaks = breaks
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._rest:
            raise requests.exceptions.ChunkedEncodingError("reset") if self._breaks else StopIteration
        return self._rest.pop(0)

    def close(self) -> None:
        self.closed = True


class Container(EngineContainer):
    """A container in which there is so much: path -> what the engine says of it, and sends; nothing, or an error.

    `cuts` says after how many bytes archives end, one after the other.
    """

    def __init__(
        self,
        paths: dict[str, tuple[dict[str, Any], bytes] | Exception],
        cuts: Iterable[int | None] = (),
        *,
        breaks: bool = False,
        dialect: Dialect = DOCKER,
    ) -> None:
        self.asked: list[str] = []
        self.sent: list[Chunks] = []
        self.given: list[tuple[str, str, bytes]] = []
        following = iter(cuts)

        def get_archive(container: str, path: str) -> tuple[Chunks, dict[str, Any]]:
            self.asked.append(path)
            found = paths[path]
            if isinstance(found, Exception):
                raise found
            cut = next(following, None)
            self.sent.append(Chunks(found[1][:cut], breaks=breaks and cut is not None))
            return self.sent[-1], found[0]

        def put_archive(container: str, path: str, content: Any) -> None:
            self.given.append((container, path, content.read()))

        client = SimpleNamespace(get_archive=get_archive, put_archive=put_archive)
        super().__init__(SimpleNamespace(client=client, dialect=dialect), "c", "/app")  # type: ignore[arg-type]

    def _calling(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def stat(size: int = 5, mode: int = 0o644, target: str | None = "") -> dict[str, Any]:
    return {"name": "x", "size": size, "mode": mode, "linkTarget": target}


def refusal(text: str, kind: type[Exception] = docker.errors.APIError) -> Exception:
    return kind("refused", response=SimpleNamespace(status_code=404), explanation=text)  # type: ignore[call-arg]


@pytest.mark.parametrize("size", [5, pytest.param(1, id="it grew since it was looked at")])
def test_a_file_is_read_up_to_the_limit_and_no_further(size: int) -> None:
    container = Container({"/x": (stat(size=size), archive(("x", b"12345")))})
    assert container.read("/x", limit=5) == b"12345"
    with pytest.raises(ValueError, match="/x has 5 bytes, more than 4"):
        container.read("/x", limit=4)
    assert [sent.closed for sent in container.sent] == [True, True]


@pytest.mark.parametrize(
    ("mode", "content"),
    [
        *((mode, b"12345") for mode in (DIRECTORY, LINK, PIPE, SOCKET, DEVICE, CHARACTERS, IRREGULAR)),
        pytest.param(0, None, id="an archive without a file"),
    ],
)
def test_what_is_no_regular_file_is_not_read(mode: int, content: bytes | None) -> None:
    container = Container({"/x": (stat(mode=mode | 0o644), archive(("x", content)))})
    assert container.read("/x", limit=5) is None


def test_what_the_client_says_is_not_there_is_not_and_an_engine_that_refuses_says_nothing(
    tmp_path: Path,
) -> None:
    container = Container({"/x": refusal("page not found"), "/y": FilesRefused("broken")})
    assert container.read("/x", limit=5) is None
    assert container.fetch("/x", tmp_path / "x", limit=5) is None
    with pytest.raises(FilesRefused, match="broken"):
        container.read("/y", limit=5)


def test_a_tree_is_fetched_without_what_is_left_out(tmp_path: Path) -> None:
    tree = archive(("d", None), ("d/a", b"1"), ("d/b.tmp", b"2"))
    container = Container({"/d": (stat(mode=DIRECTORY | 0o755), tree)})
    found = container.fetch("/d", tmp_path / "d", limit=5, exclude=("*.tmp",))
    assert found == Fetched(("a",), 1, ())
    assert found.owners == {"": 0, "a": 0}
    assert (tmp_path / "d/a").read_bytes() == b"1"
    assert [sent.closed for sent in container.sent] == [True]


def test_owners_are_not_told_by_an_engine_that_does_not_know_them(tmp_path: Path) -> None:
    container = Container({"/d": (stat(mode=DIRECTORY | 0o755), archive(("d", None)))}, dialect=PODMAN)
    found = container.fetch("/d", tmp_path / "d", limit=5)
    assert found is not None
    assert found.owners == {}


def test_a_link_at_the_top_leads_to_what_the_engine_says_but_once(tmp_path: Path) -> None:
    container = Container(
        {
            "/l": (stat(mode=LINK | 0o777, target="/real"), archive(("l", b""))),
            "/real": (stat(), archive(("real", b"12345"))),
            "/again": (stat(mode=LINK | 0o777, target="/l"), archive(("again", b""))),
        }
    )
    assert container.fetch("/l", tmp_path / "l", limit=5) == Fetched(("l",), 5, ())
    assert container.asked == ["/l", "/real"]
    assert container.fetch("/again", tmp_path / "again", limit=5) is None
    assert [sent.closed for sent in container.sent] == [True] * 4


@pytest.mark.parametrize("target", [None, "", "/l"])
def test_a_link_that_leads_nowhere_else_is_taken_as_it_is(tmp_path: Path, target: str | None) -> None:
    container = Container({"/l": (stat(mode=LINK, target=target), archive(("l", b"1")))})
    assert container.fetch("/l", tmp_path / "l", limit=5) == Fetched(("l",), 1, ())
    # Only links have a target.
    container = Container({"/f": (stat(target="/else"), archive(("f", b"1")))})
    assert container.fetch("/f", tmp_path / "f", limit=5) == Fetched(("f",), 1, ())


TREE = archive(("d", None), ("d/a", b"1" * 600), ("d/b", b"2"))
# Within a member, at the border of the last one, before the end.
CUTS = (700, 2048, 3072, 0)


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was called again, without a pause."""
    monkeypatch.setattr(transfer, "PAUSES", (0.0,) * 4)
    who = Caller()
    with on_behalf_of(who):
        yield who.again


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_half_an_archive_is_fetched_again(
    tmp_path: Path, again: list[str], cut: int, *, breaks: bool
) -> None:
    container = Container({"/d": (stat(mode=DIRECTORY), TREE)}, [cut] * 4, breaks=breaks)
    assert container.fetch("/d", tmp_path / "d", limit=5000) == Fetched(("a", "b"), 601, ())
    assert ((tmp_path / "d/a").read_bytes(), (tmp_path / "d/b").read_bytes()) == (b"1" * 600, b"2")
    assert len(again) == 4
    assert all(line.startswith("the Docker Engine sent half an archive of /d: ") for line in again)
    container = Container({"/f": (stat(), archive(("f", b"12345")))}, [min(cut, 1024)] * 4, breaks=breaks)
    assert container.read("/f", limit=5) == b"12345"
    assert [sent.closed for sent in container.sent] == [True] * 5


@pytest.mark.parametrize("cut", CUTS)
def test_an_archive_that_is_cut_each_time_may_be_the_doing_of_its_files(
    tmp_path: Path, again: list[str], cut: int
) -> None:
    container = Container({"/d": (stat(mode=DIRECTORY), TREE)}, [cut] * 5)
    with pytest.raises(FilesRefused, match=r"sent half an archive of /d: .*, each time"):
        container.fetch("/d", tmp_path / "d", limit=5000)
    assert len(again) == 4
    assert [sent.closed for sent in container.sent] == [True] * 5


def test_files_are_put_in_with_one_call() -> None:
    container = Container({})
    container.put([File("a", content=b"1"), File("/b", content=b"2")])
    ((to, path, content),) = container.given
    assert (to, path) == ("c", "/")
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.getnames() == ["app/a", "b"]
