"""Ticket: a trial as it is handed to a running job, before its scenario is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from ..model.known_failure import Known
    from ..model.result import Trial
    from ..model.scenario import Scenario
    from ..sources.protocol import Source


class Provided(NamedTuple):
    """Variables and files that fixtures add to a scenario."""

    env: Mapping[str, str]
    """Variables for the agent."""
    files: Mapping[str, Path]
    """Path in the sandbox -> file or directory on this machine."""

    def added(self, scenario: Scenario) -> Scenario:
        """Return a scenario with them."""
        return scenario.model_copy(
            update={
                "agent_env": {**scenario.agent_env, **self.env},
                "files": {**scenario.files, **self.files},
            }
        )


class Ticket(Protocol):
    """Facts known about a trial at selection, and a function to load the rest."""

    @property
    def node_id(self) -> str:
        """Id of the trial."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""

    @property
    def scenario(self) -> str:
        """Id of the scenario."""

    @property
    def agent(self) -> AgentSpec:
        """Agent under test."""

    @property
    def attempt(self) -> int:
        """Number of the attempt."""

    @property
    def known(self) -> Known | None:
        """Known-failure entry of the trial, if there is one."""

    @property
    def confidential(self) -> bool:
        """True if the whole benchmark is confidential, so that errors in reading a scenario are, too."""

    @property
    def shares_verdict(self) -> bool:
        """True if several attempts share one verdict."""

    @property
    def is_fresh(self) -> bool:
        """True for a fresh attempt, added while the job ran to confirm that a scenario became worse."""

    @property
    def is_driven(self) -> bool:
        """True if a test function or a script drives it, so that no earlier result is reused."""

    def trial(self) -> Trial:
        """Read the scenario.

        Raises:
            InputError: the scenario has changed since it was collected, and is invalid now.
        """

    def unwanted(self) -> str | None:
        """Return why the trial is not to run, if a mark of the test runner says so."""


@dataclasses.dataclass(eq=False)
class SourceTicket:
    """Ticket of a trial of a scenario that its source can load."""

    node_id: str
    source: Source
    scenario: str
    agent: AgentSpec
    attempt: int = 1
    known: Known | None = None
    provided: Provided | None = None
    """Variables and files of fixtures, while they are set up."""
    shares_verdict: bool = False
    is_fresh: bool = False
    is_driven: ClassVar[bool] = False

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.source.benchmark

    @property
    def confidential(self) -> bool:
        """True if all scenarios of its source are confidential."""
        return bool(getattr(self.source, "confidential", False))

    @property
    def will(self) -> Mapping[str, Any]:
        """Data from which its result is made if the process dies."""
        return {"item": self.node_id, "first": self.attempt, "attempts": 1}

    def trial(self) -> Trial:
        """Read the scenario. InputError: it has changed since it was collected, and is invalid now."""
        from ..model.result import Trial

        scenario = self.source.load(self.scenario)
        return Trial(
            node_id=self.node_id,
            scenario=scenario if self.provided is None else self.provided.added(scenario),
            agent=self.agent,
            attempt=self.attempt,
            known=self.known,
        )
