"""Which scenarios of two sides are compared."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pytest_benchjobs.analysis.pairing import match_agents, pair
from pytest_benchjobs.analysis.sides import Cell, Side

NAN, INF = float("nan"), float("inf")


def cell(scenario: str, *scores: float, agent: str = "a:m", benchmark: str = "b", **more: Any) -> Cell:
    more.setdefault("comparable", "same")
    return Cell(benchmark, scenario, agent, scores, sum(score == 1 for score in scores), **more)


def side(*cells: Cell) -> Side:
    return Side("x", ("j",), {one.key: one for one in cells})


def labels(*agents: str) -> Side:
    return side(*(cell("s", 1, agent=agent) for agent in agents))


def test_everything_has_its_place() -> None:
    before = side(
        cell("same", 1), cell("gone", 1), cell("edited", 1, comparable="old"), cell("broken-then", errors=2), cell("broken-now", 0)
    )  # fmt: skip
    now = side(
        cell("new", 1), cell("same", 0, 1), cell("edited", 1, comparable="new"), cell("broken-then", 1), cell("broken-now", errors=1)
    )  # fmt: skip
    pairing = pair(before, now)
    assert [(one.before.scores, one.now.scores) for one in pairing.pairs] == [((1,), (0, 1))]
    assert [one.scenario for one in pairing.added] == ["new"]
    assert [one.scenario for one in pairing.removed] == ["gone"]
    (edited,) = pairing.changed
    assert (edited.scenario, edited.why) == ("edited", "not the same task as in the baseline")
    unscored = {"broken-now": "1 error now", "broken-then": "2 errors in the baseline"}
    assert [(one.scenario, one.why) for one in pairing.unscored] == [*unscored.items()]
    assert pairing.notes == ()


def test_what_nobody_knows_is_paired_with_a_note() -> None:
    pairing = pair(
        side(cell("s", 1, comparable=None), cell("t", 1)), side(cell("s", 1), cell("t", 1, mixed=True))
    )
    assert len(pairing.pairs) == 2
    assert pairing.notes == (
        "for 1 scenario it is unknown whether the task is the same on both sides",
        "1 scenario changed within a side; only attempts at the newest version count",
    )


@pytest.mark.parametrize(
    ("before", "now", "matched"),
    [
        (["a:m", "b:m"], ["b:m", "a:m"], {"a:m": "a:m", "b:m": "b:m"}),
        (["codex@1:gpt"], ["codex@2:gpt"], {"codex@2:gpt": "codex@1:gpt"}),
        (["codex:gpt", "codex:old"], ["codex:gpt@host.example,effort=high", "codex:new"], {"codex:gpt@host.example,effort=high": "codex:gpt", "codex:new": "codex:old"}),
        (["codex:old", "goose:m"], ["codex:new", "goose:m"], {"codex:new": "codex:old", "goose:m": "goose:m"}),
        (["command:old.sh"], ["codex:gpt"], {"codex:gpt": "command:old.sh"}),
        # As good as each other, so neither is taken.
        (["codex:a", "codex:b"], ["codex:c"], {}),
        (["x:1", "y:2"], ["z:3"], {}),
        # A provider is no other model, unless two of them are compared.
        (["codex:openai/m", "codex:openai/n"], ["codex:m", "codex:n"], {"codex:m": "codex:openai/m", "codex:n": "codex:openai/n"}),
        (["codex:openai/m", "codex:azure/m"], ["codex:m"], {}),
        (["x:meta/m", "x:b/n"], ["x:other/m", "x:d/n"], {}),
        (["command:./a/run.sh", "x:1"], ["command:./c/run.sh", "y:2", "command:z"], {}),
        ([], ["a:m"], {}),
    ],
)  # fmt: skip
def test_agents_are_matched_by_what_is_nearest(
    before: list[str], now: list[str], matched: dict[str, str]
) -> None:
    assert match_agents(labels(*before), labels(*now)) == matched
    assert match_agents(labels(*reversed(before)), labels(*reversed(now))) == matched


def test_agents_without_a_match_are_said() -> None:
    pairing = pair(labels("codex@1:m", "x:1", "y:2"), labels("codex@2:m", "z\x1b[31m:3"))
    assert [(one.before.agent, one.now.agent) for one in pairing.pairs] == [("codex@1:m", "codex@2:m")]
    assert pairing.added == pairing.removed == ()
    assert pairing.notes == (
        "codex@2:m is compared with codex@1:m of the baseline",
        "the baseline has no agent to compare z:3 with",
        "x:1 of the baseline is not in this job",
        "y:2 of the baseline is not in this job",
    )
    assert pair(labels("x:p/m", "x:m", "y:m"), labels("x:m", "y:m")).notes == (
        "x:p/m of the baseline is not in this job; x:m may be the same model by another provider",
    )


def test_removed_scenarios_go_by_the_agent_of_now() -> None:
    pairing = pair(side(cell("s", 1, agent="codex@1"), cell("gone", 1, agent="codex@1")), labels("codex@2"))
    assert [(one.scenario, one.agent) for one in pairing.removed] == [("gone", "codex@2")]


def test_numbers_that_cannot_be_count_as_not_there() -> None:
    hostile = cell(
        "s", NAN, INF, -1, 2, 1, 0.5, seconds=(NAN, -1, INF, 3), costs=(-1, 0.5, 1e300), tokens=(-5, 7)
    )
    hostile = hostile._replace(passed=9, errors=-3)
    pairing = pair(side(hostile), side(cell("s", 1)))
    (found,) = pairing.pairs
    assert found.before.scores == (1, 0.5)
    assert (found.before.passed, found.before.errors) == (2, 0)
    assert (found.before.seconds, found.before.costs, found.before.tokens) == ((3,), (0.5,), (7,))
    assert pairing.notes == ("4 scores are not numbers from 0 to 1, and are ignored",)
    nothing = pair(side(cell("s", NAN)), side(cell("s", 1)))
    assert [one.why for one in nothing.unscored] == ["no result in the baseline"]


def test_the_order_of_cells_does_not_matter() -> None:
    chance = random.Random(3)
    cells = [cell(f"s{number:02}", chance.random(), benchmark=chance.choice("bc")) for number in range(30)]
    before, now = cells[:25], cells[5:]
    expected = pair(side(*before), side(*now))
    for _ in range(5):
        chance.shuffle(before)
        chance.shuffle(now)
        assert pair(side(*before), side(*now)) == expected
