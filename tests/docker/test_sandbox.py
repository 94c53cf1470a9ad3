"""A container does what the protocol promises, whatever runs in it."""

from __future__ import annotations

import contextlib
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.errors import ContainerLost, EnvironmentFailed, ImageMissing
from pytest_benchjobs.sandbox import runner
from pytest_benchjobs.sandbox.docker import storage
from pytest_benchjobs.sandbox.docker.compose.service import ServiceContainer
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.program import PROGRAM
from pytest_benchjobs.sandbox.protocol import File
from tests.support import until

from .sandboxes import out, sh, spec, started

pytestmark = pytest.mark.docker
ENGINE = "by the engine"
by_engine = pytest.mark.parametrize("sandbox", [ENGINE], indirect=True)


@pytest.fixture(scope="module", params=[ENGINE, "by our program inside"])
def sandbox(provider: DockerProvider, request: pytest.FixtureRequest) -> Iterator[DockerSandbox]:
    """A container that does the same in both ways."""
    with started(provider) as sandbox, contextlib.ExitStack() as inside:
        if request.param != ENGINE:
            inside.enter_context(sandbox.inside())
        yield sandbox


def test_a_command_gives_its_output_and_exit_status(sandbox: DockerSandbox) -> None:
    result, output = sh(sandbox, "echo out; sleep 0.5; echo err >&2; exit 3")
    assert (result.exit_status, result.timed_out, result.oom_kills, output) == (3, False, 0, "out\nerr\n")


def test_a_command_runs_where_as_whom_and_with_what_it_is_told(sandbox: DockerSandbox) -> None:
    assert sandbox.workdir == "/app"
    assert out(sandbox, "pwd; id -un; echo ${A:-unset}") == "/app\nroot\nunset\n"
    assert (
        out(sandbox, "pwd; echo $A $HOME", workdir="/tmp", env={"A": "1 2", "HOME": "/x"}) == "/tmp\n1 2 /x\n"
    )
    assert (
        out(sandbox, "pwd; id -un; echo $A", user="nobody", workdir="/tmp", env={"A": "1 2"})
        == "/tmp\nnobody\n1 2\n"
    )


def test_standard_input_is_closed(sandbox: DockerSandbox) -> None:
    assert out(sandbox, "cat; readlink /proc/self/fd/0") == "/dev/null\n"


def test_a_program_that_is_not_there_is_no_fault_of_the_engine(sandbox: DockerSandbox) -> None:
    result = sandbox.exec(["/no-such-program"], timeout=30, sink=lambda data: None)
    assert result.exit_status in (126, 127)


def test_an_agent_cannot_forge_the_engine_refusing_to_start_a_command(sandbox: DockerSandbox) -> None:
    result, _ = sh(sandbox, "echo OCI runtime exec failed: no space left on device; exit 126")
    assert result.exit_status == 126


def test_a_command_that_closes_its_output_is_still_waited_for(sandbox: DockerSandbox) -> None:
    began = time.monotonic()
    result, output = sh(sandbox, "exec >&- 2>&-; sleep 0.6; exit 7")
    assert (result.exit_status, output) == (7, "")
    assert time.monotonic() - began > 0.5


@by_engine
def test_a_timeout_leaves_the_command_running_until_everything_is_ended(sandbox: DockerSandbox) -> None:
    sandbox.put([File("/app/keep.txt", content=b"kept")])
    result, output = sh(sandbox, "echo first; sleep 60", timeout=3)
    assert (result.exit_status, result.timed_out, output) == (None, True, "first\n")
    assert "sleep 60" in sandbox.processes()
    sandbox.end_processes()
    assert sandbox.processes() == ()
    assert out(sandbox, "cat keep.txt") == "kept"


def test_a_process_that_calls_itself_init_is_listed(sandbox: DockerSandbox) -> None:
    sh(
        sandbox,
        "cp /bin/sleep /tmp/docker-init; (exec -a x true) 2>/dev/null; /tmp/docker-init 50 >/dev/null 2>&1 &",
    )
    assert sandbox.processes() == ("/tmp/docker-init 50",)
    sandbox.end_processes()


def test_a_fork_bomb_is_ended(provider: DockerProvider) -> None:
    with started(provider, pids=64) as sandbox:
        result, _ = sh(sandbox, "bomb() { bomb | bomb & }; bomb; sleep 30", timeout=1)
        assert result.exit_status != 0
        sandbox.end_processes()
        assert sandbox.processes() == ()
        assert out(sandbox, "echo alive") == "alive\n"


