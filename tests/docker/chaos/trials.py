"""Jobs of many cells, run with the harmful socket as the engine, and what became of each cell."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker

from tests import composing
from tests.support import IMAGE, PATIENCE, jobs, results, run, until

from .cells import AGENT, BUILT, EXPECTED, OTHER_SHAPES, SERVICE, SHAPES, Cell
from .proxy import NO_TRIAL, HarmfulSocket, Seen

OF_THE_ENGINE = {
    "engine_error", "engine_lost", "engine_unavailable", "files_refused", "container_lost", "container_start",
}  # fmt: skip
"""Classes of errors that say whose fault it is."""
_BUILT = "chaos-built"
"""Beginning of the name of a directory with a Dockerfile, and so of its images."""
HEALED, NOT_MET = "healed", "not met"
MANIFEST = """\
benchmark: chaos
defaults:
  workdir: /app
  network: none
  memory: 256M
  storage: 1G
  problem_statement: Write right to out.txt, and its own name to each of d/a, d/b, d/c.
  reference: sh right.sh
  files: {right.sh: right.sh}
  setup: mkdir -p /srv/made; echo given > given.txt
  healthcheck: {command: test -e given.txt, interval: 1}
  artifacts: [d]
  scorers:
    - name: files
      type: files
      params: {files: [{path: out.txt, equals: right}, {path: d/a, equals: a}, {path: d/b, equals: b}, {path: d/c, equals: c}]}
    - name: bash
      type: bash
      script: |
        n=0; grep -qx right out.txt && n=25; for one in a b c; do grep -qx $one d/$one && n=$((n + 25)); done
        echo "score=$((n / 100)).$((n % 100))"
scenarios:
"""
_RIGHT = "echo right > out.txt; mkdir d; for one in a b c; do echo $one > d/$one; done\n"
_SCRIPTS = {
    "right.sh": _RIGHT,
    "changed.sh": f"{_RIGHT}cp /bin/true /usr/bin/factor; sleep 300 > /dev/null 2>&1 &\n",
    "partial.sh": "echo right > out.txt; mkdir d\n",
    "wrong.sh": "true\n",
    "slow.sh": f"sleep 8; {_RIGHT}",
    "compose.yaml": f"""\
services:
  main: {{depends_on: [beside]}}
  beside: {{image: {IMAGE}, command: [sleep, "600"], volumes: [state:/state], init: true}}
volumes: {{state: {{}}}}
""",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a cell."""

    cell: Cell
    said: str
    """`healed`, `not met`, the class of an error, or what is wrong."""
    is_wrong: bool
    works: bool
    """The fault cut the stream of an agent at work, or let nobody know that it began."""
    message: str = ""
    seconds: float = 0.0


@dataclasses.dataclass(slots=True)
class Job:
    """One run of pytest, and what is wrong with it as a whole."""

    verdicts: list[Verdict]
    troubles: list[str]
    output: str
    seen: Sequence[Seen]


