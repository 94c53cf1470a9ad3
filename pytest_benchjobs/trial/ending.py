"""Step 4: the end of an agent, by the same steps for every agent.

strict      every process ends: nothing the agent started, or got into, sees how it is graded. What the ENTRYPOINT and
            the set-up had running is started again
contract    what still hangs on the agent itself ends; what outlived it, or was made a daemon, lives on
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
    """Processes and changed programs that were found when an agent had ended, and what became of them."""

    leftovers: tuple[str, ...] = ()
    """Command lines of what it had left running."""
    killed: tuple[str, ...] = ()
    """Those of them that were killed."""
    tampered: tuple[str, ...] = ()
    """Paths of programs, and of what they load by themselves, that were changed and put back."""
    elsewhere: tuple[str, ...] | None = None
    """Changed paths that a patch of the workdir would not have; None: they were not looked for."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the same in sentences, for the notes of a result."""
        kept = tuple((Counter(self.leftovers) - Counter(self.killed)).elements())
        return tuple(
            f"{fate} {len(commands)} process(es) the agent had left running: {some(commands)}"
            for fate, commands in (("killed", self.killed), ("kept", kept))
            if commands
        )

    @property
    def loss(self) -> str | None:
        """Return the processes for want of which a trial may have failed, in a line; None: there were none."""
        if not self.killed:
            return None
        return f"left running, and killed before grading: {some(self.killed)}"


def end_agent(sandbox: Sandbox, grading: Grading, *, carried: bool = False, most: int | None = None) -> Ended:
    """End an agent, and put back programs that it may have changed.

    `grading` says what lives on; no daemons if they are more than half of the `most` processes there may be. `carried`:
    it is graded elsewhere.

    Raises:
        Ungradable: it left nothing that can be graded.
        InfrastructureError: the engine failed.
    """
    running = sandbox.processes()
    leftovers = _listed(running)
    if grading is Grading.STRICT or (most is not None and len(running) > most * _SHARE):
        sandbox.end_processes()
        killed = leftovers
    else:
        # What ends them is a shell of the container's: the image's own, not the agent's.
        sandbox.restore_programs()
        killed = _listed(sandbox.end_commands(PROBLEM_VARIABLE))
    tampered = put_back(sandbox)
    elsewhere = None if carried or grading is Grading.CONTRACT else sandbox.elsewhere()
    return Ended(leftovers, killed, tampered, None if elsewhere is None else _listed(elsewhere))


def put_back(sandbox: Sandbox, before: Sequence[str] = ()) -> tuple[str, ...]:
    """Put programs back; returns the paths that are not among those which had been put back `before`."""
    return tuple(path for path in _listed(sandbox.restore_programs(), _PATHS) if path not in before)


def _listed(names: Sequence[str], limit: int = _LISTED) -> tuple[str, ...]:
    return tuple(clean(name, _NAME) for name in names[:limit])


def some(commands: Sequence[str]) -> str:
    """Return the first of a list for people, and how many more there are."""
    shown = ", ".join(one_line(command, 60) for command in commands[:_SHOWN])
    more = len(commands) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
