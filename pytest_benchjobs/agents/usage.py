"""Usage reported by an agent, where the gateway has counted nothing: JSON with the figures of `Usage`.

    {"input_tokens": 1200, "output_tokens": 300, "cached_tokens": 900, "reasoning_tokens": 40, "cost_usd": 0.012}

It goes to the file that `$BENCH_USAGE_FILE` names, and is read when the agent has ended. Any figure may be missing:
what is not known is better left out than 0.
"""

from __future__ import annotations

from pydantic import ValidationError

from ..model.usage import FIGURES, Usage
from ..sources.complaints import in_words
from ..store.text import one_line

USAGE_VARIABLE = "BENCH_USAGE_FILE"
USAGE_DIRECTORY = "/bench/usage"
"""Anybody in the sandbox may write to it, so that the file can also be put in its place by a rename."""
USAGE_FILE = f"{USAGE_DIRECTORY}/usage.json"
USAGE_LIMIT = 64 * 1024
"""Bytes."""
_MOST = 10**12
"""Of any figure. Sums of many trials have to fit into what the history can hold."""
_PARTS = (
    ("cached_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("reasoning_tokens", "output_tokens"),
)


def said_usage(content: bytes) -> Usage:
    """Read an agent's report of its usage. No limit and no score relies on any of it.

    Raises:
        ValueError: it is anything else; says what, in a line.
    """
    if not content.strip():
        return Usage()
    try:
        usage = Usage.model_validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(one_line(f"{where}: {in_words(first)}".lstrip(": "), 200)) from None
    if usage.source is not None:
        raise ValueError("source: unknown key")
    figures = {name: value for name in FIGURES if (value := getattr(usage, name)) is not None}
    for name, value in figures.items():
        if value > _MOST:
            raise ValueError(f"{name}: is more than {_MOST:g}")
    for part, whole in _PARTS:
        if part in figures and figures[part] > figures.get(whole, _MOST):
            raise ValueError(f"{part}: is more than {whole}, which it is a part of")
    return usage.model_copy(update={"source": "agent"}) if figures else usage
