"""Scenario, trajectory, score and usage of each attempt, a line of JSON each: for training on what agents did.

Attempts of one scenario by one agent in one job are a group, on consecutive lines. Each column has one type and each
object the same keys on every line, so that readers of JSON lines need no schema. Lines are streamed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..model.base import Model
from ..model.errors import InputError
from ..model.job import JobRecord
from ..model.result import Outcome, TrialResult
from ..store.bundle import JobBundle
from ..store.copying import inside
from ..store.layout import TrialLayout
from ..store.reader import HistoryReader
from ..store.results import places_of
from ..store.rows import TrialRow
from ..store.text import clean
from ..store.trials import read_result
from ..system.paths import is_file
from ..trial.signature import task_digest
from .documents import Document, mirror
from .export import group_of
from .scenarios import Scenarios
from .units import counted

_LINE_LIMIT = 16 << 20
_STEPS = 25_000
"""More than a trajectory has; a file from elsewhere may be anything."""
_Text = Annotated[str, BeforeValidator(lambda text: text or "")]
_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


class MessageCall(Model):
    """A call of a tool."""

    id: str
    name: str
    arguments: str
    """JSON: its keys differ from tool to tool, and a column has one type."""


class Message(Model):
    """A message, in the form of chat templates."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    reasoning: str
    """Empty unless the agent prints it."""
    tool_calls: tuple[MessageCall, ...]
    """Of role `assistant`."""
    tool_call_id: str
    """Of role `tool`: the call that this is the result of; empty where it is of an earlier message."""


class Part(Model):
    """The score of one scorer."""

    scorer: str
    score: float
    weight: float


class Measure(Model):
    """A metric that a scorer reported beside its score."""

    name: str
    value: float
    unit: str
    direction: str
    """Direction of better values: `higher` or `lower`."""


class TrainingRow(Document):
    """An attempt with a score: a line of `benchjobs export --format rl`. Unknown texts are empty, numbers null."""

    job: str
    group: str
    """The same for all attempts of a scenario by an agent in a job, which are on consecutive lines."""
    benchmark: str
    benchmark_version: _Text
    scenario: str
    tags: tuple[str, ...]
    agent: str
    model: _Text
    attempt: int
    prompt: str
    """The task as the agent was given it; empty if the benchmark is not there, or has changed since."""
    messages: tuple[Message, ...]
    """The trajectory; none for an agent that does not report its steps."""
    score: float
    """From 0 to 1: the weighted mean of the scorers."""
    passed: bool
    scores: tuple[Part, ...]
    """Without scorers that gave no score."""
    metrics: tuple[Measure, ...]
    outcome: str
    class_: _Text = Field(serialization_alias="class")
    """Why it did not pass: `below_threshold`, `agent_timeout`, ..."""
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    seconds: float
    reused: _Text
    """The job that ran the attempt, if its result is reused: the same sample as that job's."""


@dataclasses.dataclass
class LeftOut:
    """What an export lacks."""

    without_score: int = 0
    """Errors, and trials that were cancelled or skipped: they have no reward."""
    confidential: int = 0
    without_files: int = 0
    without_prompt: int = 0
    """Of those that were exported."""

    def lines(self) -> Iterator[str]:
        """Yield a line for each reason."""
        for number, why in (
            (
                self.without_score,
                "without a score left out: errors, cancelled and skipped ones have no reward",
            ),
            (self.confidential, "of confidential benchmarks left out"),
            (self.without_files, "left out whose files are gone"),
            (
                self.without_prompt,
                (
                    "with an empty prompt: the task has none or has changed since, or the benchmark is not there or is "
                    "in a Python file, which exports do not import"
                ),
            ),
        ):
            if number:
                yield f"{counted(number, 'trial')} {why}"


