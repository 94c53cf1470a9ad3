"""Podman, as root or as a user without rights, with processes, a network, settings and images of its own.

Its programs are those of a tree that `scripts/podman.sh` makes, laid over this machine's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .engines import OwnEngine, place

TREES = Path(os.environ.get("BENCHJOBS_PODMAN") or "/var/tmp/benchjobs-podman")
ENGINES = ("trixie", "trixie-user", "bookworm", "bookworm-user")
"""Debian releases, with Podman 5.4 and 4.3, and whether it runs without root."""
_USER = "bench"
_BEGIN = r"""
set -e
mount --make-rshared /
for name in usr etc; do
    mkdir -p PLACE/$name-new PLACE/$name-work
    [ $name = etc ] && order=/etc:TREE/etc || order=TREE/usr:/usr
    mount -t overlay overlay -o lowerdir=$order,upperdir=PLACE/$name-new,workdir=PLACE/$name-work /$name
done
mount -t tmpfs none /run
# Mixed with the second version of cgroups, crun refuses the first.
umount -l /sys/fs/cgroup/unified 2>/dev/null || true
mkdir -p PLACE/dev PLACE/tmp
for device in net/tun:200 fuse:229; do
    file=PLACE/dev/$(basename ${device%:*})
    mknod -m 666 $file c 10 ${device#*:}
    mount --bind $file /dev/${device%:*}
done
rm -f /etc/resolv.conf && echo nameserver 10.0.2.3 > /etc/resolv.conf
[ -f /etc/containers/policy.json ] || echo '{"default": [{"type": "insecureAcceptAnything"}]}' > /etc/containers/policy.json
export CONTAINERS_CONF=PLACE/containers.conf PODMAN_IGNORE_CGROUPSV1_WARNING=1 TMPDIR=PLACE/tmp HOME=PLACE/home
mkdir -p $HOME /root/.config 2>/dev/null
run="podman --root PLACE/images --runroot PLACE/state system service --time=0 unix://PLACE/engine.sock"
if [ -n "USER" ]; then
    useradd -d PLACE/home -s /bin/sh USER
    echo USER:1000000:65536 | tee /etc/subuid > /etc/subgid
    export XDG_RUNTIME_DIR=/run/user/$(id -u USER)
    mkdir -p $XDG_RUNTIME_DIR
    chown -R USER: PLACE/home PLACE/tmp PLACE $XDG_RUNTIME_DIR
    run="setpriv --reuid=USER --regid=USER --init-groups --inh-caps=-all $run"
fi
unshare --net sh -c "ip link set lo up; echo \$\$ > PLACE/pid; exec $run" &
until [ -s PLACE/pid ]; do sleep 0.05; done
# A way out by programs alone: nothing of this machine's network changes.
exec slirp4netns --configure --mtu=65520 --disable-host-loopback $(cat PLACE/pid) tap0
"""
_RUNTIME = """#!/usr/bin/python3
# Podman 4.3 sets limits of files and processes that root may not set where it lacks CAP_SYS_RESOURCE.
import json, os, sys
for at, name in enumerate(sys.argv):
    if name in ("--bundle", "-b", "--process", "-p"):
        with open(sys.argv[at + 1] + ("/config.json" if "b" in name else ""), "r+") as file:
            config = json.load(file)
            process = config.get("process", config)
            process["rlimits"] = [one for one in process.get("rlimits") or () if one["type"] == "RLIMIT_CORE"]
            file.seek(0)
            file.truncate()
            json.dump(config, file)
os.execvp("runc", ["runc", *sys.argv[1:]])
"""
_SETTINGS = """[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
runc = ["PLACE/runc"]
[network]
network_backend = "netavark"
"""


class Podman(OwnEngine):
    """One such engine."""

    def __init__(self, name: str, place: Path) -> None:
        self.name = name
        suite, _, kind = name.partition("-")
        for file, content in {"runc": _RUNTIME, "containers.conf": _SETTINGS}.items():
            (place / file).write_text(content.replace("PLACE", str(place)))
            (place / file).chmod(0o755)
        script = _BEGIN.replace("TREE", str(TREES / suite)).replace("USER", _USER if kind else "")
        super().__init__(place, script)

    def environment(self, _way: str = "") -> dict[str, str]:
        """Return what a job needs to reach it."""
        return {"DOCKER_HOST": self.host}


@contextlib.contextmanager
def running(name: str) -> Iterator[Podman]:
    """Run one of `ENGINES`, or skip a test."""
    if not (TREES / name.partition("-")[0] / "usr/bin/podman").exists():
        pytest.skip(f"needs Podman in {TREES}: make podman")
    with place(name, "runc", "setpriv") as directory:
        engine = Podman(name, directory)
        try:
            engine.wait()
            yield engine
        finally:
            engine.kill()


@pytest.fixture(
    scope="module",
    params=[ENGINES[0], *(pytest.param(name, marks=pytest.mark.extended) for name in ENGINES[1:])],
)
def podman(request: pytest.FixtureRequest) -> Iterator[Podman]:
    """One such engine."""
    with running(request.param) as engine:
        yield engine
