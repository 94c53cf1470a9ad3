"""Step 5: scorers grade what the agent left, in fresh sandboxes or in its own.

The agent may be the cause if a scorer, or the engine, breaks: a pipe in place of a file, a link to /dev/zero, a
directory that leads to itself. To find out, the same is tried in an untouched sandbox, in which no agent was. If that
breaks too, it is an infrastructure error. If only the agent's work breaks it, twice, the score is 0.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import posixpath
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from ..model.environ import HOST
from ..model.errors import (
    BROKEN_SCORER,
    EnvironmentFailed,
    FilesRefused,
    InfrastructureError,
    QuotaReached,
    ScoreContradicted,
    Ungradable,
)
from ..model.result import Failure, FailureClass, ScorerResult
from ..model.scenario import ScorerSpec
from ..sandbox.paths import DEFAULT_PATH
from ..sandbox.protocol import File, Sandbox, Watches
from ..sandbox.runner import Serves
from ..scoring.bench_run import BENCH_RUN, BenchRun
from ..scoring.grade import SCORER_VARIABLE, combine, make_context, run_scorer
from ..scoring.metrics import all_metrics
from ..scoring.needs import asks_model, context_variables, has_bench_run, network_of, runs_programs
from ..scoring.patterns import limited
from ..sources.template import fill
from ..store.text import clean, one_line
from .agent_programs import bench_run_for, bench_run_in, ids_of
from .asking import Asking, asking
from .context import TrialContext
from .ending import end_agent
from .fresh import Carried, deliver
from .setup import Setup
from .untouched import FRESH, untouched_sandbox
from .variables import search_path

_ANY_FILE = "/tmp/.bench"  # noqa: S108  in a container of nobody else


class Place(Protocol):
    """Where scorers grade."""

    def for_scorer(self, spec: ScorerSpec) -> AbstractContextManager[tuple[Sandbox, BenchRun | None]]:
        """Return the sandbox for a scorer, with what the agent left in it, and what runs programs of the agent."""

    def end_scorer(self) -> None:
        """Let nothing of a scorer be there when the next one begins."""


@dataclasses.dataclass(frozen=True, slots=True)
class InPlace:
    """The agent's own sandbox, or one in which no agent was."""

    context: TrialContext
    sandbox: Sandbox

    @contextlib.contextmanager
    def for_scorer(self, spec: ScorerSpec) -> Iterator[tuple[Sandbox, BenchRun | None]]:
        """Return it."""
        with bench_run_in(self.context, self.sandbox, spec) as bench_run:
            yield self.sandbox, bench_run

    def end_scorer(self) -> None:
        """End its processes."""
        self.sandbox.end_commands(SCORER_VARIABLE)


@dataclasses.dataclass(frozen=True, slots=True)
class Afresh:
    """An untouched sandbox for each scorer that runs programs: those of the agent may be among them."""

    context: TrialContext
    sandbox: Sandbox
    """The agent's own, where no process is left."""
    carried: Carried

    @contextlib.contextmanager
    def for_scorer(self, spec: ScorerSpec) -> Iterator[tuple[Sandbox, BenchRun | None]]:
        """Make one with the collected files."""
        if not runs_programs((spec,), self.context.services.scorers):
            yield self.sandbox, None
            return
        with untouched_sandbox(self.context, FRESH) as made:
            grader = made.sandbox
            self.context.phases.enter_unless_cancelled("carry")
            try:
                deliver(self.carried, grader)
            except FilesRefused as error:
                # It was refused again and again. If anything else is taken, these files are why.
                if not self.context.suspects_agent:
                    raise
                grader.put([File(_ANY_FILE, content=b"")])
                raise Ungradable(
                    f"what the agent left cannot be put into a new container: {error}"
                ) from error
            noted = self.context.findings.notes
            noted += (note for note in self.carried.notes if note not in noted)
            if self.context.ahead is not None and self.next_runs(spec):
                self.context.ahead.begin()
            with bench_run_for(self.context, self.carried, grader) as bench_run:
                yield grader, bench_run

    def next_runs(self, spec: ScorerSpec) -> bool:
        """Return True if a scorer that runs programs comes after this one."""
        scorers = self.context.scenario.scorers
        return runs_programs(scorers[scorers.index(spec) + 1 :], self.context.services.scorers)

    def end_scorer(self) -> None:
        """Nothing: its sandbox is gone."""


