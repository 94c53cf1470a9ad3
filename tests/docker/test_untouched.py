"""What tells that an agent changed nothing of an image, in two short calls: it must never say so of one that did."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.assembly import Assembly
from pytest_benchjobs.sandbox.docker import container as rooms
from pytest_benchjobs.sandbox.docker import first
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.docker.untouched import Watched
from pytest_benchjobs.sandbox.protocol import File, Mount, SandboxSpec
from tests.support import IMAGE, until

pytestmark = pytest.mark.docker


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Containers of which the engine was asked for its list of changes."""
    asked: list[str] = []
    original = rooms.changes_of

    def changes_of(client: object, container: str) -> dict[str, int]:
        asked.append(container)
        return original(client, container)  # type: ignore[arg-type]

    monkeypatch.setattr(rooms, "changes_of", changes_of)
    return asked


@contextlib.contextmanager
def _sandbox(
    provider: DockerProvider, *files: File, mounts: tuple[Mount, ...] = (), workdir: str = "/app"
) -> Iterator[DockerSandbox]:
    environment = Environment(image=IMAGE, workdir=workdir, network="none")
    spec = SandboxSpec(environment, {"job": "test-untouched"}, "none", 300, files=files, mounts=mounts)
    sandbox = provider.start(spec, lambda phase: None)
    try:
        yield sandbox
    finally:
        sandbox.remove()


def _sh(sandbox: DockerSandbox, script: str) -> None:
    output = bytearray()
    status = sandbox.exec(["bash", "-c", script], timeout=60, sink=output.extend).exit_status
    assert status == 0, output.decode()


def _restored(sandbox: DockerSandbox, script: str) -> tuple[str, ...]:
    """Run what an agent does, end it, and return what was put back."""
    _sh(sandbox, script)
    sandbox.end_processes()
    return sandbox.restore_programs()


WORK = {
    "nothing": "true",
    "its answer": "echo ok > out.txt; mkdir -p a/b; mv out.txt a/b; ln -s /usr a/usr",
    "temporary files": "mkdir /tmp/x; echo 1 > /tmp/x/y; echo 1 > /run/z; touch /bench/more",
    "reading": "cat /usr/lib/os-release /etc/* >/dev/null 2>&1; ls -R /usr >/dev/null",
    "daemons": "setsid sleep 60 >/dev/null 2>&1 &",
}


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "contract"])
@pytest.mark.parametrize("work", WORK)
def test_the_engine_is_not_asked_where_the_image_is_untouched(
    provider: DockerProvider, asked: list[str], work: str, strict: bool
) -> None:
    with _sandbox(provider, File("/app/in.txt", content=b"1")) as sandbox:
        _sh(sandbox, WORK[work])
        if strict:
            sandbox.end_processes()
        else:
            sandbox.end_commands("BENCH_PROBLEM_FILE")
        assert sandbox.restore_programs() == ()
        assert sandbox.elsewhere() == ()
    assert asked == []


