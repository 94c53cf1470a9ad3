"""`turn`: grades one turn of a conversation, by checks of the agent's reply and of what it did in the sandbox.

    contains    the reply contains the text; case does not matter, nor do kind and number of blanks
    matches     the regular expression matches somewhere in the reply; case does not matter
    command     the shell command exits with status 0 in the sandbox, after all processes of the agent have ended

A check of `expect` is satisfied if it holds, one of `forbid` if it does not. The score is the share of satisfied
checks. Silence earns nothing: no check is satisfied in a turn in which the agent did not run, or did not end by itself,
and no check of the reply where it is empty. Nor is one whose command cannot be run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model.errors import InputError
from ..model.scenario import ScorerSpec
from ..sources.checks import check_fault, check_kind
from ..store.text import one_line
from .patterns import search
from .protocol import Graded, ScoringContext

_BLANKS = re.compile(r"\s+")
_SHOWN = 120
_NOT_RUNNABLE = (126, 127)


def check_turn(spec: ScorerSpec) -> None:
    """Check the parameters of a scorer. InputError: there are no checks, or one cannot be understood."""
    checks = list(_checks(spec))
    if not checks:
        raise InputError(f"scorer {spec.name!r} has no checks; give `expect` or `forbid`")
    for _, check in checks:
        if (fault := check_fault(check)) is not None:
            raise InputError(f"scorer {spec.name!r}: {fault}")


def has_commands(spec: ScorerSpec) -> bool:
    """Return True if a check runs a command."""
    return any(check_kind(check) == "command" for _, check in _checks(spec))


def score_turn(context: ScoringContext) -> Graded:
    """`turn`: the share of the satisfied checks. InputError: a check is wrong. ScorerTimeout: a command is late."""
    check_turn(context.spec)
    found = [(kind, *_look(context, check)) for kind, check in _checks(context.spec)]
    missed = [f"{kind}: {name}" for kind, name, holds in found if holds is not (kind == "expect")]
    lines = (
        f"{'yes' if holds is (kind == 'expect') else 'no':3} {kind}: {name}" for kind, name, holds in found
    )
    satisfied = len(found) - len(missed)
    details = {
        "satisfied": satisfied,
        "checks": len(found),
        "missed": missed,
        "forbidden": [name for kind, name, holds in found if kind == "forbid" and holds],
    }
    return Graded(satisfied / len(found), "\n".join(lines), details)


def _checks(spec: ScorerSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in ("expect", "forbid"):
        listed = spec.params.get(kind, ())
        for check in listed if isinstance(listed, Sequence) else ():
            yield kind, check


def _look(context: ScoringContext, check: Mapping[str, Any]) -> tuple[str, bool | None]:
    """Return the name of a check, and if it holds; None: there is nothing that it could hold of."""
    how, reply = check_kind(check), context.reply
    name = f"{how} {one_line(str(check[how]), _SHOWN)}"
    if reply is None or (how != "command" and not reply):
        return name, None
    if how != "command":
        return name, _is_said(reply, how, check[how])
    status = context.run(check[how], signals_matter=False)[0].exit_status
    return (f"{name} (cannot be run)", None) if status in _NOT_RUNNABLE else (name, status == 0)


def _is_said(reply: str, how: str, wanted: str) -> bool:
    if how == "matches":
        return search(wanted, reply, re.IGNORECASE | re.MULTILINE)
    said, text = (_BLANKS.sub(" ", one).strip().casefold() for one in (reply, wanted))
    return text in said
