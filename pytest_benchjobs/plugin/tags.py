"""Tags of scenarios as pytest marks and keywords."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from ..store.text import clean
from .state import state_of

_TAG = re.compile(r"^[A-Za-z0-9][\w.+-]*$")
# Markers with a meaning for pytest or a common plugin, which tags must not trigger.
_BEHAVIOUR = frozenset((
    "parametrize", "usefixtures", "skip", "skipif", "xfail", "filterwarnings", "tryfirst", "trylast",
    "hookwrapper", "timeout", "flaky", "rerun_except", "only_on", "xdist_group", "asyncio", "anyio", "trio",
    "twisted", "django_db", "benchmark", "order", "run", "dependency", "depends", "forked", "repeat",
    "incremental", "pytestmark", "bench_trial", "bench_known", "and", "or", "not", "True", "False", "None",
))  # fmt: skip


def tags(config: pytest.Config, of_scenario: Sequence[str]) -> tuple[list[pytest.MarkDecorator], list[str]]:
    """Return tags as marks where possible, else as words for `-k`."""
    known = state_of(config).tags
    marks, words = [], []
    for tag in of_scenario:
        if tag not in known:
            fit = _TAG.match(tag) is not None and tag not in _BEHAVIOUR
            if fit:
                # Register it first, for --strict-markers.
                config.addinivalue_line("markers", f"{tag}: tag of a scenario")
            known[tag] = getattr(pytest.mark, tag) if fit else None
        mark = known[tag]
        if mark is None:
            words.append(clean(tag))
        else:
            marks.append(mark)
    return marks, words
