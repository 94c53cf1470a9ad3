"""Gates: their configuration, and their reports.

Most sessions judge nothing: what is found is described to pydantic when it is needed first.
"""

from __future__ import annotations

import datetime
import enum
import fnmatch
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from .base import Model, Name, Score
from .known_failure import Known
from .numbers import difference

NO_BASELINE = "none"
"""The baseline of a job that is compared with nothing, whatever an ini file names."""
SIDE_A = "A"
"""The baseline of `benchjobs ab`: the first of the two agents of its job."""
_MOST_FRESH = 1000


class GateVerdict(enum.StrEnum):
    """Verdict of a gate on a job."""

    OK = "ok"
    NO_BASELINE = "no baseline"
    """Nothing to compare with, which the user allows: a first run."""
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    """The evidence is for neither; only `strict` makes a build fail of it."""
    INVALID = "invalid"
    """The job, or the baseline, cannot be judged: too many errors, too few samples, nothing in common."""


class GatePolicy(enum.StrEnum):
    """Definition of a regression."""

    EVIDENCE = "evidence"
    """A drop of more than the tolerance that chance does not explain."""
    SHOWN = "shown"
    """A drop of which it is shown that it is more than the tolerance."""
    STRICT = "strict"
    """Anything but evidence that the drop is within the tolerance."""
    POINT = "point"
    """A drop of more than the tolerance, whatever chance does. For agents without chance."""


class GateExit(enum.StrEnum):
    """Part that decides the exit status: the tests, the gate, or both."""

    TESTS = "tests"
    GATE = "gate"
    BOTH = "both"


class Unit(enum.StrEnum):
    """Of the amount of a rule."""

    POINTS = "pp"
    """Percentage points of a score or rate."""
    RELATIVE = "%"
    """Of the baseline's value."""
    ABSOLUTE = ""
    """Of the metric: score, USD, tokens, seconds, attempts."""


