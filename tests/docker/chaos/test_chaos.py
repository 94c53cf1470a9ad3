"""An engine that answers anything gives no wrong score, loses nothing, leaves nothing, and single faults are healed.

`CHAOS_SEED` draws at which of its times each call goes wrong, and which cells run where `CHAOS_CELLS` says how many of each
test; `make chaos` runs all. `CHAOS_REPORT` is a file that the table is written to. With `CHAOS_ENGINE=ssh` or `tls` the engine is
elsewhere, at the end of a bad line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.docker.elsewhere import Elsewhere, elsewhere  # noqa: F401  a fixture
from tests.docker.link import BadLine
from tests.docker.scripted import ScriptedRegistry
from tests.docker.test_many_images import base, registry  # noqa: F401  fixtures
from tests.support import results, until

from .cells import AGENT, BUILT, FEW, ORACLE, SLOW, Cell, kinds_of, table
from .faults import WITH_A_BODY, Fault, Kind
from .proxy import NO_TRIAL, HarmfulSocket, Seen
from .report import markdown, share_healed, summary, told
from .trials import HEALED, NOT_MET, Job, calibrated, judged, run_alone, run_cells, start_job, troubles, write

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.extended]

SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
ENGINE = os.environ.get("CHAOS_ENGINE")
CELLS = int(os.environ.get("CHAOS_CELLS") or 40)
_AT_ONCE = 60
_OF_NO_TRIAL = {
    "plain": ("GET /version", "GET /containers/json", "GET /networks", "GET /images/{}/json", "GET /events", "GET /volumes"),
    BUILT: ("POST /build",),
}  # fmt: skip
"""Calls that are made for a whole job: the shape of a scenario which needs them -> calls."""

_FEW = ("503 overloaded", "500 unexpected EOF", "404 page not found")
_PULLED = """\
  - id: {}
    problem_statement: x
    image: {}
    workdir: /app
    network: none
    reference: "true"
    scorers: [{{name: s, type: command, command: "test -s /own"}}]
