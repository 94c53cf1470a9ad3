"""Dry run of `--bench-plan`: hands the trials of the session to a planner, or prints what would become of them."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from ..job.planning import PLANNER, Look, looking
from ..model.errors import BenchError
from . import interactive
from .items import TrialItem, unwanted
from .job_settings import settings_of
from .options import usage_error
from .progress import show
from .session import supplies_of
from .state import interrupts_of, state_of

if TYPE_CHECKING:
    from ..job.ticket import Ticket


def plan(session: pytest.Session) -> bool:
    """Decide the fate of every trial of the session."""
    config = session.config
    # SIGTERM acts like Ctrl-C, so that half-built images are removed.
    interrupts_of(config).take()
    tests = [
        dataclasses.replace(interactive.ticket_of(item), unwanted_because=unwanted(item))
        for item in session.items
        if interactive.case_of(item) is not None
    ]
    tickets = [ticket for item in session.items if isinstance(item, TrialItem) for ticket in item.tickets()]
    planner = PLANNER.get(None) or functools.partial(_print, config)
    try:
        with looking(settings_of(config).job, supplies_of(config), state_of(config).split) as look:
            planner(look, [*tests, *tickets])
    except BenchError as error:
        raise usage_error(str(error)) from None
    return True


def _print(config: pytest.Config, look: Look, tickets: Sequence[Ticket]) -> None:
    counts: Counter[str] = Counter()
    for row in map(look.plan, tickets):
        word = "skipped" if row.incompatible else "reused" if row.reused else "runs"
        counts[word] += 1
        why = row.incompatible or row.why
        show(config, f"{word}: {row.node_id}" + (f": {why}" if why else ""))
    skipped = f", {counts['skipped']} would be skipped" if counts["skipped"] else ""
    show(config, f"{counts['runs']} trials would run, {counts['reused']} would be reused{skipped}")
