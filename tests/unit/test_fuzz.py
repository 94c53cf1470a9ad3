"""Malformed files and options, thousands of them: an InputError or right, never a traceback, and nothing unknown in silence.

    FUZZ_SEED=N FUZZ_CASES=N make fuzz

Documents are made from the schemas that are published for them (`fuzzing.py`), so a new key is tried as soon as it is
there. A failure names its seed, which makes the same case again.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pydantic import TypeAdapter

from pytest_benchjobs.agents.description import description_schema, read_description
from pytest_benchjobs.gateway.prices import WrittenPrices, load_prices
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.plugin.job_settings import settings_of
from pytest_benchjobs.settings.files import read_job_file
from pytest_benchjobs.settings.high_scores import WrittenHighScore, read_high_scores
from pytest_benchjobs.settings.known import known_schema, read_known
from pytest_benchjobs.settings.table import SETTINGS
from pytest_benchjobs.settings.written import settings_schema
from pytest_benchjobs.sources import benchmark_schema
from pytest_benchjobs.sources.captures import read_capture
from pytest_benchjobs.sources.catalogue.entry import Entry, entry_at
from pytest_benchjobs.sources.compose import ComposeFile, read_paths
from pytest_benchjobs.sources.harbor import HarborTask
from pytest_benchjobs.sources.harbor_keys import TaskFile
from pytest_benchjobs.sources.manifest import Manifest

from .fuzzing import ODD, ODD_TEXTS, TEXTS, UNKNOWN, Maker
from .setting_examples import EXAMPLES
from .test_broken_input import FULL, TASK

pytestmark = pytest.mark.when_changed

SEED = int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(10**6))
DAILY, ALL = 300, int(os.environ.get("FUZZ_CASES") or 10_000)
AGENT = {"name": "a", "argv": ["{agent}/run", "{model}"], "source": {"path": "."}, "wires": ["openai"],
         "cases": [{"wires": ["openai"], "env": {"A": "{url}"}}], "parameters": {"p": {"argv": ["{value}"]}},
         "mcp": {"stdio": {"files": {"/x": {"a": 1}}}}, "conversation": {"argv": ["go"]}}  # fmt: skip
JOB = {"attempts": 2, "agents": [{"agent": "codex", "model": "m"}], "matrix": {"parameters": {"t": [0, 1]}},
       "per_benchmark": {"toy": {"attempts": 1, "depth": 3}}, "min_score": {"toy": 0.5}}  # fmt: skip
PRICES = {"date": "2026-11-21", "model": [{"names": ["m"], "input": 1, "output": 2.5}]}
ENTRY = {"name": "a", "version": "1", "title": "t", "source": "m:f", "scenarios": 1, "licence": "MIT", "environment": "e",
         "scoring": "s", "git": [{"repository": "https://a.org/", "commit": "f" * 40, "paths": ["a"]}]}  # fmt: skip
_SERVICE = {"image": "x", "build": {"context": ".", "args": {"A": "1"}}, "command": ["a"], "environment": {"A": "b"},
            "depends_on": {"db": {"condition": "service_healthy"}}, "healthcheck": {"test": ["CMD", "a"], "interval": "1s"},
            "volumes": ["v:/a", {"type": "bind", "source": ".", "target": "/b"}], "networks": {"n": {"aliases": ["c"]}},
            "env_file": ["a.env"], "deploy": {"resources": {"limits": {"cpus": "1"}}}, "cap_add": ["CHOWN"],
            "extra_hosts": ["a:1.2.3.4"]}  # fmt: skip
COMPOSE = {"services": {"main": {"command": "sleep 1"}, "db": _SERVICE}, "volumes": {"v": {}}, "networks": {"n": {}},
           "secrets": {"s": {"file": "s"}}}  # fmt: skip
COMPOSE_SCHEMA = {
    "type": "object",
    "properties": {
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "image": {"type": "string"},
                    "privileged": {"type": "boolean"},
                    "build": {"type": "string"},
                },
                "additionalProperties": False,
            },
        }
    },
}
"""Of files of Docker Compose only the services are closed: the rest is for Docker Compose to judge."""
CAPTURE = {"events": [{"kind": "llm", "ts": 0, "duration_ms": 1.5}, {"kind": "tool", "ts": "2026-01-01T00:00:00Z"}],
           "outcome": {"success": True}, "duration_ms": 5, "problem": "p"}  # fmt: skip
LONGEST = 2_000
"""The most characters of a line of a message."""


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{_toml(key)} = {_toml(one)}" for key, one in value.items() if one is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value if one is not None) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml(data: dict[str, Any]) -> str:
    return "".join(f"{_toml(key)} = {_toml(value)}\n" for key, value in data.items() if value is not None)


def as_yaml(data: dict[str, Any]) -> str:
    return yaml.dump(data, Dumper=yaml.CSafeDumper, allow_unicode=True)


FORMS = {".toml": toml, ".yaml": as_yaml, ".json": json.dumps}


class Doors:
    """Ways in: each writes a document and reads it as the product does; returns the warnings."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.here, self.rng = directory, rng

    def written(self, name: str, data: Any, *suffixes: str) -> Path:
        suffix = self.rng.choice(suffixes)
        path = self.here / f"{name}{suffix}"
        path.write_text(FORMS[suffix](data), "utf-8", "surrogatepass")
        return path

    def manifest(self, data: Any) -> str:
        source = Manifest(self.written("b.bench", data, ".toml", ".yaml"))
        for ref in source.refs():
            assert source.load(ref.id).id == ref.id
        return str(source.warnings)

    def task(self, data: Any) -> str:
        task = self.here / "task"
        for name in ("instruction.md", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh"):
            (task / name).parent.mkdir(parents=True, exist_ok=True)
            (task / name).write_text("FROM x\n")
        (task / "task.toml").write_text(toml(data), "utf-8", "surrogatepass")
        source = HarborTask(task)
        for ref in source.refs():
            assert source.load(ref.id).id == ref.id
        return str(source.warnings)

    def agent(self, data: Any) -> str:
        return str(read_description(self.written("a.agent", data, ".toml", ".yaml")))

    def job_file(self, data: Any) -> str:
        return str(read_job_file(self.written("job", data, *FORMS)))

    def known(self, data: Any) -> str:
        return str(read_known(self.written("known", data, ".toml"), "known.toml", datetime.date(2026, 1, 1)))

    def prices(self, data: Any) -> str:
        return str(load_prices(self.written("prices", data, ".toml")))

    def high_scores(self, data: Any) -> str:
        return str(read_high_scores(self.written("high", data, ".toml", ".json")))

    def entry(self, data: Any) -> str:
        return str(entry_at(self.written("a.benchmark", data, ".toml")))

    def compose(self, data: Any) -> str:
        path = self.written("docker-compose", data, ".yaml")
        file = ComposeFile(path)
        image = Environment(image="x")
        return str((file.names, file.with_main(image), file.described(), [*read_paths(path, {})]))

    def capture(self, data: Any) -> str:
        return str(read_capture(self.written("one.replay", data, ".json")).duration_ms)


class Kind(NamedTuple):
    """A kind of file."""

    read: Callable[[Doors, Any], str]
    schema: Callable[[], dict[str, Any]]
    good: dict[str, Any]
    percent: int
    """Of all cases."""


KINDS = {
    "manifest": Kind(Doors.manifest, benchmark_schema, FULL, 25),
    "task": Kind(Doors.task, TaskFile.model_json_schema, tomllib.loads(TASK), 15),
    "agent": Kind(Doors.agent, description_schema, AGENT, 10),
    "job_file": Kind(Doors.job_file, settings_schema, JOB, 10),
    "known": Kind(
        Doors.known, known_schema, {"known": [{"scenario": "a", "reason": "r", "until": "2027-01-31"}]}, 3
    ),
    "prices": Kind(Doors.prices, WrittenPrices.model_json_schema, PRICES, 3),
    "high_scores": Kind(
        Doors.high_scores, TypeAdapter(dict[str, WrittenHighScore]).json_schema, {"a": {"score": 1}}, 3
    ),
    "entry": Kind(Doors.entry, Entry.model_json_schema, ENTRY, 4),
    "compose": Kind(Doors.compose, lambda: COMPOSE_SCHEMA, COMPOSE, 10),
    "capture": Kind(Doors.capture, lambda: {"type": "object"}, CAPTURE, 6),
}
COUNTS = [DAILY, pytest.param(ALL, marks=pytest.mark.extended)]


def check_message(text: str) -> None:
    assert text
    assert max(map(len, text.split("\n"))) <= LONGEST
    odd = {char for char in text if not char.isprintable()} - {"\n", "\t"}
    assert not odd, odd


@pytest.mark.parametrize("cases", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_malformed_file_is_an_error_with_its_name_and_nothing_unknown_is_silent(
    kind: str, cases: int, tmp_path: Path
) -> None:
    read, schema, good, percent = KINDS[kind]
    rng = random.Random(f"{SEED} {kind}")
    maker, doors = Maker(schema(), good, rng), Doors(tmp_path, rng)
    for number in range(cases * percent // 100):
        case = maker.case()
        try:
            warnings = read(doors, case.data)
            assert not case.has_unknown or UNKNOWN in warnings, "an unknown key is accepted in silence"
        except InputError as error:
            check_message(str(error))
            assert str(error).startswith(str(tmp_path)), error
        except BaseException as error:
            error.add_note(f"FUZZ_SEED={SEED}, case {number}: {case.done}, {str(case.data)[:2000]}")
            raise


class Options:
    """Options and ini keys with values that people may give them."""

    def __init__(self, pytester: pytest.Pytester, rng: random.Random) -> None:
        self.pytester, self.rng = pytester, rng
        self.valued = [one for one in SETTINGS if one.kind != "flag" and one.on_line and not one.hidden]
        self.keys = [one for one in SETTINGS if one.has_ini]

    def value(self, name: str) -> str:
        texts = (*EXAMPLES.get(name, ()), *TEXTS, *ODD_TEXTS)
        text = "".join(self.rng.choices(texts, k=self.rng.choice((1, 1, 1, 2))))
        return text.replace("\0", "")

    def case(self) -> list[str]:
        """Return arguments, with an ini file written."""
        keys = self.rng.sample(self.keys, self.rng.randrange(3))
        lines = [f"{one.option} = {_toml(self.ini_value(one.name))}\n" for one in keys]
        (self.pytester.path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n" + "".join(lines))
        chosen = self.rng.sample(self.valued, self.rng.randint(not keys, 3))
        return [f"{one.flag}={self.value(one.name)}" for one in chosen]

    def ini_value(self, name: str) -> Any:
        if self.rng.random() < 0.5:
            return self.rng.choice([one for one in ODD if one is not None])
        text = self.value(name)
        return self.rng.choice((text, [text], [text, text]))


@pytest.mark.parametrize("cases", COUNTS)
def test_a_malformed_option_is_one_message(pytester: pytest.Pytester, cases: int) -> None:
    rng = random.Random(f"{SEED} options")
    options = Options(pytester, rng)
    for number in range(cases * 11 // 100):
        arguments = options.case()
        ini = (pytester.path / "pyproject.toml").read_text()
        try:
            settings_of(pytester.parseconfig(*arguments))
        except pytest.UsageError as error:
            check_message(str(error))
        except BaseException as error:
            error.add_note(f"FUZZ_SEED={SEED}, case {number}: {str(arguments)[:2000]}, {ini[:2000]}")
            raise
