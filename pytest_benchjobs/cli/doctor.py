"""`doctor`: check that this machine can run trials."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..model.errors import InfrastructureError, InputError
from ..store.layout import Layout
from ..store.text import one_line
from ._directory import GivenPath, directory_option
from ._output import emit, output_option

if TYPE_CHECKING:
    from ..report.documents.machine import Finding

_STEP = 1.0


@click.command()
@click.argument("paths", nargs=-1, type=GivenPath(path_type=Path))
@click.option(
    "--agent", "agents", multiple=True, metavar="AGENT", help="Also check the keys of this agent; repeatable."
)
@directory_option
@output_option
def doctor(paths: tuple[Path, ...], agents: tuple[str, ...], directory: Path, output: str) -> int:
    """Check that this machine can run trials, and say how to fix each problem.

    PATHS are benchmarks, by default those of the current directory. Nothing is changed; a container is started and
    removed to test limits. Exit status 1 when there is any problem.
    """
    from ..report.documents.machine import DoctorDocument, Health

    findings = tuple(_findings(paths or (Path(),), agents, directory))
    document = DoctorDocument(
        ok=not any(finding.health is Health.PROBLEM for finding in findings), findings=findings
    )
    emit(document, lambda: _lines(document.findings), output)
    return 0 if document.ok else 1


def _findings(paths: tuple[Path, ...], agents: tuple[str, ...], directory: Path) -> Iterator[Finding]:
    from ..model.known_failure import KNOWN_FILE
    from . import _doctor_checks as checks

    wall, steady = time.time(), time.monotonic()
    of_agents = [checks.keys(agent) for agent in agents]
    yield checks.versions()
    yield from _of_engine()
    yield from checks.results(directory)
    yield checks.history(Layout(directory).history)
    yield from checks.jobs(directory)
    yield from checks.agents()
    yield from of_agents
    yield from checks.data(paths)
    yield from checks.known(Path(KNOWN_FILE), datetime.date.today())
    stepped = (time.time() - wall) - (time.monotonic() - steady)
    if abs(stepped) > _STEP:
        yield checks.problem(
            "clock",
            f"it jumped by {stepped:+.0f} s just now",
            "let only one program set the clock, in small steps",
        )
    else:
        yield checks.clock(_newest_job(directory))


def _of_engine() -> Iterator[Finding]:
    from ..model.owner import current_owner
    from ..sandbox.docker.health import engine_facts, limits_missing
    from ..sandbox.docker.provider import DockerProvider
    from . import _doctor_checks as checks

    me = current_owner()
    provider = DockerProvider(me)
    try:
        provider.check()
        facts = engine_facts(provider, me)
        yield from checks.engine(facts)
        yield checks.limits(facts.unsupported, limits_missing(provider, facts.images))
        yield checks.kept([one.bytes for one in provider.kept()])
    except InfrastructureError as error:
        # Behind the colon, the message of an engine that does not answer says what to do.
        found, _, cure = str(error).rpartition(": ")
        yield checks.problem("engine", found or str(error), cure)
    finally:
        provider.close()


def _newest_job(directory: Path) -> datetime.datetime | None:
    from ..store.bundle import JobBundle

    newest = max((bundle.id for bundle in JobBundle.all(directory)), default=None)
    if newest is not None:
        with contextlib.suppress(InputError):
            return JobBundle.open(directory, newest).read().created_at
    return None


def _lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        line = f"{finding.health.value:8} {finding.check:{width}}  {one_line(finding.found, 500)}"
        yield f"{line} -> {finding.cure}" if finding.cure else line
