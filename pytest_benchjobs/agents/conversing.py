"""Turns of a conversation: which agents continue it by themselves, and what the others are told."""

from __future__ import annotations

from ..store.text import cut
from .protocol import Agent, Conversation

_LIMIT = 200_000
"""The most characters of earlier turns that an agent is told."""
_MESSAGE_LIMIT = 20_000
"""The most characters of one message or reply."""


def resumes(agent: Agent) -> bool:
    """Return True if an agent continues a conversation by itself."""
    return bool(getattr(agent, "resumes", False))


def told(conversation: Conversation, message: str) -> str:
    """Return the problem statement of a turn for an agent that cannot resume: the conversation so far, and the message.

    The oldest turns are left out where it is too long.
    """
    if not conversation.exchanges:
        return message
    turns: list[str] = []
    room = _LIMIT
    for number, exchange in reversed([*enumerate(conversation.exchanges, 1)]):
        question, reply = (cut(text.strip(), _MESSAGE_LIMIT) for text in (exchange.message, exchange.reply))
        turn = (
            f"## Turn {number}: the user\n\n{question}\n\n## Turn {number}: you\n\n{reply or '(no reply)'}\n"
        )
        room -= len(turn)
        if room < 0:
            turns.append("(earlier turns are left out)\n")
            break
        turns.append(turn)
    so_far = "\n".join(reversed(turns))
    return (
        "This is a conversation of several turns. You work in the same place as before. This was said so far:\n\n"
        f"{so_far}\n# The new message of the user\n\n{message}"
    )
