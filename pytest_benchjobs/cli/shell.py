"""`shell`: open a shell in the kept file system of a trial."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from ..model.errors import InfrastructureError, InputError
from ..model.owner import current_owner
from ..model.scenario import Network
from ..sandbox.protocol import Opens
from ..sandbox.providers import by_keeper, keeper_of
from ..settings.parse import parse
from ..settings.table import BY_NAME
from ..store.reader import HistoryReader
from ..store.rows import TrialRow
from ..store.text import one_line
from ..store.trial_ids import job_or_trials
from ._directory import directory_option

_SHOWN = 5


@click.command()
@click.argument("what", metavar="TRIAL|JOB")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED)
@click.option("--scenario", metavar="ID", help="Choose among the trials of JOB by scenario.")
@click.option("--agent", metavar="AGENT", help="Choose by agent.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Choose by attempt.")
@click.option("--user", metavar="USER", help="User to run as.  [default: the user of the set-up steps]")
@click.option("--env", "given", multiple=True, metavar="KEY=VALUE", help="Variable to set, repeatable.")
@click.option(
    "--network",
    type=click.Choice(["none", "public"]),
    default="none",
    show_default=True,
    help="Network of the shell.",
)
@directory_option
def shell(
    what: str,
    command: tuple[str, ...],
    scenario: str | None,
    agent: str | None,
    attempt: int | None,
    user: str | None,
    given: tuple[str, ...],
    network: Network,
    directory: Path,
) -> int:
    """Open a shell in the kept file system of a trial, as the agent left it, before grading.

    TRIAL is an id as it is printed, or that of a scenario; of a JOB with several kept trials, the options choose one.
    Each shell begins with the kept state; its changes are gone when it ends. Without a terminal the shell reads
    commands from standard input. A COMMAND runs instead of the shell; the exit status is that of the command.
    """
    env = parse(BY_NAME["env"], given, "--env")
    row = _kept_trial(directory, what, scenario, agent, attempt)
    with keeper_of(row.kept, current_owner()) as provider:
        if row.kept is None or not isinstance(provider, Opens):
            raise InputError(f"{row.node_id} did not run in a sandbox that `benchjobs shell` can open")
        return provider.open(
            row.kept,
            command,
            labels={"job": row.job, "trial": row.node_id, "shell": "1"},
            user=user,
            env=env,
            network=network,
            welcome=f"{one_line(row.node_id)} as it was before it was graded; leave with `exit`",
        )


def _kept_trial(
    directory: Path, what: str, scenario: str | None, agent: str | None, attempt: int | None
) -> TrialRow:
    """Return the only kept trial that fits."""

    def fits(row: TrialRow) -> bool:
        return (
            (scenario is None or row.scenario == scenario)
            and (agent is None or agent in (row.agent, row.agent.partition(":")[0]))
            and (attempt is None or row.attempt == attempt)
        )

    with HistoryReader.of(directory) as history:
        job, rows = job_or_trials(history, what, kept=True)
        rows = rows or history.trials(job, scenario=scenario)
    found = [row for row in rows if fits(row)]
    if not found:
        raise InputError(f"no trial of job {job} fits; see `benchjobs summary -e {job}`")
    return _only_kept(found)


def _only_kept(found: Sequence[TrialRow]) -> TrialRow:
    kept = [row for row in found if row.kept is not None]
    if len(kept) > 1:  # for a single trial, the engine's own error is clearer
        missing = gone(row.kept for row in kept)
        if not (left := [row for row in kept if row.kept not in missing]):
            raise InputError(
                f"the kept file systems of job {kept[0].job} are gone ({GONE}); {keeping_again(kept[0].job)}"
            )
        kept = left
    if len(kept) == 1:
        return kept[0]
    if not kept:
        one = found[0].node_id if len(found) == 1 else None
        raise InputError(
            f"nothing was kept of {one or f'job {found[0].job}'}; {keeping_again(one or found[0].job)} "
            "(`benchjobs run --keep failed`, pytest --bench-keep, for the next ones)"
        )
    names = ", ".join(row.node_id for row in kept[:_SHOWN]) + (", ..." if len(kept) > _SHOWN else "")
    raise InputError(
        f"{len(kept)} trials of job {kept[0].job} were kept; choose one with --scenario, --agent and --attempt: {names}"
    )


GONE = "removed by `benchjobs gc --kept` or by hand, or on another machine"


def keeping_again(what: str) -> str:
    """Return the advice to run a job or a trial again, with its file system kept."""
    return f"run it again: benchjobs rerun {shlex.quote(what)} --keep always"


def gone(references: Iterable[str | None]) -> set[str]:
    """Return the references that their engines no longer have; none of an engine that does not answer."""
    missing: set[str] = set()
    for wanted in by_keeper(references):
        with keeper_of(wanted[0], current_owner()) as provider, contextlib.suppress(InfrastructureError):
            if provider is not None:
                provider.check()
                missing |= set(wanted) - {one.reference for one in provider.kept()}
    return missing
