"""`logs`: copy the logs of a job to a directory."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ..model.errors import BenchError, InputError
from ..model.job import JobConfig
from ..model.result import TrialResult
from ..report.documents import mirror
from ..report.documents.jobs import CopiedTrial, LogsDocument, Reason, ScorerLog, TrialLog
from ..report.table import marks
from ..report.units import counted, some
from ..store.bundle import JobBundle
from ..store.copying import Copied, copy_file, copy_tree, directory_name, inside, staged
from ..store.layout import AGENT_FILES, RESULT
from ..store.reader import HistoryReader
from ..store.results import origins
from ..store.rows import TrialRow
from ..store.text import one_line
from ..store.trial_ids import job_or_trials, means
from ..store.trials import read_result
from ._directory import DIRECTORY, directory_option
from ._output import FORMATS, OutputOption, emit, say

_USUAL = Path("logs")
RESULTS = "results.json"
_OURS = frozenset({RESULTS, RESULT})


@click.command()
@click.argument("job", default="last", metavar="[JOB|TRIAL]")
@click.option(
    "--output-dir", "target", type=DIRECTORY, show_default="./logs/JOB", help="Directory to copy to."
)
@click.option("--run", help="Only this run: its id as in `benchjobs runs`, or its number in the job.")
@click.option("--scenario", help="Only this scenario, or the trial with this id.")
@click.option(
    "-o",
    "--output",
    "outputs",
    cls=OutputOption,
    document="logs",
    multiple=True,
    metavar="[text|json|yaml]|DIRECTORY",
    help="Format of the report; any other value means the same as --output-dir.  [default: text]",
)
@directory_option
@click.pass_context
def logs(
    ctx: click.Context,
    job: str,
    target: Path | None,
    run: str | None,
    scenario: str | None,
    outputs: tuple[str, ...],
    directory: Path,
) -> None:
    """Copy the logs, scores and artifacts of JOB (an id, the beginning of one, a name, or last), or of one TRIAL.

    TRIAL is an id as pytest and other commands print it, or that of a scenario, in the newest job that has it.
    Each trial gets a directory DIR/AGENT_MODEL/SCENARIO with results.json and the trial's files; those of several
    attempts end in -1, -2, ... Exit status 1: something could not be copied.
    """
    output = next((text for text in reversed(outputs) if text in FORMATS), "text")
    places = [DIRECTORY.convert(text, None, ctx) for text in outputs if text not in FORMATS]
    if len(places) + (target is not None) > 1:
        raise click.UsageError("only one directory can be copied to")
    target = target or next(iter(places), None)
    with HistoryReader.of(directory) as history:
        job_id, trials = job_or_trials(history, job)
        named = {row.node_id for row in trials}
        rows = history.trials(job_id)
        record = history.record(job_id)
        chosen = _chosen(history, job_id, rows, run, scenario)
        if named:
            chosen = [row for row in chosen if row.node_id in named]
    if target is None:
        target = _USUAL / job_id
        _keep_out_of_commits(_USUAL)
    if not rows:
        click.echo(f"job {job_id} has no trials yet", err=True)
    elif output == "text":
        say(f"Copying logs of {counted(len(chosen), 'trial')} to {target}", err=True)
    within = _places(rows, record.config)
    signs = marks()
    copied = []
    for row in chosen:
        one, left_out = _copy(directory, row, target, within[row.node_id])
        copied.append(one)
        if output == "text":
            for line in _lines(one, row, signs):
                say(line)
        if left_out:
            more = f", and {len(left_out) - 1} more" if len(left_out) > 1 else ""
            say(f"left out of {one.directory}: {left_out[0]}{more}", err=True)
    whole = sum(1 for one in copied if one.status == "copied")
    document = LogsDocument(job=job_id, directory=str(target), copied=whole, trials=tuple(copied))
    emit(document, lambda: [f"Copied logs of {whole}/{counted(len(copied), 'trial')} to {target}"], output)
    if whole < len(copied):
        ctx.exit(1)


def _keep_out_of_commits(directory: Path) -> None:
    """Make the usual directory if it is missing, with a .gitignore: it gets what agents wrote."""
    if directory.exists():
        return
    with contextlib.suppress(OSError):
        directory.mkdir()
        (directory / ".gitignore").write_text(
            "# Logs of benchmark jobs. Delete this file to commit them.\n*\n"
        )


def _chosen(
    history: HistoryReader, job_id: str, rows: Sequence[TrialRow], run: str | None, scenario: str | None
) -> list[TrialRow]:
    if run is not None:
        runs = [row.id for row in history.runs(job_id)]
        run = f"{job_id}.{run}" if f"{job_id}.{run}" in runs else run
        if run not in runs:
            there = f"it has {', '.join(runs)}" if runs else "it has none yet"
            raise InputError(f"there is no run {run!r} in job {job_id}: {there}")
    rows = [row for row in rows if run is None or row.run == run]
    chosen = [row for row in rows if scenario is None or means(scenario, row)]
    if scenario is not None and not chosen:
        of = f"run {run}" if run is not None else f"job {job_id}"
        names = list(dict.fromkeys(row.scenario for row in rows))
        close = difflib.get_close_matches(scenario, names, n=5)
        near = f". Did you mean {', '.join(close)}?" if close else f": it has {some(names, 10) or 'none'}"
        raise InputError(f"there is no trial of scenario {scenario!r} in {of}{near}")
    return chosen


def _places(rows: Sequence[TrialRow], config: JobConfig) -> dict[str, Path]:
    """Return a directory for each node id: stable under any choice, and unique even where case is ignored."""
    agents: dict[str, str] = {}
    names: dict[tuple[str, str], list[TrialRow]] = {}
    for row in rows:
        if row.agent not in agents:
            name = directory_name(row.agent.replace(":", "_", 1))
            agents[row.agent] = _free(name, {taken.casefold() for taken in agents.values()})
        names.setdefault((row.agent, directory_name(row.scenario).casefold()), []).append(row)
    taken: dict[str, set[str]] = {}
    places = {}
    for (agent, _), group in names.items():
        attempts = [row.attempt for row in group]
        alone = len(group) == 1 and config.of(group[0].benchmark).attempts == 1
        for number, row in enumerate(group, 1):
            ending = row.attempt if len(set(attempts)) == len(attempts) else number
            wanted = directory_name(row.scenario) + ("" if alone else f"-{ending}")
            name = _free(wanted, taken.setdefault(agent, set()))
            taken[agent].add(name.casefold())
            places[row.node_id] = Path(agents[agent]) / name
    return places


def _free(name: str, taken: set[str]) -> str:
    while name.casefold() in taken:
        name += "_"
    return name


def _copy(directory: Path, row: TrialRow, target: Path, place: Path) -> tuple[CopiedTrial, list[str]]:
    """Copy one trial; also return what was left out on purpose. Problems are in the returned row."""
    copied = Copied()
    try:
        with staged(target / place, RESULTS) as staging:
            result = _files(directory, row, staging, copied)
            content = _log(row, result).model_dump_json(indent=1, by_alias=True)
            (staging / RESULTS).write_text(content + "\n", "utf-8")
            copied.files += 1
            copied.bytes += len(content.encode()) + 1
    except (BenchError, OSError) as error:
        copied.problems.append(str(error))
    one = CopiedTrial(
        node_id=row.node_id,
        run=row.run,
        status="incomplete" if copied.problems else "copied",
        directory=str(place),
        files=copied.files,
        bytes=copied.bytes,
        problem=one_line(copied.problems[0], 500) if copied.problems else None,
    )
    return one, copied.left_out


def _files(directory: Path, row: TrialRow, target: Path, copied: Copied) -> TrialResult | None:
    """Copy the files of a trial; return the content of its result.json. Missing files go to `copied.problems`.

    A reused result is only a result.json: its files are in the job that ran it. A rescored one has the scorers' files;
    the agent's are in the job that ran the agent.
    """
    if not row.path:
        return None  # no files: its job could not write
    place = inside(JobBundle.open(directory, row.job).root, row.path)
    if not place.is_dir():
        copied.problems.append(f"{place}: is not there")
        return None
    result = None
    try:
        result = read_result(place)
    except InputError as error:
        copied.problems.append(str(error))
    copy_tree(place, target, copied, leave=_OURS)
    if result is None or (target / AGENT_FILES[0]).exists():
        return result  # a merged job has the files itself, and names the job they came from
    try:
        for there, same in origins(directory, result):
            if same and not copied.files:
                copy_tree(there, target, copied, leave=_OURS)
            for name in AGENT_FILES:
                if (there / name).exists() and not (target / name).exists():
                    copy_file(there / name, target / name, copied)
            if (target / AGENT_FILES[0]).exists():
                break
    except InputError as error:
        copied.problems.append(str(error))
    return result


def _log(row: TrialRow, result: TrialResult | None) -> TrialLog:
    return mirror(
        TrialLog,
        row,
        failure=Reason(class_=row.class_, message=row.message or "") if row.class_ else None,
        scorers=tuple(
            mirror(
                ScorerLog,
                scorer,
                status="complete" if scorer.error is None else "error",
                error=None if scorer.error is None else mirror(Reason, scorer.error),
            )
            for scorer in (result.scorers if result else ())
        ),
    )


def _lines(one: CopiedTrial, row: TrialRow, signs: dict[str, str]) -> Iterator[str]:
    sign = signs["passed" if one.status == "copied" else "failed"]
    attempt = f" {row.attempt}" if not one.directory.endswith(row.scenario) else ""
    yield f"  {sign} {one_line(row.agent, 100)} / {one_line(row.scenario, 100)}{attempt}"
    if one.problem is not None:
        yield f"      {one_line(one.problem, 500)}"
