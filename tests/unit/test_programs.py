"""What is put into a container before grading, by an engine that only takes archives."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from typing import IO, Any, ClassVar, cast
from unittest import mock

import docker
import pytest

from pytest_benchjobs.model.result import ImageRecord
from pytest_benchjobs.sandbox.docker import programs
from pytest_benchjobs.sandbox.docker.images import ResolvedImage
from pytest_benchjobs.sandbox.docker.original import DIRECTORY
from pytest_benchjobs.sandbox.docker.programs import restore
from pytest_benchjobs.sandbox.loading import LOADER_CACHE, Places, Restoring

IMAGE = ResolvedImage("sha256:1", ImageRecord(reference="x", id="sha256:1"), "/app", "", (), {})
ADDED = 1


class Engine:
    """Notes what is put in: kind, target of a link, and content. Whatever else is asked is an `AttributeError`."""

    def __init__(self) -> None:
        self.members: dict[str, tuple[bytes, str, bytes]] = {}

    def put_archive(self, container: str, path: str, archive: IO[bytes]) -> None:
        assert (container, path) == ("c", "/")
        with tarfile.open(fileobj=archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                found = b"" if content is None else content.read()
                self.members[f"/{member.name}"] = (member.type, member.linkname, found)


def _restore(engine: Engine, changes: dict[str, int]) -> tuple[str, ...]:
    """Put back what was changed, and return what is said to be undone."""
    places = Places.of({}, "/app", Restoring())
    return restore(cast("docker.APIClient", cast("Any", engine)), "c", IMAGE, {}, places, changes)


@pytest.mark.parametrize(
    ("path", "becomes"),
    [("/etc/ld.so.preload", tarfile.REGTYPE), ("/conftest.py", tarfile.DIRTYPE), ("/app/conftest.py", None)],
)
def test_one_added_file_is_put_out_of_the_way_though_nothing_else_was_touched(
    path: str, becomes: bytes | None
) -> None:
    engine = Engine()
    assert _restore(engine, {path: ADDED}) == (() if becomes is None else (path,))
    assert engine.members == ({} if becomes is None else {path: (becomes, "", b"")})


class _Image:
    """The image's files, and a note of what is taken out of it."""

    files: ClassVar[dict[str, bytes]] = {}
    taken: ClassVar[list[str]] = []

    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def kind(self, path: str) -> str | None:
        if path in self.files:
            return "file"
        return DIRECTORY if any(name.startswith(f"{path}/") for name in self.files) else None

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def target(self, path: str) -> str:
        return path

    def copy(self, path: str, tar: tarfile.TarFile, wanted: Callable[[str], bool]) -> set[str]:
        self.taken.append(path)
        found = {
            name for name in self.files if (name == path or name.startswith(f"{path}/")) and wanted(name)
        }
        for name in sorted(found):
            tar.addfile(tarfile.TarInfo(name.lstrip("/")))
        return found


def _is_made_of(monkeypatch: pytest.MonkeyPatch, image: dict[str, bytes], now: dict[str, bytes]) -> None:
    """Have an image of these files, some of which have another content in the container."""
    monkeypatch.setattr(_Image, "files", image)
    monkeypatch.setattr(programs, "Original", _Image)
    monkeypatch.setattr(programs._Restoring, "_read_now", lambda _, path: now.get(path))


def _restored(
    monkeypatch: pytest.MonkeyPatch, image: dict[str, bytes], now: dict[str, bytes], changes: dict[str, int]
) -> tuple[set[str], set[str], list[str]]:
    """What is said to be undone, what is put into the container, and what was taken out of the image for it."""
    _is_made_of(monkeypatch, image, now)
    monkeypatch.setattr(_Image, "taken", [])
    monkeypatch.setattr(programs, "leads_elsewhere", lambda found, before, **_: found != before)
    engine = Engine()
    return set(_restore(engine, changes)), set(engine.members), _Image.taken


CHANGED, DELETED = 0, 2
ROOT = b"root:x:0:0:root:/root:/bin/bash\n"


