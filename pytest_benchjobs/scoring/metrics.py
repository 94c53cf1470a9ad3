"""Named metrics of scorers: read from what a scorer prints or leaves, checked, and weighed where that is asked for.

A scorer may run the agent's code, whose output can look like a metric: a name that comes twice is an error, and where
the scenario names the metrics, others do not count.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ..model.base import Model
from ..model.errors import ScoreInvalid, ScoreMissing
from ..model.metric import LARGEST, METRIC_NAME, MOST, OWN_SCORE, Direction, Metric, Unit
from ..model.result import ScorerResult
from ..model.scenario import ScorerSpec
from ..sandbox.protocol import Sandbox
from .output import Statements
from .protocol import VERIFIER_DIRECTORY, Graded, ScoringContext, run_to_end
from .scores import NUMBER, checked, json_of, parse_score

METRICS_VARIABLE = "BENCH_METRICS"
"""Variable with the path of the file that commands of a scorer may write metrics into."""
METRICS_FILE = f"{VERIFIER_DIRECTORY}/metrics.json"
_FILE_LIMIT = 1024 * 1024
_LINE = re.compile(rf"^\s*metric\s+(?P<name>{METRIC_NAME})\s*=(?P<value>.*)$")
_NAME = re.compile(METRIC_NAME)
_VALUE = re.compile(NUMBER, re.IGNORECASE)
_FAULTS = {
    "value": f"is {{}}, which is not a number up to {LARGEST:g}",
    "unit": "has the unit {}; a unit is a word of at most 20 characters",
    "direction": "has the direction {}; it is higher or lower",
}


class _Reported(Model):
    """A metric as a scorer reports it."""

    model_config = {**Model.model_config, "strict": True}

    value: Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
    unit: Unit | None = None
    direction: Direction | None = None


def reported(context: ScoringContext, printed: str = "") -> tuple[str, dict[str, Any]]:
    """Return what a command printed, without its lines about metrics, and the metrics that it printed or left.

    Without metrics in the scenario, nothing is a metric. ScoreInvalid: one is no number, or comes twice; or the file
    for them cannot be read.
    """
    spec = context.spec
    if not spec.metrics:
        return printed, {}
    who = f"scorer {spec.name!r}"
    rest, found = parse_metrics(printed, spec.metrics, who)
    for name, value in read_metrics_file(context.sandbox, who).items():
        if name in found:
            raise ScoreInvalid(f"{who} gave the metric {name} twice: printed, and in the file")
        found[name] = value
    return rest, found


def parse_metrics(output: str, names: Container[str], who: str) -> tuple[str, dict[str, Any]]:
    """Return an output without lines `metric NAME=VALUE`, and the values. ScoreInvalid: no number, or a name twice."""
    rest: list[str] = []
    found: dict[str, Any] = {}
    for line in output.splitlines():
        match = _LINE.match(line)
        if match is None or match["name"] not in names:
            rest.append(line)
            continue
        name, value = match["name"], match["value"].strip()
        if not _VALUE.fullmatch(value):
            raise ScoreInvalid(f"{who} printed {reprlib.repr(value)} as metric {name}, which is not a number")
        if name in found:
            raise ScoreInvalid(f"{who} printed the metric {name} twice")
        found[name] = float(value)
    return "\n".join(rest), found


def take_metrics(context: ScoringContext) -> None:
    """Empty the file for metrics, if the scenario has any: what an agent left there does not count."""
    if context.spec.metrics:
        context.sandbox.put([context.empty(VERIFIER_DIRECTORY, directory=True), context.empty(METRICS_FILE)])


def read_metrics_file(sandbox: Sandbox, who: str) -> dict[str, Any]:
    """Return the metrics in the file for them. ScoreInvalid: it is too large, or no JSON object with each name once."""
    try:
        content = sandbox.read(METRICS_FILE, limit=_FILE_LIMIT)
    except ValueError:
        raise ScoreInvalid(f"{who}: its file of metrics is larger than {_FILE_LIMIT >> 20} MiB") from None
    if content is None or not content.strip():
        return {}
    found = json_of(content.decode("utf-8", "replace"), f"{who}: its file of metrics")
    if not isinstance(found, dict):
        raise ScoreInvalid(f"{who}: its file of metrics is no JSON object of names and values")
    return found


def numbers_among(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values that can be metrics, at most as many as a scorer may have."""
    fit = {
        name: float(value)
        for name, value in values.items()
        if _NAME.fullmatch(name)
        and isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= LARGEST
    }
    return dict(list(fit.items())[:MOST])


