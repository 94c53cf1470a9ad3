"""A Docker Engine that is elsewhere: a network and files of its own, reached over TLS or ssh at an address of its own."""

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

_ADDRESS, _HERE = "10.99.{}.2", "10.99.{}.1"
# With processes of its own nothing outlives it, and nobody else's has to be looked for.
_NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_DOCKERD = """
set -e
ip link set lo up; ip link set PEER name eth0; ip addr add ADDRESS/24 dev eth0; ip link set eth0 up
# Nothing of this machine that a job could have is there.
mount --make-rprivate /
for hidden in /tmp /root /srv /home; do mkdir -p $hidden; mount -t tmpfs none $hidden; done
mkdir -p /run/sshd
[ -z "SSHD" ] || SSHD -f PLACE/sshd_config
exec dockerd -H unix:///PLACE/engine.sock -H tcp://ADDRESS:2376 --tlsverify --tlscacert=PLACE/ca.pem \
    --tlscert=PLACE/server-cert.pem --tlskey=PLACE/server-key.pem --data-root=PLACE/data --exec-root=PLACE/exec \
    --pidfile=PLACE/pid --bridge=none --iptables=false RUNTIME
"""


class Elsewhere:
    """One such engine."""

    def __init__(self, place: Path, number: int) -> None:
        self.place, self._number = place, number
        self.address, self.here = _ADDRESS.format(number), _HERE.format(number)
        self._link, peer = f"bjobs{number}", f"bjobp{number}"
        self._certificates()
        self._keys()
        script = (
            _DOCKERD.replace("RUNTIME", self._gvisor()).replace("PEER", peer).replace("ADDRESS", self.address)
        )
        self._sshd = shutil.which("sshd", path="/usr/sbin:/sbin") or ""
        script = script.replace("SSHD", self._sshd).replace("PLACE", str(place))
        with (place / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*_NAMESPACES, "sh", "-c", f"read go; {script}"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        network = Path(f"/proc/{self._process.pid}/ns/net")
        until(lambda: network.readlink() != Path("/proc/self/ns/net").readlink())
        _run(
            "ip",
            "link",
            "add",
            self._link,
            "type",
            "veth",
            "peer",
            "name",
            peer,
            "netns",
            str(self._process.pid),
        )
        _run("ip", "addr", "add", f"{self.here}/24", "dev", self._link)
        _run("ip", "link", "set", self._link, "up")
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.close()
        until(lambda: self._works("version"), PATIENCE, (place / "log").read_text)
        self.load(IMAGE)

    def _works(self, *command: str) -> bool:
        return _run("docker", "-H", f"unix://{self.place}/engine.sock", *command, check=False).returncode == 0

    def load(self, image: str) -> None:
        """Give it an image that is here: it reaches no registry."""
        _run("sh", "-c", f"docker save {image} | docker -H unix://{self.place}/engine.sock load")

    def left(self) -> list[str]:
        """Return what is there of trials: containers, networks and volumes, but for what was delivered."""
        found = []
        for kind in (["ps", "-aq"], ["network", "ls", "-q", "--filter", "type=custom"]):
            filters = ["--filter", "label=benchjobs.owner"]
            listed = _run("docker", "-H", f"unix://{self.place}/engine.sock", *kind, *filters)
            found += listed.stdout.split()
        return found

    def environment(self, way: str, at: tuple[str, int] | None = None) -> dict[str, str]:
        """Return what a job needs to reach it, by `ssh` or else over TLS; `at`: through what listens there."""
        host, port = at or (self.address, 2222 if way == "ssh" else 2376)
        if way == "ssh":
            if not self._sshd:
                pytest.skip("needs sshd")
            return {
                "DOCKER_HOST": f"ssh://root@{host}:{port}",
                "PATH": f"{self.place}/bin:{os.environ['PATH']}",
            }
        encrypted = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(self.place)}
        return {"DOCKER_HOST": f"tcp://{host}:{port}", **encrypted}

    def _certificates(self) -> None:
        openssl = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
        at = self.place
        _run(*openssl, "-keyout", f"{at}/ca-key.pem", "-out", f"{at}/ca.pem", "-subj", "/CN=ca")
        for name, usage in (("server-", "serverAuth"), ("", "clientAuth")):
            _run(
                *openssl, "-keyout", f"{at}/{name}key.pem", "-out", f"{at}/{name}cert.pem", "-subj", f"/CN={name}engine",
                "-CA", f"{at}/ca.pem", "-CAkey", f"{at}/ca-key.pem", "-addext", f"subjectAltName=IP:{self.address},IP:{self.here}",
                "-addext", f"extendedKeyUsage={usage}",
            )  # fmt: skip

    def _keys(self) -> None:
        for name in ("host", "user"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.place}/{name}_key")
        (self.place / "user_key.pub").rename(self.place / "authorized_keys")
        (self.place / "sshd_config").write_text(
            f"ListenAddress {self.address}:2222\nHostKey {self.place}/host_key\nPidFile none\nStrictModes no\n"
            f"AuthorizedKeysFile {self.place}/authorized_keys\nPermitRootLogin yes\nUsePAM no\n"
        )
        host = (self.place / "host_key.pub").read_text().split()[:2]
        (self.place / "known").write_text(f"elsewhere {' '.join(host)}\n")
        (self.place / "bin").mkdir()
        program = self.place / "bin" / "ssh"
        options = f"-o UserKnownHostsFile={self.place}/known -o HostKeyAlias=elsewhere -o IdentitiesOnly=yes -i {self.place}/user_key"
        # The engine's socket is not at the usual place, as there are several here, and some are harmful.
        socket = f"${{ELSEWHERE:-{self.place}/engine.sock}}"
        program.write_text(
            f'#!/bin/bash\nexec {shutil.which("ssh")} {options} "${{@//:\\/var\\/run\\/docker.sock/:{socket}}}"\n'
        )
        program.chmod(0o755)

    def _gvisor(self) -> str:
        """Return the option for the runtime `gvisor`, where this machine has it."""
        if (program := shutil.which("runsc")) is None:
            return ""
        shutil.copy(program, self.place / "runsc")
        runtime = self.place / "bin" / "gvisor"
        runtime.write_text(
            f'#!/bin/sh\nexec {self.place}/runsc --network=none --overlay2=none --file-access=shared "$@"\n'
        )
        runtime.chmod(0o755)
        return f"--add-runtime gvisor={runtime}"

    def end(self) -> None:
        """End it, and all that it started."""
        _run("ip", "link", "del", self._link, check=False)
        # The engine is the only child of `unshare`, which waits for it whatever it is sent.
        for engine in _run("pgrep", "-P", str(self._process.pid), check=False).stdout.split():
            os.kill(int(engine), signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()


def _run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    """One such engine. Its files are not below the directories that it does not see."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("dockerd", "unshare", "ip", "openssl", "ssh-keygen"))):
        pytest.skip("needs root, dockerd, unshare, ip, openssl and ssh-keygen")
    place = Path("/var/tmp") / f"benchjobs-elsewhere-{os.getpid()}"
    place.mkdir()
    try:
        engine = Elsewhere(place, os.getpid() % 250)
        try:
            yield engine
        finally:
            engine.end()
    finally:
        mounted = [
            line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(place) in line
        ]
        for path in reversed(mounted):
            _run("umount", "-l", path, check=False)
        shutil.rmtree(place, ignore_errors=True)
