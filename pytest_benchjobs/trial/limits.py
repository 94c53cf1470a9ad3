"""Timeouts and pass threshold of a trial, from scenario, job and multiplier; enforced by `sandbox.command_timeout`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..model.job import JobConfig
from ..model.scenario import Scenario, ScorerSpec
from ..scoring.needs import collecting
from ..scoring.protocol import Scorer
from ..settings.defaults import DEFAULT_AGENT_TIMEOUT

_GRACE = 300.0
LONGEST_HELD = 3600.0
"""The most by which the gateway, which holds calls, extends the time of an agent, in each step or turn."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one scenario in one job. Times in seconds."""

    scenario: Scenario
    config: JobConfig
    """The job's configuration for the scenario's benchmark."""

    @property
    def threshold(self) -> float:
        """The score that passes."""
        if self.scenario.diagnostic:
            return 0.0
        return self.config.threshold if self.scenario.threshold is None else self.scenario.threshold

    @property
    def headroom(self) -> float:
        """What the one number of a scenario for cpus or memory is multiplied by for its limit; 1 where it names none.

        A task of Harbor says what it may have, so that only the job itself can allow it more.
        """
        usual = self.config.usual_headroom
        if usual is None or self.scenario.source.is_dir():
            return self.config.headroom
        gains = any(one != one.with_headroom(usual) for one in self.scenario.environments)
        return usual if gains else 1.0

    @property
    def agent_timeout(self) -> float:
        """Timeout of the agent."""
        own = self.config.agent_timeout or self.scenario.agent_timeout or DEFAULT_AGENT_TIMEOUT
        return own * self.config.timeout_multiplier

    @property
    def answer_timeout(self) -> float:
        """Timeout of an agent without a container: the agent's timeout for each question."""
        questions = () if self.scenario.answer is None else self.scenario.answer.questions
        return self.agent_timeout * max(1, len(questions))

    @property
    def silent_timeout(self) -> float | None:
        """Timeout of an agent that prints nothing."""
        silent = self.config.silent_timeout
        return None if silent is None else silent * self.config.timeout_multiplier

    @property
    def setup_timeout(self) -> float:
        """Timeout of each set-up step."""
        return self.scenario.environment.setup_timeout * self.config.timeout_multiplier

    def scorer_timeout(self, spec: ScorerSpec) -> float:
        """Return the timeout of one scorer."""
        own = self.config.scorer_timeout or spec.timeout or self.scenario.scorer_timeout
        return own * self.config.timeout_multiplier

    def deadline(self, kinds: Mapping[str, Scorer]) -> float:
        """Return the time after which the container ends itself: the sum of all timeouts, and some grace."""
        if self.scenario.steps:
            return sum(self._of_step(number, kinds) for number in range(len(self.scenario.steps)))
        environment = self.scenario.environment
        health = environment.healthcheck
        multiplier = self.config.timeout_multiplier
        # Two more, for the ENTRYPOINT and the owner of the files. Containers for grading are set up as well,
        # and one in which a broken scorer is tried.
        steps = 3 * self.setup_timeout * (len(environment.setup) + 2)
        waiting = pauses = 0.0
        if health is not None:
            waiting = 3 * (health.start_period + health.timeout * (health.retries + 1)) * multiplier
            pauses = 3 * (health.start_interval + health.interval * health.retries)
        collects = multiplier * sum(one.timeout for one in collecting(self.scenario.scorers, kinds))
        # A broken scorer is tried in an untouched container, and then again.
        scoring = 3 * sum(self.scorer_timeout(spec) for spec in self.scenario.scorers)
        feedback = self.scenario.feedback
        turns = 1 if feedback is None else feedback.turns
        return steps + turns * (waiting + pauses + self.agent_timeout + collects + scoring) + _GRACE

    @property
    def held(self) -> float:
        """Return the most by which the gateway can extend a trial."""
        feedback = self.scenario.feedback
        return LONGEST_HELD * max(len(self.scenario.steps), 1 if feedback is None else feedback.turns)

    def _of_step(self, number: int, kinds: Mapping[str, Scorer]) -> float:
        """Return the deadline of one step, whose set-up may run twice."""
        step = self.scenario.steps[number]
        alone = dataclasses.replace(self, scenario=self.scenario.at_step(number))
        check = step.healthcheck
        waiting = 0.0
        if check is not None:
            tries = check.retries * (check.timeout * self.config.timeout_multiplier + check.interval)
            waiting = check.start_period * self.config.timeout_multiplier + check.start_interval + tries
        return alone.deadline(kinds) + 2 * (2 * self.setup_timeout + waiting)
