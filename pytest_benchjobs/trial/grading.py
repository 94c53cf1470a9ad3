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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..agents.reading.values import at, items_at, spoken, text_at
from ..gateway.client import Route, SpendingLimits, Terms, Upstream, open_route
from ..model.ending import Ending
from ..model.endpoint import GATEWAY_URL
from ..model.environ import HOST
from ..model.errors import (
    BROKEN_SCORER,
    BudgetSpent,
    EnvironmentFailed,
    FilesRefused,
    GatewayLost,
    InfrastructureError,
    OutputLost,
    QuotaReached,
    ScoreContradicted,
    ScorerCrashed,
    Ungradable,
)
from ..model.result import Failure, FailureClass, ScorerResult
from ..model.scenario import ScorerSpec
from ..model.usage import Usage
from ..sandbox.paths import DEFAULT_PATH
from ..sandbox.protocol import File, Sandbox, Watches
from ..sandbox.runner import Serves
from ..scoring.bench_run import BENCH_RUN, BenchRun
from ..scoring.grade import SCORER_VARIABLE, combine, make_context, run_scorer
from ..scoring.metrics import all_metrics
from ..scoring.needs import context_variables, has_bench_run, runs_programs
from ..scoring.patterns import limited
from ..sources.template import fill
from ..store.layout import slug
from ..store.text import clean, one_line
from ..store.totals import added
from .agent_programs import bench_run_for, bench_run_in, ids_of, search_path
from .connection import key_of, trial_name
from .context import TrialContext
from .end_agent import end_agent
from .fresh import Carried
from .outcome import infrastructure_error
from .sandboxes import FRESH, Setup, untouched_sandbox
from .scorer_models import JudgingModel, judging_model

_ANTHROPIC_TOKENS = 4096
"""The most tokens of a model's reply, where a protocol requires a number and the scorer has none."""
_FURTHER = 3
"""Further times to run a scorer: the way to an engine elsewhere may be bad."""
_ANY_FILE = "/tmp/.bench"  # noqa: S108  in a container of nobody else


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Place where scorers grade: the agent's own sandbox, or one in which no agent was, or a fresh one for each scorer.

    A scorer that runs no programs has no need of a fresh one. In those that do, programs of the agent may be left.
    """

    context: TrialContext
    sandbox: Sandbox
    carried: Carried | None = None
    """Files carried into fresh sandboxes; no process is left in the agent's own then. None: `sandbox` it is."""

    @contextlib.contextmanager
    def for_scorer(self, spec: ScorerSpec) -> Iterator[tuple[Sandbox, BenchRun | None]]:
        """Return the sandbox for a scorer, with what the agent left in it, and what runs programs of the agent."""
        context = self.context
        if self.carried is None:
            with bench_run_in(context, self.sandbox, spec) as bench_run:
                yield self.sandbox, bench_run
            return
        if not runs_programs((spec,), context.services.scorers):
            yield self.sandbox, None
            return
        with untouched_sandbox(context, FRESH) as made:
            grader = made.sandbox
            self._carry(self.carried, grader)
            later = context.scenario.scorers[context.scenario.scorers.index(spec) + 1 :]
            if context.ahead is not None and runs_programs(later, context.services.scorers):
                context.ahead.begin()
            with bench_run_for(context, self.carried, grader) as bench_run:
                yield grader, bench_run

    def _carry(self, carried: Carried, grader: Sandbox) -> None:
        self.context.phases.enter_unless_cancelled("carry")
        try:
            carried.deliver(grader)
        except FilesRefused as error:
            # It was refused again and again. If anything else is taken, these files are why.
            if not self.context.suspects_agent:
                raise
            grader.put([File(_ANY_FILE, content=b"")])
            raise Ungradable(f"what the agent left cannot be put into a new container: {error}") from error
        self.context.note_once(carried.notes)

    def end_scorer(self) -> None:
        """Let nothing of a scorer be there when the next one begins: a fresh sandbox is gone."""
        if self.carried is None:
            self.sandbox.end_commands(SCORER_VARIABLE)


def grade(context: TrialContext, place: Place) -> None:
    """Run the scorers in order; the score is in the findings."""
    scorers = context.scenario.scorers
    context.findings.scorers = ()
    for number, spec in enumerate(scorers, 1):
        graded = _grade_in(context, place, spec)
        if graded.error is not None and context.suspects_agent and context.needs(spec).model is None:
            graded = _attribute(context, place, spec, graded, graded.error)
        context.findings.scorers += (graded,)
        if number < len(scorers) or context.has_another_step:
            place.end_scorer()
    context.findings.score = combine(context.findings.scorers)
    context.findings.metrics = all_metrics(context.findings.scorers)


