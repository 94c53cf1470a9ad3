"""Cache of this machine: what is fetched once and used by all projects."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "BENCHJOBS_CACHE"


def cache_directory(kind: str) -> Path:
    """Directory of one kind of things (`agents`, `benchmarks`): below `$BENCHJOBS_CACHE`, else the user's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    return (Path(named).absolute() if named else platformdirs.user_cache_path("benchjobs")) / kind
