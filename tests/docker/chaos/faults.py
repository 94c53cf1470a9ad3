"""What may go wrong with a call of the engine, and with which call it does."""

from __future__ import annotations

import dataclasses
from typing import Literal

from .words import KNOWN, NO_EXE, NO_FILE, NO_FORK, Words

How = Literal[
    "refuse",  # answer `status` and `text` instead of doing the work
    "refuse_after",  # do the work, and answer `status` and `text`
    "cut_before",  # cut the connection before the engine hears of it
    "cut_after",  # cut it when the engine has done the work, before the first byte of its answer
    "half",  # cut it in the middle of the body
    "half_clean",  # end the body in the middle, as if that were all
    "border_clean",  # end an archive behind its first member, as if that were all
    "end_clean",  # end an archive behind its last member, without the blocks that end one
    "silence",  # `seconds` before the answer
    "not_started",  # 101, the text in the stream, and `status` as exit status of a command that never was
    "stream_cut",  # 101, and the stream ends at once, while the command goes on
    "outage",  # for `seconds` nobody answers, and all connections are cut
]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One way of going wrong."""

    name: str
    how: How
    status: int = 0
    text: str = ""
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """`kind`, for matches `nth` to `nth + times - 1` of `call`.

    Only those count whose command holds `holding`, and, where `container` is not 0, which are about the scenario's
    first, second ... container.
    """

    call: str
    kind: Kind
    nth: int = 1
    times: int = 1
    holding: str = ""
    container: int = 0


def refusal(words: Words, status: int | None = None) -> Kind:
    """The engine says so, and has done nothing."""
    code = words.status if status is None else status
    return Kind(f"{code} {words.name}", "refuse", code, words.text)


def never_started(words: Words, status: int) -> Kind:
    """A command that the runtime could not start, as an attached stream tells it."""
    return Kind(f"stream: {words.name}", "not_started", status, words.text)


FOR_EVERY_CALL = (
    *(refusal(words) for words in KNOWN),
    Kind("409 no reason", "refuse", 409, "conflict"),
    Kind("500 after the work", "refuse_after", 500, "unexpected EOF"),
    Kind("cut before the work", "cut_before"),
    Kind("cut after the work", "cut_after"),
    Kind("20 s of silence", "silence", seconds=20.0),
)
WITH_A_BODY = (Kind("half a body, cut", "half"), Kind("half a body, ended", "half_clean"))
OF_AN_ARCHIVE = (Kind("ended behind a member", "border_clean"), Kind("without the end", "end_clean"))
OF_A_STREAM = (
    never_started(NO_FILE, 127),
    never_started(NO_FORK, 126),
    never_started(NO_EXE, 126),
    Kind("stream cut", "stream_cut"),
)