class Rule(Model):
    """One gate: `METRIC[KEY=VALUE,...][:AMOUNT][@LEVEL]`, or a floor such as `--bench-min-score`."""

    text: str
    """As it was written."""
    metric: str
    """`mean`, `pass_rate`, `pass@K`, `pass^K`, `scenario`, `critical`, `cost`, `tokens`, `duration`, `metric`; of
    floors `min_score`, `min_pass_rate`, `max_error_rate`, `min_samples`, `min_lift`, `require_fresh`."""
    name: str | None = None
    """Of `metric`: the metric that scorers report."""
    k: int | None = None
    """Of `pass@K` and `pass^K`."""
    amount: float = 0.0
    """In its unit: the tolerance, or the floor."""
    unit: Unit = Unit.ABSOLUTE
    level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Confidence: one minus alpha."""
    benchmark: str | None = None
    """Pattern; None: each benchmark."""
    agent: str | None = None
    """Pattern of labels; None: each agent."""
    tag: str | None = None
    """Pattern; None: scenarios of all tags."""
    alone: bool = False
    """Its p-values are adjusted for what it looks at alone, not for the other rules of the gate."""
    only: str | None = None
    """Of floors: pattern of the benchmarks or agents it is for; None: all."""
    default: bool = False
    """The user gave no rule, and this one is judged instead."""

    @property
    def alpha(self) -> float:
        """Rate of false alarms that the rule accepts."""
        return round(
            1 - self.level, 12
        )  # 1 - 0.95 is a little more than 0.05, which a p of 0.05 is not below

    @property
    def floor(self) -> bool:
        """True if the rule needs no baseline."""
        return self.metric.startswith(("min_", "max_", "require_"))


def matches(name: str, pattern: str | None) -> bool:
    """Tell whether there is no pattern, or the name is as it says."""
    return pattern is None or name == pattern or fnmatch.fnmatchcase(name, pattern)


class Absence(Model):
    """Scenarios of the baseline that the job may lack, as the user writes them: `scenario=old-*,agent=codex:*`."""

    text: str
    """As it was written."""
    benchmark: str | None = None
    """Pattern; None: each. So are the next two."""
    scenario: str | None = None
    agent: str | None = None

    def fits(self, benchmark: str, scenario: str, agent: str) -> bool:
        """Tell whether it allows this scenario and agent of the baseline to be missing."""
        named = ((benchmark, self.benchmark), (scenario, self.scenario), (agent, self.agent))
        return all(matches(name, pattern) for name, pattern in named)


def _few(attempts: int) -> int:
    if not 0 <= attempts <= _MOST_FRESH:
        raise ValueError(f"{attempts} is not a number of attempts from 0 to {_MOST_FRESH}")
    return attempts


FreshAttempts = Annotated[
    int, AfterValidator(_few), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": _MOST_FRESH})
]


class GateConfig(Model):
    """Everything a user can say about gates."""

    baseline: str | None = None
    """`NAME`, `job:ID`, `last`, `branch:NAME[~M]`, `file:PATH` or `none`."""
    anchor: str | None = None
    """Another baseline, in the same forms, by which the job is judged too: many small drops are one against it."""
    require_baseline: bool = False
    """Overrides `first_run`: an agent or benchmark that the baseline lacks makes the verdict `invalid`."""
    first_run: bool = False
    """A baseline that does not exist yet, or lacks an agent or benchmark, makes the verdict `no baseline`
    instead of being an error."""
    rules: tuple[Rule, ...] = ()
    """Regressions and floors."""
    policy: GatePolicy = GatePolicy.EVIDENCE
    exit: GateExit | None = None
    """None: `gate` where there is any gate, else `tests`."""
    max_error_rate: Score = 0.05
    """Share of attempts that may end in an error; more makes the job invalid."""
    min_samples: Annotated[int, Field(ge=1)] = 1
    """Scenarios that must be paired for a comparison to be valid."""
    require_fresh: bool = False
    """A scenario that was graded in the agent's container makes the job `invalid`."""
    warn: float | None = None
    """Drop, in points of score, that is worth a warning though the gate holds."""
    noise: dict[str, float] = {}
    """Benchmark -> least tolerance, in points of score. It overrides smaller tolerances of rules."""
    allow_missing: tuple[Absence, ...] = ()
    """Scenarios of the baseline that the job may lack. Any other missing scenario makes it `invalid`."""
    confirm: FreshAttempts = 0
    """Fresh attempts for each scenario that looks worse; 0: none."""
    until_decided: bool = False
    """Attempts run in rounds, until the verdict is decided."""

    @property
    def any(self) -> bool:
        """True if anything is gated."""
        return bool(self.rules) or self.names_baseline or self.require_fresh

    @property
    def floors(self) -> list[Rule]:
        """Rules that need no baseline."""
        fresh = Rule(text="--bench-require-fresh", metric="require_fresh", amount=1.0)
        return [*(rule for rule in self.rules if rule.floor), *([fresh] if self.require_fresh else [])]

    @property
    def judges(self) -> bool:
        """True if a job is judged at its end."""
        return self.any or self.exit in (GateExit.GATE, GateExit.BOTH)

    @property
    def names_baseline(self) -> bool:
        """True if a baseline is named: the job is compared with it, or has to be."""
        return self.baseline not in (None, NO_BASELINE)

    @property
    def without(self) -> GateVerdict:
        """Verdict on an agent or benchmark that the baseline lacks."""
        first = self.first_run and not self.require_baseline
        return GateVerdict.NO_BASELINE if first else GateVerdict.INVALID


class ScenarioRef(Model, defer_build=True):
    """A scenario that is on one side only, or differs in what both must share."""

    benchmark: str
    scenario: Name | str
    agent: str
    why: str | None = None


class Change(Model, defer_build=True):
    """A scenario of which both sides have a score."""

    benchmark: str
    scenario: str
    agent: str
    """Label on the side that is judged."""
    before: float
    """Mean score."""
    now: float
    before_attempts: int
    now_attempts: int
    before_passed: int
    now_passed: int
    p_value: float | None = None
    """Of this scenario alone, one-sided: it became worse."""
    adjusted: float | None = None
    """The same, for this number of scenarios."""
    critical: bool = False
    known: Known | None = None
    fresh_attempts: int | None = None
    """Those of `--bench-confirm`, made because it looked worse. They are in none of the other numbers."""
    fresh_passed: int | None = None
    confirmed: bool | None = None
    """The fresh attempts, taken alone, are worse than the baseline too."""

    @property
    def change(self) -> float:
        """Points of score, negative for a drop."""
        return difference(self.before, self.now)


