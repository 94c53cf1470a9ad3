"""What an agent left is carried into a fresh place exactly, and nothing else happens there."""

from __future__ import annotations

import itertools
import os
import stat
import struct
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import EngineLost, Ungradable
from pytest_benchjobs.sandbox.carry import transfer
from pytest_benchjobs.sandbox.carry.records import Kind, new_record
from pytest_benchjobs.sandbox.carry.transfer import Carried, Place, carry, differences

from .carrying import Node, Refused, make, program, run, run_program, seen

NAMES = st.sampled_from((b"a", b"b", b"c", b"-rf", b"a\nb", b"\xff\xfe", b"*")) | st.binary(
    min_size=1, max_size=9
).filter(lambda name: not set(name) & {0, 47} and name not in (b".", b".."))
TIMES = st.integers(1, 3)
LEAVES = st.one_of(
    st.builds(
        Node,
        st.just("file"),
        st.sampled_from((b"", b"one", b"two")),
        st.sampled_from((0, 1 << 16)),
        st.sampled_from((0o600, 0o755, 0o1644)),
        TIMES,
    ),
    st.builds(Node, st.just("link"), st.sampled_from((b".", b"./.", b"/etc/passwd")), seconds=TIMES),
    st.builds(Node, st.just("name"), st.binary(max_size=3)),
)
TREES = st.recursive(
    LEAVES,
    lambda nodes: st.builds(
        Node,
        st.just("directory"),
        mode=st.sampled_from((0o755, 0o700)),
        seconds=TIMES,
        entries=st.lists(st.tuples(NAMES, nodes), max_size=5).map(tuple),
    ),
    max_leaves=12,
)


