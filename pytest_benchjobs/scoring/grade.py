"""Running a trial's scorers in order, and combining their scores."""

from __future__ import annotations

import json
import math
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model.errors import InfrastructureError, ScorerCrashed
from ..model.result import Failure, ScorerResult
from ..model.scenario import Scenario, ScorerSpec
from ..model.usage import Usage
from ..sandbox.protocol import Sandbox
from ..store.files import DISK_ERRORS, write_error, writing
from ..store.layout import TrialLayout
from ..store.text import clean, plain
from .metrics import METRICS_FILE, METRICS_VARIABLE, measured, weighed
from .needs import needs_of
from .protocol import VERIFIER_DIRECTORY, Graded, Scorer, ScoringContext

REPORTS = {"BENCH_JUNIT": f"{VERIFIER_DIRECTORY}/junit.xml", "BENCH_CTRF": f"{VERIFIER_DIRECTORY}/ctrf.json"}
SCORER_VARIABLE = "BENCH_TESTS_DIR"
"""Variable in the environment of each scorer's commands, by which they are recognised."""
_KEPT_OUTPUT = 4000
_KEPT_DEFINITION = 2000
"""Most characters of each part of a definition."""
_FRAMES = 20
"""The most frames of a traceback that are kept, the innermost ones."""


def run_scorer(context: ScoringContext, scorer: Scorer, redact: Callable[[str], str]) -> ScorerResult:
    """Run one scorer. Its errors are in the result, and its output is redacted.

    Retryable: the engine or the disk failed, so this says nothing about the scorer. ResultsUnwritable: its output
    cannot be written.
    """
    spec = context.spec
    started = time.monotonic()
    output = ""
    found: dict[str, Any] = {}
    with writing(context.directory):
        context.directory.mkdir(parents=True, exist_ok=True)
    try:
        graded = scorer(context)
        if not isinstance(graded, Graded):
            graded = Graded(graded)
        output, found["details"] = str(graded.output), plain(dict(graded.details))
        metrics = measured(spec, graded.metrics)
        score = weighed(spec, graded.score, metrics)
        if graded.score not in (None, score):
            found["details"]["own_score"] = graded.score
        found |= {"score": score, "metrics": metrics}
    except InfrastructureError as fault:
        if fault.retryable:
            raise
        found["error"] = failure(fault, f"score:{spec.name}")
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # a scorer may call pytest.fail or sys.exit: neither is an Exception
        if isinstance(fault, OSError) and fault.errno in DISK_ERRORS:
            raise write_error(context.directory, fault) from fault
        error = failure(ScorerCrashed(f"scorer {spec.name!r} raised {describe(fault)}"), f"score:{spec.name}")
        trace = _traceback(fault)
        found["error"] = error.model_copy(update={"detail": clean(redact(trace), 2 * _KEPT_OUTPUT)})
        context.printed.append(trace)
    output = output or "\n".join(context.printed)
    if output:
        output = redact(output)
        with writing(context.directory):
            (context.directory / "output.log").write_text(output, "utf-8", "replace")
    return ScorerResult(
        name=spec.name,
        type=spec.type,
        weight=spec.weight,
        definition={
            name: clean(redact(text), _KEPT_DEFINITION)
            for name, text in _definition(spec, scorer, context.scenario.source).items()
        },
        seconds=time.monotonic() - started,
        output=clean(output, _KEPT_OUTPUT),
        **found,
    )


def _definition(spec: ScorerSpec, scorer: Scorer, source: Path) -> dict[str, str]:
    """Return what a scorer runs, for readers. `source` is the file or directory of its scenario."""
    found = {name: getattr(spec, name) for name in ("command", "script", "runner")}
    if spec.path is not None:
        found["path"] = os.path.relpath(spec.path, source if source.is_dir() else source.parent)
        if spec.path.is_dir():
            found["files"] = ", ".join(sorted(path.name for path in spec.path.iterdir()))
    if needs_of(spec.type, {spec.type: scorer}).model is not None:
        found |= {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in spec.params.items()
        }
    return {name: text for name, text in found.items() if text}


def combine(results: Sequence[ScorerResult]) -> float | None:
    """The weighted mean, or None if any scorer has no score: a partial grade is not a grade."""
    # Relative to the largest, so that the sum of huge weights is not infinite.
    largest = max((result.weight for result in results), default=0.0)
    weights, products = [], []
    for result in results:
        if result.score is None:
            return None
        weights.append(result.weight / largest)
        products.append(weights[-1] * result.score)
    return min(1.0, math.fsum(products) / math.fsum(weights)) if weights else None


def describe(error: BaseException) -> str:
    """Name an exception with its message, even if its `__str__` fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _traceback(error: BaseException) -> str:
    """Return the traceback of an exception in a scorer, from the scorer's own code on."""
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    try:
        return "".join(traceback.format_exception(type(error), error, frames, limit=-_FRAMES))
    except Exception:
        return describe(error)


def failure(error: InfrastructureError, phase: str | None) -> Failure:
    """An infrastructure error in the form that results have."""
    return Failure(class_=error.code, message=clean(str(error), _KEPT_OUTPUT), phase=phase)


def make_context(
    scenario: Scenario,
    spec: ScorerSpec,
    sandbox: Sandbox,
    *,
    timeout: float,
    env: Mapping[str, str],
    directory: Path,
    params: Mapping[str, Any] | None = None,
) -> ScoringContext:
    """Make the context of one scorer, of what every scorer may use. `directory` is the trial's."""
    layout = TrialLayout(directory)
    given = {"BENCH_PARAMS": json.dumps(dict(params))} if params else {}
    if spec.metrics:
        given[METRICS_VARIABLE] = METRICS_FILE
    return ScoringContext(
        scenario=scenario,
        spec=spec,
        sandbox=sandbox,
        timeout=timeout,
        env={**REPORTS, SCORER_VARIABLE: "/tests", **given, **env},
        directory=layout.scorer(spec.name),
        agent_log=layout.agent_log,
        usage=Usage(),
        params=params or {},
    )
