"""By keyboard alone, and as axe-core sees the pages."""

from __future__ import annotations

import json

import pytest

from tests.unit.viewing import BEFORE, NOW_JOB, Made
from tests.viewer.pages import Page
from tests.viewer.test_hostile import PAGES

pytestmark = [pytest.mark.slow, pytest.mark.when_changed("viewer")]


def focused(page: Page) -> str:
    return str(page.run("document.activeElement.textContent"))


def test_axe_finds_no_serious_fault(page: Page, address: str, made: Made, axe: str) -> None:
    found = []
    for scheme in ("light", "dark"):
        page.page.emulate_media(color_scheme=scheme)
        for name, parameters in (
            *PAGES,
            ("trial", {"job": NOW_JOB, "id": made.trials["fix"]}),
            ("live", {"job": BEFORE}),
            ("nowhere", {}),
        ):
            page.open(address, name, **parameters)
            # By the browser's own hand: the page's policy lets no script of others in.
            page.run(axe)
            faults = json.loads(
                page.run(
                    "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))"
                )
            )
            found += [
                f"{name} {scheme}: {fault['id']} {fault['help']}: {fault['nodes'][0]['html'][:200]}"
                for fault in faults
                if fault["impact"] in ("serious", "critical")
            ]
    page.forgive("404")  # of the page that is not there
    assert found == []


def test_grid_is_one_stop_and_arrows_move_in_it(page: Page, address: str) -> None:
    page.open(address)
    stops = page.run("document.querySelectorAll('[role=grid] [tabindex=\"0\"]').length")
    assert stops == 1
    page.page.focus('[role=grid] [tabindex="0"]')
    page.page.keyboard.press("ArrowDown")
    assert NOW_JOB in focused(page) or BEFORE in focused(page) or "cccccc" in focused(page)
    page.page.keyboard.press("End")
    page.page.keyboard.press("Home")
    first = focused(page)
    page.page.keyboard.press("ArrowDown")
    assert focused(page) != first
    page.page.keyboard.press("Enter")
    page.until("document.activeElement.id === 'main'")


def test_slash_goes_to_the_search(page: Page, address: str) -> None:
    page.open(address)
    page.page.keyboard.press("/")
    page.page.keyboard.type("oracle")
    page.page.keyboard.press("Enter")
    page.until("location.search.includes('q=oracle')")


def test_skip_link_is_first(page: Page, address: str) -> None:
    page.open(address)
    page.page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
