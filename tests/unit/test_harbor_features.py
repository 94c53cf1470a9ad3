"""docs/harbor-features.md has a row for each key of a task, and each row says what really happens."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from pytest_benchjobs.model.errors import InputErrors
from pytest_benchjobs.sources.complaints import Written
from pytest_benchjobs.sources.harbor import HarborTask
from pytest_benchjobs.sources.harbor_keys import EnvironmentTable, TaskFile
from tests.unit.test_broken_input import write_task

PAGE = Path(__file__).resolve().parents[2] / "docs" / "harbor-features.md"
_ROW = re.compile(r"^\| `(?P<key>[a-z_.]+)` \| (?P<here>.*) \|$", re.MULTILINE)
_REFUSED = re.compile(r"refused: (`+)(.+?)\1(?!`)")

IMAGE = '[environment]\ndocker_image = "debian:bookworm-slim"\n'
SERVER = '[[environment.mcp_servers]]\nname = "m"\n'
ALLOWLIST = 'network_mode = "allowlist"\nallowed_hosts = ["a.org", "*.b.org", "10.0.0.0/8"]\n'
EXAMPLES = {
    "schema_version": 'schema_version = "1.4"',
    "version": 'version = "1.0"',
    "source": 'source = "somewhere"',
    "multi_step_reward_strategy": 'multi_step_reward_strategy = "final"\n[[steps]]\nname = "a"',
    "artifacts": 'artifacts = ["/app/out.txt"]',
    "artifacts.source": '[[artifacts]]\nsource = "/app/out.txt"',
    "artifacts.destination": '[[artifacts]]\nsource = "/app/out.txt"\ndestination = "out.txt"',
    "artifacts.exclude": '[[artifacts]]\nsource = "/app"\nexclude = ["*.log"]',
    "artifacts.service": '[[artifacts]]\nsource = "/app"\nservice = "db"',
    "metadata": '[metadata]\ndifficulty = "easy"',
    "task": '[task]\nname = "org/name"',
    "task.name": '[task]\nname = "org/name"',
    "task.version": '[task]\nversion = "1.0.0"',
    "task.description": '[task]\ndescription = "x"',
    "task.authors": '[task]\nauthors = [{ name = "A" }]',
    "task.authors.name": '[task]\nauthors = [{ name = "A" }]',
    "task.authors.email": '[task]\nauthors = [{ name = "A", email = "a@b.org" }]',
    "task.keywords": '[task]\nkeywords = ["a"]',
    "environment": IMAGE,
    "environment.build_timeout_sec": "[environment]\nbuild_timeout_sec = 60.0",
    "environment.docker_image": IMAGE,
    "environment.os": '[environment]\nos = "windows"',
    "environment.cpus": "[environment]\ncpus = 2",
    "environment.memory_mb": "[environment]\nmemory_mb = 512",
    "environment.storage_mb": "[environment]\nstorage_mb = 512",
    "environment.memory": '[environment]\nmemory = "2G"',
    "environment.storage": '[environment]\nstorage = "2G"',
    "environment.gpus": "[environment]\ngpus = 1",
    "environment.gpu_types": '[environment]\ngpus = 1\ngpu_types = ["H100"]',
    "environment.tpu": '[environment]\ntpu = { type = "v5e" }',
    "environment.tpu.type": '[environment]\ntpu = { type = "v5e" }',
    "environment.tpu.topology": '[environment]\ntpu = { type = "v5e", topology = "2x2" }',
    "environment.env": '[environment.env]\nA = "${A:-b}"',
    "environment.mcp_servers": f'{SERVER}url = "http://a/sse"',
    "environment.mcp_servers.name": f'{SERVER}url = "http://a/sse"',
    "environment.mcp_servers.transport": f'{SERVER}transport = "streamable-http"\nurl = "http://a/mcp"',
    "environment.mcp_servers.url": f'{SERVER}url = "http://a/sse"',
    "environment.mcp_servers.command": f'{SERVER}transport = "stdio"\ncommand = "server"',
    "environment.mcp_servers.args": f'{SERVER}transport = "stdio"\ncommand = "server"\nargs = ["-v"]',
    "environment.skills_dir": '[environment]\nskills_dir = "/skills"',
    "environment.healthcheck": '[environment.healthcheck]\ncommand = "true"',
    "environment.healthcheck.command": '[environment.healthcheck]\ncommand = "true"',
    "environment.healthcheck.interval_sec": '[environment.healthcheck]\ncommand = "true"\ninterval_sec = 1',
    "environment.healthcheck.timeout_sec": '[environment.healthcheck]\ncommand = "true"\ntimeout_sec = 1',
    "environment.healthcheck.start_period_sec": '[environment.healthcheck]\ncommand = "true"\nstart_period_sec = 1',
    "environment.healthcheck.start_interval_sec": '[environment.healthcheck]\ncommand = "true"\nstart_interval_sec = 1',
    "environment.healthcheck.retries": '[environment.healthcheck]\ncommand = "true"\nretries = 2',
    "environment.workdir": '[environment]\nworkdir = "/app"',
    "environment.network_mode": '[environment]\nnetwork_mode = "no-network"',
    "environment.allowed_hosts": f"[environment]\n{ALLOWLIST}",
    "environment.allow_internet": "[environment]\nallow_internet = false",
    "agent": "[agent]",
    "agent.timeout_sec": "[agent]\ntimeout_sec = 60",
    "agent.user": '[agent]\nuser = "nobody"',
    "agent.network_mode": '[agent]\nnetwork_mode = "public"',
    "agent.allowed_hosts": f"[agent]\n{ALLOWLIST}",
    "verifier": "[verifier]",
    "verifier.timeout_sec": "[verifier]\ntimeout_sec = 60",
    "verifier.env": '[verifier.env]\nA = "b"',
    "verifier.user": '[verifier]\nuser = "nobody"',
    "verifier.environment_mode": '[verifier]\nenvironment_mode = "separate"',
    "verifier.environment": '[verifier.environment]\ndocker_image = "debian:bookworm-slim"',
    "verifier.collect": '[[verifier.collect]]\ncommand = "true"',
    "verifier.collect.command": '[[verifier.collect]]\ncommand = "true"',
    "verifier.collect.service": '[[verifier.collect]]\ncommand = "true"\nservice = "db"',
    "verifier.collect.timeout_sec": '[[verifier.collect]]\ncommand = "true"\ntimeout_sec = 5',
    "verifier.collect.user": '[[verifier.collect]]\ncommand = "true"\nuser = 0',
    "verifier.network_mode": '[verifier]\nnetwork_mode = "public"',
    "verifier.allowed_hosts": f"[verifier]\n{ALLOWLIST}",
    "solution": "[solution]",
    "solution.env": '[solution.env]\nA = "b"',
    "steps": '[[steps]]\nname = "a"',
    "steps.name": '[[steps]]\nname = "a"',
    "steps.agent": '[[steps]]\nname = "a"\n[steps.agent]\ntimeout_sec = 5',
    "steps.verifier": '[[steps]]\nname = "a"\n[steps.verifier]\ntimeout_sec = 5',
    "steps.min_reward": '[[steps]]\nname = "a"\nmin_reward = 0.5',
    "steps.healthcheck": '[[steps]]\nname = "a"\n[steps.healthcheck]\ncommand = "true"',
    "steps.artifacts": '[[steps]]\nname = "a"\nartifacts = ["/app/out.txt"]',
}
"""Key -> a task file that uses it, and nothing else of note."""


def keys_of(model: type[BaseModel], seen: set[type[BaseModel]], prefix: str = "") -> Iterator[str]:
    """Every key of a table and of the tables in it; of a table that was seen before only its own."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}"
        for inner in _tables(field.annotation):
            if inner not in seen:
                seen.add(inner)
                yield from keys_of(inner, seen, f"{prefix}{name}.")


