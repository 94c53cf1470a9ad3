"""Small archives of npm, and an npm that has them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import stat
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_benchjobs.agents import packages
from pytest_benchjobs.agents.packages import Package

PROGRAM = b"#!/bin/sh\necho hi\n"
NPM = """#!{python}
import pathlib, shutil, sys, time
here = pathlib.Path({here!r})
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
archive = here / (sys.argv[2].replace("/", "-") + ".tgz")
if not archive.exists():
    print("npm error code E404\\nnpm error 404 '" + sys.argv[2] + "' is not in this registry.\\nnpm error A complete log: x")
    sys.exit(1)
shutil.copy(archive, "fetched.tgz")
"""


def package(name: str = "mini", version: str = "1.0.0", **changes: object) -> Package:
    fields = {
        "name": name,
        "version": version,
        "platform": "linux-x64",
        "npm": f"{name}@{version}",
        **changes,
    }
    return Package(**fields)  # type: ignore[arg-type]


def archive_of(
    path: Path,
    npm: str = "mini@1.0.0",
    files: Mapping[str, bytes] | None = None,
    members: tuple[tarfile.TarInfo, ...] = (),
) -> Path:
    """An archive as `npm pack` makes it. Files in `bin/` may be executed."""
    name, _, version = npm.rpartition("@")
    contents = {"package.json": json.dumps({"name": name, "version": version}).encode()}
    contents |= files if files is not None else {"bin/mini": PROGRAM, "README.md": b"read me"}
    with tarfile.open(path, "w:gz") as tar:
        for file, content in contents.items():
            member = tarfile.TarInfo(f"package/{file}")
            member.size, member.mode = len(content), 0o755 if "bin/" in file else 0o644
            tar.addfile(member, io.BytesIO(content))
        for member in members:
            tar.addfile(member)
    return path


def integrity(path: Path) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()


class Registry:
    """What the npm on PATH can fetch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def add(self, npm: str = "mini@1.0.0", files: Mapping[str, bytes] | None = None) -> Path:
        return archive_of(self.directory / f"{npm.replace('/', '-')}.tgz", npm, files)

    @property
    def calls(self) -> list[str]:
        """Packages it was asked for."""
        calls = self.directory / "calls"
        return [line.split()[1] for line in calls.read_text().splitlines()] if calls.exists() else []


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, on a machine of a kind that is always the same."""
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packages.host, "machine", lambda: "x86_64")
    return tmp_path / "cache" / "agents"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """An npm on PATH, and nothing else but the system's programs."""
    directory = tmp_path / "npm"
    directory.mkdir()
    npm = directory / "npm"
    npm.write_text(NPM.format(python=sys.executable, here=str(directory)))
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(directory))
    return Registry(directory)
