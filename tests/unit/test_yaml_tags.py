"""Tags of YAML: those that say what is there anyway are read, all others are an error with their line, and none acts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.agents.description import read_description
from pytest_benchjobs.model.errors import InputError, InputErrors
from pytest_benchjobs.settings.files import read_job_file
from pytest_benchjobs.sources.complaints import Complaints
from pytest_benchjobs.sources.documents import read_document


def _read(directory: Path, text: str) -> object:
    path = directory / "a.yaml"
    path.write_text(text)
    document = read_document(path, keys="manifest.md")
    Complaints(document).raise_errors()
    return document.data


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("!!str 3", "3"),
        ("!!str true", "true"),
        ("!!seq [1, 2]", [1, 2]),
        ("!!map {a: 1}", {"a": 1}),
        ("!<tag:yaml.org,2002:str> x", "x"),
        ("&a !!str 0x1", "0x1"),
    ],
)
def test_a_tag_that_says_what_is_there_anyway_is_read(tmp_path: Path, written: str, read: object) -> None:
    assert _read(tmp_path, f"value: {written}\n") == {"value": read}


FOREIGN = (
    *("!!python/object/apply:os.system [touch here]", "!!python/name:os.system", "!!python/tuple [1]"),
    *("!!python/object/new:os.system [touch here]", "!!python/module:os", "!!python/dict {a: b}"),
    *("!!binary aGk=", "!!int '3'", "!!float 1", "!!bool yes", "!!null x", "!!timestamp 2026-11-22"),
    *("!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "!mine x", "!mine [x]", "!mine {x: y}", "!<x:y> z"),
    *("!!seq {a: b}", "!!map [a]", "!!str [a]", "!!str {a: b}", "!!seq a", "!!map a", "&a !!int 3", "! [a]"),
    *("!vault |\n    secret", "!include other.yaml", "!env HOME"),
)


@pytest.mark.parametrize("written", FOREIGN)
def test_any_other_tag_is_an_error_with_its_line_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for text, line in ((f"a: 1\nvalue: {written}\n", 2), (f"a: 1\nb: 2\nlist:\n  - {written}\n", 4)):
        with pytest.raises(
            (InputError, InputErrors), match=rf"a\.yaml:{line}: .*tag.*not supported; remove it"
        ):
            _read(tmp_path, text)
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("key", ["!!python/name:os.system x", "!mine x", "!!int 3", "!!binary aGk="])
def test_a_key_is_no_place_for_a_tag_either(tmp_path: Path, key: str) -> None:
    with pytest.raises((InputError, InputErrors), match=r"a\.yaml:2: .*tag.*not supported"):
        _read(tmp_path, f"a: 1\n{key}: value\n")


@pytest.mark.parametrize("read", [read_description, read_job_file])
def test_other_files_are_read_the_same_way(tmp_path: Path, read: object) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: !!python/name:os.system x\n")
    assert callable(read)
    with pytest.raises((InputError, InputErrors), match=r"a\.yaml:1: .*tag.*not supported"):
        read(path)
