"""What scenarios require is looked for before anything is spent."""

from __future__ import annotations

import pytest

from .conftest import Bench

NEEDY = """
benchmark: needy
defaults:
  image: none
  problem_statement: Try.
  reference: "true"
  scorers: [{{name: fine, type: command, command: "true"}}]
scenarios:
  - id: fine
  - id: needy
    requires: {requires}
"""


def needy(bench: Bench, requires: str) -> None:
    bench.write("needy.bench.yaml", NEEDY.format(requires=requires))


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one process", "xdist"])
def test_what_is_missing_is_one_error_and_nothing_runs(bench: Bench, workers: tuple[str, ...]) -> None:
    more = "  - {id: key, requires: {secrets: [NO_SUCH_KEY]}}\n  - {id: program, requires: {commands: [no-such, sh]}}\n"
    more += "".join(f"  - {{id: s{number}, requires: {{env: [NOT_HERE]}}}}\n" for number in range(9))
    bench.write("needy.bench.yaml", NEEDY.format(requires="{env: [NO_SUCH_VARIABLE, HOME]}") + more)
    agents = ("--bench-agent", "oracle", "--bench-agent", "nop", "--bench-attempts", "2")
    result = bench.run(*agents, *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*nothing was run, since something is missing that scenarios require:",
            "needy.bench.yaml:10: 'needy' requires the variable NO_SUCH_VARIABLE",
            "needy.bench.yaml:12: 'key' requires the secret NO_SUCH_KEY",
            "needy.bench.yaml:13: 'program' requires the program no-such",
            "*... and 2 more*",
            "*leave these scenarios out with -k or --bench-scenario*",
        ]
    )
    assert result.stderr.str().count("requires the variable NOT_HERE") == 7
    assert not (bench.path / "reports/jobs").exists()


def test_it_is_no_obstacle_to_the_others_nor_to_looking(bench: Bench) -> None:
    needy(bench, "{env: [NO_SUCH_VARIABLE]}")
    assert bench.run("--collect-only", "-q").ret == pytest.ExitCode.OK
    assert bench.run("--bench-plan").ret == pytest.ExitCode.OK
    assert bench.run("--bench-scenario", "fine").ret == pytest.ExitCode.OK
    assert bench.run("-k", "fine").ret == pytest.ExitCode.OK
    bench.conftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if "needy[" in item.name:
                    item.add_marker(pytest.mark.skip(reason="not here"))
        """
    )
    assert bench.run("--bench-force").parseoutcomes() == {"passed": 1, "skipped": 1}


def test_a_source_that_does_not_say_so_ahead_has_an_error_of_the_trial(bench: Bench) -> None:
    bench.conftest(
        """
        from pathlib import Path
        from pytest_benchjobs import ScenarioRef
        from pytest_benchjobs.model.scenario import Scenario

        class Rows:
            path, benchmark, version, warnings = Path(__file__), "rows", "1", ()

            def refs(self, wanted=None):
                return [ScenarioRef("one")]

            def load(self, scenario_id):
                return Scenario(
                    id="one", benchmark="rows", source=self.path, problem_statement="Try.",
                    environment={"image": "none"}, reference={"script": "true"},
                    requires={"env": ["NO_SUCH_VARIABLE"]}, scorers=[{"name": "fine", "type": "command", "command": "true"}],
                )

        def pytest_benchjobs_benchmarks(config):
            return {"rows": Rows()}
        """
    )
    assert bench.run("--bench", "rows").ret == pytest.ExitCode.TESTS_FAILED
    [trial] = bench.results()
    assert (trial["outcome"], trial["failure"]["class"], trial["score"]) == ("error", "agent_setup", None)
    assert "requires NO_SUCH_VARIABLE: set it in the environment" in trial["failure"]["message"]


def test_what_is_there_is_no_obstacle(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "yes")
    needy(bench, "{env: [HERE], secrets: [KEY], commands: [sh]}")
    assert bench.run("--bench-secret", "KEY=HERE").ret == pytest.ExitCode.OK
