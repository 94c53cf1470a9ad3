"""Agents' programs come once, whole, from npm or from an archive; whatever is wrong with them is seen."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tarfile
import threading
from pathlib import Path

import pytest

from pytest_benchjobs.agents import packages
from pytest_benchjobs.agents.fetch import fetch, fetch_from
from pytest_benchjobs.agents.packages import changed, manifest_of, trouble
from pytest_benchjobs.model.errors import InfrastructureError, InputError

from .packages import PROGRAM, Registry, archive_of, integrity, package
from .packages import cache as cache
from .packages import registry as registry


def silent(_line: str) -> None:
    pass


def test_a_package_is_fetched_once(cache: Path, registry: Registry) -> None:
    registry.add()
    said: list[str] = []
    assert trouble(package()) == "is not on this machine"
    assert fetch(package(), said.append) is True
    assert fetch(package(), said.append) is False
    assert registry.calls == ["mini@1.0.0"]
    assert said[0] == "mini 1.0.0: fetching mini@1.0.0"
    assert re.fullmatch(r"mini 1\.0\.0: unpacking \d+ B", said[1])
    assert len(said) == 3
    assert trouble(package()) is None
    place = cache / "mini" / "1.0.0-linux-x64"
    assert package().mount.source == place / "files"
    assert (place / "files/bin/mini").read_bytes() == PROGRAM
    assert sorted(path.name for path in (cache / "mini").iterdir()) == [
        "1.0.0-linux-x64",
        "1.0.0-linux-x64.lock",
    ]


def test_every_user_may_run_it_whatever_the_umask(cache: Path, registry: Registry) -> None:
    registry.add()
    before = os.umask(0o077)
    try:
        fetch(package(), silent)
    finally:
        os.umask(before)
    files = package().files
    modes = {
        path.relative_to(files).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in [files, *files.rglob("*")]
    }
    assert modes == {".": 0o755, "bin": 0o755, "bin/mini": 0o555, "README.md": 0o444, "package.json": 0o444}


def test_only_its_root_is_kept_without_what_nobody_needs(cache: Path, registry: Registry) -> None:
    registry.add(files={"vendor/x/bin/mini": PROGRAM, "vendor/x/voice/big": b"0", "other": b"1"})
    wanted = package(root="vendor/x", leave_out=("voice/*",))
    fetch(wanted, silent)
    assert [path.name for path in wanted.files.rglob("*")] == ["bin", "mini"]
    manifest = manifest_of(wanted)
    assert manifest is not None
    assert [file.path for file in manifest.files] == ["bin/mini"]


def test_what_was_changed_is_seen_and_fetched_anew(cache: Path, registry: Registry) -> None:
    registry.add()
    fetch(package(), silent)
    program = package().files / "bin/mini"
    program.chmod(0o755)
    program.write_bytes(PROGRAM + b"rm -rf /\n")
    assert trouble(package()) == "was changed since it was fetched: bin/mini"
    assert list(changed(package())) == ["bin/mini"]
    assert fetch(package(), silent) is True
    assert trouble(package()) is None
    assert list(changed(package())) == []


def test_a_change_that_keeps_size_and_time_is_found_by_reading(cache: Path, registry: Registry) -> None:
    registry.add()
    fetch(package(), silent)
    program = package().files / "bin/mini"
    about = program.stat()
    program.chmod(0o755)
    program.write_bytes(PROGRAM.replace(b"hi", b"ho"))
    os.utime(program, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert trouble(package()) is None
    assert list(changed(package())) == ["bin/mini"]


def test_once_it_was_looked_at_programs_alone_are_looked_at_again(cache: Path, registry: Registry) -> None:
    registry.add()
    fetch(package(), silent)
    assert trouble(package()) is None
    (package().files / "README.md").unlink()
    assert trouble(package()) is None
    program = package().files / "bin/mini"
    program.chmod(0o755)
    program.write_bytes(PROGRAM + b"rm -rf /\n")
    assert trouble(package()) == "was changed since it was fetched: bin/mini"
    program.unlink()
    assert trouble(package()) == "has lost bin/mini"


def test_npm_that_refuses_is_quoted_with_what_to_do(cache: Path, registry: Registry) -> None:
    with pytest.raises(InfrastructureError) as caught:
        fetch(package(), silent)
    assert str(caught.value) == (
        "npm cannot fetch mini@1.0.0: 404 'mini@1.0.0' is not in this registry. Or, where there is a network: "
        "npm pack mini@1.0.0; here: benchjobs agents fetch NAME --from FILE"
    )
    assert [path.name for path in (cache / "mini").iterdir()] == ["1.0.0-linux-x64.lock"]


def test_without_npm_it_says_what_to_do(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        InfrastructureError, match=r"npm, which is not on PATH\. Install Node\.js; or, where there"
    ):
        fetch(package(), silent)


def test_a_digest_that_is_known_beforehand_has_to_fit(cache: Path, registry: Registry) -> None:
    archive = registry.add()
    right = package(integrity=integrity(archive))
    other = archive_of(archive.with_name("other.tgz"), files={"bin/mini": b"#!/bin/sh\necho ho\n"})
    with pytest.raises(InputError, match=r"other\.tgz: is not mini@1\.0\.0: its digest is sha512-"):
        fetch(right, silent, archive=other)
    assert trouble(right) == "is not on this machine"
    assert fetch(right, silent) is True
    other.replace(archive)
    with pytest.raises(InputError, match=r"is not mini@1\.0\.0"):
        fetch(package(version="1.0.0", integrity=right.integrity), silent, archive=archive)


def test_an_archive_of_something_else_is_refused(cache: Path, registry: Registry, tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "mini.tgz", "mini@2.0.0")
    with pytest.raises(InputError, match=r"mini\.tgz: is mini@2\.0\.0, and should be mini@1\.0\.0"):
        fetch(package(), silent, archive=archive)
    assert [path.name for path in (cache / "mini").iterdir()] == ["1.0.0-linux-x64.lock"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00broken"])
def test_a_damaged_archive_is_refused(cache: Path, tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "mini.tgz"
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"mini\.tgz: is not an npm archive, or is damaged"):
        fetch(package(), silent, archive=archive)


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


@pytest.mark.parametrize(
    "member",
    [
        _member("package/../../outside"),
        _member("/outside"),
        _member("package/link", tarfile.SYMTYPE, "/etc/passwd"),
        _member("package/link", tarfile.LNKTYPE, "package/package.json"),
        _member("package/device", tarfile.CHRTYPE),
        _member("package/pipe", tarfile.FIFOTYPE),
    ],
)
def test_what_an_archive_must_not_hold_is_refused(
    cache: Path, tmp_path: Path, member: tarfile.TarInfo
) -> None:
    archive = archive_of(tmp_path / "mini.tgz", members=(member,))
    with pytest.raises(InputError, match=r"mini\.tgz: holds '.*', which is "):
        fetch(package(), silent, archive=archive)
    assert [path.name for path in (cache / "mini").iterdir()] == ["1.0.0-linux-x64.lock"]


def test_an_archive_whose_fetcher_was_killed_is_used(cache: Path, registry: Registry) -> None:
    archive = registry.add()
    (cache / "mini").mkdir(parents=True)
    (cache / "mini" / "1.0.0-linux-x64.tgz").write_bytes(archive.read_bytes())
    assert fetch(package(), silent) is True
    assert registry.calls == []
    assert not (cache / "mini" / "1.0.0-linux-x64.tgz").exists()


def test_a_damaged_one_is_fetched_again(cache: Path, registry: Registry) -> None:
    registry.add()
    (cache / "mini").mkdir(parents=True)
    (cache / "mini" / "1.0.0-linux-x64.tgz").write_bytes(b"half of it")
    assert fetch(package(), silent) is True
    assert registry.calls == ["mini@1.0.0"]


def test_whoever_comes_second_waits_for_the_first(cache: Path, registry: Registry) -> None:
    registry.add()
    (cache / "mini").mkdir(parents=True)
    waiting = threading.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        waiting.set()

    with (cache / "mini" / "1.0.0-linux-x64.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=fetch, args=(package(), say))
        second.start()
        assert waiting.wait(30)
        assert said == ["mini 1.0.0: another process is fetching it"]
        archive = registry.directory / "mini@1.0.0.tgz"
        # The first is another process: it installs what the second then finds.
        from pytest_benchjobs.agents.fetch import _install

        _install(package(), archive, silent)
        fcntl.flock(lock, fcntl.LOCK_UN)
        second.join(30)
    assert registry.calls == []
    assert trouble(package()) is None


def test_offline_all_packages_come_from_archives(cache: Path, tmp_path: Path) -> None:
    wanted = (package(), package("node", "22.0.0"))
    mini, node = archive_of(tmp_path / "a.tgz"), archive_of(tmp_path / "b.tgz", "node@22.0.0")
    with pytest.raises(InputError) as caught:
        fetch_from(wanted, [mini], silent)
    assert (
        str(caught.value)
        == "mini 1.0.0 also needs node@22.0.0: make it with `npm pack node@22.0.0`, and give it with --from"
    )
    fetch_from(wanted, [node, mini], silent)
    assert [trouble(one) for one in wanted] == [None, None]
    fetch_from(wanted, [mini], silent)


def test_offline_a_wrong_archive_is_named(cache: Path, tmp_path: Path) -> None:
    other = archive_of(tmp_path / "a.tgz", "other@3.0.0")
    with pytest.raises(InputError, match=r"a\.tgz: is other@3\.0\.0; expected mini@1\.0\.0"):
        fetch_from((package(),), [other], silent)
    (tmp_path / "b.tgz").write_bytes(b"no")
    with pytest.raises(InputError, match=r"b\.tgz: is not an npm archive"):
        fetch_from((package(),), [tmp_path / "b.tgz"], silent)


def test_a_cache_that_refuses_says_where_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        InfrastructureError, match=r"cannot be kept in .*name another place in BENCHJOBS_CACHE"
    ):
        fetch(package(), silent)


@pytest.mark.parametrize(
    ("machine", "expected"),
    [("x86_64", "linux-x64"), ("AMD64", "linux-x64"), ("aarch64", "linux-arm64"), ("arm64", "linux-arm64")],
)
def test_the_platform_is_that_of_containers(
    machine: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert packages.platform() == expected
