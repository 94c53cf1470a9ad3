"""The files that `init` writes, from the templates in `starter/`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..sources.manifest_text import SCHEMA_FILE
from ._schema_file import schema_text

if TYPE_CHECKING:
    from ._checkout import Checkout

_TEMPLATES = Path(__file__).with_name("starter")
_CI = {"github": "github.yml", "gitlab": "gitlab.yml", "jenkins": "Jenkinsfile"}


def files(found: Checkout) -> Iterator[tuple[str, str, bool]]:
    """Yield name, content and the executable flag of each file for a checkout."""
    words = {
        "PROJECT": found.project,
        "AGENT": found.agent,
        "IMAGE": found.image,
        "BRANCH": found.branch,
        "PATH": found.path or "",
        "ARGV": ", ".join(map(json.dumps, found.argv)),
        "FILE": found.ci_file or "",
        "WHEEL": wheel(),
    }
    yield f"benchmarks/{found.project}.bench.yaml", _filled("benchmark.yaml", words), False
    yield f"benchmarks/{SCHEMA_FILE}", schema_text(), False
    yield "benchmarks/data/in.txt", _filled("in.txt", words), False
    if found.is_new:
        yield "my-agent/run.sh", _filled("run.sh", words), True
    if found.path is not None:
        yield f"benchmarks/{found.agent}.agent.toml", _filled("agent.toml", words), False
    if found.ci is not None and found.ci_file is not None:
        yield found.ci_file, _filled(_CI[found.ci], words), False


def wheel() -> str:
    """Return the name of the wheel of this version, which CI installs until there is a release."""
    from .. import __version__

    return f"pytest_benchjobs-{__version__}-py3-none-any.whl"


def _filled(template: str, words: dict[str, str]) -> str:
    """Return a template with its variables, written `@name@`, replaced."""
    text = (_TEMPLATES / template).read_text("utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text
