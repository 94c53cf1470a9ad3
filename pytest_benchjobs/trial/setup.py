"""Step 3, its first half: make a sandbox ready for the agent, and again for its next turn if every process had to end.

A sandbox is ready when the image's own ENTRYPOINT is ready (the sandbox waits for it), all set-up steps have ended
with status 0, and the health check passes.

A set-up step that left processes running is a service, and runs again for a further turn or step. A failure then is
only noted, and left to the scorers: an agent may break a service, which is not an infrastructure error.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterator

from ..model.errors import EnvironmentFailed
from ..model.scenario import HealthCheck, Scenario, Step
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
        self.sandbox = sandbox
        self.environment = scenario.environment
        self._scenario = scenario
        self._context = context
        self._enter = enter or context.phases.enter
        self._services: list[str] = []

    def begin(self) -> None:
        """Make the sandbox ready for the agent; raise `EnvironmentFailed` where a step or the health check fails."""
        owner = self._scenario.agent_user or self.environment.user
        self._give(owner, self._scenario.files)
        for step in self.environment.setup:
            self.step(step, self.environment.user)
            if self.sandbox.adopt_processes():
                self._services.append(step)
        self.wait_until_healthy(self.environment.healthcheck)

    def files_of(self, step: Step) -> list[File]:
        """Return the files of a step of the task, which are put in before it begins."""
        if step.files is None:
            return []
        workdir, script = self.sandbox.workdir, step.files / STEP_SCRIPT
        own = [File(f"{workdir}/{STEP_SCRIPT}", source=script, mode=0o755)] if script.is_file() else []
        return [File(workdir, source=step.files), *own]

    def begin_step(self, step: Step) -> None:
        """Make the sandbox ready for a step, whose files are there. EnvironmentFailed: set-up or health check fails."""
        user = step.agent_user or self._scenario.agent_user
        if step.files is not None:
            self._give(user, sorted(path.name for path in step.files.iterdir()))
        if step.setup is not None:
            self.step(step.setup, user)
        self.wait_until_healthy(step.healthcheck)

    def again(self) -> Iterator[str]:
        """Make the sandbox ready for the agent, after every process was ended; yield notes on failures."""
        for step in self._services:
            try:
                self.step(step, self.environment.user)
            except EnvironmentFailed as error:
                yield f"run again for the agent: {error}"
        if self._services:
            self.sandbox.adopt_processes()
        try:
            self.wait_until_healthy(self.environment.healthcheck)
        except EnvironmentFailed as error:
            yield f"before the agent went on: {error}"

    def remove(self) -> None:
        """Remove the sandbox, and take over what it has to tell."""
        self.sandbox.remove()
        self._context.note_sandbox(self.sandbox)

    def _give(self, user: str | None, paths: Collection[str]) -> None:
        """Make the agent's user the owner of files that were put in."""
        if paths and user not in (None, "root", "0"):
            self.step(f"chown -R -- {shlex.join((str(user), *paths))}", "root")

    def step(self, step: str, user: str | None) -> None:
        """Run one set-up step."""
        self._enter("setup")
        self._context.cancellation.check()
        said = Tail()
        timeout = self._context.limits.setup_timeout
        result = self.sandbox.exec(shell(step), timeout=timeout, sink=said, user=user)
        lines = self._context.note_refused(self.sandbox, "set-up", self.environment.access)
        refused = "".join(f"\n{line}" for line in lines)
        shown = beginning_of(step, _SHOWN)
        if result.timed_out:
            raise EnvironmentFailed(f"set-up step did not end within {timeout:g} s: {shown}{refused}")
        if result.exit_status != 0:
            raise EnvironmentFailed(
                f"set-up step exited with status {result.exit_status}: {shown}\n"
                f"{end_of(said.text(), _OUTPUT)}{refused}"
            )

    def wait_until_healthy(self, check: HealthCheck | None) -> None:
        """Repeat a health check until it passes; raise `EnvironmentFailed` where it does not in time."""
        if check is None:
            return
        self._enter("healthcheck")
        started = time.monotonic()
        failures = 0
        multiplier = self._context.config.timeout_multiplier
        while True:
            self._context.cancellation.check()
            said = Tail()
            result = self.sandbox.exec(shell(check.command), timeout=check.timeout * multiplier, sink=said)
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
