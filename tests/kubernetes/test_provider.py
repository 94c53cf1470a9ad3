"""What a provider of Pods does for all of them: their owner, which is made anew where it is gone; their networks.

And what the cluster of `make k8s` cannot show of Pods that are not admitted, and of sidecars.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import ContainerStartFailed, Ungradable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.kubernetes import provider as module
from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from pytest_benchjobs.sandbox.kubernetes.link import KilledInside
from pytest_benchjobs.sandbox.kubernetes.pod import OWNER
from pytest_benchjobs.sandbox.kubernetes.provider import ClusterSettings, KubernetesProvider
from pytest_benchjobs.sandbox.kubernetes.sandbox import KubernetesSandbox
from pytest_benchjobs.sandbox.program import PROGRAM
from pytest_benchjobs.sandbox.protocol import Mount, SandboxSpec
from pytest_benchjobs.sandbox.relay import Relays
from tests.support import IMAGE, until

from .fake_cluster import FakeCluster
from .fake_node import POD, PODS
from .fake_store import KINDS

pytestmark = pytest.mark.docker

Start = Callable[..., KubernetesSandbox]


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeCluster]:
    with FakeCluster(enforce_network=True) as cluster:
        yield cluster


@pytest.fixture
def start(fake: FakeCluster) -> Iterator[Start]:
    """Starts a Pod with a deadline, of a trial; all by one provider."""
    with contextlib.closing(
        KubernetesProvider(current_owner(), ClusterSettings(kubeconfig=fake.kubeconfig))
    ) as provider:

        def started(
            deadline: float, *, cpus: float | None = None, trial: str = "", grading: bool = False
        ) -> Any:
            environment = Environment(image=IMAGE, cpus=cpus)
            spec = SandboxSpec(environment, {"trial": trial}, "public", deadline, grading=grading)
            return provider.start(spec, lambda _: None)

        yield started


@pytest.fixture
def owners(fake: FakeCluster) -> Iterator[Callable[[], list[str]]]:
    with contextlib.closing(Cluster(str(fake.kubeconfig))) as cluster:
        yield lambda: [one["metadata"]["name"] for one in cluster.list("ConfigMap", OWNER)]


def test_a_new_one_is_made_where_somebody_has_deleted_it(
    fake: FakeCluster, start: Start, owners: Callable[[], list[str]]
) -> None:
    start(600)
    (first,) = owners()
    with contextlib.closing(Cluster(str(fake.kubeconfig))) as cluster:
        cluster.delete("ConfigMap", first)
        until(lambda: not cluster.list("Pod", OWNER), what="its Pod is left")
    later = start(9000)
    (second,) = owners()
    assert second != first
    assert later.exec(["true"], timeout=60, sink=lambda _: None).exit_status == 0


def test_nobody_waits_for_time_that_another_one_asks_for(
    start: Start, owners: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(600)
    asked, answered, patch = threading.Event(), threading.Event(), Cluster.patch

    def slow(*arguments: Any, **more: Any) -> Any:
        asked.set()
        assert answered.wait(120)
        return patch(*arguments, **more)

    monkeypatch.setattr(Cluster, "patch", slow)
    waiting = threading.Thread(target=start, args=(9000,))
    waiting.start()
    try:
        assert asked.wait(60)
        start(300)
        assert waiting.is_alive()
    finally:
        answered.set()
        waiting.join()
    assert len(owners()) == 1


def test_work_is_graded_where_all_room_is_kept_for_the_trials_that_wait_for_that(
    fake: FakeCluster, start: Start
) -> None:
    def requested(sandbox: KubernetesSandbox) -> str:
        with contextlib.closing(Cluster(str(fake.kubeconfig))) as cluster:
            pod = cluster.get("Pod", sandbox.id.partition("/")[2])
        assert pod is not None
        return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])

    # A node has 16.
    worked = [start(600, cpus=16.0, trial=trial) for trial in "abc"]
    graded = [start(600, cpus=15.0, trial=trial, grading=True) for trial in "abc"]
    assert {requested(one) for one in worked} == {"16000m"}
    assert {requested(one) for one in graded} == {"0m"}
    assert [one.node for one in graded] == [one.node for one in worked]
    for one in (*worked, *graded):
        one.remove()
    start(600, cpus=0.5, trial="a")
    assert requested(start(600, cpus=2.0, trial="a", grading=True)) == "1500m"
    assert requested(start(600, cpus=0.5, trial="of an earlier job", grading=True)) == "500m"


def test_a_network_is_open_once_it_was_opened(start: Start) -> None:
    sandbox = start(600)
    for _ in range(3):
        sandbox.set_network("none")
        assert sandbox.gets_out() is False
        sandbox.set_network("public")
        assert sandbox.gets_out() is True
    assert sandbox.notes == ()


def test_a_pod_that_its_agent_keeps_us_out_of_is_the_agents_doing() -> None:
    sandbox = KubernetesSandbox.__new__(KubernetesSandbox)
    sandbox._graded, sandbox._relays = False, Relays(sandbox, (), None)
    with pytest.raises(KilledInside, match="killed"), sandbox._calling():
        raise KilledInside("killed")
    sandbox._relays.agent_worked = True
    with pytest.raises(Ungradable, match="keeps us out of it: killed"), sandbox._calling():
        raise KilledInside("killed")


def test_where_nothing_shows_that_a_network_is_open_it_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Shut(KubernetesSandbox):
        def __init__(self) -> None:
            self.tries = 0
            self._notes: list[str] = []

        def gets_out(self) -> bool | None:
            self.tries += 1
            return False

    monkeypatch.setattr(module, "_ENFORCED_WITHIN", 0.0)
    provider, first, second = KubernetesProvider(current_owner()), Shut(), Shut()
    for sandbox in (first, second):
        provider._await_network(sandbox, "public")
    assert (first.tries, second.tries) == (1, 0)
    assert "neither the cluster's API nor another node was reached" in first.notes[0]


class Namespace:
    """A namespace of a test's own, and a provider in it."""

    def __init__(self, fake: FakeCluster, name: str, template: Path | None = None, **labels: str) -> None:
        self._fake, self._name = fake, name
        fake.create(KINDS["namespaces"], "", {"metadata": {"name": name, "labels": labels}})
        settings = ClusterSettings(kubeconfig=fake.kubeconfig, namespace=name, template=template)
        self.provider = KubernetesProvider(current_owner(), settings)

    def start(self, **more: Any) -> KubernetesSandbox:
        spec = SandboxSpec(Environment(image=IMAGE), {"trial": "t"}, "public", 600, **more)
        return self.provider.start(spec, lambda _: None)

    def pods(self) -> list[dict[str, Any]]:
        return self._fake.store.list(PODS, self._name)

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def refuses(self, words: str, **more: Any) -> None:
        """A start ends with the first answer, in its words, and nothing is left of it."""
        before, asked = self.names(), self._fake.requests.count(("create", "pods"))
        told = rf'^the cluster takes no such Pod: pods "bench-\w+" is forbidden: {re.escape(words)}$'
        with pytest.raises(ContainerStartFailed, match=told):
            self.start(**more)
        assert self._fake.requests.count(("create", "pods")) == asked + 1
        assert self.names() == before


