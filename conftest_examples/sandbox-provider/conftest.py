"""A sandbox of one's own: `unshare` and `chroot`, on the programs of this machine. It is no boundary."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pytest_benchjobs import sandboxes as own
from pytest_benchjobs.sandboxes import ExecResult, Promise, SandboxSpec, Sink

TOPS = "bin dev etc lib lib64 sbin usr"
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child")
ENTER = f"""
root=$1 dir=$2 missing=$3 net=$4; shift 4; trap : INT TERM
while [ "$1" != -- ]; do mount --bind "$1" "$root$2" || exit 125; shift 2; done; shift
for top in {TOPS}; do [ ! -e /$top ] || mount --rbind /$top "$root/$top" || exit 125; done
for top in etc usr; do mount -o remount,bind,ro "$root/$top" || exit 125; done
mount -t proc proc "$root/proc" && {{ [ "$net" = public ] || ip link set lo up; }} || exit 125
chroot "$root" /bin/sh -c 'cd -- "$0" && command -v -- "$1" >/dev/null' "$dir" "$1" || {{ : >"$missing"; exit 127; }}
chroot "$root" /bin/sh -c 'cd -- "$0" && exec "$@"' "$dir" "$@"
"""
"""The shell stays the first process, as signals do not end that; with it the kernel ends all that is left."""


class UnshareProvider(own.HostProvider):
    class Settings(BaseModel):
        place: Path = Path(tempfile.gettempdir())

    def __init__(self, owner: own.Owner, settings: Settings) -> None:
        self.settings, self.open = settings, list[UnshareSandbox]()

    def check(self) -> None:
        if subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode:
            raise own.EngineUnavailable("unshare cannot make namespaces here: the kernel may forbid it")

    def lacks(self, runtime: str | None = None) -> Mapping[Promise, str]:
        why = "it has namespaces alone, on the programs of this machine"
        return {promise: why for promise in Promise if promise is not Promise.NO_NETWORK}

    def incompatible(self, scenario: own.Scenario, config: own.JobConfig) -> str | None:
        is_here = self.identify(own.ImageRequest.of(scenario.environment, config)) is not None
        return None if is_here else "incompatible: needs an image, and there is only `host`"

    def identify(self, request: own.ImageRequest) -> str | None:
        image = request.environment.image
        return f"host:{platform.release()}" if request.image_map.get(image or "", image) == "host" else None

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> UnshareSandbox:
        on_phase("image")
        key = self.identify(spec.image)
        if key is None or spec.kept:
            raise own.ContainerStartFailed("there is only the image `host`")
        spec.check_mounts()
        on_phase("start")
        root = Path(tempfile.mkdtemp(prefix=f"unshare-{os.getpid()}-", dir=self.settings.place))
        self.open.append(UnshareSandbox(spec, root, own.ImageRecord(reference="host", id=key, key=key)))
        return self.open[-1]

    def sweep(self, *, shared: bool = False) -> int:
        there = self.settings.place.glob("unshare-*-*")
        for path in (left := [one for one in there if not Path("/proc", one.name.split("-")[1]).exists()]):
            shutil.rmtree(path, ignore_errors=True)
        return len(left)

    def close(self) -> None:
        for sandbox in self.open:
            sandbox.remove()


class UnshareSandbox(own.MovedByPrograms, own.Unobserved):
    def __init__(self, spec: SandboxSpec, root: Path, image: own.ImageRecord) -> None:
        self.spec, self.root, self.image, self.id = spec, root / "root", image, str(root)
        self.workdir, self.running, self.killed = spec.environment.workdir or "/", set[int](), False
        self.set_network(spec.network)
        for top in (*TOPS.split(), "proc", "tmp", "root", self.workdir.lstrip("/")):
            (self.root / top).mkdir(parents=True, exist_ok=True)
        for mount in spec.mounts:
            target = self.root / mount.target.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.mkdir() if mount.source.is_dir() else target.touch()
        self.put(spec.files)

    def exec(
        self, argv: Iterable[str], *, timeout: float, sink: Sink, stdout: Sink | None = None, user: str | None = None,
        workdir: str | None = None, env: Mapping[str, str] | None = None, silent: float | None = None,
        stopping: own.Stopping | None = None, stdin: Any = subprocess.DEVNULL,
    ) -> ExecResult:  # fmt: skip
        if user is not None and user not in own.ROOT:
            raise own.EnvironmentFailed(f"there is no user {user!r}, only root")
        missing = Path(self.id, "missing")
        argv = tuple(argv)
        mounts = (str(part) for one in self.spec.mounts for part in (one.source, one.target))
        net = "none" if own.behind_door(argv) else self.network  # the loopback of this machine is everybody's
        command = own.LocalCommand.start(
            [*NAMESPACES, *(["--net"] if net == "none" else []), "sh", "-c", ENTER, "sh", str(self.root),
             workdir or self.workdir, str(missing), net, *mounts, "--", *argv],
            Path("/"), {"PATH": own.DEFAULT_PATH, "HOME": "/root", **self.spec.environment.env, **(env or {})},
            sink, stdout, stdin=stdin,
        )  # fmt: skip
        self.running.add(command.pid)
        if self.killed:
            self.kill()
        result = command.run(timeout, silent, stopping)
        self.running.discard(command.pid)
        if self.killed:
            raise own.ContainerLost("the sandbox was killed to stop the trial")
        started = not missing.exists()
        missing.unlink(missing_ok=True)
        return dataclasses.replace(result, started=started)

    def run_program(
        self, argv: Iterable[str], stdin: int = subprocess.DEVNULL
    ) -> tuple[int | None, bytes, str]:
        both, output = bytearray(), bytearray()
        result = self.exec(
            argv, timeout=600, sink=both.extend, stdout=output.extend, workdir="/", stdin=stdin
        )
        return result.exit_status, bytes(output), both[-500:].decode("utf-8", "replace")

    def signal(self, pid: int, name: str) -> None:
        for group in list(self.running):
            own.send(group, signal.Signals[f"SIG{name}"])

    def set_network(self, network: own.Network, allowed_hosts: Iterable[str] = ()) -> None:
        if network == "allowlist":
            raise own.ContainerStartFailed("there is no network `allowlist`")
        self.network = network

    def kill(self) -> None:
        self.killed = True
        self.signal(0, "KILL")

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.id, ignore_errors=True)


def pytest_benchjobs_sandboxes() -> Mapping[str, type[UnshareProvider]]:
    return {"unshare": UnshareProvider}
