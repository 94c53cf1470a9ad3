"""Usage as endpoints report it: merged over the events of an answer, then read in the gateway's terms."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..system.cutting import beginning_of
from .tokens import SEARCHES, Tokens
from .wires import Kind, tables

_MOST = 1 << 53
_DEEPEST = 6
_MOST_VALUES = 1000
"""The most keys of a table, and the most entries of a list, that are kept."""
_LONGEST_TEXT = 100
_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
_MEDIA = ("audio", "image", "video")
_MODALITIES = (
    ("input", "promptTokensDetails"),
    ("input", "toolUsePromptTokensDetails"),
    ("cached", "cacheTokensDetails"),
    ("output", "candidatesTokensDetails"),
)
_SAME_MEDIUM = {"text": "", "modality_unspecified": "", "document": "image"}
"""Modality -> what it is charged as."""


def merge(known: dict[str, Any], said: Mapping[str, Any], depth: int = _DEEPEST) -> None:
    """Add a later report of the same call to `known`, at every depth.

    Counts of a call never fall, null and absent never replace, and what is no count, text, table or list is unknown.
    """
    for name, value in itertools.islice(said.items(), _MOST_VALUES):
        later = _later(known.get(name), value, depth)
        if later is not None and (name in known or len(known) < _MOST_VALUES):
            known[name] = later


def _later(known: Any, said: Any, depth: int) -> Any:
    if isinstance(said, dict) and isinstance(known, dict | None) and depth:
        table: dict[str, Any] = {} if known is None else known
        merge(table, said, depth - 1)
        return table
    if isinstance(said, list) and isinstance(known, list | None) and depth:
        entries: list[dict[str, Any]] = [] if known is None else known
        _merge_entries(entries, said, depth - 1)
        return entries
    count = _as_count(said)
    if count is not None and isinstance(known, int | str | None):
        return max(known, count) if isinstance(known, int) else count
    if isinstance(said, str) and said and isinstance(known, str | None):
        return beginning_of(said, _LONGEST_TEXT)
    return known


def _merge_entries(known: list[dict[str, Any]], said: list[Any], depth: int) -> None:
    """Merge tables that have the same texts, such as a modality, in their order; others are added."""
    alike: dict[object, collections.deque[dict[str, Any]]] = collections.defaultdict(collections.deque)
    for entry in known:
        alike[_texts(entry)].append(entry)
    for entry in said[:_MOST_VALUES]:
        if not isinstance(entry, dict):
            continue
        if same := alike[_texts(entry)]:
            merge(same.popleft(), entry, depth)
        elif len(known) < _MOST_VALUES:
            known.append({})
            merge(known[-1], entry, depth)


def _texts(entry: Mapping[str, Any]) -> object:
    return frozenset(
        (name, beginning_of(value, _LONGEST_TEXT))
        for name, value in entry.items()
        if isinstance(value, str) and value
    )


def _as_count(value: object) -> int | None:
    """Value as a number of tokens; some servers write it with a fraction of 0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST:
        return value
    return None


def tokens_of(kind: Kind, usage: Mapping[str, Any]) -> Tokens:
    """Tokens of a call, from its merged usage."""
    return _READERS[kind](usage)


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    """The greatest of these counts: they are names of the same."""
    return _greatest(_as_count(usage.get(name)) for name in names)


