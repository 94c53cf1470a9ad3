"""`answer`: grades a short answer on this machine, by the pure functions of `answers.py`."""

from __future__ import annotations

import posixpath

from ..model.errors import ScorerCrashed
from .answers import grader
from .protocol import Graded, ScoringContext
from .replies import Wrong

ANSWER_LIMIT = 4 * 1024 * 1024
"""Bytes of an answer. A longer one is wrong."""


def score_answer(context: ScoringContext) -> Graded:
    """`answer`: compares the scenario's answer with what `params` say. No answer, and one nobody can read, is 0.

    Neither the expected answer nor the given one is in the details: a right one would tell the other.

    Raises:
        ScorerCrashed: the scenario has no answer.
        ScoreInvalid: what `params` say is wrong.

    """
    answer = context.scenario.answer
    if answer is None:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} grades an answer, but the scenario has no `answer`"
        )
    # First of all: a mistake in it must not depend on what the agent left.
    grade = grader(context.spec.params)
    place = posixpath.join(context.sandbox.workdir, answer.file)
    try:
        content = context.sandbox.read(place, limit=ANSWER_LIMIT)
        if content is None:
            raise Wrong("the agent left no answer")
        if b"\0" in content:
            raise Wrong("the answer is not text")
        score, about = grade(content.decode("utf-8", "replace"), is_reply=context.is_reply)
    except ValueError:  # of `read`
        return Graded(0.0, details={"answer": f"the answer is longer than {ANSWER_LIMIT >> 20} MiB"})
    except Wrong as wrong:
        return Graded(0.0, details={"answer": str(wrong)})
    return Graded(score, details={"answer": about})
