"""Known failures as text and as records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..analysis.known_failures import ENOUGH, KnownTally
from ..model.result import TrialResult
from ..store.text import one_line
from .units import some


def known_line(tally: KnownTally) -> str:
    """`known failures: 3 expected to fail (2 did, 5 pass now: remove them from bench-known.toml:12), 1 quarantined`."""
    parts = []
    if tally.expected:
        details = [f"{tally.failed} did"] if tally.failed else []
        details += [f"{tally.errors} ended in an error"] if tally.errors else []
        details += [f"{tally.not_run} did not run"] if tally.not_run else []
        details += [_passing(tally)] if tally.passing else []
        parts.append(f"{tally.expected} expected to fail ({', '.join(details)})")
    parts += [f"{tally.quarantined} quarantined"] if tally.quarantined else []
    parts += [f"{tally.skipped} skipped"] if tally.skipped else []
    return one_line(f"known failures: {', '.join(parts)}", 1000)


def known_records(results: Iterable[TrialResult]) -> list[dict[str, Any]]:
    """Return a record for each verdict with a known-failure entry: verdict, entry and outcome, as plain data."""
    return [
        {
            "node_id": result.node_id,
            "benchmark": result.benchmark,
            "scenario": result.scenario,
            "agent": result.agent.label,
            **result.known.model_dump(mode="json"),
            "outcome": result.outcome.value,
            "score": result.score,
        }
        for result in results
        if result.known is not None
    ]


def _passing(tally: KnownTally) -> str:
    one = tally.passing == 1
    hints = [f"remove {'it' if one else 'them'} from {some(tally.obsolete)}"] if tally.obsolete else []
    if tally.passing_once:
        hints.append(
            f"with {ENOUGH} passes {'it' if one else 'they'} can be removed from {some(tally.passing_once)}"
        )
    hints += [f"others that {some(tally.mixed)} lists still fail"] if tally.mixed else []
    return f"{tally.passing} {'passes' if one else 'pass'} now" + (f": {'; '.join(hints)}" if hints else "")
