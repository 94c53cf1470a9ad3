"""The local sandbox itself: real namespaces, no engine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import (
    AgentSetupFailed,
    ContainerLost,
    ContainerStartFailed,
    EngineError,
    EngineUnavailable,
    EnvironmentFailed,
    ImageMissing,
    InfrastructureError,
)
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider
from pytest_benchjobs.sandbox.bubblewrap.sandbox import LocalSandbox
from pytest_benchjobs.sandbox.protocol import ExecResult, File, ImageRequest, Mount, SandboxSpec, Stopping

HERE = Path(__file__).parent
SOME_FILES = HERE.parent / "unit" / "v1"


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    provider = LocalProvider(current_owner())
    yield provider
    provider.close()


Start = Callable[..., LocalSandbox]


@pytest.fixture
def start(provider: LocalProvider) -> Iterator[Start]:
    """Starts sandboxes, and removes them."""
    started: list[LocalSandbox] = []

    def begin(
        *files: File, mounts: tuple[Mount, ...] = (), network: str = "none", **environment: object
    ) -> LocalSandbox:
        spec = SandboxSpec(
            environment=Environment.model_validate({"image": "host", "workdir": "/app", **environment}),
            labels={},
            network=network,  # type: ignore[arg-type]
            deadline=60,
            files=files,
            mounts=mounts,
        )
        started.append(provider.start(spec, lambda _phase: None))
        return started[-1]

    yield begin
    for sandbox in started:
        sandbox.remove()
        assert not Path(sandbox.id).exists()


def sh(sandbox: LocalSandbox, script: str, **more: object) -> tuple[ExecResult, str]:
    out = bytearray()
    given = {"timeout": 30.0, **more}
    result = sandbox.exec(("sh", "-c", script), sink=out.extend, **given)  # type: ignore[arg-type]
    return result, out.decode()


def test_commands_run_as_root_in_the_workdir_with_the_variables_given(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CANARY", "canary")
    monkeypatch.setenv("LD_PRELOAD", "")
    sandbox = start(File("in.txt", content=b"hello"), env={"A": "1", "B": "2"})
    result, out = sh(sandbox, "id -un; pwd; cat in.txt; echo; env", env={"B": "3"})
    assert (result.exit_status, result.started, result.timed_out) == (0, True, False)
    user, place, content, *variables = out.splitlines()
    assert (user, place, content) == ("root", "/app", "hello")
    assert {line.split("=")[0] for line in variables} == {"PATH", "HOME", "HOSTNAME", "PWD", "A", "B"}
    assert {"A=1", "B=3", "HOME=/root", "HOSTNAME=bench"} <= set(variables)


def test_what_a_command_makes_can_be_read_by_others_as_in_a_container(start: Start) -> None:
    _, out = sh(start(), "umask; touch file; mkdir directory; stat -c %a file directory")
    assert out.split() == ["0022", "644", "755"]


def test_output_comes_merged_and_standard_output_once_more(start: Start) -> None:
    both, one = bytearray(), bytearray()
    result = start().exec(
        ("sh", "-c", "echo out; echo err >&2; exit 3"), timeout=30, sink=both.extend, stdout=one.extend
    )
    assert (result.exit_status, bytes(one)) == (3, b"out\n")
    assert sorted(both.decode().split()) == ["err", "out"]


def test_what_is_on_this_machine_and_none_of_its_business(start: Start, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary")
    sandbox = start()
    _, out = sh(
        sandbox, "ls -A /root /home /run /tmp /srv /mnt; ls -d /work /var/run/docker.sock /sys 2>/dev/null"
    )
    names = out.replace(":", "").split()
    assert sorted(names) == ["/home", "/mnt", "/root", "/run", "/srv", "/tmp"]
    result, out = sh(sandbox, f"cat {tmp_path}/secret")
    assert (result.exit_status, "canary" in out) == (1, False)
    _, out = sh(sandbox, "cat /etc/passwd /etc/shadow 2>/dev/null | cut -d: -f1")
    assert out.split() == ["root", "nobody"]
    # What everybody may read of the settings of this machine is there.
    _, out = sh(sandbox, "cat /etc/nsswitch.conf /etc/services 2>/dev/null | cksum; ls /etc | wc -l")
    settings = b"".join(
        path.read_bytes() for path in map(Path, ("/etc/nsswitch.conf", "/etc/services")) if path.is_file()
    )
    sum_ = subprocess.run(["cksum"], input=settings, capture_output=True, check=True).stdout.decode()
    assert out.split()[:2] == sum_.split()
    _, out = sh(sandbox, "ls -d /proc/[0-9]* | wc -l")
    assert int(out) < 10


def test_nothing_of_the_kernel_can_be_changed_even_if_this_is_root(start: Start) -> None:
    sandbox = start()
    _, out = sh(
        sandbox,
        "find /proc/sys /proc/bus /proc/irq /proc/fs -xdev -writable 2>/dev/null | head; "
        "test -w /proc/sysrq-trigger && echo sysrq; cat /proc/kcore /proc/keys 2>/dev/null | head -c 9 | wc -c",
    )
    assert out.split() == ["0"]
    # Written is what is there already, lest a failure of this test does harm.
    name = "/proc/sys/kernel/core_pattern"
    assert sh(sandbox, f'value=$(cat {name}) && echo "$value" > {name}')[0].exit_status != 0
    unlocked = f"umount {name.rsplit('/', 2)[0]} || mount -t proc none /proc; test -w {name}"
    assert sh(sandbox, unlocked)[0].exit_status != 0
    assert (
        sh(sandbox, f"unshare --user --map-root-user --mount --pid --fork sh -c '{unlocked}'")[0].exit_status
        != 0
    )


def test_programs_and_settings_cannot_be_changed_and_the_rest_is_kept_between_commands(start: Start) -> None:
    sandbox, other = start(), start()
    for path in ("/usr/bin/sh", "/bin/x", "/etc/passwd", "/etc/x", "/usr/x"):
        if Path(path).parent.is_dir():
            assert sh(sandbox, f"echo x > {path}")[0].exit_status != 0
    assert sh(sandbox, "rm -rf /bin || mv /usr /usr2")[0].exit_status != 0
    for path in ("/app/a", "/root/a", "/tmp/a", "/var/a", "/anything"):
        assert sh(sandbox, f"echo mine > {path}")[0].exit_status == 0
        assert sh(sandbox, f"cat {path}")[1] == "mine\n"
        assert sh(other, f"cat {path}")[0].exit_status != 0
    assert sandbox.tampered() == ()


def test_without_network_there_is_a_loopback_of_its_own(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"
        sandbox = start()
        _, out = sh(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1")
        assert out.split() == ["lo"]
        assert sh(sandbox, connect)[0].exit_status != 0
        listening = "bash -c 'perl -MIO::Socket::INET -e \"IO::Socket::INET->new(Listen=>1,LocalAddr=>q(127.0.0.1)) or die\"'"
        if shutil.which("perl"):
            assert sh(sandbox, listening)[0].exit_status == 0
        sandbox.set_network("public")
        assert sh(sandbox, connect)[0].exit_status == 0
        sandbox.set_network("none")
        assert sh(sandbox, connect)[0].exit_status != 0
    with pytest.raises(ContainerStartFailed, match="allowlist"):
        sandbox.set_network("allowlist")


def test_whatever_a_command_starts_ends_with_it(start: Start) -> None:
    sandbox = start()
    result, out = sh(
        sandbox,
        "sleep 4321 & setsid sleep 4322 </dev/null >/dev/null 2>&1 & (setsid sh -c 'sleep 4323; touch /app/late' &) "
        "; echo started",
    )
    assert (result.exit_status, out) == (0, "started\n")
    assert sandbox.processes() == ()
    assert not running("sleep", "4321", "4322", "4323")
    sandbox.end_processes()
    assert sh(sandbox, "test -e late")[0].exit_status == 1


def test_a_timeout_and_silence_end_a_command(start: Start) -> None:
    sandbox = start()
    result, out = sh(sandbox, "echo begun; sleep 4331", timeout=3)
    assert (result.timed_out, result.silent, result.exit_status, out) == (True, False, None, "begun\n")
    result, _ = sh(sandbox, "sleep 4332", silent=0.5)
    assert (result.timed_out, result.silent) == (True, True)
    assert not running("sleep", "4331", "4332")
    assert sh(sandbox, "echo again")[1] == "again\n"


def test_a_command_can_be_asked_to_end_with_its_children(start: Start) -> None:
    sandbox = start()
    ready = threading.Event()
    out = bytearray()

    def hear(data: bytes) -> None:
        out.extend(data)
        if b"ready" in out:
            ready.set()

    script = "trap 'echo got INT; exit 5' INT; (trap 'echo child' INT; sleep 4341 & wait) & echo ready; wait"
    result = sandbox.exec(
        ("bash", "-c", script),
        timeout=60,
        sink=hear,
        stopping=Stopping(ready.is_set, lambda name: sandbox.signal(2, name)),
    )
    assert (result.stopped, result.timed_out, result.exit_status) == (True, True, 5)
    assert b"got INT" in out
    sandbox.signal(2, "TERM")  # nobody is there any more
    assert not running("sleep", "4341")


def test_one_that_does_not_listen_is_killed(start: Start) -> None:
    sandbox = start()
    ready = threading.Event()
    result = sandbox.exec(
        ("bash", "-c", "trap '' INT TERM; echo ready; while :; do sleep 0.1; done"),
        timeout=60,
        sink=lambda _data: ready.set(),
        stopping=Stopping(
            ready.is_set, lambda name: sandbox.signal(2, name), graces=(("INT", 0.3), ("TERM", 0.3))
        ),
    )
    assert (result.stopped, result.exit_status) == (True, None)


def test_killing_it_from_another_thread_ends_what_runs_and_all_that_would(start: Start) -> None:
    sandbox = start()
    with pytest.raises(ContainerLost):
        sandbox.exec(("sh", "-c", "echo ready; sleep 4351"), timeout=60, sink=lambda _data: sandbox.kill())
    assert not running("sleep", "4351")
    with pytest.raises(ContainerLost):
        sh(sandbox, "true")
    with pytest.raises(ContainerLost):
        sandbox.put([File("x", content=b"x")])


def test_what_cannot_be_started_is_the_commands_fault(start: Start) -> None:
    sandbox = start(File("plain", content=b"#!/bin/sh\n"))
    for argv, workdir in ((("nope",), None), (("/app/plain",), None), (("true",), "/nope")):
        result = sandbox.exec(argv, timeout=30, sink=lambda _data: None, workdir=workdir)
        assert (result.started, result.exit_status) == (False, 127)
    result, _ = sh(sandbox, "kill -9 $$")
    assert (result.started, result.exit_status) == (True, 137)
    result, out = sh(sandbox, "echo 'bwrap: execvp me'; exit 1")
    assert (result.started, result.exit_status, out) == (True, 1, "bwrap: execvp me\n")
    with pytest.raises(EnvironmentFailed, match="'app'"):
        sh(sandbox, "true", user="app")


def test_no_value_of_a_variable_is_on_a_command_line(start: Start) -> None:
    seen: list[bytes] = []
    start(env={"KEY": "canary-4361"}).exec(
        ("sh", "-c", "echo ready; sleep 2"),
        timeout=30,
        sink=lambda _data: seen.extend(_command_lines()),
        env={"OTHER": "canary-4362"},
    )
    assert any(b"bwrap\0--args" in line for line in seen)
    assert not any(b"canary-436" in line for line in seen)


def test_files_in_and_out(start: Start, tmp_path: Path) -> None:
    sandbox = start(
        File("/tests", source=SOME_FILES),
        File("/logs/x", mode=0o777),
        File("run.sh", content=b"a", mode=0o755),
    )
    assert sh(sandbox, "test -d /tests && test -x run.sh && stat -c %a /logs/x")[1] == "777\n"
    assert sandbox.read("/app/run.sh", limit=10) == sandbox.read("run.sh", limit=10) == b"a"
    assert sandbox.read("/app/nope", limit=10) is None
    assert sandbox.read("/app", limit=10) is None
    with pytest.raises(ValueError, match="more than 0"):
        sandbox.read("/app/run.sh", limit=0)
    sh(sandbox, "mkdir -p o/a; echo 1 > o/a/b; ln -s a/b o/in; ln -s /etc/passwd o/out; mkfifo o/p; ln -s o link; cp -a o ./-o; "
                "mkdir locked; echo s > locked/x; chmod 0 locked/x locked; ln -s nowhere broken")  # fmt: skip
    for number, path in enumerate(("/app/o", "/app/link", "/app/o/.", "/app/./o/", "/app/-o")):
        fetched = sandbox.fetch(path, tmp_path / str(number), limit=1000)
        assert fetched is not None
        assert fetched.files == ("a/b", "in")
        assert len(fetched.notes) == 2
    locked = sandbox.fetch("/app/locked", tmp_path / "locked", limit=1000)
    assert locked is not None
    assert (tmp_path / "locked" / "x").read_text() == "s\n"
    assert sandbox.fetch("/app/nope", tmp_path / "nope", limit=10) is None
    assert sandbox.fetch("/app/broken", tmp_path / "broken", limit=10) is None
    few = sandbox.fetch("/app/o", tmp_path / "few", limit=1)
    assert few is not None
    assert (few.files, few.bytes) == ((), 0)
    sandbox.put([File("/app/o", clean=True)])
    assert sh(sandbox, "ls -A o")[1] == ""
    with pytest.raises(EnvironmentFailed, match="Read-only"):
        sandbox.put([File("/usr/x", content=b"")])


def test_links_of_an_agent_lead_nowhere_on_this_machine(start: Start, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary")
    outside = tmp_path / "outside"
    outside.mkdir()
    sandbox = start()
    sh(sandbox, f"ln -s {tmp_path} here; ln -s {outside} there; ln -s /oldroot{outside} old")
    assert sandbox.read("/app/here/secret", limit=100) is None
    assert sandbox.fetch("/app/here", tmp_path / "fetched", limit=100) is None
    for name in ("there", "old"):
        try:
            sandbox.put([File(f"/app/{name}/x", content=b"x")])
        except EnvironmentFailed:
            continue
    assert list(outside.iterdir()) == []


def test_mounts_are_seen_read_only_and_stay_where_they_are(start: Start, tmp_path: Path) -> None:
    program, kit = tmp_path / "program", tmp_path / "kit"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    kit.mkdir()
    (kit / "file").write_text("of the kit")
    sandbox = start(mounts=(Mount(program, "/bench/agents/program"), Mount(kit, "/bench/agents/kit")))
    _, out = sh(sandbox, "/bench/agents/program; cat /bench/agents/kit/file; echo x > /bench/agents/kit/file")
    assert out.startswith("ran\nof the kit")
    assert (kit / "file").read_text() == "of the kit"
    # Links in the place of what something is mounted at are replaced, not followed.
    outside = tmp_path / "outside"
    outside.mkdir()
    sh(sandbox, f"mv /bench /elsewhere; ln -s /oldroot{outside} /bench")
    assert sh(sandbox, "/bench/agents/program")[1] == "ran\n"
    sh(
        sandbox,
        "mv /bench /again; mkdir -p /bench/agents/program/x; echo x > /bench/agents/kit; chmod 0 /bench",
    )
    assert sh(sandbox, "/bench/agents/program; cat /bench/agents/kit/file")[1] == "ran\nof the kit"
    assert list(outside.iterdir()) == []


def test_a_mount_that_is_not_there_and_an_image_are_refused(provider: LocalProvider, start: Start) -> None:
    with pytest.raises(AgentSetupFailed, match="/bench/x"):
        start(mounts=(Mount(HERE / "nothing", "/bench/x"),))
    with pytest.raises(ImageMissing, match="debian:12"):
        start(image="debian:12")
    with pytest.raises(ContainerStartFailed, match="allowlist"):
        start(network="allowlist")


def test_one_that_cannot_be_filled_leaves_nothing(start: Start, tmp_path: Path) -> None:
    there = Path(start().id).parent
    before = sorted(there.iterdir())
    with pytest.raises((OSError, InfrastructureError)):
        start(File("/app/x", source=tmp_path / "nothing"))
    assert sorted(there.iterdir()) == before


def test_it_notes_no_limits_and_is_not_kept(start: Start) -> None:
    sandbox = start(memory=1 << 30, storage=1 << 30)
    assert sandbox.notes == (), "limits are among what its provider lacks"
    assert sandbox.limit_hit() is None
    with pytest.raises(EngineError, match="kept"):
        sandbox.keep("name")


def test_its_image_is_the_release_of_this_system(provider: LocalProvider, start: Start) -> None:
    record = start().image
    assert (record.reference, record.id, record.substituted) == ("host", record.key, {})
    assert record.key.startswith("host:")
    assert provider.identify(ImageRequest(Environment(image="host"))) == record.key
    assert provider.identify(ImageRequest(Environment(image="debian:12"))) is None
    assert (
        provider.identify(ImageRequest(Environment(image="debian:12"), {"debian:12": "host"})) == record.key
    )


def test_nothing_is_left_however_deep_or_locked(start: Start) -> None:
    sandbox = start()
    sh(sandbox, "mkdir -p a/b; chmod 0 a; i=0; while [ $i -lt 1500 ]; do mkdir d; cd d; i=$((i+1)); done")
    # `start` removes it, and looks.


def test_what_a_dead_process_left_is_swept(
    provider: LocalProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = current_owner().model_copy(update={"started": "1"})
    for name, owner in (("dead", dead), ("alive", current_owner())):
        directory = tmp_path / f"benchjobs-local-{name}"
        (directory / "1" / "app").mkdir(parents=True)
        (directory / "owner.json").write_text(owner.model_dump_json())
    (tmp_path / "benchjobs-local-half").mkdir()
    assert provider.sweep() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "benchjobs-local-alive",
        "benchjobs-local-half",
    ]


def test_without_bubblewrap_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    provider = LocalProvider(current_owner())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="apt-get install bubblewrap"):
        provider.check()
    broken = tmp_path / "bwrap"
    broken.write_text(
        f"#!{sys.executable}\nraise SystemExit('bwrap: No permissions to create new namespace')\n"
    )
    broken.chmod(0o755)
    with pytest.raises(EngineUnavailable, match="No permissions to create new namespace"):
        provider.check()


@pytest.mark.skipif(os.getuid() != 0, reason="all these tests are run by an ordinary user")
def test_an_ordinary_user_can_make_them_too() -> None:
    # As root first, which brings in every module: its files may be where nobody else can read them.
    script = """
