"""`init`: write a first benchmark, an agent of this checkout and a CI file, each of which runs at once."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ..report.documents.changes import WrittenDocument, WrittenFile
from ..sources.manifest_text import SCHEMA_FILE
from ..sources.project import ini_value
from ..store.text import clean
from ._checkout import Checkout, look_at
from ._directory import GivenPath
from ._output import emit, output_option
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
@output_option("written")
def init(directory: Path, agent: str | None, ci: str, output: str) -> None:
    """Write a first benchmark, an agent of this checkout and a CI file into DIRECTORY; each runs at once.

    It asks no questions: the project's name, its agent, the CI system and the main branch are detected. Existing files
    are kept as they are, and nothing is written beside a benchmark or a CI file for benchmarks that is there.
    """
    directory.mkdir(parents=True, exist_ok=True)
    found = look_at(directory.absolute(), agent, ci)
    done: list[WrittenFile] = []
    for name, text, executable in files(found):
        path = directory / name
        is_kept = path.exists()
        if not is_kept:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            if executable:
                path.chmod(0o755)
        done.append(WrittenFile(path=name, action="kept" if is_kept else "wrote"))
    document = WrittenDocument(files=tuple(done), notes=tuple(_notes(found, done)))

    def lines() -> Iterator[str]:
        yield from (clean(line, 500) for line in found.lines())
        for one in done:
            yield f"kept   {one.path}: exists already" if one.action == "kept" else f"wrote  {one.path}"
        yield from (f"next   {note}" for note in document.notes)
        yield from _next_steps(directory, found.agent)

    emit(document, lines, output)


def _notes(found: Checkout, done: Sequence[WrittenFile]) -> Iterator[str]:
    """Yield what is to be done for the CI file to work."""
    if any(one.path == found.ci_file and one.action == "wrote" for one in done):
        yield (
            f"{found.ci_file}: `pip install pytest-benchjobs` does not work before the first release. Commit the wheel "
            f"(README, Install) to {BENCHMARKS}/, and write `pip install ./{BENCHMARKS}/{wheel()}`"
        )
    if found.ci_include is not None:
        yield found.ci_include


def _next_steps(directory: Path, agent: str) -> Iterator[str]:
    yield ""
    yield "Try:"
    if directory.absolute() != Path.cwd():
        yield f"  cd {shlex.quote(str(directory))}"
    yield f"  pytest {BENCHMARKS}                          # the reference solutions: all have to pass"
    yield f"  pytest {BENCHMARKS} --bench-agent nop        # an agent that does nothing: none may pass"
    yield f"  pytest {BENCHMARKS} --bench-agent {agent}"
    yield "  benchjobs doctor                           # if any of these ends in an error"
    listed = re.findall(r"[\w./-]+", ini_value(directory.absolute(), "testpaths") or ".")
    if not any(place.strip("./").partition("/")[0] in ("", BENCHMARKS) for place in listed):
        return
    yield ""
    yield "pytest without paths runs the benchmark, too, and needs Docker. To leave it out, give"
    yield f"--ignore {BENCHMARKS}, or write `testpaths = tests` into the ini file."


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
    manifest = found.manifest or f"{BENCHMARKS}/{found.project}.bench.yaml"
    yield manifest, _filled("benchmark.yaml", words), False
    yield f"{BENCHMARKS}/{SCHEMA_FILE}", schema_text(), False
    if found.manifest is None:
        yield f"{BENCHMARKS}/data/in.txt", _filled("in.txt", words), False
    if found.is_new:
        yield "my-agent/run.sh", _filled("run.sh", words), True
    if found.path is not None:
        yield f"{BENCHMARKS}/{found.agent}.agent.toml", _filled("agent.toml", words), False
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
