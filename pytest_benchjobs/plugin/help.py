"""The help page of `pytest --bench-help`: every option in its group, and every ini key."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator

from ..settings.table import GROUPS, SETTINGS
from .options import INI_ALONE, how

_INTRODUCTION = """\
Options for agent benchmarks. Details are in `docs/options.md`. `benchjobs run` has the same options without
`bench-` in their names.
"""
_KEYS = """\
Ini keys: every option that makes sense for more than one run has an ini key of the same name, with underscores. A list
has one value per line. These keys have no option:
"""


def lines() -> Iterator[str]:
    """Return the lines of the page."""
    parser = argparse.ArgumentParser(usage="pytest --bench NAME [options]", description=None, add_help=False)
    for title, settings in GROUPS:
        group = parser.add_argument_group(title)
        for setting in settings:
            if setting.on_line:
                group.add_argument(setting.flag, **how(setting))
    width = min(shutil.get_terminal_size().columns, 120)
    yield from textwrap.wrap(_INTRODUCTION, width)
    yield ""
    yield from parser.format_help().splitlines()
    yield ""
    yield from textwrap.wrap(_KEYS, width)
    for key, (about, _, _) in INI_ALONE.items():
        yield f"  {key}: {about}"
    yield ""
    keys = ", ".join(setting.option for setting in SETTINGS if setting.has_ini)
    yield from textwrap.wrap(f"All others: {keys}", width, break_on_hyphens=False)
