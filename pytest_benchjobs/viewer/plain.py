"""Pages as plain HTML tables, without any script: for screen readers, text browsers and curl.

Everything in them is escaped here, in one place: `text_of`.
"""

from __future__ import annotations

import datetime
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from ..store.listing import JOB_SORTS
from ..store.text import clean, plain
from . import comparison, job, lists, over_time, trajectory, trial
from .query import Query
from .results import Results

_PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "jobs": ("Jobs", lists.JOBS),
    "runs": ("Runs", lists.RUNS),
    "job": ("Job", ("job",)),
    "trial": ("Trial", ("job", "id", "after", "limit", "q")),
    "compare": ("Compare", comparison.COMPARE),
    "steps": ("Steps side by side", trajectory.ALIGN),
    "scenario": ("Scenario", over_time.SCENARIO),
    "trend": ("Trend", over_time.TREND),
    "live": ("Job", ("job",)),
}
"""Page -> its title and its parameters."""
_STATE = ("step", "log", "play", "outcome", "agent", "kind")
"""Parameters that only the page with a script looks at."""
KNOWN = tuple(
    dict.fromkeys(("page", "plain", *_STATE, *(name for _, names in _PAGES.values() for name in names)))
)
_TEXT = 20_000
_SHOWN = 6000
_RUN_COLUMNS = (
    "id", "job", "benchmark", "status", "agent", "provider", "model", "mean_score", "input_tokens", "output_tokens",
    "total_tokens", "cached_tokens", "calls", "high_score", "delta", "started_at", "seconds",
)  # fmt: skip
_JOB_COLUMNS = (
    "id", "name", "status", "created_at", "trials", "passed", "failed", "error", "mean_score", "cost_usd", "agents",
    "benchmarks", "branch", "commit", "verdict",
)  # fmt: skip


def plain_page(results: Results, query: Query) -> str:
    """Return the page that a query asks for.

    Raises:
        Refused: there is no such page, or nothing of what it is about.
    """
    page = query.choice("page", "jobs", _PAGES)
    title, names = _PAGES[page]
    pairs = [(name, value) for name in names for value in query.texts(name)]
    makers: dict[str, Callable[[Results, list[tuple[str, str]]], Iterator[str]]] = {
        "jobs": _jobs,
        "runs": _runs,
        "job": _job,
        "live": _job,
        "trial": _trial,
        "compare": _compare,
        "steps": _steps,
        "scenario": _scenario,
        "trend": _trend,
    }
    return shell(title, "".join(makers[page](results, pairs)))


def shell(title: str, body: str) -> str:
    """Return a page; `body` is HTML, the title text."""
    links = " ".join(
        f"<a href='{href(page)}'>{name}</a>"
        for page, name in (("jobs", "Jobs"), ("runs", "Runs"), ("compare", "Compare"), ("trend", "Trend"))
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{text_of(title)} - benchjobs</title>"
        "<meta name='viewport' content='width=device-width'><link rel='icon' href='data:,'>"
        "<link rel='stylesheet' href='static/plain.css'></head>"
        f"<body><nav aria-label='Pages'>{links}</nav><main><h1>{text_of(title)}</h1>{body}</main></body></html>\n"
    )


def text_of(value: object) -> str:
    """Return a value as HTML that shows it and does nothing else."""
    if value is None:
        return ""
    if isinstance(value, float):
        value = f"{value:.4g}"
    elif isinstance(value, datetime.datetime):
        value = f"{value:%Y-%m-%d %H:%M:%S}"
    elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    elif not isinstance(value, str | int):
        value = json.dumps(plain(_data(value)), ensure_ascii=False)
    return html.escape(clean(str(value), _TEXT))


def href(page: str, **values: object) -> str:
    """Return the escaped link to a plain page."""
    given = {name: str(value) for name, value in values.items() if value is not None}
    return html.escape("?" + urlencode({"page": page, "plain": "1", **given}))


def _data(value: object) -> object:
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value


