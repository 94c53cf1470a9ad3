"""What a trial left can be kept, started from, counted and removed; an image is known before it is there."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.errors import EngineError, ImageMissing
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import File, ImageRequest
from tests.support import IMAGE

from .sandboxes import out, started

pytestmark = pytest.mark.docker

_start = functools.partial(
    started, labels={"job": "test-kept", "trial": "a.yaml::s[oracle]", "bundle": "/results/jobs/test-kept"}
)


@pytest.fixture
def name(provider: DockerProvider) -> Iterator[str]:
    name = f"test-{secrets.token_hex(4)}"
    yield name
    provider.forget_kept(f"benchjobs-kept:{name}")


def test_what_an_agent_left_is_there_again(provider: DockerProvider, name: str) -> None:
    with _start(provider) as sandbox:
        out(
            sandbox,
            "echo done > out.txt; rm /etc/debian_version; mkdir -p /srv/agent/cache; chmod 600 out.txt",
        )
        reference = sandbox.keep(name)
        assert reference == f"benchjobs-kept:{name}"
        out(sandbox, "echo later > out.txt")
        began_with = sandbox.image

    with _start(provider, File("/app/more.txt", content=b"more"), kept=reference) as again:
        assert out(again, "cat out.txt more.txt; stat -c %a out.txt; ls -d /srv/agent/cache; pwd") == (
            "done\nmore600\n/srv/agent/cache\n/app\n"
        )
        assert out(again, "test -e /etc/debian_version && echo there || echo gone") == "gone\n"
        # It is still the image the trial began with that decides how its result compares.
        assert again.image == began_with


def test_files_with_holes_keep_them_and_those_that_cannot_are_not_kept(
    provider: DockerProvider, name: str
) -> None:
    look = "for one in big core; do stat -c '%n %s %a %U %Y' $one; du -k $one; md5sum < $one; done; stat -c '%a %Y' ."
    with _start(provider, storage=64 << 20) as sandbox:
        out(
            sandbox,
            "truncate -s 99M big; truncate -s 64M core; printf end >> core; chmod 640 core; chown daemon core",
        )
        out(
            sandbox,
            "dd if=/dev/urandom of=core bs=1M count=2 seek=5 conv=notrunc 2>/dev/null; touch -d 2001-01-01 core .",
        )
        before = out(sandbox, look)
        reference = sandbox.keep(name)
        assert out(sandbox, look) == before
        assert sandbox.limit_hit() is None
    assert {one.reference: one for one in provider.kept()}[reference].bytes < 20 << 20
    with _start(provider, kept=reference) as again:
        assert out(again, look) == before
        assert out(again, "ls /bench") == "program\n"
        out(again, "truncate -s 1T huge; (exec sleep 300 >/dev/null 2>&1 3< huge) &")
        with pytest.raises(EngineError, match="or may be in use"):
            again.keep(name)
        again.end_processes()
        out(again, "ln huge other")
        with pytest.raises(EngineError, match="would write out the holes of files that have several names"):
            again.keep(name)


def test_what_is_kept_has_no_value_of_a_variable(
    provider: DockerProvider, client: docker.APIClient, name: str
) -> None:
    with _start(provider, env={"API_TOKEN": "sk-very-secret", "PATH": "/opt/x:/usr/bin:/bin"}) as sandbox:
        reference = sandbox.keep(name)
    assert "sk-very-secret" not in str(client.inspect_image(reference))
    assert "sk-very-secret" not in str(client.history(reference))
    with _start(provider, kept=reference, env={"API_TOKEN": "another"}) as again:
        assert out(again, "echo $API_TOKEN; command -v ls") == "another\n/usr/bin/ls\n"


def test_a_container_that_others_start_from_it_is_not_swept(
    provider: DockerProvider, client: docker.APIClient, name: str
) -> None:
    with _start(provider) as sandbox:
        reference = sandbox.keep(name)
    own = client.create_container(reference, ["true"])["Id"]
    try:
        provider.sweep()
        labels = client.inspect_container(own)["Config"]["Labels"]
        assert labels["benchjobs.owner"] == labels["benchjobs.deadline"] == ""
    finally:
        client.remove_container(own, force=True)


def test_it_is_listed_with_its_size_and_where_it_came_from_until_it_is_forgotten(
    provider: DockerProvider, name: str
) -> None:
    with _start(provider) as sandbox:
        out(sandbox, "head -c 300000 /dev/zero > big")
        reference = sandbox.keep(name)
    found = {one.reference: one for one in provider.kept()}[reference]
    assert (found.job, found.trial) == ("test-kept", "a.yaml::s[oracle]")
    assert found.bundle == "/results/jobs/test-kept"
    assert 300_000 <= found.bytes < 10_000_000
    assert provider.forget_kept(reference)
    assert reference not in {one.reference for one in provider.kept()}
    assert not provider.forget_kept(reference)
    with (
        pytest.raises(ImageMissing, match=r"no longer on this machine.*--bench-keep"),
        _start(provider, kept=reference),
    ):
        pass


def test_an_image_is_asked_for_once_however_many_trials_want_it(
    provider: DockerProvider, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    asked = []
    fresh = DockerProvider(provider.owner)
    monkeypatch.setattr(fresh.engine, "get", lambda path: asked.append(path) or provider.engine.get(path))
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: fresh.identify(ImageRequest(Environment(image=IMAGE))), range(200)))
    fresh.close()
    assert (keys, asked) == ({client.inspect_image(IMAGE)["Id"]}, [f"/images/{IMAGE}/json"])


def test_a_dockerfile_is_known_before_it_is_built(
    provider: DockerProvider, client: docker.APIClient, tmp_path: Path
) -> None:
    def environment(number: int, **more: object) -> Environment:
        # What was looked at is remembered, so each state of the files gets a place of its own.
        place = tmp_path / str(number) / "same"
        place.mkdir(parents=True)
        (place / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY data /data\n")
        (place / "data").write_text(str(more.pop("data", "1")))
        return Environment(dockerfile=place / "Dockerfile", **more)

    first = provider.identify(ImageRequest(environment(1)))
    assert first is not None
    assert first.startswith("benchjobs/same:")
    with pytest.raises(docker.errors.ImageNotFound):
        client.inspect_image(first)
    assert provider.identify(ImageRequest(environment(2))) == first
    assert provider.identify(ImageRequest(environment(3, data="2"))) != first
    assert provider.identify(ImageRequest(environment(4), {}, {"ARG": "1"})) not in (first, None)
    # The image that is named as well may yet be pulled: nobody knows which of them it will be.
    assert provider.identify(ImageRequest(environment(5, image="nowhere/other"))) is None

    built = environment(6)
    try:
        with _start(provider, image=None, dockerfile=built.dockerfile) as sandbox:
            assert sandbox.image.key == first
            assert provider.identify(ImageRequest(environment(7, image="nowhere/other"))) == first
    finally:
        client.remove_image(first, force=True)


@pytest.mark.parametrize(
    "script",
    ["echo first; sleep 60", "exec >&- 2>&-; sleep 60"],
    ids=["prints no more", "has closed its output"],
)
def test_a_command_that_falls_silent_is_waited_for_no_longer(provider: DockerProvider, script: str) -> None:
    with _start(provider) as sandbox:
        result = sandbox.exec(["sh", "-c", script], timeout=50, silent=0.4, sink=lambda data: None)
        assert (result.exit_status, result.timed_out, result.silent) == (None, True, True)
        assert result.seconds < 40


def test_a_command_that_keeps_talking_is_not_silent(provider: DockerProvider) -> None:
    with _start(provider) as sandbox:
        script = "for i in $(seq 30); do echo $i; sleep 0.2; done"
        result = sandbox.exec(["sh", "-c", script], timeout=50, silent=5, sink=lambda data: None)
        assert (result.exit_status, result.timed_out, result.silent) == (0, False, False)
        late = sandbox.exec(
            ["sh", "-c", "while :; do echo; sleep 0.1; done"], timeout=0.6, silent=30, sink=lambda data: None
        )
        assert (late.timed_out, late.silent) == (True, False)
