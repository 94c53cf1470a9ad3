"""The variables of this process, for threads."""

from __future__ import annotations

import os


def host_environment() -> dict[str, str]:
    """Copy them, while another thread may change them: pytest sets and deletes `PYTEST_CURRENT_TEST` all the time."""
    return {name: value for name in list(os.environ) if (value := os.environ.get(name)) is not None}
