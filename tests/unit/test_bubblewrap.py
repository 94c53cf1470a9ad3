"""Which scenarios local sandboxes are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment, FreshContainer, HealthCheck, Scenario, ScorerSpec
from pytest_benchjobs.sandbox.bubblewrap import machine, provider
from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider
from pytest_benchjobs.trial.promises import unkept

from .records import scenario_of

JOB = JobConfig(directory=Path("reports"))


def scenario(environment: Environment, **more: Any) -> Scenario:
    scorers = (ScorerSpec(name="right", type="command", command="true"),)
    return scenario_of(environment=environment, **{"scorers": scorers, **more})


def on_host(**more: Any) -> Environment:
    return Environment(image="host", **more)


def test_what_runs_on_the_programs_of_this_machine() -> None:
    free = on_host(workdir="/app", user="root", network="none", memory=1 << 30)
    files = {"in.txt": Path("x"), "/data/in.txt": Path("x")}
    for one in (scenario(Environment()), scenario(on_host(), files=files), scenario(free)):
        assert LocalProvider(current_owner()).incompatible(one, JOB) is None
    mapped = JOB.model_copy(update={"image_map": {"debian:12": "host"}})
    assert (
        LocalProvider(current_owner()).incompatible(scenario(Environment(image="debian:12")), mapped) is None
    )


@pytest.mark.parametrize(
    ("environment", "more", "why"),
    [
        (Environment(image="debian:12"), {}, "needs an image (debian:12), and there is no Docker"),
        (Environment(dockerfile=Path("/x/Dockerfile")), {}, "needs an image (of its Dockerfile), and there is no Docker"),
        (on_host(user="app"), {}, "needs the user 'app'"),
        (on_host(), {"agent_user": "app"}, "needs the user 'app'"),
        (on_host(), {"agent_network": "allowlist"}, "needs the network `allowlist`"),
        (on_host(gpus=1), {}, "needs GPUs"),
        (on_host(git_history="base"), {}, "ends the history of repositories"),
        (on_host(allow_sudo=True), {}, "needs sudo"),
        (on_host(), {"fresh_container": None}, "keeps processes running"),
        (on_host(), {"fresh_container": FreshContainer(environment=on_host())}, "is graded in another image"),
        (on_host(healthcheck=HealthCheck(command="true")), {}, "waits for a service"),
        (on_host(), {"files": {"/etc/app.conf": Path("x")}}, "writes to /etc/app.conf"),
        (on_host(workdir="/usr/src/app"), {}, "writes to /usr/src/app"),
        (on_host(workdir="/data/../etc"), {}, "writes to /data/../etc"),
    ],
)  # fmt: skip
def test_what_does_not_and_why(environment: Environment, more: dict[str, Any], why: str) -> None:
    found = LocalProvider(current_owner()).incompatible(scenario(environment, **more), JOB)
    assert str(found).startswith(f"incompatible: {why}")


def test_limits_that_nobody_enforces_are_named() -> None:
    def notes(**limits: Any) -> list[str]:
        fresh = FreshContainer()
        lacks = LocalProvider(current_owner()).lacks()
        return unkept(scenario(on_host(**limits), fresh_container=fresh), "local", lacks)

    assert notes() == []
    first = "not promised by the sandbox local: "
    assert notes(memory=1 << 20, cpus=1, pids=64) == [
        f"{first}memory, out_of_memory, cpus, pids: namespaces have no limits"
    ]
    assert notes(memory_request=1 << 20) == [f"{first}memory: namespaces have no limits"]
    assert notes(user="nobody", network="allowlist") == [
        f"{first}users: there is only root",
        f"{first}network_allowlist: there are only `public` and `none`",
    ]


def test_another_release_of_the_system_is_another_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(machine, "_RELEASES", (first, second))
    found = [machine.release()]
    second.write_text("VERSION_ID=12")
    found.append(machine.release())
    first.write_text("VERSION_ID=13")
    found.append(machine.release())
    monkeypatch.setattr(machine.platform, "machine", lambda: "another")
    found.append(machine.release())
    assert len(set(found)) == 4
    assert all(len(one) == 64 for one in found)
    second.write_text("VERSION_ID=14")
    assert machine.release() == found[-1]


def test_of_settings_comes_what_everybody_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in (("hosts", 0o644), ("secret", 0o600), ("open/a", 0o644), ("closed/b", 0o644)):
        path = tmp_path / "etc" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(name)
        path.chmod(mode)
    (tmp_path / "etc/closed").chmod(0o700)
    monkeypatch.setattr(machine, "_ETC", tmp_path / "etc")
    machine.copy_settings(tmp_path / "copy", "box")
    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert found == {"hosts", "open", "open/a", "passwd", "group", "hostname"}


def test_the_program_is_the_one_on_the_path_and_where_there_is_none_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provider.shutil, "which", lambda name: f"/opt/{name}")
    assert provider._bwrap() == "/opt/bwrap"
    monkeypatch.setattr(provider.shutil, "which", lambda _: None)
    with pytest.raises(EngineUnavailable, match="need the program bwrap, which is not installed"):
        provider._bwrap()
    monkeypatch.setattr(provider.sys, "platform", "darwin")
    with pytest.raises(EngineUnavailable, match="need Linux"):
        provider._bwrap()
