"""Read foreign TOML, within bounds: `tomllib` takes a minute for one dotted key of 100 KB."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from .plain import MAX_DEPTH

# Each part is matched whole or not at all, and only from its beginning, so that the time grows with the line alone.
_PART = r"""(?>[A-Za-z0-9_-]++|"(?>[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?>{_PART}[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}")


def load_toml(text: str) -> dict[str, Any]:
    """Return the data of a TOML text.

    Raises:
        tomllib.TOMLDecodeError: it is none, or is nested too deeply.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") >= MAX_DEPTH and _DEEP_KEY.search(line):
            raise tomllib.TOMLDecodeError(f"nested too deeply (at line {number}, column 1)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("nested too deeply") from None
