"""Where `bench-run` of a scorer has programs of the agent run: in the agent's sandbox, or in a second fresh one."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator

from ..model.errors import EnvironmentFailed
from ..model.scenario import ScorerSpec
from ..sandbox.protocol import ROOT, Sandbox
from ..sandbox.runner import Runner, Serves, can_serve, serving
from ..scoring.bench_run import BenchRun
from ..scoring.needs import has_bench_run
from ..scoring.output import Tail
from ..system.cutting import end_of
from .context import TrialContext
from .fresh import Carried, Trees, deliver
from .untouched import make
from .variables import withheld

_IDS_TIMEOUT = 30.0


class _Runners:
    """What runs programs in sandboxes, each begun at its first use, and anew where it was cut off."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        self._opened = opened
        self._lock = threading.RLock()  # several calls may be made at a time
        self._found: dict[Callable[[], Sandbox], Runner] = {}

    def of(self, sandbox: Callable[[], Sandbox]) -> Runner:
        """Return what runs programs in a sandbox, which is made once."""
        with self._lock:
            found = self._found.get(sandbox)
            if found is None or found.has_ended:
                found = self._found[sandbox] = serving(sandbox())
                self._opened.callback(found.close)
            return found


@contextlib.contextmanager
def bench_run_for(context: TrialContext, carried: Carried, grader: Sandbox) -> Iterator[BenchRun | None]:
    """Yield what runs programs of the agent for a scorer in `grader`; None where ours cannot run."""
    trees = carried.trees
    if trees is None or not can_serve(grader):
        yield None
        return
    with contextlib.ExitStack() as opened:
        runners = _Runners(opened)

        @functools.cache
        def another() -> Sandbox:
            made = make(context, lambda _: context.cancellation.check())
            opened.callback(made.remove, context)
            opened.enter_context(context.cancellation.interrupting(made.sandbox.kill))
            deliver(carried, made.sandbox)
            return made.sandbox

        yield BenchRun(
            grader,
            grader.workdir,
            agent=trees.runner,
            another=functools.partial(runners.of, another),
            here=functools.partial(runners.of, lambda: grader),
            ids=_ids_in(context, grader),
            without=_withheld(context, trees, grader),
            home=trees.roots,
        )


@contextlib.contextmanager
def bench_run_in(context: TrialContext, sandbox: Sandbox, spec: ScorerSpec) -> Iterator[BenchRun | None]:
    """The same where the scorer and programs of the agent share a sandbox; None also where Harbor has nothing of it."""
    if not has_bench_run((spec,), context.services.scorers) or not can_serve(sandbox):
        yield None
        return
    with contextlib.ExitStack() as opened:
        only, ids = functools.partial(_Runners(opened).of, lambda: sandbox), _ids_in(context, sandbox)
        yield BenchRun(sandbox, sandbox.workdir, agent=only, another=only, here=only, ids=ids)


def ids_of(sandbox: Sandbox, user: str | None) -> tuple[int, int]:
    """Return the ids of a user, as a sandbox has them; None: the user of its commands.

    Raises:
        EnvironmentFailed: they are unknown.
        InfrastructureError: the engine failed.
    """
    if isinstance(sandbox, Serves) and (user or sandbox.user) in ROOT:
        return 0, 0
    printed, said = Tail(), Tail()
    result = sandbox.exec(
        ("/bin/sh", "-c", "id -u; id -g"), timeout=_IDS_TIMEOUT, sink=said, stdout=printed, user=user
    )
    found = printed.text().split()
    if result.exit_status != 0 or len(found) != 2 or not all(map(str.isdecimal, found)):
        raise EnvironmentFailed(f"the ids of user {user!r} are unknown: {end_of(said.text().strip(), 200)}")
    return int(found[0]), int(found[1])


def _ids_in(context: TrialContext, sandbox: Sandbox) -> Callable[[str | None], tuple[int, int]]:
    """Return the ids of a user in a sandbox; of None, those of the agent's user."""
    return functools.cache(lambda user: ids_of(sandbox, user or context.scenario.agent_user))


def _withheld(context: TrialContext, trees: Trees, grader: Sandbox) -> tuple[str, ...]:
    """Return what is withheld of a scorer, as `withheld` does, and note it."""
    variables = grader.variables if isinstance(grader, Serves) else {}
    # A diff goes into an image that its benchmark made for that.
    given = () if trees.repository is None else trees.named
    found = tuple(withheld(variables, (tree for tree in trees.roots if tree not in given)))
    if names := [name for name in found if "=" not in name]:
        note = (
            f"not given to scorers, as it leads into what the agent left: {', '.join(names)}; "
            "a scorer's own `env` can give it"
        )
        if note not in context.findings.notes:
            context.findings.notes.append(note)
    return found