def _tables(annotation: object) -> list[type[Written]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return [annotation] if issubclass(annotation, Written) else []
    return [table for argument in typing.get_args(annotation) for table in _tables(argument)]


def known_keys() -> set[str]:
    """Every key that the reader of tasks knows."""
    seen: set[type[BaseModel]] = {EnvironmentTable}
    return {*keys_of(EnvironmentTable, seen, "environment."), *keys_of(TaskFile, seen)}


def rows() -> dict[str, str]:
    """Key -> what the page says of it."""
    found = [(match["key"], match["here"]) for match in _ROW.finditer(PAGE.read_text().split("\n## ")[1])]
    assert len(found) == len(dict(found)), "a key has two rows"
    return dict(found)


def test_every_key_has_a_row_and_every_row_a_key() -> None:
    assert set(rows()) == known_keys()


def test_every_key_has_an_example() -> None:
    assert set(EXAMPLES) == known_keys()


@pytest.mark.parametrize("key", EXAMPLES)
def test_what_a_row_says_happens(key: str, tmp_path: Path) -> None:
    directory = write_task(tmp_path / "task", EXAMPLES[key] + "\n")
    if "service =" in EXAMPLES[key]:
        (directory / "environment/docker-compose.yaml").write_text("services: {db: {image: x}}\n")
    for name in (
        ("instruction.md", "tests/test.sh", "solution/solve.sh") if "[[steps]]" in EXAMPLES[key] else ()
    ):
        (directory / "steps/a" / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / "steps/a" / name).write_text("true\n")
    task = HarborTask(directory)
    said = rows()[key]
    words = _REFUSED.search(said)
    if words is None:
        task.refs()
        task.load("task")
        assert [str(one) for one in task.warnings] == []
    else:
        with pytest.raises(InputErrors) as refused:
            task.refs()
        assert words[2] in str(refused.value)


FILES = {
    "environment/docker-compose.yaml": "services: {db: {image: x}}\n",
    "tests/docker-compose.yaml": "services: {main: {image: x}}\n",
    "steps/": None,
    "trajectory.json": "{}",
}


@pytest.mark.parametrize("name", FILES)
def test_what_the_page_says_of_a_file_happens(name: str, tmp_path: Path) -> None:
    row = re.search(rf"^\| `{re.escape(name)}` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None, name
    directory = write_task(tmp_path / "task")
    text = FILES[name]
    if text is None:
        (directory / name).mkdir()
    else:
        (directory / name).write_text(text)
    words = _REFUSED.search(row[1])
    if words is None:
        HarborTask(directory).refs()
    else:
        with pytest.raises(InputErrors) as refused:
            HarborTask(directory).refs()
        assert words[2] in str(refused.value)
