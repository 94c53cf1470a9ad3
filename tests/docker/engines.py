"""Engines of tests' own, with processes, mounts and a network to themselves: whoever ends one ends all that it started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import IMAGE, PATIENCE, until

NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# With --bridge=none an engine removes the bridge of the machine's real one, if it has the same network.
DOCKERD = """
ip link set lo up
exec dockerd -H unix://PLACE/engine.sock --data-root=PLACE/data --exec-root=PLACE/exec --pidfile=PLACE/pid \
    --bridge=none --iptables=false OPTIONS
"""


class OwnEngine:
    """The engine that a script becomes, at a socket in a directory of its own, where `PLACE` is that directory."""

    def __init__(self, place: Path, script: str, *namespaces: str) -> None:
        self.place, self.host = place, f"unix://{place}/engine.sock"
        with (place / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*NAMESPACES, *namespaces, "sh", "-c", script.replace("PLACE", str(place))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is not for it
            )

    def wait(self) -> None:
        """Wait until it answers, and give it an image."""
        until(lambda: self._works("version"), PATIENCE, (self.place / "log").read_text)
        self.load(IMAGE)

    def load(self, image: str) -> None:
        """Give it an image that is here: it reaches no registry."""
        called("sh", "-c", f"docker save {image} | docker -H {self.host} load")

    def docker(self, *command: str) -> str:
        """Return what Docker's client prints about it."""
        return called("docker", "-H", self.host, *command).stdout

    def left(self) -> list[str]:
        """Return what is there of trials: containers and networks, but for the network of all."""
        ours = ("--filter", "label=benchjobs.owner")
        return [*self.docker("ps", "-aq", *ours).split(), *self.docker("network", "ls", "-q", *ours).split()]

    def kill(self) -> None:
        """End it, and all that it started, as a power cut would."""
        self._send(signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _send(self, number: signal.Signals) -> None:
        """Send a signal to its first process, and give that time to end: `unshare` waits for it, whatever it is sent."""
        for pid in called("pgrep", "-P", str(self._process.pid), check=False).stdout.split():
            os.kill(int(pid), number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)

    def _works(self, *command: str) -> bool:
        return called("docker", "-H", self.host, *command, check=False).returncode == 0


def called(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of this machine, which has to succeed if it is to be checked."""
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done


@contextlib.contextmanager
def place(name: str, *programs: str) -> Iterator[Path]:
    """Make a directory for an engine, which is gone afterwards; skip the test where it cannot be had."""
    needed = ("unshare", "ip", "docker", *programs)
    if os.geteuid() != 0 or not all(map(shutil.which, needed)):
        pytest.skip(f"needs root, {', '.join(needed)}")
    # Short, for sockets, and not below the directories that some engines do not see.
    directory = Path("/var/tmp") / f"bj-{os.getpid()}-{name}"
    directory.mkdir()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def own_engine() -> Iterator[OwnEngine]:
    """A Docker Engine that may be killed."""
    with place("own", "dockerd") as directory:
        engine = OwnEngine(directory, DOCKERD.replace("OPTIONS", ""), "--net")
        try:
            engine.wait()
            yield engine
        finally:
            engine.kill()
