"""Calls of pytest as data: settings by name, and their command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .setting import Setting, texts_of
from .table import BY_FLAG, BY_NAME, EVERY, SETTINGS

Written = bool | str | tuple[str, ...]
"""The value of a setting as text: one, several for a repeatable setting, or true for a flag."""


class Said(NamedTuple):
    """A command line, split into settings and other arguments."""

    settings: dict[str, Written]
    """Settings by name."""
    rest: tuple[str, ...]
    """Arguments for pytest and its other plugins."""


def split(words: Sequence[str]) -> Said:
    """Separate the settings from a command line of pytest."""
    settings: dict[str, Written] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            rest += (word, *left) if any(one.startswith("-") for one in left) else left
            break
        flag, equals, value = word.partition("=")
        setting = BY_FLAG.get(flag)
        if setting is None:
            rest.append(word)
        elif setting.kind == "flag":
            settings[setting.name] = True
        else:
            if not equals:
                missing = not left or (flag == "--bench" and left[0].startswith("-"))
                value = EVERY if missing else left.pop(0)
            before = settings.get(setting.name, ())
            settings[setting.name] = (*before, value) if setting.many and isinstance(before, tuple) else value
    return Said(settings, tuple(rest))


def words(
    settings: Mapping[str, Written], rest: Iterable[str] = (), last: Iterable[str] = ()
) -> tuple[str, ...]:
    """Make the command line of settings: pytest's own arguments, then settings in the order of the table.

    `last` comes before the results directory. An option and its value are one argument: pytest would take a separate
    path for a place of tests, and determine its rootdir from it, before it knows our options.
    """
    before = tuple(rest)
    end = before.index("--") if "--" in before else len(before)
    lasting = [setting for setting in SETTINGS if not setting.forgotten and setting.name != "dir"]
    said = [word for setting in lasting for word in _of_one(setting, settings)]
    said += (*last, *_of_one(BY_NAME["dir"], settings))
    for setting in reversed(SETTINGS):
        if setting.forgotten:
            said += (part for word in _of_one(setting, settings) for part in word.split("=", 1))
    return (*before[:end], *said, *before[end:])


def _of_one(setting: Setting, settings: Mapping[str, Written]) -> Iterable[str]:
    written = settings.get(setting.name)
    if written is True:
        yield setting.flag
    elif written:
        yield from (f"{setting.flag}={text}" for text in texts_of(written))
