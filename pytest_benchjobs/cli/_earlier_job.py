"""Call pytest for an earlier job again: the part that `resume`, `rerun`, `clone` and `rescore` share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from ..model.errors import InputError
from ..model.job import JobConfig, JobRecord, Overrides
from ..settings.call import Written, words
from ..settings.parse import parse
from ..settings.setting import texts_of
from ..settings.table import ALL, BY_NAME
from ..sources import did_you_mean
from ..store.bundle import new_job_id
from ..store.liveness import STALE_SECONDS, is_dead
from ..store.reader import HistoryReader
from ..store.reproducibility import ini_variables
from ..store.results import find_bundle
from ..store.rows import TrialRow
from ..store.trial_ids import job_or_trials
from ._detach import run_detached
from ._directory import directory_option
from ._output import output_option
from ._pytest_call import Call, call_and_summarise, said_of, with_id
from ._run_options import RunRequest
from .gc import recover_jobs

REUSE = ("reuse", "rerun_failed", "rerun_errors", "explain_reuse")
_EVERY_SCENARIO: Mapping[str, Written] = {"sample": "100%", "max_examples": ALL}
_Command = TypeVar("_Command", bound=Callable[..., Any])


class EarlierJob(NamedTuple):
    """An ended job in its results directory."""

    directory: Path
    record: JobRecord
    trials: list[TrialRow]


def call_options(command: _Command) -> _Command:
    """Options and argument of all four commands."""
    for option in (
        output_option("summary"),
        directory_option,
        click.option(
            "--env-vars", multiple=True, metavar="KEY=value...",
            help="Variables for agents. Their values are not stored, so give them again.",
        ),
        click.option("--print-command", is_flag=True, help="Print the pytest command without running it."),
        click.option("--detach", is_flag=True, help="Print the job id and return at once."),
        click.argument("job"),
    ):  # fmt: skip
        command = option(command)
    return command


def find_earlier(directory: Path, text: str) -> EarlierJob:
    """Return a job that has ended; a dead one is closed first. InputError: there is no such job, or it is running."""
    with HistoryReader.of(directory) as history:
        bundle = find_bundle(history, text)
        record = bundle.read()
        if not record.status.ended:
            if not is_dead(bundle.root, record):
                raise InputError(f"job {record.id} is running; see `benchjobs watch {record.id}`")
            recover_jobs(directory, STALE_SECONDS)
            record = bundle.read()
        return EarlierJob(directory, record, history.trials(record.id))


def find_earlier_or_trial(directory: Path, text: str) -> tuple[EarlierJob, tuple[str, ...]]:
    """Return the job that a text names, or the job of the trials that it names, with their node ids."""
    with HistoryReader.of(directory) as history:
        job_id, rows = job_or_trials(history, text)
    return find_earlier(directory, job_id), tuple(row.node_id for row in rows)


def trials_of(job: EarlierJob, scenarios: Iterable[str]) -> list[TrialRow]:
    """Return the job's trials of these scenarios; all, if none is named. InputError: it has none of a scenario."""
    known = {row.scenario for row in job.trials}
    for scenario in scenarios:
        if scenario not in known:
            hint = did_you_mean(scenario, known).strip()
            raise InputError(
                f"job {job.record.id} has no trial of scenario {scenario!r}" + (f"; {hint}" if hint else "")
            )
    wanted = set(scenarios) or known
    return [row for row in job.trials if row.scenario in wanted]


def call_again(
    job: EarlierJob,
    env_vars: Iterable[str],
    changes: Mapping[str, Written],
    *more: str,
    without: Collection[str] = (),
) -> Call:
    """Return the call of the job, with some settings changed or left out, and further arguments for pytest.

    `env_vars` has the values of its `--bench-env`, which are stored nowhere, and may have more.
    """
    record, invocation = job.record, job.record.invocation
    if invocation is None:
        raise InputError(
            f"the pytest command of job {record.id} was not recorded; call pytest with --bench-resume {record.id}"
        )
    if not invocation.directory.is_dir():
        raise InputError(f"job {record.id} was started in {invocation.directory}, which no longer exists")
    earlier = said_of(record)
    rest, needed = _without_values(earlier.rest)
    needed += (text.partition("=")[0] for text in texts_of(earlier.settings.get("env", ())))
    given = parse(BY_NAME["env"], tuple(env_vars), "--env-vars")
    if missing := [name for name in dict.fromkeys(needed) if name not in given]:
        values = " ".join(f"{name}=..." for name in missing)
        raise InputError(
            f"values of --bench-env are not stored; give those of job {record.id} again: --env-vars {values}"
        )
    settings = {
        name: written
        for name, written in earlier.settings.items()
        if name in BY_NAME and not BY_NAME[name].forgotten and name not in ("env", *without)
    }
    here = job.directory.absolute()
    if here.resolve() != record.config.directory.resolve():
        settings["dir"] = str(here)
    return Call((*words({**settings, **changes}, rest), *more), invocation.directory, given)


def _without_values(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return arguments of pytest without the values of `-o bench_env=...`, and the names of those variables."""
    kept: list[str] = []
    overridden: list[str] = []
    for word in words:
        variables = ini_variables(kept[-1] if kept else "", word)
        if variables is not None:
            # The last `-o` overrides the ini file and any earlier `-o`.
            overridden = [line.partition("=")[0].strip() for line in variables.lines]
            # given again beside the call
            word = variables.upto + "\n".join(f"{name}=" for name in overridden)
        kept.append(word)
    return kept, overridden


def begin(
    job: EarlierJob,
    changes: Mapping[str, Written],
    scenarios: tuple[str, ...],
    rest: tuple[str, ...],
    how: Mapping[str, Any],
    *,
    without: Collection[str],
) -> int:
    """Start a new job for these scenarios of an earlier one, in the foreground or detached; or print the call.

    Settings that sampled the earlier job's scenarios are dropped: they would sample the sample.
    """
    config = job.record.config
    configurations: list[JobConfig | Overrides] = [config, *config.per_benchmark.values()]
    drew = any(one.sample or one.max_examples for one in configurations)
    only: dict[str, Written] = {"scenarios": scenarios} if scenarios else {}
    changes = {**changes, **(_EVERY_SCENARIO if drew else {}), **only}
    return launch(job, call_again(job, how["env_vars"], changes, *rest, without=without), how)


def launch(job: EarlierJob, call: Call, how: Mapping[str, Any]) -> int:
    """Make a call for a new job, in the foreground or detached; or print it. Returns the exit status."""
    if how["print_command"]:
        click.echo(call.shown())
        return 0
    if how["detach"]:
        config = job.record.config
        return run_detached(RunRequest(call, job.directory, config.name, config.agent_timeout), how["output"])
    job_id = new_job_id()
    return call_and_summarise(with_id(call, job_id), job.directory, job_id, how["output"])
