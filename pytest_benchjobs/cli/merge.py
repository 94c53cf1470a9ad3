"""`merge`: import jobs from other machines and CI shards."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import click

from ..analysis.gate.job import Judged
from ..job.merge import Merge
from ..model.errors import InputError
from ..report.ci import Host
from ..report.documents import mirror
from ..report.documents.jobs import MergedJob, MergedJUnit, MergeDocument
from ..report.junit_merge import merge_junit
from ..report.units import counted
from ..store.bundle import JobBundle
from ..store.files import write_atomically
from ..store.history import History
from ..store.imports import take_in
from ..store.incoming import MergeResult
from ..store.layout import JobLayout, Layout
from ..store.text import one_line
from ._directory import FILE, new_directory_option
from ._output import emit, output_option, say
from .gate import judged_lines

_SQLITE = b"SQLite format 3\0"


@dataclasses.dataclass(slots=True)
class _Sources:
    """Files and directories from the command line, by kind."""

    bundles: list[Path] = dataclasses.field(default_factory=list)
    histories: list[Path] = dataclasses.field(default_factory=list)
    indexes: list[Path] = dataclasses.field(default_factory=list)
    """Histories beside bundles; they may have jobs whose bundles are gone."""
    junit: list[Path] = dataclasses.field(default_factory=list)


@click.command()
@click.argument(
    "sources", nargs=-1, required=True, metavar="SOURCE...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--as-job", metavar="NAME", help="Merge them into one job: shards of a benchmark, or a CI matrix."
)
@click.option(
    "--junit", type=FILE, metavar="OUT.xml", help="Join the JUnit files of all SOURCEs into this one."
)
@new_directory_option
@output_option("merge")
def merge(
    sources: tuple[Path, ...], as_job: str | None, junit: Path | None, directory: Path, output: str
) -> int:
    """Import jobs from other machines. Importing them again changes nothing.

    SOURCE is a results directory, the directory of one job, a history.sqlite without jobs beside it, or, with --junit,
    a JUnit file. New trials of a job that is already here are added to it. Exit status 1 when any job was refused.
    With --as-job, the gates that the parts were run with judge the one job, and the exit status is that of `gate`.
    """
    found = _sorted_out(sources, directory)
    if found.junit and junit is None:
        raise InputError(f"{found.junit[0]} is a JUnit file; give the output file with --junit OUT.xml")
    if as_job is not None and (found.histories or not found.bundles):
        named = found.histories or list(sources)
        raise InputError(f"--as-job needs job directories; there are none in {named[0]}")
    jobs: list[MergeResult] = []
    problems: list[str] = []
    judged: Judged | None = None
    if found.bundles or found.histories:
        jobs, problems, judged = _merge_jobs(found, as_job, directory)
    written = None
    if junit is not None:
        layout = Layout(directory)
        reports = [layout.job(job.job).junit for job in jobs if job.action != "refused"]
        paths = [*found.junit, *(path for path in reports if path.is_file())]
        content, cases = merge_junit(paths)
        write_atomically(junit, content)
        written = MergedJUnit(path=str(junit), files=len(paths), cases=cases)
    document = MergeDocument(
        directory=str(directory) if found.bundles or found.histories else None,
        jobs=tuple(mirror(MergedJob, job, message=job.message or None) for job in jobs),
        problems=tuple(problems),
        junit=written,
        gate=None if judged is None else judged.report,
    )
    emit(
        document,
        lambda: [*_lines(document), *(() if judged is None else judged_lines(judged))],
        output,
    )
    for line in _complaints(document):
        say(line, err=True)
    status = 0 if judged is None else judged.status
    return 1 if any(job.action == "refused" for job in jobs) else status


def _sorted_out(sources: tuple[Path, ...], directory: Path) -> _Sources:
    found = _Sources()
    for source in sources:
        if source.resolve() in (directory.resolve(), Layout(directory).history.resolve()):
            raise InputError(f"{source} is the directory to merge into; choose another --dir")
        if source.is_dir():
            _sort_directory(source, found)
        elif source.suffix.lower() == ".xml":
            found.junit.append(source)
        elif not _is_sqlite(source):
            raise InputError(
                f"{source} is neither a directory with jobs, nor a history, nor a JUnit file (*.xml)"
            )
        elif Layout(source.parent).jobs.is_dir():
            _sort_directory(source.parent, found)
        else:
            found.histories.append(source)
    return found


def _sort_directory(source: Path, found: _Sources) -> None:
    if JobLayout(source).record.is_file():
        found.bundles.append(source)
        return
    bundles = [bundle.root for bundle in JobBundle.all(source)]
    found.bundles += bundles
    history = Layout(source).history
    if history.is_file():
        (found.indexes if bundles else found.histories).append(history)
    elif not bundles:
        raise InputError(
            f"there are no jobs in {source}; a results directory has jobs/, the directory of a job has job.json"
        )


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _merge_jobs(
    found: _Sources, as_job: str | None, directory: Path
) -> tuple[list[MergeResult], list[str], Judged | None]:
    with History.of(directory) as history:
        merging = Merge(directory, history, Host.find("auto", os.environ))  # shards of a pipeline
        if as_job is not None:
            return [merging.make_one(as_job, found.bundles)], merging.problems, merging.judged
        jobs: list[MergeResult] = []
        for root in found.bundles:
            try:
                jobs.append(merging.bring_in(root))
            except InputError as error:
                # Nothing but the name of the directory tells its id.
                jobs.append(MergeResult(root.name, None, "refused", 0, str(error)))
        seen = {job.job for job in jobs}
        for source in (*found.indexes, *found.histories):
            try:
                for job in take_in(history, source, seen):
                    jobs.append(job)  # noqa: PERF402  those before a mistake stay
            except InputError as error:
                jobs.append(MergeResult(str(source), None, "refused", 0, str(error)))
        return jobs, merging.problems, None


def _lines(document: MergeDocument) -> Iterator[str]:
    for job in document.jobs:
        if job.action != "refused":
            name = f"  {one_line(job.name, 60)}" if job.name else ""
            yield f"{job.action:9}  {job.job}{name}  {counted(job.trials, 'trial')}"
    if document.junit is not None:
        files = counted(document.junit.files, "file")
        yield f"{one_line(document.junit.path)}: {counted(document.junit.cases, 'case')} of {files}"


def _complaints(document: MergeDocument) -> Iterator[str]:
    for job in document.jobs:
        if job.action == "refused":
            yield f"refused    {one_line(job.job, 100)}: {one_line(job.message or '', 300)}"
    for problem in document.problems:
        yield one_line(problem, 500)