class Places:
    """A directory of an agent, and a fresh one. In containers both have one path."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.agent, self.fresh = base / "agent", base / "fresh"
        self.agent.mkdir(parents=True)
        self.fresh.mkdir()

    def run_fresh(self, arguments: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[bytes]:
        """Run the program, and on nothing but what is here: a link may have led elsewhere."""
        base = os.fsencode(self.base)
        paths = [path for path in map(os.fsencode, arguments) if path.startswith(b"/")]
        assert all(path.startswith(base + b"/") and b".." not in path for path in paths)
        return run_program(arguments, stdin)

    def run_agent(self, arguments: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[bytes]:
        """Run the program where the agent was."""
        fresh, agent = os.fsencode(self.fresh), os.fsencode(self.agent)
        return self.run_fresh([os.fsencode(one).replace(fresh, agent) for one in arguments], stdin)

    def carry(
        self, *roots: str, programs: Sequence[str] = (), agent: Place | None = None, **options: Any
    ) -> Carried:
        """Carry what is below roots, here `top`."""
        paths = [str(self.fresh / root) for root in roots or ("top",)]
        found = tuple(os.fsencode(self.fresh / path) for path in programs)
        return carry(agent or self.run_agent, self.run_fresh, paths, programs=found, **options)

    def are_equal(self, root: str = "top") -> bool:
        """Compare."""
        assert seen(self.fresh / root) == seen(self.agent / root)
        return True


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "places")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@settings(max_examples=60)
@given(agent=TREES, fresh=TREES)
def test_whatever_is_there_a_fresh_tree_becomes_what_the_agent_left(agent: Node, fresh: Node) -> None:
    with tempfile.TemporaryDirectory() as base:
        places = Places(Path(base))
        for tree, place in ((agent, places.agent), (fresh, places.fresh)):
            make(Node("directory", entries=((b"tree", tree),)), place / "top")
        assert places.carry().left_out == ()
        assert places.are_equal()


def test_every_byte_may_be_in_a_name_and_a_tree_be_deeper_than_a_path(places: Places) -> None:
    place = os.open(places.agent, os.O_RDONLY)
    for name in (b"top", *(b"d" * 255,) * 40, b"x"):
        os.mkdir(name, dir_fd=place)
        inner = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    every = {bytes((byte,)) for byte in range(1, 256)} - {b"/", b"."}
    for name in every:
        os.close(os.open(name, os.O_CREAT, dir_fd=place))
    os.close(place)

    places.carry()
    place = os.open(places.fresh / "top", os.O_RDONLY)
    for name in (*(b"d" * 255,) * 40, b"x"):
        inner = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    assert {os.fsencode(name) for name in os.listdir(place)} == every  # noqa: PTH208  it has no path
    os.close(place)
    places.agent.rename(places.agent.with_name("left"))
    places.agent.mkdir()
    places.carry()
    assert not (places.fresh / "top").exists()


def test_a_hole_of_500_gb_is_carried_as_a_hole(places: Places) -> None:
    with (places.agent / "top").open("wb") as file:
        file.seek(500 << 30)
        file.write(b"end")
    carried = places.carry(limit=1 << 20)
    about = (places.fresh / "top").stat()
    assert (about.st_size, about.st_blocks * 512 < 1 << 20, carried.left_out) == ((500 << 30) + 3, True, ())


def test_what_cannot_be_carried_is_left_out_by_itself(places: Places) -> None:
    top = places.agent / "top"
    for name in ("a", "z"):
        make(
            Node("directory", entries=((b"file", Node("file", b"x")), (b"pipe", Node("fifo")))),
            top.with_name(name),
        )
    (places.agent / "a" / "big").write_bytes(bytes(1000))
    os.link(places.agent / "a" / "big", places.agent / "a" / "name")
    (places.fresh / "a").mkdir()
    (places.fresh / "a" / "big").write_bytes(b"of the image")
    carried = places.carry("a", "z", limit=10)
    fresh = os.fsencode(places.fresh)
    assert dict(carried.left_out) == {
        fresh + b"/a/big": "1000 bytes are too many",
        fresh + b"/a/name": "its other name is left out",
        fresh + b"/a/pipe": "neither a file, a directory nor a link",
        fresh + b"/z/pipe": "neither a file, a directory nor a link",
    }
    assert [names(places.fresh / name) for name in "az"] == [["file"], ["file"]]
    assert carried.notes[-1].endswith("/a/name: its other name is left out")
    with pytest.raises(Ungradable, match="a/pipe cannot be carried"):
        places.carry("a", "z", named=[fresh + b"/a/pipe"])


def test_what_is_apart_stays_as_it_is_and_nobody_is_told(places: Places) -> None:
    for place, paths in (
        (places.agent, ("a.log", "src/new.log", "src/x", "pipe.log/y", "was", "new/z.log")),
        (places.fresh, ("a.log", "src/b.log", "gone/b.log", "gone/x", "was/c.log")),
    ):
        for path in paths:
            (place / "top" / path).parent.mkdir(parents=True, exist_ok=True)
            (place / "top" / path).write_text(place.name)
    os.link(places.agent / "top/a.log", places.agent / "top/name")
    fresh, asked = os.fsencode(places.fresh / "top") + b"/", list[bytes]()

    def ignored(paths: Collection[bytes]) -> Collection[bytes]:
        asked.extend(path.removeprefix(fresh) for path in paths)
        return [fresh + b"new"]

    carried = places.carry(apart=lambda path: path.endswith(b".log"), ignored=ignored)
    assert set(asked) == {b"gone/x", b"name", b"new/", b"src/x", b"was", b"was/", b"was/c.log"}
    found = (path for path in (places.fresh / "top").rglob("*") if path.is_file())
    assert {str(path.relative_to(places.fresh / "top")): path.read_text() for path in found} == {
        "a.log": "fresh", "gone/b.log": "fresh", "name": "agent", "src/b.log": "fresh", "src/x": "agent", "was": "agent",
    }  # fmt: skip
    assert carried.left_out == ()
    assert (places.fresh / "top/name").stat().st_nlink == 1


def test_where_nothing_changes_the_agents_place_is_listed_once(places: Places) -> None:
    (places.agent / "top").mkdir()
    known: dict[tuple[bytes, ...], bytes] = {}
    places.carry(known=known)
    (places.agent / "top" / "late").touch()
    places.carry(known=known)
    assert names(places.fresh / "top") == []
    places.carry()
    assert places.are_equal()


def test_a_directory_that_is_not_read_to_its_end_keeps_the_rest(
    places: Places,
) -> None:
    for place in (places.agent, places.fresh):
        make(
            Node("directory", entries=tuple((b"%d" % number, Node("file")) for number in range(9))),
            place / "top",
        )
    (places.agent / "top" / "0").unlink()
    most = str(transfer._LISTING)
    carried = places.carry(
        agent=lambda arguments, stdin: places.run_agent(
            ["300" if one == most else one for one in arguments], stdin
        )
    )
    assert carried.notes == (
        f"not carried: {places.fresh}/top: it cannot be read to its end: File too large",
    )
    assert names(places.fresh / "top") == [str(number) for number in range(1, 9)]


def test_nobody_gets_rights_by_what_is_carried(places: Places) -> None:
    for place in (places.agent, places.fresh):
        make(Node("directory", entries=((b"both", Node("file")),)), place / "top")
    (places.fresh / "top" / "both").chmod(0o4755)
    (places.agent / "top" / "both").chmod(0o6755)
    (places.agent / "top" / "new").touch()
    (places.agent / "top" / "new").chmod(0o6755)
    places.carry()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (places.fresh / "top").iterdir()}
    assert modes == {"both": 0o4755, "new": 0o755}


def write(base: Path, files: dict[str, str]) -> None:
    """Write files (path -> content; `-> target` is a link)."""
    for name, content in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            (base / name).symlink_to(content[3:])
        else:
            (base / name).write_text(content)


def written(base: Path) -> dict[str, str]:
    """Return what `write` would write to get what is there."""
    return {
        str(path.relative_to(base)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in base.rglob("*")
        if path.is_symlink() or path.is_file()
    }


OWN = (
    "config",
    "config.worktree",
    "hooks/pre-commit",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
)
REPOSITORY = {"HEAD": "agent", "refs/heads/main": "agent", "objects/ab/c": "agent", "info/exclude": "agent"}


@pytest.mark.parametrize("there", [True, False], ids=["it-was-there", "it-is-new"])
@pytest.mark.parametrize(
    ("git", "link"),
    [
        (".git", None),
        ("sub/.git", None),
        (".git/modules/a/b", None),
        ("elsewhere", "gitdir: elsewhere"),
        ("elsewhere", "-> elsewhere"),
    ],
)
def test_what_tells_git_what_to_run_stays_as_it_was(
    places: Places, git: str, link: str | None, *, there: bool
) -> None:
    agent, fresh = places.agent / "top" / git, places.fresh / "top" / git
    write(agent, {**REPOSITORY, **dict.fromkeys(OWN, "agent")})
    fresh.parent.mkdir(parents=True)
    if there:
        write(fresh, {"HEAD": "fresh", **dict.fromkeys(OWN, "fresh, once")})
    if link is not None:
        write(places.agent / "top", {".git": link})
    carried = places.carry()
    assert written(fresh) == {**REPOSITORY, **(dict.fromkeys(OWN, "fresh, once") if there else {})}
    named = {os.fsencode(fresh / name.removesuffix("/pre-commit")) for name in OWN}
    assert {path for path, _ in carried.left_out} == named
    assert {path for path, _ in places.carry(named=[os.fsencode(fresh)]).left_out} == named
    assert places.carry(named=named).left_out == ()
    assert places.are_equal()


def test_git_is_not_led_around_what_stays(places: Places) -> None:
    trick = {"x/attributes": "agent", "x/info/alternates": "agent"}
    write(
        places.agent / "top" / ".git", {"HEAD": "", "refs/a": "", "info": "-> x", "objects": "-> x", **trick}
    )
    write(places.agent / "top" / "tree", {"HEAD": "", "commondir": "../common", "config.worktree": "agent"})
    write(places.agent / "top" / "common", {"objects/a": "", "refs/a": "", "config": "agent"})
    write(places.fresh / "top" / ".git", {"info/attributes": "fresh", "info/exclude": "fresh"})
    places.carry()
    assert written(places.fresh / "top") == {
        ".git/HEAD": "", ".git/refs/a": "", ".git/info/attributes": "fresh", **{f".git/{name}": "agent" for name in trick},
        "tree/HEAD": "", "tree/commondir": "../common", "common/objects/a": "", "common/refs/a": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "comes"),
    [
        ({"v/bin/tool": "agent", "v/lib/x": "agent", "v/new": ""}, {}),
        ({}, {}),
        ({"v": "-> evil", "evil/bin/tool": "agent"}, {"evil/bin/tool": "agent"}),
    ],
)
def test_programs_of_the_image_stay_unless_they_are_named(
    places: Places, agent: dict[str, str], comes: dict[str, str]
) -> None:
    image = {"v/bin/tool": "fresh", "v/lib/x": "fresh"}
    for at in ("", "in/"):
        write(places.agent / "top", {f"{at}{name}": content for name, content in {"w": "", **agent}.items()})
        write(
            places.fresh / "top", {f"{at}{name}": content for name, content in {"gone": "", **image}.items()}
        )
    carried = places.carry(programs=("top/v/bin", "top/in/v/bin", "elsewhere"))
    expected = {"w": "", **image, **comes}
    assert written(places.fresh / "top") == {
        f"{at}{name}": text for at in ("", "in/") for name, text in expected.items()
    }
    assert {path for path, _ in carried.left_out} == {
        os.fsencode(places.fresh / f"top/{at}v") for at in ("", "in/")
    }
    places.carry(
        programs=("top/v/bin", "top/in/v/bin"),
        named=[os.fsencode(places.fresh / "top/v"), os.fsencode(places.fresh / "top/in/v/bin/tool")],
    )
    assert places.are_equal()


def test_a_link_instead_of_a_directory_leads_nowhere(places: Places, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for directory in (places.fresh / "way" / "top", outside / "top"):
        directory.mkdir(parents=True)
        (directory / "file").write_text("before")
    (places.agent / "way").symlink_to(outside)
    carried = places.carry("way/top")
    assert carried.notes == (f"not carried: {places.fresh}/way/top: a link, or nothing, is on the way to it",)
    (places.agent / "way").unlink()
    (places.agent / "way").mkdir()
    (places.agent / "way" / "top").symlink_to(outside)
    places.carry("way/top")
    assert not (places.fresh / "way" / "top").is_symlink()
    assert (outside / "top" / "file").read_text() == "before"


def test_a_link_leads_to_what_is_carried_or_to_a_file_of_the_image(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "later").mkdir()
    (tmp_path / "tool").touch()
    files = {"new/file": "1", "inside": "-> new", "up": "-> ../top/new/file", "tool": f"-> {tmp_path}/tool"}
    files |= {"a": "-> b/file", "b": "-> c", "c": "-> inside"}
    links = {"old": f"{tmp_path}/later/expected.txt", "by/way": "../old", "itself": "itself", "root": "/"}
    links |= {
        "all": f"{tmp_path}/later",
        "stdin": "/dev/stdin",
        "said": "/proc/self/cmdline",
        "here": "/proc/self/cwd",
    }
    astray = {name: f"-> {target}" for name, target in links.items()}
    write(places.fresh / "top", {"old": "1"})
    write(places.agent / "top", {**files, **astray})
    with monkeypatch.context() as patch:
        patch.setattr(transfer, "_link", Mock(side_effect=EngineLost("cut")))
        with pytest.raises(EngineLost):
            places.carry()
    assert not any(path.is_symlink() for path in (places.fresh / "top").rglob("*"))
    carried = places.carry()
    assert {path.partition(b"/top/")[2].decode() for path, _ in carried.left_out} == astray.keys()
    assert written(places.fresh / "top") == files
    assert (places.fresh / "top" / "new").stat().st_mtime == (places.agent / "top" / "new").stat().st_mtime
    (places.agent / "top" / "more").symlink_to(tmp_path / "tool")
    strictly = places.carry(links_elsewhere=False)
    assert {path for path, _ in strictly.left_out} == {
        *(path for path, _ in carried.left_out), os.fsencode(places.fresh / "top/more")
    }  # fmt: skip


def test_links_of_the_image_lead_to_a_root(places: Places) -> None:
    for place in (places.agent, places.fresh):
        (place / "there").mkdir()
    (places.fresh / "link").symlink_to("there")
    (places.agent / "there" / "deep").mkdir()
    (places.agent / "there" / "deep" / "file").touch()
    places.carry("link/deep")
    assert places.are_equal("there/deep")


@pytest.mark.parametrize(
    "script",
    [
        (new_record(Kind.MAKE, b"elsewhere"),),
        (new_record(Kind.ENTER, b"top"), new_record(Kind.MAKE, b"..")),
        (new_record(Kind.ENTER, b"top"), new_record(Kind.MAKE, b"a/b")),
        (new_record(Kind.ENTER, b"top"), new_record(Kind.MAKE, b"")),
        (new_record(Kind.ENTER, b"top"), new_record(Kind.HARDLINK, b"a", b"elsewhere/file")),
        (new_record(Kind.ENTER, b"top"), new_record(Kind.HARDLINK, b"a", b"top/../file")),
        (new_record(Kind.ENTER, b"top"), new_record(Kind.HARDLINK, b"a", b"top/link/file")),
        (new_record(Kind.ENTER, b"top"), new_record(Kind.ENTER, b"link"), new_record(Kind.MAKE, b"a")),
        (new_record(Kind.LEAVE), new_record(Kind.MAKE, b"a")),
        (new_record(Kind.ROOT, size=1), new_record(Kind.MAKE, b"a")),
    ],
)
def test_a_forged_script_reaches_nothing_outside(places: Places, script: tuple[bytes, ...]) -> None:
    (places.fresh / "top").mkdir()
    (places.fresh / "file").touch()
    (places.fresh / "top" / "link").symlink_to("..")
    before = seen(places.fresh)
    sent = (new_record(Kind.ROOT), *script, new_record(Kind.END))
    try:
        told = b"".join(places.run_fresh(["unpack", str(places.fresh / "top")], sent))
    except Refused:
        told = b"!"
    assert told.startswith(b"!")
    assert seen(places.fresh) == before


def test_a_damaged_list_is_the_agents_fault(places: Places) -> None:
    (places.fresh / "top").mkdir()
    listing = b"".join(places.run_fresh(["walk", "1000", str(places.fresh / "top")], ()))
    for damaged in (b"", listing[:-1], listing[:80], b"\xff" * 200):
        with pytest.raises(Ungradable):
            places.carry(agent=lambda *_, damaged=damaged: iter((damaged,)))


def test_a_pack_without_an_end_is_stopped(places: Places) -> None:
    (places.agent / "top").touch()

    def endless(arguments: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[bytes]:
        if arguments[0] != "pack":
            return places.run_agent(arguments, stdin)
        start = new_record(Kind.ROOT) + new_record(Kind.CONTENT, b"top")
        return itertools.chain((start,), itertools.repeat(struct.pack("<QI", 0, 1 << 18) + bytes(1 << 18)))

    with pytest.raises(Ungradable, match="no end"):
        places.carry(agent=endless)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change its root")
def test_what_differs_between_two_places_is_named(tmp_path: Path) -> None:
    def place(name: str) -> Place:
        (tmp_path / name / "program").hardlink_to(program())
        return lambda arguments, stdin: run(("chroot", tmp_path / name, "/program", *arguments), stdin)

    for name, files in {
        "agent": {"etc/a": "1", "etc/same": "x", "new/deep/b": "", "app/c": "", "tmp/d": "4"},
        "fresh": {"etc/a": "2", "etc/same": "x", "etc/gone": ""},
    }.items():
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
    found = differences(place("agent"), place("fresh"), [b"/app", b"/tmp/d"])
    assert sorted(found) == [b"/etc/a", b"/etc/gone", b"/new", b"/tmp"]
