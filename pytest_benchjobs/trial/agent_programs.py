"""Where `bench-run` of a scorer has programs of the agent run: in the agent's sandbox, or in a second fresh one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import cast

from ..model.errors import EnvironmentFailed
from ..sandbox.protocol import Sandbox
from ..sandbox.runner import Runner, Serves, Talks, can_serve, serving
from ..scoring.bench_run import BenchRun
from ..scoring.output import Tail
from .context import TrialContext
from .fresh import Carried, Trees, deliver
from .untouched import make
from .variables import withheld

_IDS_TIMEOUT = 30.0


@contextlib.contextmanager
def bench_run_for(context: TrialContext, carried: Carried, grader: Sandbox) -> Iterator[BenchRun | None]:
    """Yield what runs programs of the agent for a scorer in `grader`; None where ours cannot run."""
    trees = carried.trees
    if trees is None or not can_serve(grader):
        yield None
        return
    with contextlib.ExitStack() as opened:
        lock = threading.RLock()  # several calls may be made at a time
        runners: dict[str, Runner] = {}
        users: dict[str | None, tuple[int, int]] = {}

        def once(name: str, sandbox: Callable[[], Sandbox]) -> Callable[[], Runner]:
            def get() -> Runner:
                with lock:
                    if name not in runners:
                        runners[name] = serving(sandbox())
                        opened.callback(runners[name].close)
                    return runners[name]

            return get

        def another() -> Sandbox:
            made = make(context, lambda _: context.cancellation.check())
            opened.callback(made.remove, context)
            opened.enter_context(context.cancellation.interrupting(made.sandbox.kill))
            deliver(carried, made.sandbox)
            return made.sandbox

        def ids(user: str | None) -> tuple[int, int]:
            with lock:
                if user not in users:
                    users[user] = _ids(grader, user or context.scenario.agent_user)
                return users[user]

        yield BenchRun(
            cast("Talks", grader),
            grader.workdir,
            agent=trees.runner,
            another=once("another", another),
            here=once("here", lambda: grader),
            ids=ids,
            without=_withheld(context, trees, grader),
            home=trees.roots,
        )


def _withheld(context: TrialContext, trees: Trees, grader: Sandbox) -> tuple[str, ...]:
    """Return what is withheld of a scorer, as `withheld` does, and note it."""
    variables = grader.variables if isinstance(grader, Serves) else {}
    found = tuple(withheld(variables, (tree for tree in trees.roots if tree not in trees.named)))
    if names := [name for name in found if "=" not in name]:
        note = (
            f"not given to scorers, as it leads into what the agent left: {', '.join(names)}; "
            "a scorer's own `env` can give it"
        )
        if note not in context.findings.notes:
            context.findings.notes.append(note)
    return found


def _ids(grader: Sandbox, user: str | None) -> tuple[int, int]:
    """Return the ids of a user, as an untouched sandbox has them; None: the image's own user."""
    printed, said = Tail(), Tail()
    result = grader.exec(
        ("/bin/sh", "-c", "id -u; id -g"), timeout=_IDS_TIMEOUT, sink=said, stdout=printed, user=user
    )
    found = printed.text().split()
    if result.exit_status != 0 or len(found) != 2 or not all(map(str.isdecimal, found)):
        raise EnvironmentFailed(f"the ids of user {user!r} are unknown: {said.text().strip()[-200:]}")
    return int(found[0]), int(found[1])
