"""`plan`: the trials, time and cost of a job before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..analysis.forecast import Earlier, forecast
from ..job.planning import Look
from ..job.ticket import Ticket
from ..report.documents import mirror
from ..report.documents.plan import (
    PlanDocument,
    PlannedCost,
    PlannedImage,
    PlannedRun,
    PlannedShard,
    PlannedTime,
    PlannedTrial,
    Reason,
    totals,
)
from ..store.bundle import stored_config
from ..store.layout import Layout
from ..store.reader import HistoryReader
from ._catalogue import say_hiding
from ._dry_run import dry_run
from ._output import emit, output_option
from ._plan_text import plan_lines
from ._pytest_call import Call
from ._run_options import VariadicCommand, run_options, run_request, whats_argument

_REAL = ("passed", "failed")


@click.command(cls=VariadicCommand)
@whats_argument
@run_options
@click.option("-e", "--extended", is_flag=True, help="Also list every trial. JSON and YAML always do.")
@click.option("--print-command", is_flag=True, help="Print the pytest command that would run it.")
@output_option("plan")
def plan(*, extended: bool, print_command: bool, output: str, **options: Any) -> int:
    """Show what `benchjobs run` would do with the same options: trials, reuse, images, time and cost. Runs nothing.

    Nothing is started, pulled, built or written. Time and cost are estimated from the last run of the same trials.
    """
    request = run_request(options)
    if print_command:
        click.echo(request.call.shown())
        return 0
    look, trials = planned(request.call)
    document = _document(look, trials, request.directory)
    say_hiding({group.benchmark for group in document.groups})
    emit(document, lambda: plan_lines(document, extended=extended), output)
    return 0


def planned(call: Call) -> tuple[Look, list[PlannedTrial]]:
    """Return what is known about the job of a call, and its trials. InputError: pytest ended with an error."""
    looks: list[Look] = []
    trials: list[PlannedTrial] = []

    def take(look: Look, tickets: Sequence[Ticket]) -> None:
        looks.append(look)
        trials.extend(map(look.plan, tickets))

    dry_run(call, take)
    return looks[0], trials


def _document(look: Look, trials: Sequence[PlannedTrial], directory: Path) -> PlanDocument:
    config, shards = stored_config(look.job), () if look.split is None else look.split.shards
    earlier = _earlier(trials, directory)
    running = _running(trials)
    whole = forecast(
        [trial.timeout for trial in running],
        [earlier[trial.node_id] for trial in running],
        config.concurrency,
        config.job_timeout,
    )
    reasons = Counter((trial.reused, trial.why) for trial in trials if trial.why and trial.problem is None)
    images = Counter(image for trial in running for image in set(trial.images))
    return PlanDocument(
        **_counts(trials),
        concurrency=config.concurrency,
        groups=tuple(_groups(trials, earlier)),
        reasons=tuple(Reason(reused=reused, why=why, trials=n) for (reused, why), n in reasons.most_common()),
        images=tuple(mirror(PlannedImage, image, trials=n) for image, n in images.items()),
        image_totals=tuple(totals(images)),
        time=PlannedTime(
            at_most=whole.at_most_seconds, expected=whole.expected_seconds, unknown=whole.unknown_times
        ),
        cost=PlannedCost(expected=whole.expected_usd, unknown=whole.unknown_costs),
        config=config,
        shards=tuple(mirror(PlannedShard, shard, number=n) for n, shard in enumerate(shards, start=1)),
        selected=tuple(trials),
    )


def _groups(trials: Sequence[PlannedTrial], earlier: Mapping[str, Earlier]) -> Iterator[PlannedRun]:
    """Yield the plan of each benchmark with each agent."""
    for benchmark, agent in dict.fromkeys((trial.benchmark, trial.agent) for trial in trials):
        mine = [trial for trial in trials if (trial.benchmark, trial.agent) == (benchmark, agent)]
        part = forecast([], [earlier[trial.node_id] for trial in _running(mine)], 1, None)
        yield PlannedRun(
            benchmark=benchmark,
            agent=agent,
            **_counts(mine),
            expected_seconds=part.expected_seconds,
            expected_usd=part.expected_usd,
        )


def _counts(trials: Sequence[PlannedTrial]) -> dict[str, int]:
    running = _running(trials)
    return {
        "trials": len(trials),
        "reused": sum(trial.reused for trial in trials),
        "skipped": sum(trial.incompatible is not None for trial in trials),
        "runs": len(running),
        "problems": sum(trial.problem is not None for trial in running),
    }


def _running(trials: Iterable[PlannedTrial]) -> list[PlannedTrial]:
    return [trial for trial in trials if not trial.reused and trial.incompatible is None]


def _earlier(trials: Sequence[PlannedTrial], directory: Path) -> dict[str, Earlier]:
    """Return time and cost of each trial's last run, by node id."""
    found = {trial.node_id: Earlier() for trial in trials}
    if not Layout(directory).history.is_file():
        return found
    with HistoryReader.of(directory) as history:
        for trial in trials:
            if trial.reused:
                continue
            row = history.latest(trial.benchmark, trial.scenario, trial.agent, trial.attempt)
            if row is None and trial.attempt > 1:
                row = history.latest(trial.benchmark, trial.scenario, trial.agent, 1)
            # A rescored trial has no agent's time, and an error tells nothing.
            if row is not None and row.rescored is None and row.outcome in _REAL:
                found[trial.node_id] = Earlier(row.seconds, row.cost_usd)
    return found
