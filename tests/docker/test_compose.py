"""Harbor tasks with services of Docker Compose: they start, serve, are graded with, and are gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import docker
import pytest

from pytest_benchjobs.sandbox.docker.compose.plugin import Plugin
from pytest_benchjobs.sandbox.docker.compose.project import read_project
from tests import composing
from tests.plugin.test_judge import KEY, _Judge
from tests.support import IMAGE, in_flight, jobs, results, run, start, until
from tests.unit.test_cli import run as cli

pytestmark = pytest.mark.docker

# Answers each connection with $VALUE, or with what another service answers to it.
SERVER = """\
use IO::Socket::INET;
my $listening = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => 5000, Listen => 9, ReuseAddr => 1) or die;
while (my $client = $listening->accept) {
    my $said = $ENV{VALUE} // "";
    if ($ENV{BEHIND} and my $behind = IO::Socket::INET->new("$ENV{BEHIND}:5000")) { $said .= <$behind> // ""; }
    print {$client} $said; close $client;
}
"""
ASK = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(\"%s:5000\") or exit 1; print <$s>'"
ALIVE = ["CMD", "perl", "-MIO::Socket::INET", "-e", 'exit !IO::Socket::INET->new("127.0.0.1:5000")']
HEALTH = {"test": ALIVE, "interval": "0.5s", "timeout": "10s", "retries": 60}
TEST = "#!/bin/bash\n{}\necho $(( $? == 0 )) > /logs/verifier/reward.txt\n"
# Of the task of most tests: the answer is in the database, which only the web server reaches.
WEB = {
    "main": {"depends_on": {"web": {"condition": "service_healthy"}}, "networks": ["front"]},
    "web": {
        "build": "./web",
        "environment": {"VALUE": "web:", "BEHIND": "${BACKEND}"},
        "healthcheck": HEALTH,
        "depends_on": {"db": {"condition": "service_healthy"}},
        "networks": ["front", "back"],
    },
    "db": {
        "image": IMAGE,
        "command": ["perl", "/srv/server.pl"],
        "environment": {"VALUE": "42-$$HOME", "PASSWORD": "sidecar-secret-93"},
        "volumes": ["./server.pl:/srv/server.pl:ro", "state:/state"],
        "healthcheck": HEALTH,
        "networks": ["back"],
        "restart": "no",
    },
}
SHARED = {"networks": {"front": {}, "back": {}}, "volumes": {"state": {}}}


@pytest.fixture(scope="module", autouse=True)
def compose() -> None:
    composing.require()


def task(
    directory: Path,
    services: dict[str, Any],
    *,
    solve: str = "true",
    test: str = "true",
    toml: str = "",
    top: dict[str, Any] | None = None,
    environment: str = "",
    files: dict[str, str] | None = None,
) -> Path:
    """Write a Harbor task with these services."""
    written = {
        "instruction.md": "Do it.\n",
        "task.toml": f'schema_version = "1.4"\n{toml}\n[environment]\ndocker_image = "{IMAGE}"\n'
        f'workdir = "/app"\n{environment}\n',
        "solution/solve.sh": f"#!/bin/bash\n{solve}\n",
        "tests/test.sh": TEST.format(test),
        "environment/docker-compose.yaml": json.dumps({"services": services, **(top or {})}),
        "environment/server.pl": SERVER,
        "environment/web/Dockerfile": f'FROM {IMAGE}\nCOPY server.pl /server.pl\nCMD ["perl", "/server.pl"]\n',
        "environment/web/server.pl": SERVER,
        **(files or {}),
    }
    for path, text in written.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(textwrap.dedent(text) if path.endswith(".toml") else text)
    return directory


def left(client: docker.APIClient, directory: Path) -> dict[str, list[str]]:
    """What is left in the engine of jobs below a directory."""

    def of(label: dict[str, str] | None) -> bool:
        return (label or {}).get("benchjobs.job") in jobs(directory)

    label = {"label": "benchjobs.job"}
    return {
        "containers": [one["Id"] for one in client.containers(all=True, filters=label) if of(one["Labels"])],
        "networks": [one["Name"] for one in client.networks(filters=label) if of(one["Labels"])],
        "volumes": [
            one["Name"] for one in client.volumes(filters=label)["Volumes"] or () if of(one["Labels"])
        ],
    }


NOTHING: dict[str, list[str]] = {"containers": [], "networks": [], "volumes": []}


def one(directory: Path) -> dict[str, Any]:
    (result,) = results(directory)
    return result


def solved(directory: Path) -> dict[str, Any]:
    """Run the one task with its reference, which has to pass."""
    run(directory, "tasks", "--bench-agent=oracle")
    result = one(directory)
    assert (result["outcome"], result["score"]) == ("passed", 1.0), (result["failure"], result["notes"])
    return result


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("web")
    ask = ASK % "web"
    toml = """\
        artifacts = [
          "/app/answer",
          {source = "/state", service = "db", exclude = ["*.tmp"]},
          {source = "/srv/server.pl", service = "db", destination = "code/server.pl"},
          {source = "/var/none", service = "web"},
          {source = "/state/*.txt", service = "db", destination = "picked"},
        ]
        [[verifier.collect]]
        command = "echo dumped > /state/dump.txt; touch /state/x.tmp; echo $PASSWORD > /state/$(hostname | wc -l)"
        service = "db"
        [[verifier.collect]]
        command = "exit 3"
        service = "web"
        """
    task(
        directory / "tasks" / "web",
        WEB,
        top=SHARED,
        toml=toml,
        environment='[environment.env]\nBACKEND = "db"\n[verifier.env]\nEXPECTED = "web:42-$HOME"',
        solve=f"{ask} > /app/answer; ! timeout 5 {ASK % 'db'} && echo >> /app/answer && echo $BACKEND >> /app/answer",
        test=f'grep -qF "$EXPECTED" /app/answer && grep -qx db /app/answer && [ "$({ask})" = "$EXPECTED" ]',
    )
    run(directory, "tasks", "--bench-agent=oracle", "--bench-agent=nop", "--bench-concurrency=2")
    return directory


def test_what_they_serve_is_graded_and_artifacts_come_from_each(ran: Path, client: docker.APIClient) -> None:
    found = {one["agent"]["name"]: one for one in results(ran)}
    oracle, nop = found["oracle"], found["nop"]
    assert (oracle["outcome"], oracle["score"], oracle["failure"]) == ("passed", 1.0, None)
    assert (nop["outcome"], nop["score"]) == ("failed", 0.0)
    assert sorted(oracle["artifacts"]) == [
        "app/answer", "code/server.pl", "db/state/1", "db/state/dump.txt", "picked/dump.txt"
    ]  # fmt: skip
    assert "artifact /var/none does not exist" in oracle["notes"]
    for one in found.values():
        assert "collect command failed: exit 3" in one["notes"]
        assert {part.partition("=")[0] for part in one["image"]["key"].split(" ")[1:]} == {"db", "web"}
    assert left(client, ran) == NOTHING


def test_the_same_again_is_reused(ran: Path) -> None:
    done = run(ran, "tasks", "--bench-agent=oracle", "--bench-reuse")
    assert "reused" in done.stdout, done.stdout


# The agent looks for the secret of a service, for keys, for this machine, and for a way out.
ATTACK = r"""
exec 2>&1
env; ls -la /run /var/run | head -50
cat /proc/[0-9]*/environ | tr '\0' '\n'
for host in db:5432 172.17.0.1:22 198.18.0.1:80 169.254.169.254:80; do
  perl -MIO::Socket::INET -e "\$s = IO::Socket::INET->new(PeerAddr => '$host', Timeout => 2); print qq($host ), (\$s ? 'OPEN' : 'shut'), qq(\n)"
done
perl -MIO::Socket::INET -e 'use Socket; $p = (stat "/var/run/docker.sock")[0]; print "socket ", (defined $p ? "THERE" : "none"), "\n"'
ls /run/secrets /state 2>&1
mkdir -p /logs/artifacts /app/out && ln -s /etc/passwd /app/out/link && ln -s ../../../../../../etc /app/out/up
ln -s /proc/self/environ /app/direct
head -c 400000000 /dev/zero > /app/huge
mkdir -p '/app/out/..x' && echo fine > /app/out/good
mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt && echo '{"reward": 1}' > /logs/verifier/reward.json
"""


def test_a_hostile_agent_gets_nothing_of_services_and_leads_no_artifact_astray(
    tmp_path: Path, client: docker.APIClient
) -> None:
    services = {
        "main": {"depends_on": ["db"], "volumes": ["./attack.sh:/attack.sh:ro"]},
        "db": {
            "image": IMAGE,
            "command": ["perl", "/srv/server.pl"],
            "environment": {"PASSWORD": "sidecar-secret-93"},
            "volumes": ["./server.pl:/srv/server.pl"],
            "secrets": ["token"],
        },
    }
    top = {"secrets": {"token": {"file": "./token.txt"}}}
    toml = """\
        artifacts = ["/app/out", "/app/direct", "/app/huge",
                     {source = "/run/secrets/token", service = "db", destination = "token"}]
        """
    task(
        tmp_path / "tasks" / "hostile",
        services,
        top=top,
        toml=toml,
        test="false",
        environment='network_mode = "no-network"',
        files={"environment/attack.sh": ATTACK, "environment/token.txt": "file-secret-71\n"},
    )
    done = run(
        tmp_path,
        "tasks",
        "--bench-agent",
        "command:bash /attack.sh",
        OPENAI_API_KEY="sk-never-seen-58",
        HOME_SECRET="host-secret-17",
    )
    result = one(tmp_path)
    assert (result["outcome"], result["score"]) == ("failed", 0.0), done.stdout
    directory = next(path.parent for path in tmp_path.glob("reports/jobs/*/trials/*/*/*/result.json"))
    output = (directory / "agent.log").read_text() if (directory / "agent.log").exists() else ""
    everything = "\n".join(
        path.read_text(errors="replace")
        for path in directory.rglob("*")
        if path.is_file() and path.stat().st_size < 1 << 20 and "token" not in path.name
    )
    assert "shut" in everything, sorted(directory.rglob("*"))
    for secret in ("sidecar-secret-93", "file-secret-71", "sk-never-seen-58", "host-secret-17"):
        assert secret not in everything, output
    assert "OPEN" not in everything
    assert "socket THERE" not in everything
    kept = set(result["artifacts"])
    assert {"app/out/good", "token"} <= kept
    assert not any("passwd" in path or "huge" in path or "direct" in path for path in kept), kept
    assert all((directory / "artifacts" / path).is_file() for path in kept)
    assert "root:" not in everything
    assert left(client, tmp_path) == NOTHING


@pytest.mark.parametrize("case", ["dies", "unhealthy"])
def test_a_service_that_does_not_come_up_is_an_error_that_says_why(
    tmp_path: Path, client: docker.APIClient, case: str
) -> None:
    test = {"test": ["CMD-SHELL", "echo not yet; exit 1"], "interval": "0.2s", "retries": 2}
    service = {
        "dies": {"image": IMAGE, "command": ["sh", "-c", "echo no disk; exit 7"]},
        "unhealthy": {"image": IMAGE, "command": ["sleep", "1000"], "healthcheck": test},
    }[case]
    task(tmp_path / "tasks" / "down", {"db": service})
    run(tmp_path, "tasks", "--bench-agent=oracle", "--bench-retry-errors=0")
    result = one(tmp_path)
    assert (result["outcome"], result["score"]) == ("error", None)
    assert result["failure"]["class"] == "environment"
    message = result["failure"]["message"]
    expected = {"dies": "db ended with status 7: no disk", "unhealthy": "db is not healthy: not yet"}[case]
    assert expected in message, message
    assert "environment/docker-compose.yaml" in message
    assert left(client, tmp_path) == NOTHING


READY = {
    "image": IMAGE,
    "command": ["sh", "-c", "sleep 2; echo ready > /shared/f"],
    "volumes": ["shared:/shared"],
}
FAILS = {"image": IMAGE, "command": ["sh", "-c", "sleep 2; echo no table; exit 3"]}
AT_ONCE = {"image": IMAGE, "command": ["true"]}
SERVES = {"image": IMAGE, "command": ["sleep", "infinity"]}
HEALTHY = {**SERVES, "command": ["sh", "-c", "sleep 2; echo ready > /shared/f; sleep infinity"], "volumes": ["shared:/shared"],
           "healthcheck": {"test": "test -s /shared/f", "interval": "0.2s", "retries": 100}}  # fmt: skip
ENDED = {"condition": "service_completed_successfully"}
HEALTH_OF, START_OF = {"condition": "service_healthy"}, {"condition": "service_started"}
ORDERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "main-waits-for-its-end": ({"init": ENDED}, {"init": READY}, ""),
    "main-waits-for-its-health": ({"db": HEALTH_OF}, {"db": HEALTHY}, ""),
    "one-that-main-waits-for-waits": ({"web": START_OF}, {"init": READY, "web": {**SERVES, "depends_on": {"init": ENDED}}}, ""),
    "its-end-is-an-error": ({"init": ENDED}, {"init": FAILS}, "init ended with status 3: no table"),
    "ended-at-once": ({"init": ENDED, "ready": ENDED}, {"init": AT_ONCE, "ready": READY}, ""),
    "nobody-waits-for-its-health": ({"ready": ENDED}, {"ready": READY, "once": {**HEALTHY, "command": ["true"]}}, ""),
    "nobody-waits-for-its-end": ({"db": HEALTH_OF}, {"once": AT_ONCE, "db": HEALTHY, "web": {**SERVES, "depends_on": ["once"]}}, ""),
    "ended-in-place-of-being-healthy": ({"db": HEALTH_OF}, {"db": {**HEALTHY, "command": ["true"]}}, "exited (0)"),
    "all-ended": ({}, {"once": AT_ONCE, "ready": READY, "main-waits": {**AT_ONCE, "depends_on": {"ready": ENDED}}}, ""),
    "waits-for-main": ({"ready": ENDED}, {"ready": READY, "late": {**SERVES, "depends_on": {"main": START_OF, "ready": ENDED}}}, ""),
}  # fmt: skip


def test_main_starts_when_what_it_waits_for_is_there_and_what_ends_without_an_error_has_done_its_part(
    tmp_path: Path, client: docker.APIClient
) -> None:
    for name, (waits, services, _) in ORDERS.items():
        main = {"volumes": ["shared:/shared"], "depends_on": waits}
        task(
            tmp_path / "tasks" / name,
            {"main": main, **services},
            top={"volumes": {"shared": {}}},
            solve="cat /shared/f > /app/seen",
            test="grep -x ready /app/seen",
        )
    run(tmp_path, "tasks", "--bench-agent=oracle", "--bench-retry-errors=0", "--bench-concurrency=4")
    found = {one["scenario"]: one for one in results(tmp_path)}
    assert {name: one["outcome"] for name, one in found.items()} == {
        name: "error" if why else "passed" for name, (_, _, why) in ORDERS.items()
    }
    for name, (_, _, why) in ORDERS.items():
        assert why in (found[name]["failure"] or {"message": ""})["message"]
    assert left(client, tmp_path) == NOTHING


def test_a_service_that_dies_while_the_agent_works_is_noted(tmp_path: Path) -> None:
    ends = "echo started > /mark; until test -e /shared/go; do sleep 0.1; done; echo broken; exit 9"
    services = {
        "main": {"depends_on": ["db"], "volumes": ["shared:/shared"]},
        "db": {"image": IMAGE, "command": ["sh", "-c", ends], "volumes": ["shared:/shared"]},
    }
    # A name is gone with its container.
    works = "touch /shared/go; while getent hosts db >/dev/null; do sleep 0.2; done; touch done"
    toml = """\
        artifacts = [{source = "/mark", service = "db"}, {source = "/m*", service = "db", destination = "all"}]
        [[verifier.collect]]
        command = "true"
        service = "db"
        """
    top = {"volumes": {"shared": {}}}
    task(tmp_path / "tasks" / "dies", services, top=top, solve=works, test="[ -e /app/done ]", toml=toml)
    result = solved(tmp_path)
    assert "service db ended with status 9: broken" in result["notes"]
    assert any(note.startswith("collect command of service db failed: true") for note in result["notes"])
    assert any(note.startswith("artifact /m* of service db cannot be fetched") for note in result["notes"])
    assert result["artifacts"] == ["db/mark"]


@pytest.mark.extended
def test_services_may_wait_for_main_and_main_may_have_what_the_file_says(tmp_path: Path) -> None:
    services = {
        "main": {
            "environment": {"GREETING": "hello $$you"},
            "working_dir": "/work",
            "volumes": ["./data:/data", "shared:/shared", {"type": "tmpfs", "target": "/fast"}],
            "tmpfs": ["/scratch"],
            "extra_hosts": ["elsewhere:192.0.2.9"],
            "configs": [{"source": "text", "target": "/etc/text"}],
            "command": ["sh", "-c", "sleep infinity"],
            "ports": ["80:80"],
            "container_name": "the-main",
        },
        "late": {
            "image": IMAGE,
            "depends_on": ["main"],
            "command": ["sh", "-c", "getent hosts main the-main > /shared/seen; sleep infinity"],
            "volumes": ["shared:/shared"],
            "healthcheck": {
                "test": ["CMD", "test", "-s", "/shared/seen"],
                "interval": "0.2s",
                "retries": 100,
            },
        },
    }
    top = {"volumes": {"shared": {}}, "configs": {"text": {"content": "a $$text"}}}
    task(
        tmp_path / "tasks" / "late",
        services,
        top=top,
        environment='network_mode = "no-network"\nmemory_mb = 256\n',
        files={
            "environment/data/in.txt": "here",
            # The task's own workdir wins over none; it is given in task.toml.
            "solution/solve.sh": "#!/bin/bash\nset -e\n[ \"$GREETING\" = 'hello $you' ]\n[ -s /shared/seen ]\n"
            "grep -q main /shared/seen\n[ $(cat /data/in.txt) = here ]\necho more > /data/in.txt\n"
            "[ \"$(cat /etc/text)\" = 'a $text' ]\nmount | grep -q 'on /fast type tmpfs'\n"
            "mount | grep -q 'on /scratch type tmpfs'\ngrep -q elsewhere /etc/hosts\ntouch /app/good\n",
        },
        test="[ -e /app/good ]",
    )
    solved(tmp_path)
    assert (tmp_path / "tasks/late/environment/data/in.txt").read_text() == "here"


class TestVerifiers:
    """Separate containers for grading, with and without services."""

    @pytest.mark.extended
    def test_from_tests_with_services_of_its_own(self, tmp_path: Path, client: docker.APIClient) -> None:
        toml = """\
            artifacts = ["/app/answer", {source = "/state", service = "db"}]
            [verifier]
            environment_mode = "separate"
            [[verifier.collect]]
            command = "echo dumped > /state/dump"
            service = "db"
            """
        verifier = {"judge": {"image": IMAGE, "command": ["perl", "/srv/server.pl"], "healthcheck": HEALTH,
                              "environment": {"VALUE": "42"}, "volumes": ["./server.pl:/srv/server.pl"]}}  # fmt: skip
        services = {"db": {"image": IMAGE, "command": ["sleep", "infinity"], "volumes": ["state:/state"]}}
        task(
            tmp_path / "tasks" / "separate",
            services,
            top={"volumes": {"state": {}}},
            solve="echo 42 > /app/answer; touch /app/hidden",
            toml=toml,
            files={
                "tests/Dockerfile": f"FROM {IMAGE}\nCOPY test.sh /tests/test.sh\n",
                "tests/docker-compose.yaml": json.dumps({"services": verifier}),
                "tests/server.pl": SERVER,
            },
            test=f'[ "$(cat /app/answer)" = "$({ASK % "judge"})" ] && [ ! -e /app/hidden ] && grep -q dumped /state/dump',
        )
        solved(tmp_path)
        assert left(client, tmp_path) == NOTHING

    def test_from_an_image_with_variables_and_limits_of_its_own(self, tmp_path: Path) -> None:
        toml = f"""\
            artifacts = ["/app/answer"]
            [verifier.env]
            WHO = "scorer"
            [verifier.environment]
            docker_image = "{IMAGE}"
            workdir = "/grading"
            network_mode = "no-network"
            [verifier.environment.env]
            COLOUR = "${{COLOUR:-green}}"
            """
        task(
            tmp_path / "tasks" / "image",
            {"db": {"image": IMAGE, "command": ["sleep", "infinity"]}},
            solve="echo fine > /app/answer",
            toml=toml,
            environment='[environment.env]\nONLY_AGENT = "1"',
            test='[ "$COLOUR$WHO$PWD" = greenscorer/grading ] && [ -z "$ONLY_AGENT" ] && grep -q fine /app/answer '
            "&& ! getent hosts db",
        )
        solved(tmp_path)


def test_a_manifest_of_ones_own_may_have_services(tmp_path: Path) -> None:
    (tmp_path / "services.bench.yaml").write_text(
        textwrap.dedent(f"""\
        benchmark: with-services
        defaults: {{compose: services/docker-compose.yaml, image: {IMAGE}, workdir: /app, network: none}}
        scenarios:
          - id: ask
            problem_statement: Ask the service.
            reference: {json.dumps(ASK % "db" + " > answer")}
            scorers: [{{type: bash, script: 'grep -q 42 answer && echo score=1 || echo score=0'}}]
            artifacts: [{{source: /srv/server.pl, service: db}}]
        """)
    )
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "server.pl").write_text(SERVER)
    service = {
        "image": IMAGE, "command": ["perl", "/srv/server.pl"], "environment": ["VALUE=42"], "healthcheck": HEALTH,
        "volumes": ["./server.pl:/srv/server.pl"],
    }  # fmt: skip
    described = json.dumps({"services": {"db": service}})
    (tmp_path / "services" / "docker-compose.yaml").write_text(described)
    run(tmp_path, "services.bench.yaml", "--bench-agent=oracle", "--bench-agent=nop")
    found = {one["agent"]["name"]: (one["outcome"], one["artifacts"]) for one in results(tmp_path)}
    assert found == {"oracle": ("passed", ["db/srv/server.pl"]), "nop": ("failed", ["db/srv/server.pl"])}


def test_a_file_that_only_docker_compose_understands_is_judged_when_its_variables_are_filled_in(
    tmp_path: Path,
) -> None:
    services = {"db": {"image": IMAGE, "volumes": ["${WHERE}:/host"]}}
    for name, where in (
        ("root", "/"),
        ("etc", "../../../../../etc"),
        ("socket", "/var/run/docker.sock"),
        ("unset", None),
    ):
        env = "" if where is None else f'[environment.env]\nWHERE = "{where}"'
        task(tmp_path / "tasks" / name, services, environment=env)
    run(tmp_path, "tasks", "--bench-agent=oracle")
    why = {one["scenario"]: (one["outcome"], one["failure"]["message"]) for one in results(tmp_path)}
    assert {outcome for outcome, _ in why.values()} == {"error"}
    assert "services.db.volumes[0]" in why["root"][1]
    assert "only files below the directory" in why["etc"][1]
    assert "engine's socket" in why["socket"][1]
    assert "WHERE has no value" in why["unset"][1]


def test_variables_have_their_values_whatever_is_in_them(tmp_path: Path) -> None:
    values = [
        "a b", "$HOME", "${V0}", "$$x", '"q"', "it's", "\\n", "two\nlines", "x # y", " pad ", "\t", "é", "", "\\", "'\"$`\\",
    ]  # fmt: skip
    variables = {f"V{number}": value for number, value in enumerate(values)} | {"PATH": "/mine"}
    services = {"db": {"image": "x:${OF_FILE}", "environment": {name: f"${{{name}}}" for name in variables}}}
    (tmp_path / ".env").write_text("V0=of the file\nOF_FILE=1\n")
    (tmp_path / "a.yaml").write_text(json.dumps({"services": services}))
    text = Plugin(tmp_path / "a.yaml", dict).normalise(variables, lambda: None)
    db = read_project(text, tmp_path / "a.yaml").services["db"]
    assert (db["image"], db["environment"]) == ("x:1", variables)


def test_without_docker_compose_the_error_says_what_to_do(tmp_path: Path) -> None:
    task(tmp_path / "tasks" / "web", {"db": {"image": IMAGE}})
    nowhere = {"DOCKER_CONFIG": str(tmp_path), "PATH": "/usr/bin:/bin"}
    if any(Path(place, "docker-compose").exists() for place in ("/usr/bin", *_PLACES)):
        pytest.skip("this machine has Docker Compose for all its users")
    done = run(tmp_path, "tasks", "--bench-agent=oracle", **nowhere)
    result = one(tmp_path)
    assert result["failure"]["class"] == "environment"
    assert "docker-compose-plugin" in result["failure"]["message"]
    assert "environment/docker-compose.yaml" in result["failure"]["message"]
    assert result["tries"] == 1
    assert done.returncode != 0
    collected = run(tmp_path, "tasks", "--collect-only", "-q", "--bench-agent=oracle", **nowhere)
    assert "web" in collected.stdout


_PLACES = tuple(
    f"/usr/{place}/docker/cli-plugins" for place in ("lib", "libexec", "local/lib", "local/libexec")
)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_session_that_is_stopped_or_killed_leaves_nothing(
    tmp_path: Path, client: docker.APIClient, how: signal.Signals
) -> None:
    services = {
        "main": {"depends_on": ["db"], "volumes": ["state:/state"]},
        "db": {"image": IMAGE, "command": ["sleep", "infinity"], "volumes": ["state:/state"]},
    }
    task(tmp_path / "tasks" / "long", services, top={"volumes": {"state": {}}})
    process = start(tmp_path, "tasks", "--bench-agent", "command:sleep 600")
    try:
        until(lambda: in_flight(tmp_path), what="no agent began")
        before = left(client, tmp_path)
        assert [len(found) for found in before.values()] == [2, 1, 1], before
        os.kill(process.pid, how)
        process.communicate(timeout=120)
    finally:
        process.kill()
    if how is signal.SIGKILL:
        # The reaper does it within seconds; what it does not reach is for `gc`.
        until(lambda: left(client, tmp_path)["containers"] == [], what="the reaper removed nothing")
        assert cli("gc", "--dir", tmp_path / "reports") == 0
    until(lambda: left(client, tmp_path) == NOTHING, 60, what=str(left(client, tmp_path)))


# Asks the model, from within the container of the trial.
ASKING = r"""#!/bin/sh
exec perl -MIO::Socket::INET -e '
($host, $path) = $ENV{OPENAI_BASE_URL} =~ m{//([^/]+)(/.*)} or die "no address";
$body = q({"model": "m", "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "please"}]});
$s = IO::Socket::INET->new($host) or die "no door: $@";
print {$s} "POST $path/chat/completions HTTP/1.1\r\nHost: $host\r\nAuthorization: Bearer $ENV{OPENAI_API_KEY}\r\n",
    "Content-Type: application/json\r\nConnection: close\r\nContent-Length: ", length($body), "\r\n\r\n$body";
local $/; $_ = <$s>; die $_ unless / 200 /; open my $f, ">", "/app/asked"; print {$f} "yes"'
"""


@pytest.mark.parametrize("network", ["public", "none"])
def test_the_agent_reaches_its_model_and_services_see_no_key(tmp_path: Path, network: str) -> None:
    service = {
        "image": IMAGE,
        "environment": {"LEAK": "${OPENAI_API_KEY:-none}", "OPENAI_API_KEY": None},
        "command": ["sh", "-c", "env > /seen; sleep infinity"],
        "healthcheck": {"test": ["CMD", "test", "-s", "/seen"], "interval": "0.3s", "retries": 100},
    }
    manifest = {
        "benchmark": "asking",
        "defaults": {"image": IMAGE, "compose": "docker-compose.yaml", "workdir": "/app", "network": network},
        "scenarios": [
            {
                "id": "ask",
                "problem_statement": "Ask.",
                "scorers": [{"type": "command", "command": "grep -q yes asked"}],
                "artifacts": [{"source": "/seen", "service": "db"}],
            }
        ],
    }
    (tmp_path / "asking.bench.yaml").write_text(json.dumps(manifest))
    (tmp_path / "docker-compose.yaml").write_text(json.dumps({"services": {"db": service}}))
    agent = tmp_path / "agent.sh"
    agent.write_text(ASKING)
    agent.chmod(0o755)
    _Judge.keys = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Judge) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}
        done = run(tmp_path, "asking.bench.yaml", "--bench-agent", "bot=./agent.sh:openai/m", **environment)
        server.shutdown()
    result = one(tmp_path)
    assert (result["outcome"], result["score"]) == ("passed", 1.0), (result["failure"], done.stdout)
    assert _Judge.keys == [f"Bearer {KEY}"]
    (seen,) = tmp_path.glob("reports/jobs/*/trials/*/*/*/artifacts/db/seen")
    assert "LEAK=none" in seen.read_text()
    written = [path for path in (tmp_path / "reports").rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]


@pytest.mark.extended
def test_a_command_of_main_runs_beside_the_agent_and_while_it_is_graded(tmp_path: Path) -> None:
    main = {
        "command": ["perl", "/srv/server.pl"],
        "environment": {"VALUE": "served"},
        "volumes": ["./server.pl:/srv/server.pl"],
        "healthcheck": HEALTH,
    }
    ask = ASK % "127.0.0.1"
    task(
        tmp_path / "tasks" / "serves",
        {"main": main, "db": {"image": IMAGE, "command": ["sleep", "infinity"]}},
        solve=f"{ask} > /app/answer; echo $FROM_TASK >> /app/answer",
        test=f'grep -q served /app/answer && grep -q of-the-solution /app/answer && [ "$({ask})" = served ]',
        environment='[solution.env]\nFROM_TASK = "${NOT_SET:-of-the-solution}"',
    )
    solved(tmp_path)


def test_a_link_in_a_shared_volume_leads_no_artifact_onto_this_machine(tmp_path: Path) -> None:
    services = {
        "main": {"volumes": ["shared:/shared"]},
        "db": {"image": IMAGE, "command": ["sleep", "infinity"], "volumes": ["shared:/shared"]},
    }
    (tmp_path / "secret-of-this-machine").write_text("host-secret-44")
    attack = (
        f"ln -s {tmp_path}/secret-of-this-machine /shared/out.txt; ln -s ../../../../../../../etc /shared/up; "
        "mkdir /shared/d; ln -s /proc/1/environ /shared/d/env; mkfifo /shared/pipe; echo fine > /shared/good"
    )
    toml = """\
        artifacts = [{source = "/shared", service = "db"}, {source = "/shared/out.txt", service = "db", destination = "out.txt"},
                     {source = "/shared/*", service = "db", destination = "matched"}]
        """
    task(tmp_path / "tasks" / "links", services, top={"volumes": {"shared": {}}}, toml=toml)
    run(tmp_path, "tasks", "--bench-agent", f"command:{attack}")
    result = one(tmp_path)
    assert result["outcome"] == "passed", result["failure"]
    kept = {path for path in result["artifacts"] if "hosts" not in path}
    assert {"db/shared/good", "matched/good"} <= kept
    artifacts = next(iter(tmp_path.glob("reports/jobs/*/trials/*/*/*/artifacts")))
    assert not [
        path
        for path in artifacts.rglob("*")
        if path.is_symlink() and not path.resolve().is_relative_to(artifacts)
    ]
    assert not [
        path for path in artifacts.rglob("*") if path.is_file() and b"host-secret-44" in path.read_bytes()
    ]
