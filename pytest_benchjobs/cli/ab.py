"""`ab`: run two agents in turns in one job, and judge the second by the first."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..analysis.baseline.resolve import Resolved
from ..analysis.comparison import compare
from ..analysis.gate.job import Judged, judge_job
from ..analysis.sides import side
from ..job.changed import with_details
from ..model.comparison import Comparison
from ..model.errors import InputError
from ..model.exit_status import ExitStatus
from ..model.gate import SIDE_A, GateConfig
from ..report.comparison import comparison_lines
from ..report.table import width
from ..settings.gates import gate_config
from ..store.checked import checked
from ..store.comparisons import new_comparison_id
from ..store.project import directory_argument
from ..store.reader import HistoryReader
from ._output import emit, output_option
from ._pytest_call import USAGE_ERROR, call_new_job
from ._run_options import (
    VariadicCommand,
    flag_of,
    gate_settings,
    run_options,
    run_request,
    whats_argument,
    without_gates,
)
from .gate import judged_lines, keep_verdict

_RAN = (0, 1, ExitStatus.REGRESSED, ExitStatus.INCONCLUSIVE, ExitStatus.INVALID)
"""Exit statuses of a job that ran to its end, with or without gates in an ini file."""


@click.command(cls=VariadicCommand)
@whats_argument
@click.option("--a", required=True, metavar="AGENT:MODEL", help="The side to compare with, as the baseline.")
@click.option("--b", required=True, metavar="AGENT:MODEL", help="The side that is judged.")
@run_options
@click.option("--print-command", is_flag=True, help="Print the pytest command without running it.")
@output_option("gate")
def ab(*, a: str, b: str, print_command: bool, output: str, **options: Any) -> int:
    """Run two agents, versions, models or endpoints in one job in which they take turns, and judge B by A.

    Everything is run, and nothing reused. Exit status: 0 ok, 10 when B is worse, 11 inconclusive under --policy strict,
    12 when it cannot be judged.
    """
    if a.strip() == b.strip():
        raise click.UsageError(f"--a and --b are the same: {a.strip()}")
    config = _config(options)
    request = run_request(
        {
            **without_gates(options),  # `ab` judges the job afterwards, agent by agent
            "agents": (a, b),
            "force": True,
            "interleave": True,
            "rest": options["rest"],
        }
    )
    if print_command:
        click.echo(request.call.shown())
        return 0
    job, status = call_new_job(request.call, output)
    if status not in _RAN:
        return 2 if status == USAGE_ERROR else status
    with HistoryReader.of(request.directory) as history:
        comparison, judged = _judged(history, job, (a, b), config)
    keep_verdict(judged.report, request.directory, comparison)
    emit(judged.report, lambda: [*comparison_lines(comparison, width()), "", *judged_lines(judged)], output)
    return judged.status


def _config(options: Mapping[str, Any]) -> GateConfig:
    if options["agents"]:
        raise click.UsageError("--agent: --a and --b name the agents")
    if (
        options["baseline"] is not None
        or options["anchor"] is not None
        or options["require_baseline"]
        or options["first_run"]
    ):
        raise click.UsageError("--baseline: side A is the baseline of side B")
    if options["until_decided"] or options["confirm"] is not None:
        raise click.UsageError(
            "--until-decided and --confirm need a baseline that exists when the job begins"
        )
    return gate_config({**gate_settings(options), "baseline": SIDE_A}, flag_of)


def _judged(history: Any, job: str, specs: Sequence[str], config: GateConfig) -> tuple[Comparison, Judged]:
    found = checked(history, job)
    record, rows = found.record, found.rows
    labels = [agent.label for agent in record.config.agents]
    if len(labels) != 2:
        raise InputError(f"job {job} has {len(labels)} agents instead of two: {', '.join(labels)}")
    both = side(job, [(job, rows)])
    first, second = (
        dataclasses.replace(
            both, name=spec, cells={k: one for k, one in both.cells.items() if one.agent == label}
        )
        for label, spec in zip(labels, specs, strict=True)
    )
    at = datetime.datetime.now(datetime.UTC)
    comparison = compare(first, second, comparison_id=new_comparison_id(at), at=at)
    missing = None if first.cells else "A has no results"
    baseline = Resolved(first if first.cells else None, missing)
    judged = judge_job(
        record,
        rows,
        config,
        baseline,
        at=at,
        only=labels[1],
        where=directory_argument(record.config.directory),
        wrong=found.wrong,
        notes=(found.note,) if found.note else (),
    )
    return comparison, judged._replace(report=with_details(judged.report, record.config.directory))
