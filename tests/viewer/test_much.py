"""Pages of much: several attempts in a cell, and trajectories of more than one answer."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.agents.reading.trajectory import Trajectory
from pytest_benchjobs.model.result import Signature
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.layout import TrialLayout
from tests.unit.jobs import ended, make_job
from tests.unit.records import NOW
from tests.viewer.pages import Page, side_by_side
from tests.viewer.serving import serving

pytestmark = [pytest.mark.slow, pytest.mark.when_changed("viewer")]
ONE, OTHER = "20261121-080000-aaaaaa", "20261121-090000-bbbbbb"
STEPS, UNLIKE = 130, 120


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two jobs with three attempts, whose first trajectories differ in one late step."""
    directory = tmp_path_factory.mktemp("much")
    for job, word in ((ONE, "same"), (OTHER, "other")):
        make_job(directory, job, {"oracle": {"count": "PFP", "fix": "PPP"}})
        root = JobBundle(directory, job).root
        for result in JobBundle(directory, job).results():
            with TrialLayout(root / result.path).trajectory.open("wb") as file:
                trajectory = Trajectory(file, "codex", "0.50", "gpt-5")
                for number in range(1, STEPS + 1):
                    source = "user" if number % 2 else "agent"
                    trajectory.say(source, f"step {number} {word if number == UNLIKE else ''}")
                trajectory.finish(None, None)
    with serving(directory) as address:
        yield address


def test_a_changed_content_is_marked_and_no_flip(page: Page, tmp_path: Path) -> None:
    for day, (letter, content) in enumerate((("P", "one"), ("F", "other"), ("P", "other"))):
        signature = Signature(value=content, parts={"scenario": content})
        at = NOW + datetime.timedelta(days=day)
        result = ended(letter, signature=signature, started_at=at, finished_at=at)
        make_job(tmp_path, f"2026112{day}-080000-aaaaaa", [result], hours_ago=80 - 24 * day)
    with serving(tmp_path) as address:
        page.open(address, "scenario", benchmark="texts", scenario="count")
        rows = page.page.query_selector_all("[role=grid] tbody tr")
        assert ["changed" in row.inner_text() for row in rows] == [False, True, False]
        assert len(page.page.query_selector_all(".strip .new-content")) == 1
        cells = [one.inner_text() for one in page.page.query_selector_all("section[aria-label=Agents] td")]
        # It failed with the new content first, and passed with the same one: that is a flip, the change is none.
        assert cells[8:10] == ["\N{WARNING SIGN} flaky, 1 flip", "2"]


def test_several_attempts_have_estimates_and_flaky_scenarios(page: Page, served: str) -> None:
    page.open(served, "job", job=ONE)
    rows = page.page.query_selector_all("section[aria-label='Several attempts'] tr")
    head, values = [[cell.inner_text() for cell in row.query_selector_all("th, td")] for row in rows]
    assert head == ["Agent", "pass@1", "pass@2", "pass@3", "pass^2", "pass^3", "Flaky scenarios"]
    # Two of three attempts, and three of three: a pair of the first has at least one that passed, and one of three both.
    assert values == ["oracle", "0.833", "1.000", "1.000", "0.667", "0.500", "1 of 2"]
    page.page.set_viewport_size({"width": 390, "height": 900})
    assert [cell.inner_text() for cell in rows[0].query_selector_all("th") if cell.is_visible()] == [
        "Agent", "pass@1", "pass@3", "pass^3", "Flaky scenarios",
    ]  # fmt: skip
    page.page.click("summary >> text=1 flaky scenario")
    page.page.wait_for_selector("details[open] code >> text=count")


def test_each_attempt_is_reached_by_keyboard(page: Page, served: str) -> None:
    page.open(served, "job", job=ONE)
    page.page.focus("[role=grid] a[href*='page=scenario']")
    seen = []
    for _ in range(3):
        page.page.keyboard.press("ArrowRight")
        seen.append(page.run("document.activeElement.getAttribute('href')"))
    assert len(set(seen)) == 3
    assert all("page=trial" in href for href in seen)
    assert page.run("document.querySelectorAll('[role=grid] [tabindex=\"0\"]').length") == 1
    page.page.keyboard.press("ArrowLeft")
    assert page.run("document.activeElement.getAttribute('href')") == seen[1]
    page.page.keyboard.press("Enter")
    page.until("document.documentElement.dataset.ready === 'trial'")
    assert "#2" in page.text


def test_another_attempt_is_chosen_for_a_side(page: Page, served: str) -> None:
    page.open(served, "steps", **side_by_side(ONE, OTHER, "oracle"))
    assert "A: oracle #1" in page.text
    page.page.select_option("select[name=a_attempt]", label="#3 passed")
    page.page.wait_for_selector("h2 >> text=A: oracle #3")
    assert "B: oracle #1" in page.text
    assert "a_attempt=3" in page.page.url
    page.page.click("text=Play back")
    page.page.wait_for_selector(".playback")
    assert "a_attempt=3" in page.page.url


def test_playback_finds_a_late_step_whatever_the_hurry(page: Page, served: str) -> None:
    page.open(served, "steps", **side_by_side(ONE, OTHER, "oracle"), play="1")
    # The keys are as quick as the answers are slow.
    page.run("""() => {
        const range = document.querySelector('.playback input[type=range]');
        for (const step of [70, 90, 110]) { range.value = step; range.dispatchEvent(new Event('input')); }
    }""")
    page.until("document.querySelector('.playback output').textContent.includes('step 110 of')")
    assert "step 110" in page.run("document.querySelector('.playback .steps').textContent")
    page.page.click("text=Next difference")
    page.until(f"document.querySelector('.playback output').textContent.includes('step {UNLIKE} of')")
    shown = page.run("document.querySelector('.playback .steps').textContent")
    assert f"step {UNLIKE} same" in shown
    assert f"step {UNLIKE} other" in shown
    page.page.focus("main")
    page.page.keyboard.press(".")
    page.until(f"document.querySelector('.playback output').textContent.includes('step {UNLIKE + 1} of')")
