"""`junit.xml`: a suite for each benchmark, a case for each pytest test, with pytest's names.

A test is a trial; under a policy that makes one verdict of several attempts, all attempts of a scenario and agent.
"""

# mypy: disable-error-code="no-untyped-call"
# junitparser is typed, except for methods without anything to annotate.

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from junitparser import Attr, Error, Failure, Properties, Skipped
from junitparser.junitparser import FinalResult
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite

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
from .properties import DECLARATION, Property, properties
from .units import number

if TYPE_CHECKING:
    from .junit_short import Case

FULL_CASES = 1000
"""Files with more cases are shortened: CI systems store and render every byte, and `report.json` has everything."""
_KINDS: dict[type[FinalResult], str] = {Failure: "failure", Error: "error", Skipped: "skipped"}
_ATTACHED = 500
_EXCERPTS = 2 << 20
"""Most characters of logs quoted by all cases together."""
_SHORT_LINES, _SHORT_SIZE = 5, 400
"""Most lines and characters of each log quoted by a case of a shortened file."""
_Key = tuple[str, str, str]


class _Case(TestCase):
    file = Attr("file")


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
    told = verdicts(results, record.config)
    attached = _attachments(told, attachment)
    by_benchmark = grouped(results, lambda result: result.benchmark)
    if len(told) > FULL_CASES:
        from .junit_short import short_junit

        return short_junit(
            record,
            list(_short_cases(told, attached, evidence)),
            lambda benchmark: _of_suite(record, by_benchmark[benchmark], gate),
        )
    marks = {} if gate is None else _marks(gate)
    suites: dict[str, TestSuite] = {}
    names: set[tuple[str, str]] = set()
    explain = _Explain(evidence)
    for result in told:
        suite = suites.get(result.benchmark)
        if suite is None:
            suite = suites[result.benchmark] = TestSuite(one_line(result.benchmark, 200))
            suite.timestamp = record.created_at.isoformat()
        told_of = properties(result)
        if record.config.attempt_policy.aggregates:
            told_of.append(("bench_attempts", record.config.of(result.benchmark).attempts))
        mark = marks.get((result.benchmark, result.scenario, result.agent.label))
        told_of += [("bench_gate", mark)] if mark else []
        case = _case(result, names, told_of, explain)
        if result.outcome in (Outcome.FAILED, Outcome.ERROR):
            case.file = one_line(file(result.node_id.partition("::")[0]), 500)
        if result.node_id in attached:
            case.system_out = f"[[ATTACHMENT|{attached[result.node_id]}]]"
        suite.append(case)
    for benchmark, suite in suites.items():
        for name, value in _of_suite(record, by_benchmark[benchmark], gate):
            suite.add_property(name, str(value))
    return _written(one_line(record.name or record.id, 200), suites.values())


def case_names(node_id: str) -> tuple[str, str]:
    """Return `classname` and `name` of a node id, as pytest's own writer makes them."""
    address, bracket, parameters = node_id.partition("[")
    path, *names = address.split("::")
    parts = [path.replace("/", ".").removesuffix(".py"), *names]
    parts[-1] += bracket + parameters
    return ".".join(parts[:-1]), parts[-1]


def _written(name: str, suites: Iterable[TestSuite]) -> bytes:
    document = JUnitXml(name)
    for suite in suites:
        suite.update_statistics()
        document.append(suite)
    document.update_statistics()
    # Not by its `tostring`: it encodes piece by piece, which takes a third of the time of the report.
    content = ElementTree.tostring(document._elem, encoding="unicode")
    return DECLARATION + content.encode("utf-8", "xmlcharrefreplace")


def _attachments(
    told: Iterable[TrialResult], attachment: Callable[[TrialResult], str | None]
) -> dict[str, str]:
    """Return the logs of trials that did not pass, by node id: as many as CI systems can handle."""
    unsolved = (result for result in told if result.outcome in (Outcome.FAILED, Outcome.ERROR))
    found = ((result.node_id, path) for result in unsolved if (path := attachment(result)) is not None)
    return {node_id: one_line(path) for node_id, path in itertools.islice(found, _ATTACHED)}


