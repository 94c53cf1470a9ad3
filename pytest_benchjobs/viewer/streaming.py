"""A running job as server-sent events: its whole state at each change, so that a lost event is no loss."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..job.follow import Following
from ..model.errors import BenchError
from .query import Query, Refused
from .results import Results, job_of, root_of

MOST = 32
"""Streams at once: each looks at its job twice a second."""
_LOOK_SECONDS = 0.5
_BEAT_SECONDS = 15.0
_TIMES = ("at", "elapsed", "eta")
"""Fields that differ each time, which make no change unless they become known."""
_open = threading.BoundedSemaphore(MOST)
_stopping = threading.Event()


def stop_streams() -> None:
    """End all streams within a second, as the server is about to stop: no server stops while it answers."""
    _stopping.set()


async def stream(results: Results, request: Request) -> Response:
    """Answer with the state of a job until it ends."""
    Query(request.query_params.multi_items(), ())
    if not _open.acquire(blocking=False):
        raise Refused(503, f"{MOST} pages follow jobs already; close some")
    try:
        following = await run_in_threadpool(_following, results, request.path_params["job"])
    except BaseException:
        _open.release()
        raise
    last = request.headers.get("last-event-id", "")
    begun = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
    return _Stream(_states(following, begun), media_type="text/event-stream")


class _Stream(StreamingResponse):
    """Gives its place back when it ends, in whatever way."""

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        try:
            await super().__call__(scope, receive, send)
        finally:
            _open.release()


def _following(results: Results, text: str) -> Following:
    with results.open() as history:
        job_id = job_of(history, text)
    if root_of(results, job_id) is None:
        raise Refused(404, f"the files of job {job_id} are not here")
    return Following(results.directory, job_id)


async def _states(following: Following, number: int) -> AsyncIterator[str]:
    """Yield events. Numbers go on after that of the last event that the client has."""
    shown: str | None = None
    sent = time.monotonic()
    yield "retry: 2000\n\n"
    while True:
        try:
            data, compared, over = await run_in_threadpool(_look, following)
        except BenchError:
            return  # the job was removed: the client asks again, and is told so
        # Times go on while nothing else changes; the client counts seconds by itself in between.
        if compared != shown or over or time.monotonic() - sent >= _BEAT_SECONDS:
            number += 1
            shown, sent = compared, time.monotonic()
            yield f"event: {'end' if over else 'state'}\nid: {number}\ndata: {data}\n\n"
        if over:
            return
        if _stopping.is_set():
            yield "event: stop\ndata: {}\n\n"
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _look(following: Following) -> tuple[str, str, bool]:
    """Look at the job; return its state as JSON, the part of it that tells a change, and whether it is over."""
    following.look()
    found = following.document()
    compared = json.dumps({name: value is None if name in _TIMES else value for name, value in found.items()})
    return json.dumps(found), compared, following.over
