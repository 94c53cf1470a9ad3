"""`gate`: judge an ended job."""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..analysis.baseline.resolve import Resolved, resolve, with_anchor
from ..analysis.gate.job import Judged, judge_job
from ..analysis.publish import with_publishing
from ..job.changed import with_details
from ..job.judge import keep
from ..model.comparison import Comparison
from ..model.errors import BenchError, InputError
from ..model.exit_status import ExitStatus
from ..model.gate import GateConfig, GateReport
from ..model.job import JobRecord
from ..report.ci import Host, Places, comment, metrics_text, publish
from ..report.gate_text import gate_markdown, terminal_lines
from ..report.table import paint
from ..report.write import junit_of, summary_of
from ..settings.gates import gate_config
from ..store.bundle import JobBundle
from ..store.checked import Checked, checked
from ..store.files import write_atomically
from ..store.gates import kept_gates
from ..store.history import History
from ..store.index import rebuild
from ..store.layout import Layout
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ..store.results import find_job
from ._dead_jobs import death_of
from ._directory import FILE, directory_option
from ._output import emit, output_option, say
from ._run_options import flag_of, gate_options, gate_settings

_HELP = f"""Judge JOB: an id, the beginning of one, a name, or last, which is the default.

By the gates it was run with; options given here override them. Nothing is run. Exit status, the first that applies:
{", ".join(f"{status} {status.words}" for status in ExitStatus)}, else 0.
"""


@click.command(help=_HELP)
@click.argument("job", default="last")
@gate_options
@click.option(
    "--profile", type=click.Choice(["publish"]), help="Also check whether the results can be published."
)
@click.option(
    "--markdown",
    type=FILE,
    metavar="FILE",
    help="Also write the verdict to FILE, for a comment on a merge request.",
)
@click.option(
    "--junit", type=FILE, metavar="FILE", help="Also write a JUnit file of the job to FILE, with the verdict."
)
@click.option(
    "--metrics",
    type=FILE,
    metavar="FILE",
    help="Also write figures of each agent to FILE, as OpenMetrics text.",
)
@click.option(
    "--ci",
    type=click.Choice(["auto", "off", "github", "gitlab", "jenkins"]),
    default="auto",
    show_default=True,
    help="The CI system to write for.",
)
@directory_option
@output_option("gate")
def gate(
    *,
    job: str,
    profile: str | None,
    ci: str,
    directory: Path,
    output: str,
    **options: Any,
) -> int:
    """Judge an ended job; see `_HELP`."""
    if not Layout(directory).history.exists() and Layout(directory).jobs.is_dir():
        rebuild(directory)  # files alone, as CI keeps them
    with HistoryReader.of(directory) as history:
        found = checked(history, find_job(history, job))
        record = found.record
        if not record.status.ended and (death := death_of(directory, record.id)) is not None:
            raise InputError(death)
        values = gate_settings(options)
        config = gate_config(values, flag_of, record.config.gate)
        baseline = _baseline(config, history, directory, record, here="baseline" in values)
        judged = _judged(found, record, config, baseline, directory, profile)
    if judged.shown is None and not values and profile is None:
        raise click.UsageError(
            f"job {record.id} has no gate configured; give --baseline, --fail-on-regression or --min-score"
        )
    judged = judged._replace(report=_after(judged.report, directory))
    report = judged.report
    keep_verdict(report, directory)
    emit(report, lambda: judged_lines(judged), output)
    _tell(record, judged, directory, ci, **{kind: options[kind] for kind in ("markdown", "junit", "metrics")})
    return judged.status


def _after(report: GateReport, directory: Path) -> GateReport:
    """Add a note to the report where an earlier verdict differs: a CI page may show both."""
    try:
        earlier = kept_gates(JobBundle(directory, report.job).root)
    except InputError:
        return report  # skip a damaged verdict
    if not earlier or earlier[-1].verdict is report.verdict:
        return report
    note = f"this replaces an earlier verdict on the job, by other gates: {earlier[-1].verdict}"
    return report.model_copy(update={"notes": (note, *report.notes)})


def _baseline(
    config: GateConfig, history: HistoryReader, directory: Path, record: JobRecord, *, here: bool
) -> Resolved | None:
    """Return the baseline of the job. A path given here is relative to here, else to where the job ran."""
    if config.baseline is None:
        return None
    root = Path.cwd()
    if not here and record.invocation is not None and record.invocation.rootdir.is_dir():
        root = record.invocation.rootdir
    find = functools.partial(resolve, history=history, directory=directory, root=root, job=record)
    return with_anchor(config, find, flag_of("first_run"))


def _judged(
    found: Checked,
    record: JobRecord,
    config: GateConfig,
    baseline: Resolved | None,
    directory: Path,
    profile: str | None,
) -> Judged:
    at = datetime.datetime.now(datetime.UTC)
    judged = judge_job(
        record,
        found.rows,
        config,
        baseline,
        at=at,
        where=directory_argument(directory),
        wrong=found.wrong,
        notes=(found.note,) if found.note else (),
    )
    judged = judged._replace(report=with_details(judged.report, directory))
    if profile is None:
        return judged
    bundle = JobBundle(directory, record.id)
    if not bundle.root.is_dir():
        raise InputError(f"job {record.id} was merged without its files, which --profile publish needs")
    results = bundle.outlines(record.config)
    return with_publishing(judged, record, results, at.date())


def keep_verdict(report: GateReport, directory: Path, comparison: Comparison | None = None) -> None:
    """Store a verdict and its comparison. A failure to write is a warning: the verdict stands."""
    try:
        with History.of(directory) as history:
            if comparison is not None:
                history.save_comparison(comparison)
            keep(JobBundle(directory, report.job), history, report)
    except (BenchError, OSError) as error:
        say(f"warning: this verdict could not be stored: {error}", err=True)


def _tell(
    record: JobRecord,
    judged: Judged,
    directory: Path,
    ci: str,
    *,
    markdown: Path | None,
    junit: Path | None,
    metrics: Path | None,
) -> None:
    """Write for people and the CI system. Commands for the CI system go to stderr, which it reads as well."""
    host = Host.find(ci, os.environ)
    if host is None and markdown is None and junit is None and metrics is None:
        return
    bundle = JobBundle(directory, record.id)
    results = bundle.outlines(record.config)
    if markdown is not None:
        text = comment(record, results, summary_of(bundle, record, results, judged.report), host)
        write_atomically(markdown, text.encode())
    if junit is not None:
        write_atomically(junit, junit_of(bundle, record, results, judged.report, host))
    if metrics is not None:
        write_atomically(metrics, metrics_text(record, results, judged.report).encode())
    if host is not None:
        lines, troubles = publish(
            host,
            record=record,
            results=results,
            gate=judged.report,
            summary="\n".join([*gate_markdown(judged.report), ""]),
            status=judged.status,
            places=Places(Path.cwd() if record.invocation is None else record.invocation.rootdir),
        )
        for line in [*troubles, *lines]:
            click.echo(line, err=True)


def judged_lines(judged: Judged) -> Iterator[str]:
    """Return a verdict as lines of text."""
    yield from (paint(text, colour) for text, colour in terminal_lines(judged.report))
    yield f"exit status {judged.status}"
