"""A Docker Engine that is elsewhere: a network and files of its own, reached over TLS or ssh at an address of its own."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import until

from .engines import DOCKERD, OwnEngine, called, place

_ADDRESS, _HERE = "10.99.{}.2", "10.99.{}.1"
_BEGIN = """
set -e
until ip link set PEER name eth0 2>/dev/null; do sleep 0.05; done
ip addr add ADDRESS/24 dev eth0; ip link set eth0 up
# Nothing of this machine that a job could have is there.
mount --make-rprivate /
for hidden in /tmp /root /srv /home; do mkdir -p $hidden; mount -t tmpfs none $hidden; done
mkdir -p /run/sshd
[ -z "SSHD" ] || SSHD -f PLACE/sshd_config
"""
_OPTIONS = """-H tcp://ADDRESS:2376 --tlsverify --tlscacert=PLACE/ca.pem --tlscert=PLACE/server-cert.pem \
    --tlskey=PLACE/server-key.pem RUNTIME"""


class Elsewhere(OwnEngine):
    """One such engine."""

    def __init__(self, place: Path, number: int) -> None:
        self.place, self._number = place, number
        self.address, self.here = _ADDRESS.format(number), _HERE.format(number)
        self._link, peer = f"bjobs{number}", f"bjobp{number}"
        self._certificates()
        self._keys()
        self._sshd = shutil.which("sshd", path="/usr/sbin:/sbin") or ""
        script = _BEGIN + DOCKERD.replace("OPTIONS", _OPTIONS)
        filled = {"RUNTIME": self._gvisor(), "PEER": peer, "ADDRESS": self.address, "SSHD": self._sshd}
        for name, text in filled.items():
            script = script.replace(name, text)
        super().__init__(place, script, "--net")
        pid = self._process.pid
        network = Path(f"/proc/{pid}/ns/net")
        until(lambda: network.readlink() != Path("/proc/self/ns/net").readlink())
        called("ip", "link", "add", self._link, *f"type veth peer name {peer} netns {pid}".split())
        called("ip", "addr", "add", f"{self.here}/24", "dev", self._link)
        called("ip", "link", "set", self._link, "up")
        self.wait()

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
        called(*openssl, "-keyout", f"{at}/ca-key.pem", "-out", f"{at}/ca.pem", "-subj", "/CN=ca")
        for name, usage in (("server-", "serverAuth"), ("", "clientAuth")):
            called(
                *openssl, "-keyout", f"{at}/{name}key.pem", "-out", f"{at}/{name}cert.pem", "-subj", f"/CN={name}engine",
                "-CA", f"{at}/ca.pem", "-CAkey", f"{at}/ca-key.pem", "-addext", f"subjectAltName=IP:{self.address},IP:{self.here}",
                "-addext", f"extendedKeyUsage={usage}",
            )  # fmt: skip

    def _keys(self) -> None:
        for name in ("host", "user"):
            called("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.place}/{name}_key")
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
        called("ip", "link", "del", self._link, check=False)
        self._send(signal.SIGTERM)
        self.kill()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    """One such engine. Its files are not below the directories that it does not see."""
    with place("elsewhere", "dockerd", "openssl", "ssh-keygen") as directory:
        engine = Elsewhere(directory, os.getpid() % 250)
        try:
            yield engine
        finally:
            engine.end()
