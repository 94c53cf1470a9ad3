"""What a Harbor task directory means."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.scenario import (
    ArtifactSpec,
    CarriedPath,
    Environment,
    FreshContainer,
    GradeIn,
    HealthCheck,
    McpServer,
    NetworkAccess,
    Reference,
    Scenario,
    ScorerSpec,
)
from pytest_benchjobs.sources.datasets.harbor_tasks import sources
from pytest_benchjobs.sources.harbor import HarborTask, is_task_directory
from pytest_benchjobs.sources.harbor_parts import strip_canary
from pytest_benchjobs.sources.protocol import ScenarioRef

EVERYTHING = """\
schema_version = "1.4"
artifacts = ["/app/out.txt", { source = "/var/log", destination = "logs", exclude = ["*.gz"] }]

[task]
version = "1.2.3"

[metadata]
difficulty = "hard"
category = "games"
tags = ["c", "hard", 7]
author_name = "A"

[agent]
timeout_sec = 900
user = "agent"
network_mode = "no-network"

[verifier]
timeout_sec = 120.5
env = { KEY = "${KEY:-none}" }
user = 0
environment_mode = "shared"
network_mode = "public"

[[verifier.collect]]
command = "dump > /tmp/x"
timeout_sec = 5

[environment]
docker_image = "registry.example/fix-it:1"
build_timeout_sec = 60
cpus = 1.5
memory_mb = 2048
storage_mb = 10240
gpus = 0
workdir = "/app"
env = { A = "b" }
network_mode = "public"

[environment.healthcheck]
command = "true"
interval_sec = 1
retries = 9

