"""Shards: each of several machines runs its part of a job (`--bench-shard`), and computes the same split as others.

A split depends on the call and on the files of the benchmarks, which all machines have in common; never on a history
or on what `--lf` remembers. All trials of a scenario, of all agents, are in one shard: no other needs its images.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING

import pytest

from ..model.errors import BenchError, InputError
from ..model.job import Shard, Split
from ..settings.sampling import split
from ..store.layout import Layout
from ..store.text import clean
from .interactive import case_of, ticket_of
from .items import TrialItem
from .job_settings import settings_of
from .private import id_of, last_failed
from .state import state_of

if TYPE_CHECKING:
    from ..model.job import JobRecord

_Scenario = tuple[str, str]
"""Benchmark and id."""


class LastSelection:
    """Hook after all other selections but that of `--lf`, which differs between machines."""

    @staticmethod
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what other shards run."""
        state = state_of(config)
        if state.problem is None:
            try:
                _keep_own(config, items)
            except BenchError as error:
                state.problem = clean(str(error))


def told(config: pytest.Config) -> Iterator[str]:
    """Yield a line about the shard, if this is one."""
    found = state_of(config).split
    if found is not None:
        from ..report.units import counted, duration

        own = _own(config, found)
        scenarios, trials = (
            f"{getattr(own, name):,} of {counted(sum(getattr(one, name) for one in found.shards), name[:-1])}"
            for name in ("scenarios", "trials")
        )
        time = "" if own.seconds is None else f"; expected time {duration(own.seconds)} in one lane"
        yield f"shard {settings_of(config).job.shard}: {scenarios}, {trials}{time}"


def is_empty(config: pytest.Config) -> bool:
    """Return whether all trials to run are in other shards, so that nothing is to run here."""
    return state_of(config).empty_shard


def _own(config: pytest.Config, found: Split) -> Shard:
    return found.shards[_numbers(str(settings_of(config).job.shard))[0] - 1]


def _numbers(shard: str) -> tuple[int, int]:
    number, _, total = shard.partition("/")
    return int(number), int(total)


def _keep_own(config: pytest.Config, items: list[pytest.Item]) -> None:
    earlier = _resumed(config)
    state, shard = state_of(config), settings_of(config).job.shard
    if shard is None:
        return
    number, total = _numbers(shard)
    trials: dict[_Scenario, list[str]] = {}
    for item in state.to_split or items:
        if (scenario := _scenario(item)) is not None:
            trials.setdefault(scenario, []).extend(_agents(item))
    if not trials:
        return
    from ..analysis.forecast import scenario_seconds

    known = _durations(config)
    seconds = scenario_seconds(trials, known or {})
    parts = split(seconds, total)
    state.split = _split(trials, parts, total, None if known is None else seconds)
    if earlier is not None and earlier.split is not None and earlier.split.digest != state.split.digest:
        raise InputError(
            f"--bench-resume: job {earlier.id} is a shard of other trials: scenarios, options that select them, or the "
            f"durations have changed. Repeat its options, as `benchjobs resume {earlier.id}` does"
        )
    kept: list[pytest.Item] = []
    elsewhere: list[pytest.Item] = []
    for item in items:
        scenario = _scenario(item)
        (kept if scenario is None or parts[scenario] == number else elsewhere).append(item)
    if config.option.lf and _failed(config, elsewhere) and not _failed(config, kept):
        # pytest would take it for a selection without known failures, and run it all.
        kept, elsewhere = [], [*kept, *elsewhere]
    state.empty_shard = not any(map(_scenario, kept))
    if elsewhere:
        before = state.narrowed, {*state.unselected}
        config.hook.pytest_deselected(items=elsewhere)
        state.narrowed, state.unselected = before  # other shards have those
        state.has_unselected = True
        items[:] = kept


def _failed(config: pytest.Config, items: Iterable[pytest.Item]) -> bool:
    """Return whether any of these failed, as far as `--lf` remembers."""
    known = last_failed(config)
    return any(id_of(item) in known for item in items)


def _scenario(item: pytest.Item) -> _Scenario | None:
    """Return the scenario of a trial or an interactive test; None for any other test."""
    found = item if isinstance(item, TrialItem) else case_of(item)
    return None if found is None else (found.source.benchmark, found.ref.id)


def _agents(item: pytest.Item) -> Sequence[str]:
    """Return the label of the agent, for each trial of an item."""
    return (
        [item.agent.label] * item.attempts if isinstance(item, TrialItem) else [ticket_of(item).agent.label]
    )


def _resumed(config: pytest.Config) -> JobRecord | None:
    """Return the job to resume, if there is one: the session runs its shard. InputError: another one is requested."""
    settings = settings_of(config)
    job = settings.job
    if settings.resume is None or not Layout(job.directory).history.is_file():
        return None
    from ..store.reader import HistoryReader
    from ..store.results import find_bundle

    with HistoryReader.of(job.directory) as history:
        earlier = find_bundle(history, settings.resume).read()
    was = earlier.config
    if job.shard not in (None, was.shard):
        what = "it has all scenarios" if was.shard is None else f"it is shard {was.shard}"
        raise InputError(
            f"--bench-shard: job {earlier.id} cannot be resumed as shard {job.shard}: {what}; leave the option out"
        )
    durations = job.shard_durations or was.shard_durations
    job = job.model_copy(update={"shard": was.shard, "shard_durations": durations})
    state_of(config).settings = dataclasses.replace(settings, job=job)
    return earlier


def _durations(config: pytest.Config) -> dict[tuple[str, str, str], float] | None:
    """Return the mean time of a trial by benchmark, scenario and agent; None: no durations are given."""
    settings = settings_of(config)
    path = settings.job.shard_durations
    if path is None:
        return None
    from statistics import fmean

    from ..analysis.baseline.file import side_of_file

    try:
        side, _ = side_of_file("", path, None)
    except InputError as error:
        raise InputError(f"{settings.origin('shard_durations')}: {error}") from None
    return {cell.key: fmean(cell.seconds) for cell in side.cells.values() if cell.seconds}


def _split(
    trials: Mapping[_Scenario, Sequence[str]],
    parts: Mapping[_Scenario, int],
    total: int,
    seconds: Mapping[_Scenario, float] | None,
) -> Split:
    mine: list[list[_Scenario]] = [[] for _ in range(total)]
    for scenario, part in parts.items():
        mine[part - 1].append(scenario)
    shards = tuple(
        Shard(
            scenarios=len(scenarios),
            trials=sum(len(trials[one]) for one in scenarios),
            seconds=None if seconds is None else fsum(seconds[one] for one in scenarios),
        )
        for scenarios in mine
    )
    every = sorted((*scenario, parts[scenario], sorted(labels)) for scenario, labels in trials.items())
    return Split(digest=hashlib.sha256(json.dumps([total, every]).encode()).hexdigest()[:32], shards=shards)
