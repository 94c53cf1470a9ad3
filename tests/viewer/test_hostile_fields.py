"""Texts of an agent in every field that it can reach, in every page and export: nothing runs, and all is readable."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.viewer.export import Export
from pytest_benchjobs.viewer.results import Results
from tests.shares import share
from tests.unit.hostile import AGENT, BEFORE, JOB, SHOWN, make_hostile
from tests.unit.jobs import run
from tests.unit.viewing import HOSTILE
from tests.viewer.pages import Page, side_by_side
from tests.viewer.serving import serving
from tests.viewer.test_hostile import FOREIGN, readable
from tests.viewer.test_report import go, opened

pytestmark = pytest.mark.slow
# Characters that turn the text around them, and those that terminals obey.
UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Results, and the node id of the trial of each text."""
    directory = tmp_path_factory.mktemp("hostile")
    return directory, make_hostile(directory)


@pytest.fixture(scope="module")
def served(place: tuple[Path, list[str]]) -> Iterator[str]:
    """The viewer of these results."""
    with serving(place[0]) as address:
        yield address


def check(page: Page, shown: str, number: int) -> None:
    """Fail if a text is missing, is anything but text, or turns the page around."""
    text = readable(HOSTILE[number])
    missing = [
        field
        for field in SHOWN
        if f"{field} {text}" not in shown and f"{field} {json.dumps(text)[1:-1]}" not in shown
    ]
    assert missing == [], HOSTILE[number]
    assert UNSEEN.findall(shown) == []
    assert page.run(f'document.querySelectorAll("{FOREIGN}").length') == 0, HOSTILE[number]


# Lists have all texts at once. Of pages that are about one trial, some are looked at each day.
ALL = range(len(HOSTILE))
NUMBERS = [
    pytest.param(share(ALL, 6), id="share"),
    pytest.param(set(ALL), id="all", marks=pytest.mark.extended),
]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_in_every_page(page: Page, served: str, place: tuple[Path, list[str]], numbers: set[int]) -> None:
    for number in sorted(numbers):
        node_id = place[1][number]
        page.open(served, "trial", job=JOB, id=node_id)
        check(page, page.unfold(), number)
        page.open(served, "steps", **side_by_side(BEFORE, JOB, AGENT, f"s{number:02}"))
        shown = page.run("document.querySelector('main').textContent")
        assert f"21 {readable(HOSTILE[number])}" in shown
        assert UNSEEN.findall(shown) == []
        assert page.run(f'document.querySelectorAll("{FOREIGN}").length') == 0
    for name, parameters in (
        ("job", {"job": JOB}),
        ("compare", {"a": BEFORE, "b": JOB}),
        ("scenario", {"benchmark": "texts", "scenario": "s00"}),
        ("jobs", {}),
        ("runs", {}),
    ):
        page.open(served, name, **parameters)
        shown = page.run("document.querySelector('main').textContent")
        assert UNSEEN.findall(shown) == [], name
        if name in ("job", "compare"):
            assert [text for text in HOSTILE if readable(text) not in shown] == [], name
        assert page.run(f'document.querySelectorAll("{FOREIGN}").length') == 0, name


@pytest.mark.parametrize("numbers", NUMBERS)
def test_in_a_report(
    browser: Browser, place: tuple[Path, list[str]], tmp_path: Path, numbers: set[int]
) -> None:
    path = tmp_path / "report.html"
    with HistoryReader.of(place[0]) as history:
        Export("html", Results(place[0]), history, [BEFORE, JOB]).write(path)
    with opened(browser, offline=True) as page:
        for number in sorted(numbers):
            go(page, path.as_uri(), "trial", job=JOB, id=place[1][number])
            check(page, page.unfold(), number)


def test_in_tables_of_other_programs(
    place: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("csv", "jsonl", "rl"):
        assert run("export", JOB, "--format", kind, "--dir", place[0]) == 0
        said = capsys.readouterr().out
        if kind == "csv":
            rows = list(csv.reader(io.StringIO(said)))
            cells = [cell for row in rows[1:] for cell in row]
            assert len(rows) == 1 + len(HOSTILE)
            assert {len(row) for row in rows} == {len(rows[0])}
            assert [cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.]+$)", cell)] == []
        else:
            assert len([json.loads(line) for line in said.splitlines()]) == len(HOSTILE)
            assert UNSEEN.findall(said) == []


def test_in_the_seeds_document_and_the_terminal(
    place: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "viewer_data.json"
    assert run("export-viewer-data", "--dir", place[0], "--out", out) == 0
    assert len(json.loads(out.read_text())["runs"]) == 2
    capsys.readouterr()
    for number, node_id in enumerate(place[1]):
        assert run("show", node_id, "--job", JOB, "--dir", place[0]) == 0
        said = capsys.readouterr().out
        assert f"1 {readable(HOSTILE[number])}" in said
        assert UNSEEN.findall(said) == [], HOSTILE[number]
