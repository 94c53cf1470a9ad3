"""An agent that takes a parameter: `benchjobs run --agent counter:MODEL --matrix effort=low,high`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_benchjobs import Agent, AgentCall, AgentCommand

CARELESS = "echo 5 > out.txt"
CAREFUL = """
if grep -q longest $BENCH_PROBLEM_FILE
then tr ' ' '\\n' < in.txt | awk 'length > length(w) {w = $0} END {print w}' > out.txt
else wc -w < in.txt > out.txt
fi
"""


class Counter:
    name = "counter"
    needs_model = True
    trusted = False

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        effort = call.params.get("effort", "low")
        return AgentCommand(("sh", "-c", CAREFUL if effort == "high" else CARELESS))


def pytest_benchjobs_agents(config: pytest.Config) -> Iterable[Agent]:
    return [Counter()]
