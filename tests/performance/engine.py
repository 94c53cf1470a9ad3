"""Trials as whole processes, beside a bare loop of engine calls: what one trial more takes, and its parts.

A slope leaves out what a process takes to start and to end: the seconds of many trials, less those of few.
"""

from __future__ import annotations

import io
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
from docker.types import LogConfig

from tests.docker.built import build
from tests.support import IMAGE, results

FEW, MANY, ROUNDS = 15, 60, 3
CALLS = 200
BIG = "benchjobs/performance:big"
# 66,000 files, 2 GB.
_BIG = f"""\
FROM {IMAGE}
RUN perl -e 'for (1..66000) {{ $d = "/app/" . $_ % 256; mkdir "/app"; mkdir $d; open F, ">", "$d/$_"; print F "x" x 32000 }}'
"""
SOLUTION = "echo ok > out.txt"
GRADE = "grep -qx ok out.txt && echo 1 || echo 0"
_TASK = f"""\
schema_version = "1.0"
[environment]
docker_image = "{IMAGE}"
workdir = "/app"
allow_internet = false
"""
_CALLED = f"""
n={CALLS}; bench-run -- /bin/true; a=$(date +%s%N)
for i in $(seq $n); do bench-run -- /bin/true; done; b=$(date +%s%N)
for i in $(seq $n); do /bin/true; done; c=$(date +%s%N)
echo $(((b - a - (c - b)) / n)); echo score=1
"""
_FILES = """perl -e 'for (1..100000) { $d = $_ % 256; mkdir $d; open F, ">", "$d/$_"; print F $_ }'"""
_THREE = "echo changed > 1/1; rm 2/2; echo added > added"
_PARTS: tuple[tuple[str, str, str, dict[str, object], float, tuple[str, ...]], ...] = (
    ("waiting, the agent works for 3 s", f"sleep 3; {SOLUTION}", GRADE, {}, 0.1, ("fresh",)),
    ("carry: three changes of 2 GB", _THREE, "echo 1", {"image": BIG}, 1.5, ("end", "carry")),
    ("tampered: 66,000 files", _THREE, "echo 1", {"image": BIG, "grade_in": "agent_container"}, 0.5, ("end",)),
    ("bench-run, a call", "true", _CALLED, {}, 0.005, ()),
    # The last one: an engine that removes so many files is busy for a minute.
    ("carry: 100,000 files", _FILES, "echo 1", {}, 6, ("end", "carry")),
)  # fmt: skip
"""What, the agent's work, scorer, more keys of a scenario, most seconds, and of which phases; none: it says itself."""


def measure() -> Iterator[tuple[str, float, str, str]]:
    """Rows of (what, ratio to the bare loop or the budget, budget, detail)."""
    with tempfile.TemporaryDirectory() as name:
        yield from _slopes(Path(name))
        yield from _parts(Path(name))


def _slopes(directory: Path) -> Iterator[tuple[str, float, str, str]]:
    """The seconds of one trial more; what else the machine does hits all kinds alike."""
    for count in (FEW, MANY):
        for number in range(count):
            _harbor(directory / f"harbor-{count}" / f"t{number}")
        for place in ("agent_container", "fresh"):
            every = {"problem_statement": "Write ok to out.txt.", "reference": SOLUTION, "grade_in": place}
            rows = [{"id": f"s{number}", **every, "scorers": scorers(GRADE)} for number in range(count)]
            manifest(directory / f"{place}-{count}", rows)
    client = docker.APIClient(version="auto", num_pools=64)

    def ours(kind: str, agent: str = "oracle") -> Callable[[int, int], None]:
        return lambda count, at_once: run(directory, f"{kind}-{count}", agent, at_once)

    kinds = {
        "bare": lambda count, at_once: _bare_loop(client, count, at_once),
        "Harbor, oracle": ours("harbor"),
        "Harbor, command": ours("harbor", f"command:{SOLUTION}"),
        "native, in place": ours("agent_container"),
        "native, fresh": ours("fresh"),
    }
    for at_once in (1, 16):
        found: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind, run in kinds.items():
                found[kind].append((timed(run, MANY, at_once) - timed(run, FEW, at_once)) / (MANY - FEW))
        middle = {kind: statistics.median(seconds) for kind, seconds in found.items()}
        for kind, seconds in [*middle.items()][1:-1]:
            detail = f"{seconds:.3f} s, {middle['bare']:.3f} s bare"
            yield f"a trial at {at_once}: {kind}", seconds / middle["bare"], "<= 1.12 x", detail
        more = middle["native, fresh"] - middle["native, in place"]
        detail = f"{middle['native, fresh']:.3f} s, {more:.3f} s more than in place"
        yield f"a trial at {at_once}: native, fresh", more / 0.5, "<= 1 (0.5 s more)", detail
    client.close()


