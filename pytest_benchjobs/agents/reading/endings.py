"""Endings of agents, from the last error they report. An error that the gateway saw itself takes precedence."""

from __future__ import annotations

import re

from ...model.ending import Ending

_STATUS = re.compile(
    r"(?:status(?: code)?|error|code)\W{0,4}([45]\d\d)\b|\(([45]\d\d)(?: [A-Za-z ]{1,40})?\)", re.IGNORECASE
)
_WORDS: dict[Ending, tuple[str, ...]] = {
    Ending.QUOTA: (
        "credit balance is too low",
        "insufficient_quota",
        "exceeded your current quota",
        r"quota exceeded\. check your plan",
        "exhausted your daily quota",
        "billing_error",
        "usage_limit_reached",
        "usage limit (?:has been )?reached",
        "(?:hit|reached) your (?:usage|weekly|session|5-hour) limit",
        "reached your specified api usage limits",
    ),
    Ending.AUTHENTICATION: (
        "api.key.not.valid",
        "api_key_invalid",
        "(?:incorrect|invalid)[ _]api[ _]key",
        "authentication",
        "unauthorized",
        "not logged in",
    ),
    Ending.UNKNOWN_MODEL: (
        "model_?not_?found",
        "model `?[^` ]{1,200}`? (?:does not exist|not found)",
        "issue with the selected model",
    ),
    Ending.RATE_LIMITED: ("rate.?limit", "too many requests", "resource_exhausted"),
    Ending.REFUSED: (
        "bad request",
        "invalid_request",
        "invalid_argument",
        "context_length_exceeded",
        "prompt is too long",
        "request_too_large",
    ),
    Ending.ENDPOINT_DOWN: (
        "overloaded",
        "high demand",
        "server (?:had an )?error",
        "unavailable",
        "network error",
        "stream (?:disconnected|ended)",
        "connection[ _](?:failed|refused|reset|error)",
        "could not connect",
        "econnre(?:set|fused)",
        "fetch failed",
        "socket",
        "terminated",
        "timed out",
    ),
}
"""Phrases of agents and endpoints; the first ending that matches counts."""
_PHRASES = {ending: re.compile("|".join(words), re.IGNORECASE) for ending, words in _WORDS.items()}


def ending_of(message: str, status: int | None = None) -> Ending | None:
    """Ending of an agent by the message of its last failed call; None if the message implies none."""
    message = message[:4000]
    if _PHRASES[Ending.QUOTA].search(message) is not None:
        return Ending.QUOTA
    if status is None and (found := _STATUS.search(message)) is not None:
        status = int(found[1] or found[2])
    if status is not None:
        if status == 400 and "api key not valid" in message.lower():
            return Ending.AUTHENTICATION
        return ending_of_status(status)
    return next((ending for ending, phrase in _PHRASES.items() if phrase.search(message)), None)


def ending_of_status(status: int) -> Ending | None:
    """The ending that an HTTP status of a model endpoint means."""
    if status >= 500 or status == 408:
        return Ending.ENDPOINT_DOWN
    return {
        401: Ending.AUTHENTICATION,
        402: Ending.QUOTA,
        403: Ending.AUTHENTICATION,
        404: Ending.UNKNOWN_MODEL,
        429: Ending.RATE_LIMITED,
    }.get(status, Ending.REFUSED if status >= 400 else None)
