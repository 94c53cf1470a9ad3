"""What the gateway adds to a streamed call while 50 trials make them, and what it keeps of 10,000 calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
from aiohttp import web

from pytest_benchjobs.gateway.client import Gateway, GatewaySettings, Route, Terms, Upstream, open_route
from pytest_benchjobs.model.endpoint import Endpoint

TRIALS = 50
ROUNDS = 6
# A model of 40 tokens a second, as they are today.
CHUNKS, PAUSE = 40, 0.025
CALLS = 10_000
_BUDGET_LATENCY_MS = 5.0
_PATH = "/v1/messages"


def _events() -> list[bytes]:
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 200, "output_tokens": 1}
    text = {"type": "text_delta", "text": "some words of it "}
    delta = {"type": "content_block_delta", "index": 0, "delta": text}
    said = [
        {"type": "message_start", "message": {"model": "claude-sonnet-4-5", "usage": usage}},
        *[delta] * (CHUNKS - 3),
        {"type": "message_delta", "usage": {"output_tokens": 40}},
        {"type": "message_stop"},
    ]
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in said]


async def _serve(pause: float) -> None:
    """The upstream: prints its port, and streams the same answer to everybody, at the speed of a model."""
    events = _events()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for event in events:
            await response.write(event)
            if pause:
                await asyncio.sleep(pause)
        return response

    server = await asyncio.get_running_loop().create_server(
        web.Server(answer, access_log=None), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def _upstream(pause: float) -> Iterator[str]:
    code = f"import asyncio; from {__name__} import _serve; asyncio.run(_serve({pause}))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def _hand_over(route: Route) -> str:
    """Do what the door in a container does; the base URL an agent gets."""
    with socket.socket() as listening, socket.socket(socket.AF_UNIX) as door:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        door.connect(str(route.socket))
        socket.send_fds(door, [os.getpid().to_bytes(4, "little")], [listening.fileno()])
        return f"http://127.0.0.1:{listening.getsockname()[1]}/anthropic"


async def _call(session: aiohttp.ClientSession, base: str) -> tuple[float, float]:
    """Seconds to the first byte, and in all."""
    started = time.perf_counter()
    prompt = {"role": "user", "content": "x" * 4000}
    body = {"model": "claude-sonnet-4-5", "stream": True, "messages": [prompt]}
    async with session.post(base + _PATH, json=body) as response:
        await response.content.readany()
        first = time.perf_counter() - started
        async for _ in response.content.iter_any():
            pass
    return first, time.perf_counter() - started


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def _load(bases: list[str]) -> tuple[list[tuple[float, float]], float]:
    """A call of each at once: firsts and wholes, and seconds for all. One to get warm comes before it."""

    async def trial(session: aiohttp.ClientSession, base: str, late: float) -> tuple[float, float]:
        await asyncio.sleep(late)  # trials are not in step
        return await _call(session, base)

    async with _session() as session:
        await asyncio.gather(*(_call(session, base) for base in bases))
        started = time.perf_counter()
        step = CHUNKS * PAUSE / len(bases)
        calls = await asyncio.gather(*(trial(session, base, at * step) for at, base in enumerate(bases)))
        return calls, time.perf_counter() - started


class _Load:
    """What was measured, of several rounds."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, float]] = []
        self._seconds = 0.0

    def add(self, bases: list[str]) -> None:
        calls, seconds = asyncio.run(_load(bases))
        self._calls += calls
        self._seconds += seconds

    def median_ms(self, which: int) -> float:
        return 1000 * statistics.median(call[which] for call in self._calls)

    @property
    def throughput(self) -> float:
        """Calls a second."""
        return len(self._calls) / self._seconds


async def _many(base: str, calls: int, at_once: int) -> None:
    async with _session() as session:
        for _ in range(calls // at_once):
            await asyncio.gather(*(_call(session, base) for _ in range(at_once)))


def _processor_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


@contextlib.contextmanager
def _routes(gateway: Gateway, upstream: str, count: int) -> Iterator[list[str]]:
    target = Upstream(Endpoint(wire="anthropic", provider="anthropic", base_url=upstream), "key")
    with contextlib.ExitStack() as stack:
        routes = [
            stack.enter_context(open_route(gateway.address, f"trial/{number}", [target], Terms()))
            for number in range(count)
        ]
        yield [_hand_over(route) for route in routes]


def measure() -> Iterator[tuple[str, float, str, str]]:
    """Latency and throughput of paced streams beside direct calls; memory before and after many calls."""
    gateway = Gateway.start(GatewaySettings())
    try:
        direct, through = _Load(), _Load()
        with _upstream(PAUSE) as upstream, _routes(gateway, upstream, TRIALS) as bases:
            for _ in range(ROUNDS):  # in turns: what else the machine does hits both alike
                direct.add([upstream] * TRIALS)
                used = _processor_ms(gateway._process.pid)
                through.add(bases)
                used = _processor_ms(gateway._process.pid) - used
        for which, what in enumerate(("first byte", "whole answer")):
            added = through.median_ms(which) - direct.median_ms(which)
            name, most = f"gateway: {what}, {TRIALS} at once", f"<= {_BUDGET_LATENCY_MS:g} ms more"
            detail = f"{added:.1f} ms on {direct.median_ms(which):.1f} ms, median"
            yield name, added / _BUDGET_LATENCY_MS, most, detail
        share = through.throughput / direct.throughput
        detail = (
            f"{through.throughput:.1f} of {direct.throughput:.1f} calls a second; {CHUNKS} events and "
            f"{used / 2 / TRIALS:.1f} ms of its processor each"
        )
        yield f"gateway: throughput, {TRIALS} at once", share, ">= 0.9 x direct", detail
        with _upstream(0) as upstream, _routes(gateway, upstream, 1) as [base]:
            asyncio.run(_many(base, 500, 10))
            before = _resident(gateway._process.pid)
            asyncio.run(_many(base, CALLS, 10))
            after = _resident(gateway._process.pid)
        detail = f"{before:.1f} -> {after:.1f} MB"
        yield f"gateway: memory after {CALLS:,} calls", after / before, "<= 1.05 x before", detail
    finally:
        gateway.close()
