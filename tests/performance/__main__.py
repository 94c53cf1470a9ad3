"""`python -m tests.performance`: measures every budget and prints its ratio. Never a test: machines differ."""

from __future__ import annotations

import sys

from tests.performance import (
    agents,
    answers,
    calibration,
    comparing,
    engine,
    gateway,
    history,
    memory,
    plugin,
    reports,
    reuse,
    viewer,
)

MEASURES = {
    "agents": agents.measure,
    "answers": answers.measure,
    "calibration": calibration.measure,
    "comparing": comparing.measure,
    "engine": engine.measure,
    "gateway": gateway.measure,
    "history": history.measure,
    "memory": memory.measure,
    "plugin": plugin.measure,
    "reports": reports.measure,
    "reuse": reuse.measure,
    "viewer": viewer.measure,
}


def main() -> None:
    """Measure what was asked for, or everything."""
    chosen = sys.argv[1:] or list(MEASURES)
    print(f"{'what':36} {'ratio':>7}  {'budget':16} detail")
    for name in chosen:
        for what, ratio, budget, detail in MEASURES[name]():
            print(f"{what:36} {ratio:7.2f}  {budget:16} {detail}", flush=True)


if __name__ == "__main__":
    main()
