"""`init`: write a first benchmark, an agent of this checkout and a CI file, each of which runs at once."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..sources.manifest_text import SCHEMA_FILE
from ..store.text import clean
from ._checkout import look_at
from ._directory import GivenPath
from ._output import say
from ._schema_file import schema_text

BENCHMARKS = "benchmarks"


@click.command()
@click.argument("directory", type=GivenPath(file_okay=False, path_type=Path), default=".")
@click.option(
    "--agent",
    metavar="NAME=./PATH",
    help="Agent of this checkout.  [default: the one found, else a new one]",
)
@click.option(
    "--ci",
    type=click.Choice(["auto", "github", "gitlab", "jenkins", "none"]),
    default="auto",
    show_default=True,
    help="CI system to write for; `auto` looks at files and at the git remote.",
)
def init(directory: Path, agent: str | None, ci: str) -> None:
    """Write a first benchmark, an agent of this checkout and a CI file into DIRECTORY; each runs at once.

    It asks no questions: the project's name, its agent, the CI system and the main branch are detected. Existing files
    are kept as they are.
    """
    directory.mkdir(parents=True, exist_ok=True)
    found = look_at(directory.absolute(), agent, ci)
    for line in found.lines():
        say(clean(line, 500))
    for name, text, executable in files(found):
        path = directory / name
        if path.exists():
            say(f"kept   {name}: exists already")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if executable:
            path.chmod(0o755)
        say(f"wrote  {name}")
        if name == found.ci_file:
            say(
                f"next   {name}: `pip install pytest-benchjobs` does not work before the first release. Commit the "
                f"wheel (README, Install) to {BENCHMARKS}/, and write `pip install ./{BENCHMARKS}/{wheel()}`"
            )
    if found.ci_file is not None and found.ci_include is not None:
        say(f"next   {found.ci_include}")
    for line in _next_steps(directory, found.agent):
        say(line)


def _next_steps(directory: Path, agent: str) -> Iterator[str]:
    yield ""
    yield "Try:"
    if directory.absolute() != Path.cwd():
        yield f"  cd {shlex.quote(str(directory))}"
    yield f"  pytest {BENCHMARKS}                          # the reference solutions: all have to pass"
    yield f"  pytest {BENCHMARKS} --bench-agent nop        # an agent that does nothing: none may pass"
    yield f"  pytest {BENCHMARKS} --bench-agent {agent}"
    yield "  benchjobs doctor                           # if any of these ends in an error"
    yield ""
    yield "pytest without paths runs the benchmark, too, and needs Docker. To leave it out, give"
    yield f"--ignore {BENCHMARKS}, or write `testpaths = tests` into the ini file."


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
