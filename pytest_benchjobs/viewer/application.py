"""The viewer as an ASGI app: a page, its parts, and the documents behind it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..model.comparison import HighScore
from ..model.errors import BenchError
from ..store.listing import NoPlace
from . import comparison, content, job, lists, over_time, seed, trajectory, trial
from .guard import Guard, health, names, refused
from .query import Query, Refused
from .results import Results, job_of
from .sending import file_answer, packed, page_answer, static_answer
from .streaming import stream

_LARGEST = 64 << 20
"""Bytes of a document. Each is bounded by itself; this is a last resort."""


class _Document(NamedTuple):
    """A document that can be asked for."""

    path: str
    make: Callable[..., BaseModel]
    """Makes it of the results and their open history, of the parts of its path, and of a query if it has parameters."""
    parameters: tuple[str, ...] = ()


DOCUMENTS = (
    _Document("/api/meta", lists.meta),
    _Document("/api/overview", lists.overview, lists.OVERVIEW),
    _Document("/api/jobs", lists.jobs, lists.JOBS),
    _Document("/api/runs", lists.runs, lists.RUNS),
    _Document("/api/compare", comparison.compare, comparison.COMPARE),
    _Document("/api/align", trajectory.align, trajectory.ALIGN),
    _Document("/api/scenario", over_time.scenario, over_time.SCENARIO),
    _Document("/api/trend", over_time.trend, over_time.TREND),
    _Document("/api/jobs/{job}", job.job_document),
    _Document("/api/jobs/{job}/matrix", job.matrix_document),
    _Document("/api/jobs/{job}/trial", trial.trial, trial.TRIAL),
    _Document("/api/jobs/{job}/steps", trajectory.steps, trajectory.STEPS),
    _Document("/api/jobs/{job}/log", content.log, content.LOG),
    _Document("/api/viewer-data", seed.viewer_document),
    _Document("/api/trajectories/{job}/{benchmark}/{scenario:path}", seed.trajectories),
)
"""Documents by their path. Other parts of a path are arguments."""


def make_app(
    directory: Path, *, hosts: tuple[str, ...], token: str | None, high_scores: Mapping[str, HighScore]
) -> ASGIApp:
    """Make the app. See `pytest_benchjobs.viewer.app`."""
    results = Results(directory, high_scores)

    def own(path: str, answer: Callable[[Results, Request], Any]) -> Route:
        bound = functools.partial(answer, results)

        async def answered(request: Request) -> Response:
            try:
                if inspect.iscoroutinefunction(answer):
                    return await bound(request)  # type: ignore[no-any-return]
                return await run_in_threadpool(bound, request)
            except (Refused, BenchError) as error:
                return _refusal(error)

        return Route(path, answered)

    app = Starlette(
        routes=[
            Route("/health", lambda _: health()),
            *(own(one.path, functools.partial(_answer, one)) for one in DOCUMENTS),
            own("/api/jobs/{job}/file", file_answer),
            own("/api/jobs/{job}/live", stream),
            own("/static/{name:path}", static_answer),
            own("/", page_answer),
        ],
        exception_handlers={404: _not_found, 500: _broken},
    )
    return Guard(app, names(hosts), token)


def _answer(document: _Document, results: Results, request: Request) -> Response:
    query = Query(request.query_params.multi_items(), document.parameters)
    parts: dict[str, Any] = {**request.path_params, **({"query": query} if document.parameters else {})}
    with results.open() as history:
        if "job" in parts:
            parts["job"] = job_of(history, parts["job"])
        found = document.make(results, history, **parts)
    body = found.model_dump_json(by_alias=True).encode("utf-8", "replace")
    if len(body) > _LARGEST:
        return refused(413, f"the answer has more than {_LARGEST >> 20} MB")
    return packed(request, body, "application/json")


def _refusal(error: Refused | BenchError) -> Response:
    if isinstance(error, NoPlace):
        return refused(400, error.message)
    if isinstance(error, Refused):
        return refused(error.status, error.message)
    return refused(500, str(error))


async def _not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return refused(404, "there is nothing at this address")


async def _broken(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return refused(500, "this page is broken: its cause is in the output of the server")
