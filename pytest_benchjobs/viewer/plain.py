"""Pages as plain HTML tables, without any script: for screen readers, text browsers and curl."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from ..analysis.trials import grouped
from ..model.gate import ScenarioRef
from ..report.documents.summary import AgentFigures
from ..report.documents.viewer import PairColumns, ViewerMatrix, ViewerTrial
from ..store.listing import JOBS
from . import comparison, content, job, lists, over_time, trajectory, trial
from .plain_parts import (
    Links,
    Pairs,
    choice,
    fact_table,
    field,
    fields_of,
    form,
    href,
    more,
    rows_of,
    shell,
    table,
    text_of,
)
from .query import Query, Refused
from .results import Results

_JOB = ("job", "q", "agent", "outcome", "after")
_TRIAL = ("job", "id", "after", "limit", "q", "log", "offset")
_COMPARE = (*comparison.COMPARE, "kind", "after")
_STATE = ("step", "play", "file", "log_q")
"""Parameters that only the page with a script looks at."""
_SHOWN = 6000
"""Trials, or pairs of scenarios, on a page."""
_FARTHEST = 1_000_000
_LOG_PART = 1 << 16
_REFS = 200
_RUN_COLUMNS = (
    "id job benchmark status agent provider model mean_score input_tokens output_tokens total_tokens cached_tokens "
    "calls high_score delta started_at seconds median_seconds"
)
_JOB_COLUMNS = (
    "id name status created_at trials passed failed error mean_score cost_usd agents benchmarks branch commit "
    "verdict"
)
_AGENT_COLUMNS = (
    "agent passed partial failed_(0.0) failed_(error) cancelled skipped total mean cost_usd input_tokens output_tokens "
    "seconds"
)
_COMPARED_COLUMNS = (
    "benchmark a_agent b_agent scenarios a b delta low high p_value detectable winner significant"
)
_TO_JOB: Links = {"job": lambda row: href("job", job=row["job"])}
_TO_SCENARIO: Links = {
    "scenario": lambda row: href("scenario", benchmark=row["benchmark"], scenario=row["scenario"])
}


def _list_form(results: Results, page: str, pairs: Pairs, columns: Sequence[str]) -> str:
    """Return the form to search, filter and sort a list."""
    choices = lists.meta(results, Query((), ())).choices
    fields = (
        field("q", "Search", pairs),
        choice("benchmark", "Benchmark", choices.benchmarks, pairs),
        choice("status", "Status", choices.statuses, pairs),
        choice("agent", "Agent", choices.agents, pairs),
        choice("model", "Model", choices.models, pairs),
        choice("branch", "Branch", choices.branches, pairs),
        choice("tag", "Tag", choices.tags, pairs),
        choice("sort", "Sort by", columns, pairs, "time"),
        choice("order", "Order", ("desc", "asc"), pairs, None),
    )
    return form(page, pairs, filter(None, fields), kept=("job", "limit"))


def _jobs(results: Results, pairs: Pairs) -> Iterator[str]:
    page = lists.jobs(results, Query(pairs, lists.JOBS))
    yield _list_form(results, "jobs", pairs, [name for name in _JOB_COLUMNS.split() if name in JOBS.sorts])
    links: Links = {"id": lambda row: href("job", job=row["id"])}
    yield table(f"{page.total} jobs", _JOB_COLUMNS, _of_runs(page.jobs), links)
    yield more("jobs", pairs, page.next)
    yield from _overview(results, pairs)


def _runs(results: Results, pairs: Pairs) -> Iterator[str]:
    page = lists.runs(results, Query(pairs, lists.RUNS))
    yield _list_form(results, "runs", pairs, _RUN_COLUMNS.split())
    yield table(f"{page.total} runs", _RUN_COLUMNS, _of_runs(page.runs), _TO_JOB)
    yield more("runs", pairs, page.next)
    yield from _overview(results, pairs)


def _of_runs(models: Iterable[BaseModel]) -> Iterator[dict[str, Any]]:
    """Yield the rows of jobs or runs: high scores as numbers; where the process died, the status says so."""
    for row in rows_of(models):
        status = f"{row['status']}, its process died" if row["dead"] else row["status"]
        high = row.get("high_score")
        yield {**row, "status": status, "high_score": high and high.score}


def _overview(results: Results, pairs: Pairs) -> Iterator[str]:
    found = lists.overview(
        results, Query([pair for pair in pairs if pair[0] in lists.OVERVIEW], lists.OVERVIEW)
    )
    counts = "jobs runs trials benchmarks filtered succeeded failed"
    yield fact_table("Totals", fields_of(found, counts))
    columns = "benchmark agent status mean_score high_score delta at job"
    for caption, rows in (("Latest scores", found.latest_scores), ("Synthetic agents", found.synthetic)):
        yield table(caption, columns, _of_runs(rows), _TO_JOB, optional=True)
    columns = "name jobs branch commit set_at set_by reason"
    yield table("Baselines", columns, rows_of(found.baselines), optional=True)


def _job(results: Results, pairs: Pairs) -> Iterator[str]:
    query = Query(pairs, _JOB)
    found = job.job(results, Query((), ()), query.text("job") or "last")
    summary = found.summary
    head = "id name status message created_at finished_at planned parent metadata"
    facts = fields_of(summary, head) | fields_of(found, "branch commit")
    yield fact_table("Job", {**facts, "dead": "its process died" if summary.dead else None})
    counts = "Agents"
    if any(agent.verdicts for agent in summary.agents):
        counts += ": scenarios, each counted once by its verdict"
    yield table(counts, _AGENT_COLUMNS, map(_agent_row, summary.agents))
    attempts = (
        {"agent": agent.agent, **point, "flaky": len(agent.flaky)}
        for agent in summary.agents
        for point in rows_of(agent.at_k)
    )
    yield table("Several attempts", "agent k pass_at_k pass_hat_k scenarios flaky", attempts, optional=True)
    metrics = (
        metric | fields_of(run, "benchmark agent") for run in summary.runs for metric in rows_of(run.metrics)
    )
    yield table("Metrics", "name benchmark agent mean unit direction trials", metrics, optional=True)
    yield table("Reasons", "class outcome trials message", rows_of(found.errors))
    if found.gate_lines:
        lines = "\n".join(line.text for line in found.gate_lines)
        yield f"<h2>Verdict</h2><pre>{text_of(lines)}</pre>"
    rules = "expression benchmark agent verdict change low high tolerance p_value detectable why"
    yield table("Rules of the gate", rules, rows_of(found.rules), optional=True)
    yield table("What to type", "title command", rows_of(found.commands))
    yield from _matrix(job.matrix(results, Query((), ()), summary.id), summary.id, query, pairs)


def _agent_row(agent: AgentFigures) -> dict[str, Any]:
    """Return figures of an agent as `benchjobs summary` has them: of verdicts where the policy makes them."""
    counts = agent.verdicts or agent
    return {
        **next(rows_of([agent])),
        **fields_of(counts, "total passed partial skipped"),
        "failed_(0.0)": counts.zero,
        "failed_(error)": counts.error,
        "cancelled": 0 if agent.verdicts else agent.cancelled,
        "mean": agent.verdicts.mean_score if agent.verdicts else agent.mean_scored,
    }


def _matrix(matrix: ViewerMatrix, job_id: str, query: Query, pairs: Pairs) -> Iterator[str]:
    """Yield the trials of a job that are asked for."""
    fields = (
        field("q", "Search scenarios, tags, classes", pairs),
        choice("agent", "Agent", matrix.agents, pairs),
        choice("outcome", "Outcome", matrix.outcomes, pairs),
    )
    given = [("job", job_id), *(pair for pair in pairs if pair[0] != "job")]
    yield form("job", given, fields, kept=("job",))
    rows, caption, following = _page("Trials", _fitting(matrix, query), query)
    columns = "benchmark scenario agent attempt outcome score class seconds cost_usd"
    links = _TO_SCENARIO | {"attempt": lambda row: href("trial", job=job_id, id=row["id"])}
    yield table(caption, columns, rows, links)
    yield more("job", given, following)
    if matrix.left_out:
        yield f"<p>{matrix.left_out} trials beyond the first {job.MOST_TRIALS} are left out</p>"


def _fitting(matrix: ViewerMatrix, query: Query) -> list[dict[str, Any]]:
    """Return the trials of the scenarios that fit, as the page with the script chooses them."""
    agent, outcome = query.text("agent"), query.text("outcome")
    trials = [one for one in _trials(matrix) if agent not in matrix.agents or one["agent"] == agent]
    words = (query.text("q") or "").lower().split()

    def fits(row: int, those: list[dict[str, Any]]) -> bool:
        classes = [one["class"] for one in those]
        texts = (those[0]["scenario"], those[0]["benchmark"], *matrix.rows.tags[row], *classes)
        whole = "\n".join(filter(None, texts)).lower()
        wanted = outcome is None or any(one["outcome"] == outcome for one in those)
        return wanted and all(word in whole for word in words)

    of_row = grouped(trials, lambda one: one["row"])
    fitting = {row for row, those in of_row.items() if fits(row, those)}
    return [one for one in trials if one["row"] in fitting]


def _page(
    what: str, rows: list[dict[str, Any]], query: Query
) -> tuple[list[dict[str, Any]], str, int | None]:
    """Return the rows of a page, what they are, and the value of `after` for the next page."""
    after = query.number("after", 0, 0, _FARTHEST)
    shown = rows[after : after + _SHOWN]
    last = after + len(shown)
    if not shown:
        return shown, what, None
    if len(shown) == len(rows):
        return shown, f"{what}: {len(rows)}", None
    return shown, f"{what} {after + 1} to {last} of {len(rows)}", last if last < len(rows) else None


def _trials(matrix: ViewerMatrix) -> Iterator[dict[str, Any]]:
    trials = matrix.trials
    for place, row in enumerate(trials.row):
        class_, outcome = trials.class_[place], trials.outcome[place]
        yield {
            "row": row,
            "benchmark": matrix.benchmarks[matrix.rows.benchmark[row]],
            "scenario": matrix.rows.scenario[row],
            "agent": matrix.agents[trials.agent[place]],
            "attempt": trials.attempt[place],
            "outcome": "running" if outcome is None else matrix.outcomes[outcome],
            "score": trials.score[place],
            "class": None if class_ is None else matrix.classes[class_],
            "seconds": trials.seconds[place],
            "cost_usd": trials.cost_usd[place],
            "id": trials.id[place],
        }


def _trial(results: Results, pairs: Pairs) -> Iterator[str]:
    query = Query(pairs, _TRIAL)
    named, node_id = query.needed("job"), query.needed("id")
    found = trial.trial(results, Query([("id", node_id)], trial.TRIAL), named)
    result = found.result
    if found.withheld:
        yield "<p>Its benchmark is confidential: texts and files are withheld.</p>"
    yield fact_table("Trial", next(rows_of([found.row])) if found.row else {"id": node_id})
    if found.running is not None:
        yield fact_table("It runs", next(rows_of([found.running])))
        yield "<p>Its steps come when it has ended.</p>"
    if result is not None:
        facts = "score threshold failure turns tries agent_version models usage notes tags"
        yield fact_table("Result", fields_of(result, facts))
        yield table("Time", "name start end", rows_of(result.phases))
        yield table("Steps of the task", "name score start end not_run", rows_of(result.steps), optional=True)
        yield table("Scorers", "name type weight score error output", rows_of(result.scorers))
        yield table("Metrics", "name value unit direction", rows_of(result.metrics), optional=True)
    if found.statement is not None:
        yield f"<h2>Task</h2><pre>{text_of(found.statement)}</pre>"
    links: Links = {"name": lambda row: _log_link(found, node_id, row["name"])}
    yield table("Logs", "name bytes", rows_of(found.logs), links)
    yield from _log(results, found, node_id, query)
    base = f"api/jobs/{quote(found.job, safe='')}/file?"
    links = {"path": lambda row: html.escape(base + urlencode({"id": node_id, "path": row["path"]}))}
    yield table("Files", "path bytes kind", rows_of(found.files), links)
    yield table("What to type", "title command", rows_of(found.commands))
    if found.steps:
        given = [(name, value) for name, value in pairs if name in trajectory.STEPS]
        page = trajectory.steps(results, Query(given, trajectory.STEPS), found.job)
        columns = "step_id source message tool_calls observation"
        rows = [dict.fromkeys(columns.split()) | step for step in page.steps]
        yield form(
            "trial", pairs, [field("q", "Search the steps", pairs)], kept=("job", "id"), button="Search"
        )
        yield table(f"{page.total} steps", columns, rows)
        yield more("trial", pairs, page.next)


def _log_link(found: ViewerTrial, node_id: str, name: str, offset: int | None = None) -> str:
    return href("trial", job=found.job, id=node_id, log=name, offset=offset) + "#log"


def _log(results: Results, found: ViewerTrial, node_id: str, query: Query) -> Iterator[str]:
    """Yield the part of a log that is asked for, and the ways to its other parts."""
    name = query.text("log")
    if name is None:
        return
    yield f"<h2 id='log'>Log {text_of(name)}</h2>"
    parameters = [
        ("id", node_id),
        ("name", name),
        ("offset", query.text("offset") or "0"),
        ("limit", str(_LOG_PART)),
    ]
    try:
        part = content.log(results, Query(parameters, content.LOG), found.job)
    except Refused as error:
        yield f"<p>{text_of(error.message)}</p>"
        return
    end = part.bytes if part.next is None else part.next
    yield f"<p>Bytes {part.offset} to {end} of {part.bytes}</p><pre>{text_of(part.text, len(part.text))}</pre>"
    ways = [("First part", 0)] if part.offset else []
    if part.next is not None:
        ways += [("Next part", part.next), ("Last part", -_LOG_PART)]
    links = " ".join(
        f"<a href='{_log_link(found, node_id, name, place)}'>{title}</a>" for title, place in ways
    )
    yield f"<p>{links}</p>"


def _compare(results: Results, pairs: Pairs) -> Iterator[str]:
    sides = [field("a", "Job or baseline A", pairs), field("b", "Job or baseline B", pairs)]
    if not {"a", "b"} <= dict(pairs).keys():
        yield form("compare", pairs, sides, button="Compare")
        return
    query = Query(pairs, _COMPARE)
    given = [pair for pair in pairs if pair[0] in comparison.COMPARE]
    found = comparison.compare(results, Query(given, comparison.COMPARE))
    fields = (
        *sides,
        choice("a_agent", "Agent A", found.agents_a, pairs, "its own"),
        choice("b_agent", "Agent B", found.agents_b, pairs, "its own"),
        choice("kind", "Kind", comparison.KINDS, pairs),
    )
    yield form("compare", pairs, fields, kept=("benchmark",), button="Compare")
    yield fact_table("Sides", {"A": found.a_jobs, "B": found.b_jobs})
    yield table("Comparison", _COMPARED_COLUMNS, rows_of(found.comparison.rows))
    metrics = (
        metric | fields_of(row, "benchmark a_agent b_agent")
        for row in found.comparison.rows
        for metric in rows_of(row.metrics)
    )
    columns = "name benchmark a_agent b_agent scenarios a b delta unit direction winner p_value"
    yield table("Metrics", columns, metrics, optional=True)
    for note in found.comparison.notes:
        yield f"<p>{text_of(note)}</p>"
    rows, caption, following = _page("Scenarios of both", _pairs(found.pairs, query.text("kind")), query)
    yield table(caption, " ".join(PairColumns.model_fields), rows, _TO_SCENARIO)
    yield more("compare", pairs, following)
    if found.left_out:
        yield f"<p>{found.left_out} pairs beyond the first {comparison.MOST_PAIRS} are left out</p>"
    yield from _refs("Not compared: not the same task on both sides", found.comparison.changed)
    yield from _refs("Not compared: no score on a side", found.comparison.unscored)
    yield from _refs("On A only", found.comparison.removed)
    yield from _refs("On B only", found.comparison.added)


def _pairs(pairs: PairColumns, kind: str | None) -> list[dict[str, Any]]:
    """Return the pairs of a kind, or all: those that broke first, the largest change before others."""
    names = tuple(PairColumns.model_fields)
    columns = (getattr(pairs, name) for name in names)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    fitting = [row for row in rows if kind is None or row["kind"] == kind]
    return sorted(
        fitting,
        key=lambda row: (comparison.KINDS.index(row["kind"]), -abs(row["b"] - row["a"]), row["scenario"]),
    )


def _refs(title: str, found: Sequence[ScenarioRef]) -> Iterator[str]:
    """Yield scenarios that are not among the pairs."""
    yield table(title, " ".join(ScenarioRef.model_fields), rows_of(found[:_REFS]), optional=True)
    if len(found) > _REFS:
        yield f"<p>and {len(found) - _REFS} others</p>"


def _steps(results: Results, pairs: Pairs) -> Iterator[str]:
    found = trajectory.align(results, Query(pairs, trajectory.ALIGN))
    yield fact_table("Steps", found.counts)
    yield table("Side by side", "kind a b", rows_of(found.rows))
    yield more("steps", pairs, found.next)


def _scenario(results: Results, pairs: Pairs) -> Iterator[str]:
    found = over_time.scenario(results, Query(pairs, over_time.SCENARIO))
    yield fact_table("Scenario", fields_of(found, "benchmark scenario last_seen"))
    columns = "agent attempts passed failed errors pass_rate low high mean_score flips contents"
    yield table("Agents", columns, rows_of(found.agents))
    columns = "at agent attempt outcome score seconds cost_usd job commit branch changed"
    links = _TO_JOB | {"attempt": lambda row: href("trial", job=row["job"], id=row["id"])}
    yield table("Results", columns, rows_of(found.results), links)
    yield more("scenario", pairs, found.next)


def _trend(results: Results, pairs: Pairs) -> Iterator[str]:
    found = over_time.trend(results, Query(pairs, over_time.TREND))
    columns = "key at benchmark agent scenarios attempts mean low high passed failed errors known"
    yield table(f"Mean score by {found.by}", columns, rows_of(found.points))


PAGES: dict[str, tuple[str, Sequence[str], Callable[[Results, Pairs], Iterator[str]]]] = {
    "jobs": ("Jobs", lists.JOBS, _jobs),
    "runs": ("Runs", lists.RUNS, _runs),
    "job": ("Job", _JOB, _job),
    "trial": ("Trial", _TRIAL, _trial),
    "compare": ("Compare", _COMPARE, _compare),
    "steps": ("Steps side by side", trajectory.ALIGN, _steps),
    "scenario": ("Scenario", over_time.SCENARIO, _scenario),
    "trend": ("Trend", over_time.TREND, _trend),
    "live": ("Job", ("job",), _job),
}
"""Page -> its title, its parameters, and its content."""
KNOWN = tuple(
    dict.fromkeys(("page", "plain", *_STATE, *(name for _, names, _ in PAGES.values() for name in names)))
)


def plain_page(results: Results, query: Query) -> str:
    """Return the page that a query asks for."""
    title, names, body = PAGES[query.choice("page", "jobs", PAGES)]
    pairs = [(name, value) for name in names for value in query.texts(name)]
    return shell(title, "".join(body(results, pairs)))
