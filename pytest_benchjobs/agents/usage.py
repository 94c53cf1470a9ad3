"""Usage reported by an agent, if the gateway has counted nothing: JSON with the figures of `Usage`.

    {"input_tokens": 1200, "output_tokens": 300, "cached_tokens": 900, "reasoning_tokens": 40, "cost_usd": 0.012}

The agent writes it to the file that `$BENCH_USAGE_FILE` names, which is read after the agent has ended. Any figure may
be missing: leave out unknown figures rather than writing 0.
"""

from __future__ import annotations

from pydantic import ValidationError

from ..model.usage import FIGURES, Usage
from ..sources.complaints import in_words
from ..store.text import one_line

USAGE_VARIABLE = "BENCH_USAGE_FILE"
USAGE_DIRECTORY = "/bench/usage"
"""Anybody in the sandbox may write to it, so that the file can also be created by a rename."""
USAGE_FILE = f"{USAGE_DIRECTORY}/usage.json"
USAGE_LIMIT = 64 * 1024
"""The most bytes of the report."""
_MOST = 10**12
"""The largest value of any figure. Sums over many trials have to fit into the history."""
_PARTS = (
    ("cached_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("reasoning_tokens", "output_tokens"),
)


def said_usage(content: bytes) -> Usage:
    """Read an agent's report of its usage. No limit and no score depends on it.

    Raises ValueError: it is anything else; the message says what, in one line.
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
