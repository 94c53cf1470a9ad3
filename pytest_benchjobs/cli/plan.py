"""`plan`: what a job would run, take and cost, before it does."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._output import emit, output_option
from ._run_options import VariadicCommand, ask, run_options
from ._units import counted

if TYPE_CHECKING:
    from ..analysis.forecast import Earlier
    from ..model.gate import GateConfig
    from ..report.documents.plan import PlanDocument, PlannedTrial
    from ._pytest_call import Call

_OUT = "BENCHJOBS_PLAN_OUT"
"""Agreed with `plugin.planning`."""
_NOTHING_SELECTED = 5
_REAL = ("passed", "failed")
_WHYS = 10


@click.command(cls=VariadicCommand)
@run_options
@click.option("-e", "--extended", is_flag=True, help="Every trial as well. JSON and YAML always have them.")
@click.option("--print-command", is_flag=True, help="Show the call of pytest that would run it.")
@output_option
def plan(*, extended: bool, print_command: bool, output: str, **options: Any) -> int:
    """Show what `benchjobs run` would do with the same options: trials, reuse, images, time and cost. Runs nothing.

    Nothing is started, pulled, built or written. Time and cost are what the same trials took the last time they ran.
    """
    asked = ask(options)
    if print_command:
        click.echo(asked.call.shown())
        return 0
    config, trials = planned(asked.call)
    document = _document(config, trials, asked.directory)
    emit(document, lambda: _lines(document, extended=extended), output)
    return 0


def planned(call: Call) -> tuple[Any, tuple[PlannedTrial, ...]]:
    """Have pytest collect and decide; returns the configuration and the trials.

    Raises:
        InputError: something is wrong with what was asked for.

    """
    from ..job.detach import why_it_ended
    from ..model.errors import InputError
    from ..model.job import JobConfig
    from ..report.documents.plan import PlannedTrial
    from ..system.temporary import temporary_directory

    with temporary_directory("plan") as place:
        out, log = place / "plan.jsonl", place / "pytest.log"
        with log.open("wb") as file:
            status = subprocess.run(
                [*call.command, "--bench-plan", *_alone(call)],
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


def _alone(call: Call) -> tuple[str, ...]:
    """No workers, whatever an ini file says: nothing runs."""
    return () if any("no:xdist" in argument for argument in call.arguments) else ("-n0",)


def _document(config: Any, trials: Sequence[PlannedTrial], directory: Path) -> PlanDocument:
    from ..analysis.forecast import forecast
    from ..report.documents.plan import (
        PlanDocument,
        PlannedCost,
        PlannedImage,
        PlannedRun,
        PlannedTime,
        Reason,
    )

    earlier = _earlier(trials, directory)
    skipped = [trial for trial in trials if trial.incompatible is not None]
    running = [trial for trial in trials if not trial.reused and trial.incompatible is None]
    whole = forecast(
        [trial.timeout for trial in running],
        [earlier[trial.node_id] for trial in running],
        config.concurrency,
        config.job_timeout,
    )
    groups = []
    for benchmark, agent in dict.fromkeys((trial.benchmark, trial.agent) for trial in trials):
        mine = [trial for trial in trials if (trial.benchmark, trial.agent) == (benchmark, agent)]
        runs = [trial for trial in running if (trial.benchmark, trial.agent) == (benchmark, agent)]
        part = forecast([], [earlier[trial.node_id] for trial in runs], 1, None)
        groups.append(
            PlannedRun(
                benchmark=benchmark,
                agent=agent,
                trials=len(mine),
                reused=sum(trial.reused for trial in mine),
                skipped=sum(trial.incompatible is not None for trial in mine),
                runs=len(runs),
                problems=sum(trial.problem is not None for trial in runs),
                expected_seconds=part.expected_seconds,
                expected_usd=part.expected_usd,
            )
        )
    reasons = Counter((trial.reused, trial.why) for trial in trials if trial.why and trial.problem is None)
    images = Counter((trial.image, trial.image_state) for trial in running if trial.image is not None)
    return PlanDocument(
        trials=len(trials),
        reused=sum(trial.reused for trial in trials),
        skipped=len(skipped),
        runs=len(running),
        problems=sum(trial.problem is not None for trial in running),
        concurrency=config.concurrency,
        groups=tuple(groups),
        reasons=tuple(Reason(reused=reused, why=why, trials=n) for (reused, why), n in reasons.most_common()),
        images=tuple(
            PlannedImage(image=image, state=state, trials=n) for (image, state), n in images.items()
        ),
        time=PlannedTime(
            at_most=whole.at_most_seconds, expected=whole.expected_seconds, unknown=whole.unknown_times
        ),
        cost=PlannedCost(expected=whole.expected_usd, unknown=whole.unknown_costs),
        config=config,
        selected=tuple(trials),
    )


def _earlier(trials: Sequence[PlannedTrial], directory: Path) -> dict[str, Earlier]:
    """What the trials that would run took the last time, by node id."""
    from ..analysis.forecast import Earlier
    from ..store.layout import Layout
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
            # One that was graded anew took no agent's time, and one that broke says nothing.
            if row is not None and row.rescored is None and row.outcome in _REAL:
                found[trial.node_id] = Earlier(row.seconds, row.cost_usd)
    return found


def _lines(document: PlanDocument, *, extended: bool) -> Iterator[str]:
    from ..report.console import duration
    from ..store.text import one_line
    from ._table import Column, render, width
    from ._units import cost

    skipped = f", {document.skipped} would be skipped" if document.skipped else ""
    yield (
        f"{counted(document.trials, 'trial')}: {document.runs} would run, {document.reused} would be reused{skipped}"
    )
    if not document.trials:
        return
    yield ""
    columns = [
        Column("BENCHMARK", least=12),
        Column("AGENT", least=12),
        *(Column(title, number=True) for title in ("TRIALS", "REUSED", "RUN", "TIME BEFORE", "COST BEFORE")),
    ]
    rows = [
        [
            group.benchmark,
            group.agent,
            str(group.trials),
            str(group.reused),
            str(group.runs),
            "-" if group.expected_seconds is None else duration(group.expected_seconds),
            cost(group.expected_usd),
        ]
        for group in document.groups
    ]
    yield from render(columns, rows, width())
    yield from _reasons(document)
    if document.images:
        yield ""
        states = {"here": "here", "build": "to build", "pull": "to pull", None: "unknown"}
        yield "images"
        image_rows = [
            ["", states[image.state], one_line(_short(image.image)), counted(image.trials, "trial")]
            for image in document.images
        ]
        places = [Column(""), Column(""), Column("", least=20), Column("", number=True)]
        yield from render(places, image_rows, width())
    yield ""
    yield f"time: {_time(document)}"
    yield f"cost: {_cost(document)}"
    yield from _configuration(document)
    if extended:
        yield ""
        for trial in document.selected:
            words = ((trial.incompatible, "skipped"), (trial.reused, "reused"), (trial.problem, "error"))
            what = next((word for so, word in words if so), "runs")
            why = trial.incompatible or trial.why
            yield f"{what:7}  {one_line(trial.node_id)}" + (f"  ({one_line(why, 200)})" if why else "")


def _short(image: str) -> str:
    """The path of a Dockerfile from here, where it is below; a name as it is."""
    if not image.startswith("/"):
        return image
    path = os.path.relpath(image)
    return image if path.startswith("..") else path


def _reasons(document: PlanDocument) -> Iterator[str]:
    from ..store.text import one_line

    for reused, title in ((True, "reused because"), (False, "run because")):
        reasons = [reason for reason in document.reasons if reason.reused is reused]
        if reasons:
            yield ""
            yield title
        for reason in reasons[:_WHYS]:
            yield f"  {reason.trials:>5}  {one_line(reason.why, 200)}"
        if len(reasons) > _WHYS:
            rest = sum(reason.trials for reason in reasons[_WHYS:])
            yield f"  {rest:>5}  for other reasons (-e names them)"
    if document.skipped:
        yield ""
        yield "would be skipped"
        lacks = Counter(trial.incompatible for trial in document.selected if trial.incompatible is not None)
        for why, trials in lacks.most_common(_WHYS):
            yield f"  {trials:>5}  {one_line(why, 500)}"
    if document.problems:
        yield ""
        yield "would end in an error"
        problems = Counter(trial.problem for trial in document.selected if trial.problem is not None)
        for problem, trials in problems.most_common(_WHYS):
            yield f"  {trials:>5}  {one_line(problem, 500)}"


def _time(document: PlanDocument) -> str:
    from ..report.console import duration

    if not document.runs:
        return "none"
    time = document.time
    parts = [f"at most {duration(time.at_most)}, {document.concurrency} trials at a time"]
    if time.expected is not None:
        of = "" if not time.unknown else f" for {document.runs - time.unknown} of {document.runs} trials"
        parts.append(f"{duration(time.expected)} expected from earlier runs{of}")
    else:
        parts.append("nothing to expect from: no time is known of earlier runs")
    return "; ".join(parts)


def _cost(document: PlanDocument) -> str:
    from ._units import cost

    if not document.runs:
        return "none"
    if document.cost.expected is None:
        return "unknown: nobody knows what these trials cost before"
    of = "" if not document.cost.unknown else f"; unknown for {counted(document.cost.unknown, 'trial')}"
    return f"{cost(document.cost.expected)} expected from earlier runs{of}"


def _configuration(document: PlanDocument) -> Iterator[str]:
    """What differs from the defaults; the whole is in JSON and YAML."""
    from ..store.text import one_line

    changed = document.config.model_dump(
        mode="json", exclude={"agents", "directory", "gate"}, exclude_defaults=True
    )
    yield ""
    yield "configuration, where it is not the default"
    yield f"  agents: {one_line(', '.join(agent.label for agent in document.config.agents), 500)}"
    yield f"  directory: {one_line(os.fspath(document.config.directory))}"
    for name, value in changed.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"  {name}: {one_line(shown, 500)}"
    if gate := ", ".join(_gate(document.config.gate)):
        yield f"  gate: {one_line(gate, 500)}"


def _gate(gate: GateConfig) -> Iterator[str]:
    """What a user said about gates, as it is written in files."""
    for name, value in gate.model_dump(mode="json", exclude_defaults=True, exclude={"rules"}).items():
        yield name if value is True else f"{name} {value}"
    for rule in gate.rules:
        only = f"{rule.only}=" if rule.only else ""
        yield f"{rule.metric} {only}{rule.amount:g}" if rule.floor else rule.text
