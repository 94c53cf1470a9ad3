"""Reports in a browser, from disk and with no network: every page, and nothing of an agent runs."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.viewer.export import Export, write_directory
from pytest_benchjobs.viewer.results import Results
from tests.unit.viewing import BEFORE, CODEX, HIDDEN, HOSTILE, NOW_JOB, PIXEL, Made
from tests.viewer.pages import Page
from tests.viewer.test_hostile import FOREIGN, PAGES, readable

pytestmark = pytest.mark.slow
JOBS = (BEFORE, NOW_JOB, HIDDEN)


@pytest.fixture(scope="module")
def file(made: Made, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report in one file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    with HistoryReader.of(made.directory) as history:
        Export("html", Results(made.directory), history, JOBS).write(path)
    return path.as_uri()


@pytest.fixture(scope="module")
def site(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a report of many files, as any web server has it."""
    directory = tmp_path_factory.mktemp("site") / "report"
    with HistoryReader.of(made.directory) as history:
        write_directory(Results(made.directory), history, JOBS, directory)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(directory))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def opened(browser: Browser, *, offline: bool) -> Iterator[Page]:
    context = browser.new_context(offline=offline)
    try:
        page = Page(context.new_page())
        yield page
        page.check()
    finally:
        context.close()


def go(page: Page, address: str, name: str, **parameters: str) -> None:
    """Open a page of a report: its state is behind `#`."""
    page.page.goto("about:blank")
    page.page.goto(f"{address}#?{urlencode({'page': name, **parameters})}")
    page.drawn()


def every_page(page: Page, address: str, made: Made) -> None:
    """Open each page, which has to be whole and to ask nobody else."""
    for name, parameters in (*PAGES, ("trial", {"job": NOW_JOB, "id": made.trials["fix"]})):
        go(page, address, name, **parameters)
        assert page.run("document.querySelectorAll('h1').length") == 1, name
        assert page.run("document.querySelectorAll('[role=alert]').length") == 0, name
        assert page.run(f'document.querySelectorAll("{FOREIGN}").length') == 0, name
    assert {asked for asked in page.asked if not asked.startswith((address, "about:", "data:"))} == set()


def test_every_page_of_one_file_opens_from_disk_without_a_request(
    browser: Browser, file: str, made: Made
) -> None:
    with opened(browser, offline=True) as page:
        every_page(page, file, made)


def test_a_trial_in_one_file_has_its_steps_and_log(browser: Browser, file: str, made: Made) -> None:
    with opened(browser, offline=True) as page:
        go(page, file, "trial", job=NOW_JOB, id=made.trials["fix"])
        shown = page.unfold()
        assert [text for text in HOSTILE if readable(text) not in shown] == []
        go(page, file, "trial", job=HIDDEN, id=made.trials["hidden"])
        assert "The prompt." not in page.text
        assert "secret test" not in page.text


@pytest.mark.when_changed("viewer")
def test_agents_of_a_job_or_two_are_compared_in_one_file(browser: Browser, file: str) -> None:
    with opened(browser, offline=True) as page:
        go(page, file, "compare", a=NOW_JOB, b=NOW_JOB, a_agent="oracle", b_agent=CODEX)
        assert page.page.query_selector("svg.pair") is not None
        go(page, file, "compare", a=BEFORE, b=NOW_JOB, a_agent="oracle", b_agent=CODEX, benchmark="texts")
        assert page.page.query_selector("svg.pair") is not None
        assert "oracle → codex:gpt-5" in page.text
        # The only agent of a job may be named, or not.
        for label in (CODEX, ""):
            go(page, file, "compare", a=NOW_JOB, b=HIDDEN, a_agent=CODEX, b_agent=label)
            assert page.run("document.querySelectorAll('[role=alert]').length") == 0
        go(page, file, "compare", a=BEFORE, b=NOW_JOB, benchmark="another")
        assert page.page.query_selector("svg.pair") is None
        assert page.run("document.querySelectorAll('[role=alert]').length") == 0
        go(page, file, "compare", a=BEFORE, b=NOW_JOB, a_agent="oracle")
        assert "one agent with another one" in page.page.inner_text("[role=alert]")


@pytest.mark.when_changed("viewer")
def test_lists_of_one_file_are_filtered_as_those_of_the_server(browser: Browser, file: str) -> None:
    def shown() -> set[str]:
        return {job for job in JOBS if job in page.page.inner_text("[role=grid]")}

    with opened(browser, offline=True) as page:
        go(page, file, "jobs", tag="easy")
        assert shown() == {NOW_JOB}
        go(page, file, "jobs", model="gpt-5")
        assert shown() == set(JOBS)
        go(page, file, "runs", tag="easy", model="gpt-5")
        assert shown() == {NOW_JOB}
        page.page.select_option("select[name=tag]", "")
        page.until("document.querySelectorAll('[role=grid] [role=row]').length === 4")
        go(page, file, "runs", tag="no such")
        assert "that fit the filters" in page.text


@pytest.mark.when_changed("viewer")
def test_a_trend_of_one_file_is_of_a_branch(browser: Browser, file: str) -> None:
    with opened(browser, offline=True) as page:
        go(page, file, "trend", benchmark="texts")
        assert "ffff1111" in page.text
        assert "0a1b2c3d" in page.text
        page.page.select_option("select[name=branch]", "main")
        page.until("!document.body.textContent.includes('ffff1111')")
        assert "0a1b2c3d" in page.text


@pytest.mark.when_changed("viewer")
def test_files_in_one_file_are_saved(browser: Browser, file: str, made: Made, tmp_path: Path) -> None:
    with opened(browser, offline=True) as page:
        go(page, file, "trial", job=NOW_JOB, id=made.trials["fix"])
        for name, content in (
            ("pixel.png", PIXEL),
            ("page.html", b"<script>parent"),
            ("käse 100%.txt", b"ok\n"),
        ):
            with page.page.expect_download() as download:
                page.page.click(f'button[aria-label="Save artifacts/{name}"]')
            there = tmp_path / "file"
            download.value.save_as(there)
            assert there.read_bytes().startswith(content)
            assert download.value.suggested_filename.endswith(name[-4:])
        assert page.page.query_selector('button[aria-label="Save artifacts/data.bin"]') is None


@pytest.mark.when_changed("viewer")
def test_many_files_show_the_same_from_a_web_server(browser: Browser, site: str, made: Made) -> None:
    with opened(browser, offline=False) as page:
        every_page(page, site, made)