def measured(spec: ScorerSpec, reported: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the metrics of a scorer, with units and directions as its scenario describes them.

    `reported` has a number for each name, or a mapping with `value`, and possibly `unit` and `direction`. ScoreInvalid:
    a name, a value or their count is out of bounds.
    """
    who = f"scorer {spec.name!r}"
    declared = {name: one for name, one in spec.metrics.items() if name != OWN_SCORE}
    if declared:
        reported = {name: value for name, value in reported.items() if name in declared}
    if len(reported) > MOST:
        raise ScoreInvalid(f"{who} gave {len(reported)} metrics; {MOST} are allowed")
    found = []
    for name, value in reported.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ScoreInvalid(
                f"{who} gave a metric {reprlib.repr(name)}; a name begins with a letter, and has at most 64 letters, "
                "digits, `_`, `.` and `-`"
            )
        told = value if isinstance(value, Mapping) else {"value": value}
        if not told.keys() <= _Reported.model_fields.keys():
            raise ScoreInvalid(f"{who}: metric {name} has other keys than value, unit and direction")
        said = declared.get(name)
        try:
            one = _Reported.model_validate(told if said is None else {"value": told.get("value")})
        except ValidationError as error:
            key = str(error.errors()[0]["loc"][0])
            fault = _FAULTS[key].format(reprlib.repr(told.get(key)))
            raise ScoreInvalid(f"{who}: metric {name} {fault}") from None
        unit, direction = (one.unit, one.direction) if said is None else (said.unit, said.better)
        found.append(Metric(name=name, value=one.value, unit=unit, direction=direction or "higher"))
    return tuple(found)


def has_own_score(spec: ScorerSpec) -> bool:
    """Return False if the score of a scorer is made of its metrics alone."""
    weights = [name for name, one in spec.metrics.items() if one.weight is not None]
    return not weights or OWN_SCORE in weights


def printed_score(context: ScoringContext, command: str, advice: str) -> Graded:
    """Run a command that prints its score; return that, and its metrics. ScorerCrashed: see `run_to_end`."""
    stdout, spec = Statements(), context.spec
    output = run_to_end(context, command, advice, stdout)
    printed, metrics = reported(context, stdout.text())
    score = parse_score(printed, f"scorer {spec.name!r}") if has_own_score(spec) else None
    return Graded(score, output, metrics=metrics)


def weighed(spec: ScorerSpec, own: float | None, metrics: Sequence[Metric]) -> float:
    """Return the score of a scorer: its own, or the weighted mean of those of its metrics that have a weight.

    ScoreMissing: there is none, or no value of such a metric. ScoreInvalid: a value is not within [0, 1], and the
    scenario does not say what it is worth.
    """
    who = f"scorer {spec.name!r}"
    weights = {name: one.weight for name, one in spec.metrics.items() if one.weight is not None}
    if not weights:
        return checked(own, who)
    values = {one.name: one.value for one in metrics}
    shares: dict[str, float] = {}
    for name in weights:
        if name == OWN_SCORE:
            if own is None:
                raise ScoreMissing(f"{who} gave no score, which has a weight")
            shares[name] = checked(own, who)
            continue
        if name not in values:
            raise ScoreMissing(f"{who} did not report the metric {name}, which has a weight")
        share = spec.metrics[name].share(values[name])
        if share is None:
            raise ScoreInvalid(
                f"{who}: metric {name} is {values[name]:g}, which is not within [0, 1]; give it `worst` and `best`, "
                "the values that are worth 0 and 1"
            )
        shares[name] = share
    largest = max(weights.values())
    parts = [(weight / largest, shares[name]) for name, weight in weights.items()]
    return min(
        1.0, math.fsum(weight * share for weight, share in parts) / math.fsum(weight for weight, _ in parts)
    )


def all_metrics(results: Iterable[ScorerResult]) -> tuple[Metric, ...]:
    """Return the metrics of all scorers of a trial. Where two have the same name, the second is `NAME#2`."""
    found: dict[str, Metric] = {}
    for result in results:
        for metric in result.metrics:
            name, number = metric.name, 1
            while name in found:
                number += 1
                name = f"{metric.name}#{number}"
            found[name] = metric if number == 1 else metric.model_copy(update={"name": name})
    return tuple(found.values())[:MOST]
