"""The documentation as a site: every page is in its navigation, its links hold, and it loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.viewer.conftest import browser

from .documents import PAGES, ROOT

__all__ = ["browser"]

_CUT_TABLES = """() => [...document.querySelectorAll('.rst-content table')]
    .filter(table => table.scrollWidth > table.closest('.wy-table-responsive, .section').clientWidth + 1)
    .map(table => table.rows[0].innerText)"""


class Links(HTMLParser):
    """What a page loads, and where it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe") and (source := given.get("src")):
            self.loaded.append(source)
        if tag == "link" and (target := given.get("href")):
            self.loaded.append(target)
        if tag == "a" and (target := given.get("href")):
            self.linked.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return directory


def address(page: Path) -> str:
    """Path of a page in the site: its path in the repository."""
    inside = page.relative_to(ROOT)
    return str(inside.with_name("index.html") if inside.name == "README.md" else inside.with_suffix(".html"))


def test_every_page_is_in_the_navigation_at_its_path_in_the_repository(site: Path) -> None:
    links = {target for target in Links((site / "index.html").read_text("utf-8")).linked if ":" not in target}
    wanted = {address(page) for page in PAGES}
    assert [path for path in sorted(wanted) if not (site / path).is_file()] == []
    assert wanted - links == {"index.html"}  # the page itself


def test_every_page_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {document["location"].partition("#")[0] for document in index["docs"]}
    assert {address(page) for page in PAGES} - found == set()


def test_the_search_names_the_page_of_a_section_and_finds_a_file_by_its_name_alone(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    entries = {entry["location"]: entry for entry in index["docs"]}
    where = entries["docs/python.html#where-pytest-finds-them"]
    assert where["title"] == "Benchmarks in Python: Where pytest finds them"
    assert "conftest" in where["text"].split()
    assert entries["docs/python.html"]["title"] == "Benchmarks in Python"


def test_no_column_of_a_table_is_out_of_sight(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    cut = []
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            cut += [(path.name, width, header) for header in page.evaluate(_CUT_TABLES)]
    page.close()
    assert cut == []


def test_links_between_pages_and_files_hold(site: Path) -> None:
    broken = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue  # is shown at any address, and links from the root
        links = Links(page.read_text("utf-8"))
        for target in {*links.linked, *links.loaded}:
            path = target.partition("#")[0]
            if path and ":" not in path and not (page.parent / path).exists():
                broken.append(f"{page.relative_to(site)}: {target}")
    assert broken == []


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {
        target
        for page in site.rglob("*.html")
        for target in Links(page.read_text("utf-8")).loaded
        if re.match(r"(?:https?:)?//", target)
    }
    assert loaded == set()
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]
    assert [text for text in styles if re.search(r"url\(['\"]?(?:https?:)?//|@import", text)] == []


def test_a_pipe_in_the_code_of_a_table_has_no_backslash(site: Path) -> None:
    assert [
        str(page.relative_to(site))
        for page in site.rglob("*.html")
        if re.search(r"<td>(?:(?!</td>).)*<code>[^<]*\\\|", page.read_text("utf-8"))
    ] == []


def test_links_that_lead_nowhere_fail_the_build_and_each_is_told(tmp_path: Path) -> None:
    """In a copy of what the build reads."""
    names = (
        "README.md CONTRIBUTING.md CHANGELOG.md mkdocs.yml docs conftest_examples scripts reports/README.md"
    )
    for name in names.split():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-r", ROOT / name, tmp_path / name], check=True)
    with (tmp_path / "docs" / "outcomes.md").open("a", encoding="utf-8") as page:
        page.write("\n[gone](gone.md) [nowhere](guide.md#nowhere) [anywhere](../conftest_examples/)\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if "outcomes.md" in line]
    for problem in ("gone.md", "nowhere", "unrecognized"):
        assert any(problem in line for line in told), done.stderr
