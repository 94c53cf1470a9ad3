"""The catalogue: its entries, and the names people type."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.sources.catalogue import entries, find
from pytest_benchjobs.sources.catalogue.entry import Entry, load, read_entry
from pytest_benchjobs.sources.catalogue.fetching import fetch
from pytest_benchjobs.sources.catalogue.kept import opened, trouble
from pytest_benchjobs.sources.catalogue.lookup import Lookup
from pytest_benchjobs.sources.catalogue.verdicts import keep_verdicts, read_verdicts

TEXT = """
name = "ours"
version = "1"
title = "Ours"
source = "pytest_benchjobs.sources.datasets.aime:sources"
scenarios = 1
licence = "MIT"
environment = "none"
scoring = "exact"

[[files]]
name = "rows.jsonl"
"""
FILES = '[[files]]\nname = "rows.jsonl"'
COMES = 'bundled = "pytest_benchjobs.sources:samples/replay"\n'
BUNDLED = TEXT.replace(FILES, COMES)


def test_every_entry_can_be_opened_and_no_two_share_a_name() -> None:
    names = [name.lower() for entry in entries() for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))
    for entry in entries():
        assert find(entry.name) == entry
        assert all(find(alias) == entry for alias in entry.aliases)
        assert callable(load(entry.source))


def listed(name: str) -> Entry:
    entry = find(name)
    assert entry is not None
    return entry


def test_people_find_an_entry_by_what_they_type_and_none_by_another_name_or_version() -> None:
    for typed in ("aime", "AIME", "aime@2024-2025", "aime_2024_2025", "AIME 2024-2025"):
        assert listed(typed).name == "aime"
    for typed in ("aim", "aime@2023", "", "@"):
        assert find(typed) is None


def test_an_entry_of_a_user_is_read() -> None:
    entry = read_entry(TEXT, "ours.toml")
    assert (entry.name, entry.attempts, entry.files[0].url) == ("ours", 1, None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[files]]", "[[files]", "not valid TOML"),
        ("scenarios = 1", "scenarios = 'many'", "scenarios: "),
        ("scenarios = 1", "scenarios = 1\nscenario = 2", "scenario: unknown key"),
        (FILES, "", "its origin is missing"),
        ("datasets.aime:sources", "datasets.aime", "source: 'pytest_benchjobs.sources.datasets.aime' does not match"),
        # What comes with a package
        ("[[files]]", f"{COMES}[[files]]", "what is `bundled` is not fetched"),
        (FILES, f'{COMES}prepare = "a:b"', "what is `bundled` is not fetched"),
        (FILES, 'bundled = "a:../b"', "a relative path without '..' is expected"),
        (FILES, 'bundled = "a"', "bundled: "),
    ],
)  # fmt: skip
def test_a_wrong_entry_says_what_and_where(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=r"ours\.toml:(\d+:)? ") as caught:
        read_entry(TEXT.replace(old, new), "ours.toml")
    assert message in str(caught.value)


def test_an_entry_whose_files_come_with_a_package_is_there_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path))
    entry = read_entry(BUNDLED, "")
    assert (trouble(entry), opened(entry).name) == (None, "replay")
    assert fetch(entry, print, force=True) is False
    with pytest.raises(InputError, match=r"ours@1 comes with the package, in .*; to change it, copy it"):
        fetch(entry, print, given=tmp_path)
    keep_verdicts(entry, {"one": "ok"})
    verdicts = read_verdicts(entry)
    assert verdicts is not None
    assert verdicts.verdicts == {"one": "ok"}
    gone = read_entry(BUNDLED.replace("samples/replay", "samples/gone"), "")
    with pytest.raises(InputError, match=r"ours@1 is missing from its package; install the package again"):
        opened(gone, lambda _: None)
    with pytest.raises(InputError, match=r"the files of ours@1 come with no\.such: No module named 'no'"):
        opened(read_entry(BUNDLED.replace("pytest_benchjobs.sources:samples", "no.such:samples"), ""))


def test_manifests_that_come_with_a_package_are_of_their_entry(tmp_path: Path) -> None:
    entry = listed("code-matrix")
    with pytest.raises(InputError, match="there is no"):
        entry.sources(tmp_path)
    (tmp_path / "a.bench.yaml").write_text("benchmark: other\nversion: '1'\nscenarios: [{id: a}]\n", "utf-8")
    with pytest.raises(InputError, match="is of other@1, and not of code-matrix@1"):
        entry.sources(tmp_path)


@pytest.mark.parametrize(
    "name", ["code-matrix", "research-matrix", "replay-scoring-sample", "orchestrator-lifecycle"]
)
def test_what_comes_with_the_package_has_as_many_scenarios_as_its_entry_says(name: str) -> None:
    entry = listed(name)
    scenarios = [source.load(ref.id) for source in entry.sources() for ref in source.refs()]
    assert len(scenarios) == entry.scenarios
    if entry.agent is None:
        assert all(scenario.has_reference and scenario.requires.capabilities for scenario in scenarios)


def test_the_example_grades_as_the_code_matrix_does() -> None:
    entry = listed("code-matrix")
    examples = Path(__file__).parents[2] / "conftest_examples" / "code-matrix"
    for path in ("grading/grade.py", "image/Dockerfile"):
        assert (examples / path).read_bytes() == (entry.place / path).read_bytes()


def test_an_entry_of_a_user_is_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "ours.benchmark.toml").write_bytes(b'name = "ours"\ntitle = "\xfc"\n')
    with pytest.raises(InputError, match=r"ours\.benchmark\.toml:2: is not UTF-8 text; save it as UTF-8"):
        Lookup([tmp_path])
    (tmp_path / "ours.benchmark.toml").write_text(f"\ufeff{TEXT}", "utf-8")
    assert Lookup([tmp_path]).find("Ours@1") == read_entry(TEXT, "ours.toml")


def test_all_of_a_confidential_benchmark_is_confidential(tmp_path: Path) -> None:
    (tmp_path / "test2024.jsonl").write_text('{"id": 60, "problem": "1+1?", "answer": "2"}\n', "utf-8")
    for said in (True, False):
        text = TEXT.replace("scenarios = 1", f"scenarios = 1\nconfidential = {str(said).lower()}")
        (source,) = read_entry(text, "").sources(tmp_path)
        assert source.load("aime-2024-60").confidential is said
        assert (source.benchmark, source.path.name, len(source.refs())) == ("ours", "test2024.jsonl", 1)


def test_an_entry_whose_module_is_gone_says_so() -> None:
    entry = read_entry(TEXT.replace("datasets.aime:sources", "datasets.gone:sources"), "ours.toml")
    with pytest.raises(InputError, match=r"datasets\.gone:sources cannot be loaded"):
        entry.sources(Path())
