"""Makes the pictures of the viewer in docs/images/ anew, from real jobs in containers, seen in headless Chromium.

    scripts/screenshots.py [DOCS]

DOCS, by default docs/, gets `images/viewer-*.png`. Needs a Docker Engine and Chromium (`scripts/chromium.sh`); takes
two minutes. From run to run ids and times differ; outcomes and verdicts do not.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.viewer.real_jobs import real_jobs  # noqa: E402
from tests.viewer.serving import serving  # noqa: E402

WIDTH, HEIGHT = 1200, 800


def main() -> None:
    """Make the pictures."""
    images = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs") / "images"
    images.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory(prefix="benchjobs-") as place,
        real_jobs(Path(place)) as jobs,
        serving(jobs.directory) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, timezone_id="UTC")
        with urllib.request.urlopen(f"{address}api/jobs/{jobs.first}/matrix") as answer:
            trials = json.loads(answer.read())["trials"]["id"]
        trial = next(one for one in trials if "access-log" in one and "solver" in one)
        of = {"benchmark": "quickstart", "scenario": "access-log"}
        both = {"a_agent": "solver", "b_agent": "solver"}
        for name, state in {
            "jobs": {"page": "jobs"},
            "runs": {"page": "runs"},
            "job": {"page": "job", "job": jobs.gated},
            "trial": {"page": "trial", "job": jobs.first, "id": trial},
            "compare": {"page": "compare", "a": "main", "b": jobs.gated},
            "steps": {"page": "steps", "a_job": jobs.first, "b_job": jobs.gated, **of, **both},
            "scenario": {"page": "scenario", **of},
            "trend": {"page": "trend", "benchmark": "quickstart"},
            "live": {"page": "live", "job": jobs.runs},
        }.items():
            page.goto(f"{address}?{urlencode(state)}")
            page.wait_for_selector("html[data-ready]")
            page.wait_for_timeout(1000)
            page.screenshot(path=images / f"viewer-{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
