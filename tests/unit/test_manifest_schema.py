"""The JSON Schema of manifests, held against a validator, and against what the reader says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.sources import benchmark_schema
from pytest_benchjobs.sources.manifest import Manifest
from pytest_benchjobs.sources.written import WrittenScenario, WrittenScorer

from .test_manifest import EVERYTHING

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted((ROOT / "conftest_examples").rglob("*.bench.*"))
SCORERS: list[dict[str, Any]] = [{"type": "command", "command": "true"}]
RIGHT = {"id": "a", "image": "x", "problem_statement": "Do.", "scorers": SCORERS}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = benchmark_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def read(path: Path) -> Any:
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_obeys_it(path: Path, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(read(path))


def test_every_key_and_its_short_forms_obey_it(validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(yaml.safe_load(EVERYTHING.replace("2024-01-01", "x")))
    short = {"id": "a", "memory": "1G", "setup": "x", "reference": "y", "user": 0}
    validator.validate({"benchmark": "b", "scenarios": [short]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"benchmark": "b"},
        {"scenarios": [RIGHT]},
        {"benchmark": "b", "scenarios": []},
        {"benchmark": "b", "scenarios": [RIGHT], "scenaros": []},
        {"benchmark": "b", "scenarios": [RIGHT], "version": 1.0},
        {"benchmark": "b", "scenarios": [{**RIGHT, "imge": "x"}]},
        {"benchmark": "b", "scenarios": [{**RIGHT, "cpus": "two"}]},
        {"benchmark": "b", "scenarios": [{**RIGHT, "network": "some"}]},
        {"benchmark": "b", "scenarios": [{**RIGHT, "threshold": 2}]},
        {"benchmark": "b", "scenarios": [{**RIGHT, "tags": "easy"}]},
        {"benchmark": "b", "scenarios": [{**RIGHT, "scorers": [{"command": "true"}]}]},
        {"benchmark": "b", "scenarios": [{**RIGHT, "scorers": [{**SCORERS[0], "weight": 0}]}]},
        {"benchmark": "b", "scenarios": [{**RIGHT, "reference": {"pach": "x"}}]},
        {"benchmark": "b", "scenarios": [{"from": "x::y", "image": "z"}]},
        {"benchmark": "b", "defaults": {"id": "a"}, "scenarios": [RIGHT]},
    ],
    ids=str,
)
def test_what_it_refuses_the_reader_refuses(
    wrong: dict[str, Any], validator: jsonschema.Draft202012Validator, tmp_path: Path
) -> None:
    assert list(validator.iter_errors(wrong))
    (tmp_path / "x.bench.yaml").write_text(yaml.safe_dump(wrong))
    with pytest.raises(InputError):
        Manifest(tmp_path / "x.bench.yaml").refs()


def test_a_mistake_in_a_scenario_is_shown_at_its_place(validator: jsonschema.Draft202012Validator) -> None:
    wrong = {"benchmark": "b", "scenarios": [RIGHT, {**RIGHT, "id": "c", "cpus": "two"}]}
    assert [list(error.absolute_path) for error in validator.iter_errors(wrong)] == [["scenarios", 1, "cpus"]]


def test_empty_defaults_are_in_the_schema_and_shared_by_no_instances() -> None:
    schema = WrittenScenario.model_json_schema()["properties"]
    assert (schema["env"]["default"], schema["tags"]["default"]) == ({}, [])
    written = [WrittenScenario(id=name, scorers=[WrittenScorer(type="bash")]) for name in "ab"]
    for name in ("env", "tags"):
        first, second = (getattr(one, name) for one in written)
        assert first == second == schema[name]["default"]
        assert first is not second
    assert not written[0].model_fields_set & {"env", "tags"}
