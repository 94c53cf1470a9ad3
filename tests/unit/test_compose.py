"""Files of Docker Compose: what is refused with which words, and what services of a trial are given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import EnvironmentFailed, InputError
from pytest_benchjobs.model.scenario import ArtifactSpec, Environment, HealthCheck, ServiceImage
from pytest_benchjobs.sandbox.docker.compose.plugin import Plugin, find_plugin
from pytest_benchjobs.sandbox.docker.compose.project import Project, read_project
from pytest_benchjobs.sandbox.protocol import File, SandboxSpec
from pytest_benchjobs.sources.compose import ComposeFile, read_paths, variables
from pytest_benchjobs.sources.compose_rules import UNKNOWN_HERE
from pytest_benchjobs.trial.artifacts import place_of


def written(directory: Path, data: Mapping[str, Any] | str) -> Path:
    path = directory / "docker-compose.yaml"
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1))
    return path


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"privileged": True}, "services.db.privileged: is not supported: it would give the service this machine"),
    ({"network_mode": "host"}, "services.db.network_mode: 'host' is not supported"),
    ({"network_mode": "service:main"}, "services.db.network_mode: 'service:main' is not supported"),
    ({"pid": "host"}, "services.db.pid: 'host' is not supported"),
    ({"ipc": "host"}, "services.db.ipc: 'host' is not supported"),
    ({"uts": "host"}, "services.db.uts: 'host' is not supported"),
    ({"userns_mode": "host"}, "services.db.userns_mode: 'host' is not supported"),
    ({"cap_add": ["CHOWN", "SYS_ADMIN"]}, "services.db.cap_add[1]: 'SYS_ADMIN' is not supported"),
    ({"cap_add": ["ALL"]}, "services.db.cap_add[0]: 'ALL' is not supported"),
    ({"security_opt": ["seccomp:unconfined"]}, "services.db.security_opt[0]: 'seccomp:unconfined' is not supported"),
    ({"devices": ["/dev/kvm"]}, "services.db.devices: is not supported: devices of this machine"),
    ({"volumes": ["/:/host"]}, "services.db.volumes[0]: '/' is not supported: only files below"),
    ({"volumes": ["a:/a", "../solution:/s"]}, "services.db.volumes[1]: '../solution' is outside of the directory"),
    ({"volumes": ["~/.ssh:/ssh"]}, "services.db.volumes[0]: '~/.ssh' is outside of the directory"),
    ({"volumes": ["./link:/host"]}, "services.db.volumes[0]: './link' is outside of the directory"),
    ({"volumes": ["./$$link:/host"]}, "services.db.volumes[0]: './$$link' is outside of the directory"),
    ({"volumes": ["/var/run/docker.sock:/s"]}, "services.db.volumes[0]: '/var/run/docker.sock' is not supported: the engine's"),
    ({"volumes": [{"type": "bind", "source": "/etc", "target": "/e"}]}, "services.db.volumes[0]: '/etc' is not supported"),
    ({"volumes": [{"type": "npipe", "source": "x"}]}, "services.db.volumes[0]: the type 'npipe' is not supported"),
    ({"env_file": "/root/.aws/credentials"}, "services.db.env_file: '/root/.aws/credentials' is not supported"),
    ({"env_file": ["a", {"path": "../keys"}]}, "services.db.env_file[1]: '../keys' is outside"),
    ({"env_file": "${HOME}/keys"}, "services.db.env_file: '${HOME}/keys' is not supported: write the path without"),
    ({"extends": {"file": "other.yaml", "service": "x"}}, "services.db.extends.file: is not supported"),
    ({"build": "https://example.com/x.git"}, "services.db.build: 'https://example.com/x.git' is not supported"),
    ({"build": {"context": "..", "dockerfile": "D"}}, "services.db.build: '..' is outside"),
    ({"build": "${CONTEXT_DIR}/.."}, "services.db.build: '${CONTEXT_DIR}/..' is outside"),
    ({"build": {"context": ".", "dockerfile": "../D"}}, "services.db.build.dockerfile: './../D' is outside"),
    ({"build": {"dockerfile": "${CONTEXT_DIR}/../D"}}, "/../D' is outside of the directory"),
    ({"build": {"context": ".", "target": "dev"}}, "services.db.build.target: is not supported"),
    ({"build": {"context": ".", "args": 7}}, "services.db.build.args: a table of names and values"),
    ({"build": {"context": ".", "ssh": ["default"]}}, "services.db.build.ssh: is not supported"),
    ({"networks": {"n": {"ipv4_address": "10.0.0.2"}}}, "services.db.networks.n.ipv4_address: is not supported"),
    ({"extra_hosts": ["host:host-gateway"]}, "services.db.extra_hosts: 'host-gateway' is not supported"),
    ({"deploy": {"replicas": 2}}, "services.db.deploy: more than one container is not supported"),
    ({"scale": 3}, "services.db.scale: more than one container is not supported"),
    ({"volumes_from": ["main"]}, "services.db.volumes_from: is not supported: name the volume in both"),
    ({"runtime": "other"}, "services.db.runtime: is not supported: the job says which is used, by --bench-runtime"),
    ({"use_api_socket": True}, "services.db.use_api_socket: is not supported: the engine's socket"),
    ({"never_heard_of": 1}, "services.db.never_heard_of: is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("top", "message"),
    [
        *(({"services": {"db": {"image": "x", **service}}}, message) for service, message in REFUSED),
        *(
            ({"services": {"main": {key: ["x"]}}}, f"services.main.{key}: is not supported: the container of the trial")
            for key in ("cap_add", "sysctls", "dns", "read_only")
        ),
        ({"include": ["other.yaml"]}, "include: is not supported"),
        ({"networks": {"n": {"external": True}}}, "networks.n.external: is not supported"),
        ({"networks": {"n": {"driver": "host"}}}, "networks.n.driver: 'host' is not supported"),
        ({"networks": {"n": {"ipam": {"config": [{"subnet": "10.0.0.0/8"}]}}}}, "networks.n.ipam: is not supported"),
        ({"volumes": {"v": {"driver_opts": {"device": "/", "o": "bind"}}}}, "volumes.v.driver_opts: is not supported"),
        ({"volumes": {"v": {"driver": "nfs"}}}, "volumes.v.driver: 'nfs' is not supported"),
        ({"configs": {"c": {"file": 1.5}}}, "configs.c.file: a path is expected"),
        ({"secrets": {"s": {"environment": "OPENAI_API_KEY"}}}, "secrets.s.environment: is not supported"),
        ({"configs": {"c": {"file": "/etc/shadow"}}}, "configs.c.file: '/etc/shadow' is not supported"),
        ({"services": {}}, "services: a table of services is expected"),
        ({"services": {"db": "x"}}, "services.db: a table of keys is expected"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_what_opens_this_machine_is_refused_with_file_and_line(
    tmp_path: Path, top: dict[str, Any], message: str
) -> None:
    (tmp_path / "environment").mkdir()
    for name in ("link", "$link"):
        (tmp_path / "environment" / name).symlink_to("/etc")
    path = written(tmp_path / "environment", {"services": {"db": {"image": "x"}}, **top})
    with pytest.raises(InputError) as error:
        ComposeFile(path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}:")
    assert str(error.value).split(":")[1].isdigit()


def test_a_file_that_is_no_yaml_is_one_error_with_a_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"docker-compose.yaml:3: is not valid YAML"):
        ComposeFile(written(tmp_path, "services:\n  db: [\n"))


def test_images_are_known_without_docker_compose_as_far_as_they_do_not_depend_on_the_trial(
    tmp_path: Path,
) -> None:
    data = {
        "services": {
            "main": {"build": {"context": "${CONTEXT_DIR}"}, "image": "${MAIN_IMAGE_NAME}"},
            "named": {"image": "postgres:16"},
            "built": {"build": {"context": "./web", "dockerfile": "Prod", "args": ["A=1", "B"]}},
            "of-the-trial": {"image": "x:${VERSION:-1}"},
            "off": {"image": "y", "profiles": ["debug"]},
        }
    }
    found = ComposeFile(written(tmp_path, data))
    assert found.names == ("main", "named", "built", "of-the-trial", "off")
    assert found.described().images == {
        "named": ServiceImage(image="postgres:16"),
        "built": ServiceImage(
            dockerfile=tmp_path / "web/Prod", context=tmp_path / "web", build_args={"A": "1"}
        ),
    }
    main = found.with_main(Environment())
    assert (main.dockerfile, main.context) == (tmp_path / "Dockerfile", tmp_path)
    assert found.with_main(Environment(image="own")).dockerfile is None


def test_the_health_check_of_main_becomes_that_of_the_environment(tmp_path: Path) -> None:
    check = {"test": ["CMD", "test", "-e", "/a b"], "interval": "1m30s", "timeout": "500ms", "retries": 7}
    path = written(tmp_path, {"services": {"main": {"healthcheck": check}}})
    found = ComposeFile(path).with_main(Environment(image="x")).healthcheck
    assert found == HealthCheck(command="test -e '/a b'", interval=90.0, timeout=0.5, retries=7)
    own = HealthCheck(command="true")
    assert ComposeFile(path).with_main(Environment(image="x", healthcheck=own)).healthcheck == own


def test_the_paths_that_a_signature_has_are_those_that_services_get(tmp_path: Path) -> None:
    names = ("seed.sql", "one.env", "text", ".env", "known", "$x", "default", "given")
    for name in names:
        (tmp_path / name).write_text("x")
    volumes = (
        f"./seed.sql:/s v:/v ./none:/n ./{'n' * 300}:/o ${{CONTEXT_DIR}}/known:/k ./$$x:/x ${{X:-./default}}:/d "
        "${GIVEN}:/g ${ROOT}:/r"
    )
    data = {
        "services": {
            "db": {
                "image": "x",
                "volumes": volumes.split(),
                "env_file": "one.env",
            }
        },
        "configs": {"c": {"file": "text"}},
    }
    path = written(tmp_path, data)
    found = read_paths(path, {"GIVEN": "./given", "ROOT": "/"})
    assert {one.name for one in found} == {path.name, *names}


def test_variables_come_from_no_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("KEY=secret")
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / ".env").symlink_to("../keys")
    with pytest.raises(InputError, match=r"\.env: '\.env' is outside of the directory"):
        ComposeFile(written(tmp_path / "task", {"services": {"db": {"image": "x:${KEY}"}}}))


def normal(directory: Path, services: dict[str, Any], **top: Any) -> Project:
    """A project, of a file as Docker Compose normalises it."""
    return read_project(json.dumps({"services": services, **top}), directory / "docker-compose.yaml")


def described(project: Project, environment: Environment, runtime: str | None = None) -> dict[str, Any]:
    images = dict.fromkeys(project.services, "sha256:1")
    spec = SandboxSpec(environment, {}, "none", 1.0, runtime=runtime)
    text = project.description("real", images, {"benchjobs.job": "j$1"}, spec)
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_service_has_the_limits_of_the_trial_and_nothing_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "seed").mkdir()
    project = normal(
        tmp_path,
        {
            "db": {
                "image": "postgres",
                "command": ["run"],
                "environment": {"A": "$$b", "FROM_HERE": None},
                "mem_limit": "4294967296",
                "deploy": {"resources": {"limits": {"cpus": 0.5}}},
                "ports": [{"published": "80", "target": 80}],
                "container_name": "the-db",
                "labels": {"benchjobs.owner": "me", "mine": "1"},
                "networks": {"default": {"aliases": ["sql"]}},
                "depends_on": {"main": {"condition": "service_started"}},
                "volumes": [
                    {"type": "bind", "source": str(tmp_path / "seed"), "target": "/seed"},
                    {"type": "bind", "source": f"{UNKNOWN_HERE}/verifier", "target": "/logs/verifier"},
                    {"type": "volume", "source": "state", "target": "/state"},
                ],
                "cap_add": ["NET_RAW"],
            },
            "alone": {"image": "x", "network_mode": "none"},
        },
    )
    found = described(project, Environment(image="x", memory=1 << 30, cpus=2, pids=99))
    db = found["services"]["db"]
    assert (db["mem_limit"], db["memswap_limit"], db["cpus"], db["pids_limit"]) == (1 << 30, 1 << 30, 0.5, 99)
    assert {"runtime", "mem_reservation", "cpu_shares"}.isdisjoint(db)
    two = Environment(image="x", memory=1 << 30, memory_request=1 << 29, cpus=2, cpus_request=1.5)
    db_of_two = described(project, two, "runsc")["services"]["db"]
    assert (db_of_two["mem_reservation"], db_of_two["cpu_shares"]) == (
        1 << 29,
        512,
    )  # never above its own limit
    assert db_of_two["runtime"] == "runsc"
    assert db["image"] == "sha256:1"
    assert db["pull_policy"] == "never"
    assert db["environment"] == {"A": "$$b"}
    assert db["labels"] == {"mine": "1", "benchjobs.job": "j$$1"}
    assert db["networks"] == {"default": {"aliases": ["sql", "the-db"]}}
    assert db["volumes"] == [{"type": "volume", "source": "state", "target": "/state"}]
    assert db["security_opt"] == ["no-new-privileges:true"]
    assert db["cap_drop"] == ["MKNOD", "SETPCAP"]
    assert {"ports", "container_name", "deploy", "depends_on", "build"}.isdisjoint(db)
    assert found["services"]["alone"]["network_mode"] == "none"
    assert found["networks"] == {"default": {"external": True, "name": "real-default"}}
    assert found["volumes"] == {"state": {"external": True, "name": "real-state"}}
    assert project.files == {"db": (File("/seed", source=tmp_path / "seed"),)}
    assert project.after_main == {"db"}


def test_a_build_argument_may_be_empty_and_a_dollar_is_itself(tmp_path: Path) -> None:
    build = {"context": str(tmp_path / "web"), "args": {"A": "", "B": "$$b", "FROM_HERE": None}}
    images = normal(tmp_path, {"db": {"build": build}}).images
    assert images["db"] == ServiceImage(
        dockerfile=tmp_path / "web/Dockerfile", context=tmp_path / "web", build_args={"A": "", "B": "$b"}
    )


def test_main_is_told_apart_from_what_only_keeps_it_running(tmp_path: Path) -> None:
    def main(**service: Any) -> tuple[object, object]:
        found = normal(tmp_path, {"main": {"image": "x", **service}}).main
        return found.entrypoint, found.command

    assert main(command=["sleep", "infinity"]) == (None, None)
    assert main(command=["sh", "-c", "sleep infinity"]) == (None, None)
    assert main(command=["serve", "$$PORT"]) == (None, ("serve", "$PORT"))
    assert main(entrypoint=["/init"]) == (("/init",), None)


def test_a_file_that_says_nothing_of_main_has_it_in_the_network_of_the_others(tmp_path: Path) -> None:
    project = normal(tmp_path, {"db": {"image": "x", "networks": {"default": None}}})
    assert project.main.networks == {"default": ("main",)}
    assert project.networks == ("default",)


def test_services_that_wait_for_main_by_others_start_after_it(tmp_path: Path) -> None:
    project = normal(
        tmp_path,
        {
            "main": {"image": "x", "depends_on": {"first": {}}},
            "first": {"image": "x"},
            "second": {"image": "x", "depends_on": {"main": {}}},
            "third": {"image": "x", "depends_on": {"second": {}}},
        },
    )
    assert project.after_main == {"second", "third"}
    # Docker Compose waits for what main waits for, and starts nothing of that name.
    stand_in = described(project, Environment(image="x"))["services"]["main"]
    assert (stand_in["depends_on"], stand_in["deploy"]) == ({"first": {}}, {"replicas": 0})


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ({"network_mode": "host"}, "services.db.network_mode"),
        ({"ipc": "container:$$x"}, "services.db.ipc"),
        (
            {"volumes": [{"type": "bind", "source": "./$$link"}]},
            "services.db.volumes[0]: './$link' is outside",
        ),
        ({"build": {"context": "./$$link"}}, "services.db.build: './$link' is outside"),
        ({"image": None}, "services.db: has neither image nor build"),
    ],
)
def test_what_variables_hid_is_refused_when_they_are_filled_in(
    tmp_path: Path, service: dict[str, Any], message: str
) -> None:
    (tmp_path / "$link").symlink_to("/etc")
    with pytest.raises(EnvironmentFailed) as error:
        normal(tmp_path, {"db": {"image": "x", **service}})
    assert message in str(error.value)
    assert not error.value.retryable


def test_files_cannot_be_copied_into_what_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    volume = {"type": "bind", "source": str(tmp_path / "a"), "target": "/a"}
    with pytest.raises(EnvironmentFailed, match=r"services.db.read_only"):
        normal(tmp_path, {"db": {"image": "x", "read_only": True, "volumes": [volume]}})


def test_variables_of_tasks_have_values_and_none_is_a_directory_of_this_machine(tmp_path: Path) -> None:
    found = variables(tmp_path, Environment(image="x", cpus=2, memory=1024))
    assert (found["CPUS"], found["MEMORY"], found["CONTEXT_DIR"]) == ("2", "1024", str(tmp_path))
    assert found["ENV_VERIFIER_LOGS_PATH"] == "/logs/verifier"
    assert found["HOST_VERIFIER_LOGS_PATH"].startswith(UNKNOWN_HERE)


def test_artifacts_of_services_are_below_their_names() -> None:
    assert place_of(ArtifactSpec(source="/a/b"), "/a/b") == "a/b"
    assert place_of(ArtifactSpec(source="/a/b", service="db"), "/a/b") == "db/a/b"
    assert place_of(ArtifactSpec(source="/../../b", service="db"), "/../../b") == "db/b"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of Docker Compose, whose script is to be written."""
    path = tmp_path / "config" / "cli-plugins" / "docker-compose"
    path.parent.mkdir(parents=True)
    path.touch(0o755)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    return path


