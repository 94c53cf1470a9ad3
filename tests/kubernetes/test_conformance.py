"""Pods keep what the provider promises: of a fake cluster, and of a real one that `BENCHJOBS_KUBECONFIG` names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from pytest_benchjobs.sandbox.inside import Inside
from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from pytest_benchjobs.sandbox.kubernetes.provider import ClusterSettings, KubernetesProvider
from pytest_benchjobs.sandbox.protocol import Sandbox, SandboxProvider
from pytest_benchjobs.testing.conformance import SandboxConformance, Start
from tests.support import IMAGE, until

from .fake_cluster import FakeCluster
from .fake_store import KINDS
from .lab import own_namespace

REAL = os.environ.get("BENCHJOBS_KUBECONFIG")


class Unenforced(KubernetesProvider):
    """Goes on where a cluster has no network policies."""

    class Settings(ClusterSettings):
        unenforced_network: bool = True


class _Pods(SandboxConformance):
    environment = {"image": IMAGE}

    def end_behind_its_back(self, provider: SandboxProvider, sandbox: Sandbox) -> None:
        with contextlib.closing(Cluster()) as cluster:
            cluster.delete("Pod", sandbox.id.partition("/")[2])

    def left(self, sandbox: str) -> bool:
        with contextlib.closing(Cluster()) as cluster:
            return cluster.get("Pod", sandbox.partition("/")[2]) is not None


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeCluster]:
    cluster = FakeCluster(enforce_network=True)
    yield cluster
    cluster.close()


def phase_of(fake: FakeCluster, sandbox: Sandbox) -> str:
    """Return the phase of a Pod."""
    return str(fake.store.get(KINDS["pods"], "default", sandbox.id.partition("/")[2])["status"]["phase"])


def _nobody(_: bytes) -> None:
    """Take output that nobody wants."""


@pytest.mark.docker
class TestFake(_Pods):
    make = KubernetesProvider

    @pytest.fixture
    def surroundings(self, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig))

    def test_a_pod_that_wrote_too_much_is_found_empty(
        self, start: Start, fake: FakeCluster, tmp_path: Path
    ) -> None:
        """Whoever was told of it, asks on; it is no fault of the cluster."""
        sandbox = start(storage=20 << 20)
        result = sandbox.exec(["sh", "-c", "head -c 60M /dev/zero > big; sleep 60"], timeout=60, sink=_nobody)
        assert result.exit_status == 137
        assert phase_of(fake, sandbox) == "Failed"
        assert sandbox.limit_hit() == "storage"
        until(lambda: not sandbox.processes())  # a kubelet tells it first, and kills then
        assert sandbox.end_commands("ANY") == ()
        sandbox.end_processes()
        assert sandbox.read("big", limit=1) is None
        assert sandbox.fetch("big", tmp_path / "big", limit=1) is None

    def test_tables_of_users_are_read_again_only_where_they_have_changed(
        self, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sandbox, read, printed = start(), list[str](), bytearray()
        original = Inside.read
        monkeypatch.setattr(
            Inside, "read", lambda self, path, limit: read.append(path) or original(self, path, limit)
        )

        def run(user: str, command: str) -> None:
            argv = ("sh", "-c", command)
            assert sandbox.exec(argv, timeout=60, sink=printed.extend, user=user).exit_status == 0

        run("nobody", "id -u")
        run("nobody", "id -u")
        assert read == ["/etc/passwd", "/etc/group"]
        run("root", "echo visitor:x:4711:4711::/tmp: >> /etc/passwd")
        run("visitor", "id -u; echo $HOME")
        assert read == ["/etc/passwd", "/etc/group"] * 2
        assert printed.split() == [b"65534", b"65534", b"4711", b"/tmp"]


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig for a namespace of its own."""
    assert REAL is not None
    with own_namespace(Path(REAL), tmp_path_factory.mktemp("cluster")) as kubeconfig:
        yield kubeconfig


@pytest.mark.skipif(REAL is None, reason="BENCHJOBS_KUBECONFIG names no cluster")
class TestCluster(_Pods):
    make: ClassVar = Unenforced

    @pytest.fixture
    def surroundings(self, namespace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(namespace))