def test_what_may_stay_keeps_nothing_else_from_being_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    there = dict.fromkeys(("/app/x", "/etc/ld.so.cache", "/usr/bin/cat", "/usr/bin/ls"), b"1")
    changes = {
        "/app/x": CHANGED,
        "/etc/ld.so.cache": CHANGED,
        "/etc/passwd": CHANGED,
        "/usr/bin": CHANGED,
        "/usr/bin/anew": ADDED,
        "/usr/bin/cat": DELETED,
        "/usr/bin/ls": CHANGED,
    }
    now = {"/etc/ld.so.cache": b"1", "/etc/passwd": ROOT + b"new:x:5:5::/:/bin/sh\n"}
    undone, put, _ = _restored(monkeypatch, {**there, "/etc/passwd": ROOT}, now, changes)
    assert undone == put == {"/usr/bin/cat", "/usr/bin/ls"}


@pytest.mark.parametrize(
    ("now", "back"),
    [
        (ROOT, False),
        (ROOT.replace(b":0:0:", b":7:0:"), True),
        (ROOT.replace(b":0:0:", b":0:7:"), True),
        (b"user:x:1:1::/:/bin/sh\n", True),
        (None, True),
    ],
)
def test_accounts_stay_as_long_as_root_is_root(
    monkeypatch: pytest.MonkeyPatch, now: bytes | None, *, back: bool
) -> None:
    found = {} if now is None else {"/etc/passwd": now}
    undone, _, _ = _restored(monkeypatch, {"/etc/passwd": ROOT}, found, {"/etc/passwd": CHANGED})
    assert undone == ({"/etc/passwd"} if back else set())
    undone, _, _ = _restored(monkeypatch, {"/etc/passwd": ROOT}, {}, {"/etc/passwd": DELETED})
    assert undone == {"/etc/passwd"}


@pytest.mark.parametrize("kind", [CHANGED, ADDED])
@pytest.mark.parametrize(("now", "back"), [(b"1", False), (b"2", True), (None, True)])
def test_the_cache_of_the_loader_stays_if_it_leads_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, kind: int, now: bytes | None, *, back: bool
) -> None:
    found = {} if now is None else {LOADER_CACHE: now}
    undone, put, _ = _restored(monkeypatch, {LOADER_CACHE: b"1"}, found, {LOADER_CACHE: kind})
    assert undone == put == ({LOADER_CACHE} if back else set())


@pytest.mark.parametrize(("count", "times"), [(40, 40), (41, 1)])
def test_very_many_files_of_a_directory_are_taken_out_of_the_image_at_once(
    monkeypatch: pytest.MonkeyPatch, count: int, times: int
) -> None:
    image = {f"/usr/bin/p{number}": b"1" for number in range(60)}
    changes = dict.fromkeys(list(image)[:count], CHANGED)
    undone, put, taken = _restored(monkeypatch, image, {}, changes)
    assert undone == put == set(changes)
    assert len(taken) == times


FILE, MADE, LINKED = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
LIBRARY = "/usr/local/lib/python3.11/dist-packages"
PYTHON = {
    "/usr/bin/python3": b"",
    "/usr/lib/python3.11/pathlib.py": b"",
    "/usr/lib/python3/dist-packages/yaml/__init__.py": b"",
}


def _judged(
    monkeypatch: pytest.MonkeyPatch,
    added: list[str],
    image: dict[str, bytes],
    *,
    now: dict[str, bytes] | None = None,
    links: tuple[str, ...] = (),
) -> tuple[tuple[str, ...], dict[str, tuple[bytes, str, bytes]]]:
    """What is undone of additions, and what is put in for it."""
    _is_made_of(monkeypatch, image, now or {})
    monkeypatch.setattr(_Image, "target", lambda _, path: "/usr/bin/python3.11" if "python" in path else path)
    monkeypatch.setattr(
        programs._Restoring, "_kind_now", lambda _, path: programs.LINK if path in links else "file"
    )
    engine = Engine()
    return _restore(engine, dict.fromkeys(added, ADDED)), engine.members


