"""Place in which `bench-run` of a scorer runs programs of the agent: in the agent's sandbox, or in a second fresh one.

And variables of an image that a scorer in a fresh place does not have, as they lead into what the agent left.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..model.errors import EnvironmentFailed
from ..model.scenario import ScorerSpec
from ..sandbox.carry.own import PROGRAM_VARIABLES
from ..sandbox.paths import is_below
from ..sandbox.protocol import ROOT, Sandbox
from ..sandbox.runner import Serves, can_serve
from ..scoring.bench_run import BenchRun
from ..scoring.needs import has_bench_run
from ..scoring.output import Tail
from ..system.cutting import end_of
from .context import TrialContext
from .fresh import Carried, Programs, Trees
from .sandboxes import make

_IDS_TIMEOUT = 30.0
_ADDRESS = re.compile(r"\b(?!file:)[a-z][a-z0-9+.-]*://\S*", re.IGNORECASE)
_BETWEEN = re.compile(r"[:;,=\s\"']+")
_OPTION = re.compile(r"^(?:-+[A-Za-z]?|[^\w./]+)")
_MOST_WORDS = 64


@contextlib.contextmanager
def bench_run_for(context: TrialContext, carried: Carried, grader: Sandbox) -> Iterator[BenchRun | None]:
    """Yield what runs programs of the agent for a scorer in `grader`; None where ours cannot run."""
    trees = carried.trees
    if trees is None or not can_serve(grader):
        yield None
        return
    with contextlib.ExitStack() as opened, contextlib.ExitStack() as used:

        @functools.cache
        def another() -> Sandbox:
            made = make(context, lambda _: context.cancellation.check())
            opened.callback(made.remove)
            opened.enter_context(context.cancellation.interrupting(made.sandbox.kill))
            carried.deliver(made.sandbox)
            return made.sandbox

        yield BenchRun(
            grader,
            agent=trees.runner,
            another=used.enter_context(contextlib.closing(Programs(another))).runner,
            here=used.enter_context(contextlib.closing(Programs(lambda: grader))).runner,
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
    with contextlib.closing(Programs(lambda: sandbox)) as only:
        ids = _ids_in(context, sandbox)
        yield BenchRun(sandbox, agent=only.runner, another=only.runner, here=only.runner, ids=ids)


def ids_of(sandbox: Sandbox, user: str | None) -> tuple[int, int]:
    """Return the ids of a user, as a sandbox has them; None: the user of its commands. EnvironmentFailed: unknown."""
    if isinstance(sandbox, Serves) and (user or sandbox.user) in ROOT:
        return 0, 0
    printed, said, command = Tail(), Tail(), ("/bin/sh", "-c", "id -u; id -g")
    result = sandbox.exec(command, timeout=_IDS_TIMEOUT, sink=said, stdout=printed, user=user)
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
        what = f"not given to scorers, as it leads into what the agent left: {', '.join(names)}"
        context.note_once([f"{what}; a scorer's own `env` can give it"])
    return found


def withheld(variables: Mapping[str, str], trees: Iterable[str]) -> Iterator[str]:
    """Yield the names of those whose value has a part that is empty or inside a tree, whatever they are called.

    A relative part counts where there is such a file, or such a package of node: this yields NAME=PATH for it. HOME is
    never one, nor is what programs of the image are found by: there, the image's own stay.
    """
    trees = tuple(trees)
    for name, value in variables.items():
        if name in (*PROGRAM_VARIABLES, "HOME"):
            continue
        parts = value.split(":")
        paths = any(part.startswith("/") for part in parts) or not any(parts)
        words = [_OPTION.sub("", word) for word in _BETWEEN.split(_ADDRESS.sub("", value))]
        if (len(parts) > 1 and "" in parts and paths) or any(_is_led(word, trees) for word in words):
            yield name
        else:
            relative = [word for word in words[:_MOST_WORDS] if word and not word.startswith("/")]
            packages = [f"node_modules/{word.partition('/')[0]}" for word in relative]
            yield from (f"{name}={path}" for path in dict.fromkeys(relative + packages))


def search_path(value: str) -> str:
    """Return a PATH without the workdir, which an empty or relative part of it would be in."""
    return ":".join(part for part in value.split(":") if part.startswith("/"))


def _is_led(word: str, trees: tuple[str, ...]) -> bool:
    if word.startswith("/"):
        return is_below(posixpath.normpath(word), trees)
    return word in (".", "..") or word.startswith(("./", "../"))
