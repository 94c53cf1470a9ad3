"""Hooks of mkdocs: the site has the pages of the repository, at their paths, in the Markdown that GitHub reads.

Pages are README.md, CONTRIBUTING.md, CHANGELOG.md, all of docs/, and the README.md of each example and of reports/.
Other files of docs/ and of the examples are there as they are, for links to a manifest and for pictures.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "reports/README.md")
TREES = ("docs", "conftest_examples")
_IGNORED = {"__pycache__", ".pytest_cache", "reports"}
_CODE = re.compile(r"`[^`]+`")


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
