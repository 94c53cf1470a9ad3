"""The scorer type `swebench`: runs the `eval_script` of a row of SWE-bench, reads its log, and judges by that.

The rules are those of the official harness 5. The tested code can print anything itself. In three places less is
believed than there: a marker that occurs twice, any exit status that is not 0, and a status that is none of the five
words never help.
"""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...model.errors import EnvironmentFailed, ScoreInvalid, ScorerCrashed
from ...model.scenario import ScorerSpec
from ...sandbox.protocol import File
from ...store.text import clean
from ...system.cutting import beginning_of
from ..params import names_of, text_of
from ..protocol import Graded, ScoringContext
from .logs import ERROR, FAILED, PARSERS, PASSED, SKIPPED, XFAIL, Parser

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
EXIT_STATUS = ">>>>> Test Exit Code"
_BAD = (
    ">>>>> Patch Apply Failed",
    ">>>>> Reset Failed",
    ">>>>> Tests Errored",
    ">>>>> Tests Timed Out",
)
_EXIT_STATUS_LINE = re.compile(rf"{EXIT_STATUS}:\s*(-?[0-9]+)")
_ENVIRONMENT = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|Cannot allocate memory|OutOfMemoryError|^Killed$",
    re.MULTILINE,
)
_PASSES = frozenset({PASSED, XFAIL})
_MAINTAINS = frozenset({PASSED, XFAIL, SKIPPED})
LOG_LIMIT = 32 * 1024 * 1024
"""The most bytes of a log that are read."""
_SCRIPT = "/eval.sh"
_PREFIX = "parse_log_"
_SHOWN = 20
_KEPT = 1024 * 1024
"""Characters of a log that are kept."""


def score_swebench(context: ScoringContext) -> Graded:
    """`swebench`: 1 if the tests of a row that must pass do, else 0.

    A script that does not reach its end is an error; the agent is its cause only if the script reaches its end without
    the agent's work. A log that the official harness calls invalid gives 0, as there.
    """
    spec = context.spec
    script, parser = text_of(spec, "eval_script"), _parser(spec)
    wanted = names_of(spec, "fail_to_pass"), names_of(spec, "pass_to_pass")
    context.sandbox.put(
        [File(_SCRIPT, content=with_exit_status(script).encode("utf-8", "replace"), clean=True)]
    )
    log = bytearray()

    def keep(chunk: bytes) -> None:
        if len(log) <= LOG_LIMIT:
            log.extend(chunk)

    # The markers come from `set -x`, on standard error: only the shell keeps both streams in order.
    context.run(f"exec /bin/bash {_SCRIPT} 2>&1", whole=keep)
    if len(log) > LOG_LIMIT:
        raise ScoreInvalid(f"scorer {spec.name!r}: the log has more than {LOG_LIMIT >> 20} MiB")
    text = log.decode("utf-8", "replace")
    reading = read_log(text, parser)
    if reading.is_cut:
        raise ScorerCrashed(
            f"scorer {spec.name!r}: the eval_script ended before its tests: {reading.problem}"
        )
    if reading.hint is not None:
        raise EnvironmentFailed(f"scorer {spec.name!r}: {reading.problem}, and it says {reading.hint!r}")
    verdict = judge(reading.statuses, *wanted)
    is_resolved = reading.problem is None and verdict.is_resolved
    details: dict[str, Any] = {
        "resolved": is_resolved,
        "fail_to_pass": list(verdict.fail_to_pass),
        "pass_to_pass": list(verdict.pass_to_pass),
        "failing": [beginning_of(name, 200) for name in verdict.failing[:_SHOWN]],
    }
    if reading.problem is not None:
        details["problem"] = reading.problem
    return Graded(float(is_resolved), clean(text, _KEPT), details)


