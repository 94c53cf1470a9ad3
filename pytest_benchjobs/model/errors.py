"""Errors, by their cause: the user, the agent, or the infrastructure.

    BenchError
    ├── InputError                the user's file or option: a collection or usage error, nothing runs
    ├── NotLive                   a trial that is driven from outside is not, or no longer, at work
    ├── Ungradable                the agent's doing: outcome `failed`, score 0
    └── InfrastructureError       ours or the world's: outcome `error`, no score
        ├── Retryable             a new try may help
        │   ├── EngineUnavailable, EngineLost ── OutputLost, EngineError ── EngineRefused ── FilesRefused
        │   ├── ContainerStartFailed, ContainerLost ── ContainerEnded
        │   ├── DiskFull, WorkerLost
        │   └── RateLimited, EndpointDown, GatewayLost
        └── (the rest)            a new try would end the same
            ├── ImageBuildFailed, ImageMissing, ImageTooLarge
            ├── EntrypointEnded, EnvironmentFailed, AgentSetupFailed, AgentLacks, ReferenceFailed, FixtureFailed
            ├── OutOfMemory
            ├── ModelAuthFailed, ModelUnknown, BudgetSpent ── QuotaReached
            └── ScorerCrashed, ScorerTimeout, ScoreMissing, ScoreInvalid ── ScoreContradicted

What the *agent* did wrong (a low score, a timeout, a crash) is no exception: it is a `Failure` in a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from .escape import escaped, legible, squeezed


class BenchError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(BenchError):
    """A manifest, task directory or option is wrong.

    `str()` gives one clear message: ``file:line: what is wrong. what to do``. It may quote any value, and is `legible`.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
        width: int = 1,
    ) -> None:
        self.message = legible(message)
        super().__init__(self.message)
        self.path = path
        self.line = line
        self.column = column
        """The first character that is wrong, counted from 1."""
        self.width = width
        """Number of them."""

    @property
    def errors(self) -> Sequence[InputError]:
        """Itself, or those that are reported together."""
        return (self,)

    def __str__(self) -> str:
        if self.path is None:
            return self.message
        path = squeezed(escaped(str(self.path)), 1000)
        where = f"{path}:{self.line}" if self.line else path
        return f"{where}: {self.message}"


class InputErrors(InputError):
    """Several `InputError`s found in one file, reported together."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self._errors = errors

    @property
    def errors(self) -> Sequence[InputError]:
        """Each of them."""
        return self._errors


class Ungradable(BenchError):
    """The agent left its sandbox in a state in which nothing can be graded. That is no error: it fails."""


class NotLive(BenchError):
    """The trial is not at work: it has been scored or cancelled, its time is up, or it ended in an error."""


class InfrastructureError(BenchError):
    """A trial could not be run or graded, through no fault of the agent. `code` names the class in results."""

    code: ClassVar[str] = "infrastructure"
    retryable: ClassVar[bool] = False


class Retryable(InfrastructureError):
    """A fault that may be gone at the next try."""

    retryable: ClassVar[bool] = True


class EngineUnavailable(Retryable):
    """No container engine answers."""

    code = "engine_unavailable"


class EngineLost(Retryable):
    """The engine went away while a trial was running."""

    code = "engine_lost"


class OutputLost(EngineLost):
    """A command was started, and the connection with its output broke."""


class EngineError(Retryable):
    """The engine answered a call with an error that is not one of the others."""

    code = "engine_error"


class EngineRefused(EngineError):
    """The engine refuses a call again and again, though nothing that it knows stands against it.

    Args:
        message: What it refuses, and its words.
        status: Of HTTP; None: the connection broke each time.
        words: Its own words, whole.
    """

    def __init__(self, message: str, *, status: int | None = None, words: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.words = words


class FilesRefused(EngineRefused):
    """The engine refused files of a container, so an agent that left them can be the cause."""

    code = "files_refused"


class ContainerStartFailed(Retryable):
    """The container was made but did not start, or stopped at once."""

    code = "container_start"


class ContainerLost(Retryable):
    """The container was killed or removed by another process while a trial ran in it."""

    code = "container_lost"


class ContainerEnded(ContainerLost):
    """The container is there, and its first process has ended."""


class DiskFull(Retryable):
    """No space left, in the engine's storage or in the results directory."""

    code = "disk_full"


class WorkerLost(Retryable):
    """The pytest process that ran the trial died."""

    code = "worker_lost"


class RateLimited(Retryable):
    """The model endpoint limits the rate, and went on doing so for longer than the gateway waits."""

    code = "rate_limited"


class EndpointDown(Retryable):
    """The model endpoint does not answer, or answers with errors of its own."""

    code = "endpoint_down"


class GatewayLost(Retryable):
    """The gateway between agents and their models is not there."""

    code = "gateway"


class ModelAuthFailed(InfrastructureError):
    """The model endpoint refuses the key."""

    code = "model_auth"


class ModelUnknown(InfrastructureError):
    """The model endpoint knows no model of that name."""

    code = "model_unknown"


class BudgetSpent(InfrastructureError):
    """A limit on money, tokens or calls cut the agent short, so what it did is no sample."""

    code = "budget"


class QuotaReached(BudgetSpent):
    """The provider's own hard quota is used up: no credit, a usage limit, a cap of a day."""


class ImageBuildFailed(InfrastructureError):
    """A Dockerfile did not build."""

    code = "image_build"


class ImageMissing(InfrastructureError):
    """The image is not on this machine and cannot be pulled."""

    code = "image_missing"


class ImageTooLarge(InfrastructureError):
    """The image alone takes more than all images of the job may."""

    code = "image_too_large"


class FixtureFailed(InfrastructureError):
    """A fixture around the trial failed before the trial began."""

    code = "fixture"


class EnvironmentFailed(InfrastructureError):
    """A set-up step or health check of the scenario failed or timed out."""

    code = "environment"


class UntouchedFailed(EnvironmentFailed):
    """A sandbox without any agent could not be made ready: no agent is the cause."""


class EntrypointEnded(InfrastructureError):
    """The image's own ENTRYPOINT ended before the agent began."""

    code = "entrypoint"


class AgentSetupFailed(InfrastructureError):
    """The agent could not be made ready: a missing variable, secret or file."""

    code = "agent_setup"


class AgentLacks(InfrastructureError):
    """The scenario hands the agent something that the agent does not take: an MCP server, a skill."""

    code = "unsupported"


class ReferenceFailed(InfrastructureError):
    """The reference solution of a scenario ended with an error, and does not pass."""

    code = "reference_failed"


class OutOfMemory(InfrastructureError):
    """The kernel killed a process because the container reached its memory limit."""

    code = "out_of_memory"


class ResultsUnwritable(InfrastructureError):
    """The results directory refuses writes."""

    code = "results_unwritable"


class ScorerCrashed(InfrastructureError):
    """A scorer ended without a result on the agent."""

    code = "scorer_crashed"


class ScorerTimeout(InfrastructureError):
    """A scorer did not end in time."""

    code = "scorer_timeout"


class ScoreMissing(InfrastructureError):
    """A scorer ended without a score."""

    code = "score_missing"


class ScoreInvalid(InfrastructureError):
    """A score that is not a number within [0, 1]."""

    code = "score_invalid"


class ScoreContradicted(ScoreInvalid):
    """Two scores of one scorer that differ, or one of another user: code of the agent may have given it."""

    code = "score_contradicted"


BROKEN_SCORER = (ScorerCrashed.code, ScoreMissing.code, ScoreInvalid.code, ScoreContradicted.code)
"""Classes of errors that a scorer makes, rather than its time limit or the engine."""