def _parts(directory: Path) -> Iterator[tuple[str, float, str, str]]:
    """Phases of trials, and calls within one."""
    build(directory, _BIG, BIG)
    rows = [
        {"id": f"s{number}", "problem_statement": work, "scorers": scorers(score), **more}
        for number, (_, work, score, more, *_) in enumerate(_PARTS)
    ]
    manifest(directory / "parts", rows)
    try:
        for _ in range(ROUNDS):  # a job ends once everything of it is removed
            run(directory, "parts", 'command:sh "$BENCH_PROBLEM_FILE"', 1)
    finally:
        docker.from_env(timeout=600).images.remove(BIG, force=True)
    for number, (what, _, _, _, budget, phases) in enumerate(_PARTS):
        trials = [one for one in results(directory / "of-parts") if one["scenario"] == f"s{number}"]
        spent = [
            sum(one["end"] - one["start"] for one in trial["phases"] if one["name"] in phases)
            if phases
            else int(trial["scorers"][0]["output"].split()[0]) / 1e9
            for trial in trials
        ]
        shown = ", ".join(f"{seconds * 1000:.1f}" for seconds in spent)
        yield what, statistics.median(spent) / budget, f"<= 1 ({budget * 1000:g} ms)", f"{shown} ms"


def scorers(script: str) -> object:
    """Return one scorer, which is a script."""
    return [{"name": "right", "type": "bash", "script": script}]


def manifest(directory: Path, scenarios: object, image: str | None = IMAGE) -> None:
    """Write a benchmark of these scenarios, which have an image of their own where they are given none."""
    directory.mkdir()
    defaults = {"workdir": "/app", "network": "none"} | ({} if image is None else {"image": image})
    written = {"benchmark": directory.name, "defaults": defaults, "scenarios": scenarios}
    (directory / "b.bench.yaml").write_text(json.dumps(written))


def _harbor(directory: Path) -> None:
    for name, text in {
        "task.toml": _TASK,
        "instruction.md": "Write ok to out.txt.",
        "environment/empty": "",
        "solution/solve.sh": f"#!/bin/bash\n{SOLUTION}\n",
        "tests/test.sh": f"#!/bin/bash\n({GRADE}) > /logs/verifier/reward.txt\n",
    }.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def run(directory: Path, what: str, agent: str, at_once: int, *options: str) -> None:
    """Run pytest as a user does."""
    elsewhere = f"--bench-dir={directory / f'of-{what}' / 'reports'}"
    job = (f"--bench-agent={agent}", f"--bench-concurrency={at_once}", elsewhere, *options)
    argv = [sys.executable, "-m", "pytest", what, *job]
    done = subprocess.run(argv, cwd=directory, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()


def _bare_loop(client: docker.APIClient, count: int, at_once: int) -> None:
    """The engine calls that a trial cannot do without, with nothing around them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("bench/problem.md")
        member.size = 20
        tar.addfile(member, io.BytesIO(b"x" * 20))
    host = client.create_host_config(
        network_mode="none",
        pids_limit=2048,
        log_config=LogConfig(type="none"),
        security_opt=["no-new-privileges"],
    )

    def execute(container: str, script: str) -> bytes:
        made = client.exec_create(container, ["bash", "-c", script])
        return bytes(client.exec_start(made["Id"]))

    def trial(_: int) -> None:
        container = client.create_container(IMAGE, ["sleep", "600"], host_config=host, working_dir="/app")[
            "Id"
        ]
        try:
            client.start(container)
            client.put_archive(container, "/", buffer.getvalue())
            execute(container, SOLUTION)
            client.put_archive(container, "/", buffer.getvalue())
            assert execute(container, GRADE) == b"1\n"
        finally:
            client.remove_container(container, force=True, v=True)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(trial, range(count)))


def timed(run: Callable[[int, int], None], count: int, at_once: int) -> float:
    """Return the seconds that so many take, so many at once."""
    start = time.perf_counter()
    run(count, at_once)
    return time.perf_counter() - start
