"""Hooks of mkdocs: the site has the pages of the repository, at their paths, in the Markdown that GitHub reads.

Pages are README.md, CONTRIBUTING.md, CHANGELOG.md, all of docs/, and the README.md of each example and of reports/.
Other files of docs/ and of the examples are there as they are, for links to a manifest and for pictures.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "reports/README.md")
TREES = ("docs", "conftest_examples")
_IGNORED = {"__pycache__", ".pytest_cache", "reports"}
_CODE = re.compile(r"`[^`]+`")
_NAME = re.compile(r"\w+(?:[./:=]+\w+)+")
_SHOWN = 200


def on_config(config: MkDocsConfig) -> None:
    """Give headings the anchors that GitHub gives them."""
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": False}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by those of the repository; files of the theme stay."""
    theirs = [file for file in files if file.src_dir != config.docs_dir]
    ours = [File(path, str(ROOT), config.site_dir, config.use_directory_urls) for path in published()]
    return Files([*theirs, *ours])


def on_page_markdown(markdown: str, **_: object) -> str:
    r"""Write `\|` in the code of a table as `|`: GitHub needs the backslash, and mkdocs would show it."""
    return "\n".join(
        _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line.startswith("|") else line
        for line in markdown.split("\n")
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Name its page in the title of each section that can be searched, and let the words of a name find it."""
    path = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(path.read_text("utf-8"))
    pages = {entry["location"]: entry["title"] for entry in index["docs"]}
    for entry in index["docs"]:
        page = pages[entry["location"].partition("#")[0]]
        if entry["title"] != page:
            entry["title"] = f"{page}: {entry['title']}"
        # The search knows `conftest.py` as one word. A hit shows the first 200 characters, so `conftest` comes after.
        words = {word for name in _NAME.findall(entry["text"]) for word in re.findall(r"\w{3,}", name)}
        entry["text"] = " ".join([entry["text"].ljust(_SHOWN), *sorted(words)])
    path.write_text(json.dumps(index), "utf-8")


def published() -> list[str]:
    """List the files of the site: paths in the repository."""
    found = list(PAGES)
    for tree in TREES:
        for path in sorted((ROOT / tree).rglob("*")):
            inside = path.relative_to(ROOT)
            if not path.is_file() or _IGNORED.intersection(inside.parts):
                continue
            # Markdown of an example that is not its README is a file of the example, such as the statement of a task.
            if tree == "docs" or path.suffix != ".md" or path.name == "README.md":
                found.append(inside.as_posix())
    return found


def slug(heading: str, separator: str) -> str:
    """Make an anchor as GitHub does: lower case, no punctuation, `-` for each blank."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)
