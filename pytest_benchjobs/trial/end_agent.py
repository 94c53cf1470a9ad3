"""Step 4: the end of an agent, by the same steps for every agent.

Where its work is graded in a fresh container, every process ends. Where it is graded in its own, its process tree ends;
daemons and processes that detached from it live on.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from ..agents.protocol import PROBLEM_VARIABLE
from ..sandbox.protocol import Sandbox
from ..store.text import clean, one_line

_LISTED = 50
_PATHS = 200
_NAME = 200
_SHOWN = 3
_SHARE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """Processes found at the end of an agent, and their fate."""

    leftovers: tuple[str, ...] = ()
    """Command lines of processes that the agent left running."""
    killed: tuple[str, ...] = ()
    """Command lines of the processes that were killed."""
    tampered: tuple[str, ...] = ()
    """Paths outside of the workdir that were changed, or added to programs, where it is graded in that container."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences for the notes of a result."""
        kept = tuple((Counter(self.leftovers) - Counter(self.killed)).elements())
        notes = (
            ("killed {} process(es) the agent had left running", self.killed),
            ("kept {} process(es) the agent had left running", kept),
            ("graded where the agent changed {} path(s) outside of the workdir", self.tampered),
        )
        return tuple(f"{what.format(len(names))}: {some(names)}" for what, names in notes if names)

    @property
    def loss(self) -> str | None:
        """Return a line with the killed processes that the scorers may have needed; None if there were none."""
        return f"left running, and killed before grading: {some(self.killed)}" if self.killed else None


def end_agent(sandbox: Sandbox, *, in_place: bool, most: int | None = None) -> Ended:
    """End an agent; `in_place` means that its work is graded in this sandbox. `Ungradable`: it left nothing to grade.

    No daemons live on there if they are more than half of the `most` allowed processes.
    """
    running = sandbox.processes()
    leftovers = _listed(running)
    if not in_place or (most is not None and len(running) > most * _SHARE):
        sandbox.end_processes()
        killed = leftovers
    else:
        killed = _listed(sandbox.end_commands(PROBLEM_VARIABLE))
    return Ended(leftovers, killed, _listed(sandbox.tampered(), _PATHS) if in_place else ())


def _listed(names: Sequence[str], limit: int = _LISTED) -> tuple[str, ...]:
    return tuple(clean(name, _NAME) for name in names[:limit])


def some(found: Sequence[str], most: int = _SHOWN) -> str:
    """Format the first `most` items of a list, and the number of the others."""
    shown = ", ".join(one_line(one, 60) for one in found[:most])
    more = len(found) - most
    return f"{shown} and {more} more" if more > 0 else shown
