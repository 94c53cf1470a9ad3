"""Questions: trials whose agent answers without a container. They need no engine and no image.

All steps are those of other trials, in a `MemorySandbox`. The answer is always kept, as a file of the trial, so that it
can be graded again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from ..agents.answering import can_answer
from ..agents.protocol import Agent
from ..model.errors import ImageMissing
from ..model.job import JobConfig
from ..model.result import Trial, TrialResult
from ..model.scenario import Scenario
from ..sandbox.memory import MemorySandbox
from ..sandbox.protocol import File, Sandbox
from ..scoring.answering import ANSWER_LIMIT
from ..scoring.needs import grades_answers
from ..scoring.protocol import Scorer
from ..store.bundle import JobBundle
from ..store.files import writing
from ..store.layout import TrialLayout
from ..system.cutting import beginning_of
from ..system.redact import Redactor

KEPT = "answer"
"""`TrialResult.kept` of a trial whose answer is among its files."""


def is_question(
    trial: Trial, config: JobConfig, agents: Mapping[str, Agent], scorers: Mapping[str, Scorer]
) -> bool:
    """Return True if a trial needs no container. `config` is the job's configuration for its benchmark."""
    scenario, spec = trial.scenario, trial.agent
    return (
        scenario.is_question
        and grades_answers((scorer.type for scorer in scenario.scorers), scorers)
        and can_answer(agents.get(spec.name), {**config.params, **spec.params})
    )


def keep_answer(scenario: Scenario, sandbox: Sandbox, layout: TrialLayout, redactor: Redactor) -> str | None:
    """Keep the answer among the files of the trial; return the result's `kept`, None if there is no answer."""
    assert scenario.answer is not None  # noqa: S101  it is a question
    content = sandbox.read(scenario.answer.file, limit=sys.maxsize)
    if content is None:
        return None
    # One byte more shows that it was too long.
    text = beginning_of(content, ANSWER_LIMIT + 1).decode("utf-8", "replace")
    with writing(layout.answer):
        layout.answer.write_text(redactor.redact_text(text), "utf-8", "replace")
    return KEPT


def kept_layout(original: TrialResult, directory: Path) -> TrialLayout:
    """Return the files of a trial to grade again, from the directory of jobs."""
    origin = original.reused or original
    return TrialLayout(JobBundle(directory, origin.job).root / origin.path)


def kept_answer(scenario: Scenario, original: TrialResult, directory: Path) -> MemorySandbox:
    """Return the sandbox of a trial to grade again, with its kept answer. Raises `ImageMissing` where it is gone."""
    sandbox = MemorySandbox()
    try:
        content = kept_layout(original, directory).answer.read_bytes()
    except OSError:
        raise ImageMissing("the kept answer is gone") from None
    if scenario.answer is not None:
        sandbox.put([File(scenario.answer.file, content=content)])
    return sandbox
