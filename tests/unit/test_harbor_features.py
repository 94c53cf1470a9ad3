"""docs/harbor-features.md has a row for each key of a task, and each row says what really happens."""

from __future__ import annotations

import re
import tomllib
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

ALLOWLIST = 'network_mode = "allowlist"\nallowed_hosts = ["a.org", "*.b.org", "10.0.0.0/8"]\n'
TABLES_OF_NAMES = ("metadata.", "environment.env.", "verifier.env.", "solution.env.")
SERVER = '[[environment.mcp_servers]]\nname = "m"\n'
EXAMPLES = {
    "the file": 'schema_version = "1.4"\nversion = "1.0"\nsource = "somewhere"\nmetadata = { difficulty = "easy" }',
    "artifacts": 'artifacts = ["/app/out.txt"]',
    "artifacts.*": '[[artifacts]]\nsource = "/app"\ndestination = "out"\nexclude = ["*.log"]\nservice = "db"',
    "task": (
        '[task]\nname = "org/name"\nversion = "1.0.0"\ndescription = "x"\nkeywords = ["a"]\n'
        'authors = [{ name = "A", email = "a@b.org" }]'
    ),
    "environment": (
        '[environment]\ndocker_image = "debian:bookworm-slim"\nbuild_timeout_sec = 60.0\ncpus = 2\nmemory_mb = 512\n'
        'storage_mb = 512\nskills_dir = "/skills"\nworkdir = "/app"\nnetwork_mode = "no-network"\nenv = { A = "${A:-b}" }'
    ),
    "environment, as it was": '[environment]\nmemory = "2G"\nstorage = "2G"\nallow_internet = false',
    "environment.os": '[environment]\nos = "windows"',
    "environment.gpus": "[environment]\ngpus = 1",
    "environment.gpu_types": '[environment]\ngpus = 1\ngpu_types = ["H100"]',
    "environment.tpu": '[environment]\ntpu = { type = "v5e", topology = "2x2" }',
    "environment.mcp_servers": f'{SERVER}url = "http://a/sse"',
    "a server's transport": f'{SERVER}transport = "streamable-http"\nurl = "http://a/mcp"',
    "a server's command": f'{SERVER}transport = "stdio"\ncommand = "server"\nargs = ["-v"]',
    "environment.healthcheck": (
        '[environment.healthcheck]\ncommand = "true"\ninterval_sec = 1\ntimeout_sec = 1\nstart_period_sec = 1\n'
        "start_interval_sec = 1\nretries = 2"
    ),
    "environment.allowed_hosts": f"[environment]\n{ALLOWLIST}",
    "agent": '[agent]\ntimeout_sec = 60\nuser = "nobody"\nnetwork_mode = "public"',
    "agent.allowed_hosts": f"[agent]\n{ALLOWLIST}",
    "verifier": (
        '[verifier]\ntimeout_sec = 60\nuser = "nobody"\nnetwork_mode = "public"\nenv = { A = "b" }\n'
        '[[verifier.collect]]\ncommand = "true"\ntimeout_sec = 5\nuser = 0\nservice = "db"'
    ),
    "verifier.environment_mode": '[verifier]\nenvironment_mode = "separate"',
    "verifier.environment": '[verifier.environment]\ndocker_image = "debian:bookworm-slim"',
    "verifier.allowed_hosts": f"[verifier]\n{ALLOWLIST}",
    "solution": '[solution.env]\nA = "b"',
    "steps": (
        'multi_step_reward_strategy = "final"\n[[steps]]\nname = "a"\nmin_reward = 0.5\nartifacts = ["/app/out.txt"]\n'
        '[steps.agent]\ntimeout_sec = 5\n[steps.verifier]\ntimeout_sec = 5\n[steps.healthcheck]\ncommand = "true"'
    ),
}
"""Task files with the keys that go together; what is refused has one of its own."""


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


def keys_in(value: object, prefix: str = "") -> set[str]:
    """The keys of the format that a task file uses."""
    if isinstance(value, list):
        return {key for item in value for key in keys_in(item, prefix)}
    table = value if isinstance(value, dict) and prefix not in TABLES_OF_NAMES else {}
    inner = {key for name in table for key in keys_in(table[name], f"{prefix}{name}.")}
    return inner | {f"{prefix}{name}" for name in table}


def test_every_key_has_a_row_and_an_example_and_every_row_a_key() -> None:
    assert set(rows()) == known_keys()
    examples = {key for text in EXAMPLES.values() for key in keys_in(tomllib.loads(text))}
    assert known_keys() - examples == set()


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_a_row_says_happens(example: str, tmp_path: Path) -> None:
    text = EXAMPLES[example]
    directory = write_task(tmp_path / "task", text + "\n")
    if "service =" in text:
        (directory / "environment/docker-compose.yaml").write_text("services: {db: {image: x}}\n")
    for name in ("instruction.md", "tests/test.sh", "solution/solve.sh") if "[[steps]]" in text else ():
        (directory / "steps/a" / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / "steps/a" / name).write_text("true\n")
    task = HarborTask(directory)
    refused = [
        words[2] for key in keys_in(tomllib.loads(text)) if (words := _REFUSED.search(rows().get(key, "")))
    ]
    if not refused:
        task.refs()
        task.load("task")
        assert [str(one) for one in task.warnings] == []
    for words in refused:
        with pytest.raises(InputErrors) as caught:
            task.refs()
        assert words in str(caught.value)


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
