"""Interactive tests: test functions with the mark `bench_scenario`, each of which is the agent of a trial.

To pytest they are ordinary tests, parametrized by scenario and attempt. The fixture `bench_trial` starts the trial in
the session's job. `driving` has the hooks that end it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..sources import find_sources
from ..system.paths import exists, is_file
from .excerpts import in_words
from .items import own_limits
from .job_settings import settings_of
from .known import expect
from .options import usage_error
from .python_files import benchmarks_in, module_at
from .registry import add_scorers, agents_of
from .state import state_of

if TYPE_CHECKING:
    from ..job.interactive import DrivenTicket
    from ..model.known_failure import Known
    from ..sources.protocol import ScenarioRef, Source

MARK = "bench_scenario"
CASE = "_bench_case"
"""Fixture with the case of a test."""
MODEL = "bench_model"
"""Parameter that names the model."""
_PLAIN = (str, int, float, bool, type(None))


@dataclasses.dataclass(frozen=True)
class Case:
    """Scenario and attempt of an interactive test."""

    source: Source
    ref: ScenarioRef
    attempt: int
    agent: AgentSpec
    """Agent, without the parameters of the test."""
    code: str
    """Digest of the function."""


_TICKET: pytest.StashKey[DrivenTicket] = pytest.StashKey()


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize a marked function by scenario and attempt."""
    try:
        cases = list(_cases(metafunc))
    except InputError as error:
        pytest.fail(in_words(metafunc.config, error), pytrace=False)
    numbered = any(case.attempt > 1 for case in cases)
    ids = [f"{case.ref.id}-{case.attempt}" if numbered else case.ref.id for case in cases]
    metafunc.parametrize(CASE, cases, ids=ids, indirect=True)


def _cases(metafunc: pytest.Metafunc) -> Iterable[Case]:
    marks = list(metafunc.definition.iter_markers(MARK))
    name = metafunc.function.__name__
    if CASE not in metafunc.fixturenames:
        raise InputError(f"{name} has the mark {MARK}, and uses neither bench_trial nor bench_sandbox")
    mark = marks[0]  # the closest
    if not mark.args or mark.kwargs.keys() - {"agent", "model", "provider", "base_url", "params"}:
        raise InputError(
            f"{name}: write @pytest.mark.{MARK}(BENCHMARK, SCENARIO, ..., agent=NAME, model=NAME); agent, model, "
            "provider, base_url and params may be left out"
        )
    benchmark, *scenarios = mark.args
    agent = _agent(name, mark.kwargs)
    code = _digest(metafunc.function)
    settings = settings_of(metafunc.config)
    found: set[str] = set()
    for source in _sources(metafunc, benchmark):
        add_scorers(metafunc.config, [source])
        attempts = settings.of(source.benchmark).job.attempts
        for ref in source.refs(None):
            if (scenarios and ref.id not in scenarios) or (ref.archived and not scenarios):
                continue
            found.add(ref.id)
            if settings.selects(ref.id):
                yield from (Case(source, ref, number, agent, code) for number in range(1, attempts + 1))
    if missing := [str(one) for one in scenarios if one not in found]:
        raise InputError(f"{name}: benchmark {benchmark} has no scenario {', '.join(missing)}")


def _agent(name: str, given: Mapping[str, Any]) -> AgentSpec:
    spec = AgentSpec.parse(str(given.get("agent") or name.lstrip("_")))
    changes = {
        key: value for key in ("model", "provider", "base_url") if (value := given.get(key)) is not None
    }
    return AgentSpec.model_validate(
        {**spec.model_dump(), **changes, "params": dict(given.get("params") or {})}
    )


def _sources(metafunc: pytest.Metafunc, benchmark: object) -> Sequence[Source]:
    """Return the sources of a benchmark: a path from the file of the test or the rootdir, a name, or sources."""
    if hasattr(benchmark, "refs"):
        return [benchmark]  # type: ignore[list-item]
    if isinstance(benchmark, list | tuple):
        return benchmark
    from .catalogue import find, opened

    config, text = metafunc.config, str(benchmark)
    known = state_of(config).marked
    for directory in (metafunc.definition.path.parent, config.rootpath):
        path = directory / text
        if path.suffix == ".py" and is_file(path):
            return known.setdefault(path, [source for _, source in benchmarks_in(module_at(config, path))])
        if exists(path):
            if path not in known:
                source = opened(config, path)
                known[path] = find_sources(path) if source is None else [source]
            return known[path]
    if (named := Path(text)) not in known:
        try:
            known[named] = find(config, text)[1]
        except pytest.UsageError as error:
            raise InputError(str(error).removeprefix("--bench: ")) from None
    return known[named]


