"""Selection of the trials to run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ..job.job_settings import JobSettings
from ..model.errors import BenchError, InputError
from ..model.node_ids import paths_of_names
from ..model.result import TrialResult
from ..report.units import some
from ..settings.sampling import sampled
from ..store.layout import Layout
from ..store.text import clean
from . import aliases
from .interactive import driven
from .items import TrialItem
from .job_settings import names_trials, settings_of
from .state import state_of

if TYPE_CHECKING:
    from ..sources.protocol import ScenarioRef, Source


_SHOWN = 3
_Split = tuple[list[pytest.Item], list[pytest.Item]]


def select(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Deselect items; return a problem of the selection, if there is one."""
    aliases.rename_remembered(config, items)
    prefixes = tuple(config.getoption("deselect") or ())
    kept, deselected = _parted(
        items, lambda item: not (item.ref.archived or (prefixes and aliases.begins_with(item, prefixes)))
    )
    settings = settings_of(config)
    if settings.from_job is not None:
        state_of(config).to_split = kept  # shards have the same trials, whatever their histories have
    try:
        kept, more = _from_job(settings, kept)
    except BenchError as error:
        return f"--bench-from: {error}"
    deselected += more
    kept, more = _drawn(settings, kept)
    deselected += more
    if deselected:
        state_of(config).has_unselected = True
        config.hook.pytest_deselected(items=deselected)
    items[:] = kept
    return None


def chosen_in(collector: Any) -> set[str] | None:
    """Return the names of the trials that ids on the command line choose of a collector; None: all are."""
    chosen = state_of(collector.config).chosen
    found = [chosen[place] for place in (collector.nodeid, collector.benchmark) if place in chosen]
    return set().union(*found) if found else None


def not_collected(
    collector: pytest.Collector, source: Source, refs: list[ScenarioRef], chosen: set[str] | None
) -> list[ScenarioRef]:
    """Return the chosen scenarios that no other collector has: each is collected once, in however many ways."""
    if chosen is not None:
        scenarios = {name.partition("[")[0] for name in chosen}
        refs = [ref for ref in refs if ref.id in scenarios]
    key = (os.path.realpath(source.path), source.benchmark)  # a Python file may have several benchmarks
    known = state_of(collector.config).collected.setdefault(key, [])
    if others := {ref.id for other, theirs in known if other is not collector for ref in theirs}:
        refs = [ref for ref in refs if ref.id not in others]
    known.append((collector, refs))
    return refs


def _from_job(settings: JobSettings, items: list[pytest.Item]) -> _Split:
    """Deselect trials that `--bench-from` does not select."""
    if settings.from_job is None:
        return items, []
    from ..store.reader import HistoryReader
    from ..store.results import find_job

    path = Layout(settings.job.directory).history
    if not path.is_file():
        raise InputError(f"there are no jobs in {settings.job.directory} yet")
    with HistoryReader(path) as history:
        job_id = find_job(history, settings.from_job.job)
        rows = history.trials(job_id)
    states = settings.from_job.states
    wanted = {row.node_id for row in rows if not states or row.outcome in states}
    if settings.trials:
        wanted &= settings.trials
    tickets = (ticket for item in items if isinstance(item, TrialItem) for ticket in item.tickets())
    ids = [(ticket.node_id, ticket.benchmark) for ticket in tickets]
    paths = paths_of_names((*((row.node_id, row.benchmark) for row in rows), *ids))
    wanted |= {paths[node_id] for node_id in wanted if node_id in paths}
    kept, rest = _parted(
        items,
        lambda item: any(ticket.node_id in wanted for ticket in item.tickets()),
    )
    if wanted and not any(isinstance(item, TrialItem) for item in kept):
        raise InputError(
            f"none of the {len(wanted)} trials of job {job_id} is here; name its benchmarks, agents and attempts"
        )
    return kept, rest


def _drawn(settings: JobSettings, items: list[pytest.Item]) -> _Split:
    """Apply --bench-sample, then --bench-max-examples."""
    job = settings.job
    changed = [changes for changes in job.per_benchmark.values() if changes.sample or changes.max_examples]
    if not (job.sample or job.max_examples or changed):
        return items, []
    tags: dict[str, dict[str, tuple[str, ...]]] = {}
    for item in items:
        if isinstance(item, TrialItem):
            tags.setdefault(item.source.benchmark, {}).setdefault(item.ref.id, item.ref.tags)
    wanted: dict[str, set[str]] = {}
    for benchmark, scenarios in tags.items():
        here = settings.of(benchmark).job
        ids: Sequence[str] = list(scenarios)
        if here.sample is not None:
            ids = sampled(benchmark, scenarios, here.sample, here.seed)
        wanted[benchmark] = set(ids[: here.max_examples])
    return _parted(items, lambda item: item.ref.id in wanted[item.source.benchmark])


def _parted(items: Iterable[pytest.Item], wanted: Callable[[TrialItem], bool]) -> _Split:
    """Split items into selected and deselected ones; ordinary tests stay selected."""
    kept: list[pytest.Item] = []
    rest: list[pytest.Item] = []
    for item in items:
        (kept if not isinstance(item, TrialItem) or wanted(item) else rest).append(item)
    return kept, rest


def note_deselected(items: Sequence[pytest.Item]) -> None:
    """Note that trials were deselected, by any plugin. Archived scenarios do not count as part of a benchmark."""
    agents = {
        id(item.agent): item.agent for item in items if isinstance(item, TrialItem) and not item.ref.archived
    }
    labels = {agent.label for agent in agents.values()}
    labels.update(ticket.agent.label for ticket in driven(items))
    if labels:
        state = state_of(items[0].config)
        state.narrowed = True
        state.unselected |= labels