@pytest.mark.parametrize(
    ("added", "put", "undone"),
    [
        # A program in front of one of the image leads there; others stay.
        (["/usr/local/bin/bash"], {"/usr/local/bin/bash": (LINKED, "/usr/bin/bash", b"")}, None),
        (["/usr/local/bin/new"], {}, ()),
        (["/usr/bin/new"], {}, ()),
        # A module in front of one of the image becomes something that nobody imports.
        ([f"{LIBRARY}/pathlib.py"], {f"{LIBRARY}/pathlib.py": (MADE, "", b"")}, None),
        ([f"{LIBRARY}/other.py"], {}, ()),
        # So does a package, as a whole.
        (
            [f"{LIBRARY}/pathlib", f"{LIBRARY}/pathlib/__init__.py"],
            {f"{LIBRARY}/pathlib": (FILE, "", b"")},
            (f"{LIBRARY}/pathlib",),
        ),
        # Parts of a package that is new may be called as anything.
        ([f"{LIBRARY}/other", f"{LIBRARY}/other/__init__.py", f"{LIBRARY}/other/pathlib.py"], {}, ()),
        # What every Python runs is emptied; what is compiled too, but in new packages.
        ([f"{LIBRARY}/x.pth"], {f"{LIBRARY}/x.pth": (FILE, "", b"")}, None),
        ([f"{LIBRARY}/sitecustomize.py"], {f"{LIBRARY}/sitecustomize.py": (FILE, "", b"")}, None),
        (
            ["/usr/lib/python3/dist-packages/yaml/__pycache__/x.pyc"],
            {"/usr/lib/python3/dist-packages/yaml/__pycache__/x.pyc": (FILE, "", b"")},
            (),
        ),
        (
            [f"{LIBRARY}/other", f"{LIBRARY}/other/__init__.py", f"{LIBRARY}/other/__pycache__", f"{LIBRARY}/other/__pycache__/x.pyc"],
            {},
            (),
        ),
        # Modules of Node above everything go as a whole, and once.
        (["/node_modules/a/index.js", "/node_modules/b.js"], {"/node_modules": (FILE, "", b"")}, ("/node_modules",)),
        # In a directory that goes nothing needs to be emptied.
        (
            [f"{LIBRARY}/pathlib", f"{LIBRARY}/pathlib/__init__.py", f"{LIBRARY}/pathlib/sitecustomize.py"],
            {f"{LIBRARY}/pathlib": (FILE, "", b"")},
            (f"{LIBRARY}/pathlib",),
        ),
    ],
)  # fmt: skip
def test_what_becomes_of_additions(
    monkeypatch: pytest.MonkeyPatch,
    added: list[str],
    put: dict[str, tuple[bytes, str, bytes]],
    undone: tuple[str, ...] | None,
) -> None:
    found = _judged(monkeypatch, added, {**PYTHON, "/usr/bin/bash": b""})
    assert found == (tuple(put) if undone is None else undone, put)


def test_a_way_to_what_is_loaded_may_be_made_but_be_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    way = "/usr/local/lib/python3.11"
    assert _judged(monkeypatch, [way], PYTHON) == ((), {})
    assert _judged(monkeypatch, [way], PYTHON, links=(way,)) == ((way,), {way: (MADE, "", b"")})


ENTRY_POINTS = b"[console_scripts]\nx = y\n [ pytest11 ]\nbad = bad\n[other]\nz = z\n"


@pytest.mark.parametrize(
    ("content", "put"),
    [
        (ENTRY_POINTS, (FILE, "", b"[console_scripts]\nx = y\n[other]\nz = z\n")),
        (b"[console_scripts]\nx = y\n", None),
        (None, (MADE, "", b"")),  # no ordinary file, or too large
    ],
)
def test_a_plugin_of_pytest_that_was_installed_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None, put: tuple[bytes, str, bytes] | None
) -> None:
    path = f"{LIBRARY}/bad-1.dist-info/entry_points.txt"
    now = {} if content is None else {path: content}
    undone, members = _judged(monkeypatch, [path], PYTHON, now=now)
    assert undone == (() if put is None else (path,))
    assert members == ({} if put is None else {path: put})


