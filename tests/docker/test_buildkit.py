"""What goes to `docker buildx`: build arguments reach the build, and never a program of this machine."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.errors import ImageBuildFailed
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import build
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.images import Images, ResolvedImage
from pytest_benchjobs.sandbox.protocol import ImageRequest
from tests.support import IMAGE, until

pytestmark = pytest.mark.docker

# A command that notes how it was called, and has the engine's own builder do what a definition says.
FAKE = """
import io, json, os, pathlib, sys, tarfile, time
if sys.argv[1:] == ["buildx", "version"]:
    sys.exit(0)
seen = pathlib.Path({seen!r})
directory = pathlib.Path.cwd()
written = json.loads(pathlib.Path(sys.argv[sys.argv.index("--file") + 1]).read_text())
(target,) = written["target"].values()
context = directory / target["context"]
files = sorted(str(path.relative_to(context)) for path in context.rglob("*"))
seen.write_text(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "target": target, "files": files,
                            "pid": os.getpid(), "directory": str(directory)}}))
print("#1 building with", *target["args"].values(), flush=True)
if (context / "hangs").exists():
    if os.fork() == 0:
        time.sleep(4711)
    os._exit(0)
import docker
buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w") as tar:
    tar.add(context, ".")
buffer.seek(0)
arguments = {{name: value.replace("$${{", "${{").replace("%%{{", "%{{") for name, value in target["args"].items()}}
for line in docker.APIClient(**docker.utils.kwargs_from_env(), version="auto").build(
        fileobj=buffer, custom_context=True, dockerfile=target["dockerfile"], buildargs=arguments,
        tag=target["tags"][0], labels=target["labels"], rm=True, forcerm=True, decode=True):
    print(line.get("stream", ""), end="", flush=True)
    if "error" in line:
        sys.exit(line["error"])
"""


@pytest.fixture
def seen(tmp_path: Path, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the command that stands in for `docker` notes its last call."""
    directory = tmp_path / "bin"
    directory.mkdir()
    script = directory / "docker"
    fake = FAKE.format(seen=str(tmp_path / "seen.json"))
    script.write_text(f"#!{sys.executable}\n{textwrap.dedent(fake)}")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    build.has_buildx.cache_clear()
    yield tmp_path / "seen.json"
    build.has_buildx.cache_clear()
    for image in client.images(filters={"label": "benchjobs.image"}):
        for tag in image["RepoTags"] or []:
            if tag.startswith("benchjobs/faults-buildkit:"):
                client.remove_image(tag, force=True)


def resolve(tmp_path: Path, text: str, arguments: dict[str, str], **files: str) -> ResolvedImage:
    context = tmp_path / "faults-buildkit"
    context.mkdir(exist_ok=True)
    (context / "Dockerfile").write_text(text)
    for name, content in files.items():
        (context / name).write_text(content)
    engine = Engine()
    try:
        environment = Environment(dockerfile=context / "Dockerfile", build_args=arguments)
        return Images(engine).resolve(ImageRequest(environment))
    finally:
        engine.close()


def test_build_arguments_are_no_variables_of_this_machine(
    seen: Path, client: docker.APIClient, tmp_path: Path
) -> None:
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "docker").write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\n")
    (evil / "docker").chmod(0o755)
    hostile = {
        "PATH": f"{evil}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(evil),
        "DOCKER_CONFIG": str(evil),
        "DOCKER_HOST": "tcp://203.0.113.1:1",
        "LD_PRELOAD": f"{evil}/lib.so",
        "BUILDX_BUILDER": "evil",
        "HTTPS_PROXY": "http://203.0.113.1:1",
    }
    given = {**hostile, "TOKEN": "a ${b} %{c} $d \"e\" 'f'\n\\g"}
    text = f'FROM {IMAGE}\nARG TOKEN\nCOPY . /all\nRUN printf %s "$TOKEN" > /token\n'
    image = resolve(tmp_path, text, given, **{"a.txt": "1", "b.txt": "2", ".dockerignore": "b*\n"})
    assert not (tmp_path / "owned").exists()
    call = json.loads(seen.read_text())
    for name, value in given.items():
        assert call["env"].get(name) == ({**os.environ, "DOCKER_HOST": Engine().host}).get(name)
        assert not any(value in word for word in call["argv"])
    assert call["files"] == [".dockerignore", "Dockerfile", "a.txt"]
    assert not Path(call["directory"]).exists()
    assert _read(client, image.id, "/token") == given["TOKEN"]


def test_a_build_that_fails_is_told_without_values(seen: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ImageBuildFailed, match=r"building with \*\*\*(.|\n)*about to fail(.|\n)*code: 3"
    ) as caught:
        resolve(tmp_path, f"FROM {IMAGE}\nRUN echo about to fail && exit 3\n", {"TOKEN": "hunter2-secret"})
    assert "hunter2" not in str(caught.value)


def test_a_build_that_is_broken_off_ends_all_its_processes(seen: Path, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def check() -> None:
        if seen.exists() and seen.read_text().endswith("}"):
            raise Stopped

    context = tmp_path / "faults-buildkit"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\n")
    (context / "hangs").write_text("")
    engine = Engine()
    with pytest.raises(Stopped):
        Images(engine).resolve(ImageRequest(Environment(dockerfile=context / "Dockerfile")), check)
    engine.close()
    group = json.loads(seen.read_text())["pid"]

    def alive() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(path.parent.name)
        return found

    until(lambda: not alive())


def _read(client: docker.APIClient, image: str, path: str) -> str:
    container = client.create_container(image, ["true"])["Id"]
    try:
        stream, _ = client.get_archive(container, path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            found = tar.extractfile(tar.getmembers()[0])
            assert found is not None
            return found.read().decode()
    finally:
        client.remove_container(container, force=True)
