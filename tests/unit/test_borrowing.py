"""Scenarios borrowed from other benchmarks."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pytest_benchjobs as benchjobs
from pytest_benchjobs.model.errors import InputErrors
from pytest_benchjobs.model.scenario import Scenario
from pytest_benchjobs.sources import benchmark_schema
from pytest_benchjobs.sources.catalogue.entry import Confidential, Entry
from pytest_benchjobs.sources.catalogue.lookup import Lookup
from pytest_benchjobs.sources.manifest import Manifest
from pytest_benchjobs.sources.project import finder_of

LENDER = """
benchmark: lender
version: "2"
defaults: {image: none, workdir: /app}
scenarios:
  - id: first
    problem_statement: Do it.
    tags: [easy]
    metadata: {team: x, kind: a}
    agent_timeout: 10
    agent_env: {A: "1"}
    requires: {env: [HOME]}
    files: {in.txt: in.txt}
    reference: echo XYZZY
    scorers:
      - {name: a, type: command, command: "true"}
      - {name: b, type: command, command: "false", weight: 2}
  - id: second
    problem_statement: Do it, too.
    scorers: [{type: command, command: "true"}]
"""


@pytest.fixture
def lender(tmp_path: Path) -> Path:
    place = tmp_path / "other"
    place.mkdir()
    (place / "in.txt").write_text("x")
    (place / "lender.bench.yaml").write_text(LENDER)
    return place / "lender.bench.yaml"


def manifest(path: Path, text: str, name: str = "mine.bench.yaml") -> Manifest:
    head = 'benchmark: mine\nversion: "1"\nscenarios:\n'
    (path / name).write_text(head + textwrap.indent(textwrap.dedent(text), "  "))
    return Manifest(path / name)


def told(source: Any) -> list[tuple[int | None, str]]:
    with pytest.raises(InputErrors) as caught:
        source.refs()
    return [(error.line, error.message) for error in caught.value.errors]


@pytest.mark.usefixtures("lender")
def test_a_borrowed_scenario_asks_and_grades_as_it_does_and_is_counted_here(tmp_path: Path) -> None:
    source = manifest(
        tmp_path, "- from: other/lender.bench.yaml::first\n- {from: 'other::second', id: own}\n"
    )
    expected = [("first", ("easy",), 4, ("command", "command")), ("own", (), 5, ("command",))]
    assert [(ref.id, ref.tags, ref.line, ref.scorers) for ref in source.refs()] == expected
    mine = source.load("first")
    theirs = Manifest(tmp_path / "other/lender.bench.yaml").load("first")
    changed = {name for name in Scenario.model_fields if getattr(mine, name) != getattr(theirs, name)}
    assert changed == {"benchmark", "benchmark_version", "metadata", "source", "line"}
    assert (mine.benchmark, mine.benchmark_version, mine.source, mine.line) == ("mine", "1", source.path, 4)
    assert mine.metadata == {"team": "x", "kind": "a", "borrowed_from": "lender@2::first"}
    assert mine.files == {"in.txt": tmp_path / "other/in.txt"}


@pytest.mark.usefixtures("lender")
def test_what_may_be_changed(tmp_path: Path) -> None:
    source = manifest(
        tmp_path,
        """\
        - from: other/lender.bench.yaml::first
          id: harder
          tags: [ours]
          metadata: {team: y}
          cluster: all
          threshold: 0.4
          agent_timeout: 99
          scorer_timeout: 98
          setup_timeout: 97
          agent_env: {B: "2"}
          weights: {b: 5}
          requires: {env: [PATH], secrets: [KEY]}
        """,
    )
    (ref,) = source.refs()
    assert (ref.id, ref.tags) == ("harder", ("ours",))
    found = source.load("harder")
    expected = (("ours",), 0.4, 99, 98)
    assert (found.tags, found.threshold, found.agent_timeout, found.scorer_timeout) == expected
    assert (found.environment.setup_timeout, found.cluster, found.metadata["team"]) == (97, "all", "y")
    assert found.agent_env == {"A": "1", "B": "2"}
    assert [(spec.name, spec.weight) for spec in found.scorers] == [("a", 1.0), ("b", 5.0)]
    assert (found.requires.env, found.requires.secrets) == (("HOME", "PATH"), ("KEY",))


@pytest.mark.usefixtures("lender")
def test_defaults_do_not_change_what_is_borrowed(tmp_path: Path) -> None:
    source = manifest(tmp_path, "- from: other/lender.bench.yaml::first")
    defaults = "defaults: {image: another, tags: [mine], agent_timeout: 3}\nscenarios:"
    source.path.write_text(source.path.read_text().replace("scenarios:", defaults))
    found = source.load("first")
    assert (found.environment.image, found.tags, found.agent_timeout) == ("none", ("easy",), 10)


@pytest.mark.usefixtures("lender")
@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("from: first", "scenarios[0].from: NAME::SCENARIO or PATH::SCENARIO is expected, such as"),
        ("from: other/lender.bench.yaml::frist", "no scenario 'frist'; did you mean 'first'?"),
        ("from: other/none.bench.yaml::first", "no such file or directory: other/none.bench.yaml"),
        ("from: terminal-bensh-2::x", "scenarios[0].from: there is no benchmark 'terminal-bensh-2'; did you mean"),
        ("{from: 'other::first', weights: {c: 1}}", "scenarios[0].weights.c: no scorer 'c'; available: a, b"),
        ("{from: 'other::first', weights: {a: 0}}", "scenarios[0].weights.a: must be greater than 0, not 0"),
        ("{from: 'other::first', problem_statement: Else}", "scenarios[0].problem_statement: cannot be changed of a borrowed scenario"),
        ("{from: 'other::first', image: x}", "scenarios[0].image: cannot be changed of a borrowed scenario"),
        ("{from: 'other::first', wieghts: {a: 1}}", "scenarios[0].wieghts: unknown key; did you mean 'weights'?"),
        ("{from: 'other::first', id: a b}", "scenarios[0].id: 'a b' is not a name"),
        ("from: 3", "scenarios[0].from: text is expected, not 3"),
        ("from: mine.bench.yaml::first", "is borrowed in a circle"),
    ],
)  # fmt: skip
def test_mistakes_are_told(tmp_path: Path, written: str, message: str) -> None:
    found = told(manifest(tmp_path, f"- {written}"))
    assert [line for line, _ in found] == [4]
    assert message in found[0][1], found


@pytest.mark.usefixtures("lender")
def test_a_chain_is_followed_and_two_files_may_borrow_of_each_other(tmp_path: Path) -> None:
    manifest(tmp_path, "- from: c.bench.yaml::first\n- {from: 'other::second', id: more}", "b.bench.yaml")
    manifest(tmp_path, "- from: other::first\n- {from: 'b.bench.yaml::more', id: back}", "c.bench.yaml")
    assert Manifest(tmp_path / "b.bench.yaml").load("first").metadata["borrowed_from"] == "mine@1::first"
    assert Manifest(tmp_path / "c.bench.yaml").load("back").problem_statement == "Do it, too."


@pytest.mark.usefixtures("lender")
def test_in_python_it_is_spelt_with_an_underscore(tmp_path: Path) -> None:
    path = tmp_path / "test_mine.py"
    path.write_text(
        "from pytest_benchjobs import Benchmark, Scenario\n"
        "mine = Benchmark('mine', scenarios=[Scenario(from_='other::first', threshold=0.5)])\n"
    )
    names: dict[str, benchjobs.Benchmark] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert [ref.id for ref in names["mine"].refs()] == ["first"]
    assert names["mine"].load("first").threshold == 0.5


ENTRY = Entry(
    name="kept", version="1", title="Kept", source="x:y", scenarios=1, licence="CC-BY-9", environment="none",
    scoring="none", confidential=True, files=[{"name": "a"}],
)  # fmt: skip


def test_a_benchmark_of_the_catalogue_keeps_its_licence_and_stays_confidential(
    lender: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lookup, "find", lambda self, text: ENTRY if text == "kept@1" else None)
    source = manifest(tmp_path, "- from: kept@1::first")
    assert told(source) == [
        (4, "scenarios[0].from: kept@1 is not on this machine; run: benchjobs benchmarks fetch kept@1")
    ]
    monkeypatch.setattr("pytest_benchjobs.sources.lending.trouble", lambda entry: None)
    monkeypatch.setattr(Entry, "sources", lambda self: (Confidential(Manifest(lender)),))
    assert [ref.id for ref in source.refs()] == ["first"]
    assert source.confidential
    found = source.load("first")
    assert found.confidential
    assert (found.metadata["licence"], found.metadata["borrowed_from"]) == ("CC-BY-9", "lender@2::first")


def test_the_schema_knows_borrowed_scenarios() -> None:
    schema = benchmark_schema()
    good = {"benchmark": "a", "scenarios": [{"from": "b::c", "threshold": 0.5}]}
    jsonschema.validate(good, schema)
    for wrong in ({"from": 3}, {"from": "b::c", "image": "x"}, {"threshold": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"benchmark": "a", "scenarios": [wrong]}, schema)


def test_a_benchmark_of_the_project_lends_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    place = tmp_path / "benchmarks"
    (place / "deep").mkdir(parents=True)
    (place / "in.txt").write_text("x")
    # One that the catalogue has, too, and one whose name cannot be read.
    (place / "l.bench.yaml").write_text(LENDER.replace("benchmark: lender", "benchmark: gpqa-diamond"))
    (place / "wrong.bench.yaml").write_text("benchmark: [1]\nscenarios: [{from: 'gpqa-diamond::first'}]\n")
    source = manifest(place / "deep", "- from: gpqa-diamond::first\n- {from: 'gpqa::first', id: b}")
    ((line, message),) = told(source)
    assert (line, message.split(" is not on")[0]) == (5, "scenarios[1].from: gpqa-diamond@1")
    source = manifest(place / "deep", "- from: gpqa-diamond::first")
    assert source.load("first").metadata["borrowed_from"] == "gpqa-diamond@2::first"
    monkeypatch.chdir(tmp_path)
    (hidden,) = finder_of().hiding()
    assert hidden.startswith(
        "gpqa-diamond is your own benchmark, benchmarks/l.bench.yaml, and hides gpqa-diamond@1"
    )
    assert not [*finder_of().hiding(["mine"])]
