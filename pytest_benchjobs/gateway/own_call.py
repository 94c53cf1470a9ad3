"""The gateway's own small call of a model, which tells whether its endpoint answers at all."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

from multidict import CIMultiDict

from ..model.ending import Ending
from .connections import Connections
from .job import Job
from .liveness import Line
from .meter import Meter
from .retrying import Asking, Cut
from .tiers import rate
from .tokens import Unpriced
from .wires import Call, Kind

PROMPT = "Say OK."
"""Words of the call."""
_MESSAGES = [{"role": "user", "content": PROMPT}]
_TOKENS = 16
"""The fewest that every provider allows."""
_LONGEST = 10.0
"""Seconds for the call, and for the turn it may have to wait for."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "anthropic-version": "2023-06-01",
}


async def is_answered(job: Job, line: Line) -> bool:
    """Call a model, and return True if that is answered. What it uses is the job's, and no trial's.

    It is not called where that would exceed a limit of the job, and where answers come from a recording.
    """
    if job.replay is not None or job.spending.reached() or not job.spending.has_room(0):
        return False
    connections = Connections()
    try:
        async with asyncio.timeout(_LONGEST):
            for body in _bodies(line):
                asking = Asking(job, connections, line.target, _call(line), CIMultiDict(_HEADERS))
                answer = await asking.answer(json.dumps(body).encode(), patient=False)
                with contextlib.closing(answer):
                    content = b"".join([chunk async for chunk in answer.chunks])
                if answer.failure is None:
                    _count(job, line, content, streamed=answer.streamed)
                    return True
                if answer.failure.ending is not Ending.REFUSED:
                    return False
    except (TimeoutError, Cut):
        pass
    finally:
        await connections.close()
    return False


def _call(line: Line) -> Call:
    """Return the call that answers in one piece."""
    path = re.sub(r":stream(?:G|g)enerateContent.*", ":generateContent", line.call.path)
    return dataclasses.replace(line.call, path=path)


def _bodies(line: Line) -> Iterator[dict[str, Any]]:
    """Yield a body that limits the answer; where endpoints differ in how, then one that does not."""
    kind, named = line.call.kind, {"model": line.model}
    if kind is Kind.MESSAGES:
        yield {**named, "max_tokens": _TOKENS, "messages": _MESSAGES}
    elif kind is Kind.GENERATE:
        prompt = [{"role": "user", "parts": [{"text": PROMPT}]}]
        yield {"contents": prompt, "generationConfig": {"maxOutputTokens": _TOKENS}}
    elif kind is Kind.RESPONSES:
        yield {**named, "input": PROMPT, "max_output_tokens": _TOKENS}
        yield {**named, "input": PROMPT}
    else:
        yield {**named, "messages": _MESSAGES, "max_tokens": _TOKENS}
        yield {**named, "messages": _MESSAGES}


def _count(job: Job, line: Line, content: bytes, *, streamed: bool) -> None:
    meter = Meter(line.call.kind, streamed)
    meter.feed(content)
    reading = meter.finish()
    endpoint, tokens = line.target.endpoint, reading.tokens(line.call.kind)
    cost: float | None = None
    with contextlib.suppress(Unpriced):
        model, at = reading.model or line.model, rate({}, reading.told)
        cost = job.prices.cost(endpoint.provider, model, tokens, at, public=endpoint.public)
    job.spending.add(tokens, cost)
    job.note_spent()
    job.rates.of(endpoint.provider).spend(tokens.total or 0)
