"""`compare`: compare two jobs, the agents of a job, or two models that are run for the comparison."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..agents.providers import PROVIDERS
from ..analysis.comparison import compare as compare_sides
from ..analysis.comparison import compare_agents
from ..analysis.stored_sides import agents_of, exactly, narrowed, stored_side, two_agents
from ..job.changed import about_readings, reader
from ..model.comparison import Comparison
from ..model.errors import InputError
from ..report.comparison import comparison_lines
from ..report.table import width
from ..store.comparisons import find_comparison, new_comparison_id
from ..store.files import write_atomically, writing
from ..store.history import History
from ..store.layout import Layout
from ..store.reader import HistoryReader
from ..store.results import find_job
from ._dead_jobs import death_of
from ._directory import DIRECTORY, directory_option, high_scores_of, high_scores_option
from ._output import emit, output_option, say
from ._pytest_call import call_new_job
from ._run_options import RunRequest, VariadicCommand, results_directory, run_options, run_request

_TESTS_FAILED = 1
_NOTHING_IN_COMMON = 1
_AGENT = "model"
"""Agent of a side that names only a model."""


class _Model(NamedTuple):
    """A side that has to be run: `PROVIDER:MODEL[@URL]`."""

    spec: str
    provider: str
    model: str


@click.command(cls=VariadicCommand)
@click.argument("jobs", nargs=-1, metavar="[JOB_A JOB_B]")
@click.option(
    "--a", metavar="SPEC", help="Side A: PROVIDER:MODEL[@URL] to run, or an existing job or baseline."
)
@click.option("--b", metavar="SPEC", help="Side B, in the same form.")
@click.option("--a-agent", metavar="PATTERN", help="Only agents of side A whose label matches.")
@click.option("--b-agent", metavar="PATTERN", help="Only agents of side B whose label matches.")
@click.option(
    "--level",
    type=click.FloatRange(50, 100, True, True),
    default=95,
    show_default=True,
    help="Confidence of intervals, in percent.",
)
@high_scores_option
@click.option(
    "--out", type=DIRECTORY, help="Directory for compare-ID.json.  [default: comparisons/ beside the jobs]"
)
@run_options
@click.option("--print-command", is_flag=True, help="Print the pytest commands without running them.")
@output_option("comparison")
def compare(
    *,
    jobs: tuple[str, ...],
    a: str | None,
    b: str | None,
    a_agent: str | None,
    b_agent: str | None,
    level: float,
    high_scores: Path | None,
    out: Path | None,
    print_command: bool,
    output: str,
    **options: Any,
) -> int:
    """Compare two jobs, or run two models and compare them, scenario by scenario.

    A side is a job (an id, the beginning of one, a name, last), a baseline as --bench-baseline takes it, or
    PROVIDER:MODEL[@URL]: a model to run, with the agent `model` unless --agent names another. With one JOB, each two
    of its agents are compared, and ranked if there are several. Exit status: 0 when there is a comparison, whichever
    side wins; 1 when they have nothing in common.
    """
    specs = _specs(jobs, a, b)
    directory = results_directory(options)
    highs = high_scores_of(high_scores, directory)
    at = datetime.datetime.now(datetime.UTC)
    comparison_id = new_comparison_id(at)
    models = [_model(spec, directory) for spec in specs]
    calls = [None if model is None else _call(model, options, comparison_id) for model in models]
    if print_command:
        if not any(calls):
            raise click.UsageError("--print-command: both sides exist already; nothing would be run")
        for call in filter(None, calls):
            click.echo(call.call.shown())
        return 0
    for place, request in enumerate(calls):
        if request is not None:
            specs[place], status = call_new_job(request.call, output)
            if status not in (0, _TESTS_FAILED):
                return status
    names = [spec if model is None else model.spec for spec, model in zip(specs, models, strict=True)]
    patterns = _patterns(specs, a_agent, b_agent, directory)
    comparison = _compared(
        directory,
        zip(specs, names, patterns, strict=True),
        options["benchmarks"],
        comparison_id=comparison_id,
        at=at,
        level=level / 100,
        high_scores=highs,
    )
    with History.of(directory) as history:
        history.save_comparison(comparison)
    path = _write(comparison, out or Layout(directory).comparisons)
    emit(comparison, lambda: comparison_lines(comparison, width()), output)
    say(f"Wrote {os.path.relpath(path)}", err=output != "text")
    return 0 if comparison.rows else _NOTHING_IN_COMMON


def _specs(jobs: Sequence[str], a: str | None, b: str | None) -> list[str]:
    if jobs and (a or b):
        raise click.UsageError("name the sides either as arguments or with --a and --b")
    if a and b:
        return [a, b]
    if a or b:
        raise click.UsageError(f"--{'b' if a else 'a'} is missing; a comparison has two sides")
    if len(jobs) == 1:
        return [jobs[0], jobs[0]]
    if len(jobs) != 2:
        raise click.UsageError("name two jobs, one job with several agents, or give --a and --b")
    return list(jobs)


def _model(spec: str, directory: Path) -> _Model | None:
    """Return the model to run; None for a side that has results already."""
    provider, colon, model = spec.partition(":")
    if not colon or provider not in PROVIDERS:
        return None
    if Layout(directory).history.exists():
        with HistoryReader.of(directory) as history:
            try:
                find_job(history, spec)
            except InputError:
                pass
            else:
                return None  # a job's name may look like a model
    if not model.strip():
        raise click.UsageError(f"{spec!r} has no model; write PROVIDER:MODEL, such as {provider}:NAME")
    return _Model(spec, provider, model)


def _call(side: _Model, options: Mapping[str, Any], comparison_id: str) -> RunRequest:
    for flag in ("provider", "model"):
        if options[flag] is not None:
            raise click.UsageError(f"--{flag}: it is part of --a and --b, as PROVIDER:MODEL")
    agents: tuple[str, ...] = options["agents"]
    if len(agents) > 1 or any(":" in agent for agent in agents):
        raise click.UsageError(
            "--agent: name one agent, without a model; --a and --b say which models it gets"
        )
    agent = agents[0] if agents else _AGENT
    return run_request(
        {
            **options,
            "exit": "tests",
            "agents": (f"{agent}:{side.model}",),
            "provider": side.provider,
            "metadata": (*options["metadata"], f"comparison={comparison_id}"),
        }
    )


def _patterns(
    specs: Sequence[str], a_agent: str | None, b_agent: str | None, directory: Path
) -> tuple[str | None, str | None]:
    """Return patterns of labels. One job named twice is split into its two agents; of more there is no pattern."""
    if specs[0] != specs[1] or a_agent is not None or b_agent is not None:
        return a_agent, b_agent
    with HistoryReader.of(directory) as history:
        job = find_job(history, specs[0])
        if len(agents_of(history, job)) > 2:
            return None, None
        try:
            a, b = two_agents(history, job)
        except InputError as error:
            raise click.UsageError(f"{error.message}: --a-agent and --b-agent") from None
    return exactly(a), exactly(b)


def _compared(
    directory: Path,
    sides: Iterable[tuple[str, str, str | None]],
    benchmarks: Sequence[str],
    **settings: Any,
) -> Comparison:
    """Compare two sides, each given by its spec, its name and a pattern of its agents, or the agents of one."""
    with HistoryReader.of(directory) as history:
        found = []
        notes: list[str] = []
        for spec, name, pattern in dict.fromkeys(sides):
            with contextlib.suppress(InputError):
                if (death := death_of(directory, find_job(history, spec))) is not None:
                    say(death, err=True)
            side, more = stored_side(history, directory, spec)
            found.append(narrowed(side, name, pattern, benchmarks))
            notes += more
    made = (compare_agents if len(found) == 1 else compare_sides)(*found, notes=tuple(notes), **settings)
    of_rows = {row.benchmark for row in made.rows}
    rules = about_readings(reader(directory), of_rows, made.b.jobs, made.a.jobs)
    return made.model_copy(update={"notes": (*made.notes, *rules)})


def _write(comparison: Comparison, directory: Path) -> Path:
    path = directory / f"compare-{comparison.id}.json"
    with writing(path):
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(path, comparison.model_dump_json(indent=1).encode())
    return path


@click.command("view-comparison")
@click.argument("comparison", default="last")
@directory_option
@output_option("comparison")
def view_comparison(comparison: str, directory: Path, output: str) -> None:
    """Show a stored COMPARISON: an id, the beginning of one, or last."""
    with HistoryReader.of(directory) as history:
        found = find_comparison(history, comparison)
    emit(found, lambda: comparison_lines(found, width()), output)
