"""`junit.xml`: a suite for each benchmark, a case for each pytest test, with pytest's names.

A test is a trial; under a policy that makes one verdict of several attempts, all attempts of a scenario and agent.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..analysis.known_failures import is_xfail, surprising, waived
from ..analysis.statistics import mean_interval
from ..analysis.trials import grouped
from ..analysis.verdict import verdicts
from ..model.gate import GateReport
from ..model.job import JobRecord
from ..model.result import FailureClass, Outcome, TrialResult
from ..store.text import one_line
from .console import describe, failure_text, headline
from .excerpts import Evidence
from .junit_file import SHARE, Case, written
from .properties import Property, properties
from .units import number

FULL_CASES = 1000
"""Files with more cases are shortened: CI systems store and render every byte, and `report.json` has everything."""
_ATTACHED = 500
"""Most logs attached, and most cases of a shortened file with quoted logs."""
_EXCERPTS = 2 << 20
"""Most bytes of logs quoted by all cases together."""
_SHORT_LINES, _SHORT_SIZE = 5, 400
"""Most lines and characters of each log quoted by a case of a shortened file."""
_Key = tuple[str, str, str]


def junit_xml(
    record: JobRecord,
    results: Sequence[TrialResult],
    gate: GateReport | None = None,
    *,
    attachment: Callable[[TrialResult], str | None] = lambda _: None,
    file: Callable[[str], str] = str,
    evidence: Evidence | None = None,
) -> bytes:
    """Return the whole file, UTF-8. Times are in seconds. `evidence` has the last lines of logs, quoted within limits.

    `attachment` returns the path of a trial's log for the CI system, if it has attachments; `file` converts the path
    in a node id to the CI system's path.
    """
    judged = verdicts(results, record.config)
    attached = _attachments(judged, attachment)
    by_benchmark = grouped(results, lambda result: result.benchmark)
    short = len(judged) > FULL_CASES
    marks = {} if gate is None or short else _marks(gate)
    logs = _Logs(evidence, short=short)
    cases = []
    for result in judged:
        case = _case(result, short=short)
        case.attachment = attached.get(result.node_id, "")
        if case.failed or (case.kind != "passed" and not short):
            case.text = logs.of(result)
        if not short:
            case.properties = _properties(record, result, marks)
            if case.failed:
                case.file = one_line(file(result.node_id.partition("::")[0]), 500)
        cases.append(case)
    return written(
        record, cases, lambda benchmark: _of_suite(record, by_benchmark[benchmark], gate), short=short
    )


def case_names(node_id: str) -> tuple[str, str]:
    """Return `classname` and `name` of a node id, as pytest's own writer makes them."""
    address, bracket, parameters = node_id.partition("[")
    path, *names = address.split("::")
    parts = [path.replace("/", ".").removesuffix(".py"), *names]
    parts[-1] += bracket + parameters
    return ".".join(parts[:-1]), parts[-1]


def _attachments(
    told: Iterable[TrialResult], attachment: Callable[[TrialResult], str | None]
) -> dict[str, str]:
    """Return the logs of trials that did not pass, by node id: as many as CI systems can handle."""
    unsolved = (result for result in told if result.outcome in (Outcome.FAILED, Outcome.ERROR))
    found = ((result.node_id, path) for result in unsolved if (path := attachment(result)) is not None)
    return {node_id: one_line(path) for node_id, path in itertools.islice(found, _ATTACHED)}


def _properties(record: JobRecord, result: TrialResult, marks: Mapping[_Key, str]) -> list[Property]:
    listed = properties(result)
    if record.config.attempt_policy.aggregates:
        listed.append(("bench_attempts", record.config.of(result.benchmark).attempts))
    mark = marks.get((result.benchmark, result.scenario, result.agent.label))
    return [*listed, ("bench_gate", mark)] if mark else listed


