"""Step 3, its first half: make a sandbox ready for the agent, and again for its next turn if every process had to end.

A sandbox is ready when the image's own ENTRYPOINT is ready (the sandbox waits for it), all set-up steps have ended
with status 0, and the health check passes.

A set-up step that left processes running is a service, and runs again for a further turn or step. A failure then is
only noted, and left to the scorers: an agent may break a service, which is not an infrastructure error.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence

from ..model.errors import EnvironmentFailed
from ..model.scenario import Environment, HealthCheck, Scenario, Step
from ..sandbox.protocol import File, Sandbox
from ..sandbox.shell import shell
from ..scoring.output import Tail
from ..system.cutting import beginning_of, end_of
from .context import TrialContext

STEP_SCRIPT = "setup.sh"
"""File among those of a step that sets the step up."""
_SHOWN = 200
_OUTPUT = 1000


class Setup:
    """The set-up of one sandbox, for the trial's scenario, or with another environment."""

    def __init__(
        self,
        context: TrialContext,
        sandbox: Sandbox,
        scenario: Scenario,
        enter: Callable[[str], None] | None = None,
    ) -> None:
        self._context = context
        self._enter = enter or context.phases.enter
        self._sandbox = sandbox
        self._scenario = scenario
        self._services: list[str] = []

    @property
    def environment(self) -> Environment:
        """The environment of the sandbox."""
        return self._scenario.environment

    def begin(self) -> None:
        """Make the sandbox ready for the agent.

        Raises:
            EnvironmentFailed: a step or the health check failed.
            InfrastructureError: the engine failed.
        """
        environment = self._scenario.environment
        for step in self._ownership():
            self.step(step, "root")
        for step in environment.setup:
            self.step(step, environment.user)
            if self._sandbox.adopt_processes():
                self._services.append(step)
        self.wait_until_healthy(environment.healthcheck)

    def begin_step(self, step: Step, put: Callable[[Sequence[File]], None] | None = None) -> None:
        """Make the sandbox ready for a step: put in its files with `put`, run its set-up, wait for its health check.

        Raises:
            EnvironmentFailed: the set-up or the health check failed.
            InfrastructureError: the engine failed.
        """
        user = step.agent_user or self._scenario.agent_user
        if step.files is not None:
            files = [File(self._sandbox.workdir, source=step.files)]
            if (script := step.files / STEP_SCRIPT).is_file():
                files.append(File(f"{self._sandbox.workdir}/{STEP_SCRIPT}", source=script, mode=0o755))
            (put or self._sandbox.put)(files)
            names = sorted(path.name for path in step.files.iterdir())
            if names and user not in (None, "root", "0"):
                self.step("chown -R -- " + " ".join(map(shlex.quote, (str(user), *names))), "root")
        if step.setup is not None:
            self.step(step.setup, user)
        self.wait_until_healthy(step.healthcheck)

    def again(self) -> Iterator[str]:
        """Make the sandbox ready for the agent, after every process was ended; yield notes on failures."""
        for step in self._services:
            try:
                self.step(step, self._scenario.environment.user)
            except EnvironmentFailed as error:
                yield f"run again for the agent: {error}"
        if self._services:
            self._sandbox.adopt_processes()
        try:
            self.wait_until_healthy(self._scenario.environment.healthcheck)
        except EnvironmentFailed as error:
            yield f"before the agent went on: {error}"

    def _ownership(self) -> Iterator[str]:
        owner = self._scenario.agent_user or self._scenario.environment.user
        if owner not in (None, "root", "0") and self._scenario.files:
            yield f"chown -R {owner} -- " + " ".join(shlex.quote(path) for path in self._scenario.files)

    def step(self, step: str, user: str | None) -> None:
        """Run one set-up step.

        Raises:
            EnvironmentFailed: it failed.
        """
        self._enter("setup")
        self._context.cancellation.check()
        said = Tail()
        timeout = self._context.limits.setup_timeout
        result = self._sandbox.exec(shell(step), timeout=timeout, sink=said, user=user)
        refused = "".join(
            f"\n{line}"
            for line in self._context.note_refused(self._sandbox, "set-up", self.environment.access)
        )
        if result.timed_out:
            raise EnvironmentFailed(
                f"set-up step did not end within {timeout:g} s: {beginning_of(step, _SHOWN)}{refused}"
            )
        if result.exit_status != 0:
            raise EnvironmentFailed(
                f"set-up step exited with status {result.exit_status}: {beginning_of(step, _SHOWN)}\n"
                f"{end_of(said.text(), _OUTPUT)}{refused}"
            )

    def wait_until_healthy(self, check: HealthCheck | None) -> None:
        """Repeat a health check until it passes.

        Raises:
            EnvironmentFailed: it does not pass in time.
        """
        if check is None:
            return
        self._enter("healthcheck")
        started = time.monotonic()
        failures = 0
        multiplier = self._context.config.timeout_multiplier
        while True:
            self._context.cancellation.check()
            said = Tail()
            timeout = check.timeout * multiplier
            result = self._sandbox.exec(shell(check.command), timeout=timeout, sink=said)
            if result.exit_status == 0:
                return
            starting = time.monotonic() - started < check.start_period * multiplier
            failures += not starting
            if failures >= check.retries:
                raise EnvironmentFailed(
                    f"health check failed {failures} times: {beginning_of(check.command, _SHOWN)}\n"
                    f"{end_of(said.text(), _OUTPUT)}"
                )
            self._context.cancellation.wait(check.start_interval if starting else check.interval)