def grade(context: TrialContext, place: Place) -> None:
    """Run the scorers in order; the score is in the findings."""
    scorers = context.scenario.scorers
    context.findings.scorers.clear()
    for number, spec in enumerate(scorers, 1):
        graded = _grade_in(context, place, spec)
        if graded.error is not None and context.suspects_agent and not _asks(context, spec):
            graded = _attribute(context, place, spec, graded)
        context.findings.scorers.append(graded)
        if number < len(scorers) or context.has_another_step:
            place.end_scorer()
    context.findings.score = combine(context.findings.scorers)
    context.findings.metrics = list(all_metrics(context.findings.scorers))


def _grade_in(context: TrialContext, place: Place, spec: ScorerSpec) -> ScorerResult:
    with place.for_scorer(spec) as (sandbox, bench_run):
        context.phases.enter_unless_cancelled(f"score:{spec.name}")
        return _run_scorer(context, sandbox, spec, context.layout.root, bench_run)


def grade_untouched(context: TrialContext) -> None:
    """Grade an untouched sandbox in the same way; no result is kept.

    Raises:
        InfrastructureError: that fails, too.
    """
    with untouched_sandbox(context, "control") as made:
        control = made.sandbox
        _begin_steps(context, made.setup)
        _move_files(control)
        in_place = context.scenario.fresh_container is None
        if in_place and isinstance(control, Watches):
            control.watch()
        end_agent(control, in_place=in_place)
        for spec in context.scenario.scorers:
            if not _asks(context, spec):
                _run_control(context, control, spec)


def _move_files(control: Sandbox) -> None:
    """Make each call that is about files, which grading an untouched sandbox may have no need of."""
    control.put([File(_ANY_FILE, content=b"x")])
    control.read(_ANY_FILE, limit=1)


def _begin_steps(context: TrialContext, setup: Setup) -> None:
    """Set an untouched sandbox up for the steps so far, as far as that is possible without an agent's work."""
    for step in context.trial.scenario.steps[: context.progress.number + 1]:
        with contextlib.suppress(EnvironmentFailed):
            setup.begin_step(step)


def _asks(context: TrialContext, spec: ScorerSpec) -> bool:
    """Return True if a scorer asks a model. It is asked once, and whatever it does wrong is an error."""
    return asks_model((spec.type,), context.services.scorers)


def _run_control(context: TrialContext, control: Sandbox, spec: ScorerSpec) -> ScorerResult:
    """Run a scorer in an untouched sandbox."""
    with InPlace(context, control).for_scorer(spec) as (_, bench_run):
        return _run_scorer(context, control, spec, context.layout.control, bench_run)


def _run_scorer(
    context: TrialContext, sandbox: Sandbox, spec: ScorerSpec, directory: Path, bench_run: BenchRun | None
) -> ScorerResult:
    offline = context.config.check and context.trial.attempt > 1
    wanted = network_of(spec, context.services.scorers) or ("none" if offline else None)
    context.switch_network(sandbox, wanted, spec.allowed_hosts)
    with asking(context, spec) as ask:
        scoring = make_context(
            context.scenario,
            spec,
            sandbox,
            timeout=context.limits.scorer_timeout(spec),
            env={
                **_path(context, spec, sandbox),
                **context_variables(spec, context.services.scorers),
                **fill(spec.env, HOST),
            },
            directory=directory,
            params=context.params,
            is_reply=context.is_question and not _is_reference(context),
            ask=ask,
            reply=context.progress.reply,
            probed=context.probed.get(spec.name),
            untouched=lambda: _untouched(context),
            bench_run=bench_run,
            owner=functools.cache(lambda: _owner(context, sandbox, spec)),
        )
        with (
            limited(f"scorer {spec.name!r}", scoring.timeout) as end_pattern,
            context.cancellation.interrupting(end_pattern),
        ):
            graded = run_scorer(scoring, context.services.scorers[spec.type], context.redactor.redact_text)
    context.note_refused(sandbox, f"scorer {spec.name}")
    if ask is not None:
        graded = graded.model_copy(update={"usage": ask.usage})
        _check_quota(context, ask)
    context.cancellation.check()
    return graded


