"""Marks of scorers, and what they may see of their parameters."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs import scorer
from pytest_benchjobs.model.scenario import ScorerSpec
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.scoring.needs import CONTEXT_VARIABLES, context_variables
from pytest_benchjobs.scoring.registering import marked_scorers
from pytest_benchjobs.system.installed import entry_points


def test_only_marked_functions_are_scorers() -> None:
    class Anything:
        def __getattr__(self, name: str) -> str:
            return "trap"

    @scorer("mine")
    def mine(context: Any) -> float:
        return 1.0

    module = types.ModuleType("conftest")
    vars(module).update(mine=mine, again=mine, other=lambda context: 0.0, trap=Anything())
    assert marked_scorers(module) == {"mine": mine}


@pytest.mark.parametrize("name", ["", 1, lambda context: 1.0])
def test_a_scorer_has_a_name(name: Any) -> None:
    with pytest.raises(TypeError, match="has a name"):
        scorer(name)


def test_what_cannot_score_cannot_be_marked() -> None:
    with pytest.raises(TypeError, match="@scorer"):
        scorer("mine")(lambda: 1.0)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize("kind", ["answer", "harbor", "swebench", "swebench-pro", "bigcodebench"])
def test_types_whose_parameters_hold_what_is_expected_tell_no_command(kind: str) -> None:
    spec = ScorerSpec(name="s", type=kind, params={"expected": 42})
    assert context_variables(spec, builtin_scorers()) == {}


def test_parameters_are_json_unless_they_are_too_long() -> None:
    spec = ScorerSpec(name="s", type="mine", params={"a": [1, "ü"]})
    found = context_variables(spec, {"mine": lambda context: 1.0})
    assert {name: json.loads(text) for name, text in found.items()} == {
        name: {"a": [1, "ü"]} for name in CONTEXT_VARIABLES
    }
    long = spec.model_copy(update={"params": {"a": "x" * 100_000}})
    assert context_variables(long, {"mine": lambda context: 1.0}) == {}


def test_entry_points_are_those_of_the_path_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [*entry_points("benchjobs.somebodys")] == []
    about = tmp_path / "own-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[benchjobs.somebodys]\nmine = own:thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [point.value for point in entry_points("benchjobs.somebodys")] == ["own:thing"]
