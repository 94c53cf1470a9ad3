"""A browser, servers of results, and what went wrong in a page."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.unit import viewing
from tests.viewer.pages import Page
from tests.viewer.serving import serving

AXE = "axe-core@4.14.1"
_UNREACHABLE = re.compile(
    r"\b(?:EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH)\b"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium. Where it is missing tests are skipped; in CI that is a failure."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        said = "there is no Chromium here: scripts/chromium.sh installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(said, pytrace=False)
        pytest.skip(said)
    browser = _playwright().chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
    yield browser
    browser.close()


@functools.cache
def _playwright() -> Playwright:
    """Start it once in a process: it refuses a second time, as in tests of the viewer and of the site."""
    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> viewing.Made:
    """Results with hostile texts in every field that an agent controls."""
    return viewing.make(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def address(made: viewing.Made) -> Iterator[str]:
    """The viewer of these results."""
    with serving(made.directory) as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in which nothing may go wrong unless the test says so."""
    context = browser.new_context(viewport={"width": 1300, "height": 900}, timezone_id="UTC")
    page = Page(context.new_page())
    try:
        yield page
        page.check()
    finally:
        context.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, from npm."""
    place = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not here")
    done = subprocess.run(
        [npm, "pack", AXE], cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        said = f"axe-core cannot be fetched here: {done.stderr.strip()[-300:]}"
        if _UNREACHABLE.search(done.stderr) and os.environ.get("BENCHJOBS_REQUIRE_AGENTS") != "1":
            pytest.skip(said)
        pytest.fail(said, pytrace=False)
    with tarfile.open(next(place.glob("*.tgz"))) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()
