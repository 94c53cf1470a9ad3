"""How long pages of the viewer take in Chromium until they are shown, each in a browser that has nothing of them yet."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

Shown = tuple[str, float]
"""What was shown, and the seconds that took."""
REPEATS = 5
_WINDOW = {"width": 1300, "height": 900}
# Both answer with the milliseconds until a frame with the page has been drawn.
_LOADED = """() => new Promise((done) => {
  const drawn = () => requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  const ready = () => document.documentElement.dataset.ready;
  if (ready()) return drawn();
  new MutationObserver((_, self) => { if (ready()) { self.disconnect(); drawn(); } })
    .observe(document.documentElement, { attributes: true });
})"""
_CHANGED = """() => new Promise((done) => {
  const main = document.getElementById("main");
  let busy = false;
  new MutationObserver((_, self) => {
    if (main.hasAttribute("aria-busy")) { busy = true; return; }
    if (!busy) return;
    self.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  }).observe(main, { attributes: true });
  const began = performance.now();
  (CHANGE)(document);
})"""


def shown(url: str, large: str, history: Path) -> Iterator[Shown]:
    """Yield how long pages of a server take: first ones, another order and filter, and the job `large`."""
    with _chromium() as browser:
        for name in ("runs", "jobs"):
            yield f"first page of {name}", _loaded(browser, f"{url}?page={name}")
            # The server asks anew what it knew of a history that another program has written to.
            yield (
                f"first page of {name}, new results",
                _loaded(browser, f"{url}?page={name}", before=history.touch),
            )
        for name in ("Score", "Agent", "Delta"):
            click = f'document => [...document.querySelectorAll("thead button")].find((one) => one.textContent.startsWith("{name}")).click()'
            yield f"runs sorted by {name.lower()}", _changed(browser, f"{url}?page=runs", click)
        for name, value in (("benchmark", "bench-3"), ("branch", "branch-3"), ("tag", "tag-3")):
            choose = (
                f'document => {{ const field = document.querySelector("select[name={name}]"); '
                f'field.value = "{value}"; field.dispatchEvent(new Event("change")); }}'
            )
            yield f"runs of a {name}", _changed(browser, f"{url}?page=runs", choose)
        seek = 'document => { const field = document.querySelector("input[type=search]"); field.value = "model-7"; field.form.requestSubmit(); }'
        yield "runs of a search", _changed(browser, f"{url}?page=runs", seek)
        yield "job of 10,000 trials", _loaded(browser, f"{url}?page=job&job={large}")


def opened(url: str) -> float:
    """Return the seconds until a report on disk is shown, without any network."""
    with _chromium() as browser:
        return _loaded(browser, url, offline=True)


def _loaded(
    browser: Browser, url: str, *, offline: bool = False, before: Callable[[], object] | None = None
) -> float:
    """Median seconds from the request of a page until it is shown."""

    def act(page: Page) -> float:
        if before is not None:
            before()
        page.goto(url)
        return float(page.evaluate(_LOADED))

    return _median(browser, offline, act)


def _changed(browser: Browser, url: str, change: str) -> float:
    """Median seconds from an action in a page until its outcome is shown."""

    def act(page: Page) -> float:
        page.goto(url)
        page.evaluate(_LOADED)
        return float(page.evaluate(_CHANGED.replace("CHANGE", change)))

    return _median(browser, False, act)


def _median(browser: Browser, offline: bool, act: Callable[[Page], float]) -> float:
    """Median seconds of an action that returns milliseconds, each time in a profile of its own."""
    taken = []
    for _ in range(REPEATS):
        context = browser.new_context(viewport=_WINDOW, offline=offline)
        taken.append(act(context.new_page()) / 1000)
        context.close()
    return statistics.median(taken)


@contextmanager
def _chromium() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("there is no Chromium here: scripts/chromium.sh installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
