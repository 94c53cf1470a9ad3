"""Properties of a result in JUnit and pytest reports: flat names, plain values."""

from __future__ import annotations

import functools
import re

from ..model.result import TrialResult
from ..model.usage import Usage
from ..store.text import one_line

Property = tuple[str, str | int | float]

DECLARATION = b'<?xml version="1.0" encoding="utf-8"?>\n'
"""First line of a JUnit file."""
_LIMIT = 500
_UNSAFE = re.compile(r"[^a-z0-9_]+")


def properties(result: TrialResult) -> list[Property]:
    """Return names and values, safe to send through xdist and to write as XML. Unknown values are left out.

    Names begin with `bench_`; durations are in seconds. Values can be added up over a job: a reused result has no time
    or cost in it, and a rescored one no tokens or cost.
    """
    usage = result.usage if result.reused is None and result.rescored is None else Usage()
    phases = phase_seconds(result) if result.reused is None else {}
    values: list[tuple[str, str | int | float | None]] = [
        ("bench_job", result.job),
        ("bench_benchmark", result.benchmark),
        ("bench_benchmark_version", result.benchmark_version),
        ("bench_scenario", result.scenario),
        ("bench_agent", result.agent.label),
        ("bench_model", result.agent.model),
        ("bench_attempt", result.attempt),
        ("bench_tries", result.tries),
        ("bench_outcome", result.outcome.value),
        ("bench_class", result.failure.class_ if result.failure else None),
        ("bench_score", result.score),
        *((f"bench_score_turn_{turn}", score) for turn, score in enumerate(result.turns, 1)),
        *((f"bench_score_step_{step.name}", step.score) for step in result.steps if step.score is not None),
        *((f"bench_metric_{one_line(metric.name, 100)}", metric.value) for metric in result.metrics),
        ("bench_threshold", result.threshold),
        ("bench_graded_in", result.graded_in),
        ("bench_tampered", len(end.tampered) if (end := result.agent_end) and end.tampered else None),
        ("bench_seconds", 0.0 if result.reused else round(result.seconds, 3)),
        *((f"bench_seconds_{name}", round(seconds, 3)) for name, seconds in phases.items()),
        ("bench_input_tokens", usage.input_tokens),
        ("bench_output_tokens", usage.output_tokens),
        ("bench_cost_usd", usage.cost_usd),
        ("bench_usage_source", usage.source),
        ("bench_signature", result.signature.value if result.signature else None),
        ("bench_reused", result.reused.job if result.reused else None),
        ("bench_rescored", result.rescored.job if result.rescored else None),
        ("bench_known", result.known.mode.value if result.known else None),
        ("bench_known_issue", result.known.issue if result.known else None),
        ("bench_path", result.path or None),
    ]
    return [
        (name, value if type(value) in (int, float) else _short(value))
        for name, value in values
        if value is not None
    ]


@functools.lru_cache(maxsize=1024)
def _short(text: object) -> str:
    """Return a text on one line, a member of an enum as its value: xdist sends nothing but plain values.

    Cached, as most texts are the same in thousands of results.
    """
    return one_line(str(text), _LIMIT)


def phase_seconds(result: TrialResult) -> dict[str, float]:
    """Return the seconds of each phase, in the order phases began; repeated phases are added up."""
    seconds: dict[str, float] = {}
    for phase in result.phases:
        name = _UNSAFE.sub("_", phase.name.lower())[:40]
        seconds[name] = seconds.get(name, 0.0) + phase.seconds
    return seconds
