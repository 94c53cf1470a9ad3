"""Everything about one trial: its task, the agent's commands, the scorers' output, and its files.

Text of agents is cleaned and bounded. Nothing of a confidential scenario is quoted.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from ..model.job import JobConfig, JobRecord
from ..model.result import TrialResult
from ..sandbox.protocol import KEPT
from ..settings.table import BY_NAME, LOCAL
from ..store.bundle import JobBundle
from ..store.layout import TrialLayout
from ..store.results import places_of
from ..store.rows import TrialRow
from ..store.text import clean, one_line
from ..store.trials import read_result
from .documents.trial import AgentCommand, LogEnd, ShowDocument, TrialFile
from .excerpts import LINES, SIZE, Excerpt, of_agent, of_scorers
from .scenarios import Scenarios

_STATEMENT = 20_000
_COMMANDS, _COMMAND, _OUTPUT = 100, 500, 300
_LINE_LIMIT = 1 << 20
_FILES = 200
_SHELL_KEYS = ("command", "cmd", "script", "input")
"""Names of the arguments that hold a shell command, in the tools of agents."""


def show_document(directory: Path, row: TrialRow, record: JobRecord) -> ShowDocument:
    """Read everything about a trial in the results at `directory`.

    Raises InputError: its files are not there, or damaged.
    """
    root = JobBundle.open(directory, row.job).root
    if not row.path:
        raise InputError(
            f"{one_line(row.node_id, 200)} has no files: its job could not write them. "
            f"`benchjobs summary -e {row.job}` has what is known of it"
        )
    result = read_result(root / row.path)
    # The path is where the file was found: its own content is untrusted.
    result = result.model_copy(update={"path": row.path})
    places = [*places_of(directory, root, result)]
    commands, left_out = ((), 0) if result.confidential else _commands(places)
    files, more = _files(places[0])
    logs: list[Excerpt] = []
    if not result.confidential:
        logs = [*of_agent(result, root, LINES, SIZE), *of_scorers(result.scorers, LINES, 4096)]
    return ShowDocument(
        result=result,
        job_name=record.name,
        statement=None if result.confidential else statement_of(result, record, Scenarios()),
        commands=commands,
        commands_left_out=left_out,
        logs=tuple(LogEnd(title=one.title, lines=one.lines) for one in logs),
        directory=str(places[0]),
        files=files,
        files_left_out=more,
    )


def next_commands(result: TrialResult, record: JobRecord, where: str) -> Iterator[tuple[str, str]]:
    """Yield commands to type next about this trial of a job, each with its purpose.

    `where` is of `directory_argument`.
    """
    trial = shlex.quote(clean(result.node_id))
    yield "Copy its logs", f"benchjobs logs {result.job} --scenario {trial}{where}"
    if result.kept is not None:
        if result.kept.startswith(KEPT):  # an answer alone is graded again, and has no container
            yield "Open a shell in it", f"benchjobs shell {trial}{where}"
        yield (
            "Grade it again, with the other kept trials of its scenario",
            f"benchjobs rescore {result.job} --scenario {shlex.quote(result.scenario)}{where}",
        )
        yield "Run it again, with its settings", f"benchjobs rerun {trial}{where}"
    elif record.config.sandbox == LOCAL:  # it cannot be kept
        yield "Run it again, with its settings", f"benchjobs rerun {trial}{where}"
    else:
        title = "Run it again and keep its file system, for `benchjobs shell` or `benchjobs rescore last`"
        yield title, f"benchjobs rerun {trial}{where} -- --bench-keep always"
    # There pytest finds the agent and the number of attempts.
    results = where.replace(" --dir ", f" {BY_NAME['dir'].flag}=", 1)
    yield "Run it again", f"pytest {trial}{_sandbox_option(record)}{results}"


def _sandbox_option(record: JobRecord) -> str:
    """Return the option for where trials of a job ran, with a blank before it: none if pytest does that unasked."""
    sandbox = record.config.sandbox
    if sandbox == LOCAL:
        return f" {BY_NAME['no_docker'].flag}"
    said = (record.invocation.settings if record.invocation is not None else None) or {}
    usual = JobConfig.model_fields["sandbox"].default
    if sandbox == usual and "sandbox" not in said:
        return ""
    return f" {BY_NAME['sandbox'].flag}={shlex.quote(clean(sandbox))}"


def statement_of(result: TrialResult, record: JobRecord, scenarios: Scenarios) -> str | None:
    """Return the task, if the benchmark is still where it was."""
    scenario = scenarios.of(result, record)
    return None if scenario is None else clean(scenario.problem_statement, _STATEMENT)


def _commands(places: Iterable[Path]) -> tuple[tuple[AgentCommand, ...], int]:
    """Return the last commands of the agent, from the first trajectory found, and the number of earlier ones."""
    for place in places:
        path = TrialLayout(place).trajectory
        if path.is_file() and not path.is_symlink():
            kept: deque[AgentCommand] = deque(maxlen=_COMMANDS)
            count = 0
            for count, command in enumerate(_calls(path), 1):  # noqa: B007  the last one counts
                kept.append(command)
            return tuple(kept), count - len(kept)
    return (), 0


def _calls(path: Path) -> Iterator[AgentCommand]:
    with contextlib.suppress(OSError), path.open("rb") as file:
        while line := file.readline(_LINE_LIMIT):
            try:
                step = json.loads(line)
                results = {
                    one.get("source_call_id"): str(one.get("content", ""))
                    for one in (step.get("observation") or {}).get("results") or ()
                }
                for call in step.get("tool_calls") or ():
                    output = results.get(call.get("tool_call_id"))
                    yield AgentCommand(
                        step=int(step.get("step_id", 0)),
                        tool=one_line(str(call.get("function_name", "")), 60),
                        command=one_line(_command(call.get("arguments")), _COMMAND),
                        output=None if output is None else one_line(output[-_OUTPUT:], _OUTPUT),
                    )
            except (ValueError, AttributeError, TypeError, RecursionError):
                continue  # a truncated or edited line


def _command(arguments: Any) -> str:
    if isinstance(arguments, dict):
        for key in _SHELL_KEYS:
            value = arguments.get(key)
            if isinstance(value, str):
                return value
            if isinstance(value, list) and all(isinstance(word, str) for word in value):
                return " ".join(value)
    return json.dumps(arguments, ensure_ascii=False)


def _files(directory: Path) -> tuple[tuple[TrialFile, ...], int]:
    """Return the files below a directory, and the number of those beyond the limit. Links are not followed."""
    listed = _walk(directory)
    found = tuple(itertools.islice(listed, _FILES))
    return tuple(sorted(found, key=lambda one: one.path)), sum(1 for _ in itertools.islice(listed, 100_000))


def _walk(directory: Path) -> Iterator[TrialFile]:
    for place, _, names in os.walk(directory):
        for name in sorted(names):
            path = Path(place) / name
            with contextlib.suppress(OSError):
                size = path.lstat().st_size
                yield TrialFile(path=clean(path.relative_to(directory).as_posix(), 300), bytes=size)