def _is_reference(context: TrialContext) -> bool:
    """Return True for an agent that knows the answer: it writes that as an agent in a container writes its file."""
    return getattr(context.services.agents.get(context.trial.agent.name), "trusted", False)


def _path(context: TrialContext, spec: ScorerSpec, sandbox: Sandbox) -> dict[str, str]:
    """Return the PATH by which a scorer finds `bench-run`, if it has that."""
    if not isinstance(sandbox, Serves) or not has_bench_run((spec,), context.services.scorers):
        return {}
    return {
        "PATH": f"{posixpath.dirname(BENCH_RUN)}:{search_path(sandbox.variables.get('PATH', DEFAULT_PATH))}"
    }


def _owner(context: TrialContext, sandbox: Sandbox, spec: ScorerSpec) -> tuple[int, int] | None:
    """Return whose the files are that a scorer leaves; None: anybody's, as in Harbor's tasks, which are directories."""
    if context.scenario.source.is_dir() or not isinstance(sandbox, Serves):
        return None
    return ids_of(sandbox, spec.user)


@contextlib.contextmanager
def _untouched(context: TrialContext) -> Iterator[Sandbox]:
    with untouched_sandbox(context, "another") as made:
        yield made.sandbox


def _check_quota(context: TrialContext, ask: Asking) -> None:
    """Check that the quota of a scorer's model is not used up, if the job waits for it or pauses.

    Raises:
        QuotaReached: it is; the whole trial runs again, when the quota is back.
    """
    if ask.quota is None or context.is_driven:
        return
    if context.services.on_cut(context.trial, context.counted):
        raise QuotaReached(ask.quota)


def _attribute(context: TrialContext, place: Place, spec: ScorerSpec, broken: ScorerResult) -> ScorerResult:
    """Find the cause of a broken scorer; return its result, or a score of 0 if the agent is the cause."""
    assert broken.error is not None  # noqa: S101  callers have looked
    try:
        with untouched_sandbox(context, f"control:{spec.name}") as control:
            _begin_steps(context, control.setup)
            again = _run_control(context, control.sandbox, spec)
    except InfrastructureError as error:
        context.note(f"whether the agent broke scorer {spec.name}", error)
        return broken
    contradicted = broken.error.class_ == ScoreContradicted.code
    if again.error is not None and (not contradicted or again.error.class_ == ScoreContradicted.code):
        return _without_agent(broken, again.error)
    place.end_scorer()
    again = _grade_in(context, place, spec)
    if again.error is None:
        context.note(
            f"scorer {spec.name} broke once, and graded the same when it ran again: "
            f"{clean(one_line(broken.error.message, 300))}"
        )
        return again
    context.spoiled = (
        (FailureClass.TAMPERED, f"with the agent's work, and not without, {again.error.message}")
        if contradicted
        else (
            FailureClass.UNGRADABLE,
            f"the agent's work breaks grading, which works in an untouched container: {again.error.message}",
        )
    )
    return again.model_copy(
        update={"score": 0.0, "error": None, "metrics": (), "details": {"broke": again.error.message}}
    )


def _without_agent(broken: ScorerResult, again: Failure) -> ScorerResult:
    """Return a broken scorer's result, whose message says that it breaks without the agent's work, too."""
    assert broken.error is not None  # noqa: S101  the caller has looked
    how = "" if again.class_ == broken.error.class_ else f" ({again.class_})"
    advice = (
        ": a scorer has to cope with an agent that left nothing"
        if broken.error.class_ in BROKEN_SCORER
        else ""
    )
    message = f"{broken.error.message}; it breaks in an untouched container, too{how}{advice}"
    return broken.model_copy(update={"error": broken.error.model_copy(update={"message": message})})