def training_rows(
    directory: Path, history: HistoryReader, job_id: str, left_out: LeftOut
) -> Iterator[dict[str, Any]]:
    """Yield the attempts of a job that have a score, by agent and scenario; counts the others in `left_out`.

    Raises InputError: there is no such job.
    """
    record = history.record(job_id)
    root = JobBundle(directory, job_id).root
    scenarios = Scenarios()
    for row in history.grouped_trials(job_id):
        if row.score is None:
            left_out.without_score += 1
            continue
        result = _result(root, row)
        if result is None:
            left_out.without_files += 1
        elif result.confidential:
            left_out.confidential += 1
        else:
            prompt = _prompt(scenarios, result, record)
            left_out.without_prompt += not prompt
            yield _row(row, result, record, prompt, _messages(directory, root, result)).model_dump(
                by_alias=True
            )


def _result(root: Path, row: TrialRow) -> TrialResult | None:
    """Read the result of a trial; None if its files are gone, or lead elsewhere."""
    if not row.path:
        return None
    try:
        result = read_result(inside(root, row.path))
    except InputError:
        return None
    # The path is where the file was found: its own content is untrusted.
    return result.model_copy(update={"path": row.path})


def _prompt(scenarios: Scenarios, result: TrialResult, record: JobRecord) -> str:
    scenario = scenarios.of(result, record)
    if scenario is None:
        return ""
    if result.signature is not None and not scenario.agent_env:
        # What is there now may be another task than the agent was given.
        try:
            if task_digest(scenario) != result.signature.parts.get("scenario"):
                return ""
        except OSError:
            return ""
    return clean(scenario.statement_in_container)


def _row(
    row: TrialRow, result: TrialResult, record: JobRecord, prompt: str, messages: tuple[Message, ...]
) -> TrainingRow:
    scored = (one for one in result.scorers if one.score is not None)
    return mirror(
        TrainingRow,
        row,
        group=group_of(row, record),
        tags=tuple(map(clean, result.tags)),
        prompt=prompt,
        messages=messages,
        passed=row.outcome == Outcome.PASSED,
        scores=tuple(mirror(Part, one, scorer=clean(one.name)) for one in scored),
        metrics=tuple(
            mirror(Measure, one, name=clean(one.name), unit=clean(one.unit or "")) for one in result.metrics
        ),
    )


def _messages(directory: Path, root: Path, result: TrialResult) -> tuple[Message, ...]:
    """Read the trajectory of a trial, in the job that ran it."""
    jobs = root.parent.resolve()
    for place in places_of(directory, root, result):
        path = jobs / place.relative_to(root.parent) / TrialLayout(place).trajectory.name
        if is_file(path) and path.resolve() == path:
            return tuple(_read(path))
    return ()


def _read(path: Path) -> Iterator[Message]:
    with path.open("rb") as file:
        for _ in range(_STEPS):
            line = file.readline(_LINE_LIMIT)
            if not line:
                return
            try:
                step = json.loads(line)
                if isinstance(step, dict) and "step_id" in step:
                    yield from tuple(_of_step(step))
            except (ValueError, AttributeError, TypeError, RecursionError):
                continue  # a line that was cut, or edited


def _of_step(step: dict[str, Any]) -> Iterator[Message]:
    calls = tuple(
        MessageCall(
            id=_text(call.get("tool_call_id")),
            name=_text(call.get("function_name")),
            arguments=clean(json.dumps(call.get("arguments") or {}, ensure_ascii=False)),
        )
        for call in step.get("tool_calls") or ()
    )
    yield Message.model_validate(
        {
            "role": _ROLES.get(_text(step.get("source")), "assistant"),
            "content": _text(step.get("message")),
            "reasoning": _text(step.get("reasoning_content")),
            "tool_calls": calls,
            "tool_call_id": "",
        }
    )
    for found in (step.get("observation") or {}).get("results") or ():
        yield Message(
            role="tool",
            content=_text(found.get("content")),
            reasoning="",
            tool_calls=(),
            tool_call_id=_text(found.get("source_call_id")),
        )


def _text(value: Any) -> str:
    return "" if value is None else clean(str(value))
