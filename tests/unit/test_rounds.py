"""The order in which a job runs its trials: all at once, in rounds until they are decided, and fresh ones at the end."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.analysis.sides import side
from pytest_benchjobs.job.rounds import Rounds, check
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.gate import GateConfig, GateVerdict
from pytest_benchjobs.model.job import JobConfig, Overrides
from pytest_benchjobs.model.policy import parse_policy
from pytest_benchjobs.model.result import Outcome, TrialResult
from pytest_benchjobs.settings.rules import parse_rule
from pytest_benchjobs.store.rows import pair_row

from .records import JOB, result, trial
from .test_trial_fate import Ticket

MEAN = (parse_rule("mean:any"),)
NAMES = [f"s{number:02}" for number in range(20)]


def ended(name: str, attempt: int, *, good: bool) -> TrialResult:
    outcome = Outcome.PASSED if good else Outcome.FAILED
    return result(trial(name, attempt=attempt), outcome=outcome, score=float(good))


BEFORE = side(
    "before", [("before", [pair_row(ended(name, n, good=True)) for name in NAMES for n in (1, 2, 3, 4, 5)])]
)


def gate(**changes: Any) -> GateConfig:
    return GateConfig(**{"baseline": "main", "rules": MEAN, **changes})


@pytest.mark.parametrize(
    ("wanted", "job", "distributed", "says"),
    [
        ({}, {}, True, None),
        ({"baseline": None}, {"policy": "any"}, True, None),
        ({"until_decided": True}, {"attempts": 2}, False, None),
        ({"confirm": 1}, {}, False, None),
        ({"confirm": 1}, {}, True, "--bench-confirm needs a single process"),
        ({"until_decided": True}, {"attempts": 2}, True, "--bench-until-decided needs a single process"),
        ({"confirm": 1}, {"attempts": 2, "policy": "any"}, False, "--bench-confirm needs the attempt policy `each`"),
        ({"until_decided": True, "confirm": 1}, {"attempts": 2, "policy": "all"}, False, "--bench-until-decided needs the attempt policy `each`, not `all`"),
        ({"confirm": 1, "baseline": None}, {}, False, "it needs a baseline"),
        ({"confirm": 1, "baseline": "none"}, {}, False, "it needs a baseline"),
        ({"until_decided": True}, {"attempts": 1}, False, "--bench-until-decided: it needs more than one attempt"),
        ({"until_decided": True}, {"attempts": 2, "shard": "1/2"}, False, "--bench-until-decided needs all scenarios in one job"),
        ({"until_decided": True}, {"attempts": 1, "of_texts": 2}, False, None),
        ({"until_decided": True}, {"attempts": 2, "of_texts": 1}, False, None),
    ],
)  # fmt: skip
def test_rounds_and_fresh_attempts_have_to_fit_the_rest(
    tmp_path: Path, wanted: dict[str, Any], job: dict[str, Any], *, distributed: bool, says: str | None
) -> None:
    own = {"texts": Overrides(attempts=job["of_texts"])} if "of_texts" in job else {}
    config = JobConfig(
        directory=tmp_path,
        attempts=job.get("attempts", 1),
        shard=job.get("shard"),
        attempt_policy=parse_policy(job.get("policy", "each")),
        per_benchmark=own,
    )
    if says is None:
        check(config, gate(**wanted), distributed=distributed)
    else:
        with pytest.raises(InputError) as caught:
            check(config, gate(**wanted), distributed=distributed)
        assert str(caught.value).startswith(says) or f": {says}" in str(caught.value)


class Job:
    """Rounds of a job of so many attempts, whose trials land as soon as they may run."""

    def __init__(self, directory: Path, attempts: int = 5, before: Any = BEFORE, **changes: Any) -> None:
        self.said: list[str] = []
        config = JobConfig(directory=directory, attempts=attempts)
        self.rounds: Rounds[Ticket] = Rounds(JOB, config, gate(**changes), before, {}, [], self.said.append)
        self.tickets = [Ticket(trial(name, attempt=n)) for name in NAMES for n in range(1, attempts + 1)]

    def run(self, good: Any) -> list[set[int]]:
        """Land what may run; the attempts of each batch."""
        batches = []
        for batch in self.rounds.batches(self.tickets):
            batches.append({ticket.attempt for ticket in batch})
            for ticket in batch:
                if ("texts", "oracle") not in self.rounds.decided:
                    self.rounds.saw(ended(ticket.scenario, ticket.attempt, good=good(ticket)))
        return batches


@pytest.mark.parametrize("changes", [{}, {"confirm": 2}, {"before": None, "until_decided": True}])
def test_without_rounds_all_trials_are_one_batch(tmp_path: Path, changes: dict[str, Any]) -> None:
    job = Job(tmp_path, **changes)
    assert job.run(lambda _: True) == [{1, 2, 3, 4, 5}]
    assert (job.said, job.rounds.reports) == ([], [])


def test_a_round_is_an_attempt_of_everything_and_what_is_decided_is_looked_at_no_more(tmp_path: Path) -> None:
    job = Job(tmp_path, until_decided=True)
    assert job.run(lambda ticket: ticket.scenario >= "s10") == [{1}, {2}, {3}, {4}, {5}]
    (line,) = job.said
    assert line.startswith("bench: round 1 of 5: texts, oracle, mean:any: regressed: ")
    (report,) = job.rounds.reports
    assert (report.round, report.stop) == (1, GateVerdict.REGRESSED)
    assert job.rounds.decided.keys() == {("texts", "oracle")}


def test_what_is_undecided_is_looked_at_after_each_round_and_the_last_report_counts(tmp_path: Path) -> None:
    job = Job(tmp_path, attempts=3, until_decided=True)
    assert len(job.run(lambda ticket: ticket.scenario >= "s02" or ticket.attempt > 1)) == 3
    assert [line.partition(": texts")[0] for line in job.said] == [
        f"bench: round {number} of 3" for number in range(1, len(job.said) + 1)
    ]
    assert "undecided" in job.said[0]
    (report,) = job.rounds.reports
    assert report.round == len(job.said) > 1


def another(ticket: Ticket, attempts: int, number: int) -> Ticket:
    assert attempts == 3
    return Ticket(ticket.of.model_copy(update={"attempt": number}), is_fresh=True)


def test_what_looks_worse_gets_fresh_attempts_with_numbers_of_their_own(tmp_path: Path) -> None:
    job = Job(tmp_path, attempts=3, confirm=2)
    job.run(lambda ticket: ticket.scenario not in ("s03", "s07"))
    fresh = job.rounds.fresh(job.tickets, another)
    assert [(one.scenario, one.attempt) for one in fresh] == list(product(("s03", "s07"), (4, 5)))
    assert job.said == ["bench: 2 scenarios look worse than in the baseline: 4 fresh attempts"]
    # What was not selected now has no trials to make others from.
    fresh = job.rounds.fresh([one for one in job.tickets if one.scenario != "s03"], another)
    assert {ticket.scenario for ticket in fresh} == {"s07"}
    assert job.said[1:] == ["bench: 1 scenario looks worse than in the baseline: 2 fresh attempts"]


@pytest.mark.parametrize(
    "changes", [{}, {"until_decided": True}, {"confirm": 2, "before": None}, {"confirm": 2}]
)
def test_nothing_is_confirmed_unless_it_was_asked_for_and_looks_worse(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    job = Job(tmp_path, attempts=3, **changes)
    good = changes == {"confirm": 2}
    job.run(lambda _: good)
    job.said.clear()
    assert job.rounds.fresh(job.tickets, another) == []
    assert job.said == []
