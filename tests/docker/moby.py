"""A BuildKit by the protocol of `BUILDKIT_HOST`: that of a Docker Engine whose network and files are its own.

The engine is of a tree that `scripts/buildkit.sh` makes. It offers BuildKit at `/grpc` of its API alone, and reaches
one port of this machine, that of a registry.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import PATIENCE, until

TREE = Path(os.environ.get("BENCHJOBS_BUILDKIT") or "/var/tmp/benchjobs-buildkit")
_BEGIN = """
set -e
ip link set lo up
socat TCP-LISTEN:PORT,bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:PLACE/registry.sock &
mount --make-rprivate /
mount --bind TREE TREE
mount -t proc proc TREE/proc
mount --rbind /sys TREE/sys
mount --rbind /dev TREE/dev
mount -t tmpfs none TREE/run
mount -t tmpfs none TREE/mnt
mkdir TREE/mnt/place
mount --bind PLACE TREE/mnt/place
exec chroot TREE dockerd -H unix:///mnt/place/engine.sock --config-file=/mnt/place/daemon.json --data-root=/mnt/place/data \
    --exec-root=/mnt/place/exec --pidfile=/mnt/place/pid --iptables=false --ip6tables=false
"""
_UPGRADE = b"POST /grpc HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"


class BuildKitServer:
    """It listens at `host`, on this machine."""

    def __init__(self, place: Path, registry: int) -> None:
        self._place, self._registry = place, registry
        # With images of containerd, what was built can be pushed; with the engine's own, it cannot.
        (place / "daemon.json").write_text('{"features": {"containerd-snapshotter": true}}')
        script = _BEGIN.replace("TREE", str(TREE)).replace("PLACE", str(place)).replace("PORT", str(registry))
        with (place / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(place / "registry.sock"))
        listening.listen()
        self._listening = [listening, socket.create_server(("127.0.0.1", 0))]
        self.host = f"tcp://127.0.0.1:{self._listening[1].getsockname()[1]}"
        for one, connect in zip(self._listening, (self._to_registry, self._to_engine), strict=True):
            threading.Thread(target=_serve, args=(one, connect), daemon=True).start()

    def wait(self) -> None:
        """Wait until it answers."""

        def answers() -> bool:
            try:
                self._to_engine().close()
            except OSError:
                return False
            return True

        until(answers, PATIENCE, (self._place / "log").read_text)

    def _to_registry(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._registry))

    def _to_engine(self) -> socket.socket:
        with contextlib.ExitStack() as undo:
            connection = undo.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(str(self._place / "engine.sock"))
            connection.sendall(_UPGRADE)
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (byte := connection.recv(1)):
                    raise ConnectionError("the engine hung up")
                head += byte
            undo.pop_all()
        return connection

    def end(self) -> None:
        """End it, and all that it started: they are processes of its own first one."""
        self._process.kill()
        self._process.wait()
        for one in self._listening:
            one.close()


def _serve(listening: socket.socket, connect: Callable[[], socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while True:
            here, _ = listening.accept()
            threading.Thread(target=_join, args=(here, connect), daemon=True).start()


def _join(here: socket.socket, connect: Callable[[], socket.socket]) -> None:
    """Carry what comes both ways until both ends have ended."""
    with here, contextlib.suppress(OSError), connect() as there:
        other = threading.Thread(target=_carry, args=(there, here), daemon=True)
        other.start()
        _carry(here, there)
        other.join()


def _carry(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)


def buildkit_server(place: Path, registry: int) -> Iterator[BuildKitServer]:
    """Run one that reaches the registry at a port of this machine, or skip a test."""
    needed = ("unshare", "chroot", "ip", "socat", "docker")
    if os.geteuid() != 0 or not all(map(shutil.which, needed)):
        pytest.skip(f"needs root, {', '.join(needed)}")
    if not (TREE / "usr/sbin/dockerd").exists():
        pytest.skip(f"needs a BuildKit in {TREE}: make buildkit")
    server = BuildKitServer(place, registry)
    try:
        server.wait()
        yield server
    finally:
        server.end()