"""


@contextlib.contextmanager
def _at_the_end_of(line: BadLine) -> Iterator[None]:
    """Have all jobs call an engine there."""
    with contextlib.closing(line), pytest.MonkeyPatch.context() as patch:
        patch.setattr(HarmfulSocket, "way", line)
        yield


@pytest.fixture(scope="module", autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """The way to the engine that `CHAOS_ENGINE` names."""
    if not ENGINE:
        yield
        return
    with _at_the_end_of(BadLine(request.getfixturevalue("elsewhere"), ENGINE, SEED)):
        yield


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    return calibrated(tmp_path_factory.mktemp("calls"))


def _sampled(cells: Sequence[Cell], most: int) -> list[Cell]:
    return sorted(random.Random(SEED).sample(cells, min(most, len(cells))), key=lambda cell: cell.name)


def _check(jobs: Sequence[Job], *, share: float | None = 0.9) -> None:
    verdicts = [verdict for job in jobs for verdict in job.verdicts]
    print(f"seed {SEED}\n{markdown(verdicts)}")
    if path := os.environ.get("CHAOS_REPORT"):
        with Path(path).open("a") as file:
            file.write(f"## {os.environ['PYTEST_CURRENT_TEST']}, seed {SEED}\n\n{markdown(verdicts)}\n")
    said = f"seed {SEED}: {summary(verdicts)}\n"
    if len(verdicts) >= 50:
        assert sum(one.said == NOT_MET for one in verdicts) <= len(verdicts) / 5, said
    wrong = [told(one) for one in verdicts if one.is_wrong]
    assert not wrong, said + "\n".join(wrong)
    troubled = [trouble for job in jobs for trouble in job.troubles]
    assert not troubled, said + "\n".join(troubled)
    if share is not None:
        lost = [told(one) for one in verdicts if one.cell.is_single and one.said != HEALED]
        assert share_healed(verdicts) >= share, said + "\n".join(lost)


def _in_jobs(directory: Path, cells: Sequence[Cell], *args: str, garbled: bool = False) -> list[Job]:
    """Run cells, those of one agent together, and not too many in one job."""
    jobs: list[Job] = []
    for agent in dict.fromkeys(cell.agent for cell in cells):
        mine = [cell for cell in cells if cell.agent == agent]
        for begin in range(0, len(mine), _AT_ONCE):
            part = mine[begin : begin + _AT_ONCE]
            jobs.append(run_cells(directory / f"job{len(jobs)}", part, *args, garbled=garbled))
    return jobs


def test_every_call_with_every_kind(tmp_path: Path, counts: dict[str, Counter[str]]) -> None:
    _check(_in_jobs(tmp_path, _sampled(table(SEED, counts), CELLS)))


def test_words_that_mean_nothing(tmp_path: Path, counts: dict[str, Counter[str]]) -> None:
    refusals = [cell for cell in table(SEED, counts) if cell.fault.kind.text]
    _check(_in_jobs(tmp_path, _sampled(refusals, min(60, CELLS)), garbled=True))


def test_calls_that_are_of_no_trial(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    wanted = [
        (shape, call, kind)
        for shape, calls in _OF_NO_TRIAL.items()
        for call in calls
        for kind in kinds_of(call)
        if not kind.text or kind.name in _FEW
    ]
    cells = [
        Cell(f"n{number:03}", shape, Fault(call, kind, draw.choice((1, 1, 2)) if shape == "plain" else 1))
        for number, (shape, call, kind) in enumerate(wanted)
    ]
    with ThreadPoolExecutor(3) as pool:
        jobs = list(pool.map(lambda cell: run_alone(tmp_path / cell.name, cell), _sampled(cells, CELLS)))
    _check(jobs)


@pytest.mark.skipif(bool(ENGINE), reason="the registry is on this machine")
def test_images_that_are_pulled(tmp_path: Path, registry: ScriptedRegistry) -> None:  # noqa: F811
    kinds = [
        kind
        for kind in (*kinds_of("POST /images/create"), *WITH_A_BODY)
        if not kind.text or kind.name in _FEW
    ]
    cells = [
        Cell(f"p{number}", "plain", Fault("POST /images/create", kind, holding=f"/task-{number}"), ORACLE)
        for number, kind in enumerate(kinds)
    ]
    (tmp_path / "chaos.bench.yaml").write_text(
        "benchmark: pulled\nscenarios:\n"
        + "".join(_PULLED.format(cell.name, registry.image(number)) for number, cell in enumerate(cells))
    )
    with HarmfulSocket({NO_TRIAL: [cell.fault for cell in cells]}) as socket:
        output = start_job(tmp_path, socket, ORACLE)
        found = {result["scenario"]: result for result in results(tmp_path)}
        verdicts = [
            judged(
                cell,
                found.get(cell.name),
                [
                    dataclasses.replace(one, scenario=cell.name)
                    for one in socket.seen
                    if one.harm == cell.kind
                ],
            )
            for cell in cells
        ]
        _check([Job(verdicts, troubles(tmp_path, len(cells), output), output, socket.seen)])


def test_file_systems_that_are_kept(tmp_path: Path) -> None:
    kinds = [kind for kind in kinds_of("POST /commit") if kind.how != "silence"]
    cells = [Cell(f"k{number:02}", "plain", Fault("POST /commit", kind)) for number, kind in enumerate(kinds)]
    _check(_in_jobs(tmp_path, _sampled(cells, CELLS), "--bench-keep=always"))


def test_scorers_whose_stream_is_cut_run_again(tmp_path: Path) -> None:
    """What runs them then ends as a scorer does that is content."""
    cut = Fault("POST /exec/{}/start", Kind("the stream ends at once", "stream_cut"), holding='"scorer"')
    cells = [Cell(shape, shape, dataclasses.replace(cut)) for shape in ("fresh", "patch", "partial", "wrong")]
    jobs = _in_jobs(tmp_path, cells)
    _check(jobs, share=1.0)
    assert NOT_MET not in {verdict.said for job in jobs for verdict in job.verdicts}


_OUTAGES = {
    "at the start": Fault("POST /containers/{}/start", Kind("outage", "outage")),
    "while it is set up": Fault("POST /exec/{}/start", Kind("outage", "outage"), holding="/srv/made"),
    "while it is graded": Fault("POST /exec/{}/start", Kind("outage", "outage"), holding='"scorer"'),
    "while files are fetched": Fault("GET /containers/{}/archive", Kind("outage", "outage"), nth=2),
}


@pytest.mark.parametrize("seconds", [5, 60])
def test_an_outage_of_the_engine(tmp_path: Path, seconds: int) -> None:
    def one(number: int, when: str) -> Job:
        fault = _OUTAGES[when]
        kind = dataclasses.replace(fault.kind, name=f"outage of {seconds} s {when}", seconds=seconds)
        cell = Cell("only", "fresh", dataclasses.replace(fault, kind=kind))
        return run_cells(tmp_path / f"job{number}", [cell])

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(one, range(len(_OUTAGES)), _OUTAGES))
    _check(done)
    assert NOT_MET not in {verdict.said for job in done for verdict in job.verdicts}


@pytest.mark.parametrize("seconds", [5, 60])
def test_an_outage_while_agents_work(tmp_path: Path, seconds: int) -> None:
    """Their streams are cut, so these may end as errors of the engine; they are never graded by half."""
    names = [f"w{number}" for number in range(4)]
    cells = [Cell(name, SLOW, Fault("", Kind(f"outage of {seconds} s", "outage"))) for name in names]
    write(tmp_path, dict.fromkeys(names, SLOW))
    with HarmfulSocket() as socket:
        said: list[str] = []
        working = threading.Thread(target=lambda: said.append(start_job(tmp_path, socket)))
        working.start()
        until(lambda: len([one for one in socket.seen if _begins(one.call, one.command)]) == len(names))
        socket.outage(seconds)
        working.join()
        found = {result["scenario"]: result for result in results(tmp_path)}
        verdicts = [
            judged(cell, found.get(cell.name), [Seen(0.0, cell.name, "", "", "outage")]) for cell in cells
        ]
        _check([Job(verdicts, troubles(tmp_path, len(names), said[0]), said[0], socket.seen)], share=None)


def _begins(call: str, command: str) -> bool:
    return call == "POST /exec/{}/start" and AGENT in command


def _dozen() -> list[Cell]:
    """No silence, and nothing that lasts."""
    brief = [
        cell
        for cell in table(SEED, FEW)
        if cell.is_single and cell.agent == AGENT and cell.fault.kind.how != "silence"
    ]
    return _sampled(brief, 12)


def test_a_dozen_cells(tmp_path: Path) -> None:
    _check(_in_jobs(tmp_path, _dozen()))


@pytest.mark.skipif(bool(ENGINE), reason="all others are elsewhere, too")
@pytest.mark.parametrize("by", ["ssh", "tls"])
def test_a_dozen_cells_elsewhere(tmp_path: Path, elsewhere: Elsewhere, by: str) -> None:  # noqa: F811  the fixture
    with _at_the_end_of(BadLine(elsewhere, by, SEED)):
        _check(_in_jobs(tmp_path, _dozen()))
