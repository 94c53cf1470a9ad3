"""Requirements of scenarios that are missing on this machine: one error about all of them, before anything runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..model.environ import HOST
from ..model.scenario import Requires
from .items import TrialItem
from .job_settings import settings_of
from .mistakes import shown

_SHOWN = 10
_REMEDY = (
    "Set variables in the environment, pass secrets with --bench-secret, install programs; or leave these scenarios "
    "out with -k or --bench-scenario"
)


def missing(session: pytest.Session) -> str | None:
    """Return a message about requirements that are not met; None: all are, or nothing is to run."""
    config = session.config
    if config.option.collectonly or config.option.setuponly or settings_of(config).plan:
        return None
    lacking: dict[tuple[int, str], str] = {}
    for item in session.items:
        if not isinstance(item, TrialItem) or item.ref.requires is None:
            continue
        key = (id(item.source), item.ref.id)
        if (
            key not in lacking
            and (what := ", ".join(_lacking(item.ref.requires, config)))
            and not item.unwanted()
        ):
            place = f"{shown(config, Path(item.source.path))}:{item.ref.line or 1}"
            lacking[key] = f"{place}: {item.ref.id!r} requires {what}"
    if not lacking:
        return None
    lines = [*lacking.values()][:_SHOWN]
    more = [f"... and {len(lacking) - _SHOWN} more"] if len(lacking) > _SHOWN else []
    return "\n".join(
        (
            "nothing was run, since something is missing that scenarios require:",
            *lines,
            *more,
            _REMEDY,
        )
    )


def _lacking(requires: Requires, config: pytest.Config) -> Iterator[str]:
    yield from (f"the variable {name}" for name in requires.env if name not in HOST)
    yield from (f"the secret {name}" for name in requires.secrets if name not in settings_of(config).secrets)
    yield from (f"the program {name}" for name in requires.commands if shutil.which(name) is None)
