"""The page of a running job: it follows the job, also over a restart of the server."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_benchjobs.model.job import JobStatus
from pytest_benchjobs.viewer import streaming
from tests.support import until
from tests.unit.records import JOB
from tests.unit.viewing import HOSTILE, running
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
    page.forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE")


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


def test_the_page_of_a_running_job_says_what_has_happened_since(page: Page, tmp_path: Path) -> None:
    job = WatchedJob(tmp_path)
    job.land("alpha")
    job.change()
    with serving(tmp_path) as address:
        page.open(address, "job", job=JOB)
        page.until("document.querySelector('.note').dataset.done === '1'")
        assert not page.page.is_visible(".note")
        job.land("beta")
        job.change()
        page.page.wait_for_selector("text=1 trial ended since. Show what is new")
        assert "beta" not in page.page.inner_text("main .grid")
        page.page.click("text=Show what is new")
        page.page.wait_for_selector("main .grid >> text=beta")
        assert not page.page.is_visible(".note")
        job.end()
        page.page.click("text=The job has ended. Show its results >> a")
        page.page.wait_for_selector("main .lead .is-completed")
        page.page.wait_for_load_state("networkidle")


def test_a_tab_that_nobody_sees_holds_no_connection(page: Page, tmp_path: Path) -> None:
    """A browser has six to a server; with as many tabs of running jobs nothing else could be read."""
    job = WatchedJob(tmp_path)
    become = (
        "Object.defineProperty(document, 'visibilityState', {value: '%s', configurable: true}); "
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    with serving(tmp_path) as address:
        page.open(address, "job", job=JOB)
        page.until("document.querySelector('.note').dataset.done === '0'")
        page.run(become % "hidden")
        until(lambda: streaming._open._value == streaming.MOST)  # type: ignore[attr-defined]
        job.land("alpha")
        job.change()
        assert not page.page.is_visible(".note")
        page.run(become % "visible")
        page.page.wait_for_selector("text=1 trial ended since. Show what is new")
        assert len([one for one in page.asked if one.endswith("/live")]) == 2


SAID = "document.querySelector('main [role=status]').textContent"


def later(page: Page) -> list[str]:
    """What a page has asked for some seconds later, by its clock."""
    asked = len(page.asked)
    page.page.clock.run_for(4000)
    # What was asked before this has been told by then, if not in this order.
    page.run("fetch('?last').then((answer) => answer.text())")
    return [address for address in page.asked[asked:] if not address.endswith("?last")]


@pytest.mark.when_changed("viewer")
def test_it_says_that_too_many_pages_follow_jobs(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WatchedJob(tmp_path).fly("alpha")
    monkeypatch.setattr(streaming, "_open", threading.BoundedSemaphore(1))
    streaming._open.acquire()
    with serving(tmp_path) as address:
        page.open(address, "live", job=JOB)
        page.until(f"{SAID}.startsWith('No longer followed: 32 pages follow jobs already')")
    page.forgive("503")


@pytest.mark.when_changed("viewer")
def test_it_says_that_the_job_was_removed(page: Page, tmp_path: Path) -> None:
    job = WatchedJob(tmp_path)
    job.fly("alpha")
    with serving(tmp_path) as address:
        page.open(address, "live", job=JOB)
        page.until("document.querySelector('main').textContent.includes('alpha')")
        shutil.rmtree(job.bundle.root)
        page.until(f"{SAID} === 'No longer followed: the files of job {JOB} are not here'")
    page.forgive("404", "ERR_INCOMPLETE")


@pytest.mark.when_changed("viewer")
def test_it_says_that_the_server_has_stopped(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WatchedJob(tmp_path).fly("alpha")
    monkeypatch.setattr(streaming, "_stopping", threading.Event())
    with serving(tmp_path) as address:
        page.open(address, "live", job=JOB)
        page.until(f"{SAID} === 'connected'")
        streaming.stop_streams()
        page.until(f"{SAID} === 'The server has stopped; trying again'")
        streaming._stopping.clear()
        page.until(f"{SAID} === 'connected'")


def test_the_log_of_a_trial_that_runs_is_followed_to_its_end(page: Page, tmp_path: Path) -> None:
    job = running(tmp_path)
    (log,) = job.bundle.root.glob("trials/**/agent.log")
    page.page.clock.install()
    with serving(tmp_path) as address:
        node_id = job.fly("count").node_id
        page.open(address, "trial", job=JOB, id=node_id)
        page.until("document.querySelector('pre.log').textContent === 'so far\\n'")
        assert "Its steps come when the trial has ended" in page.text
        with log.open("ab") as file:
            file.write(b"<b>more</b> " + "€".encode()[:2])
        page.until("document.querySelector('pre.log').textContent === 'so far\\n<b>more</b> '")
        with log.open("ab") as file:
            file.write("€".encode()[2:])
        page.until("document.querySelector('pre.log').textContent === 'so far\\n<b>more</b> €'")
        job.fly("count", phase="score <i>")
        page.until(f"{SAID}.includes('score <i>')")
        log.unlink()
        job.land("count")
        job.end()
        page.until(f"{SAID} === 'The trial has ended. See its result and steps'")
        page.page.wait_for_load_state("networkidle")
        assert later(page) == []
        page.page.click("text=See its result and steps")
        page.page.wait_for_selector("main .lead .is-passed")
        page.page.wait_for_load_state("networkidle")
    # That its log was gone is all that went wrong.
    page.forgive("404")


def test_a_page_that_nobody_sees_or_that_is_left_does_not_ask(page: Page, tmp_path: Path) -> None:
    job = running(tmp_path)
    node_id = job.fly("count").node_id
    seen = "Object.defineProperty(document, 'visibilityState', {value: '%s', configurable: true})"
    page.page.clock.install()
    with serving(tmp_path) as address:
        page.open(address, "trial", job=JOB, id=node_id)
        page.until("document.querySelector('pre.log').textContent === 'so far\\n'")
        page.run(seen % "hidden")
        assert later(page) == []
        page.run(seen % "visible")
        assert [address for address in later(page) if "/trial?" in address]
        page.page.click("nav >> text=Jobs")
        page.until("document.documentElement.dataset.ready === 'jobs'")
        assert not [address for address in later(page) if "/trial?" in address]


@pytest.mark.when_changed("viewer")
def test_a_trial_without_output_gets_its_log_when_there_is_one(page: Page, tmp_path: Path) -> None:
    job = WatchedJob(tmp_path)
    trial = job.fly("count")
    with serving(tmp_path) as address:
        page.open(address, "trial", job=JOB, id=trial.node_id)
        assert "No output yet" in page.text
        job.bundle.begin(trial).layout.agent_log.write_text("begun\n")
        page.until("(document.querySelector('pre.log') || {}).textContent === 'begun\\n'")
