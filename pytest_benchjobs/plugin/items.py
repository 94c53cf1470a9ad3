"""A trial as pytest sees it: light until it has run, then the replay of a result."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.outcomes import Failed  # `pytest.fail.Exception`, for type checkers

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from ..model.result import Trial, TrialResult
    from ..sources.protocol import ScenarioRef, Source


class BenchWarning(pytest.PytestWarning):
    """Something odd in a manifest or task directory that is not wrong."""

    __module__ = "pytest_benchjobs"


# Outcomes of pytest rather than plain exceptions: pytest then spends nothing on a traceback that nobody wants to see.
class Unsolved(Failed):
    """The agent fell short. To pytest a failure; in the terminal a category of its own."""


class TrialError(Failed):
    """The trial could not be run or graded, through no fault of the agent."""


class TrialItem(pytest.Item):
    """Scenario x agent x attempt.

    It holds references to what it shares with its neighbours, and no content: 100,000 of them must fit.
    """

    __slots__ = ("agent", "attempt", "properties", "ref", "result", "source")

    def __init__(
        self,
        *,
        source: Source,
        ref: ScenarioRef,
        agent: AgentSpec,
        attempt: int,
        name: str,
        parent: pytest.Collector,
    ) -> None:
        # The id is given as a str: an id that pytest 9.2 derives from a name with `[` in it is not equal to the same
        # id read back from the cache, and `--lf` finds nothing (pytest#15045).
        super().__init__(name, parent, nodeid=f"{parent.nodeid}::{name}")
        # Empty, and a sixth of an item's weight: made anew when somebody asks.
        del self.__dict__["extra_keyword_matches"], self.__dict__["user_properties"]
        self.source = source
        self.ref = ref
        self.agent = agent
        self.attempt = attempt
        self.result: TrialResult | None = None
        self.properties: Sequence[tuple[str, str | int | float]] = ()

    @functools.cached_property
    def extra_keyword_matches(self) -> set[str]:  # type: ignore[override]
        """More words for `-k`."""
        return set()

    @functools.cached_property
    def user_properties(self) -> list[tuple[str, object]]:  # type: ignore[override]
        """What plugins say about the trial."""
        return []

    def trial(self) -> Trial:
        """All of it. Reads the scenario.

        Raises:
            InputError: the scenario has changed since it was collected, and not for the better.
        """
        from ..model.result import Trial

        return Trial(
            node_id=self.nodeid,
            scenario=self.source.load(self.ref.id),
            agent=self.agent,
            attempt=self.attempt,
        )

    def setup(self) -> None:
        """Run the trial, unless that was done ahead; raise what was not the agent's doing."""
        if self.config.option.setuponly:
            return  # --setup-only and --setup-plan: a trial has no fixtures to show, and costs too much to just try
        if self.result is None:
            # Another loop than ours, or a plugin that runs an item again.
            from .session import session_of

            self.result = session_of(self.config).fly_now(self)
        failure = self.result.failure
        if self.result.outcome == "error":
            raise TrialError(failure.message if failure else "error", pytrace=False)
        if self.result.outcome in ("skipped", "cancelled"):
            pytest.skip(failure.message if failure else str(self.result.outcome))

    def runtest(self) -> None:
        """Replay the verdict."""
        if self.result is not None and self.result.outcome == "failed":
            raise Unsolved(f"score {self.result.score}", pytrace=False)

    def reportinfo(self) -> tuple[os.PathLike[str], int | None, str]:
        """Where the scenario is written."""
        line = self.ref.line
        return Path(self.source.path), None if line is None else line - 1, self.name
