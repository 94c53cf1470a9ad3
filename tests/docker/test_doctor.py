"""What `doctor` says of a real engine."""

from __future__ import annotations

import contextlib
from typing import Any

import docker.errors
import pytest

from pytest_benchjobs.model.finding import Health
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker import creating, health
from pytest_benchjobs.sandbox.docker.health import engine_facts, limits_missing
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from tests.support import IMAGE, containers_left

pytestmark = pytest.mark.docker


def test_an_engine_is_described(provider: DockerProvider) -> None:
    facts = engine_facts(provider, current_owner())
    found = {finding.check: finding for finding in health.engine(facts)}
    assert found["engine"].found.startswith(f"Docker Engine {facts.version}, API {facts.api}, ")
    assert found["engine clock"].health is Health.OK
    assert facts.memory > 1 << 28
    assert abs(facts.skew) < 60
    assert provider.engine.client.inspect_image(IMAGE)["Id"] in facts.images


@pytest.mark.alone
def test_what_a_dead_process_left_is_counted_and_stays(provider: DockerProvider) -> None:
    me = current_owner()
    dead = me.model_copy(update={"started": "never"})
    labels = {"benchjobs.owner": str(dead), "benchjobs.host": dead.host, "benchjobs.deadline": "9999999999"}
    client = provider.engine.client
    for _ in range(20):
        left = client.create_container(IMAGE, ["true"], labels=labels)["Id"]
        try:
            counted = engine_facts(provider, me).abandoned
            # The session of another test may sweep at this very moment; then there is nothing to count.
            if client.containers(all=True, filters={"id": left}):
                assert counted >= 1
                return
        finally:
            with contextlib.suppress(docker.errors.NotFound):
                client.remove_container(left, force=True)
    raise AssertionError("it was always removed")


def test_limits_are_tried_in_a_container_that_is_removed(provider: DockerProvider) -> None:
    assert limits_missing(provider, (IMAGE,)) == ()
    assert limits_missing(provider, ()) is None
    assert containers_left("doctor") == []


def test_limits_that_do_not_hold_are_named(provider: DockerProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    configure = creating._host_config

    def without(*arguments: Any) -> dict[str, Any]:
        configuration = configure(*arguments)
        configuration.pop("mem_limit")
        configuration.pop("memswap_limit")
        return {**configuration, "pids_limit": 999}

    monkeypatch.setattr(creating, "_host_config", without)
    assert limits_missing(provider, (IMAGE,)) == ("memory", "pids")