def _digest(function: object) -> str:
    try:
        code = inspect.getsource(inspect.unwrap(function))  # type: ignore[arg-type]
    except (OSError, TypeError):
        code = getattr(function, "__qualname__", "")
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()[:16]


def case_of(item: pytest.Item) -> Case | None:
    """Return the case of an interactive test; None for any other item."""
    found = getattr(getattr(item, "callspec", None), "params", {}).get(CASE)
    return found if isinstance(found, Case) else None


def ticket_of(item: pytest.Item) -> DrivenTicket:
    """Return the ticket of an interactive test's trial."""
    if _TICKET not in item.stash:
        from ..job.interactive import DrivenTicket

        case = case_of(item)
        assert case is not None  # noqa: S101  the caller has looked
        agent = _with_parameters(item, case.agent)
        item.stash[_TICKET] = DrivenTicket(
            node_id=item.nodeid,
            source=case.source,
            scenario=case.ref.id,
            agent=agent,
            attempt=case.attempt,
            known=_known(item, case, agent),
        )
    return item.stash[_TICKET]


def _with_parameters(item: Any, agent: AgentSpec) -> AgentSpec:
    """Return the agent with the parameters of the test, which tell its variants apart."""
    given = {name: value for name, value in item.callspec.params.items() if name != CASE}
    changes: dict[str, Any] = {}
    if MODEL in given:
        changes["model"] = str(given.pop(MODEL))
    params = {name: value if isinstance(value, _PLAIN) else repr(value)[:80] for name, value in given.items()}
    return agent.model_copy(update={**changes, "params": {**agent.params, **params}})


def _known(item: pytest.Item, case: Case, agent: AgentSpec) -> Known | None:
    """Return the known-failure entry of a trial, and mark its test accordingly."""
    failures = settings_of(item.config).known
    entries = () if failures is None else failures.about(case.source.benchmark, case.ref.id)
    entry = next((entry for entry in entries if entry.fits(agent)), None)
    return None if entry is None else expect(item, entry.known)


def driven(items: Iterable[pytest.Item]) -> list[DrivenTicket]:
    """Return the tickets of the interactive tests among items."""
    return [ticket_of(item) for item in items if case_of(item) is not None]


def prepare(session: pytest.Session, *, others: bool) -> None:
    """Register the agents of the selected interactive tests; `others`: there are other trials."""
    tests = [item for item in session.items if (case_of(item)) is not None]
    if not tests:
        return
    seen: dict[tuple[str, str, str, int], pytest.Item] = {}
    codes: dict[str, set[str]] = {}
    for item in tests:
        ticket, case = ticket_of(item), case_of(item)
        assert case is not None  # noqa: S101  chosen by it
        key = (ticket.benchmark, ticket.scenario, ticket.agent.label, ticket.attempt)
        if (first := seen.setdefault(key, item)) is not item:
            raise usage_error(
                f"{first.nodeid} and {item.nodeid} are the same trial of agent {ticket.agent.label}: give one of them "
                f"another name, with @pytest.mark.{MARK}(..., agent=NAME)"
            )
        codes.setdefault(ticket.agent.name, set()).add(case.code)
        for mark in own_limits(session.config):
            if item.get_closest_marker(mark.name) is None:
                item.add_marker(mark)
    specs = list({(spec := ticket_of(item).agent).label: spec for item in tests}.values())
    register(session.config, specs, codes, others=others)


def register(
    config: pytest.Config,
    specs: Sequence[AgentSpec],
    codes: Mapping[str, Iterable[str]],
    *,
    others: bool,
) -> None:
    """Make the agents of interactive tests known to the session and its job. UsageError: the name of one is taken."""
    from ..agents.interactive import InteractiveAgent

    agents = agents_of(config)
    for name in {spec.name: None for spec in specs}:
        if name in agents and not isinstance(agents[name], InteractiveAgent):
            raise usage_error(
                f"@pytest.mark.{MARK}: there is an agent {name!r} already; give this one another name with agent=NAME"
            )
        agents[name] = InteractiveAgent(
            name,
            needs_model=any(spec.model is not None for spec in specs if spec.name == name),
            code=" ".join(sorted(codes.get(name, ()))),
        )
    settings = settings_of(config)
    listed = (*settings.job.agents, *specs) if others else tuple(specs)
    job = settings.job.model_copy(update={"agents": tuple({one.label: one for one in listed}.values())})
    state_of(config).settings = dataclasses.replace(settings, job=job)


def written(tickets: Iterable[DrivenTicket]) -> list[dict[str, Any]]:
    """Return the agents of interactive tests in plain values, for the xdist controller."""
    specs = {ticket.agent.label: ticket.agent for ticket in tickets}
    return [spec.model_dump(mode="json") for spec in specs.values()]
