"""One trial has one id, although versions named it in two ways."""

from __future__ import annotations

import pytest

from pytest_benchjobs.model.node_ids import paths_of_names


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("ops::a[x] b/ops.bench.yaml::a[x]", {"ops::a[x]": "b/ops.bench.yaml::a[x]"}),
        ("own::a[x] tasks/a::a[x]", {"own::a[x]": "tasks/a::a[x]"}),
        ("ops::a[x] a::a[x]", {"ops::a[x]": "a::a[x]"}),  # a task directory in the rootdir
        ("ops::a[x] conftest.py::words::a[x]", {"ops::a[x]": "conftest.py::words::a[x]"}),
        ("v::1::a[x] a.toml::a[x]", {"v::1::a[x]": "a.toml::a[x]"}),
        ("ops::a[x] b/ops.bench.yaml::a[y] b/ops.bench.yaml::b[x]", {}),
        ("ops::a[x] a/ops.bench.yaml::a[x] b/ops.bench.yaml::a[x]", {}),  # different trials
        ("ops::a[x] own::a[x]", {}),
        ("a/ops.bench.yaml::a[x] b/ops.bench.yaml::a[x]", {}),
    ],
)
def test_an_id_by_name_is_that_of_the_only_trial_by_path(ids: str, expected: dict[str, str]) -> None:
    assert paths_of_names((node_id, "ops") for node_id in ids.split()) == expected


def test_trials_of_other_benchmarks_are_others() -> None:
    assert paths_of_names([("ops::a[x]", "ops"), ("b/words.bench.yaml::a[x]", "words")]) == {}