def _table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    links: Mapping[str, Callable[[Any], str]] | None = None,
) -> str:
    """Return a table of these columns of rows; `links` makes links of some columns."""
    head = "".join(f"<th scope='col'>{text_of(name.replace('_', ' '))}</th>" for name in columns)
    body = []
    for row in rows:
        cells = []
        for name in columns:
            shown = text_of(row[name])
            link = (links or {}).get(name)
            cells.append(
                f"<td><a href='{link(row)}'>{shown}</a></td>" if link and shown else f"<td>{shown}</td>"
            )
        body.append(f"<tr>{''.join(cells)}</tr>")
    if not body:
        return f"<p>{text_of(caption)}: none</p>"
    return (
        f"<table><caption>{text_of(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _facts(caption: str, facts: Mapping[str, object]) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{text_of(name.replace('_', ' '))}</th><td>{text_of(value)}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<table><caption>{text_of(caption)}</caption><tbody>{rows}</tbody></table>"


def _rows(models: Iterable[BaseModel]) -> Iterator[dict[str, Any]]:
    """Yield the fields of models, without those of models in them."""
    for model in models:
        yield {
            (field.serialization_alias or name): getattr(model, name)
            for name, field in type(model).model_fields.items()
        }


def _more(page: str, pairs: list[tuple[str, str]], following: object) -> str:
    if following is None:
        return ""
    values = [(name, value) for name, value in pairs if name != "after"]
    query = urlencode([("page", page), ("plain", "1"), *values, ("after", str(following))])
    return f"<p><a href='?{html.escape(query)}'>Next page</a></p>"


def _search(page: str, pairs: list[tuple[str, str]], columns: Iterable[str]) -> str:
    """Return a form to search and sort."""
    given = dict(pairs)
    options = "".join(
        f"<option{' selected' if given.get('sort') == name else ''}>{text_of(name)}</option>"
        for name in columns
    )
    return (
        f"<form><input type='hidden' name='page' value='{page}'><input type='hidden' name='plain' value='1'>"
        f"<label>Search <input name='q' value='{text_of(given.get('q'))}'></label> "
        f"<label>Sort by <select name='sort'><option></option>{options}</select></label> "
        f"<label>Order <select name='order'><option>desc</option>"
        f"<option{' selected' if given.get('order') == 'asc' else ''}>asc</option></select></label> "
        "<button>Show</button></form>"
    )


def _jobs(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    page = lists.jobs(results, Query(pairs, lists.JOBS))
    yield _search("jobs", pairs, [name for name in _JOB_COLUMNS if name in JOB_SORTS])
    yield _table(
        f"{page.total} jobs",
        _JOB_COLUMNS,
        _rows(page.jobs),
        {"id": lambda row: href("job", job=row["id"])},
    )
    yield _more("jobs", pairs, page.next)
    yield from _overview(results, pairs)


def _runs(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    page = lists.runs(results, Query(pairs, lists.RUNS))
    rows = [
        {**row, "high_score": None if row["high_score"] is None else row["high_score"].score}
        for row in _rows(page.runs)
    ]
    yield _search("runs", pairs, _RUN_COLUMNS)
    yield _table(f"{page.total} runs", _RUN_COLUMNS, rows, {"job": lambda row: href("job", job=row["job"])})
    yield _more("runs", pairs, page.next)
    yield from _overview(results, pairs)


def _overview(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    found = lists.overview(
        results, Query([pair for pair in pairs if pair[0] in lists.OVERVIEW], lists.OVERVIEW)
    )
    counts = ("jobs", "runs", "trials", "benchmarks", "filtered", "succeeded", "failed")
    yield _facts("Totals", {name: getattr(found, name) for name in counts})
    columns = ("benchmark", "agent", "mean_score", "high_score", "delta", "at", "job")
    for caption, rows in (("Latest scores", found.latest_scores), ("Synthetic agents", found.synthetic)):
        if rows:
            of = [{**row, "high_score": row["high_score"] and row["high_score"].score} for row in _rows(rows)]
            yield _table(caption, columns, of, {"job": lambda row: href("job", job=row["job"])})
    if found.baselines:
        yield _table(
            "Baselines",
            ("name", "jobs", "branch", "commit", "set_at", "set_by", "reason"),
            _rows(found.baselines),
        )


def _job(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    named = Query(pairs, ("job",)).text("job") or "last"
    found = job.job(results, Query((), ()), named)
    summary = found.summary
    head = ("id", "name", "status", "message", "created_at", "finished_at", "planned", "parent", "metadata")
    facts = {name: getattr(summary, name) for name in head} | {"branch": found.branch, "commit": found.commit}
    yield _facts("Job", {**facts, "dead": "its process died" if summary.dead else None})
    figures = (
        "agent", "total", "passed", "partial", "zero", "error", "cancelled", "skipped", "pass_rate", "mean_scored",
        "cost_usd", "input_tokens", "output_tokens", "seconds",
    )  # fmt: skip
    yield _table("Agents", figures, _rows(summary.agents))
    if attempts := [
        {"agent": agent.agent, **point, "flaky": len(agent.flaky)}
        for agent in summary.agents
        for point in _rows(agent.at_k)
    ]:
        yield _table(
            "Several attempts", ("agent", "k", "pass_at_k", "pass_hat_k", "scenarios", "flaky"), attempts
        )
    if metrics := [
        {**metric, "benchmark": run.benchmark, "agent": run.agent}
        for run in summary.runs
        for metric in _rows(run.metrics)
    ]:
        yield _table(
            "Metrics", ("name", "benchmark", "agent", "mean", "unit", "direction", "trials"), metrics
        )
    yield _table("Reasons", ("class", "outcome", "trials", "message"), _rows(found.errors))
    if found.gate_lines:
        lines = "\n".join(line.text for line in found.gate_lines)
        yield f"<h2>Verdict</h2><pre>{text_of(lines)}</pre>"
    rules = (
        "expression",
        "benchmark",
        "agent",
        "verdict",
        "change",
        "low",
        "high",
        "tolerance",
        "p_value",
        "detectable",
        "why",
    )
    if found.rules:
        yield _table("Rules of the gate", rules, _rows(found.rules))
    yield _table("What to type", ("title", "command"), _rows(found.commands))
    matrix = job.matrix(results, Query((), ()), summary.id)
    yield _table(
        "Trials",
        ("benchmark", "scenario", "agent", "attempt", "outcome", "score", "class", "seconds", "cost_usd"),
        _trials(matrix),
        {
            "attempt": lambda row: href("trial", job=summary.id, id=row["id"]),
            "scenario": lambda row: href("scenario", benchmark=row["benchmark"], scenario=row["scenario"]),
        },
    )
    if len(matrix.trials.row) > _SHOWN or matrix.left_out:
        yield f"<p>and {len(matrix.trials.row) - _SHOWN + matrix.left_out} more</p>"


def _trials(matrix: Any) -> Iterator[dict[str, object]]:
    trials = matrix.trials
    for place in range(min(_SHOWN, len(trials.row))):
        row, class_, outcome = trials.row[place], trials.class_[place], trials.outcome[place]
        yield {
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


def _trial(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    query = Query(pairs, _PAGES["trial"][1])
    named, node_id = query.needed("job"), query.needed("id")
    found = trial.trial(results, Query([("id", node_id)], trial.TRIAL), named)
    result = found.result
    if found.withheld:
        yield "<p>Its benchmark is confidential: texts and files are withheld.</p>"
    yield _facts("Trial", next(_rows([found.row])) if found.row else {"id": node_id})
    if found.running is not None:
        yield _facts("It runs", next(_rows([found.running])))
    if result is not None:
        facts = (
            "score",
            "threshold",
            "failure",
            "turns",
            "tries",
            "agent_version",
            "models",
            "usage",
            "notes",
            "tags",
        )
        yield _facts("Result", {name: getattr(result, name) for name in facts})
        yield _table("Time", ("name", "start", "end"), _rows(result.phases))
        if result.steps:
            yield _table(
                "Steps of the task", ("name", "score", "start", "end", "not_run"), _rows(result.steps)
            )
        yield _table("Scorers", ("name", "type", "weight", "score", "error", "output"), _rows(result.scorers))
        if result.metrics:
            yield _table("Metrics", ("name", "value", "unit", "direction"), _rows(result.metrics))
    if found.statement is not None:
        yield f"<h2>Task</h2><pre>{text_of(found.statement)}</pre>"
    base = f"api/jobs/{quote(found.job, safe='')}/"
    yield _table(
        "Logs",
        ("name", "bytes"),
        _rows(found.logs),
        {"name": lambda row: html.escape(base + "log?" + urlencode({"id": node_id, "name": row["name"]}))},
    )
    yield _table(
        "Files",
        ("path", "bytes", "kind"),
        _rows(found.files),
        {"path": lambda row: html.escape(base + "file?" + urlencode({"id": node_id, "path": row["path"]}))},
    )
    yield _table("What to type", ("title", "command"), _rows(found.commands))
    if found.steps:
        given = [(name, value) for name, value in pairs if name in trajectory.STEPS]
        page = trajectory.steps(results, Query(given, trajectory.STEPS), found.job)
        columns = ("step_id", "source", "message", "tool_calls", "observation")
        rows = [{name: step.get(name) for name in columns} for step in page.steps]
        yield _table(f"{page.total} steps", columns, rows)
        yield _more("trial", pairs, page.next)


def _compare(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    if not {"a", "b"} <= dict(pairs).keys():
        yield (
            "<form><input type='hidden' name='page' value='compare'><input type='hidden' name='plain' value='1'>"
            "<label>Job or baseline A <input name='a'></label> <label>Job or baseline B <input name='b'></label> "
            "<button>Compare</button></form>"
        )
        return
    found = comparison.compare(results, Query(pairs, comparison.COMPARE))
    columns = (
        "benchmark", "a_agent", "b_agent", "scenarios", "a", "b", "delta", "low", "high", "p_value", "detectable",
        "winner", "significant",
    )  # fmt: skip
    yield _table("Comparison", columns, _rows(found.comparison.rows))
    if metrics := [
        {**metric, **{name: getattr(row, name) for name in columns[:3]}}
        for row in found.comparison.rows
        for metric in _rows(row.metrics)
    ]:
        shown = (
            "name",
            *columns[:3],
            "scenarios",
            "a",
            "b",
            "delta",
            "unit",
            "direction",
            "winner",
            "p_value",
        )
        yield _table("Metrics", shown, metrics)
    for note in found.comparison.notes:
        yield f"<p>{text_of(note)}</p>"
    names = tuple(type(found.pairs).model_fields)
    columns_of = [getattr(found.pairs, name) for name in names]
    rows = (dict(zip(names, values, strict=True)) for values in list(zip(*columns_of, strict=True))[:_SHOWN])
    yield _table("Scenarios", names, rows)


def _steps(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    found = trajectory.align(results, Query(pairs, trajectory.ALIGN))
    yield _facts("Steps", found.counts)
    yield _table("Side by side", ("kind", "a", "b"), _rows(found.rows))
    yield _more("steps", pairs, found.next)


def _scenario(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    found = over_time.scenario(results, Query(pairs, over_time.SCENARIO))
    yield _facts(
        "Scenario", {"benchmark": found.benchmark, "scenario": found.scenario, "last_seen": found.last_seen}
    )
    agents = (
        "agent",
        "attempts",
        "passed",
        "failed",
        "errors",
        "pass_rate",
        "low",
        "high",
        "mean_score",
        "flips",
        "contents",
    )
    yield _table("Agents", agents, _rows(found.agents))
    yield _table(
        "Results",
        (
            "at",
            "agent",
            "attempt",
            "outcome",
            "score",
            "seconds",
            "cost_usd",
            "job",
            "commit",
            "branch",
            "changed",
        ),
        _rows(found.results),
        {
            "attempt": lambda row: href("trial", job=row["job"], id=row["id"]),
            "job": lambda row: href("job", job=row["job"]),
        },
    )
    yield _more("scenario", pairs, found.next)


def _trend(results: Results, pairs: list[tuple[str, str]]) -> Iterator[str]:
    found = over_time.trend(results, Query(pairs, over_time.TREND))
    yield _table(
        f"Mean score by {found.by}",
        (
            "key",
            "at",
            "benchmark",
            "agent",
            "scenarios",
            "attempts",
            "mean",
            "low",
            "high",
            "passed",
            "failed",
            "errors",
            "known",
        ),
        _rows(found.points),
    )
