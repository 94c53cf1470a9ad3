"""What `benchjobs ab` refuses before anything runs."""

from __future__ import annotations

import pytest

from pytest_benchjobs.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--b other --a told --baseline last", "--baseline: side A is the baseline of side B"),
        ("--b other --a told --agent x", "--agent: --a and --b name the agents"),
        (
            "--b other --a told --until-decided",
            "--until-decided and --confirm need a baseline that exists when ",
        ),
        ("--b other --a other", "--a and --b are the same: other"),
    ],
)
def test_sides_are_two_agents_without_another_baseline(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ab", "--benchmark", "x", *words.split()])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"benchjobs: {message}")
