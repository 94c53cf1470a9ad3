"""A benchmark of 500 scenarios in one file, brought to pytest-benchjobs by an entry point."""

import random
from pathlib import Path

from pytest_benchjobs import Benchmark, Scenario, ScenarioRef

COUNT = 500


class Sums:
    """Sums of two numbers. Collection asks for `refs` alone; `load` makes a scenario when it runs."""

    path = Path(__file__)
    benchmark = "sums"
    version = "1"
    title = "Sums of two numbers"
    warnings = ()

    def refs(self, wanted=None):
        names = (f"sum-{number}" for number in range(COUNT))
        return [
            ScenarioRef(name, tags=("even" if int(name[4:]) % 2 == 0 else "odd",), scorers=("answer",))
            for name in names
            if wanted is None or wanted(name)
        ]

    def load(self, scenario_id):
        numbers = random.Random(scenario_id)
        first, second = numbers.randrange(1000), numbers.randrange(1000)
        made = Scenario(
            scenario_id,
            problem_statement=f"How much is {first} + {second}?",
            image="debian:bookworm-slim",
            answer={"reference": str(first + second)},
            scorers=[{"type": "answer", "params": {"match": "integer", "expected": first + second}}],
        )
        return Benchmark(self.benchmark, version=self.version, scenarios=[made]).load(scenario_id)


def benchmark():
    return Sums()


def pytest_benchjobs_benchmarks():
    return {"sums": Sums()}
