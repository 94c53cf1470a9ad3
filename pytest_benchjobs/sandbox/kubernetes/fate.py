"""What became of a Pod: whether it runs, why it does not start, and who ended it. Pure.

An eviction has two owners. Whoever writes or takes more than its own limit is the cause itself; a node that is short of
something, is drained or lost, or a Pod of higher priority, is a fault of the infrastructure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...model.errors import (
    ContainerEnded,
    ContainerLost,
    ContainerStartFailed,
    ImageMissing,
    InfrastructureError,
)
from ...system.cutting import on_one_line
from .pod import CONTAINER, FILLER

State = Mapping[str, Any]

_SHOWN = 600
_OWN_STORAGE = re.compile(
    rf"^Pod ephemeral local storage usage exceeds|^Container {CONTAINER} exceeded its local ephemeral storage limit|"
    r"of EmptyDir volume .* exceeds"
)
_NO_IMAGE = re.compile(
    r"not found|manifest unknown|does not exist|repository .* denied|unauthorized|authentication required|"
    r"invalid reference|no match for platform|pull access denied",
    re.IGNORECASE,
)
_NOT_YET = re.compile(
    r"429|too ?many ?requests|toomanyrequests|connection|timeout|i/o|EOF|TLS|5\d\d ", re.IGNORECASE
)
_PULLING = ("ErrImagePull", "ImagePullBackOff")
_HOPELESS = (
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "ImageInspectError",
)
_NOT_STARTED = ("ContainerCannotRun", "StartError")
_SHORT = re.compile(r"insufficient|too many pods", re.IGNORECASE)
"""Words for what other Pods have, and give back."""


def is_running(state: State | None, container: str) -> bool:
    """Return True if a container of a Pod runs, and nobody has begun to end the Pod."""
    return not has_ended(state) and not _deleted(state) and "running" in _container_state(state, container)


def started_ns(state: State) -> int:
    """Return when the container of a running Pod started, in nanoseconds, or a little earlier."""
    told = (_container_state(state).get("running") or {}).get("startedAt")
    return 0 if told is None else int((datetime.datetime.fromisoformat(str(told)).timestamp() - 1) * 1e9)


def has_ended(state: State | None) -> bool:
    """Return True if a Pod is gone, on its way out, or done."""
    over = _phase(state) in ("Succeeded", "Failed", "Unknown")
    # Other containers of a template may run on.
    return state is None or _deleted(state) or over or "terminated" in _container_state(state, CONTAINER)


def limit_of(state: State | None) -> str | None:
    """Return the limit (`storage`, `memory`) for which its own doing ended a Pod; None: something else, or nothing."""
    if state is None:
        return None
    status = state.get("status") or {}
    if status.get("reason") == "Evicted" and _OWN_STORAGE.search(str(status.get("message"))):
        return "storage"
    ended = _container_state(state).get("terminated") or {}
    return "memory" if ended.get("reason") == "OOMKilled" else None


def why_ended(state: State | None, events: Iterable[Mapping[str, Any]] = ()) -> InfrastructureError:
    """Return the error for what ended a Pod that has ended, through no doing of its own."""
    told = _told(events)
    if state is None:
        return ContainerLost(f"the Pod was removed from the cluster{told}")
    status = state.get("status") or {}
    node = (state.get("spec") or {}).get("nodeName")
    where = f" on node {node}" if node else ""
    if _deleted(state) and _phase(state) not in ("Succeeded", "Failed"):
        return ContainerLost(f"the cluster deletes the Pod{where}{told}")
    reason, message = status.get("reason"), str(status.get("message") or "")
    if reason == "DeadlineExceeded":
        return ContainerEnded("the Pod has reached its deadline")
    if reason:
        return ContainerLost(f"the cluster ended the Pod{where}: {reason}: {_short(message)}{told}")
    ended = _container_state(state).get("terminated") or {}
    how = ended.get("reason") or _phase(state)
    if how in _NOT_STARTED:
        return ContainerStartFailed(f"the Pod{where} does not start: {_short(ended.get('message') or how)}")
    return ContainerEnded(f"the Pod{where} has ended ({how}, status {ended.get('exitCode')}){told}")


def why_not_started(state: State, events: Sequence[Mapping[str, Any]]) -> InfrastructureError | None:
    """Return why a Pod that does not run yet never will; None: that is not known."""
    waiting = _container_state(state).get("waiting") or {}
    reason, message = str(waiting.get("reason")), str(waiting.get("message") or "")
    if reason in _PULLING:
        words = _pull_words(message, events)
        if _NO_IMAGE.search(words) and not _NOT_YET.search(words):
            return ImageMissing(f"the cluster cannot pull the image: {_short(words)}")
    if reason in _HOPELESS:
        return ContainerStartFailed(f"the Pod does not start: {reason}: {_short(message)}")
    return None


def why_waiting(state: State, events: Sequence[Mapping[str, Any]]) -> str:
    """Return in words what a Pod waits for that does not run yet."""
    waiting = _container_state(state).get("waiting") or {}
    if waiting.get("reason") in _PULLING:
        return f"the image is not pulled: {_short(_pull_words(str(waiting.get('message') or ''), events))}"
    if (unscheduled := _unscheduled(state)) is not None:
        return f"no node takes the Pod: {_short(unscheduled)}"
    last = next((one for one in reversed(events) if one.get("type") == "Warning"), None)
    if last is not None:
        return f"the Pod does not start: {last.get('reason')}: {_short(last.get('message'))}"
    return f"the Pod does not start ({waiting.get('reason') or _phase(state) or 'no word of it'})"


def is_pulling(state: State) -> bool:
    """Return True if the image of a Pod could not be pulled, up to now."""
    return (_container_state(state).get("waiting") or {}).get("reason") in _PULLING


def is_queued(state: State) -> bool:
    """Return True if a Pod waits for what other Pods have."""
    unscheduled = _unscheduled(state)
    return unscheduled is not None and bool(_SHORT.search(unscheduled))


def is_unplaced(state: State) -> bool:
    """Return True if no node takes a Pod, whatever other Pods do."""
    return _unscheduled(state) is not None and not is_queued(state)


def _unscheduled(state: State) -> str | None:
    for one in (state.get("status") or {}).get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("message") or one.get("reason"))
    return None


def _pull_words(message: str, events: Sequence[Mapping[str, Any]]) -> str:
    """Return why a pull failed: a Pod that waits for the next try says only that it does."""
    failed = [str(one.get("message")) for one in events if one.get("reason") == "Failed"]
    return next((one for one in reversed(failed) if "Failed to pull" in one), message)


def _phase(state: State | None) -> str:
    return str(((state or {}).get("status") or {}).get("phase"))


def _deleted(state: State | None) -> bool:
    return bool(((state or {}).get("metadata") or {}).get("deletionTimestamp"))


def _container_state(state: State | None, name: str | None = None) -> Mapping[str, Any]:
    """Return the state of a container; None: of that which is the trial's, or of what runs before it."""
    status = (state or {}).get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    states = {one.get("name"): one.get("state") or {} for one in statuses}
    if name is not None:
        return states.get(name) or {}
    own, filler = states.get(CONTAINER) or {}, states.get(FILLER) or {}
    has_filled = (filler.get("terminated") or {}).get("exitCode") == 0
    return filler if "waiting" in own and filler and not has_filled else own


def _told(events: Iterable[Mapping[str, Any]]) -> str:
    """Return what the cluster noted that may be why a Pod is gone."""
    why = ("TaintManagerEviction", "Preempted", "Evicted", "NodeNotReady", "Killing", "Drain", "NodeShutdown")
    noted = [f"{one['reason']}: {_short(one.get('message'))}" for one in events if one.get("reason") in why]
    return f" ({'; '.join(dict.fromkeys(noted))})" if noted else ""


def _short(text: object) -> str:
    return on_one_line(str(text), _SHOWN)
