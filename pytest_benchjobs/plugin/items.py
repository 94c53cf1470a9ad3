"""Items: trials as pytest sees them, light until they have run, then the replay of a result."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..job.ticket import SourceTicket
from ..model.node_ids import attempt_id
from .private import Failed, evaluate_skip_marks, evaluate_xfail_marks

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from ..model.known_failure import Known
    from ..model.policy import Policy
    from ..model.result import TrialResult
    from ..sources.protocol import ScenarioRef, Source


class BenchWarning(pytest.PytestWarning):
    """Warning about something odd, but valid, in a manifest or task directory."""

    __module__ = "pytest_benchjobs"


_HINDERING = frozenset(("skip", "skipif", "xfail"))
"""Marks by which an item may not run."""


# Subclasses of pytest's outcomes, so that pytest makes no traceback.
class Unsolved(Failed):
    """Failure of the agent: a failure in pytest, with its own category in the terminal."""


class TrialError(Failed):
    """Error: the trial could not be run or graded, and the agent is not the cause."""


def own_limits(config: pytest.Config) -> Iterator[pytest.MarkDecorator]:
    """Yield marks against the plugins that would cut a trial short, or run it again at full cost.

    A trial has its own timeouts and retries.
    """
    if config.pluginmanager.has_plugin("timeout"):
        yield pytest.mark.timeout(0)
    if config.pluginmanager.has_plugin("rerunfailures"):
        yield pytest.mark.flaky(reruns=0)


def unwanted(item: pytest.Item) -> str | None:
    """Return why an item is not to run, by a mark: `skip`, `skipif`, or `xfail(run=False)`."""
    if not _HINDERING.intersection([mark.name for mark in item.iter_markers()]):
        return None
    try:
        skipped = evaluate_skip_marks(item)
        if skipped is not None:
            return skipped.reason
        xfailed = None if item.config.option.runxfail else evaluate_xfail_marks(item)
    except Failed as error:
        return f"its marker is invalid: {error}"  # pytest reports it too
    return None if xfailed is None or xfailed.run else f"marked not to run: {xfailed.reason}"


@dataclasses.dataclass(eq=False, kw_only=True)
class ItemTicket(SourceTicket):
    """Ticket of one trial of an item."""

    item: TrialItem

    @property
    def will(self) -> Mapping[str, Any]:
        """Data from which the result of its item is made if the process dies."""
        return {"item": self.item.nodeid, "first": self.item.attempt, "attempts": self.item.attempts}

    def unwanted(self) -> str | None:
        """Return why the trial is not to run, if a mark says so."""
        return unwanted(self.item)

    def another(self, attempts: int, number: int) -> ItemTicket:
        """Return a fresh attempt, besides `attempts` others, which pytest does not report."""
        item = self.item
        base = item.name.removesuffix("]")
        if attempts > 1:
            base = base.removesuffix(f"-{item.attempt}")
        assert item.parent is not None  # noqa: S101  its collector
        made = TrialItem.from_parent(
            item.parent,
            source=item.source,
            ref=item.ref,
            agent=item.agent,
            attempt=number,
            name=f"{base}-{number}]",
        )
        made.known = item.known
        made.own_markers += (mark for mark in item.own_markers if mark.name == "usefixtures")
        (ticket,) = made.tickets()
        ticket.is_fresh = True
        return ticket


class TrialItem(pytest.Item):
    """Scenario x agent x attempt; under a policy that makes one verdict of several attempts, scenario x agent.

    It holds references to data shared with its neighbours, and no content: 100,000 of them must fit into memory.
    """

    __slots__ = ("agent", "attempt", "attempts", "known", "landed", "ref", "result", "source")
    teardown_error: BaseException | None = None
    """Error of a fixture's teardown after the trial."""

    def __init__(
        self,
        *,
        source: Source,
        ref: ScenarioRef,
        agent: AgentSpec,
        attempt: int,
        attempts: int = 1,
        name: str,
        parent: pytest.Collector,
    ) -> None:
        # The id is passed as a str: an id that pytest 9.2 derives from a name with `[` does not equal the same id
        # from the cache, and `--lf` finds nothing (pytest#15045).
        super().__init__(name, parent, nodeid=f"{parent.nodeid}::{name}")
        # Both are empty, and a sixth of an item's size. They are recreated on access.
        del self.__dict__["extra_keyword_matches"], self.__dict__["user_properties"]
        self.source = source
        self.ref = ref
        self.agent = agent
        self.attempt = attempt
        self.attempts = attempts
        """Number of its attempts, starting at `attempt`."""
        self.known: Known | None = None
        """Known-failure entry of the trial, set after collection."""
        self.landed: Sequence[TrialResult] = ()
        """Results of its attempts so far."""
        self.result: TrialResult | None = None
        """Result that pytest reports."""

    @functools.cached_property
    def extra_keyword_matches(self) -> set[str]:  # type: ignore[override]
        """Further words for `-k`."""
        return set()

    @functools.cached_property
    def user_properties(self) -> list[tuple[str, object]]:  # type: ignore[override]
        """Properties that plugins add to the trial."""
        return []

    def tickets(self) -> list[ItemTicket]:
        """Return the tickets of its trials."""
        return [
            ItemTicket(
                item=self,
                node_id=self.nodeid if self.attempts == 1 else attempt_id(self.nodeid, attempt),
                source=self.source,
                scenario=self.ref.id,
                agent=self.agent,
                attempt=attempt,
                known=self.known,
                shares_verdict=self.attempts > 1,
            )
            for attempt in range(self.attempt, self.attempt + self.attempts)
        ]

    def land(self, result: TrialResult, policy: Policy) -> bool:
        """Take the result of an attempt; return whether it was the last one, so that there is a verdict."""
        self.landed = (*self.landed, result)
        if len(self.landed) < self.attempts:
            return False
        if self.attempts == 1:
            self.result = result
        else:
            from ..analysis.verdict import verdict

            self.result = verdict(self.nodeid, self.landed, policy, self.attempts)
        return True

    def setup(self) -> None:
        """Raise an error that the agent did not cause."""
        if self.result is None:
            return  # --setup-only and --setup-plan: a trial has no fixtures to show, and is too expensive for a try
        failure = self.result.failure
        if self.result.outcome == "error":
            raise TrialError(failure.message if failure else "error", pytrace=False)
        if self.result.outcome in ("skipped", "cancelled"):
            pytest.skip(failure.message if failure else str(self.result.outcome))

    def runtest(self) -> None:
        """Replay the verdict."""
        if self.result is not None and self.result.outcome == "failed":
            raise Unsolved(f"score {self.result.score}", pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message of a trial, which its report replaces; pytest's own text for what a fixture raised."""
        if isinstance(excinfo.value, Unsolved | TrialError):
            return excinfo.value.msg or ""
        return super().repr_failure(excinfo, style)

    def _repr_failure_py(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return pytest's text without the frames of pytest; for a teardown, pytest calls this, not `repr_failure`."""
        if not self.config.getoption("fulltrace", default=False):
            from .frames import without_foreign

            without_foreign(excinfo.value)
            excinfo = pytest.ExceptionInfo.from_exception(excinfo.value)
        return super()._repr_failure_py(excinfo, style)

    def teardown(self) -> None:
        """Raise the error of a fixture's teardown."""
        error, self.teardown_error = self.teardown_error, None
        if error is not None:
            raise error

    def getparent(self, cls: type[Any]) -> Any:
        """Return the closest parent of a class. For fixtures of scope module, the benchmark's file is the module."""
        found = super().getparent(cls)
        return self.parent if found is None and cls is pytest.Module and "funcargs" in vars(self) else found

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Return the location of the scenario: file, line and name."""
        # pytest cannot skip an item without a line, and sources may have none.
        return _shown_path(self.source.path), (self.ref.line or 1) - 1, self.name


@functools.lru_cache(maxsize=256)
def _shown_path(path: Path) -> Path:
    """Return a path as it may be printed. Cached: many items are of one file."""
    from ..model.escape import escaped

    return Path(escaped(str(path)))