[solution.env]
S = "t"
"""
LEGACY = 'version = "1.0"\n[environment]\nmemory = "2G"\nstorage = "512M"\nallow_internet = false\n'


def write(directory: Path, text: str = EVERYTHING, **files: str) -> Path:
    contents = {
        "task.toml": text, "instruction.md": "<!-- canary GUID 1-2 -->\n\nFix it.\n",
        "environment/Dockerfile": "FROM x\n", "tests/test.sh": "", "solution/solve.sh": "", **files,
    }  # fmt: skip
    for name, content in contents.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(content)
    return directory


def test_every_key_reaches_the_scenario(tmp_path: Path) -> None:
    task = write(tmp_path / "games" / "fix-it")
    source = HarborTask(task)
    assert source.refs() == [ScenarioRef("fix-it", ("c", "hard", "games"), 1, scorers=("harbor",))]
    assert source.warnings == ()
    assert source.load("fix-it") == Scenario(
        id="fix-it",
        benchmark="games",
        benchmark_version="1.2.3",
        problem_statement="Fix it.\n",
        tags=("c", "hard", "games"),
        metadata={"difficulty": "hard", "category": "games", "tags": ["c", "hard", 7], "author_name": "A"},
        environment=Environment(
            image="registry.example/fix-it:1", dockerfile=task / "environment/Dockerfile",
            context=task / "environment", build_timeout=60, cpus=1.5, memory=2 << 30, storage=10 << 30,
            workdir="/app", env={"A": "b"}, keep_entrypoint=True,
            healthcheck=HealthCheck(command="true", interval=1, retries=9), skills_if_there="/harbor/skills",
        ),
        reference=Reference(solution=task / "solution", env={"S": "t"}),
        agent_timeout=900,
        agent_user="agent",
        agent_network="none",
        scorers=(
            ScorerSpec(
                name="reward",
                type="harbor",
                path=task / "tests",
                timeout=120.5,
                user="0",
                env={"KEY": "${KEY:-none}"},
                network="public",
                params={"collect": [{"command": "dump > /tmp/x", "timeout_sec": 5.0, "user": None}]},
            ),
        ),
        artifacts=(
            ArtifactSpec(source="/app/out.txt"),
            ArtifactSpec(source="/var/log", destination="logs", exclude=("*.gz",)),
        ),
        grade_in=GradeIn.AGENT_CONTAINER,
        fresh_container=None,
        source=task,
        line=1,
    )  # fmt: skip


@pytest.mark.parametrize("equal", ["", 'memory_mb = 2048\nnetwork_mode = "no-network"\n'])
def test_old_tasks_are_read_with_the_keys_of_their_time(equal: str, tmp_path: Path) -> None:
    task = write(tmp_path / "t", LEGACY + equal)
    (task / "solution" / "solve.sh").unlink()
    (task / "solution").rmdir()
    source = HarborTask(task, benchmark="old")
    assert source.refs() == [ScenarioRef("t", (), 1, scorers=("harbor",))]
    assert source.warnings == ()
    scenario = source.load("t")
    assert scenario.environment == Environment(
        dockerfile=task / "environment/Dockerfile", context=task / "environment", memory=2 << 30,
        storage=512 << 20, network="none", keep_entrypoint=True,
        skills_if_there="/harbor/skills",
    )  # fmt: skip
    assert (scenario.benchmark, scenario.agent_timeout, scenario.reference) == ("old", None, None)
    assert scenario.scorers[0].timeout == 600


def test_an_empty_task_file_is_a_task_of_defaults(tmp_path: Path) -> None:
    assert HarborTask(write(tmp_path / "t", "")).refs() == [ScenarioRef("t", (), 1, scorers=("harbor",))]


def test_odd_things_warn_with_a_line(tmp_path: Path) -> None:
    task = write(tmp_path / "my task!", 'schema_version = "9"\n[agent]\ntimeout_sce = 5\n[agent2]\n')
    (task / "solution" / "solve.sh").unlink()
    source = HarborTask(task)
    assert [ref.id for ref in source.refs()] == ["my-task-425f0f52"]
    assert sorted(str(warning).removeprefix(f"{task}") for warning in source.warnings) == [
        "/task.toml: solution: solution/ has no solve.sh: the oracle cannot solve this task",
        "/task.toml:1: schema_version: '9' is not a known version of the format (1.0 to 1.4); read as 1.4",
        "/task.toml:3: agent.timeout_sce: unknown key, ignored. did you mean 'timeout_sec'?",
        "/task.toml:4: agent2: unknown key, ignored. did you mean 'agent'?",
        ": the directory name is not a scenario id (letters, digits, . _ + = -); 'my-task-425f0f52' is used",
    ]
    assert source.load("my-task-425f0f52").id == "my-task-425f0f52"
    alone = HarborTask(write(tmp_path / "alone", 'multi_step_reward_strategy = "mean"\n'))
    assert [ref.id for ref in alone.refs()] == ["alone"]
    (warning,) = alone.warnings
    assert warning.message == "multi_step_reward_strategy: has no effect without steps"


def test_different_directories_have_different_ids_that_stay(tmp_path: Path) -> None:
    names = ["has space", "has-space", "has  space", "has_space", "Übung", "bung", "日本語", "日本", "a b", "a-b",
             "-x", "x", ".x-", "x-", "x" * 201, "x" * 202, "ü-1", "é", "é!", "Hello", "hello", "a'b", "…a"]  # fmt: skip
    ids = {name: HarborTask(write(tmp_path / name, "")).refs()[0].id for name in names}
    assert len(set(ids.values())) == len(names), ids
    for name in ("has-space", "bung", "Übung", "日本語", "Hello", "é", "ü-1", "x-"):
        assert ids[name] == name
    assert ids["has space"] == "has-space-47b5c36f"
    # As some file systems write the same letter.
    decomposed = HarborTask(write(tmp_path / "other" / "U\u0308bung", ""))
    assert [ref.id for ref in decomposed.refs()] == ["Übung"]
    for bad in ("---", "…", " "):
        with pytest.raises(InputError, match="must have a letter or digit"):
            HarborTask(write(tmp_path / bad, "")).refs()


def test_an_unwanted_task_is_not_read(tmp_path: Path) -> None:
    task = write(tmp_path / "t", "this is not TOML")
    assert HarborTask(task).refs(lambda name: name != "t") == []
    with pytest.raises(InputError, match="no scenario 'u' here, only 't'"):
        HarborTask(task).load("u")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"task.toml": '[project]\nname = "x"\n'}, False),
        ({"task.toml": '[project]\nname = "x"\n', "environment/x": ""}, False),
        ({"task.toml": 'version = "1"\n[environment]\nA = "b"\n'}, False),
        ({"task.toml": "not TOML"}, False),
        ({"instruction.md": "x", "environment/x": ""}, False),
        ({"task.toml": "not TOML", "environment/x": ""}, True),
        ({"task.toml": "[agent]\n", "environment/x": ""}, True),
        ({"task.toml": "", "instruction.md": "x"}, True),
        ({"task.toml": "", "environment/x": "", "steps/a/instruction.md": ""}, True),
        ({"task.toml": 'version = "1.0"\n[agent]\n[verifier]\n'}, True),
    ],
)
def test_a_task_file_of_another_tool_is_left_alone(
    files: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert is_task_directory(tmp_path) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Do it.\n# canary\n", "Do it.\n# canary\n"),
        ("# BENCHMARK DATA ... canary GUID 1\n# harbor-canary GUID 2\n\nDo it.\n", "Do it.\n"),
        ("# A title\n\nDo it.\n", "# A title\n\nDo it.\n"),
        ("\nDo it.\n", "\nDo it.\n"),
        ("<!-- canary -->", ""),
    ],
)
def test_only_canaries_at_the_top_are_stripped(text: str, expected: str) -> None:
    assert strip_canary(text) == expected


def test_an_instruction_of_nothing_but_a_canary_is_an_error(tmp_path: Path) -> None:
    task = write(tmp_path / "t", "", **{"instruction.md": "<!-- canary -->\n"})
    with pytest.raises(InputError, match=r"instruction\.md: is empty"):
        HarborTask(task).load("t")


SEPARATE = 'artifacts = ["out.txt", {source = "/data", exclude = ["*.tmp"]}]\n[environment]\ndocker_image = "agent:1"\n'
CARRIED = (
    CarriedPath(source="out.txt"),
    CarriedPath(source="/data", exclude=("*.tmp",)),
    CarriedPath(source="/logs/artifacts"),
)


def load(directory: Path, text: str, **files: str) -> Scenario:
    return HarborTask(write(directory / "t", text, **files)).load("t")


def test_a_separate_verifier_gets_the_artifacts_in_a_container_made_like_the_agents(tmp_path: Path) -> None:
    scenario = load(tmp_path, SEPARATE + '[verifier]\nenvironment_mode = "separate"\n')
    assert scenario.fresh_container == FreshContainer(paths=CARRIED)
    assert scenario.scorers[0].path == tmp_path / "t/tests"


def test_a_separate_verifier_may_be_built_from_the_tests_which_are_in_its_image_then(tmp_path: Path) -> None:
    text = SEPARATE + '[verifier.environment]\nnetwork_mode = "no-network"\nmemory_mb = 64\n'
    scenario = load(tmp_path, text, **{"tests/Dockerfile": "FROM y\n"})
    tests = tmp_path / "t/tests"
    environment = Environment(
        dockerfile=tests / "Dockerfile", context=tests, network="none", memory=64 << 20, keep_entrypoint=True
    )
    assert scenario.fresh_container == FreshContainer(paths=CARRIED, environment=environment)
    assert scenario.scorers[0].path is None
    assert scenario.scorers[0].network == "none"


def test_an_image_of_the_verifier_may_bring_the_tests_along(tmp_path: Path) -> None:
    text = SEPARATE + '[verifier.environment]\ndocker_image = "judge:2"\n'
    assert load(tmp_path, text).scorers[0].path == tmp_path / "t/tests"
    (tmp_path / "t/tests/test.sh").unlink()
    scenario = HarborTask(tmp_path / "t").load("t")
    assert (scenario.scorers[0].path, scenario.environments[1].image) == (None, "judge:2")


def test_limits_of_a_verifier_hold_in_the_image_of_the_agent_where_it_names_none(tmp_path: Path) -> None:
    text = SEPARATE + '[verifier.environment]\nmemory_mb = 64\nenv = { A = "b" }\n'
    fresh = load(tmp_path, text).environments[1]
    assert (fresh.image, fresh.memory, fresh.env) == ("agent:1", 64 << 20, {"A": "b"})


def test_scripts_with_the_line_ends_of_windows_are_warned_of(tmp_path: Path) -> None:
    task = write(tmp_path / "t")
    (task / "tests" / "test.sh").write_bytes(b"#!/bin/bash\r\necho\r\n")
    (task / "solution" / "solve.sh").write_bytes(b"#!/bin/bash\r\n")
    source = HarborTask(task)
    source.refs()
    named = [warning.message.partition(" has")[0] for warning in source.warnings]
    assert named == ["tests/test.sh", "solution/solve.sh"]
    assert all("CRLF" in warning.message for warning in source.warnings)


def test_an_allowlist_is_that_of_its_phase(tmp_path: Path) -> None:
    listed = 'network_mode = "allowlist"\nallowed_hosts = ["{0}.org", "10.0.0.0/8"]\n'
    text = "".join(f"[{name}]\n" + listed.format(name[0]) for name in ("environment", "agent", "verifier"))
    scenario = load(tmp_path, text)
    environment, (scorer,) = scenario.environment, scenario.scorers
    assert environment.access() == NetworkAccess(network="allowlist", allowed_hosts=("e.org", "10.0.0.0/8"))
    assert scenario.agent_allowed_hosts == ("a.org", "10.0.0.0/8")
    assert scorer.allowed_hosts == ("v.org", "10.0.0.0/8")
    agent = environment.access(scenario.agent_network, scenario.agent_allowed_hosts)
    assert agent.allowed_hosts == ("a.org", "10.0.0.0/8")


def test_an_allowlist_without_hosts_permits_nothing(tmp_path: Path) -> None:
    text = '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["e.org"]\n[agent]\nnetwork_mode = "allowlist"\n'
    scenario = load(tmp_path, text)
    agent = scenario.environment.access(scenario.agent_network, scenario.agent_allowed_hosts)
    assert agent == NetworkAccess(network="allowlist")
    scorer = scenario.environment.access()
    assert scorer == NetworkAccess(network="allowlist", allowed_hosts=("e.org",))
    assert "allowlist" in scenario.networks(scenario.environment)


def test_a_separate_verifier_has_the_list_of_its_container(tmp_path: Path) -> None:
    text = (
        '[environment]\nnetwork_mode = "no-network"\n'
        '[verifier.environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["v.org"]\n'
    )
    scenario = load(tmp_path, text)
    (scorer,), fresh = scenario.scorers, scenario.environments[1]
    access = fresh.access(scorer.network, scorer.allowed_hosts)
    assert access == NetworkAccess(network="allowlist", allowed_hosts=("v.org",))


def test_servers_and_skills_reach_the_scenario(tmp_path: Path) -> None:
    server = "[[environment.mcp_servers]]\n"
    text = (
        '[environment]\nskills_dir = "/skills"\n'
        f'{server}name = "old"\nurl = "http://a:1/sse"\n'
        f'{server}name = "new"\ntransport = "streamable-http"\nurl = "http://a:1/mcp"\n'
        f'{server}name = "same"\ntransport = "http"\nurl = "http://a:1/mcp"\n'
        f'{server}name = "own"\ntransport = "stdio"\ncommand = "serve"\nargs = ["-v"]\n'
    )
    environment = load(tmp_path, text).environment
    assert environment.skills_dir == "/skills"
    assert environment.mcp_servers == (
        McpServer(name="old", transport="sse", url="http://a:1/sse"),
        McpServer(name="new", transport="http", url="http://a:1/mcp"),
        McpServer(name="same", transport="http", url="http://a:1/mcp"),
        McpServer(name="own", transport="stdio", command="serve", args=("-v",)),
    )


def test_a_verifier_has_no_use_for_servers_and_skills(tmp_path: Path) -> None:
    text = (
        '[verifier.environment]\nskills_dir = "/s"\n'
        '[[verifier.environment.mcp_servers]]\nname = "m"\nurl = "http://a/"\n'
    )
    source = HarborTask(write(tmp_path / "t", text))
    source.refs()
    named = [warning.message.split(": ")[0] for warning in source.warnings]
    assert named == ["verifier.environment.mcp_servers", "verifier.environment.skills_dir"]


def test_tasks_of_a_benchmark_are_up_to_four_directories_deep(tmp_path: Path) -> None:
    for place in ("one", "a/b/c/two", "a/b/c/d/three", ".git/four"):
        (tmp_path / place).mkdir(parents=True)
        for name in ("task.toml", "instruction.md"):
            (tmp_path / place / name).touch()
    entry: Any = SimpleNamespace(name="theirs", version="1")
    assert [task.path.name for task in sources(entry, tmp_path)] == ["two", "one"]
