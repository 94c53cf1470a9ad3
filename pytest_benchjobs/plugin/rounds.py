"""Which trials run when: all at once, or in rounds until the gate is decided, and then fresh ones of what looks worse.

For trials of one process. Fresh attempts are no tests of pytest: they pass or fail nothing, they only tell whether what
looks worse is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from ..model.gate import RoundReport
from .asked import asked as read
from .items import Ticket, TrialItem

if TYPE_CHECKING:
    from ..analysis.sides import Side
    from ..model.gate import GateConfig
    from ..model.result import TrialResult
    from ..store.rows import PairRow
    from .session import BenchSession


def prepare(session: pytest.Session) -> None:
    """Put trials in the order that is asked for."""
    if read(session.config).job.interleave:
        _interleave(session.items)


def check(config: pytest.Config, kept: GateConfig | None = None) -> None:
    """See that what is asked for fits together; `kept` are the gates of a job that is taken up again.

    Raises:
        pytest.UsageError: it does not.
    """
    job = read(config).job
    gate = job.gate if kept is None else kept
    if not (gate.until_decided or gate.confirm):
        return
    from ..analysis.rounds import why_no_rounds

    for flag, wanted in (
        ("--bench-until-decided", gate.until_decided),
        ("--bench-confirm", gate.confirm > 0),
    ):
        if not wanted:
            continue
        if job.attempt_policy.aggregates:
            raise pytest.UsageError(f"{flag} is for the attempt policy `each`, not `{job.attempt_policy}`")
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError(
                f"{flag} decides in one process what to run next; leave out -n, and say with --bench-concurrency how "
                "many trials run at a time"
            )
    if gate.confirm and gate.baseline in (None, "none"):
        raise pytest.UsageError(
            "--bench-confirm: nothing looks worse without a baseline; name one with --bench-baseline"
        )
    most = max((job.of(benchmark).attempts for benchmark in (*job.per_benchmark, "")), default=1)
    if gate.until_decided and (why := why_no_rounds(gate, most)) is not None:
        raise pytest.UsageError(f"--bench-until-decided: {why}")


class FreshTrial(TrialItem):
    """Another attempt at a scenario, of which pytest is told nothing."""

    fresh = True


class Rounds:
    """The trials of a session, batch by batch: each batch waits until the one before has landed."""

    def __init__(self, bench: BenchSession, trials: Sequence[TrialItem]) -> None:
        self._bench = bench
        self._trials = trials
        self._gate = bench.gate
        self._watching = bench.before_side is not None and (
            self._gate.until_decided or self._gate.confirm > 0
        )
        self._rows: list[PairRow] = []

    def saw(self, result: TrialResult) -> None:
        """Take note of a result that has landed."""
        if self._watching:
            from ..store.rows import pair_row

            self._rows.append(pair_row(result))

    def batches(self) -> Iterator[list[Ticket]]:
        """Trials that are tests."""
        tickets = [ticket for item in self._trials for ticket in item.tickets()]
        if not (self._watching and self._gate.until_decided):
            yield tickets
            return
        numbers = sorted({ticket.attempt for ticket in tickets})
        for number in numbers:
            yield [ticket for ticket in tickets if ticket.attempt == number]
            if number != numbers[-1]:
                self._look(number)
        self._look(numbers[-1])

    def _look(self, number: int) -> None:
        from ..analysis.rounds import decided, looks

        before = self._bench.before_side
        assert before is not None  # noqa: S101  else nothing is watched
        if all(
            key in self._bench.decided
            for key in {(item.source.benchmark, item.agent.label) for item in self._trials}
        ):
            return
        job = self._bench.job
        found = looks(
            self._now(),
            before,
            self._gate,
            number=number,
            rounds=lambda benchmark: job.of(benchmark).attempts,
        )
        # What was decided in an earlier round has no attempts since, and stays as it was.
        fresh = [one for one in found if (one.benchmark, one.agent) not in self._bench.decided]
        keys = {(one.rule, one.benchmark, one.agent) for one in fresh}
        kept = [one for one in self._bench.rounds if (one.rule, one.benchmark, one.agent) not in keys]
        self._bench.rounds = (*kept, *fresh)
        self._bench.decided.update(decided(fresh))
        self._tell(fresh)

    def fresh(self) -> list[Ticket]:
        """Attempts that confirm, or do not, that a scenario became worse. Reported to nobody but the gate."""
        if not (self._watching and self._gate.confirm):
            return []
        from ..analysis.rounds import to_confirm

        before = self._bench.before_side
        assert before is not None  # noqa: S101  else nothing is watched
        items: dict[tuple[str, str, str], TrialItem] = {}
        for item in self._trials:
            items[item.source.benchmark, item.ref.id, item.agent.label] = item
        tickets = []
        for key in to_confirm(self._now(), before):
            if key in items:
                attempts = self._bench.job.of(key[0]).attempts
                numbers = range(attempts + 1, attempts + 1 + self._gate.confirm)
                tickets += [Ticket(_another(items[key], attempts, number), number) for number in numbers]
        if tickets:
            scenarios = len({ticket.item.ref.id for ticket in tickets})
            self._say(
                f"bench: {scenarios} {'scenario looks' if scenarios == 1 else 'scenarios look'} worse than in the "
                f"baseline: {len(tickets)} fresh attempts"
            )
        return tickets

    def unplanned(self, tickets: Sequence[Ticket]) -> int:
        """How many of the fresh ones the job does not have yet, from before it was taken up again."""
        if not self._bench.resumed:
            return len(tickets)
        return sum(self._bench.bundle.find(item.trial(attempt)) is None for item, attempt in tickets)

    def _now(self) -> Side:
        from ..analysis.sides import side

        return side(self._bench.bundle.id, [(self._bench.bundle.id, self._rows)])

    def _tell(self, found: Iterable[RoundReport]) -> None:
        for one in found:
            where = f"{one.benchmark}, {one.agent}, {one.rule}"
            self._say(
                f"bench: round {one.round} of {one.rounds}: {where}: {one.stop or 'undecided'}: {one.why}"
            )

    def _say(self, line: str) -> None:
        from ..store.text import one_line

        terminal = self._bench.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._bench.config.option.verbose >= 0:
            terminal.ensure_newline()
            terminal.write_line(one_line(line, 500))


def _interleave(items: list[pytest.Item]) -> None:
    """Order trials so that agents take turns: the first attempt of all scenarios, then the second; who begins changes.

    What drifts while the job runs (a provider that is slow at noon, a model that is replaced) then meets all agents
    alike.
    """
    trials = [item for item in items if isinstance(item, TrialItem)]
    labels = {label: place for place, label in enumerate(dict.fromkeys(item.agent.label for item in trials))}
    places = {
        key: place
        for place, key in enumerate(dict.fromkeys((item.source.benchmark, item.ref.id) for item in trials))
    }

    def turn(item: TrialItem) -> tuple[int, int, int]:
        place = places[item.source.benchmark, item.ref.id]
        return item.attempt, place, (labels[item.agent.label] + item.attempt + place) % len(labels)

    ordered = iter(sorted(trials, key=turn))
    items[:] = [next(ordered) if isinstance(item, TrialItem) else item for item in items]


def _another(item: TrialItem, attempts: int, number: int) -> TrialItem:
    """The same scenario and agent, for another attempt."""
    base = item.name.removesuffix("]")
    if attempts > 1:
        base = base.removesuffix(f"-{item.attempt}")
    name = f"{base}-{number}]"
    assert item.parent is not None  # noqa: S101  its collector
    made = FreshTrial.from_parent(
        item.parent, source=item.source, ref=item.ref, agent=item.agent, attempt=number, name=name
    )
    made.known = item.known
    return made
