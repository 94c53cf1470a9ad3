"""`python -m tests.performance`: measures every budget and prints its ratio. Never a test: machines differ."""

from __future__ import annotations

import importlib
import sys

MEASURES = (
    "agents", "answers", "calibration", "cluster", "comparing", "engine", "gateway", "history", "memory", "plugin", "reports",
    "reuse", "viewer",
)  # fmt: skip


def main() -> None:
    """Measure what was asked for, or everything."""
    chosen = sys.argv[1:] or MEASURES
    print(f"{'what':36} {'ratio':>7}  {'budget':16} detail")
    for name in chosen:
        for what, ratio, budget, detail in importlib.import_module(f"tests.performance.{name}").measure():
            print(f"{what:36} {ratio:7.2f}  {budget:16} {detail}", flush=True)


if __name__ == "__main__":
    main()