class RoundReport(Model):
    """Finding of one round of `--bench-until-decided`, for one rule, benchmark and agent."""

    rule: str
    """As it was written."""
    benchmark: str
    agent: str
    round: int
    """Attempts of each scenario so far."""
    rounds: int
    """Attempts of each scenario at most."""
    p_value: float
    boundary: float
    """At this p-value or below it is called regressed."""
    stop: GateVerdict | None
    """`regressed` or `ok`: decided; None: another round is worth running."""
    why: str
    """In a line."""


class RuleReport(Model, defer_build=True):
    """Finding of one rule, for one benchmark and agent."""

    rule: Rule
    benchmark: str | None = None
    agent: str | None = None
    baseline_agent: str | None = None
    verdict: GateVerdict
    why: str
    """In a line."""
    before: float | None = None
    now: float | None = None
    change: float | None = None
    """`now - before`, in the unit of the metric; whether up is good depends on the metric."""
    low: float | None = None
    """Least change that is not excluded at the rule's level. None: the test is one-sided, the other way."""
    high: float | None = None
    """Greatest change that is not excluded. Floors, which have no test, give both ends of their interval."""
    tolerance: float | None = None
    """In the unit of the metric."""
    p_value: float | None = None
    """One-sided, of the test that decides, adjusted for all comparisons of the gate, or of a rule that stands alone."""
    test: str | None = None
    """`permutation`, `sign-flip`, `mcnemar`, `fisher`, `rule`, ..."""
    detectable: float | None = None
    """The smallest drop that the rule, with its tolerance, would have found four times of five."""
    scenarios: int = 0
    """Pairs it looked at."""
    clusters: int | None = None
    """Number of clusters among the pairs, which depend on each other. None: each pair counts by itself."""
    advice: str | None = None
    """Remedy for a tolerance below the smallest drop that the rule can detect."""


class ClusterRef(Model, defer_build=True):
    """Scenarios taken as dependent on each other: they declare one cluster, or are variants of one scenario."""

    benchmark: str
    cluster: str
    scenarios: int
    """Those that were compared."""


class PublishReason(Model, defer_build=True):
    """Reason why the results of a job should not be published."""

    code: str
    """A key of `analysis.publish.CODES`."""
    why: str
    """In a line."""


class GateReport(Model, defer_build=True):
    """Report of the gates on a job. `gates[]` of `report.json`, and the document of `benchjobs gate`."""

    schema_version: int = 1
    job: str
    at: datetime.datetime
    baseline: str | None = None
    """As requested."""
    baseline_jobs: tuple[str, ...] = ()
    policy: GatePolicy
    verdict: GateVerdict
    why: str
    """The line a reviewer reads first."""
    rules: tuple[RuleReport, ...] = ()
    broke: tuple[Change, ...] = ()
    """Passed before, do not now; the worst first."""
    fixed: tuple[Change, ...] = ()
    suspects: tuple[Change, ...] = ()
    """Worse by more than a single attempt explains, without being proof."""
    slipped: tuple[Change, ...] = ()
    """On none of these lists: passed in all attempts before, and does not in all now."""
    added: tuple[ScenarioRef, ...] = ()
    removed: tuple[ScenarioRef, ...] = ()
    changed: tuple[ScenarioRef, ...] = ()
    """Not the same task on both sides, so left out."""
    unscored: tuple[ScenarioRef, ...] = ()
    """Without a score on a side: nothing but errors."""
    clusters: tuple[ClusterRef, ...] = ()
    """Clusters of scenarios, the largest first."""
    rounds: tuple[RoundReport, ...] = ()
    """With `--bench-until-decided`: the last of each rule, benchmark and agent."""
    known: tuple[Change, ...] = ()
    """Known failures among the pairs; those in quarantine count in no rule."""
    attempts: int = 0
    """Of the job: those that passed, failed, or ended in an error."""
    errors: int = 0
    """Those of `attempts` that ended in an error."""
    before_cost: float | None = None
    now_cost: float | None = None
    """USD per attempt, over the pairs; None where unknown."""
    before_seconds: float | None = None
    now_seconds: float | None = None
    """Per attempt, over the pairs."""
    publish: tuple[PublishReason, ...] | None = None
    """Reasons why its results should not be published. None: not checked."""
    notes: tuple[str, ...] = ()
    """First run without a baseline, an expired known failure, a drift of the image..."""
