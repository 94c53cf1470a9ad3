"""Results of confidential scenarios: without texts in which there may be something of what was asked or graded.

All that is made of results is without them then: reports, the history, exports, the terminal. The logs in the
trial's own directory stay, for whoever ran it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.errors import (
    BudgetSpent,
    ContainerLost,
    ContainerStartFailed,
    DiskFull,
    EndpointDown,
    EngineError,
    EngineLost,
    EngineUnavailable,
    EntrypointEnded,
    GatewayLost,
    ImageBuildFailed,
    ImageMissing,
    ModelAuthFailed,
    ModelUnknown,
    OutOfMemory,
    RateLimited,
    ResultsUnwritable,
    WorkerLost,
)
from ..model.result import INCOMPATIBLE, AgentEnd, Failure, FailureClass, ScorerResult

HELD_BACK = "(confidential)"
_TELLING = frozenset(
    {
        *(FailureClass.BELOW_THRESHOLD, FailureClass.AGENT_TIMEOUT, FailureClass.LIMIT_EXCEEDED),
        *(FailureClass.TURN_LIMIT, INCOMPATIBLE),
        *(
            error.code
            for error in (
                *(EngineUnavailable, EngineLost, EngineError, ContainerStartFailed, ContainerLost, DiskFull),
                *(WorkerLost, RateLimited, EndpointDown, GatewayLost, ModelAuthFailed, ModelUnknown),
                *(BudgetSpent, ImageBuildFailed, ImageMissing, EntrypointEnded, OutOfMemory),
                ResultsUnwritable,
            )
        ),
    }
)
"""Classes of failures whose messages are ours, and quote nothing of the scenario."""


def held_back(found: Mapping[str, Any]) -> dict[str, Any]:
    """Copy what was found out about a trial, without such texts."""
    held = dict(found)
    if (failure := held.get("failure")) is not None:
        held["failure"] = _failure(failure)
    if scorers := held.get("scorers"):
        held["scorers"] = tuple(map(_scorer, scorers))
    if (end := held.get("agent_end")) is not None:
        held["agent_end"] = _end(end)
    if notes := held.get("notes"):
        held["notes"] = (HELD_BACK,) * bool(notes)
    return held


def _failure(failure: Failure) -> Failure:
    message = failure.message if failure.class_ in _TELLING else HELD_BACK
    detail = None if failure.detail is None else HELD_BACK
    return failure.model_copy(update={"message": message, "detail": detail})


def _scorer(scorer: ScorerResult) -> ScorerResult:
    return scorer.model_copy(
        update={
            "output": scorer.output and HELD_BACK,
            "details": {name: _number(value) for name, value in scorer.details.items()},
            "error": None if scorer.error is None else _failure(scorer.error),
        }
    )


def _number(value: Any) -> Any:
    """Return a value that is no text and holds none."""
    return value if value is None or isinstance(value, bool | int | float) else HELD_BACK


def _end(end: AgentEnd) -> AgentEnd:
    """Commands of processes can have the prompt in their arguments."""
    texts = {
        name: (HELD_BACK,) * len(commands)
        for name in ("leftovers", "killed")
        if (commands := getattr(end, name))
    }
    return end.model_copy(update={**texts, "message": None if end.message is None else HELD_BACK})
