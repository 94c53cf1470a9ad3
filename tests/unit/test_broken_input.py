"""Broken manifests and task directories: one clear message each, with file and line, and never a traceback."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import InputError, InputErrors
from pytest_benchjobs.sources.harbor import HarborTask
from pytest_benchjobs.sources.manifest import Manifest

from .examples import at_most

pytestmark = pytest.mark.when_changed

GOOD = """\
benchmark: b
defaults:
  image: debian
  workdir: /app
scenarios:
  - id: one
    problem_statement: Do it.
    scorers:
      - {name: s, type: bash, script: echo 1}
"""


class Broken(NamedTuple):
    name: str
    text: str | bytes
    line: int | None
    says: tuple[str, ...]
    """Parts of the one message."""


def _changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def _added(line: str) -> str:
    """A key added to the scenario, in line 10."""
    return f"{GOOD}    {line}\n"


SCORER = "{name: s, type: bash, script: echo 1}"

ANSWERED = _changed(SCORER, "{name: a, type: answer, params: {match: exact, expected: x}}")

MANIFESTS = [
    Broken("empty", "", None, ("is empty; see docs/manifest.md ",)),
    Broken("only a comment", "# nothing\n", None, ("is empty",)),
    Broken("a list", "- a\n- b\n", 1, ("a table of keys", "not a list")),
    Broken("a word", "benchmark\n", 1, ("a table of keys", "not a single value")),
    Broken("not UTF-8", b"benchmark: b\nversion: caf\xe9\n", 2, ("is not UTF-8",)),
    Broken("UTF-16", GOOD.encode("utf-16"), 1, ("is not UTF-8",)),
    Broken("a control character", GOOD + "# \x01\n", 10, ("not valid YAML", "not allowed")),
    Broken("a tab", "benchmark: b\nscenarios:\n\t- id: one\n", 3, ("not valid YAML", "indent with spaces")),
    Broken("an open bracket", "benchmark: [b\n", 2, ("not valid YAML",)),
    Broken("a colon in text", _changed("Do it.", "Do: it."), 7, ("not valid YAML", "in quotes")),
    Broken("two documents", GOOD + "---\n" + GOOD, 10, ("more than one document",)),
    Broken("a Python object", _changed("Do it.", "!!python/object/apply:os.getcwd []"), 7, ("tag", "not supported")),
    Broken("a tag of nobody", _changed("Do it.", "!mine x"), 7, ("tag '!mine'", "not supported", "remove it")),
    Broken("a key twice", GOOD + "benchmark: c\n", 10, ("'benchmark'", "given twice", "line 1")),
    Broken("a scenario's key twice", _added("problem_statement: Again."), 10, ("given twice", "line 7")),
    Broken("an alias of nothing", _changed("Do it.", "*nobody"), 7, ("*nobody",)),
    Broken("NaN", _added("cpus: .nan"), 10, ("NaN",)),
    Broken("infinity", _added("agent_timeout: .inf"), 10, ("infinity",)),
    Broken("a huge number", _added("pids: " + "9" * 5000), 10, ("too large",)),
    Broken("deeply nested", _added("metadata: {a: " + "[" * 200 + "]" * 200 + "}"), 10, ("nested too deeply",)),
    Broken("a key read as a boolean", _added("env: {on: x}"), 10, ("'on'", "true", "quotes")),
    Broken("a key that is a number", _added("env: {1: x}"), 10, ("'1'", "number 1", "quotes")),
    Broken("no benchmark", _changed("benchmark: b\n", ""), None, ("benchmark: is required",)),
    Broken("a version that is a number", "version: 1.0\n" + GOOD, 1, ("version", "text", "1.0", "quotes")),
    Broken("no scenarios", "benchmark: b\n", None, ("scenarios", "required")),
    Broken("misspelt scenarios", _changed("scenarios:", "scenarois:"), 5, ("scenarois: unknown key; did you mean 'scenarios'?",)),
    Broken("scenarios not a list", "benchmark: b\nscenarios: {id: one}\n", 2, ("scenarios: must be a list",)),
    Broken("an empty list of scenarios", "benchmark: b\nscenarios: []\n", 2, ("at least one scenario",)),
    Broken("a scenario that is text", GOOD + "  - two\n", 10, ("scenarios[1]", "table of keys")),
    Broken("a fresh container of nothing", _added("fresh_container: {}"), 10, ("fresh_container", "neither is given")),
    Broken("a fresh container of both", _added("fresh_container: {paths: [x], patch: true}"), 10, ("paths: [PATH, ...] or patch: true", "both are given")),
    Broken("a fresh container with all of the root", _added("fresh_container: {patch: true}\n    workdir: /"), 10, ("needs a workdir other than /",)),
    Broken("paths with what is ignored", _added("fresh_container: {paths: [x], ignored: false}"), 10, ("no effect without patch: true",)),
    Broken("services that are not there", _added("compose: gone.yaml"), 10, ("compose", "gone.yaml")),
    Broken("a carried path of above", _added("fresh_container: {paths: [../x]}"), 10, ("'..' is not allowed",)),
    Broken("processes in a fresh container", _added("keep_processes: true\n    fresh_container: {paths: [x]}"), 10, ("keep_processes", "processes are not copied")),
    Broken("feedback where the tests would be seen", _added('grade_in: agent_container\n    feedback: {statement: "{output}"}'), 11, ("feedback", "needs grade_in: fresh")),
    Broken("two places", _added("grade_in: fresh\n    keep_processes: true"), 11, ("keep_processes", "contradicts grade_in: fresh")),
    Broken("a fresh container in place", _added("grade_in: agent_container\n    fresh_container: {paths: [x]}"), 11, ("fresh_container", "has no effect in the agent's container")),
    Broken("carried paths in two lists", _added("carry: [/x]\n    fresh_container: {paths: [x]}"), 10, ("carry", "add it to its paths")),
    Broken("carried from above", _added("carry: [../x]"), 10, ("carry", "'..' is not allowed")),
    Broken("a carried container", _added("workdir: /"), 10, ("workdir", "is the whole container")),
    Broken("feedback of no scorer", _added('fresh_container: {paths: [x]}\n    feedback: {statement: x, scorer: other}'), 11, ("no scorer 'other'",)),
    Broken("feedback by no pattern", _added('fresh_container: {paths: [x]}\n    feedback: {statement: x, replace: {"(": ""}}'), 11, ("is not a valid regular expression",)),
    Broken("a contract in a fresh container", _added("grading: contract\n    fresh_container: {paths: [x]}"), 10, ("grading", "processes are not copied")),
    Broken("a relative path of programs", _added("keep_changes: [usr/bin/x]"), 10, ("must be an absolute path",)),
    Broken("no id", _changed("id: one", "image: x"), 6, ("scenarios[0].id", "required")),
    Broken("an id YAML reads as no", _changed("id: one", "id: no"), 6, ("scenarios[0].id", "false", "quotes")),
    Broken("an id that is a number", _changed("id: one", "id: 7"), 6, ("id", "7", "quotes")),
    Broken("an id with a space", _changed("id: one", "id: one two"), 6, ("'one two'", "is not a name")),
    Broken("an id of another place", _changed("id: one", "id: ../etc"), 6, ("'../etc'", "is not a name")),
    Broken("an id taken", GOOD + GOOD[GOOD.index("  - id") :], 10, ("'one' is already the id", "line 6")),
    Broken("no problem", _changed("problem_statement: Do it.", "tags: [a]"), 6, ("problem_statement", "required")),
    Broken("an empty problem", _changed("Do it.", '"  "'), 7, ("problem_statement", "is empty")),
    Broken("two problems", _added("problem_file: good.bench.yaml"), 10, ("problem_file", "not both")),
    Broken("a problem file that is not there", _changed("problem_statement: Do it.", "problem_file: p.md"), 7, ("no file 'p.md'",)),
    Broken("no image", _changed("  image: debian\n", ""), 5, ("so is dockerfile",)),
    Broken("no Dockerfile", _added("dockerfile: env/Dockerfile"), 10, ("dockerfile", "no file 'env/Dockerfile'")),
    Broken("a default that is wrong", _changed("workdir: /app", "workdir: app"), 4, ("defaults.workdir", "'/app'")),
    Broken("a default path that is not there", _changed("workdir: /app", "files: {a: b}"), 4, ("defaults.files.a", "'b'")),
    Broken("an unknown key of a metric", _changed("script: echo 1", "script: echo 1, metrics: {seconds: {wieght: 2}}"), 9, ("scorers[0].metrics.seconds.wieght: unknown key; did you mean 'weight'?",)),
    Broken("an unknown key of a check alone", _changed("problem_statement: Do it.", "turns: [{message: Hi, expect: {contains: a, contians: x}}]"), 7, ("turns[0].expect.contians: unknown key; did you mean 'contains'?",)),
    Broken("a value of 100,000 characters", _added(f"files: {{x: {'y' * 100_000}}}"), 10, ("files.x", "yyy...yyy")),
    Broken("orders to a terminal", _added('files: {x: "\\u202e\\x9b31m"}'), 10, ("files.x", r"\u202e\x9b31m")),
    Broken("an unknown network", _added("network: pubic"), 10, ("'pubic'", "public, none, allowlist", "did you mean 'public'?")),
    Broken("an allowlist of nothing", _added("network: allowlist"), 10, ("network", "allowed_hosts")),
    Broken("hosts without an allowlist", _added("allowed_hosts: [a.org]"), 10, ("allowed_hosts", "no effect")),
    Broken("an empty list of the agent", _added("agent_network: allowlist\n    agent_allowed_hosts: []"), 11, ("agent_allowed_hosts", "is empty")),
    Broken("hosts of the agent without an allowlist", _added("agent_allowed_hosts: [a.org]"), 10, ("agent_allowed_hosts", "no effect")),
    Broken("a tool of a provider with its version", _added("provider_tools: [web-search]"), 10, ("provider_tools", "web-search")),
    Broken("an agent's allowlist of nothing", _added("agent_network: allowlist"), 10, ("agent_network", "allowed_hosts")),
    Broken("an MCP server without anything", _added("mcp_servers: [{name: m}]"), 10, ("mcp_servers[0]", "url: is required but missing for the transport 'streamable-http'")),
    Broken("an MCP server of two kinds", _added("mcp_servers: [{name: m, command: a, url: 'http://a/'}]"), 10, ("mcp_servers[0]", "has both command and url")),
    Broken("arguments of nothing", _added("mcp_servers: [{name: m, args: [a], url: 'http://a/'}]"), 10, ("mcp_servers[0]", "args: have no effect")),
    Broken("an MCP server with a point", _added("mcp_servers: [{name: a.b, command: a}]"), 10, ("mcp_servers[0].name",)),
    Broken("skills at a relative path", _added("skills_dir: skills"), 10, ("skills_dir", "'/skills'")),
    Broken("a URL as host", _added("allowed_hosts: ['https://a.org']"), 10, ("allowed_hosts[0]", "is not a host")),
    Broken("a size of nonsense", _added("memory: lots"), 10, ("memory", "'lots'", "512M")),
    Broken("more memory than the limit", _added("memory: {request: 2G, limit: 1G}"), 10, ("memory.request", "more than the limit")),
    Broken("processors of nonsense", _added("cpus: many"), 10, ("cpus: a number is expected", "'many'")),
    Broken("no processors", _added("cpus: {request: 0, limit: 1}"), 10, ("cpus.request", "greater than 0")),
    Broken("one number of two", _added("cpus: {request: 1}"), 10, ("cpus", "limit", "required")),
    Broken("a guarantee of nonsense", _added("memory: {request: lots, limit: 1G}"), 10, ("memory.request", "'lots'")),
    Broken("a negative timeout", _added("agent_timeout: -1"), 10, ("agent_timeout", "greater than 0", "-1")),
    Broken("a timeout in quotes", _added('agent_timeout: "300"'), 10, ("agent_timeout", "number", "remove the quotes")),
    Broken("tags in a text", _added("tags: easy"), 10, ("tags", "a list", "write [easy]")),
    Broken("a number in env", _added("env: {PORT: 80}"), 10, ("env.PORT", "text", "80", "quotes")),
    Broken("an impossible variable", _added("env: {a-b: x}"), 10, ("env.a-b", "environment variable")),
    Broken("no scorers", GOOD[: GOOD.index("    scorers")], 6, ("scorers", "required")),
    Broken("an empty list of scorers", _changed("scorers:\n      - " + SCORER, "scorers: []"), 8, ("scorers", "at least one")),
    Broken("two scorers and a name", _changed(SCORER, f"{SCORER}\n      - {SCORER.replace('name: s, ', '')}"), 10, ("scorers[1].name", "required")),
    Broken("a scorer without a script", _changed(", script: echo 1", ""), 9, ("scorers[0].script", "'bash'")),
    Broken("tests without a path", _changed("bash, script: echo 1", "tests"), 9, ("scorers[0].path", "'tests'")),
    Broken("tests that are not there", _changed("bash, script: echo 1", "tests, path: t/"), 9, ("scorers[0].path", "'t/'")),
    Broken("a weight of 0", _changed("type: bash", "weight: 0, type: bash"), 9, ("scorers[0].weight", "greater than 0")),
    Broken("two scorers of one name", _changed(SCORER, f"{SCORER}\n      - {SCORER}"), 10, ("scorers[1].name", "another scorer")),
    Broken("a reference of nothing", _added("reference: {}"), 10, ("reference", "script, patch, file and files")),
    Broken("a patch that is not there", _added("reference: {patch: gold.patch}"), 10, ("reference.patch", "'gold.patch'")),
    Broken("a file from outside", _added("files: {../x: good.bench.yaml}"), 10, ("files", "'..'")),
    Broken("an artifact to outside", _added("artifacts: [{source: a, destination: ../b}]"), 10, ("artifacts[0].destination",)),
    Broken("a key inside and outside of environment", _added("environment: {image: a}") + "    image: b\n", 10, ("image", "outside")),
    Broken("an answer that is missing", ANSWERED, 9, ("scorers[0]: answer: is required but missing for a scorer of type 'answer'",)),
    Broken("an answer and a reference", f"{ANSWERED}    answer: {{reference: a}}\n    reference: b\n", 10, ("answer.reference: give it or the scenario's reference, not both",)),
    Broken("an answer above", f"{ANSWERED}    answer: {{file: ../x}}\n", 10, ("answer.file: '..' is not allowed in a path in the container",)),
    Broken("an answer that is a number", f"{ANSWERED}    answer: {{reference: 42}}\n", 10, ("answer.reference: text is expected, not 42",)),
    Broken("an environment that is text", _added("environment: debian"), 10, ("environment", "table")),
]  # fmt: skip

TASK = """\
version = "1.0"
[metadata]
difficulty = "easy"
[verifier]
timeout_sec = 60.0
[agent]
timeout_sec = 60.0
[environment]
cpus = 1
memory = "2G"
"""


def _task(old: str, new: str) -> str:
    assert old in TASK
    return TASK.replace(old, new)


TASKS = [
    Broken("not TOML", TASK + "cpus\n", 11, ("not valid TOML",)),
    Broken("an unclosed text", TASK + 'env = { A = "x }\n', 11, ("not valid TOML",)),
    Broken("a key twice", TASK + "cpus = 2\n", 11, ("not valid TOML",)),
    Broken("not UTF-8", TASK.encode() + b"# \xff\n", 11, ("is not UTF-8",)),
    Broken("a version that is a number", _task('"1.0"', "1.0"), 1, ("version", "text", "quotes")),
    Broken("a timeout of text", _task("[agent]\ntimeout_sec = 60.0", "[agent]\ntimeout_sec = '60'"), 7, ("agent.timeout_sec", "a number")),
    Broken("no time to verify", _task("[verifier]\ntimeout_sec = 60.0", "[verifier]\ntimeout_sec = 0"), 5, ("verifier.timeout_sec", "greater than 0")),
    Broken("NaN", _task("[verifier]\ntimeout_sec = 60.0", "[verifier]\ntimeout_sec = nan"), 5, ("NaN",)),
    Broken("a section that is no table", _task("[metadata]\ndifficulty", "metadata"), 2, ("metadata", "table")),
    Broken("a memory of nonsense", _task('"2G"', '"two"'), 10, ("environment.memory", "'two'")),
    Broken("a memory without a unit", _task('"2G"', "2048"), 10, ("environment.memory", "'2G'", "_mb")),
    Broken("two memories", TASK + "memory_mb = 4096\n", 10, ("environment.memory", "contradicts memory_mb")),
    Broken("an unknown network", TASK + 'network_mode = "no-netwrok"\n', 11, ("environment.network_mode", "did you mean 'no-network'?")),
    Broken("internet and none", TASK + 'allow_internet = true\nnetwork_mode = "no-network"\n', 11, ("allow_internet", "contradicts network_mode")),
    Broken("a URL in an allowlist", TASK + 'network_mode = "allowlist"\nallowed_hosts = ["https://a.org"]\n', 12, ("environment.allowed_hosts[0]", "is not a host")),
    Broken("a step of a long name", TASK + f'[[steps]]\nname = "{"n" * 300}"\n', 12, ("is no name of a directory",)),
    Broken("steps", TASK + '[[steps]]\nname = "a"\n', 11, ("steps/a/instruction.md is missing",)),
    Broken("a verifier of both kinds", _task("[verifier]\n", '[verifier]\nenvironment_mode = "shared"\n') + '[verifier.environment]\ndocker_image = "x"\n', 5, ("'shared' contradicts [verifier.environment]",)),
    Broken("a verifier with a GPU", TASK + '[verifier.environment]\ndocker_image = "x"\ngpus = 1\n', 13, ("GPUs are not supported yet",)),
    Broken("a verifier with a port in its allowlist", _task("[verifier]\n", '[verifier]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.org:80"]\n'), 6, ("verifier.allowed_hosts[0]", "has a port")),
    Broken("a verifier of two memories", TASK + '[verifier.environment]\nmemory = "2G"\nmemory_mb = 1\n', 12, ("contradicts memory_mb",)),
    Broken("an MCP server nowhere", TASK + '[[environment.mcp_servers]]\nname = "m"\n', 11, ("environment.mcp_servers[0]", "url: is required but missing for the transport 'sse'")),
    Broken("an MCP server with a path", TASK + '[[environment.mcp_servers]]\nname = "m"\nurl = "/x"\n', 11, ("mcp_servers[0]", "'/x' is not a URL")),
    Broken("an MCP server without a command", TASK + '[[environment.mcp_servers]]\nname = "m"\ntransport = "stdio"\n', 11, ("mcp_servers[0]", "command: is required")),
    Broken("two MCP servers of one name", TASK + '[[environment.mcp_servers]]\nname = "m"\nurl = "http://a/"\n[[environment.mcp_servers]]\nname = "m"\nurl = "http://a/"\n', 14, ("mcp_servers[1]", "already the name")),
    Broken("an unknown transport", TASK + '[[environment.mcp_servers]]\nname = "m"\ntransport = "htp"\n', 13, ("mcp_servers[0].transport", "did you mean 'http'?")),
    Broken("a side-car's artifact", 'artifacts = [\n  "a",\n  { source = "b", service = "db" },\n]\n' + TASK, 3, ("artifacts[1].service", "no service 'db'")),
    Broken("an artifact of outside", 'artifacts = ["../a"]\n' + TASK, 1, ("artifacts[0].source", "'..'")),
    Broken("an impossible variable", TASK + '[solution.env]\n"a b" = "x"\n', 12, ("solution.env.a b", "environment variable")),
    Broken("a workdir that is relative", TASK + 'workdir = "app"\n', 11, ("environment.workdir", "'/app'")),
    Broken("no retries", TASK + '[environment.healthcheck]\ncommand = "true"\nretries = 0\n', 13, ("retries", "at least 1")),
]  # fmt: skip


def write_task(directory: Path, text: str | bytes = TASK, *, without: str | None = None) -> Path:
    files: dict[str, str | bytes] = {
        "task.toml": text,
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": "FROM debian\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "true\n",
    }
    for name, content in files.items():
        if name != without:
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


def only_error(source: Manifest | HarborTask) -> InputError:
    with pytest.raises(InputError) as raised:
        source.refs()
    error = raised.value
    if isinstance(error, InputErrors):
        assert len(error.errors) == 1, str(error)
        error = error.errors[0]
    return error


@pytest.mark.parametrize("broken", MANIFESTS, ids=lambda broken: broken.name)
def test_a_broken_manifest_gets_one_message_with_file_and_line(broken: Broken, tmp_path: Path) -> None:
    path = tmp_path / "b.bench.yaml"
    path.write_bytes(broken.text if isinstance(broken.text, bytes) else broken.text.encode())
    (tmp_path / "good.bench.yaml").write_text(GOOD)
    error = only_error(Manifest(path))
    assert [part for part in broken.says if part not in error.message] == [], error.message
    assert len(error.message) <= 1000
    assert (error.path, error.line) == (path, broken.line), error.message
    assert "\n" not in error.message


@pytest.mark.parametrize("broken", TASKS, ids=lambda broken: broken.name)
def test_a_broken_task_file_gets_one_message_with_file_and_line(broken: Broken, tmp_path: Path) -> None:
    task = write_task(tmp_path / "t", broken.text)
    error = only_error(HarborTask(task))
    assert [part for part in broken.says if part not in error.message] == [], error.message
    assert (error.path, error.line) == (task / "task.toml", broken.line), error.message


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("instruction.md", "instruction.md is missing"),
        ("tests/test.sh", "tests/test.sh is missing"),
        ("environment/Dockerfile", "environment/ is missing"),
        ("task.toml", "cannot be read: No such file"),
    ],
)
def test_a_task_directory_that_lacks_a_file_is_told_which(missing: str, says: str, tmp_path: Path) -> None:
    text = TASK + 'docker_image = "x"\n'
    error = only_error(HarborTask(write_task(tmp_path / "t", text, without=missing)))
    assert says in str(error)


def test_what_a_file_beside_it_asks_for_is_checked_too(tmp_path: Path) -> None:
    task = write_task(tmp_path / "t")
    (task / "environment/docker-compose.yaml").write_text("")
    assert "is empty; see docs/compose.md" in only_error(HarborTask(task)).message


def test_no_image_and_no_dockerfile_is_an_error_in_a_task(tmp_path: Path) -> None:
    task = write_task(tmp_path / "t")
    (task / "environment" / "Dockerfile").unlink()
    error = only_error(HarborTask(task))
    assert (error.message, error.line) == (
        "environment: has neither docker_image nor a file environment/Dockerfile beside task.toml",
        8,
    )


def test_every_mistake_of_a_file_is_reported_at_once_in_order_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "b.bench.yaml"
    path.write_text(_added("threshold: 2") + "    network: nope\n  - id: two\n    problem_statement: x\n")
    with pytest.raises(InputErrors) as raised:
        Manifest(path).refs()
    assert [(error.line, error.message.split(":")[0]) for error in raised.value.errors] == [
        (10, "scenarios[0].threshold"),
        (11, "scenarios[0].network"),
        (12, "scenarios[1].scorers"),
    ]
    assert str(raised.value).startswith(f"{path}:10: scenarios[0].threshold: must be at most 1, not 2\n")


def test_a_thousand_mistakes_are_counted_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "b.bench.yaml"
    path.write_text("benchmark: b\nscenarios:\n" + "  - id: no\n" * 1000)
    with pytest.raises(InputErrors) as raised:
        Manifest(path).refs()
    assert len(raised.value.errors) == 51
    assert raised.value.errors[-1].message == "... and 950 more"


def test_aliases_cannot_blow_up_a_file(tmp_path: Path) -> None:
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path = tmp_path / "b.bench.yaml"
    path.write_text("\n".join(bomb))
    assert "too large" in only_error(Manifest(path)).message
    path.write_text("a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200)))
    assert "nested too deeply" in only_error(Manifest(path)).message


@pytest.mark.parametrize("kind", ["directory", "loop", "missing", "pipe"])
def test_what_is_no_readable_file_is_an_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "b.bench.yaml"
    if kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    error = only_error(Manifest(path))
    assert error.path == path
    assert "cannot be read" in error.message


# --- anything at all: an InputError or a good scenario, never another exception

FUZZ = at_most(200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
SYNTAX = st.text(st.sampled_from("abid01:-,.[]{}&*!|>'\"#%@`\n\t =\\\u00e9\ufeff\0~<?")) | st.text()
ODD: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["..", "/", "\0", "x" * 300, "a" * 5000, "public", "1G", "~", "=", "<<", "./b.bench.yaml"]
    )
)
VALUES = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def survives(source: Manifest | HarborTask) -> None:
    try:
        for ref in source.refs():
            assert source.load(ref.id).id == ref.id
    except InputError as error:
        assert str(error)


@FUZZ
@given(st.lists(SYNTAX | st.sampled_from(GOOD.splitlines(keepends=True))).map("".join))
def test_any_text_is_an_input_error_or_a_manifest(tmp_path: Path, text: str) -> None:
    for suffix in (".bench.yaml", ".bench.toml"):
        path = tmp_path / f"b{suffix}"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        survives(Manifest(path))


@FUZZ
@given(st.binary())
def test_any_bytes_are_an_input_error(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "b.bench.yaml"
    path.write_bytes(raw)
    survives(Manifest(path))
    survives(HarborTask(write_task(tmp_path / "t", raw)))


FULL: dict[str, Any] = yaml.safe_load("""
benchmark: b
version: "1"
defaults: {image: x, env: {A: b}, environment: {cpus: 1, healthcheck: {command: "true"}}}
scenarios:
  - id: one
    problem_statement: x
    tags: [a]
    metadata: {k: [1, {x: 2.5}]}
    files: {a: b.bench.yaml}
    memory: 1G
    reference: {script: "true"}
    allowed_hosts: [a.org]
    network: allowlist
    agent_network: allowlist
    agent_allowed_hosts: [b.org, 10.0.0.0/8]
    mcp_servers: [{name: m, command: a, args: [b]}, {name: n, url: "http://c/"}]
    skills_dir: /skills
    setup: ["true"]
    scorers: [{name: s, type: bash, script: echo 1, params: {x: 1}}]
    artifacts: [a, {source: b, exclude: [c]}]
    requires: {env: [HOME]}
