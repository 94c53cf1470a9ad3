"""Images are found, mapped and built once, and what cannot be had is said clearly."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.errors import ImageBuildFailed, ImageMissing
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker import images as images_module
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.images import Images, ResolvedImage
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import ImageRequest
from tests.support import IMAGE, PATIENCE, results, run, set_clock, until

from .sandboxes import out, started

pytestmark = pytest.mark.docker

TASK = f"task-{os.getpid()}"
"""Name of a directory, and so of the images that are built from it, that no other process of the tests has."""


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_benchjobs.sandbox.docker.pulling._PAUSES", (0.1, 0.1))


@pytest.fixture
def client(client: docker.APIClient) -> Iterator[docker.APIClient]:
    """A client; images that were built for the test are gone afterwards."""
    before = _built(client)
    yield client
    for image in _built(client) - before:
        client.remove_image(image, force=True)


def _built(client: docker.APIClient) -> set[str]:
    return {
        tag
        for image in client.images(filters={"label": "benchjobs.image"})
        for tag in image["RepoTags"] or []
        if tag.startswith(f"benchjobs/{TASK}:")
    }


def _resolve(dockerfile: Path, timeout: float = 120, **job: dict[str, str]) -> ResolvedImage:
    environment = Environment(dockerfile=dockerfile, build_timeout=timeout)
    with contextlib.closing(Engine()) as engine:
        return Images(engine).resolve(ImageRequest(environment, **job))


def _context(directory: Path, text: str, **files: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "Dockerfile").write_text(text)
    for name, content in files.items():
        (directory / name).write_text(content)
    return directory / "Dockerfile"


@pytest.mark.parametrize(("took", "until"), [(0.1, 60), (30.0, 300)])
def test_a_failure_is_remembered_for_a_while_and_for_longer_where_it_took_long(
    monkeypatch: pytest.MonkeyPatch, took: float, until: float
) -> None:
    now, asked = [1000.0], 0

    def fail(*_: object) -> ResolvedImage:
        nonlocal asked
        asked += 1
        now[0] += took
        raise ImageMissing("nowhere")

    engine = Engine()
    images = Images(engine)
    monkeypatch.setattr(images, "_resolve", fail)
    set_clock(monkeypatch, images_module, lambda: now[0])
    for later, expected in ((0.0, 1), (until - 1, 1), (2, 2), (0.0, 2)):
        now[0] += later
        with pytest.raises(ImageMissing, match="nowhere"):
            images.resolve(ImageRequest(Environment(image="nowhere/x:1")))
        assert asked == expected
    engine.close()


def test_base_images_of_a_dockerfile_are_replaced(client: docker.APIClient, tmp_path: Path) -> None:
    dockerfile = _context(
        tmp_path / TASK,
        "FROM nowhere/build:1 AS build\nRUN echo made > /made\nFROM nowhere/run\nCOPY --from=build /made /\nCOPY . /all/\n",
        **{"a.txt": "1"},
    )
    image_map = {"nowhere/build:1": IMAGE, "nowhere/run:latest": IMAGE}
    image = _resolve(dockerfile, image_map=image_map)
    assert image.record.substituted == {"nowhere/build:1": IMAGE, "nowhere/run": IMAGE}
    container = client.create_container(image.id, ["ls", "-A", "/all"])["Id"]
    try:
        client.start(container)
        client.wait(container)
        assert client.logs(container).decode().split() == ["Dockerfile", "a.txt"]
    finally:
        client.remove_container(container, force=True)


def test_two_scenarios_share_an_image_that_has_no_answers_in_it(
    client: docker.APIClient, tmp_path: Path
) -> None:
    directory = tmp_path / TASK
    _context(directory, f"FROM {IMAGE}\nCOPY . /app\n", test="test -e canary-of-the-test", src="")
    (directory / "it.bench.yaml").write_text(
        "benchmark: it\ndefaults: {dockerfile: Dockerfile, workdir: /app, problem_statement: x}\nscenarios:\n"
        "  - {id: one, reference: touch canary-of-the-reference, scorers: [{type: command, command: grep -q seen out}]}\n"
        "  - {id: two, scorers: [{type: tests, path: test, command: grep -q seen /app/out}]}\n"
    )
    work = "command:{ ls -A; grep -rl canary- .; } > /tmp/all; test \"$(paste -s /tmp/all)\" = 'Dockerfile\tsrc' && echo seen > out"
    for _ in range(2):
        said = run(directory, f"--bench-agent={work}", "--bench-concurrency=1", "it.bench.yaml").stdout
    found = results(directory)
    assert [one["score"] for one in found] == [1.0] * 4, said
    assert len({one["image"]["key"] for one in found}) == 1, "the first job's results are in no image either"
    assert [note for one in found for note in one["notes"]] == [
        f"left out of the build context {directory}, since no agent may see it: it.bench.yaml, reports, test"
    ]


def test_a_base_image_for_the_platform_is_part_of_what_goes_in(
    client: docker.APIClient, tmp_path: Path
) -> None:
    machine = client.version()["Arch"]
    name = f"faults-base:{machine}"
    client.tag(IMAGE, "faults-base", machine)
    dockerfile = _context(tmp_path / TASK, "FROM faults-base:${TARGETARCH}\n")
    engine = Engine()
    try:
        image = _resolve(dockerfile, image_map={name: IMAGE})
        assert image.record.substituted == {name: IMAGE}
        environment = Environment(dockerfile=dockerfile)
        assert Images(engine).identify(ImageRequest(environment)) is not None
    finally:
        client.remove_image(name)
    assert Images(engine).identify(ImageRequest(environment)) is None, "its base image is not here"
    engine.close()


def test_a_base_image_out_of_reach_is_missing(client: docker.APIClient, tmp_path: Path) -> None:
    dockerfile = _context(tmp_path / TASK, "FROM nowhere/base:1\n")
    with pytest.raises(ImageMissing, match="nowhere/base:1"):
        _resolve(dockerfile)


def test_a_build_that_fails_shows_its_last_words_but_no_values(
    client: docker.APIClient, tmp_path: Path
) -> None:
    dockerfile = _context(
        tmp_path / TASK, f"FROM {IMAGE}\nARG TOKEN\nRUN echo about to fail with $TOKEN && exit 7\n"
    )
    with pytest.raises(ImageBuildFailed) as caught:
        _resolve(dockerfile, build_args={"TOKEN": "hunter2-secret"})
    text = str(caught.value)
    assert str(dockerfile) in text
    assert "about to fail with ***" in text
    assert "returned a non-zero code: 7" in text or "exit code: 7" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("status", [0, 7])
def test_a_build_leaves_no_container_that_knows_its_values(
    client: docker.APIClient, tmp_path: Path, status: int
) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    dockerfile = _context(tmp_path / TASK, f"FROM {IMAGE}\nARG TOKEN\nRUN : {mark} $TOKEN; exit {status}\n")
    with pytest.raises(ImageBuildFailed) if status else contextlib.nullcontext():
        _resolve(dockerfile, build_args={"TOKEN": "hunter2-secret"})
    left = [found["Id"] for found in client.containers(all=True) if mark in found["Command"]]
    for container in left:
        client.remove_container(container, force=True)
    assert left == []


def test_a_dockerfile_that_makes_no_sense_is_a_failed_build(client: docker.APIClient, tmp_path: Path) -> None:
    with pytest.raises(ImageBuildFailed, match=r"(?i)unknown instruction"):
        _resolve(_context(tmp_path / TASK, f"FROM {IMAGE}\nNONSENSE here\n"))
    with pytest.raises(ImageBuildFailed, match="cannot be read"):
        _resolve(tmp_path / "nothing" / "Dockerfile")


def test_a_build_that_takes_too_long_is_ended(client: docker.APIClient, tmp_path: Path) -> None:
    dockerfile = _context(tmp_path / TASK, f"FROM {IMAGE}\nRUN sleep 4747\n")
    started = time.monotonic()
    with pytest.raises(ImageBuildFailed, match="did not end within 2 s"):
        _resolve(dockerfile, timeout=2)
    assert time.monotonic() - started < 400

    def left() -> list[str]:
        return [found["Id"] for found in client.containers(all=True) if "sleep 4747" in found["Command"]]

    until(lambda: not left(), what=lambda: f"{left()} still build")


def test_processes_that_need_the_same_image_build_it_once(client: docker.APIClient, tmp_path: Path) -> None:
    dockerfile = _context(
        tmp_path / TASK, f"FROM {IMAGE}\nRUN sleep 1 && cat /proc/sys/kernel/random/uuid > /id\n"
    )
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from pytest_benchjobs.model.scenario import Environment
        from pytest_benchjobs.sandbox.docker import build
        from pytest_benchjobs.sandbox.docker.engine import Engine
        from pytest_benchjobs.sandbox.docker.images import Images
        from pytest_benchjobs.sandbox.protocol import ImageRequest
        whole = build.build
        build.build = lambda *given: (Path(sys.argv[2]).touch(), whole(*given))
        images = Images(Engine())
        print(images.resolve(ImageRequest(Environment(dockerfile=Path(sys.argv[1])))).id)
        """)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(dockerfile), str(tmp_path / f"built{number}")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    ids = {process.communicate(timeout=PATIENCE)[0].strip() for process in processes}
    assert len(ids) == 1
    assert ids.pop().startswith("sha256:")
    assert len(list(tmp_path.glob("built*"))) == 1, "only one of them built"


def test_the_user_and_the_entrypoint_of_an_image_are_kept_as_asked(
    client: docker.APIClient, tmp_path: Path, provider: DockerProvider
) -> None:
    dockerfile = _context(
        tmp_path / TASK,
        f"FROM {IMAGE}\nRUN printf '#!/bin/sh\\necho served > /tmp/served\\nexec \"$@\"\\n' > /entry && chmod +x /entry\n"
        'WORKDIR /home\nUSER nobody\nENTRYPOINT ["/entry"]\nCMD ["never"]\n',
    )
    seen = []
    for keep in (True, False):
        with started(
            provider, image=None, workdir=None, dockerfile=dockerfile, keep_entrypoint=keep
        ) as sandbox:
            wait = "until test -e /tmp/served; do sleep 0.05; done" if keep else "sleep 0.3"
            said = out(sandbox, f"{wait}; id -un; pwd; cat /tmp/served 2>/dev/null || echo no", timeout=60)
            seen.append((said.split(), sandbox.processes(), sandbox.workdir))
    assert seen == [(["nobody", "/home", "served"], (), "/home"), (["nobody", "/home", "no"], (), "/home")]