def _grade_in(context: TrialContext, place: Place, spec: ScorerSpec) -> ScorerResult:
    """Run a scorer where it belongs; in a fresh place anew where the connection with it broke."""
    for _ in range(_FURTHER if place.carried is not None else 0):
        try:
            return _grade_once(context, place, spec)
        except OutputLost as error:
            context.note(f"scorer {spec.name!r} ran again", error)
    return _grade_once(context, place, spec)


def _grade_once(context: TrialContext, place: Place, spec: ScorerSpec) -> ScorerResult:
    with place.for_scorer(spec) as (sandbox, bench_run):
        context.phases.enter_unless_cancelled(f"score:{spec.name}")
        return _run_scorer(context, sandbox, spec, context.layout.root, bench_run)


def grade_untouched(context: TrialContext) -> None:
    """Grade an untouched sandbox in the same way, and keep no result; `InfrastructureError`: that fails, too."""
    with untouched_sandbox(context, "control") as made:
        control = made.sandbox
        _begin_steps(context, made)
        # Each call that is about files, which grading an untouched sandbox may have no need of.
        control.put([File(_ANY_FILE, content=b"x")])
        control.read(_ANY_FILE, limit=1)
        in_place = context.scenario.fresh_container is None
        if in_place and isinstance(control, Watches):
            control.watch()
        end_agent(control, in_place=in_place)
        for spec in context.scenario.scorers:
            if context.needs(spec).model is None:  # such a scorer is asked once, and is never the cause
                _run_control(context, control, spec)


def _begin_steps(context: TrialContext, setup: Setup) -> None:
    """Set an untouched sandbox up for the steps so far, as far as that is possible without an agent's work."""
    for step in context.trial.scenario.steps[: context.progress.number + 1]:
        with contextlib.suppress(EnvironmentFailed):
            if files := setup.files_of(step):
                setup.sandbox.put(files)
            setup.begin_step(step)


def _run_control(context: TrialContext, control: Sandbox, spec: ScorerSpec) -> ScorerResult:
    """Run a scorer in an untouched sandbox."""
    with bench_run_in(context, control, spec) as bench_run:
        return _run_scorer(context, control, spec, context.layout.control, bench_run)


