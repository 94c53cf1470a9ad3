"""Order of trials: all at once, or in rounds until the gate is decided; then fresh attempts at what looks worse.

For trials of one process. Fresh attempts are not pytest tests: they pass or fail nothing, and only tell whether a
scenario that looks worse really is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from ..model.errors import InputError
from .ticket import Ticket

if TYPE_CHECKING:
    from ..analysis.sides import Side
    from ..model.gate import GateConfig, RoundReport
    from ..model.job import JobConfig
    from ..model.result import TrialResult
    from ..store.rows import PairRow

T = TypeVar("T", bound=Ticket)


def check(job: JobConfig, gate: GateConfig, *, distributed: bool) -> None:
    """Check that rounds and fresh attempts fit the other settings. `gate` has the rules in force.

    Raises:
        InputError: they do not.
    """
    if not (gate.until_decided or gate.confirm):
        return
    from ..analysis.gate.rounds import why_no_rounds

    for flag, wanted in (
        ("--bench-until-decided", gate.until_decided),
        ("--bench-confirm", gate.confirm > 0),
    ):
        if not wanted:
            continue
        if job.attempt_policy.aggregates:
            raise InputError(f"{flag} needs the attempt policy `each`, not `{job.attempt_policy}`")
        if distributed:
            raise InputError(
                f"{flag} needs a single process; leave out -n, and set the number of concurrent trials with "
                "--bench-concurrency"
            )
    if gate.confirm and gate.baseline in (None, "none"):
        raise InputError("--bench-confirm: it needs a baseline; name one with --bench-baseline")
    most = max((job.of(benchmark).attempts for benchmark in (*job.per_benchmark, "")), default=1)
    if gate.until_decided and job.shard is not None:
        raise InputError(
            "--bench-until-decided needs all scenarios in one job, and --bench-shard gives it a part"
        )
    if gate.until_decided and (why := why_no_rounds(gate, most)) is not None:
        raise InputError(f"--bench-until-decided: {why}")


@dataclasses.dataclass(slots=True)
class Rounds(Generic[T]):
    """Trials of a job in batches: each batch waits until the one before has landed."""

    job_id: str
    job: JobConfig
    gate: GateConfig
    before: Side | None
    """The baseline, if there is one."""
    decided: dict[tuple[str, str], str]
    """The job's map of benchmark and agent -> why no further attempt runs. Filled here."""
    reports: list[RoundReport]
    """The job's reports of rounds. Filled here."""
    say: Callable[[str], None]
    """Shows a line to the user."""
    _rows: list[PairRow] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Drop the baseline if there are neither rounds nor fresh attempts."""
        if not (self.gate.until_decided or self.gate.confirm > 0):
            self.before = None

    def saw(self, result: TrialResult) -> None:
        """Note the result of a landed trial."""
        if self.before is not None:
            from ..store.rows import pair_row

            self._rows.append(pair_row(result))

    def batches(self, tickets: list[T]) -> Iterator[list[T]]:
        """Yield batches of trials that may run at once."""
        if self.before is None or not self.gate.until_decided:
            yield tickets
            return
        cells = {(ticket.benchmark, ticket.agent.label) for ticket in tickets}
        numbers = sorted({ticket.attempt for ticket in tickets})
        for number in numbers:
            yield [ticket for ticket in tickets if ticket.attempt == number]
            if not self.decided.keys() >= cells:
                self._look(number, self.before)

    def _look(self, number: int, before: Side) -> None:
        from ..analysis.gate.rounds import decided, looks

        found = looks(
            self._now(),
            before,
            self.gate,
            number=number,
            rounds=lambda benchmark: self.job.of(benchmark).attempts,
        )
        # Pairs decided by an earlier round have no new attempts. Their reports stay.
        fresh = [one for one in found if (one.benchmark, one.agent) not in self.decided]
        keys = {(one.rule, one.benchmark, one.agent) for one in fresh}
        kept = [one for one in self.reports if (one.rule, one.benchmark, one.agent) not in keys]
        self.reports[:] = [*kept, *fresh]
        self.decided.update(decided(fresh))
        for one in fresh:
            where = f"{one.benchmark}, {one.agent}, {one.rule}"
            self.say(
                f"bench: round {one.round} of {one.rounds}: {where}: {one.stop or 'undecided'}: {one.why}"
            )

    @property
    def confirms(self) -> bool:
        """True if there may be fresh attempts."""
        return self.before is not None and self.gate.confirm > 0

    def fresh(self, tickets: Iterable[T], another: Callable[[T, int, int], T]) -> list[T]:
        """Return fresh attempts at scenarios that look worse. Only the gate sees their results.

        `another` makes one from a ticket, given the total number of attempts and the number of the new one.
        """
        if not self.confirms or self.before is None:
            return []
        from ..analysis.gate.rounds import to_confirm

        latest = {(ticket.benchmark, ticket.scenario, ticket.agent.label): ticket for ticket in tickets}
        fresh: list[T] = []
        for key in to_confirm(self._now(), self.before):
            if key in latest:
                attempts = self.job.of(key[0]).attempts
                numbers = range(attempts + 1, attempts + 1 + self.gate.confirm)
                fresh += [another(latest[key], attempts, number) for number in numbers]
        if fresh:
            scenarios = len({ticket.scenario for ticket in fresh})
            self.say(
                f"bench: {scenarios} {'scenario looks' if scenarios == 1 else 'scenarios look'} worse than in the "
                f"baseline: {len(fresh)} fresh attempts"
            )
        return fresh

    def _now(self) -> Side:
        from ..analysis.sides import side

        return side(self.job_id, [(self.job_id, self._rows)])