_DIRECTORY, _LINK, _PIPE = 1 << 31, 1 << 27, 1 << 25
"""Modes of files, as the engine has them."""


class _Container(Engine):
    """Has one file, of some kind, and says what it is before it gives its content."""

    base_url, api_version, timeout = "http://engine", "1.44", 60

    def __init__(self, mode: int, size: int, *members: tarfile.TarInfo) -> None:
        super().__init__()
        self._stat = {"mode": mode, "size": size}
        self._archive = io.BytesIO()
        with tarfile.open(fileobj=self._archive, mode="w") as tar:
            for member in members:
                tar.addfile(member, io.BytesIO((ENTRY_POINTS + bytes(member.size))[: member.size]))
        self.read = 0

    def head(self, url: str, params: dict[str, str], timeout: int) -> mock.Mock:
        stat = base64.b64encode(json.dumps(self._stat).encode()).decode()
        there = self._stat["mode"] >= 0 and params["path"].endswith("entry_points.txt")
        return mock.Mock(ok=there, headers={"X-Docker-Container-Path-Stat": stat})

    def get_archive(self, container: str, path: str) -> tuple[Iterator[bytes], None]:
        if self._stat["mode"] < 0:
            raise docker.errors.NotFound("nothing is there")
        self.read += 1
        return (part for part in [self._archive.getvalue()]), None


def _member(size: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo("entry_points.txt")
    member.size, member.type = size, kind
    return member


MOST = 1024 * 1024


@pytest.mark.parametrize(
    ("container", "read"),
    [
        (lambda: _Container(0o644, MOST, _member(MOST)), True),
        (lambda: _Container(0o644, MOST + 1, _member(MOST + 1)), False),
        (lambda: _Container(_DIRECTORY | 0o755, 60, _member(0, MADE), _member(60)), False),
        (lambda: _Container(_LINK | 0o777, 60, _member(60)), False),
        (lambda: _Container(_PIPE | 0o644, 0, _member(60)), False),
        (lambda: _Container(-1, 0, _member(60)), False),
    ],
    ids=["largest", "too large", "directory", "link", "pipe", "gone"],
)
def test_only_a_small_regular_file_of_an_agent_is_read(
    monkeypatch: pytest.MonkeyPatch, container: Callable[[], _Container], *, read: bool
) -> None:
    monkeypatch.setattr(_Image, "files", PYTHON)
    monkeypatch.setattr(programs, "Original", _Image)
    path = f"{LIBRARY}/bad-1.dist-info/entry_points.txt"
    engine = container()
    _restore(engine, {path: ADDED})
    kind, _, content = engine.members[path]
    assert (engine.read, kind) == ((1, FILE) if read else (0, MADE))
    assert b"pytest11" not in content
    assert content.startswith(b"[console_scripts]") is read


def test_a_python_that_was_installed_has_what_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "/usr/local/lib/python3.12"
    own = [root, f"{root}/pathlib.py", f"{root}/site-packages", f"{root}/site-packages/x.pth"]
    assert _judged(monkeypatch, own, PYTHON) == ((), {})
    # Where there is a root already, or none of its own version, others load from it.
    undone, _ = _judged(monkeypatch, own[1:], PYTHON)
    assert f"{root}/site-packages/x.pth" in undone
    # The root of the image's own version is not of another one, though it is new as well.
    loaded = ["/usr/local/lib/python3.11", LIBRARY, f"{LIBRARY}/x.pth"]
    assert _judged(monkeypatch, loaded, PYTHON)[0] == (f"{LIBRARY}/x.pth",)


def test_what_a_program_got_in_front_of_has_to_be_there_under_that_very_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = ["/usr/local/bin/bash"]
    assert _judged(monkeypatch, added, {"/bin/other": b""}) == ((), {})
    _, put = _judged(monkeypatch, added, {"/sbin/bash": b"", "/bin/bash": b""})
    assert put == {added[0]: (LINKED, "/sbin/bash", b"")}
