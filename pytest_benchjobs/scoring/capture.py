"""`capture`: scores a run that was captured earlier, from its file on this machine. Nothing is run."""

from __future__ import annotations

from typing import Any

from ..model.errors import InputError, ScoreMissing, ScorerCrashed
from ..model.scenario import ScorerSpec
from ..sources.captures import Capture, Check, Checks, read_capture
from ..store.text import one_line
from .params import parsed
from .protocol import Graded, ScoringContext

_KINDS = 40
"""The most kinds of events that are metrics."""


def check_capture(spec: ScorerSpec) -> None:
    """Check the parameters. InputError: they are wrong."""
    parsed(Checks, spec)


def score_capture(context: ScoringContext) -> Graded:
    """`capture`: the recorded outcome of a run, or the share of checks that hold. What is unknown is no score.

    ScoreMissing: the capture does not say what is asked. ScorerCrashed: there is no capture.
    """
    wanted = parsed(Checks, context.spec)
    if context.spec.path is None:
        raise ScorerCrashed(f"scorer {context.spec.name!r} has no path of a captured run")
    try:
        capture = read_capture(context.spec.path)
    except InputError as error:
        raise ScoreMissing(str(error)) from None
    details: dict[str, Any] = {
        "success": capture.success,
        "events": len(capture.events),
        "kinds": capture.kinds,
        "duration_ms": capture.duration_ms,
    }
    if not wanted.outcome:
        lines = [_line(check, capture) for check in wanted.checks]
        held = sum(line.startswith("ok") for line in lines)
        counts = {**details, "held": held, "total": len(lines)}
        return Graded(held / len(lines), "\n".join(lines), counts, _metrics(context, capture))
    if capture.success is None:
        raise ScoreMissing(
            "the capture has no outcome.success, so it is unknown whether the run succeeded; "
            "score it by checks alone with outcome: false, or leave it out"
        )
    return Graded(float(capture.success), details=details, metrics=_metrics(context, capture))


def _metrics(context: ScoringContext, capture: Capture) -> dict[str, Any]:
    """Return counts of events, and the seconds of the run. The first scorer of a run tells them for all."""
    first = next(spec for spec in context.scenario.scorers if spec.type == context.spec.type)
    if first.name != context.spec.name:
        return {}
    # The usual kinds also where there are none, so that their means are those of all runs.
    counts = {**dict.fromkeys(("llm", "tool", "decision"), 0), **capture.kinds}
    most = sorted(counts, key=lambda kind: -counts[kind])[:_KINDS]
    found: dict[str, Any] = {f"events.{kind}": {"value": counts[kind], "direction": "lower"} for kind in most}
    if capture.duration_ms is not None:
        found["seconds"] = {"value": capture.duration_ms / 1000, "unit": "s", "direction": "lower"}
    return found


def _line(check: Check, capture: Capture) -> str:
    found = check.measured(capture)
    what = one_line(str(check), 200)
    if found is None:
        raise ScoreMissing(f"{what}: unknown, as the capture does not say how long that took")
    least, most = check.bounds
    return f"{'ok ' if least <= found <= most else 'NOT'}  {what}: {found:g} (from {least:g} to {most:g})"