def write(directory: Path, scenarios: Mapping[str, str]) -> None:
    """Write a benchmark of these scenarios: id -> its shape."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, script in _SCRIPTS.items():
        (directory / name).write_text(script)
    built = directory / f"{_BUILT}-{directory.name}"
    built.mkdir()
    (built / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo {secrets.token_hex()}\n")
    lines = []
    for name, shape in scenarios.items():
        keys = {**SHAPES, **OTHER_SHAPES}[shape].replace("DOCKERFILE", f"{built.name}/Dockerfile")
        image = "" if shape == BUILT else f", image: {IMAGE}"
        lines.append(f"  - {{id: {name}{image}, {keys}}}\n")
    (directory / "chaos.bench.yaml").write_text(MANIFEST + "".join(lines))


def start_job(
    directory: Path, socket: HarmfulSocket, agent: str = AGENT, *args: str, concurrency: int = 6
) -> str:
    """Run the benchmark in `directory`; returns what pytest printed."""
    named = f"--bench-agent=command:{agent}" if agent == AGENT else f"--bench-agent={agent}"
    done = run(
        directory,
        "chaos.bench.yaml",
        named,
        f"--bench-concurrency={concurrency}",
        *args,
        timeout=3000,
        **socket.way.environment(socket.path),
    )
    return done.stdout


def calibrated(directory: Path) -> dict[str, Counter[str]]:
    """Run every shape without a fault; returns how often each made each call."""
    shapes = [shape for shape in SHAPES if shape != SERVICE or composing.found()]
    write(directory, {shape: shape for shape in shapes})
    with HarmfulSocket() as socket:
        output = start_job(directory, socket)
        found = {result["scenario"]: result["score"] for result in results(directory)}
        assert found == {shape: EXPECTED.get(shape, 1.0) for shape in shapes}, output
        assert not troubles(directory, len(shapes), output)
        return {shape: socket.counts(shape) for shape in shapes}


def run_cells(directory: Path, cells: Sequence[Cell], *args: str, garbled: bool = False) -> Job:
    """Run cells of one agent in one job."""
    write(directory, {cell.name: cell.shape for cell in cells})
    with HarmfulSocket({cell.name: [cell.fault] for cell in cells}, garbled=garbled) as socket:
        output = start_job(directory, socket, cells[0].agent, *args)
        wrong = troubles(directory, len(cells), output)
        found = {result["scenario"]: result for result in results(directory)}
        verdicts = [judged(cell, found.get(cell.name), socket.seen) for cell in cells]
        _remove_images(directory)
        return Job(verdicts, wrong, output, socket.seen)


def run_alone(directory: Path, cell: Cell) -> Job:
    """Run a job of two trials, where a call that is of no trial goes wrong."""
    shapes = {"right": cell.shape, "wrong": "wrong"}
    write(directory, shapes)
    with HarmfulSocket({NO_TRIAL: [cell.fault]}) as socket:
        output = start_job(directory, socket)
        wrong = troubles(directory, 2, output)
        both = [
            judged(
                dataclasses.replace(cell, name=NO_TRIAL, shape=shapes[name]),
                next((one for one in results(directory) if one["scenario"] == name), None),
                socket.seen,
            )
            for name in ("right", "wrong")
        ]
        _remove_images(directory)
        # One cell, so one verdict: the worse.
        worst = max(both, key=lambda one: (one.is_wrong, one.said not in (HEALED, NOT_MET)))
        return Job([dataclasses.replace(worst, cell=cell)], wrong, output, socket.seen)


def judged(cell: Cell, result: Mapping[str, Any] | None, seen: Iterable[Seen]) -> Verdict:
    """Say what became of a cell, by the result of its trial."""
    met = [one for one in seen if one.scenario == cell.name and one.harm]
    works = any(
        AGENT in one.command and one.call == "POST /exec/{}/start" and cell.fault.kind.how
        in ("stream_cut", "cut_after", "refuse_after") for one in met
    )  # fmt: skip
    if result is None:
        return Verdict(cell, "NO RESULT", is_wrong=True, works=works)
    failure = result["failure"] or {}
    told = str(failure.get("message") or "")
    seconds = float(result["seconds"] or 0)

    def verdict(said: str, *, wrong: bool = False) -> Verdict:
        return Verdict(cell, said, wrong, works, told, seconds)

    kind, score = failure.get("class"), result["score"]
    if result["outcome"] == "error":
        if score is not None:
            return verdict(f"WRONG: error with score {score}", wrong=True)
        if kind not in OF_THE_ENGINE and not (kind == "environment" and cell.is_composes):
            return verdict(f"BLAMED: {kind}", wrong=True)
        return verdict(f"{kind}" if "\n" not in told.strip() else f"LONG: {kind}", wrong="\n" in told.strip())
    right = ("passed", None) if cell.expected == 1.0 else ("failed", "below_threshold")
    if (result["outcome"], kind) != right or score != cell.expected:
        return verdict(f"WRONG: {result['outcome']} {score} {kind or ''}".strip(), wrong=True)
    return verdict(HEALED if met else NOT_MET)


def inconsistencies(directory: Path, output: str) -> list[str]:
    """What is wrong with a job whatever its trials say: tracebacks, results that are there twice or in no history."""
    found = []
    for sign in ("Traceback", "INTERNALERROR"):
        before, it, behind = output.partition(sign)
        if it:
            found.append(f"a traceback: {before[-500:]}{it}{behind[:2500]}")
    ended = sorted(result["node_id"] for result in results(directory))
    with contextlib.closing(sqlite3.connect(directory / "reports" / "history.sqlite")) as history:
        kept = sorted(row[0] for row in history.execute("SELECT node_id FROM trials"))
    if not ended == sorted(set(ended)) == kept:
        found.append(f"{len(ended)} results, {len(set(ended))} of them different, {len(kept)} in the history")
    return found


def troubles(directory: Path, expected: int, output: str) -> list[str]:
    """The same of a job of so many trials, and what it has left in the engine."""
    found = inconsistencies(directory, output)
    if (ended := len(results(directory))) != expected:
        found.append(f"{expected} trials, but {ended} results")
    if left := left_of(*jobs(directory)):
        found.append(f"left in the engine: {left}")
    return found


def left_of(*ids: str) -> list[str]:
    """Containers, networks and volumes of these jobs that stay in the engine."""
    client = docker.APIClient(f"unix://{HarmfulSocket.way.engine}", version="auto")

    def there() -> list[str]:
        found = []
        for job in ids:
            wanted = {"label": f"benchjobs.job={job}"}
            for one in client.containers(all=True, filters=wanted):
                found.append(f"container {one['Labels'].get('benchjobs.trial')} {one['Status']}")  # noqa: PERF401
            found += [f"network {one['Name']}" for one in client.networks(filters=wanted)]
            found += [f"volume {one['Name']}" for one in client.volumes(filters=wanted)["Volumes"] or ()]
        return found

    try:
        with contextlib.suppress(AssertionError):
            until(lambda: not there(), PATIENCE)
        return there()
    finally:
        client.close()


def _remove_images(directory: Path) -> None:
    """Remove the images that the jobs below a directory built and kept."""
    client = docker.APIClient(f"unix://{HarmfulSocket.way.engine}", version="auto")
    try:
        kept = [
            image["Id"]
            for job in jobs(directory)
            for image in client.images(filters={"label": f"benchjobs.job={job}"})
        ]
        built = [image["Id"] for image in client.images(f"benchjobs/{_BUILT}-{directory.name}")]
        for image in {*kept, *built}:
            client.remove_image(image, force=True)
    finally:
        client.close()
