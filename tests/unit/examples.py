"""How much is tried of a property that needs more examples, or fewer, than others."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def at_most(thorough: int, **more: Any) -> settings:
    """So many examples when there is time, and as large a part of them in `make test` as others have."""
    return settings(max_examples=max(5, thorough * settings.default.max_examples // 100), **more)