""")


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place] * bool(place) + [deeper for key, item in items for deeper in places(item, (*place, key))]


@FUZZ
@given(st.lists(st.tuples(st.sampled_from(places(FULL)), VALUES, st.booleans()), min_size=1, max_size=3))
def test_a_manifest_mutated_anywhere_is_an_input_error_or_good(tmp_path: Path, changes: list[Any]) -> None:
    data = copy.deepcopy(FULL)
    for place, value, rename in changes:
        inner: Any = data
        for key in place[:-1]:
            inner = inner[key] if isinstance(inner, dict | list) and _has(inner, key) else None
        if isinstance(inner, dict | list) and _has(inner, place[-1]):
            if rename and isinstance(inner, dict):
                inner[str(value)] = inner.pop(place[-1])
            else:
                inner[place[-1]] = value
    path = tmp_path / "b.bench.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8", errors="surrogatepass")
    survives(Manifest(path))


def _has(container: Any, key: Any) -> bool:
    return key in container if isinstance(container, dict) else isinstance(key, int) and key < len(container)


@FUZZ
@given(
    st.sampled_from(
        [line.split(" = ")[0] for line in TASK.splitlines()] + ["steps", "artifacts", "env", "gpus", "user"]
    ),
    VALUES,
    st.integers(0, 10),
)
def test_a_task_file_mutated_anywhere_is_an_input_error_or_good(
    tmp_path: Path, key: str, value: Any, at: int
) -> None:
    lines = TASK.splitlines()
    lines.insert(at, f"{json.dumps(key)} = {_toml(value)}")
    text = "\n".join(line for line in lines if line != key)
    survives(HarborTask(write_task(tmp_path / "t", text.encode("utf-8", "surrogatepass"))))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(json.dumps(value), json.dumps(value))
