"""A page of the viewer in a browser: what it shows, and what went wrong in it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Dialog, Error
from playwright.sync_api import Page as BrowserPage

from tests.support import PATIENCE, until


def side_by_side(a: str, b: str, agent: str, scenario: str = "fix") -> dict[str, str]:
    """Parameters of the page of two trajectories."""
    both = {f"{side}_agent": agent for side in "ab"}
    return {"a_job": a, "b_job": b, "benchmark": "texts", "scenario": scenario, **both}


_CHANGED = "net::ERR_NETWORK_CHANGED"


class Page:
    """A page. All that a browser reports as wrong is kept."""

    def __init__(self, page: BrowserPage) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE * 1000)
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.changed = False
        page.on(
            "console", lambda said: self._note(said.type in ("error", "warning"), f"console: {said.text}")
        )
        page.on("pageerror", lambda error: self._note(True, f"error: {error}"))
        # What a page no longer waits for when it is left was not refused.
        page.on(
            "requestfailed",
            lambda request: self._note(
                request.failure != "net::ERR_ABORTED", f"failed: {request.url} {request.failure}"
            ),
        )
        page.on("response", lambda answer: self._note(answer.status >= 400, f"{answer.status}: {answer.url}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self.asked.append(request.url))

    def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, wrong: bool, text: str) -> None:
        if _CHANGED in text:
            self.changed = True
        elif wrong:
            self.wrong.append(text)

    def open(self, address: str, name: str = "jobs", **parameters: str) -> None:
        """Open a page of the viewer, and wait until it is drawn."""
        self.changed = False
        for _ in range(3):
            try:
                self.page.goto(
                    "about:blank"
                )  # unless the browser goes to its own page about a change just now
                self.changed = False
                self.page.goto(f"{address}?{urlencode({'page': name, **parameters})}")
                self.drawn()
            except Error:
                # Other tests' networks of containers came or went: the browser dropped a part of the page.
                if not self.changed:
                    raise
            else:
                # What the page asked may have been dropped each time: then it has drawn that, and nothing was raised.
                if not (self.changed and self.page.query_selector("main > p.error")):
                    return
        raise AssertionError(f"networks kept changing while {name} was loaded")

    def drawn(self) -> None:
        """Wait until the page shows what its address says, and asks nothing more."""
        self.page.wait_for_selector("html[data-ready]")
        self.page.wait_for_selector("main:not([aria-busy])")

    @property
    def text(self) -> str:
        """Everything that is to be read in it."""
        return self.page.inner_text("body")

    def run(self, script: str, *values: Any) -> Any:
        """Evaluate a script in it."""
        return self.page.evaluate(script, *values)

    def until(self, script: str) -> None:
        """Wait until a script is true. By hand, as the policy of the page lets nobody wait inside it."""
        until(lambda: self.run(script), what=lambda: f"never true: {script}\n{self.text[:2000]}")

    def forgive(self, *words: str) -> None:
        """What has one of these words in it was to be expected."""
        self.wrong = [said for said in self.wrong if not any(word in said for word in words)]

    def unfold(self) -> str:
        """Return all that the page of a trial can be made to show."""
        self.page.wait_for_selector("article.step")
        self.until("(document.querySelector('pre.log') || {textContent: ''}).textContent.length")
        self.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for button in self.page.query_selector_all("article.step button, .files button"):
            button.click()
        shown = "[...document.querySelectorAll('.files button[aria-expanded]')]"
        self.until(f"{shown}.every((one) => one.textContent === 'Hide')")
        return str(self.run("document.querySelector('main').textContent"))

    def check(self) -> None:
        """Fail if anything went wrong."""
        assert not self.wrong, "\n".join(self.wrong)
