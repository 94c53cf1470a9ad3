"""What a scenario requires is looked for before anything is spent."""

from __future__ import annotations

import pytest

from .conftest import Bench


@pytest.mark.parametrize(
    ("requires", "message"),
    [
        ("{env: [NO_SUCH_VARIABLE]}", "requires NO_SUCH_VARIABLE: set it in the environment, or pass it"),
        ("{secrets: [NO_SUCH_KEY]}", "requires NO_SUCH_KEY: set it in the environment, or pass it"),
        ("{commands: [no-such-program]}", "requires the program no-such-program on this machine's PATH"),
    ],
)
def test_what_is_missing_is_an_error_with_its_name(bench: Bench, requires: str, message: str) -> None:
    bench.write(
        "needy.bench.yaml",
        f"""
        benchmark: needy
        scenarios:
          - id: needy
            image: none
            problem_statement: Try.
            reference: "true"
            requires: {requires}
            scorers: [{{name: fine, type: command, command: "true"}}]
        """,
    )
    assert bench.run().ret == pytest.ExitCode.TESTS_FAILED
    [trial] = bench.results()
    assert (trial["outcome"], trial["failure"]["class"], trial["score"]) == ("error", "agent_setup", None)
    assert message in trial["failure"]["message"]


def test_what_is_there_is_no_obstacle(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "yes")
    bench.write(
        "needy.bench.yaml",
        """
        benchmark: needy
        scenarios:
          - id: needy
            image: none
            problem_statement: Try.
            reference: "true"
            requires: {env: [HERE], secrets: [KEY], commands: [sh]}
            scorers: [{name: fine, type: command, command: "true"}]
        """,
    )
    assert bench.run("--bench-secret", "KEY=HERE").ret == pytest.ExitCode.OK