def _of_suite(
    record: JobRecord, results: Iterable[TrialResult], gate: GateReport | None
) -> Iterator[Property]:
    """Return the properties of a benchmark of the job. The interval is that of the mean over scenarios, at 95 %."""
    yield "bench_job", record.id
    by_agent = grouped(results, lambda result: result.agent.label)
    for label, of_agent in by_agent.items():
        whose = f"[{one_line(label, 200)}]" if len(by_agent) > 1 else ""
        scores, clusters = _scores(of_agent)
        if scores:
            yield f"bench_mean{whose}", number(sum(scores) / len(scores))
        interval = mean_interval(scores, clusters=clusters)
        if interval is not None:
            yield f"bench_ci_low{whose}", number(interval.low)
            yield f"bench_ci_high{whose}", number(interval.high)
    if gate is not None:
        yield "bench_gate", gate.verdict.value
        yield "bench_gate_why", one_line(gate.why, 500)
        if gate.baseline is not None:
            yield "bench_baseline", one_line(gate.baseline, 200)
    git = record.reproducibility.get("git")
    for key in ("commit", "branch"):
        if isinstance(git, dict) and isinstance(git.get(key), str):
            yield f"bench_{key}", one_line(git[key], 200)


def _scores(results: Sequence[TrialResult]) -> tuple[list[float], list[str]]:
    """Return the mean score of each scenario that has one, and its cluster."""
    scored = grouped(
        (result for result in results if result.score is not None), lambda result: result.scenario
    )
    means = [sum(one.score or 0.0 for one in group) / len(group) for group in scored.values()]
    return means, [group[0].cluster or f"scenario {name}" for name, group in scored.items()]


def _marks(gate: GateReport) -> dict[_Key, str]:
    return {
        (change.benchmark, change.scenario, change.agent): word
        for word, changes in (("suspect", gate.suspects), ("fixed", gate.fixed), ("broke", gate.broke))
        for change in changes
    }


class _Logs:
    """The last lines of logs that cases quote, while there is room."""

    def __init__(self, evidence: Evidence | None, *, short: bool) -> None:
        self._evidence, self._short = evidence, short
        self._room, self._left = (SHARE, _ATTACHED) if short else (_EXCERPTS, sys.maxsize)

    def of(self, result: TrialResult) -> str:
        """Return the text of a case that did not pass: why, and logs; in a shortened file logs alone."""
        shown = None
        if self._evidence is not None and self._room > 0 and self._left > 0:
            limits = {"lines": _SHORT_LINES, "size": _SHORT_SIZE} if self._short else {}
            shown = self._evidence.of(result, **limits)
            self._left -= 1
            self._room -= sum(len(one.text.encode()) for one in shown)
        return (
            "\n".join(one.text for one in shown or ()) if self._short else failure_text(result, shown=shown)
        )


def _case(result: TrialResult, *, short: bool) -> Case:
    seconds = 0.0 if result.reused else max(0.0, result.seconds)
    classname, name = case_names(result.node_id)
    case = Case(result.benchmark, classname, name, seconds, *_end(result, short=short))
    if short and result.outcome is Outcome.PASSED and result.score is not None and result.score < 1:
        case.properties = [("bench_score", number(result.score))]
    return case


def _end(result: TrialResult, *, short: bool) -> tuple[str, str, str | None]:
    """Return kind, message and type of a case."""
    if result.known is not None:
        reason = one_line(result.known.text, 100 if short else 2000)
        # As in pytest's own writer.
        if waived(result):
            return "skipped", reason, "pytest.xfail"
        if surprising(result):
            return "failure", f"[XPASS(strict)] {reason}", "xpass_strict"
        if result.outcome is Outcome.SKIPPED and not is_xfail(result):
            return "skipped", reason, "pytest.skip"
    class_ = one_line(result.failure.class_, 60) if result.failure else result.outcome.value
    if result.outcome is Outcome.FAILED:
        if short and class_ == FailureClass.BELOW_THRESHOLD:
            below = f" < {number(result.threshold)}"
            message = "no score" if result.score is None else f"score {number(result.score)}{below}"
            return "failure", message, None
        return "failure", headline(result), class_
    if result.outcome is Outcome.ERROR:
        line = result.outcome.value if short else headline(result)
        message = f"{line}: {result.failure.message}" if result.failure else line
        return "error", one_line(message, 100 if short else 495), class_
    if result.outcome in (Outcome.SKIPPED, Outcome.CANCELLED):
        return "skipped", result.outcome.value if short else describe(result), result.outcome.value
    return "passed", "", None
