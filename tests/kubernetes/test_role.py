"""The roles of docs/kubernetes/ are what we need: on a fake cluster right by right, on a real one the whole suite."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from pytest_benchjobs.model.errors import EngineUnavailable, EnvironmentFailed
from pytest_benchjobs.model.finding import Health
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment, Network
from pytest_benchjobs.sandbox.kubernetes.api import Cluster
from pytest_benchjobs.sandbox.kubernetes.pod import OWNER
from pytest_benchjobs.sandbox.kubernetes.provider import ClusterSettings, KubernetesProvider
from pytest_benchjobs.sandbox.kubernetes.rights import RIGHTS
from pytest_benchjobs.sandbox.protocol import SandboxSpec
from tests.support import IMAGE, until

from .fake_cluster import FakeCluster
from .test_conformance import REAL, Unenforced, _Pods, namespace

__all__ = ["namespace"]

ROLES = Path(__file__).parents[2] / "docs" / "kubernetes"
USER = Path(REAL).with_name("benchjobs.kubeconfig") if REAL else Path("none")
"""A kubeconfig of the user `benchjobs`, who has no rights."""
OPTIONAL = ("networkpolicies", "events", "nodes")


def _granted(*names: str) -> set[tuple[str, str, str]]:
    documents = [one for name in names for one in yaml.safe_load_all((ROLES / name).read_text("utf-8"))]
    return {
        (verb, resource, group)
        for one in documents
        for rule in one["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
    }


def test_the_roles_are_what_doctor_asks_for() -> None:
    wanted = {(one.verb, one.resource, one.group) for one in RIGHTS if not one.without}
    more = {(one.verb, one.resource, one.group) for one in RIGHTS if one.without}
    assert _granted("role.yaml") == wanted
    assert _granted("role-optional.yaml") == more


@pytest.fixture
def provider(fake: FakeCluster) -> Iterator[Callable[..., KubernetesProvider]]:
    with contextlib.ExitStack() as ending:

        def made(**settings: Any) -> KubernetesProvider:
            one = KubernetesProvider(current_owner(), ClusterSettings(kubeconfig=fake.kubeconfig, **settings))
            ending.callback(one.close)
            return one

        yield made


def _spec(network: Network) -> SandboxSpec:
    return SandboxSpec(Environment(image=IMAGE), {}, network, 120.0)


@pytest.mark.docker
class TestFake:
    def test_nothing_is_asked_for_that_the_roles_do_not_give(
        self, fake: FakeCluster, provider: Callable[..., KubernetesProvider]
    ) -> None:
        one = provider(unenforced_network=True)
        one.check()
        assert [found.found for found in one.findings() if found.check == "rights"] == [
            "all, in namespace default"
        ]
        sandbox = one.start(_spec("none"), lambda _: None)
        sandbox.set_network("public")
        sandbox.exec(["true"], timeout=30, sink=lambda _: None)
        sandbox.remove()
        one.sweep()
        one.close()
        asked = {row for row in fake.requests if row[1] != "selfsubjectaccessreviews"}
        assert asked <= {(one.verb, one.resource) for one in RIGHTS}
        assert {("create", "pods/exec"), ("get", "pods/exec")} & asked

    def test_what_is_optional_is_done_without_and_said(
        self, fake: FakeCluster, provider: Callable[..., KubernetesProvider]
    ) -> None:
        fake.forbidden |= {("*", resource) for resource in OPTIONAL}
        sandbox = provider().start(_spec("public"), lambda _: None)
        assert sandbox.exec(["true"], timeout=30, sink=lambda _: None).exit_status == 0
        assert [note for note in sandbox.notes if "no right to create network policies" in note]
        with pytest.raises(EnvironmentFailed, match="no right to create network policies"):
            provider().start(_spec("none"), lambda _: None)

    def test_doctor_tells_what_is_lacking(
        self, fake: FakeCluster, provider: Callable[..., KubernetesProvider]
    ) -> None:
        fake.forbidden |= {("watch", "pods"), ("list", "events")}
        found = [one for one in provider().findings() if one.check == "rights"]
        assert [one.health for one in found] == [Health.PROBLEM, Health.OK]
        assert "may not watch pods" in found[0].found
        assert "may not list events: results say less" in found[1].found

    def test_a_right_that_is_lacking_stops_each_trial_in_the_same_words_and_leaves_nothing(
        self, fake: FakeCluster, provider: Callable[..., KubernetesProvider]
    ) -> None:
        fake.forbidden.add(("list", "pods"))
        one = provider()
        for _ in range(2):
            with pytest.raises(EngineUnavailable, match=r"refused to list Pods .*: ask for a role"):
                one.start(_spec("public"), lambda _: None)
        with contextlib.closing(Cluster(str(fake.kubeconfig))) as cluster:
            until(lambda: not cluster.list("ConfigMap", OWNER), what="what owned nothing is left")


@pytest.fixture
def bound(namespace: Path) -> Path:
    """A kubeconfig of somebody who has the least role, in a namespace of its own."""
    config = yaml.safe_load(USER.read_text("utf-8"))
    name = yaml.safe_load(namespace.read_text("utf-8"))["contexts"][0]["context"]["namespace"]
    for one in config["contexts"]:
        one["context"]["namespace"] = name
    binding = ["create", "rolebinding", "benchjobs", "--role=benchjobs", "--user=benchjobs"]
    for words in (["apply", "-f", str(ROLES / "role.yaml")], binding):
        subprocess.run(["kubectl", "--kubeconfig", str(namespace), *words], check=False, capture_output=True)
    path = namespace.with_name("user")
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path


@pytest.mark.skipif(
    not USER.exists() or shutil.which("kubectl") is None,
    reason="no kubectl, or BENCHJOBS_KUBECONFIG is not of a cluster of scripts/k8s.sh, which has such a user",
)
class TestLeastRole(_Pods):
    make: ClassVar = Unenforced

    @pytest.fixture
    def surroundings(self, bound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(bound))
