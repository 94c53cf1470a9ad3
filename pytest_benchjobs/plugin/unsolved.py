"""The section UNSOLVED of the terminal: why trials failed, like pytest's section FAILURES for tests.

The time of pytest's own section would grow with the square of the number of trials. This one is bounded.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..report.console import describe, failure_text
from ..report.excerpts import Evidence
from ..report.units import counted
from ..store.outline import whole
from ..store.text import clean, harmless
from .reports import shown_root

if TYPE_CHECKING:
    import pytest
    from _pytest.terminal import TerminalReporter

    from ..model.result import TrialResult
    from .state import Job

_SHOWN, _SHOWN_VERBOSE, _SHOWN_ALL = 10, 50, 1000
"""Most trials explained: by default, with `-v`, and with `-vv` or `-rA`."""
_LINES_SHORT = 5
"""Last lines of each log with `--tb=short`."""


def explain(job: Job, terminal: TerminalReporter, unsolved: Sequence[TrialResult]) -> None:
    """Print the section, according to `--tb`, `-v`, `-q` and `-r`."""
    config = terminal.config
    style, most = config.option.tbstyle, _most(config)
    # Not what a mark of pytest's own expected to fail.
    reported = {report.bench["node_id"] for report in terminal.stats.get("unsolved", ())}
    unsolved = [result for result in unsolved if clean(result.node_id) in reported]
    if style == "no" or not most or not unsolved:
        return
    root = job.bundle.root
    shown = shown_root(config, root)
    evidence = Evidence(root, job.results, job.config)
    terminal.write_sep("=", "UNSOLVED")
    for result in unsolved[:most]:
        if style == "line":
            terminal.write_line(harmless(f"{clean(result.node_id)}: {describe(result)}"))
            continue
        terminal.write_sep("_", clean(result.node_id), red=True, bold=True)
        last = evidence.of(result, lines=_LINES_SHORT) if style == "short" else evidence.of(result)
        terminal.write_line(harmless(failure_text(whole(root, result), shown, last)))
    left = len(unsolved) - most
    if left > 0:
        how = " -v explains more of them, -vv up to 1000." if most < _SHOWN_ALL else ""
        terminal.write_line(f"... and {counted(left, 'more trial')} unsolved.{how}")
    example = clean(unsolved[0].node_id)
    terminal.write_line(
        harmless(f"Everything about a trial: benchjobs show {shlex.quote(example)}{_where(config, job)}")
    )


def _most(config: pytest.Config) -> int:
    """Return how many trials are explained."""
    verbose = config.option.verbose
    if verbose < -1:
        return 0
    if verbose > 1 or "a" in config.option.reportchars.lower():
        return _SHOWN_ALL
    return _SHOWN_VERBOSE if verbose == 1 else _SHOWN


def _where(config: pytest.Config, job: Job) -> str:
    """Return the option `--dir` for `benchjobs` commands, where they would look for results elsewhere."""
    from ..settings.table import BY_NAME

    directory = job.config.directory
    usual = config.rootpath / (config.getini(BY_NAME["dir"].option) or "reports")
    return "" if directory.resolve() == usual.resolve() else f" --dir {shlex.quote(str(directory))}"