import os, sys, tempfile
from pathlib import Path
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider
from pytest_benchjobs.sandbox.protocol import File, SandboxSpec

def use(directory):
    tempfile.tempdir = directory
    provider = LocalProvider(current_owner())
    provider.check()
    spec = SandboxSpec(Environment(image="host", workdir="/app"), {}, "none", 60, (File("in.txt", content=b"in"),))
    sandbox = provider.start(spec, lambda phase: None)
    out = bytearray()
    script = "id -u; cat in.txt; mkdir -p a/b; echo locked > a/b/c; chmod 0 a/b/c a/b a; cat a/b/c; tail -n +3 /proc/net/dev | cut -d: -f1"
    sandbox.exec(("sh", "-c", script), timeout=30, sink=out.extend)
    fetched = sandbox.fetch("/app/a", Path(directory) / "fetched", limit=100)
    sandbox.remove()
    provider.close()
    return os.getuid(), out.decode().split(), fetched.files, sorted(os.listdir(directory))

first = use(sys.argv[1])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
second = use(sys.argv[2])
assert first[0] == 0 and second[0] == 65534
assert first[1:] == second[1:] == (["0", "inlocked", "lo"], ("b/c",), ["fetched"]), (first, second)
"""
    with tempfile.TemporaryDirectory() as top:
        mine, theirs = Path(top) / "mine", Path(top) / "theirs"
        for path, user in ((mine, 0), (theirs, 65534)):
            path.mkdir()
            os.chown(path, user, user)
        Path(top).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", script, str(mine), str(theirs)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")


def _command_lines() -> Iterator[bytes]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


def running(program: str, *arguments: str) -> list[bytes]:
    wanted = {f"{program}\0{argument}\0".encode() for argument in arguments}
    return [line for line in _command_lines() if line in wanted]