def left_to_scenarios(config: pytest.Config) -> list[str]:
    """Return a line with the modules and directories that pytest left to scenarios, if there are any."""
    names = state_of(config).left_to_scenarios
    return [f"not collected, as scenarios name them: {some(names, _SHOWN)}"] if names else []


def is_partial(config: pytest.Config) -> bool:
    """Return whether fewer than all scenarios of the benchmarks are to run."""
    return bool(settings_of(config).job.shard) or is_narrowed(config)


def is_narrowed(config: pytest.Config) -> bool:
    """Return whether anything but sharding leaves scenarios out, so that all shards together lack them as well."""
    settings = settings_of(config)
    job = settings.job
    return bool(
        state_of(config).narrowed
        or state_of(config).chosen
        or names_trials(config)
        or any((job.scenarios, job.sample, job.max_examples, settings.filters, settings.from_job))
        or any(changes.sample or changes.max_examples for changes in job.per_benchmark.values())
    )


def unselected_agents(config: pytest.Config) -> tuple[str, ...]:
    """Return the labels of agents of which trials were deselected; `*` where trials were named one by one."""
    state = state_of(config)
    return ("*",) if state.chosen or names_trials(config) else tuple(sorted(state.unselected))


def is_named(config: pytest.Config) -> bool:
    """Return whether benchmarks were named one by one, by `--bench` or as files, instead of by a directory."""
    if settings_of(config).benchmarks:
        return True
    places = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    return bool(places) and not any(place.is_dir() for place in places)


def not_found(session: pytest.Session) -> str | None:
    """Return a message about a trial that was requested by its node id but does not exist."""
    state, option = state_of(session.config), session.config.option
    if (
        not state.pasted
        or option.keyword
        or option.markexpr
        or getattr(option, "lf", False)
        or state.has_unselected
    ):
        return None
    present = {
        f"{place}::{name}"
        for item in session.items
        if isinstance(item, TrialItem)
        for place in aliases.places_of(item)
        for name in (item.name, item.ref.id)
    }
    wanted = (f"{place}::{name}" for place, names in state.pasted.items() for name in sorted(names))
    return next((f"not found: {node_id}" for node_id in wanted if node_id not in present), None)


def same_name(session: pytest.Session) -> str | None:
    """Return a message about two different tasks with one name, which history and gates could not tell apart."""
    trials = [item for item in session.items if isinstance(item, TrialItem)]
    if len({id(item.source) for item in trials}) < 2:
        return None
    names: dict[tuple[str, str], TrialItem] = {}
    for item in trials:
        first = names.setdefault((item.source.benchmark, item.ref.id), item)
        paths = (first.source.path, item.source.path)
        if first.source is not item.source and len(set(map(os.path.realpath, paths))) > 1:
            here, there = (os.path.relpath(path, session.config.rootpath) for path in paths)
            return (
                f"scenario {item.ref.id!r} of benchmark {item.source.benchmark!r} is in {here} and in {there}: results "
                "could not be told apart. Rename one, or give the directory of one another benchmark name with the ini "
                "key bench_benchmarks (NAME = PATH)"
            )
    return None


def interleave(items: list[pytest.Item]) -> None:
    """Order trials so that agents take turns: all scenarios' first attempts, then the second; the first agent rotates.

    Drift during the job (a provider that is slow at noon, a model that is replaced) then affects all agents equally.
    """
    trials = [item for item in items if isinstance(item, TrialItem)]
    labels = {label: place for place, label in enumerate(dict.fromkeys(item.agent.label for item in trials))}
    places = {
        key: place
        for place, key in enumerate(dict.fromkeys((item.source.benchmark, item.ref.id) for item in trials))
    }

    def turn(item: TrialItem) -> tuple[int, int, int]:
        place = places[item.source.benchmark, item.ref.id]
        return item.attempt, place, (labels[item.agent.label] + item.attempt + place) % len(labels)

    ordered = iter(sorted(trials, key=turn))
    items[:] = [next(ordered) if isinstance(item, TrialItem) else item for item in items]


def leave_out(config: pytest.Config, benchmark: str, labels: Iterable[str]) -> None:
    """Note agents that the matrix excludes from a benchmark."""
    state_of(config).left_out.update(dict.fromkeys((benchmark, label) for label in labels))


def all_left_out(config: pytest.Config) -> str | None:
    """Return a message if the matrix left nothing to run."""
    settings = settings_of(config)
    left_out = state_of(config).left_out
    if not left_out or any(settings.of(benchmark).agents for benchmark, _ in left_out):
        return None
    return "the matrix excludes every agent from every benchmark here; nothing is left to run"


def tell_left_out(
    terminal: pytest.TerminalReporter, config: pytest.Config, results: Iterable[TrialResult] = ()
) -> None:
    """Print trials excluded by the matrix or by capabilities: counts, or all with `--bench-show-incompatible`."""
    from ..model.result import INCOMPATIBLE

    cells = state_of(config).left_out
    trials = {
        (result.benchmark, result.scenario, result.agent.label): result.failure.message
        for result in results
        if result.failure is not None and result.failure.class_ == INCOMPATIBLE
    }
    if not settings_of(config).show_incompatible:
        for count, one, many in (
            (len(cells), "cell of the matrix is", "cells of the matrix are"),
            (len(trials), "scenario was skipped as", "scenarios were skipped as"),
        ):
            if count:
                what = one if count == 1 else many
                terminal.write_line(f"{count} {what} incompatible; --bench-show-incompatible lists them")
        return
    for benchmark, label in cells:
        terminal.write_line(clean(f"skipped: {benchmark} [{label}]: incompatible: excluded by the matrix"))
    for (benchmark, scenario, label), why in trials.items():
        terminal.write_line(clean(f"skipped: {benchmark} {scenario}[{label}]: {why}"))