@by_engine
def test_killing_everybody_does_not_end_the_container(sandbox: DockerSandbox) -> None:
    sh(sandbox, "kill -9 -1; kill -9 1; kill -TERM 1", timeout=10)
    assert out(sandbox, "echo alive") == "alive\n"
    assert sandbox.notes == ()


def test_a_container_that_ended_can_be_used_again(provider: DockerProvider) -> None:
    with started(provider) as sandbox:
        provider.engine.client.kill(sandbox.id)
        assert sandbox.processes() == ()
        sandbox.end_processes()
        assert out(sandbox, "echo alive") == "alive\n"


def test_our_program_cannot_be_stopped_to_stop_everything(
    provider: DockerProvider, client: docker.APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_PATIENCE", 0.5)
    monkeypatch.setattr(runner, "_END", (("TERM", 0.1),))
    stop = r"for one in /proc/[0-9]*; do tr '\0' ' ' < $one/cmdline | grep -q 'm [s]erve' && kill -STOP ${one#/proc/}; done"

    def with_it_stopped(call: Callable[[], object]) -> object:
        out(sandbox, "true")
        client.exec_start(client.exec_create(sandbox.id, ["/bin/sh", "-c", stop])["Id"])
        return call()

    with started(provider) as sandbox, sandbox.inside():
        assert with_it_stopped(lambda: sandbox.put([File("/app/a", content=b"a")])) is None
        assert with_it_stopped(lambda: sandbox.fetch("/app/a", tmp_path / "a", limit=9)) is not None
        with pytest.raises(EnvironmentFailed, match="does not answer"):
            with_it_stopped(lambda: sh(sandbox, "true", timeout=0.5))
        assert out(sandbox, "cat /app/a") == "a"


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("how", ["true", "rm -r /bench", "cp --remove-destination /bin/true /bench/program"])
def test_our_program_is_put_in_again_where_it_may_not_be_what_it_was(
    provider: DockerProvider, how: str, trusted: bool
) -> None:
    with started(provider, trusted=trusted) as sandbox:
        out(sandbox, how)
        with sandbox.inside():
            assert out(sandbox, "echo $PPID; cat /proc/$PPID/cmdline").split("\n")[1].startswith(PROGRAM)


def test_a_flood_of_output_is_counted_and_costs_no_memory(sandbox: DockerSandbox) -> None:
    count = 0

    def sink(data: bytes) -> None:
        nonlocal count
        count += len(data)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = sandbox.exec(["/usr/bin/head", "-c", "50000000", "/dev/zero"], timeout=60, sink=sink)
    assert (result.exit_status, count) == (0, 50_000_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_running_out_of_memory_is_counted(provider: DockerProvider) -> None:
    with started(provider, memory=32 << 20) as sandbox:
        result = sandbox.exec(["tail", "/dev/zero"], timeout=30, sink=lambda data: None)
        assert (result.exit_status, result.oom_kills >= 1) == (137, True)
        result, _ = sh(sandbox, "tail /dev/zero; echo after; exit 5")
        assert (result.exit_status, result.oom_kills >= 1) == (5, True)
        result, _ = sh(sandbox, "exit 6")
        assert (result.exit_status, result.oom_kills) == (6, 0)


def test_files_arrive_before_the_start_and_after(provider: DockerProvider, tmp_path: Path) -> None:
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tree" / "deep" / "run.sh").chmod(0o755)
    files = (
        File("in.txt", content=b"relative"),
        File("/logs/verifier", mode=0o777),
        File("/tests", source=tmp_path / "tree"),
    )
    with started(provider, *files) as sandbox:
        assert out(sandbox, "cat in.txt; stat -c ' %a %U' in.txt /logs/verifier; /tests/deep/run.sh") == (
            "relative 644 root\n 777 root\nran\n"
        )
        sandbox.put([File("later.sh", content=b"echo later", mode=0o700)])
        assert out(sandbox, "stat -c %a later.sh; ./later.sh") == "700\nlater\n"


@pytest.mark.parametrize(
    "obstacle",
    [
        "mkdir -p /x/sub && touch /x/sub/planted", "ln -s /etc /x", "echo planted > /x", "ln -s /nowhere /x",
        "mkfifo /x", "true",
    ],
)  # fmt: skip
def test_whatever_is_in_the_way_of_a_clean_file_goes(sandbox: DockerSandbox, obstacle: str) -> None:
    out(sandbox, f"rm -rf /x; {obstacle}")
    sandbox.put([File("/x", clean=True), File("/x/test.sh", content=b"ok")])
    assert out(sandbox, "find /x; stat -c %F /x; ls -d /etc/passwd") == (
        "/x\n/x/test.sh\ndirectory\n/etc/passwd\n"
    )
    out(sandbox, f"rm -rf /x; {obstacle}")
    sandbox.put([File("/x", content=b"file", clean=True)])
    assert out(sandbox, "cat /x; stat -c ' %F' /x") == "file regular file\n"


def test_reading_takes_regular_files_up_to_a_size(sandbox: DockerSandbox) -> None:
    out(sandbox, "echo 1 > r.txt; ln -sf r.txt l.txt; mkdir -p d; rm -f f; mkfifo f; truncate -s 1T huge")
    assert sandbox.read("/app/r.txt", limit=10) == b"1\n"
    assert [sandbox.read(f"/app/{name}", limit=10) for name in ("l.txt", "d", "f", "none")] == [None] * 4
    with pytest.raises(ValueError, match="more than 10"):
        sandbox.read("/app/huge", limit=10)


def test_fetching_copies_what_is_harmless_and_says_what_it_left_out(
    sandbox: DockerSandbox, tmp_path: Path
) -> None:
    out(
        sandbox,
        "rm -rf o; mkdir -p o/sub o/skip; echo 1 > o/a.txt; echo 2 > o/sub/b.txt; echo 3 > o/skip/c.txt; "
        "ln -s a.txt o/inside; ln -s /etc/passwd o/outside; ln -s ../../.. o/up; mkfifo o/pipe; "
        "ln -sf /proc/self/environ direct; ln -sfn o led; ln o/a.txt o/hard; truncate -s 99M o/zeros; printf x > \"o/$(printf 'bad\\033[2Jname')\"",
    )
    fetched = sandbox.fetch("/app/o", tmp_path / "out", limit=1000, exclude=("skip",))
    assert fetched is not None
    written = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_text()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert written == {
        "a.txt": "1\n", "hard": "1\n", "inside": "1\n", "sub/b.txt": "2\n", "bad_[2Jname": "x",
    }  # fmt: skip
    assert sorted(fetched.files) == sorted(written)
    assert sorted(fetched.notes) == [
        "outside: a link that points outside, or to nothing",
        "pipe: neither a file nor a directory",
        "up: a link that points outside, or to nothing",
        "zeros: 103809024 bytes would exceed the limit of 1000 bytes",
    ]
    for path in ("/app/nothing", "/app/direct"):
        assert sandbox.fetch(path, tmp_path / "none", limit=10) is None
    led = sandbox.fetch("/app/led", tmp_path / "led", limit=1000, exclude=("skip",))
    assert led is not None
    assert sorted(led.files) == sorted(fetched.files)
    for number, path in enumerate(("/app/o/sub", "/app/o/sub/.", "/app/o/sub/./", "/app/o/skip/../sub")):
        again = sandbox.fetch(path, tmp_path / str(number), limit=10)
        assert again is not None
        assert again.files == ("b.txt",)
    single = sandbox.fetch("/app/o/a.txt", tmp_path / "single.txt", limit=10)
    assert single is not None
    assert ((tmp_path / "single.txt").read_text(), single.bytes) == ("1\n", 2)


def test_networks_can_be_switched(provider: DockerProvider) -> None:
    interfaces = "ls /sys/class/net | tr '\\n' ' '"
    with started(provider, network="none") as sandbox:
        assert "eth0" not in out(sandbox, interfaces)
        sandbox.set_network("public")
        assert "eth0" in out(sandbox, interfaces)
        sandbox.set_network("none")
        assert "eth0" not in out(sandbox, interfaces)
        sandbox.end_processes()
        assert "eth0" not in out(sandbox, interfaces)
    with started(provider, network="public") as sandbox:
        assert "eth0" in out(sandbox, interfaces)
        sandbox.set_network("none")
        assert "eth0" not in out(sandbox, interfaces)


def test_a_storage_limit_is_of_blocks_and_holds_at_the_end_of_an_agent(provider: DockerProvider) -> None:
    def hit(script: str) -> str | None:
        with started(provider, storage=16 << 20) as sandbox:
            out(sandbox, script)
            return sandbox.limit_hit()

    assert [hit("fallocate -l 64M big") for _ in range(4)] == ["storage"] * 4
    assert hit("touch big; fallocate --keep-size -l 64M big") == "storage"
    within = (
        "truncate -s 64M core",
        "fallocate -l 4M a; truncate -s 1G a; ln a b; ln a c",
        "truncate -s 64M /opt/x",
    )
    assert [hit(script) for script in within] == [None] * 3
    # What an agent put in the place of our program is not believed.
    forged = (
        "rm /bench/program; printf '#!/bin/sh\nprintf 12345678' > /bench/program; chmod +x /bench/program"
    )
    assert hit(f"fallocate -l 64M big; {forged}") == "storage"


def test_what_measures_it_is_not_taken_for_what_an_agent_left_running(
    provider: DockerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = threading.Event()

    def slowly(engine: Engine, container: str) -> None:
        script = ["/bin/sh", "-c", "echo begun; sleep 2"]
        ServiceContainer(engine, container, "/").exec(script, timeout=30, sink=lambda _: measuring.set())

    monkeypatch.setattr(storage, "blocks", slowly)
    with started(provider, storage=16 << 20) as sandbox:
        out(sandbox, "truncate -s 64M core")
        assert measuring.wait(60)
        assert sandbox.processes() == ()


def test_a_container_that_has_ended_is_measured_as_the_engine_sees_it(provider: DockerProvider) -> None:
    for script, limit in (("true", None), ("head -c 64M /dev/zero > big; sync", "storage")):
        with started(provider, storage=32 << 20) as sandbox:
            provider.services.storage.discard(sandbox.id)
            out(sandbox, script)
            provider.engine.client.kill(sandbox.id)
            until(lambda: not sandbox._engine.get(f"/containers/{sandbox.id}/json")["State"]["Running"])
            assert sandbox.limit_hit() == limit


def test_a_storage_limit_ends_whoever_exceeds_it(provider: DockerProvider) -> None:
    with started(provider, storage=16 << 20) as sandbox:
        assert out(sandbox, "dd if=/dev/zero of=small bs=1M count=2 2>/dev/null; echo ok") == "ok\n"
        began = time.monotonic()
        result, _ = sh(sandbox, "dd if=/dev/zero of=big bs=1M count=64; sleep 300", timeout=200)
        assert result.exit_status == 137
        assert sandbox.limit_hit() == "storage"
        assert time.monotonic() - began < 150
        sandbox.end_processes()
        assert sandbox.processes() == ()


def _then(sandbox: DockerSandbox, what: Callable[[], object]) -> None:
    """Run a command that does not end, and do something in another thread when it has begun."""
    thread = threading.Thread(target=what)
    try:
        sandbox.exec(["sh", "-c", "echo begun; sleep 300"], timeout=200, sink=lambda _data: thread.start())
    finally:
        thread.join()


def test_a_container_that_somebody_else_kills_is_lost(
    provider: DockerProvider, client: docker.APIClient
) -> None:
    with started(provider) as sandbox:
        with pytest.raises(ContainerLost):
            _then(sandbox, lambda: client.kill(sandbox.id))
        with pytest.raises(ContainerLost):
            sh(sandbox, "echo")


def test_everything_made_carries_labels_and_nothing_is_left(
    provider: DockerProvider, client: docker.APIClient
) -> None:
    with started(provider) as sandbox:
        labels = client.inspect_container(sandbox.id)["Config"]["Labels"]
        assert {name: labels[f"benchjobs.{name}"] for name in ("job", "trial", "owner", "host")} == {
            "job": "test",
            "trial": "t",
            "owner": str(provider.owner),
            "host": provider.owner.host,
        }
        assert 250 < float(labels["benchjobs.deadline"]) - time.time() < 310
    with pytest.raises(docker.errors.NotFound):
        client.inspect_container(sandbox.id)
    sandbox.remove()


def test_an_image_that_is_nowhere_is_missing(provider: DockerProvider) -> None:
    with pytest.raises(ImageMissing, match=r"no-such-image-anywhere:1.*--bench-image-map"):
        provider.start(spec(image="no-such-image-anywhere:1"), lambda phase: None)
