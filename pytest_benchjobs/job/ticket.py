"""Ticket: a trial that is handed to a running job, before its scenario is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from ..model.known_failure import Known
    from ..model.result import Trial


class Ticket(Protocol):
    """Facts that selection knows of a trial, and the way to the rest."""

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
        """Known failure of the trial, if there is one."""

    @property
    def confidential(self) -> bool:
        """True if all scenarios of the benchmark are confidential, so that errors in reading one are, too."""

    @property
    def shares_verdict(self) -> bool:
        """True where several attempts have one verdict."""

    @property
    def is_fresh(self) -> bool:
        """True for an attempt that was added while the job ran, to confirm that a scenario became worse."""

    def trial(self) -> Trial:
        """Read the scenario.

        Raises:
            InputError: the scenario has changed since it was collected, and not for the better.
        """

    def unwanted(self) -> str | None:
        """Return the reason why the trial is not to run, if a mark of the test runner gives one."""
