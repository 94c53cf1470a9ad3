"""Progress lines before the first trial."""

from __future__ import annotations

import pytest

from ..store.text import clean


def show(config: pytest.Config, line: str) -> None:
    """Print a line, if pytest has a terminal reporter."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.ensure_newline()
        terminal.write_line(clean(line))
