"""Replies of an agent in a conversation: what it answered in each turn, as a file of the trial.

A reply is what the agent returned, or printed as its last message; of an agent whose output has no known format, its
standard output. No file of the sandbox is part of it, so that writing one earns nothing.
"""

from __future__ import annotations

from ..model.ending import Ending
from ..model.result import AgentEnd
from ..store.files import writing
from ..store.layout import TrialLayout
from ..store.text import clean
from .context import TrialContext

REPLY_LIMIT = 256 * 1024
"""The most bytes of standard output, and the most characters, of a reply: its end, and its beginning and end."""
_BROKEN_OFF = (Ending.CRASHED, Ending.KILLED, Ending.TURN_LIMIT, Ending.TRIAL_LIMIT)


def is_broken_off(end: AgentEnd) -> bool:
    """Return True if an agent did not end by itself, so that what it said is no reply."""
    return bool(end.exit_status) or end.timed_out or end.limit is not None or end.ending in _BROKEN_OFF


def keep_reply(context: TrialContext, end: AgentEnd) -> None:
    """Make what the agent said its reply, and write it; there is none if it did not end by itself.

    Raises:
        DiskFull, ResultsUnwritable: it cannot be written.
    """
    progress = context.progress
    if is_broken_off(end):
        return
    # Redacted, so that a rescore, which has only the file, grades the same text.
    progress.reply = clean(context.redactor.redact_text(progress.said or ""), REPLY_LIMIT).strip()
    with writing(context.layout.reply):
        context.layout.reply.write_text(progress.reply, "utf-8", "replace")


def kept_reply(layout: TrialLayout) -> str | None:
    """Read the reply of a kept trial; None: there was none."""
    try:
        return layout.reply.read_text("utf-8", "replace")
    except OSError:
        return None