def _greatest(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _details(usage: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Tables of details by these names, merged."""
    merged: dict[str, Any] = {}
    for table in map(usage.get, names):
        if isinstance(table, dict):
            merge(merged, table)
    return merged


def _text(table: Mapping[str, Any], name: str) -> str | None:
    return text if isinstance(text := table.get(name), str) else None


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _messages(usage: Mapping[str, Any]) -> Tokens:
    own = dataclasses.replace(_step(usage), apart=_searches(usage))
    each = [(_text(one, "model"), _step(one)) for one in tables(usage, "iterations")]
    steps = [(model, step) for model, step in each if step.total is not None]
    if not steps:
        return own
    # The top level leaves out steps such as a compaction, or the advice of another model.
    added = functools.reduce(lambda before, one: before.with_each(one[1], operator.add), steps, Tokens())
    whole = own.with_each(added, max)
    last = max((at for at, (model, _) in enumerate(steps) if model is None), default=None)
    if last is None:
        last = len(steps)
        steps.append((None, Tokens()))
    rest = whole.with_each(added, operator.sub)
    steps[last] = (None, steps[last][1].with_each(rest, operator.add))
    return dataclasses.replace(whole, steps=tuple(steps))


def _step(usage: Mapping[str, Any]) -> Tokens:
    kept = usage.get("cache_creation")
    kept = kept if isinstance(kept, dict) else {}
    cached = _count(usage, "cache_read_input_tokens")
    in_all = _sum(*(_count(kept, name) for name in kept))
    written = _greatest((_count(usage, "cache_creation_input_tokens"), in_all))
    return Tokens(
        # This wire counts tokens from or to a cache separately; `input` has all that was sent.
        input=_sum(_count(usage, "input_tokens"), cached, written),
        output=_count(usage, "output_tokens"),
        cached=cached,
        cache_write=written,
        cache_write_1h=_count(kept, "ephemeral_1h_input_tokens"),
        reasoning=_count(_details(usage, "output_tokens_details"), "thinking_tokens", "reasoning_tokens"),
    )


def _openai(usage: Mapping[str, Any]) -> Tokens:
    whole = _choice(usage)
    # Some endpoints report the usage of each choice in it: the prompt is the same, the answers are not.
    choices = [_choice(one) for one in tables(usage, "choices")]
    back = functools.reduce(lambda before, one: before.with_each(one, operator.add), choices, Tokens())
    for one in choices:
        whole = whole.with_each(one, max)
    return whole.with_each(Tokens(output=back.output, reasoning=back.reasoning), max)


def _choice(usage: Mapping[str, Any]) -> Tokens:
    sent = _details(usage, "prompt_tokens_details", "input_tokens_details")
    back = _details(usage, "completion_tokens_details", "output_tokens_details")
    kept = _details(sent, "cached_tokens_details")
    tokens = Tokens(
        input=_count(usage, "prompt_tokens", "input_tokens"),
        output=_count(usage, "completion_tokens", "output_tokens"),
        cached=_greatest(_count(one, *_CACHED) for one in (usage, sent)),
        cache_write=_greatest(_count(one, *_WRITTEN) for one in (usage, sent)),
        reasoning=_greatest(_count(one, "reasoning_tokens") for one in (usage, back)),
        apart=_searches(usage)
        | {
            f"{part}_{medium}": count
            for part, details in (("input", sent), ("output", back), ("cached", kept))
            for medium in _MEDIA
            if (count := _count(details, f"{medium}_tokens"))
        },
    )
    return _whole(tokens, _count(usage, "total_tokens"))


def _searches(usage: Mapping[str, Any]) -> dict[str, int]:
    """Searches that the endpoint made, where it reports them with the usage."""
    count = _count(_details(usage, "server_tool_use"), "web_search_requests")
    return {SEARCHES: count} if count else {}


def _generate(usage: Mapping[str, Any]) -> Tokens:
    thoughts = _count(usage, "thoughtsTokenCount")
    media: collections.Counter[str] = collections.Counter()
    for part, name in _MODALITIES:
        for one in tables(usage, name):
            medium = (_text(one, "modality") or "").lower()
            media[f"{part}_{_SAME_MEDIUM.get(medium, medium)}"] += _count(one, "tokenCount") or 0
    tokens = Tokens(
        input=_sum(_count(usage, "promptTokenCount"), _count(usage, "toolUsePromptTokenCount")),
        output=_sum(_count(usage, "candidatesTokenCount"), thoughts),
        cached=_count(usage, "cachedContentTokenCount"),
        reasoning=thoughts,
        apart={name: count for name, count in media.items() if count and not name.endswith("_")},
    )
    if tokens.output is None and tokens.input is not None:
        tokens = dataclasses.replace(tokens, output=0)  # this wire leaves zeros out
    return _whole(tokens, _count(usage, "totalTokenCount"))


def _whole(tokens: Tokens, total: int | None) -> Tokens:
    """Add parts that stand beside their whole: no part is more than the whole, and the total has everything."""
    sent, back = tokens.input, tokens.output
    kept, reasoning = (tokens.cached or 0) + (tokens.cache_write or 0), tokens.reasoning or 0
    if sent is not None and kept > sent:
        sent += kept
    if back is not None and reasoning > back:
        back += reasoning
    if back is None and sent is not None and total == sent:
        back = 0
    rest = (total or 0) - (sent or 0) - (back or 0)
    if rest > 0 and sent is None and back is not None:
        sent = rest
    elif rest > 0 and sent is not None:
        of_caches = rest == kept != reasoning and back is not None
        sent, back = (sent + rest, back) if of_caches else (sent, (back or 0) + rest)
    return dataclasses.replace(tokens, input=sent, output=back)


_READERS: Mapping[Kind, Callable[[Mapping[str, Any]], Tokens]] = {
    Kind.MESSAGES: _messages,
    Kind.CHAT: _openai,
    Kind.RESPONSES: _openai,
    Kind.GENERATE: _generate,
}