CHANGES = {
    "a shell replaced": "cp /bin/ls /bin/sh.new && mv /bin/sh.new /bin/bash",
    "a byte deep below": "printf x | dd of=/usr/lib/x86_64-linux-gnu/perl-base/strict.pm conv=notrunc status=none",
    "its time put back": 't=$(stat -c %y /usr/bin/env); echo x >> /usr/bin/env; touch -d "$t" /usr/bin/env; touch -d "$t" /usr/bin /usr /',
    "only its mode": "chmod 0777 /usr/bin/env",
    "something added": "echo 'import os' > /etc/bash.bashrc.new; mv /etc/bash.bashrc.new /etc/bash.bashrc",
    "something deleted": "rm /usr/bin/env",
    "a directory renamed": "mv /usr/share/perl5 /usr/share/perl6",
    "a directory renamed and back": "mv /etc/alternatives /etc/x; mkdir /etc/alternatives; cp -a /etc/x/. /etc/alternatives",
    "a link to it written through": "ln -s /etc/profile p; echo x >> p",
    "a hard link of it written to": "ln /etc/profile /etc/p; echo x >> /etc/p",
    "a file of the root": "echo 'raise SystemExit(0)' > /conftest.py",
    "written through a descriptor": "exec 3<>/etc/profile; printf '#' >&3",
    "in a home": "echo 'exit 0' > /root/.bash_profile",
    "told to look at before": "kill -USR2 1; sleep 0.1; kill -USR2 1; echo x >> /etc/profile",
    "told to look all the time": "for i in $(seq 200); do kill -USR2 1; done; echo x >> /etc/profile; for i in $(seq 201); do kill -USR2 1; done",
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_the_image_is_seen(provider: DockerProvider, asked: list[str], change: str) -> None:
    with _sandbox(provider, File("/app/in.txt", content=b"1")) as sandbox:
        _sh(sandbox, CHANGES[change])
        sandbox.end_commands("BENCH_PROBLEM_FILE")
        sandbox.restore_programs()
        assert asked == [sandbox.id]
        asked.clear()
        sandbox._restored = False
        sandbox.end_processes()
        sandbox.restore_programs()
        assert asked == [sandbox.id]


@pytest.mark.parametrize("late", [0.2, 2.0])
def test_a_command_that_ends_before_the_first_process_has_looked_is_seen(
    provider: DockerProvider, asked: list[str], monkeypatch: pytest.MonkeyPatch, late: float
) -> None:
    """As on a machine that is too busy to let the first process run at once."""

    class Late(first._Baseline):
        def __init__(self, program: Assembly, watched: Watched) -> None:
            super().__init__(program, watched)
            self._seconds = program.data(struct.pack("<QQ", int(late), int(late % 1 * 1e9)))

        def note(self) -> None:
            self._first.attempt("nanosleep", self._seconds, 0)
            super().note()

    monkeypatch.setattr(first, "_Baseline", Late)
    with _sandbox(provider) as sandbox:
        _sh(sandbox, "echo x >> /usr/bin/env; touch /dev/x")
        until(lambda: sandbox._processes.listed()[0].name.startswith("bench-"))
        sandbox.end_processes()
        assert sandbox.restore_programs() == ("/usr/bin/env",)
        _sh(sandbox, "test ! -e /dev/x")
    assert len(asked) == 1


def test_a_change_after_it_was_looked_at_is_seen(provider: DockerProvider, asked: list[str]) -> None:
    with _sandbox(provider) as sandbox:
        sandbox.end_processes()
        assert sandbox.restore_programs() == ()
        assert asked == []
        assert "/usr/bin/env" in _restored(
            sandbox, "echo 'exit 0' >> /etc/bash.bashrc; echo x >> /usr/bin/env"
        )


def test_a_container_that_was_started_anew_is_not_compared_with_itself(
    provider: DockerProvider, asked: list[str]
) -> None:
    with _sandbox(provider) as sandbox:
        assert "/usr/bin/env" in _restored(sandbox, "echo x >> /usr/bin/env; touch /dev/x")
        assert "/usr/bin/env" in _restored(sandbox, "echo x >> /usr/bin/env")


@pytest.mark.parametrize("where", ["/usr/lib/x86_64-linux-gnu/perl-base/own.pm", "/etc/own/x", "/lib/own/x"])
def test_directories_that_were_filled_before_are_watched(
    provider: DockerProvider, asked: list[str], where: str
) -> None:
    beside = "echo x >> /usr/bin/env; echo x >> /etc/profile; echo x >> /usr/lib/x86_64-linux-gnu/perl-base/strict.pm"
    for change in beside.split("; "):
        with _sandbox(provider, File(where, content=b"1")) as sandbox:
            assert change.split()[-1] in _restored(sandbox, change)
    assert len(asked) == 3


def test_mounts_are_watched(provider: DockerProvider, asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    mount = Mount(tmp_path / "agent", "/usr/local/lib/agent")
    for change, target in (("", None), ("echo x >> /usr/bin/env", "/usr/bin/env")):
        with _sandbox(provider, mounts=(mount,)) as sandbox:
            assert _restored(sandbox, change or "true") == (() if target is None else (target,))
    assert len(asked) == 1


@pytest.mark.parametrize("workdir", ["/", "/usr", "/usr/local", "/root"])
def test_a_workdir_among_programs_is_in_doubt(
    provider: DockerProvider, asked: list[str], workdir: str
) -> None:
    with _sandbox(provider, workdir=workdir) as sandbox:
        _restored(sandbox, "echo x > out.txt")
    assert len(asked) == 1


def test_a_workdir_that_is_a_link_is_in_doubt(provider: DockerProvider, asked: list[str]) -> None:
    with _sandbox(provider, workdir="/lib/app") as sandbox:
        assert "/usr/bin/env" in _restored(sandbox, "echo x >> /usr/bin/env")
    assert len(asked) == 1


def test_other_file_systems_are_in_doubt(
    provider: DockerProvider, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = provider.images.resolve
    monkeypatch.setattr(
        provider.images, "resolve", lambda *a: dataclasses.replace(resolve(*a), driver="btrfs")
    )
    with _sandbox(provider) as sandbox:
        assert _restored(sandbox, "true") == ()
    assert len(asked) == 1


def test_a_history_that_was_rewritten_is_elsewhere(provider: DockerProvider, asked: list[str]) -> None:
    with _sandbox(provider, File("/app/.git/HEAD", content=b"ref: refs/heads/main\n")) as sandbox:
        _restored(sandbox, "echo x > out.txt")
        assert (sandbox.elsewhere(), asked) == ((), [])
        _restored(sandbox, "mv .git/HEAD .git/x; echo 'ref: refs/heads/other' > .git/HEAD")
        assert "/app/.git/x" in (sandbox.elsewhere() or ())
