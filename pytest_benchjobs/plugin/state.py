"""State of a pytest session: the only data that the plugin keeps on a config. There are no globals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..agents.protocol import Agent
    from ..job.job_settings import JobSettings
    from ..job.running import RunningJob
    from ..model.errors import InputError
    from ..model.job import Split
    from ..model.known_failure import Known
    from ..scoring.protocol import Scorer
    from ..sources.protocol import ScenarioRef, Source
    from .filters import Filters
    from .interrupts import Interrupts
    from .items import ItemTicket

    Job = RunningJob[ItemTicket]


@dataclasses.dataclass(slots=True)
class State:
    """Data of a session that hooks share."""

    settings: JobSettings | None = None
    """The requested job; None: the options are not read yet."""
    named: list[tuple[str | None, list[Source]]] = dataclasses.field(default_factory=list)
    """Sources that `--bench` names, by the name of the benchmark; None for a path."""
    is_fetched: bool = False
    """True once benchmarks of `--bench` were fetched for xdist workers."""
    benchmark_names: dict[str, str] | None = None
    """Directory -> name of the benchmark that a hook or the ini file gave it; None: not read yet."""
    agents: dict[str, Agent] | None = None
    scorers: dict[str, Scorer] | None = None
    broken_agents: dict[str, InputError] = dataclasses.field(default_factory=dict)
    """Errors of wrong agent files, by the names of their agents."""
    are_agents_checked: bool = False
    filters: Filters | None = None
    tags: dict[str, pytest.MarkDecorator | None] = dataclasses.field(default_factory=dict)
    """Tag of a scenario -> its mark; None: it cannot be a mark."""
    entry_markers: dict[int, pytest.MarkDecorator] = dataclasses.field(default_factory=dict)
    """`id()` of an entry of known failures -> its marker `bench_known`."""
    known_marks: dict[int, tuple[pytest.Mark, Known]] = dataclasses.field(default_factory=dict)
    """`id()` of a mark `bench_known` -> the mark, so that the id stays unique, and its content."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Lines for the terminal summary about known failures: unmatched entries, ignored marks."""
    problem: str | None = None
    """A contradiction between the options and the collected items."""

    pasted: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    """Node id of a task directory or a manifest, or name of a benchmark -> names of trials that ids request."""
    chosen: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    """Those of them beside which the others are left out, as no other argument requests all."""
    collected: dict[tuple[str, str], list[tuple[pytest.Collector, Sequence[ScenarioRef]]]] = (
        dataclasses.field(default_factory=dict)
    )
    """Path and benchmark of a source -> its collectors, with the scenarios that each collected."""
    left_out: dict[tuple[str, str], None] = dataclasses.field(default_factory=dict)
    """Benchmark and agent of every excluded cell of the matrix."""
    narrowed: bool = False
    """True if trials were deselected by anything but sharding."""
    unselected: set[str] = dataclasses.field(default_factory=set)
    """Labels of the agents of these trials."""
    has_unselected: bool = False
    """True if trials were left out by anything but node ids."""
    to_split: Sequence[pytest.Item] = ()
    """Items to split into shards, where not all selected ones are."""
    split: Split | None = None
    """Shards of the job, of which this session runs one."""
    empty_shard: bool = False
    """True if nothing is to run in that one."""
    planned: int = 0
    """Number of trials to run."""
    explained: int = 0
    """Number of failures reported with the last lines of their logs."""

    manifests: dict[Path, list[Path]] = dataclasses.field(default_factory=dict)
    """Collected manifests by their directory, until the files that they name are in `of_scenarios`."""
    of_scenarios: dict[Path, set[Path]] = dataclasses.field(default_factory=dict)
    """Directory of manifests -> files and directories that they name."""
    left_to_scenarios: list[str] = dataclasses.field(default_factory=list)
    """Ids of directories and modules that are for scenarios alone."""
    marked: dict[Path, Sequence[Source]] = dataclasses.field(default_factory=dict)
    """Benchmarks of the mark `bench_scenario`, by path or name."""

    job: Job | None = None
    """The running job; None: no job has begun."""
    interrupts: Interrupts | None = None
    exit_status: int | None = None
    """Exit status from results and gates; None: the session has not ended."""
    session: pytest.Session | None = None
    """The session, once it has ended."""


_STATE = pytest.StashKey[State]()


def state_of(config: pytest.Config) -> State:
    """Return the state of a session, empty at first."""
    state = config.stash.get(_STATE, None)
    if state is None:
        state = config.stash[_STATE] = State()
    return state


def interrupts_of(config: pytest.Config) -> Interrupts:
    """Return the signals of this session."""
    state = state_of(config)
    if state.interrupts is None:
        from .interrupts import Interrupts

        state.interrupts = Interrupts(config)
        config.pluginmanager.register(state.interrupts)
    return state.interrupts


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")
