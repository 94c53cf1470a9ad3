"""The gateway's process: `python -m pytest_benchjobs.gateway DESCRIPTOR`.

The descriptor is that of its control socket, which is already listening. Settings come as one line on standard input,
which then stays open: when it closes, this process ends, however its parent ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import resource
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .job import Job
from .route import Doors, Say, ServedRoute

_LINE = 4 << 20
_CLOSE_TIMEOUT = 3.0
_COMPLAINTS = 50


class _Control:
    """Opens a route for each connection, and closes it with it."""

    def __init__(self, job: Job, directory: Path) -> None:
        self._job = job
        self._directory = directory
        self._numbers = itertools.count()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(what: Any) -> None:
            writer.write(json.dumps(what).encode() + b"\n")

        directory = self._directory / f"r{next(self._numbers)}"
        try:
            if not (line := await reader.readline()):
                return
            request = json.loads(line)
            with Doors(directory) as doors:
                for turn in itertools.count(1):
                    report = await self._turn(request, turn, doors, reader, say)
                    if not await reader.readline():  # the other side is gone; otherwise there is another turn
                        break
                    request["carried"] = {**report["carried"], "within_try": True}
        except ConnectionError:
            pass  # the trial's process is gone
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            writer.close()

    async def _turn(
        self, request: dict[str, Any], turn: int, doors: Doors, reader: asyncio.StreamReader, say: Say
    ) -> Mapping[str, Any]:
        """Serve a route for one turn of an agent; returns the report after sending it."""
        trial = request["trial"] if turn == 1 else f"{request['trial']}/turn-{turn}"
        route = ServedRoute(self._job, {**request, "trial": trial}, doors, say)
        try:
            route.open()
            await reader.readline()  # the turn is over, or nothing because the other side is gone
        finally:
            report = await route.close()
        say({"report": report})
        return report


async def _run(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    parent = asyncio.StreamReader(limit=_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(parent), sys.stdin)
    settings = json.loads(await parent.readline())
    job = Job(settings)
    directory = Path(settings["directory"])
    control = _Control(job, directory)
    listening = socket.socket(fileno=descriptor)
    server = await asyncio.start_unix_server(control.serve, sock=listening, limit=_LINE)
    await parent.read()
    server.close()
    routes = asyncio.all_tasks() - {asyncio.current_task()}
    for task in routes:
        task.cancel()
    await asyncio.wait(routes, timeout=_CLOSE_TIMEOUT) if routes else None
    shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    """Run until the parent closes standard input."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    # Agents must not be able to fill a disk with what they send.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    complaints = itertools.count()
    logging.getLogger().handlers[0].addFilter(lambda record: next(complaints) < _COMPLAINTS)  # noqa: ARG005
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_run(int(sys.argv[1])))


if __name__ == "__main__":
    main()
