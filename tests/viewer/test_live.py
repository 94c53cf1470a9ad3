"""The page of a running job: it follows the job, also over a restart of the server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_benchjobs.model.job import JobStatus
from tests.unit.records import JOB
from tests.unit.viewing import HOSTILE
from tests.unit.watched import WatchedJob
from tests.viewer.pages import Page
from tests.viewer.serving import serving
from tests.viewer.test_hostile import FOREIGN

pytestmark = pytest.mark.slow


def test_it_goes_on_when_the_server_is_back(page: Page, tmp_path: Path) -> None:
    job = WatchedJob(tmp_path)
    job.fly("alpha")
    with serving(tmp_path) as address:
        port = urlsplit(address).port
        assert port is not None
        page.open(address, "live", job=JOB)
        page.until("document.querySelector('main').textContent.includes('alpha')")
        page.until("document.querySelector('.elapsed').textContent !== ''")
        page.page.focus("main table a")
        job.fly("beta")
        page.until("document.querySelector('main').textContent.includes('beta')")
        assert "alpha" in page.run("document.activeElement.textContent")
    page.until("document.querySelector('main [role=status]').textContent === 'No connection; trying again'")
    job.land("alpha")
    with serving(tmp_path, port):
        page.until("document.querySelector('main').textContent.includes('Ended last')")
        page.until("document.querySelector('main [role=status]').textContent === 'connected'")
        job.end(JobStatus.COMPLETED)
        page.until("document.querySelector('main [role=status]').textContent.includes('The job has ended')")
    # That the server was away for a while is all that went wrong.
    assert {
        said for said in page.wrong if "ERR_CONNECTION_REFUSED" not in said and "ERR_INCOMPLETE" not in said
    } == set()
    page.wrong = []


def test_texts_of_agents_are_only_shown(page: Page, tmp_path: Path) -> None:
    job = WatchedJob(tmp_path, trials=len(HOSTILE))
    for number in range(3):
        job.fly(f"s{number}", phase=HOSTILE[number])
    with serving(tmp_path) as address:
        page.open(address, "live", job=JOB)
        page.until("document.querySelector('main').textContent.includes('s2')")
        shown = page.run("document.querySelector('main').textContent")
        assert all(text in shown for text in HOSTILE[:3])
        assert page.run(f'document.querySelectorAll("{FOREIGN}").length') == 0
