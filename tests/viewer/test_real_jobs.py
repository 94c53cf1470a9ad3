"""Every page over jobs that really ran, in real containers: nothing in the console, no request that fails."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from json import loads
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.docker.conftest import engine
from tests.viewer.pages import Page
from tests.viewer.real_jobs import RealJobs, real_jobs
from tests.viewer.serving import serving
from tests.viewer.test_report import go, opened

__all__ = ["engine"]
pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.when_changed("viewer")]


@pytest.fixture(scope="module")
def jobs(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealJobs]:
    with real_jobs(tmp_path_factory.mktemp("real")) as jobs:
        yield jobs


@pytest.fixture(scope="module")
def real(jobs: RealJobs) -> Iterator[str]:
    with serving(jobs.directory) as address:
        yield address


def _trials(address: str, job: str) -> list[str]:
    with urllib.request.urlopen(f"{address}api/jobs/{quote(job)}/matrix") as answer:
        return list(loads(answer.read())["trials"]["id"])


def _of(address: str, job: str, scenario: str, agent: str) -> str:
    return next(one for one in _trials(address, job) if f"::{scenario}[{agent}" in one)


def test_lists_tell_the_four_jobs_apart(page: Page, real: str, jobs: RealJobs) -> None:
    page.open(real)
    for said in (jobs.first, jobs.gated, jobs.died, jobs.runs, "✗ regressed", "died", "running", "completed"):
        assert said in page.text
    page.open(real, "runs")
    assert page.text.count("solver") >= 2


def test_gated_job_shows_what_the_terminal_said(page: Page, real: str, jobs: RealJobs) -> None:
    page.open(real, "job", job=jobs.gated)
    assert "regressed" in page.page.text_content("pre.verdict")
    assert page.page.query_selector("svg.interval") is not None
    page.open(real, "compare", a="main", b=jobs.gated)
    assert "✗ broke" in page.text
    verdict = "section[aria-label='Verdict by benchmark and agents'] tbody"
    cells = [cell.inner_text() for cell in page.page.query_selector_all(f"{verdict} td")]
    assert cells[:3] == ["quickstart\nsolver", "0.829 \N{RIGHTWARDS ARROW} 0.360", "\N{MINUS SIGN}46.9 pp"]
    assert re.fullmatch(r"\u2212\d+\.\d pp to \u2212\d+\.\d pp", cells[4].strip())
    assert 0 < float(cells[5]) < 0.05
    assert (cells[3], cells[6], cells[7]) == ("A", "8", "none")
    drawn = page.page.query_selector(f"{verdict} svg.interval")
    assert drawn is not None
    label = str(drawn.get_attribute("aria-label")).replace("\N{MINUS SIGN}", "-")
    assert re.fullmatch(r"change -0\.469, interval -0\.\d{3} to -0\.\d{3}", label)


def test_report_of_the_gate_opens_from_disk_without_a_network(
    browser: Browser, jobs: RealJobs, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    program = str(Path(sys.executable).with_name("benchjobs"))
    words = [program, "export", jobs.first, jobs.gated, "--format", "html", "--out", str(report)]
    subprocess.run(
        [*words, "--dir", str(jobs.directory)], check=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    with opened(browser, offline=True) as page:
        go(page, report.as_uri(), "job", job=jobs.gated)
        assert "regressed: mean" in page.page.text_content("pre.verdict")
        page.page.click("a.mark.is-failed")
        page.page.wait_for_selector("h2 >> text=Why it failed")
        page.page.goto(f"{report.as_uri()}#?page=compare&a={jobs.first}&b={jobs.gated}")
        page.page.wait_for_selector("svg.pair")


def test_every_trial_of_the_first_job(page: Page, real: str, jobs: RealJobs) -> None:
    trials = _trials(real, jobs.first)
    assert len(trials) == 48
    for trial in trials[::6]:
        page.open(real, "trial", job=jobs.first, id=trial)
        assert "Timeline" in page.text, page.text
        assert "Scorers" in page.text, page.text


def test_steps_of_two_trajectories_side_by_side_and_played_back(
    page: Page, real: str, jobs: RealJobs
) -> None:
    page.open(real, "compare", a="main", b=jobs.gated, a_agent="solver", b_agent="solver")
    page.page.click("a[aria-label='Steps of access-log side by side']")
    page.page.wait_for_selector("h1 >> text=Steps of access-log")
    page.drawn()
    for said in (
        "A: solver",
        "B: solver",
        "= identical",
        "≠ different",
        "A only",
        "I read the task first.",
        "slowest.txt",
        "ls -a",
    ):
        assert said in page.text, said
    page.page.click("text=Play back")
    page.page.wait_for_selector(".playback")
    page.page.click("text=Next difference")
    page.until("document.querySelector('.playback output').textContent.includes('step 2 of')")
    assert "ls -a" in page.page.inner_text(".playback")
    page.open(real, "trial", job=jobs.first, id=_of(real, jobs.first, "access-log", "solver"))
    page.page.fill("section[aria-label=Steps] input[type=search]", "server-errors")
    page.page.press("section[aria-label=Steps] input[type=search]", "Enter")
    page.page.wait_for_selector("text=that contain it")
    found = page.page.inner_text("section[aria-label=Steps]")
    assert "wc -l > server-errors.txt" in found
    assert "sort -k11,11" not in found


def test_scenario_and_trend_have_what_both_jobs_found(page: Page, real: str, jobs: RealJobs) -> None:
    page.open(real, "scenario", benchmark="quickstart", scenario="access-log")
    assert jobs.gated in page.text
    assert "flaky" in page.text  # the solver passed in one job, and failed in the other
    page.open(real, "trend", benchmark="quickstart", agent="solver", by="day")
    assert page.page.query_selector("svg.trend") is not None
    assert "solver" in page.page.inner_text("section[aria-label=Figures]")


def test_job_that_runs_is_live(page: Page, real: str, jobs: RealJobs) -> None:
    page.open(real, "live", job=jobs.runs)
    page.page.wait_for_selector("h2 >> text=Running now")
    page.page.wait_for_selector("td >> text=agent")
    page.page.click("section[aria-label='Running now'] a")
    page.page.wait_for_selector("h1")
    page.until("location.search.includes('page=trial')")
    page.drawn()
    assert "running" in page.text


def test_job_that_died_says_so(page: Page, real: str, jobs: RealJobs) -> None:
    page.open(real, "job", job=jobs.died)
    assert page.page.inner_text(".lead") == "! died"
