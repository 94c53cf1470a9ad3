"""TOML of others is read within bounds: what would take minutes is refused before it is parsed."""

from __future__ import annotations

import datetime
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_benchjobs.agents.description import read_description
from pytest_benchjobs.gateway.prices import load_prices
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.settings.files import read_job_file
from pytest_benchjobs.settings.high_scores import read_high_scores
from pytest_benchjobs.settings.known import read_known
from pytest_benchjobs.sources import documents
from pytest_benchjobs.sources.catalogue.entry import entry_at
from pytest_benchjobs.sources.documents import SETTINGS_BYTES, read_document, read_text
from pytest_benchjobs.sources.harbor import HarborTask
from pytest_benchjobs.sources.plain import MAX_DEPTH
from pytest_benchjobs.sources.toml_data import load_toml, toml_lines

DEEP = 50_000
KEYS = {
    "bare": ".".join("a" * DEEP) + " = 1",
    "spaced": " . ".join("a" * DEEP) + " = 1",
    "quoted": ".".join(["'a b'", '"c\\" d"'] * DEEP) + " = 1",
    "header": "[" + ".".join("a" * DEEP) + "]",
    "tables": "[[" + ".".join("a" * DEEP) + "]]",
    "inline": "x = {" + ".".join("a" * DEEP) + " = 1}",
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_of_many_parts_is_refused_unparsed(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tomllib, "loads", lambda text: pytest.fail("it is parsed"))
    path = tmp_path / "task.toml"
    path.write_text(f"\n\n{key}\n")
    for read in (
        lambda: read_document(path, keys="x.md"),
        lambda: HarborTask(tmp_path).refs(),
        lambda: load_prices(path),
        lambda: read_high_scores(path),
    ):
        with pytest.raises(InputError, match="nested too deeply") as raised:
            read()
        assert "3" in str(raised.value)


@pytest.mark.parametrize("value", ["[" * DEEP, "{a=" * DEEP])
def test_a_value_that_is_nested_too_deeply_is_an_error(value: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"x = {value}")
    for read in (lambda: read_document(path, keys="x.md"), lambda: load_prices(path)):
        with pytest.raises(InputError, match="nested too deeply"):
            read()


READERS: dict[str, Callable[[Path], object]] = {
    "job.json": read_job_file,
    "job.toml": read_job_file,
    "job.yaml": read_job_file,
    "a.agent.toml": read_description,
    "known.toml": lambda path: read_known(path, "known.toml", datetime.date(2026, 1, 1)),
    "prices.toml": load_prices,
    "high.json": read_high_scores,
    "our.benchmark.toml": entry_at,
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_of_settings_has_a_size(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_text("# " + "x" * SETTINGS_BYTES)
    with pytest.raises(InputError, match=rf"{re.escape(name)}: is larger than {SETTINGS_BYTES} bytes"):
        READERS[name](path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=rf"{re.escape(name)}: cannot be read: it is not a file"):
        READERS[name](path)


def test_a_file_has_so_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUES", 100)
    path = tmp_path / "x.toml"
    path.write_text("x = [" + "1," * 200 + "]")
    with pytest.raises(InputError, match="has more than 100 values"):
        read_document(path, keys="x.md")


@pytest.mark.parametrize(
    "text", ['""""a" ""b"""""', "''''a' ''b'''''", '"""a\\"""\n"""', '"\\\\"', "''", '"#"']
)
def test_texts_end_where_tomllib_says(text: str) -> None:
    assert toml_lines(f"a = {text}\nb = 1\n")[("b",)] == 2 + text.count("\n")
    tomllib.loads(f"a = {text}\nb = 1\n")


def test_dots_in_values_are_no_keys() -> None:
    numbers = ", ".join(["0.1"] * 1000)
    dots = "." * 1000
    words = ". ".join(["A whole sentence"] * 1000)
    key = ".".join("a" * (MAX_DEPTH - 1))
    text = f"numbers = [{numbers}]\ndots = '{dots}' # {dots}\nwords = '''\n{words}\n'''\n{key} = 1\n"
    assert load_toml(text) == tomllib.loads(text)


@pytest.mark.parametrize(("content", "line"), [(b"\xff", 1), (b"\n\xff", 2), (b"a = 1\n\n# \xff\n\n", 3)])
def test_what_is_no_utf_8_is_refused_with_its_line(tmp_path: Path, content: bytes, line: int) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not UTF-8 text") as caught:
        read_text(path)
    assert caught.value.line == line


def test_a_file_may_be_as_long_as_its_limit_and_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xef\xbb\xbf12")
    assert read_text(path, limit=5) == "12"
    with pytest.raises(InputError, match="is larger than 4 bytes"):
        read_text(path, limit=4)
    with pytest.raises(InputError, match="it is not a file"):
        read_text(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_text(tmp_path / "none")
