"""Cleaning of untrusted text for terminals, reports and XML."""

from __future__ import annotations

import datetime
import math
import os
import re
from pathlib import PurePath
from typing import Any

from ..model.escape import squeezed
from ..system.cutting import beginning_of, end_of

# Whole terminal sequences first (CSI; OSC, DCS, SOS, PM, APC with their payload; two-character ones), so that no
# `[31m` stays behind. Every class stops at the next beginning, which keeps hostile input linear.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
_LINE_ENDS = re.compile(r"\r\n?|[\x85\u2028\u2029]")
# Control characters; direction overrides, which make a line read as another; what XML 1.0 has no place for.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
_UNUSUAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters of ASCII, but for tabs and the ends of lines."""
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")
_OBEYING = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables of CI systems that take lines of output for commands."""
# They obey `::name` at the beginning of a line (GitHub, which ignores blanks before it; colours may yet be taken
# out), `##[name]` anywhere in it (GitHub, Azure's `##vso[`, TeamCity's `##teamcity[`).
_COMMANDS = re.compile(
    r"(?:^|(?<=[\r\v\f\x1c-\x1e\x85\u2028\u2029]))(?:[^\S\n]|\x1b\[[\d;]*m)*:(?=:)|#(?=#\w*\[)", re.MULTILINE
)


def clean(text: str, limit: int | None = None) -> str:
    r"""Keep only printable characters, `\n` and `\t`; at most `limit` characters, cut in the middle."""
    if text.isascii() and not _UNUSUAL.search(text):
        # The usual case: names, numbers, our own messages, and most output.
        return text if limit is None else cut(text, limit)
    text = _ESCAPES.sub("", text)
    text = _LINE_ENDS.sub("\n", text)
    text = _UNSAFE.sub("", text)
    text = _SURROGATES.sub("\ufffd", text)
    return text if limit is None else cut(text, limit)


def one_line(text: str, limit: int | None = None) -> str:
    """Clean a text, and put it on a single line."""
    if not (text.isascii() and text.isprintable() and "  " not in text and text == text.strip()):
        text = _BLANKS.sub(" ", clean(text)).strip()
    return text if limit is None else squeezed(text, limit, beginning_of, end_of)


def quoted(text: str, limit: int = 80) -> str:
    """Return a text of the user as a message quotes it: in quotes, on a single line."""
    return repr(one_line(text, limit))


def harmless(text: str) -> str:
    """Make untrusted text safe to print here: no CI system that reads the output takes it for a command."""
    return inert(text) if any(map(os.environ.get, _OBEYING)) else text


def inert(text: str) -> str:
    """Put a blank into everything that a CI system would take for a command in the output of a build."""
    return _COMMANDS.sub(lambda found: f"{found[0]} ", text)


def cut(text: str, limit: int) -> str:
    """Shorten to `limit` characters: the beginning, a line that says how much is missing, the end."""
    if len(text) <= limit:
        return text
    room = limit - len(f"\n[... {len(text)} characters left out ...]\n")
    if room < 2:
        return squeezed(text, limit, beginning_of, end_of)
    head, tail = beginning_of(text, room - room // 2), end_of(text, room // 2)
    return f"{head}\n[... {len(text) - len(head) - len(tail)} characters left out ...]\n{tail}"


def plain(value: Any, limit: int = 10_000) -> Any:
    """Copy a value as plain JSON data: strings cleaned and cut to `limit`, unknown types as their `repr`."""
    if isinstance(value, str):
        return clean(str(value), limit)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, PurePath):
        return plain(str(value), limit)
    if isinstance(value, dict):
        return {clean(str(key), 200): plain(item, limit) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, limit) for item in value]
    return clean(repr(value), limit)
