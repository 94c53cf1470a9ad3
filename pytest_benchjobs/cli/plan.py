"""`plan`: the trials, time and cost of a job before it runs."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..analysis.forecast import Earlier, forecast
from ..job.detach import why_it_ended
from ..model.errors import InputError
from ..model.job import JobConfig
from ..store.layout import Layout
from ..system.temporary import temporary_directory
from ._output import emit, output_option
from ._pytest_call import Call
from ._run_options import VariadicCommand, run_options, run_request

if TYPE_CHECKING:
    from ..report.documents.plan import PlanDocument, PlannedRun, PlannedTrial

_OUT = "BENCHJOBS_PLAN_OUT"
"""Environment variable that `plugin.planning` reads."""
_NOTHING_SELECTED = 5
_REAL = ("passed", "failed")


@click.command(cls=VariadicCommand)
@run_options
@click.option("-e", "--extended", is_flag=True, help="Also list every trial. JSON and YAML always do.")
@click.option("--print-command", is_flag=True, help="Print the pytest command that would run it.")
@output_option
def plan(*, extended: bool, print_command: bool, output: str, **options: Any) -> int:
    """Show what `benchjobs run` would do with the same options: trials, reuse, images, time and cost. Runs nothing.

    Nothing is started, pulled, built or written. Time and cost are estimated from the last run of the same trials.
    """
    from ._plan_text import plan_lines

    request = run_request(options)
    if print_command:
        click.echo(request.call.shown())
        return 0
    config, trials = planned(request.call)
    document = _document(config, trials, request.directory)
    emit(document, lambda: plan_lines(document, extended=extended), output)
    return 0


def planning(call: Call) -> list[str]:
    """Return the command that plans the call instead of running it."""
    # No workers, even if an ini file asks for them.
    alone = () if any("no:xdist" in argument for argument in call.arguments) else ("-n0",)
    return [*call.command, "--bench-plan", *alone]


def planned(call: Call) -> tuple[Any, tuple[PlannedTrial, ...]]:
    """Let pytest collect and decide; return the configuration and the trials.

    Raises:
        InputError: pytest ended with an error.
    """
    from ..report.documents.plan import PlannedTrial

    with temporary_directory("plan") as place:
        out, log = place / "plan.jsonl", place / "pytest.log"
        with log.open("wb") as file:
            status = subprocess.run(
                planning(call),
                cwd=call.directory,
                env={**call.environment, _OUT: str(out)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        if not out.exists() or status not in (0, _NOTHING_SELECTED):
            raise InputError(why_it_ended(log, status))
        first, *rest = out.read_text("utf-8").splitlines()
    config = JobConfig.model_validate(json.loads(first)["config"])
    return config, tuple(PlannedTrial.model_validate_json(line) for line in rest)


def _document(config: Any, trials: Sequence[PlannedTrial], directory: Path) -> PlanDocument:
    from ..report.documents import mirror
    from ..report.documents.images import totals
    from ..report.documents.plan import PlanDocument, PlannedCost, PlannedImage, PlannedTime, Reason

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
        selected=tuple(trials),
    )


def _groups(trials: Sequence[PlannedTrial], earlier: Mapping[str, Earlier]) -> Iterator[PlannedRun]:
    """Yield the plan of each benchmark with each agent."""
    from ..report.documents.plan import PlannedRun

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
    from ..store.reader import HistoryReader

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