def _parser(spec: ScorerSpec) -> Parser:
    name = text_of(spec, "log_parser").removeprefix(_PREFIX)
    if name not in PARSERS:
        raise ScorerCrashed(
            f"scorer {spec.name!r}: no log_parser {beginning_of(name, 100)!r}; there are {', '.join(sorted(PARSERS))}"
        )
    return PARSERS[name]


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """Statuses of tests in a log."""

    statuses: Mapping[str, str]
    problem: str | None = None
    """Reason why the log counts for nothing, as in the official harness; the statuses are empty then."""
    is_cut: bool = False
    """True if the script did not get as far as the end of the tests."""
    hint: str | None = None
    """Sign that the machine was the cause: no network, no memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Passed tests, of those that must pass."""

    fail_to_pass: tuple[int, int]
    """Passed and total, of the tests that the solution must make pass."""
    pass_to_pass: tuple[int, int]
    """Passed and total, of the tests that passed before, and may be skipped."""
    failing: tuple[str, ...]

    @property
    def is_resolved(self) -> bool:
        """True if nothing fails. An empty list passes."""
        return not self.failing


def read_log(log: str, parser: Parser) -> Reading:
    """Read the log of an `eval_script`, standard error included."""
    log = log.replace("\r\n", "\n").replace("\r", "\n")
    for bad in _BAD:
        if bad in log:
            return Reading({}, f"its log says {bad!r}")
    starts, ends = log.count(START), log.count(END)
    if not starts or not ends:
        missing = START if not starts else END
        return Reading({}, f"its log has no {missing!r}", is_cut=True, hint=_hint(log))
    if starts > 1 or ends > 1:
        return Reading(
            {}, "a marker of the harness is in its log twice, which only the tested code can print"
        )
    statuses = parser(log.split(START)[1].split(END)[0]) or parser(log)
    if not statuses:
        return Reading({}, "no test is listed in its log", hint=_hint(log))
    noted = (found[1] for found in _EXIT_STATUS_LINE.finditer(log))
    exit_status = next((beginning_of(status, 20) for status in noted if status.strip("-0")), None)
    if exit_status is not None and not any(status in (FAILED, ERROR) for status in statuses.values()):
        return Reading({}, f"the tests exited with status {exit_status}, and its log has no failure")
    return Reading(statuses)


def judge(statuses: Mapping[str, str], fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> Verdict:
    """Judge by the tests that have to pass."""
    table = _Table(statuses)
    failing_first = [name for name in fail_to_pass if table.status(name) not in _PASSES]
    failing_then = [name for name in pass_to_pass if table.status(name) not in _MAINTAINS]
    return Verdict(
        (len(fail_to_pass) - len(failing_first), len(fail_to_pass)),
        (len(pass_to_pass) - len(failing_then), len(pass_to_pass)),
        (*failing_first, *failing_then),
    )


class _Table:
    """Statuses by name, and by the beginning of a name whose parameters were cut off in the dataset."""

    def __init__(self, statuses: Mapping[str, str]) -> None:
        self._statuses = statuses
        self._order = {name: number for number, name in enumerate(statuses)}
        self._sorted: list[str] = []

    def status(self, name: str) -> str | None:
        """Return the status of a test; None: it was not run, or its name is ambiguous."""
        if name in self._statuses or name.count("[") <= name.count("]"):
            return self._statuses.get(name)
        found = sorted(self._beginning_with(name), key=self._order.__getitem__)
        if len({self._statuses[one] in _PASSES for one in found}) != 1:
            return None
        return self._statuses[found[0]]

    def _beginning_with(self, name: str) -> Iterable[str]:
        self._sorted = self._sorted or sorted(self._statuses)
        first = bisect.bisect_left(self._sorted, name)
        for at in range(first, len(self._sorted)):
            if not self._sorted[at].startswith(name):
                return
            yield self._sorted[at]


def _hint(log: str) -> str | None:
    found = _ENVIRONMENT.search(log)
    return None if found is None else found[0]


def with_exit_status(script: str) -> str:
    """The script, extended to print the exit status of its tests, as the official harness extends it."""
    extended = rf'SWEBENCH_TEST_EXIT_CODE=$?\n\g<0>\necho "{EXIT_STATUS}: $SWEBENCH_TEST_EXIT_CODE"'
    return re.sub(f"^.*{END}.*$", extended, script, count=1, flags=re.MULTILINE)
