"""Files, logs and commands of a trial in the browser: views by kind, downloads, earlier parts, copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route

from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.layout import TrialLayout
from tests.support import until
from tests.unit.viewing import NOW_JOB, PIXEL, Made, make
from tests.viewer.pages import Page
from tests.viewer.serving import serving

pytestmark = pytest.mark.slow
LINES = 20_000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Made]]:
    """A trial with a log of several parts."""
    made = make(tmp_path_factory.mktemp("long"))
    place = next(
        one.path for one in JobBundle(made.directory, NOW_JOB).results() if one.node_id == made.trials["fix"]
    )
    log = TrialLayout(JobBundle(made.directory, NOW_JOB).root / place).agent_log
    log.write_text("".join(f"line {number} é\n" for number in range(1, LINES + 1)), "utf-8")
    with serving(made.directory) as address:
        yield address, made


@pytest.fixture
def trial(page: Page, long: tuple[str, Made]) -> Page:
    """The page of that trial."""
    address, made = long
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
    return page


def test_a_patch_is_shown_line_by_line_and_an_image_as_one(trial: Page) -> None:
    trial.page.click('button[aria-label="Show artifacts/change.patch"]')
    trial.page.wait_for_selector("pre.diff")
    assert trial.page.inner_text("pre.diff .removed >> nth=-1").strip() == "-1"
    assert trial.page.inner_text("pre.diff .added >> nth=-1").strip() == "+2"
    trial.page.click('button[aria-label="Show artifacts/pixel.png"]')
    trial.page.wait_for_selector(".files img[alt='artifacts/pixel.png']")
    trial.until("document.querySelector('.files img').naturalWidth === 1")
    button = trial.page.locator('button[aria-label="Hide artifacts/pixel.png"]')
    assert (button.inner_text(), button.get_attribute("aria-expanded")) == ("Hide", "true")
    button.click()
    trial.until("document.querySelector('.files img') === null")
    assert trial.page.query_selector('button[aria-label="Show artifacts/data.bin"]') is None


def test_a_file_is_downloaded_as_it_is(trial: Page, tmp_path: Path) -> None:
    for path, content in (("artifacts/pixel.png", PIXEL), ("artifacts/data.bin", bytes(range(256)) * 8)):
        with trial.page.expect_download() as download:
            trial.page.click(f'a[aria-label="Download {path}"]')
        there = tmp_path / "file"
        download.value.save_as(there)
        assert there.read_bytes() == content
        assert download.value.suggested_filename == Path(path).name


@pytest.mark.when_changed("viewer")
def test_earlier_parts_of_a_log_come_before_what_is_there(trial: Page) -> None:
    trial.until(f"document.querySelector('pre.log').textContent.includes('line {LINES} é')")
    trial.page.wait_for_selector("text=the last 65.5 kB of")
    clicks = 0
    while trial.page.is_visible("text=Earlier part"):
        before = trial.run("document.querySelector('pre.log').textContent.length")
        trial.page.click("text=Earlier part")
        trial.until(f"document.querySelector('pre.log').textContent.length > {before}")
        clicks += 1
    assert clicks == 4
    lines = trial.run("document.querySelector('pre.log').textContent.split('\\n')")
    assert lines == [*(f"line {number} é" for number in range(1, LINES + 1)), ""]


@pytest.mark.when_changed("viewer")
def test_words_that_are_only_typed_yet_search_nothing(page: Page, long: tuple[str, Made]) -> None:
    """Answers that come meanwhile are of what was asked."""
    address, made = long
    held: list[Route] = []
    page.page.route("**/steps?**", lambda route: held.append(route))
    page.page.route("**/log?**", lambda route: held.append(route))
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
    for form in ("Search the steps", "Search the log"):
        page.page.locator("form", has_text=form).locator("input").fill("line 1999")
    # Requests are told to whoever waits for something of the page.
    until(lambda: page.page.wait_for_timeout(20) or len(held) == 2)
    for route in held:
        route.continue_()
    page.page.wait_for_selector("article.step")
    page.page.wait_for_selector("text=the last 65.5 kB of")
    assert "contain it" not in page.text
    page.page.unroute_all()
    for form in ("Search the steps", "Search the log"):
        page.page.locator("form", has_text=form).locator("input").press("Enter")
    page.page.wait_for_selector("text=0 of 0 steps that contain it")
    page.page.wait_for_selector("text=11 lines contain it")
    # What the address asks for is searched at once, in all of the log, and shown alone.
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"], log_q="line 7 ")
    page.until("document.querySelector('pre.log').textContent === 'line 7 é'")
    page.page.wait_for_selector("text=1 line contains it")


@pytest.mark.when_changed("viewer")
def test_weights_are_those_of_the_manifest(trial: Page, long: tuple[str, Made]) -> None:
    _, made = long
    result = next(
        one for one in JobBundle(made.directory, NOW_JOB).results() if one.node_id == made.trials["fix"]
    )
    weights = trial.run(
        "[...document.querySelectorAll('section[aria-label=Scorers] tbody tr')].map((row) => row.cells[3].textContent)"
    )
    assert weights == [f"{scorer.weight:g}" for scorer in result.scorers]


@pytest.mark.when_changed("viewer")
def test_a_command_is_copied(trial: Page) -> None:
    trial.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    item = trial.page.locator(".commands li").first
    item.locator("button").click()
    trial.until("document.getElementById('said').textContent === 'Copied'")
    copied = trial.run("navigator.clipboard.readText()")
    assert copied == item.locator("code").inner_text()
    assert copied.startswith(("benchjobs ", "pytest "))