def _short_cases(
    told: Iterable[TrialResult], attached: Mapping[str, str], evidence: Evidence | None
) -> Iterator[Case]:
    from .junit_short import SHARE, Case

    room, left = SHARE, _ATTACHED
    for result in told:
        classname, name = case_names(result.node_id)
        case = Case(result.benchmark, classname, name, 0.0 if result.reused else max(0.0, result.seconds))
        case.attachment = attached.get(result.node_id)
        if result.outcome is Outcome.PASSED and result.score is not None and result.score < 1:
            case.score = number(result.score)
        outcome = _outcome(result, short=True)
        if outcome is not None:
            case.kind, case.message, case.type = _KINDS[type(outcome)], outcome.message or "", outcome.type
            if evidence is not None and room > 0 and left > 0 and case.failed:
                left -= 1
                shown = evidence.of(result, lines=_SHORT_LINES, size=_SHORT_SIZE)
                case.text = "\n".join(one.text for one in shown)
                room -= len(case.text.encode())
        yield case


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


class _Explain:
    """Writer of failure texts, with the last lines of logs while there is room."""

    def __init__(self, evidence: Evidence | None) -> None:
        self._evidence = evidence
        self._room = _EXCERPTS

    def __call__(self, result: TrialResult) -> str:
        shown = None
        if self._evidence is not None and self._room > 0:
            shown = self._evidence.of(result)
            self._room -= sum(len(one.text) for one in shown)
        return failure_text(result, shown=shown)


def _case(
    result: TrialResult,
    names: set[tuple[str, str]],
    values: Sequence[Property],
    explain: Callable[[TrialResult], str],
) -> _Case:
    classname, name = (one_line(part, 500) for part in case_names(result.node_id))
    # GitLab ignores all but the first case of a name, and long names are cut.
    unique, count = name, 1
    while (classname, unique) in names:
        count += 1
        unique = f"{name} ({count})"
    names.add((classname, unique))
    case = _Case(unique, classname, 0.0 if result.reused else round(result.seconds, 3))
    if values:
        # Not by `add_property`: it searches the list each time, which takes most of the time of the report.
        listed = ElementTree.Element("properties")
        for key, value in values:
            ElementTree.SubElement(listed, "property", name=key, value=str(value))
        case.append(Properties.fromelem(listed))
    outcome = _outcome(result, short=False)
    if outcome is not None:
        outcome.text = explain(result)
        case.result = [outcome]
    return case


def _outcome(result: TrialResult, *, short: bool) -> FinalResult | None:
    if result.known is not None:
        reason = one_line(result.known.text, 100 if short else 2000)
        # As in pytest's own writer.
        if waived(result):
            return Skipped(reason, "pytest.xfail")
        if surprising(result):
            return Failure(f"[XPASS(strict)] {reason}", "xpass_strict")
        if result.outcome is Outcome.SKIPPED and not is_xfail(result):
            return Skipped(reason, "pytest.skip")
    class_ = one_line(result.failure.class_, 60) if result.failure else result.outcome.value
    if result.outcome is Outcome.FAILED:
        if short and class_ == FailureClass.BELOW_THRESHOLD:
            below = number(result.threshold)
            return Failure("no score" if result.score is None else f"score {number(result.score)} < {below}")
        return Failure(headline(result), class_)
    if result.outcome is Outcome.ERROR:
        line = result.outcome.value if short else headline(result)
        message = one_line(
            f"{line}: {result.failure.message}" if result.failure else line, 100 if short else 495
        )
        return Error(message, class_)
    if result.outcome in (Outcome.SKIPPED, Outcome.CANCELLED):
        return Skipped(result.outcome.value if short else describe(result), result.outcome.value)
    return None
