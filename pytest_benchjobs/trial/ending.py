"""Step 4: the end of an agent, by the same steps for every agent.

strict      every process ends: nothing that the agent started, or got into, sees how it is graded. Services of the
            ENTRYPOINT and the set-up are started again
contract    the agent's process tree ends; daemons and processes that detached from it live on
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from ..agents.protocol import PROBLEM_VARIABLE
from ..model.scenario import Grading
from ..sandbox.protocol import Sandbox
from ..store.text import clean, one_line

_LISTED = 50
_PATHS = 200
_NAME = 200
_SHOWN = 3
_SHARE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """Processes and changed programs found at the end of an agent, and their fate."""

    leftovers: tuple[str, ...] = ()
    """Command lines of processes that the agent left running."""
    killed: tuple[str, ...] = ()
    """Command lines of the processes that were killed."""
    tampered: tuple[str, ...] = ()
    """Paths of programs and their libraries that were changed, and restored."""
    elsewhere: tuple[str, ...] | None = None
    """Changed paths that a patch of the workdir would not include; None: they were not looked for."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences for the notes of a result."""
        kept = tuple((Counter(self.leftovers) - Counter(self.killed)).elements())
        return tuple(
            f"{fate} {len(commands)} process(es) the agent had left running: {some(commands)}"
            for fate, commands in (("killed", self.killed), ("kept", kept))
            if commands
        )

    @property
    def loss(self) -> str | None:
        """Return a line with the killed processes that the scorers may have needed; None if there were none."""
        if not self.killed:
            return None
        return f"left running, and killed before grading: {some(self.killed)}"


def end_agent(sandbox: Sandbox, grading: Grading, *, carried: bool = False, most: int | None = None) -> Ended:
    """End an agent, and restore programs that it may have changed.

    `grading` says what lives on; no daemons if they are more than half of the `most` allowed processes. `carried` means
    that grading is in another container.

    Raises:
        Ungradable: the agent left nothing that can be graded.
        InfrastructureError: the engine failed.
    """
    running = sandbox.processes()
    leftovers = _listed(running)
    if grading is Grading.STRICT or (most is not None and len(running) > most * _SHARE):
        sandbox.end_processes()
        killed = leftovers
    else:
        # A shell of the container ends them: restore the image's own first.
        sandbox.restore_programs()
        killed = _listed(sandbox.end_commands(PROBLEM_VARIABLE))
    tampered = put_back(sandbox)
    elsewhere = None if carried or grading is Grading.CONTRACT else sandbox.elsewhere()
    return Ended(leftovers, killed, tampered, None if elsewhere is None else _listed(elsewhere))


def put_back(sandbox: Sandbox, before: Sequence[str] = ()) -> tuple[str, ...]:
    """Restore programs; return the paths that were not already restored `before`."""
    return tuple(path for path in _listed(sandbox.restore_programs(), _PATHS) if path not in before)


def _listed(names: Sequence[str], limit: int = _LISTED) -> tuple[str, ...]:
    return tuple(clean(name, _NAME) for name in names[:limit])


def some(commands: Sequence[str]) -> str:
    """Format the first items of a list, and the number of the others."""
    shown = ", ".join(one_line(command, 60) for command in commands[:_SHOWN])
    more = len(commands) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