def _run_scorer(
    context: TrialContext, sandbox: Sandbox, spec: ScorerSpec, directory: Path, bench_run: BenchRun | None
) -> ScorerResult:
    kinds = context.services.scorers
    offline = context.config.check and context.trial.attempt > 1
    network = spec.network or context.needs(spec).network or ("none" if offline else None)
    context.switch_network(sandbox, network, spec.allowed_hosts)
    agent = context.services.agents.get(context.trial.agent.name)
    # An agent that knows the answer writes that as an agent in a container writes its file.
    is_reference = getattr(agent, "trusted", False)
    with asking(context, spec) as ask:
        env = {**_path(context, spec, sandbox), **context_variables(spec, kinds), **fill(spec.env, HOST)}
        timeout, params = context.limits.scorer_timeout(spec), context.params
        scoring = dataclasses.replace(
            make_context(
                context.scenario, spec, sandbox, timeout=timeout, env=env, directory=directory, params=params
            ),
            is_reply=context.is_question and not is_reference,
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
            graded = run_scorer(scoring, kinds[spec.type], context.redactor.redact_text)
    context.note_refused(sandbox, f"scorer {spec.name}")
    if ask is not None:
        graded = graded.model_copy(update={"usage": ask.usage})
        waits = context.services.on_cut
        if ask.quota is not None and not context.is_driven and waits(context.trial, context.counted):
            raise QuotaReached(ask.quota)  # the whole trial runs again, when the quota is back
    context.cancellation.check()
    return graded


def _path(context: TrialContext, spec: ScorerSpec, sandbox: Sandbox) -> dict[str, str]:
    """Return the PATH by which a scorer finds `bench-run`, if it has that."""
    if not isinstance(sandbox, Serves) or not has_bench_run((spec,), context.services.scorers):
        return {}
    path = search_path(sandbox.variables.get("PATH", DEFAULT_PATH))
    return {"PATH": f"{posixpath.dirname(BENCH_RUN)}:{path}"}


def _owner(context: TrialContext, sandbox: Sandbox, spec: ScorerSpec) -> tuple[int, int] | None:
    """Return whose the files are that a scorer leaves; None: anybody's, as in Harbor's tasks, which are directories."""
    if context.scenario.source.is_dir() or not isinstance(sandbox, Serves):
        return None
    return ids_of(sandbox, spec.user)


@contextlib.contextmanager
def _untouched(context: TrialContext) -> Iterator[Sandbox]:
    with untouched_sandbox(context, "another") as made:
        yield made.sandbox


def _attribute(
    context: TrialContext, place: Place, spec: ScorerSpec, broken: ScorerResult, error: Failure
) -> ScorerResult:
    """Find the cause of a broken scorer; return its result, or a score of 0 if the agent is the cause."""
    try:
        with untouched_sandbox(context, f"control:{spec.name}") as control:
            _begin_steps(context, control)
            again = _run_control(context, control.sandbox, spec)
    except InfrastructureError as unknown:
        context.note(f"whether the agent broke scorer {spec.name}", unknown)
        return broken
    contradicted = error.class_ == ScoreContradicted.code
    if again.error is not None and (not contradicted or again.error.class_ == ScoreContradicted.code):
        how = "" if again.error.class_ == error.class_ else f" ({again.error.class_})"
        copes = ", so the scorer is at fault: it has to cope with an agent that left nothing"
        advice = copes if error.class_ in BROKEN_SCORER else ""
        message = f"{error.message}; it breaks in an untouched container, too{how}{advice}"
        return broken.model_copy(update={"error": error.model_copy(update={"message": message})})
    place.end_scorer()
    again = _grade_in(context, place, spec)
    if again.error is None:
        what = clean(one_line(error.message, 300))
        context.note(f"scorer {spec.name} broke once, and graded the same when it ran again: {what}")
        return again
    why = again.error.message
    if contradicted:
        context.spoiled = FailureClass.TAMPERED, f"with the agent's work, and not without, {why}"
    else:
        broke = f"the agent's work breaks grading, which works in an untouched container: {why}"
        context.spoiled = FailureClass.UNGRADABLE, broke
    return again.model_copy(update={"score": 0.0, "error": None, "metrics": (), "details": {"broke": why}})


@dataclasses.dataclass(slots=True)
class Asking:
    """The model of one scorer, through the gateway, on a route of its own. Call it to ask.

    Nothing of it enters a container. Calls count towards the limits of the job, not towards the agent's.
    """

    name: str
    model: JudgingModel
    timeout: float
    route: Route
    usage: Usage | None = None
    """Usage, once it is closed."""
    quota: str | None = None
    """Message of its provider, if the quota is used up."""

    def __call__(self, system: str, prompt: str, options: Mapping[str, Any]) -> str:
        """Ask, and return the reply; InfrastructureError: there is none."""
        wire, user = self.model.endpoint.wire, {"role": "user", "content": prompt}
        body: dict[str, Any] = {"model": self.model.name}
        if wire == "anthropic":
            path, options = "/v1/messages", {name: value for name, value in options.items() if name != "seed"}
            body |= {"max_tokens": _ANTHROPIC_TOKENS, "system": system, "messages": [user], **options}
        else:
            path = "/chat/completions"
            body |= {"messages": [{"role": "system", "content": system}, user], **options}
        try:
            status, said = self.route.post(f"{GATEWAY_URL[wire]}{path}", body, self.timeout)
        except (ConnectionError, TimeoutError) as error:
            raise self._failed(str(error)) from None
        if status != 200:
            message = text_at(said, "error", "message") or text_at(said, "message") or str(said)
            raise self._failed(f"its endpoint answered {status}: {message}")
        if wire == "anthropic":
            reply = "".join(text_at(part, "text") for part in items_at(said, "content"))
        else:
            reply = spoken(at(at(next(items_at(said, "choices"), None), "message"), "content"))
        if not reply.strip():
            raise ScorerCrashed(f"scorer {self.name!r}: the model {self.model.name} gave an empty reply")
        return reply

    def _failed(self, why: str) -> InfrastructureError:
        report = self.route.close()
        blame = f"the model of scorer {self.name!r}: {clean(one_line(report.message or why, 300))}"
        if report.ending is Ending.QUOTA:
            self.quota = blame
        if report.ending is Ending.TRIAL_LIMIT:
            return BudgetSpent(blame)
        return infrastructure_error(report.ending, blame) or ScorerCrashed(blame)


@contextlib.contextmanager
def asking(context: TrialContext, spec: ScorerSpec) -> Iterator[Asking | None]:
    """Open a route to the model of a scorer; None: it needs none, or there is no gateway. InfrastructureError: lost."""
    models, findings = context.services.models, context.findings
    model = None if models is None else judging_model(spec, context.services.scorers, context.params)
    if models is None or model is None:
        yield None
        return
    upstream = Upstream(model.endpoint, key_of(model.endpoint, models, {}))
    if upstream.key is not None:
        context.keep_secret({model.endpoint.key_variables[0]: upstream.key})
    turn = "" if context.turn == 1 else f".{context.turn}"
    name = f"{trial_name(context.trial)}.{slug(spec.name)}{turn}"
    terms = Terms(SpendingLimits(max_cost_usd=model.max_cost), (model.name,), secrets=context.secrets)
    with open_route(models.address, name, [upstream], terms) as route:
        one = Asking(spec.name, model, context.limits.scorer_timeout(spec), route)
        try:
            yield one
        finally:
            with contextlib.suppress(GatewayLost):
                report = route.close()
                context.note_report(report, f"scorer {spec.name}: ")
                findings.grading_usage = added(findings.grading_usage, report.usage)
                one.usage = report.usage
