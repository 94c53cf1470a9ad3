"""Variants: one scenario written once, several run."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from pytest_benchjobs.model.errors import InputError, InputErrors
from pytest_benchjobs.sources import benchmark_schema
from pytest_benchjobs.sources.manifest import Manifest

VARIED = """\
benchmark: texts
defaults: {image: debian:bookworm-slim, workdir: /app, env: {A: "0"}}
scenarios:
  - id: count
    problem_statement: Count the words.
    tags: [text]
    env: {B: "1"}
    scorers: [{name: right, type: command, command: "true"}]
    variants:
      - id: short
      - id: long
        problem_statement: Count the many words.
        tags: [text, hard]
        env: {B: "2", C: "3"}
        memory: 1G
  - id: plain
    problem_statement: Nothing.
    scorers: [{name: right, type: command, command: "true"}]
"""


def _manifest(directory: Path, text: str = VARIED) -> Manifest:
    path = directory / "v.bench.yaml"
    path.write_text(text, "utf-8")
    return Manifest(path)


def test_each_variant_is_a_scenario(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path)
    refs = manifest.refs()
    expected = [("count.short", 10, ("text",)), ("count.long", 11, ("text", "hard")), ("plain", 16, ())]
    assert [(ref.id, ref.line, ref.tags) for ref in refs] == expected
    short, long = manifest.load("count.short"), manifest.load("count.long")
    assert short.problem_statement == "Count the words."
    assert (short.environment.env, short.environment.memory) == ({"A": "0", "B": "1"}, None)
    assert long.problem_statement == "Count the many words."
    assert (long.environment.env, long.environment.memory) == ({"A": "0", "B": "2", "C": "3"}, 1 << 30)
    jsonschema.validate(yaml.safe_load(VARIED), benchmark_schema())


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("- id: short", "- {}", 10, "id: is required but missing"),
        ("- id: short", "- id: null", 10, "variants[0].id: text is expected, not nothing"),
        ("- id: short", "- id: ''", 10, "variants[0].id: is empty"),
        ("- id: short", "- id: true", 10, "variants[0].id: text is expected, not true"),
        ("- id: short", "- id: -1", 10, "variants[0].id: text is expected, not -1"),
        ("- id: count", "- archived: false", 4, "scenarios[0].id: is required but missing"),
        ("- id: count", "- id: null", 4, "scenarios[0].id: text is expected, not nothing"),
        ("- id: short", "- short", 10, "a table of keys is expected"),
        ("- id: short", "- id: long", 11, "'count.long' is already the id of the scenario in line 10"),
        ("        memory: 1G", "        memory: much", 15, "size"),
        ("        memory: 1G", "        memry: 1G", 15, "did you mean 'memory'"),
        ("- id: plain", "- id: count.long", 16, "'count.long' is already the id of the scenario in line 11"),
    ],
)
def test_mistakes_have_their_line(tmp_path: Path, before: str, after: str, line: int, words: str) -> None:
    assert before in VARIED
    with pytest.raises(InputErrors) as caught:
        _manifest(tmp_path, VARIED.replace(before, after, 1)).refs()
    assert [error.line for error in caught.value.errors] == [line]
    assert words in str(caught.value)


def test_no_variants_are_a_mistake(tmp_path: Path) -> None:
    text = VARIED.partition("    variants:")[0] + "    variants: []\n"
    with pytest.raises(InputError, match="at least one variant"):
        _manifest(tmp_path, text).refs()


def test_variants_are_a_cluster_and_scenarios_may_name_one(tmp_path: Path) -> None:
    text = """
benchmark: clusters
defaults: {image: debian:bookworm-slim, problem_statement: Do it., scorers: [{name: done, type: bash, script: echo 1}]}
scenarios:
  - id: alone
  - {id: named, cluster: repo}
  - {id: noted, metadata: {cluster: repo, team: evals}}
  - {id: count, variants: [{id: one}, {id: two}, {id: own, cluster: other}]}
  - {id: both, cluster: repo, variants: [{id: one}]}
"""
    manifest = _manifest(tmp_path, text)
    names = ("alone", "named", "noted", "count.one", "count.two", "count.own", "both.one")
    found = {name: manifest.load(name).cluster for name in names}
    assert found == {
        "alone": None, "named": "repo", "noted": "repo", "count.one": "count", "count.two": "count",
        "count.own": "other", "both.one": "repo",
    }  # fmt: skip
    assert manifest.load("noted").metadata["team"] == "evals"
    jsonschema.validate(yaml.safe_load(text), benchmark_schema())
