"""The table of cells, one scenario each: which call goes wrong, in which way, at which of its times."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Mapping

from .faults import FOR_EVERY_CALL, OF_A_STREAM, OF_AN_ARCHIVE, WITH_A_BODY, Fault, Kind, refusal
from .words import CGROUP, NO_CONTAINER, OVERLOADED, PAGE

AGENT = "sh task.sh"
ORACLE, NOP = "oracle", "nop"

BUILT, SERVICE, SLOW = "built", "service", "slow"
SHAPES = {
    "plain": "files: {task.sh: right.sh}",
    "changed": "files: {task.sh: changed.sh}",
    "public": "files: {task.sh: right.sh}, network: public, agent_network: none",
    "fresh": "files: {task.sh: right.sh}, fresh_container: {paths: [out.txt, d]}",
    "patch": "files: {task.sh: right.sh}, fresh_container: {patch: true}",
    "partial": "files: {task.sh: partial.sh}, fresh_container: {paths: [out.txt, d]}",
    "wrong": "files: {task.sh: wrong.sh}",
    SERVICE: "files: {task.sh: right.sh}, compose: compose.yaml",
}
"""Keys of a scenario. Together they need every call that is made for a trial."""
OTHER_SHAPES = {
    BUILT: "files: {task.sh: right.sh}, dockerfile: DOCKERFILE",
    SLOW: "files: {task.sh: slow.sh}, fresh_container: {paths: [out.txt, d]}",
}
"""One of an image that is built, and one of an agent that works for a while."""
EXPECTED = {"partial": 0.25, "wrong": 0.0}
_ARCHIVE, _STREAM = "GET /containers/{}/archive", "POST /exec/{}/start"
_OF_A_CONTAINER = {
    "GET /containers/{}/top", "POST /containers/{}/exec", "GET /exec/{}/json", "POST /containers/{}/kill", _STREAM,
}  # fmt: skip
"""Calls which can fail again and again for one container, and never by what the agent has left in it."""
WITH_BODIES = {
    "POST /containers/create", "POST /containers/{}/exec", "POST /commit", "GET /containers/{}/archive",
    "GET /containers/{}/changes", "GET /containers/{}/json", "GET /containers/{}/top", "GET /exec/{}/json",
    "GET /containers/json", "GET /images/{}/json", "GET /networks", "GET /version", "GET /volumes",
}  # fmt: skip
_LOOKS = (
    "GET /containers/{}/top", "GET /containers/{}/json", "GET /exec/{}/json", "POST /containers/{}/kill",
)  # fmt: skip
LASTING = (
    refusal(CGROUP), refusal(OVERLOADED), refusal(PAGE), refusal(NO_CONTAINER), Kind("cut before the work", "cut_before"),
)  # fmt: skip
"""Kinds which are also tried many times over."""
TIMES = (2, 4, 500)


_FEW = {
    "POST /containers/create": 1, "POST /containers/{}/start": 1, "PUT /containers/{}/archive": 1,
    "DELETE /containers/{}": 1, "POST /containers/{}/kill": 2,
    "GET /containers/{}/top": 4, "POST /containers/{}/exec": 4, _STREAM: 4, "GET /exec/{}/json": 4, _ARCHIVE: 3,
}  # fmt: skip
FEW = {shape: Counter(_FEW) for shape in ("plain", "fresh", "patch", "partial", "wrong")}
"""How often calls are made at least, for a few cells without counting first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One fault, or one that lasts, and the scenario that meets it."""

    name: str
    shape: str
    fault: Fault
    agent: str = AGENT

    @property
    def expected(self) -> float:
        """The score that an engine without faults comes to."""
        return 0.0 if self.agent == NOP else EXPECTED.get(self.shape, 1.0)

    @property
    def is_composes(self) -> bool:
        """It is Docker Compose that asks, and gives up at once."""
        return self.shape == SERVICE and self.fault.call.startswith("GET ")

    @property
    def is_single(self) -> bool:
        return self.fault.times == 1

    @property
    def kind(self) -> str:
        return self.fault.kind.name if self.is_single else f"{self.fault.kind.name}, {self.fault.times} times"


def kinds_of(call: str) -> Iterator[Kind]:
    """Every way in which a call may go wrong."""
    yield from FOR_EVERY_CALL
    if call in WITH_BODIES:
        yield from WITH_A_BODY
    if call == _ARCHIVE:
        yield from OF_AN_ARCHIVE
    if call == _STREAM:
        yield from OF_A_STREAM


def table(seed: int, counts: Mapping[str, Counter[str]]) -> list[Cell]:
    """Every call with every kind, each at one of its times in one of the shapes that make it.

    `counts`: how often each call was made for each shape, without any fault.
    """
    draw = random.Random(seed)
    calls = sorted({call for made in counts.values() for call in made})
    wanted = [(call, kind, 1) for call in calls for kind in kinds_of(call)]
    wanted += [(call, kind, draw.choice(TIMES)) for call in calls for kind in LASTING]
    cells = []
    for number, (call, kind, times) in enumerate(wanted):
        if call.startswith("DELETE"):
            times = min(times, 4)  # or nobody could remove it
        makes = [shape for shape in sorted(counts) if counts[shape][call]]
        # What Compose asks by itself is Compose's.
        shape = draw.choice([shape for shape in makes if shape != SERVICE] or makes)
        if kind in OF_AN_ARCHIVE:
            shape = "fresh"
        often = counts[shape][call]
        # How often something is looked at is a matter of how long it takes.
        nth = draw.randint(1, (often + 1) // 2 if call in _LOOKS else often)
        # One container alone, so that any other shows that the engine works.
        alone = times > 1 and call in _OF_A_CONTAINER and draw.random() < 0.5
        cells.append(Cell(f"c{number:03}", shape, Fault(call, kind, nth, times, container=int(alone))))
    # Where in a trial an archive ends early decides what would be lost.
    for kind in OF_AN_ARCHIVE:
        for nth in range(1, counts["fresh"][_ARCHIVE] + 1):
            cells.append(Cell(f"a{len(cells):03}", "fresh", Fault(_ARCHIVE, kind, nth)))
    for agent, shapes in ((ORACLE, ("plain", "fresh")), (NOP, ("plain", "wrong"))):
        for cell in draw.sample(cells, 20):
            shape = draw.choice(shapes)
            cells.append(dataclasses.replace(cell, name=f"{agent}-{cell.name}", shape=shape, agent=agent))
    return cells
