"""`check`: check that the reference of each scenario passes, and doing nothing does not."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ..analysis.soundness import NOP, ORACLE, Problem, advice, problems, verdict
from ..analysis.trials import grouped
from ..job.job_settings import matches
from ..model.errors import InputError
from ..model.node_ids import is_path
from ..model.result import TrialResult
from ..report.documents import mirror
from ..report.documents.benchmarks import CheckDocument, CheckedScenario, CheckProblem
from ..report.documents.plan import PlannedTrial
from ..report.excerpts import excerpts
from ..report.units import counted
from ..settings.call import Written, words
from ..sources import did_you_mean
from ..sources.catalogue.entry import Entry
from ..sources.catalogue.fetching import fetch
from ..sources.catalogue.kept import trouble
from ..sources.catalogue.verdicts import keep_verdicts
from ..sources.finder import NoSuchBenchmark
from ..store.bundle import JobBundle, new_job_id
from ..store.layout import TrialLayout
from ..store.log import log_end
from ..store.text import one_line
from ..system.temporary import hold, sweep
from ..trial.end_agent import some
from ..trial.leaks import leaks_in
from ._catalogue import finder, say_hiding
from ._output import emit, output_option, say
from ._pytest_call import Call, call_pytest
from ._run_options import (
    Named,
    VariadicCommand,
    benchmarks_of,
    check_attempts_option,
    check_directory_option,
    scenarios_of,
    scenarios_option,
    whats_argument,
)
from ._scenarios import places, sources
from .plan import planned

_INTERRUPTED, _INTERNAL, _USAGE_ERROR = 2, 3, 4
_MESSAGE = 300
_TEMPORARY, _DAY = "benchjobs-check-", 86_400.0
_NO_NETWORK = re.compile(
    r"could ?n[o\']t resolve (?:host|proxy|'|\")|temporary failure (?:in name resolution|resolving)|"
    r"name or service not known|name does not resolve|unable to resolve host|bad address '|\bENOTFOUND\b|\bEAI_AGAIN\b|"
    r"network is unreachable|\bENETUNREACH\b|no address associated with hostname|nodename nor servname|"
    r"failed to establish a new connection|temporarily unable to resolve|dns error",
    re.IGNORECASE,
)
"""What programs say that find no network. Codes are whole words: FileNotFoundError contains one of them."""
_NO_COMMAND = re.compile(r"(?:line \d+|sh: \d+): \S+: (?:command )?not found$")
"""What bash and sh say of a command that is not there."""
_LOG_LINES, _LOG_SIZE = 10, 1000
"""Lines and characters of each log that are quoted."""


def check_command(attempts: int = 2, *, reads_first: bool = False) -> click.Command:
    """Make the command `check`, which has other names, too.

    `attempts` is the default of its option. With `reads_first`, nothing runs if a file has a mistake;
    otherwise that fails one scenario, as the other verdicts are wanted all the same.
    """

    @click.command("check", cls=VariadicCommand)
    @whats_argument
    @click.option(
        "--benchmark",
        "--benchmarks",
        "named",
        multiple=True,
        metavar="NAME",
        help="Check this benchmark, repeatable; --benchmarks takes several.",
    )
    @scenarios_option
    @click.option("--schema-only", is_flag=True, help="Check only what is written, and run nothing.")
    @check_attempts_option(attempts)
    @click.option(
        "--exceptions",
        type=click.Choice(["skip", "include"]),
        default="skip",
        show_default=True,
        help="Scenarios that the catalogue knows to be broken: skip them, or check them without effect on the status.",
    )
    @check_directory_option
    @output_option("check")
    def command(**given: Any) -> int:
        """Check benchmarks: the reference of each scenario passes, doing nothing does not, and repeats agree.

        By default, the benchmarks in `benchmarks/` are checked. A scenario with `validation: reverse` must pass
        untouched; one with `validation: evaluation` must get the same grade each time. The verdicts on a benchmark of
        the catalogue are kept with it. Arguments after `--` go to pytest. Exit status 1 when anything is wrong.
        """
        return _check(**given, reads_first=reads_first)

    return command


check = check_command()


def _check(
    *,
    whats: tuple[str, ...],
    named: tuple[str, ...],
    scenarios: tuple[str, ...],
    schema_only: bool,
    attempts: int,
    exceptions: str,
    directory: Path | None,
    rest: tuple[str, ...],
    output: str,
    reads_first: bool,
) -> int:
    typed = places((*whats, *(name.strip() for text in named for name in text.split(",") if name.strip())))
    scenarios = (*scenarios, *scenarios_of(typed))
    entries = _fetched_entries(typed)
    with suppress(InputError):
        say_hiding({source.benchmark for place in benchmarks_of(typed) for source in sources(place)})
    if schema_only or reads_first:
        wrong, count = _mistakes(typed, scenarios, only=schema_only)
        if not wrong and not count:
            raise InputError("there are no scenarios here")
        if wrong or schema_only:
            for line in wrong:
                say(line, err=True)
            sound = f"{counted(count, 'scenario')}: no mistakes in the files"
            line = f"{counted(len(wrong), 'mistake')}; nothing was run" if wrong else sound
            document = CheckDocument(ok=not wrong, read=count, mistakes=tuple(wrong))
            emit(document, lambda: [line], output)
            return 1 if wrong else 0
    if (other := next((entry for entry in entries if entry.agent is not None), None)) is not None:
        why = f"{other.name} runs only {other.agent}"
        raise InputError(f"{why}, so there is nothing that oracle and nop could check")
    broken = {(entry.name, name): why for entry in entries for name, why in entry.exceptions.items()}
    if exceptions == "skip":
        rest = (*rest, *_without(broken, scenarios))
    document = check_all(benchmarks_of(typed), scenarios, attempts, directory, rest)
    emit(document, lambda: check_lines(document), output)
    for entry in entries:
        # An error tells nothing about a scenario.
        ended = [one for one in document.scenarios if one.verdict != "error" and one.benchmark == entry.name]
        try:
            keep_verdicts(entry, {one.scenario: one.verdict.value for one in ended})
        except OSError as error:
            say(f"the verdicts are not kept with {entry}: {error}", err=True)
    unsound = {(one.benchmark, one.scenario) for one in document.scenarios if one.verdict != "ok"}
    return 1 if unsound - broken.keys() else 0


def _fetched_entries(typed: Sequence[Named]) -> list[Entry]:
    """Return the benchmarks of the catalogue that were named, after fetching what is not here."""
    known = finder()
    entries = []
    for name in benchmarks_of(typed):
        if (entry := known.entry(name, Path.cwd())) is None:
            continue
        if trouble(entry) is not None:
            fetch(entry, lambda line: say(line, err=True))
        entries.append(entry)
    return entries


def _without(broken: Mapping[tuple[str, str], str], scenarios: Sequence[str]) -> Iterator[str]:
    """Yield options of pytest that leave out the scenarios known to be broken, after naming them."""
    ids = {scenario for _, scenario in broken}
    if scenarios and ids.issuperset(scenarios):
        raise InputError("nothing is left to check; see --exceptions include")
    for (benchmark, scenario), why in broken.items():
        if not scenarios or any(matches(scenario, pattern) for pattern in scenarios):
            say(f"left out: {scenario}: {why}", err=True)
            yield f"--deselect={benchmark}::{scenario}["


def _mistakes(typed: Sequence[Named], scenarios: Sequence[str], *, only: bool) -> tuple[list[str], int]:
    """Return every mistake in scenarios, by default in all, and how many were read.

    A conftest.py may know more names than we do; with `only`, nothing else will read them.
    """

    def is_chosen(name: str) -> bool:
        return not scenarios or any(matches(name, pattern) for pattern in scenarios)

    wrong: list[str] = []
    seen: list[str] = []
    unknown = 0
    for one in typed:
        try:
            named = sources(one.place)
        except NoSuchBenchmark as error:
            wrong += [str(error)] if only or is_path(one.place) else []
            unknown += 1
            continue
        except InputError as error:
            wrong += map(str, error.errors)
            continue
        for source in named:
            try:
                refs = source.refs()
                seen += (ref.id for ref in refs)
                for ref in refs:
                    if is_chosen(ref.id):
                        source.load(ref.id)
            except InputError as error:
                wrong += map(str, error.errors)
    if not wrong and not unknown:
        for missing in [one for one in scenarios if not any(matches(name, one) for name in seen)]:
            hint = did_you_mean(missing, seen).strip() or f"available: {', '.join(seen[:10])}"
            wrong.append(f"there is no scenario {missing!r}; {hint}")
    return list(dict.fromkeys(wrong)), sum(map(is_chosen, seen)) + unknown


def check_all(
    benchmarks: Sequence[str],
    scenarios: Sequence[str],
    attempts: int,
    directory: Path | None,
    rest: Sequence[str],
) -> CheckDocument:
    """Run `oracle` and `nop` over benchmarks, and judge the results."""
    document = descriptor = None
    if directory is None:
        # Those of earlier checks, with problems, have been looked at, or were left by one that was killed.
        sweep(_TEMPORARY, _DAY)
        place = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
        descriptor = hold(place)
    else:
        place = directory.absolute()
    try:
        document = _checked(benchmarks, scenarios, attempts, place, rest)
        if directory is None and document.ok:
            document = document.model_copy(update={"directory": None})
    finally:
        if directory is None and (document is None or document.ok):
            shutil.rmtree(place, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)
    return document


def _checked(
    benchmarks: Sequence[str], scenarios: Sequence[str], attempts: int, place: Path, rest: Sequence[str]
) -> CheckDocument:
    settings: dict[str, Written] = {
        "benchmarks": tuple(benchmarks),
        "scenarios": tuple(scenarios),
        "agents": ("oracle", "nop"),
        "attempts": str(attempts),
        "attempt_policy": "each",
        "baseline": "none",
        "exit": "tests",
        # Known failures of agents tell nothing about the soundness of a scenario.
        "known": "none",
        "force": True,
        "check": True,
        "dir": str(place),
        "name": "check",
    }
    # The agents of interactive tests are neither.
    call = Call((*words(settings), "-m", "not bench_scenario", *rest), Path.cwd())
    _, trials = planned(call)
    if not trials:
        raise InputError("there is nothing to check: no scenario was found")
    job = new_job_id()
    arguments = ("-qq", "--bench-job-id", job, *call.arguments)
    # pytest's output goes to stderr: stdout is for the verdicts. With -qq it does not explain trials that failed, as
    # those of `nop` have to, nor name a directory that is removed afterwards.
    status = call_pytest(call._replace(arguments=arguments), stdout=sys.stderr.fileno())
    if status in (_INTERRUPTED, _INTERNAL, _USAGE_ERROR) or status > 5:
        raise InputError(f"the check did not finish: pytest exited with status {status}")
    bundle = JobBundle.open(place, job)
    checked = list(_verdicts(trials, list(bundle.results()), attempts, bundle.root))
    return CheckDocument(
        directory=str(bundle.root),
        attempts=attempts,
        ok=all(scenario.verdict == "ok" for scenario in checked),
        scenarios=tuple(checked),
    )


def _verdicts(
    trials: Sequence[PlannedTrial], results: Sequence[TrialResult], attempts: int, root: Path
) -> Iterator[CheckedScenario]:
    ended = grouped(results, lambda result: (result.benchmark, result.scenario))
    for about in {(trial.benchmark, trial.scenario): trial for trial in trials}.values():
        of_scenario = ended.get((about.benchmark, about.scenario), [])
        found = problems(
            about.validation,
            has_reference=about.has_reference,
            attempts=attempts,
            results=of_scenario,
            refused=about.problem,
            leaks=_leaks(of_scenario, root),
            offline=_offline(of_scenario, root),
        )
        logs = _logs(found, of_scenario, root)
        yield mirror(
            CheckedScenario,
            about,
            verdict=verdict(found),
            advice=advice(found, of_scenario, _missing_command(of_scenario, root)),
            problems=tuple(
                mirror(
                    CheckProblem,
                    problem,
                    files=None if problem.path is None else str(root / problem.path),
                    logs=logs.get(number, ()),
                )
                for number, problem in enumerate(found)
            ),
        )


def _leaks(results: Sequence[TrialResult], root: Path) -> tuple[str, ...]:
    """Return the places where the trials of `nop` have found the reference."""
    logs = (TrialLayout(root / one.path).agent_log for one in results if one.agent.name == NOP and one.path)
    return tuple(dict.fromkeys(leak for log in logs for leak in leaks_in(log)))


def _missing_command(results: Sequence[TrialResult], root: Path) -> str | None:
    """Return what a shell said of the first command of the reference that is not there."""
    for log in (
        TrialLayout(root / one.path).agent_log for one in results if one.agent.name == ORACLE and one.path
    ):
        for line in log_end(log, 1 << 16).decode("utf-8", "replace").splitlines():
            if _NO_COMMAND.search(line):
                return one_line(line, 200)
    return None


def _offline(results: Sequence[TrialResult], root: Path) -> dict[str, str]:
    """Return the trials whose scorers complain that there is no network: path -> the line."""
    found: dict[str, str] = {}
    for result in results:
        for line in (line for one in excerpts(result, root, lines=50, size=8192) for line in one.lines):
            if _NO_NETWORK.search(line):
                found.setdefault(result.path, one_line(line, 200))
    return found


def _logs(found: Sequence[Problem], results: Sequence[TrialResult], root: Path) -> dict[int, tuple[str, ...]]:
    """Last lines of the logs behind the first problem of each agent, by its number."""
    by_path = {result.path: result for result in results}
    first: dict[str, int] = {}
    for number, problem in enumerate(found):
        if problem.path in by_path:
            first.setdefault(problem.agent, number)
    shown = {
        number: excerpts(by_path[str(found[number].path)], root, lines=_LOG_LINES, size=_LOG_SIZE)
        for number in first.values()
    }
    return {
        number: tuple(line for one in logs for line in one.text.split("\n")) for number, logs in shown.items()
    }


def check_lines(document: CheckDocument) -> Iterator[str]:
    """Lines of `check`."""
    width = max(len(scenario.verdict.value) for scenario in document.scenarios)
    for scenario in document.scenarios:
        place = f"  {one_line(scenario.place)}" if scenario.place and scenario.verdict != "ok" else ""
        name = one_line(f"{scenario.benchmark}::{scenario.scenario}", 200)
        yield f"{scenario.verdict.value:{width}}  {name}{place}"
        for problem in scenario.problems:
            attempt = "" if problem.attempt is None else f", attempt {problem.attempt}"
            line = f"  {problem.agent}{attempt}: expected {problem.expected}, found {one_line(problem.found, _MESSAGE)}"
            yield line if problem.files is None else f"{line}; see {one_line(problem.files)}"
            yield from (f"    {line}" for line in problem.logs)
    # Scenarios of a benchmark are often alike: print each advice once.
    for text, advised in grouped(document.scenarios, lambda one: one.advice).items():
        if text is not None:
            yield f"advice for {some([f'{one.benchmark}::{one.scenario}' for one in advised])}: {text}"
    counts = Counter(scenario.verdict.value for scenario in document.scenarios)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    yield f"{counted(len(document.scenarios), 'scenario')}: {listed}"