def test_a_runtime_is_one_of_the_clusters(fake: FakeCluster) -> None:
    there = Namespace(fake, "runtimes")
    with contextlib.closing(there.provider) as provider:
        there.refuses('pod rejected: RuntimeClass "kata" not found', runtime="kata")
        assert provider.runtimes() == ()
        fake.create(KINDS["runtimeclasses"], "", {"metadata": {"name": "kata"}, "handler": "kata-qemu"})
        assert provider.runtimes() == ("kata",)
        assert there.start(runtime="kata").exec(["true"], timeout=60, sink=lambda _: None).exit_status == 0
        assert [pod["spec"].get("runtimeClassName") for pod in there.pods()] == ["kata"]


def test_where_pod_security_forbids_root_no_pod_starts(fake: FakeCluster) -> None:
    there = Namespace(fake, "restricted", **{"pod-security.kubernetes.io/enforce": "restricted"})
    with contextlib.closing(there.provider):
        there.refuses(
            'violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "bench" must set '
            'securityContext.runAsNonRoot=true), runAsUser=0 (container "bench" must not set runAsUser=0)'
        )


def test_a_quota_that_is_full_is_told_at_once_though_others_of_the_job_are_at_work(fake: FakeCluster) -> None:
    there = Namespace(fake, "quotas")
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    fake.create(KINDS["resourcequotas"], "quotas", quota)
    with contextlib.closing(there.provider):
        first = there.start()
        there.refuses("exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1")
        first.remove()
        there.start()


def test_a_sidecar_of_the_template_runs_beside_the_trial_and_goes_with_it(
    fake: FakeCluster, tmp_path: Path
) -> None:
    template, directory = tmp_path / "pod.yaml", tmp_path / "agent"
    mesh = {"name": "mesh", "image": IMAGE, "command": ["sleep", "1000"], "restartPolicy": "Always"}
    template.write_text(json.dumps({"spec": {"initContainers": [mesh]}}), "utf-8")
    directory.mkdir()
    (directory / "file").write_text("delivered", "utf-8")
    there = Namespace(fake, "meshes", template)
    with contextlib.closing(there.provider):
        sandbox = there.start(mounts=(Mount(directory, "/opt/agent"),))
        (pod,) = there.pods()
        states = pod["status"]["initContainerStatuses"]
        assert [(one["name"], *one["state"]) for one in states] == [
            ("mesh", "running"),
            ("bench-files", "terminated"),
        ]
        output: list[bytes] = []
        words = ["sh", "-c", "cat /opt/agent/file; tr '\\0' ' ' </proc/1/cmdline"]
        assert sandbox.exec(words, timeout=60, sink=output.append).exit_status == 0
        assert b"".join(output).startswith(b"delivered" + f"{PROGRAM} serve pod ".encode())
        sandbox.remove()
        assert there.pods() == []
        made = {"label": f"{POD}={pod['metadata']['uid']}"}
        until(lambda: not fake.engine.containers(all=True, filters=made))
