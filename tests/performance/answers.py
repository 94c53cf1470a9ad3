"""What a job adds to the calls of a bare model: questions of AIME's kind, 50 in flight, against a scripted server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from aiohttp import web

from tests.performance.plugin import child

IN_FLIGHT = 50
FEW, MANY = 50, 550
"""Trials of two jobs: their difference has no start of pytest, and no end of a job."""
PAUSE = 0.5
"""Seconds until the server answers."""
ROUNDS = 3
_BUDGET_MS = 5.0
_PLAIN = ("-p", "no:hypothesispytest")
_SOURCE = """
from pathlib import Path
from pytest_benchjobs.model.scenario import Answer, Environment, Scenario, ScorerSpec
from pytest_benchjobs.sources.protocol import ScenarioRef

class Questions:
    path, benchmark, version, warnings = Path("questions"), "questions", "1", ()
    def refs(self, wanted=None):
        return [ScenarioRef(f"q{number}", scorers=("answer",)) for number in range(int(Path("count.txt").read_text()))]
    def load(self, scenario):
        match = {"match": "integer", "expected": 25, "least": 0, "most": 999}
        return Scenario(id=scenario, benchmark="questions", problem_statement="How much is 20 + 5? " + "x" * 400,
            environment=Environment(image="none"), source=self.path, answer=Answer(reference="25"),
            scorers=(ScorerSpec(name="answer", type="answer", params=match),))

def pytest_benchjobs_benchmarks(config):
    return {"questions": Questions()}
"""


def _said() -> bytes:
    message = {"role": "assistant", "content": "Let me see. " * 50 + "\nANSWER: 25"}
    usage = {"prompt_tokens": 110, "completion_tokens": 205, "total_tokens": 315}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    ).encode()


async def _serve() -> None:
    said = _said()

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        await asyncio.sleep(PAUSE)
        return web.Response(body=said, content_type="application/json")

    server = await asyncio.get_running_loop().create_server(
        web.Server(answer, access_log=None), "127.0.0.1", 0, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def _server() -> Iterator[int]:
    command = [sys.executable, "-c", f"import asyncio; from {__name__} import _serve; asyncio.run(_serve())"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _bare(port: int, calls: int) -> float:
    """Seconds of so many calls, as many at once, by threads that do nothing else."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(calls):
        waiting.put(number)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 420}]})

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
                connection = http.client.HTTPConnection("127.0.0.1", port)
                connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
                json.loads(connection.getresponse().read())
                connection.close()

    threads = [threading.Thread(target=work) for _ in range(IN_FLIGHT)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def _job(directory: Path, port: int, trials: int) -> float:
    """Seconds of a job of so many questions, start of pytest included."""
    model = f"model:m@http://127.0.0.1:{port}/v1"
    (directory / "count.txt").write_text(str(trials))
    options = ("--bench", "questions", "--bench-agent", model, "--bench-concurrency", str(IN_FLIGHT))
    started = time.perf_counter()
    assert child(directory, *options, *_PLAIN).status == 0
    return time.perf_counter() - started


def measure() -> Iterator[tuple[str, float, str, str]]:
    """Milliseconds that a trial adds to what its call takes in a bare loop, of the time of the whole job."""
    with tempfile.TemporaryDirectory() as name, _server() as port:
        directory = Path(name)
        (directory / "conftest.py").write_text(_SOURCE)
        (directory / "pytest.ini").write_text("[pytest]\n")
        added = []
        for _ in range(ROUNDS):
            jobs = _job(directory, port, MANY) - _job(directory, port, FEW)
            calls = _bare(port, MANY) - _bare(port, FEW)
            added.append(1000 * (jobs - calls) / (MANY - FEW))
    yield (
        f"answers: a trial, {IN_FLIGHT} in flight",
        statistics.median(added) / _BUDGET_MS,
        f"<= {_BUDGET_MS:g} ms more",
        f"{statistics.median(added):.2f} ms a trial beyond the calls ({', '.join(f'{one:.2f}' for one in added)})",
    )
