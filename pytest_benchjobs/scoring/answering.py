"""`answer`: grades a short answer on this machine, by the pure functions of `answers.py`."""

from __future__ import annotations

import posixpath

from ..model.errors import ScorerCrashed
from ..model.scenario import ScorerSpec
from .protocol import Graded, ScoringContext

ANSWER_LIMIT = 4 * 1024 * 1024
"""The most bytes of an answer. A longer one is wrong."""

_LENIENT = "lenient 1"
"""Our own rule for replies, and its version: a higher one prevents the reuse of results that were read before."""


def reading_of(spec: ScorerSpec) -> str:
    """Return the rule by which replies are read: that of a published program, or our own."""
    official = spec.params.get("official")
    return official if isinstance(official, str) else _LENIENT


def score_answer(context: ScoringContext) -> Graded:
    """`answer`: compares the scenario's answer as `params` say. A missing or unreadable answer gives 0.

    The details contain neither the expected answer nor the given one: a right one would reveal the expected one.
    ScorerCrashed: the scenario has no answer. ScoreInvalid: `params` are wrong.
    """
    from .answers import (
        match_of,  # its expressions take as long to compile as all of a small job to be reused
    )
    from .replies import Wrong

    answer = context.scenario.answer
    if answer is None:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} grades an answer, but the scenario has no `answer`"
        )
    # Checked first: a mistake in `params` must not depend on what the agent left.
    match = match_of(context.spec.params)
    place = posixpath.join(context.sandbox.workdir, answer.file)
    try:
        content = context.sandbox.read(place, limit=ANSWER_LIMIT)
        if content is None:
            raise Wrong("the agent left no answer")
        if b"\0" in content:
            raise Wrong("the answer is not text")
        score = match.grade(content.decode("utf-8", "replace"), is_reply=context.is_reply)
        about = "it is right" if score == 1 else f"{score:.3g} of it is right"
    except ValueError:  # raised by `read`
        return Graded(0.0, details={"answer": f"the answer is longer than {ANSWER_LIMIT >> 20} MiB"})
    except Wrong as wrong:
        score, about = 0.0, str(wrong)
    read = {"reading": reading_of(context.spec)} if context.is_reply else {}
    return Graded(score, details={"answer": about, **read})
