"""Results of confidential scenarios, without texts that may quote the task or its grading.

Reports, the history, exports and the terminal are made from results, so they have no such texts either. The logs in the
trial's own directory stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..model.metric import Metric
from ..model.result import AgentEnd, Failure, ScorerResult, StepResult

HELD_BACK = "(confidential)"
_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""Valid names of metrics of scorers."""
_LISTS = ("leftovers", "killed", "tampered", "elsewhere")
"""Commands and paths of the end of an agent."""
_LOG = "see agent.log in the trial's directory"
_SAID = {
    # failed
    "below_threshold": "the score is below the threshold",
    "agent_timeout": f"the agent timed out, or printed nothing for too long; {_LOG}",
    "agent_crashed": f"the agent crashed; {_LOG}",
    "limit_exceeded": f"the agent exceeded a limit of the trial on models, memory or storage; {_LOG}",
    "turn_limit": "the agent reached its limit of turns",
    "model_refused": f"the model or its endpoint refused the request; {_LOG}",
    "ungradable": f"the agent left nothing that can be graded; {_LOG}",
    "tampered": f"with the agent's work a scorer gave two scores that differ; {_LOG}",
    "forbidden": "the agent did what the scenario forbids",
    # error: the engine and this machine
    "engine_unavailable": "no container engine answers; start it, and see `benchjobs doctor`",
    "engine_lost": "the container engine went away while the trial ran; run it again",
    "engine_error": "the container engine refused a call; see its own log, and `benchjobs doctor`",
    "files_refused": "the container engine refused files of a container; see its own log, and `benchjobs doctor`",
    "container_start": "the container does not start; start one of the scenario's image yourself to see why",
    "container_lost": "the container was killed or removed while the trial ran; run it again",
    "disk_full": "there is no space left, in the engine's storage or for results; free some, then resume the job",
    "worker_lost": "the worker of pytest-xdist that ran the trial died; run it again",
    "out_of_memory": "the container ran out of memory; see the limits of the scenario and of this machine",
    "results_unwritable": "the results cannot be written; make their directory writable, or choose another place",
    # error: models
    "rate_limited": "the model endpoint limits the rate; lower --bench-concurrency, or wait, and run it again",
    "endpoint_down": "the model endpoint does not answer, or answers with its own errors; run it again later",
    "gateway": "the agent could not reach the gateway to the models; see `benchjobs doctor`",
    "model_auth": "the model endpoint refuses the key; check the agent's secret",
    "model_unknown": "the model endpoint knows no model of that name; check the agent's model",
    "budget": "a limit of the job, or the endpoint's quota, is reached; raise it, then resume the job",
    # error: the scenario
    "image_build": "the scenario's image did not build; build its Dockerfile yourself to see why",
    "image_missing": "the scenario's image is not on this machine and cannot be pulled; pull it yourself to see why",
    "image_too_large": "the scenario's image alone takes more than --bench-image-budget; raise it",
    "environment": "a set-up step or health check of the scenario failed; run it in the scenario's image to see why",
    "entrypoint": "the ENTRYPOINT of the scenario's image ended before the agent began; run the image to see why",
    "agent_setup": "the agent could not be made ready; see `benchjobs doctor`, and what the scenario requires",
    "fixture": "a fixture around the trial failed before it began; run pytest again to see why",
    "reference_failed": "the reference solution ended with an error; its agent.log is in the trial's directory",
    "scorer_crashed": "a scorer ended without a result; its output.log is in the trial's directory",
    "scorer_timeout": "a scorer did not end in time; its output.log is in the trial's directory",
    "score_missing": "a scorer ended without a score; its output.log is in the trial's directory",
    "score_contradicted": "a scorer gave two scores that differ; its output.log is in the trial's directory",
    "score_invalid": "a scorer gave a score that is no number from 0 to 1; its output.log is in the trial's directory",
    "input": "the scenario cannot be read, or is invalid; collect or fetch its benchmark again",
    "unsupported": "the scenario needs something that is not supported; `pytest --collect-only` says what",
    # skipped
    "incompatible": "the agent or the sandbox lacks what the scenario requires",
    "marked": "a marker of the test suite skips it",
    "decided": "the gate was decided before it ran",
    "not_kept": "nothing of it was kept, so it cannot be graded again; keep trials with --bench-keep",
    # of this package
    "infrastructure": "the trial could not be run or graded; run it again",
    "internal": "an unexpected error of this package, of an agent or of a scorer; run it again",
}
"""Class of a failure -> its only message. Original messages quote endpoints, containers, commands and agents."""


def held_back(found: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the findings of a trial, without such texts."""
    held = {name: _held(fact) for name, fact in found.items()}
    return held | {"notes": (HELD_BACK,)} if held.get("notes") else held


def failure_held_back(failure: Failure) -> Failure:
    """Return a failure with the message of its class."""
    held: Failure = _held(failure)
    return held


def _held(fact: Any) -> Any:
    """Copy a finding. Commands may have the prompt in their arguments, agents choose names of files and metrics."""
    changes: dict[str, Any]
    match fact:
        case list() | tuple():
            return tuple(map(_held, fact))
        case Failure():
            changes = {"message": _SAID.get(fact.class_, HELD_BACK), "detail": _text(fact.detail)}
        case Metric():
            changes = {"unit": None, "name": fact.name if _PLAIN.fullmatch(fact.name) else HELD_BACK}
        case StepResult():
            changes = {"agent_end": _held(fact.agent_end), "not_run": _text(fact.not_run)}
        case AgentEnd():
            lists = {name: getattr(fact, name) for name in _LISTS}
            changes = {name: (HELD_BACK,) * len(texts) for name, texts in lists.items() if texts}
            changes["message"] = _text(fact.message)
        case ScorerResult():
            details = {
                name if _PLAIN.fullmatch(name) else f"{HELD_BACK} {number}": _number(value)
                for number, (name, value) in enumerate(fact.details.items(), 1)
            }
            changes = {"metrics": _held(fact.metrics), "error": _held(fact.error), "details": details}
            changes |= {"output": fact.output and HELD_BACK, "definition": {}}
        case _:
            return fact
    return fact.model_copy(update=changes)


def _text(text: str | None) -> str | None:
    return None if text is None else HELD_BACK


def _number(value: Any) -> Any:
    """Return a value if it is a number; hold anything else back."""
    return value if value is None or isinstance(value, bool | int | float) else HELD_BACK
