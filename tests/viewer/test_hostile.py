"""Texts of agents in every page: nothing of them runs, and all can be read."""

from __future__ import annotations

import pytest

from tests.shares import share
from tests.unit.viewing import BEFORE, CODEX, HOSTILE, NOW_JOB
from tests.viewer.pages import Page, side_by_side

pytestmark = pytest.mark.slow

PAGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("jobs", {}),
    ("runs", {}),
    ("job", {"job": NOW_JOB}),
    ("compare", {"a": BEFORE, "b": NOW_JOB}),
    ("steps", side_by_side(BEFORE, NOW_JOB, CODEX)),
    ("scenario", {"benchmark": "texts", "scenario": "fix"}),
    ("trend", {"benchmark": "texts"}),
)
# Elements that only a text of an agent would make.
FOREIGN = "main script, main style, main base, main meta, main iframe, main b > b, main [onerror], main [onload], main a[href^='javascript:'], main a[href^='data:']"


def test_nothing_runs_in_any_page(page: Page, address: str) -> None:
    for name, parameters in PAGES:
        page.open(address, name, **parameters)
        assert page.run(f'document.querySelectorAll("{FOREIGN}").length') == 0, name
        assert page.run("document.querySelectorAll('h1').length") == 1, name
        assert not [asked for asked in page.asked if not asked.startswith((address, "about:", "data:"))]


def readable(text: str) -> str:
    """The part of a text that is left when what cannot be seen is taken away."""
    for invisible in ("\u202e", "\u202c", "\ufeff", "\x07", "\x1b[31m", "\x1b[0m", "\x1b]0;title"):
        text = text.replace(invisible, "")
    return text.split("\u2028")[0]


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(share(HOSTILE, 6), id="share"),
        pytest.param(set(HOSTILE), id="all", marks=pytest.mark.extended),
    ],
)
def test_addresses_that_users_are_sent_run_nothing(page: Page, address: str, texts: set[str]) -> None:
    for text in HOSTILE:
        if text in texts and "\x1b" not in text and "\u202e" not in text:
            page.open(address, "runs", q=text, benchmark=text)
    for text in HOSTILE[:3]:
        page.open(address, text)
    assert not [said for said in page.wrong if said.startswith(("dialog", "error"))]
    assert page.run(f'document.querySelectorAll("{FOREIGN}").length') == 0
    page.wrong = [said for said in page.wrong if not said.startswith(("4", "console: Failed to load"))]