VERSION = '#!/bin/sh\n[ "$1" = version ] && echo %s && exit\n'


def test_an_old_one_is_refused(program: Path) -> None:
    program.write_text(VERSION % "v2.3.1")
    with pytest.raises(
        EnvironmentFailed, match=r"a.yaml describes services, .* 2.20 or later; .* is 2.3. Install"
    ):
        find_plugin(Path("a.yaml"))


def test_it_gets_no_variable_of_this_process_and_a_missing_one_is_an_error(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("DOCKER_AUTH_CONFIG", "secret")
    monkeypatch.setenv("LANG", "C")
    program.write_text(
        VERSION % "2.26.1-4" + "env\ncat\nfor one; do case $one in --env-file=*) cat ${one#*=};; esac; done\n"
    )
    plugin = Plugin(tmp_path / "a.yaml", dict)
    told = plugin.normalise({"GIVEN": "1", "LD_PRELOAD": "evil.so", "LANG": "de"}, lambda: None)
    assert told.endswith('GIVEN="1"\nLD_PRELOAD="evil.so"\nLANG="de"\n')
    assert not {"GIVEN=1", "LD_PRELOAD=evil.so", "LANG=C", "LANG=de"} & {*told.splitlines()}
    assert "sk-1" not in told
    assert "secret" not in told
    program.write_text(
        VERSION % "2.26.1-4"
        + "echo 'level=warning msg=\"The \\\"KEY\\\" variable is not set.\"' >&2; echo '{}'\n"
    )
    with pytest.raises(EnvironmentFailed, match=r"a\.yaml: KEY has no value: give it one in `env`"):
        plugin.normalise({}, lambda: None)


def test_what_the_check_raises_ends_it(program: Path, tmp_path: Path) -> None:
    program.write_text(
        VERSION % "2.26.1-4" + f"sleep 1; while :; do sleep 0.1; date >> {tmp_path}/alive; done\n"
    )

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Plugin(tmp_path / "a.yaml", dict).call("p", "{}", "up", timeout=60, check=stop)
    assert not (tmp_path / "alive").exists()


def test_it_is_killed_when_its_time_is_up(program: Path, tmp_path: Path) -> None:
    program.write_text(VERSION % "2.26.1-4" + "exec sleep 100\n")
    status, said = Plugin(tmp_path / "a.yaml", dict).call("p", "{}", "up", timeout=0.3, check=lambda: None)
    assert (status, said) == (None, "it was still running after 0.3 s")
