"""What a provider of Pods does for all of them: their owner, which is made anew where it is gone; their networks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_benchjobs.model.errors import Ungradable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.kubernetes import provider as module
from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from pytest_benchjobs.sandbox.kubernetes.link import KilledInside
from pytest_benchjobs.sandbox.kubernetes.pod import OWNER
from pytest_benchjobs.sandbox.kubernetes.provider import ClusterSettings, KubernetesProvider
from pytest_benchjobs.sandbox.kubernetes.sandbox import KubernetesSandbox
from pytest_benchjobs.sandbox.protocol import SandboxSpec
from pytest_benchjobs.sandbox.relay import Relays
from tests.support import IMAGE, until

from .fake_cluster import FakeCluster

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
