"""`junit.xml`: a suite for each benchmark, a case for each pytest test, with pytest's names.

A test is a trial; under a policy that makes one verdict of several attempts, all attempts of a scenario and agent.
A file of few tests is whole, one of many below 1 MiB, however long ids, messages and properties are. It is written by
hand: junitparser takes seconds for a thousand cases, and cannot tell how long a case will be. The room of a short file
is allotted before anything is written. Failed cases come first, with everything a short file has about them. If even
these have no room, names and messages are cut, and then cases are left out. Other cases get the remaining room, in the
order of the job. Attachments, quoted logs and the properties of suites have their own shares. The number of cases left
out is stated, and the place of the whole report.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ..analysis.known_failures import is_xfail, surprising, waived
from ..analysis.statistics.inversion import mean_interval
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
        if not self._short:
            return failure_text(result, shown=shown)
        return "\n".join(one.text for one in shown or ())


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


LIMIT = 1024 * 1024
"""Limit of a file, in bytes."""
SHARE = LIMIT // 8
"""Shares of all attachments, of all quoted logs, and of the properties of all suites, in bytes."""
_CUT = 100
"""Characters of a name or message where not all failed cases have room otherwise."""
escape = functools.partial(html.escape, quote=False)
_KINDS = ("passed", "failure", "error", "skipped")


@dataclasses.dataclass(slots=True)
class Case:
    """Contents of a test case."""

    suite: str
    classname: str
    name: str
    seconds: float
    kind: str = "passed"
    """`passed`, `failure`, `error` or `skipped`."""
    message: str = ""
    type: str | None = None
    file: str | None = None
    properties: Sequence[Property] = ()
    attachment: str = ""
    text: str = ""
    """Why it did not pass, or the last lines of the logs alone."""
    xml: bytes = b""
    is_taken: bool = False
    """True if it is in the file."""

    @property
    def failed(self) -> bool:
        """True for a failure or an error."""
        return self.kind in ("failure", "error")


def written(
    record: JobRecord,
    cases: Sequence[Case],
    properties: Callable[[str], Iterable[Property]],
    *,
    short: bool,
) -> bytes:
    """Return the whole file; `short` has a limit. `properties` returns those of a suite."""
    _name(cases, 500)
    if short:
        _fit(cases, "attachment", lambda path: len(_attachment(path)))
        _fit(cases, "text", lambda text: len(escape(text).encode()))
    for one in cases:
        one.xml = _case_xml(one, short=short)
    file = _File(record, cases, properties, short=short)
    failed = [one for one in cases if one.failed]
    if sum(len(one.xml) for one in failed) + file.around(failed) > file.room:
        _name(cases, _CUT)
        for one in cases:
            one.message, one.attachment, one.text = one_line(one.message, _CUT), "", ""
            one.xml = _case_xml(one, short=short)
    taken = [file.take(one) for one in failed]
    # No other case while a failed one is left out.
    if all(taken):
        for one in cases:
            if not one.failed:
                file.take(one)
    return file.written(cases)


class _File:
    """Cases taken into the file, and the remaining room."""

    def __init__(
        self,
        record: JobRecord,
        cases: Sequence[Case],
        properties: Callable[[str], Iterable[Property]],
        *,
        short: bool,
    ) -> None:
        self._record, self._short = record, short
        self._whole = f"report.json of job {record.id}"
        self._suites = grouped(cases, lambda one: one.suite)
        share = SHARE // max(1, len(self._suites)) if short else math.inf
        self._properties = {suite: _fitting(properties(suite), share) for suite in self._suites}
        self._begun: set[str] = set()
        # An upper bound of every number in the file: as if every case was both in it and left out.
        self._prices = {
            suite: len(self._suite(suite, of_suite, _kinds(of_suite), b""))
            for suite, of_suite in self._suites.items()
        }
        limit = LIMIT if short else math.inf
        self.room = limit - 1 - len(self._document(b"", cases, _kinds(cases)))

    def around(self, cases: Iterable[Case]) -> int:
        """Return the most bytes that the suites of these cases need."""
        return sum(self._prices[suite] for suite in {one.suite for one in cases})

    def take(self, case: Case) -> bool:
        """Take the case into the file, if there is room."""
        needed = len(case.xml) + (0 if case.suite in self._begun else self._prices[case.suite])
        if needed > self.room:
            return False
        self.room -= needed
        self._begun.add(case.suite)
        case.is_taken = True
        return True

    def written(self, cases: Sequence[Case]) -> bytes:
        """Return the file with the taken cases, in the order of the job."""
        suites = []
        for suite, of_suite in self._suites.items():
            if suite in self._begun:
                kept = [one for one in of_suite if one.is_taken]
                left = _kinds(of_suite) - _kinds(kept)
                suites.append(self._suite(suite, kept, left, b"".join(one.xml for one in kept)))
        kept = [one for one in cases if one.is_taken]
        return self._document(b"".join(suites), kept, _kinds(cases) - _kinds(kept))

    def _suite(self, suite: str, cases: Sequence[Case], left: Counter[str], body: bytes) -> bytes:
        properties, dropped = self._properties[suite]
        told = [properties]
        if left or dropped:
            what = _words(left + Counter({"property" if dropped == 1 else "properties": dropped}))
            told += [_property("bench_left_out", what), _property("bench_whole", self._whole)]
        if self._short:
            told.append(_property("bench_detail", "short"))
        head = {"name": one_line(suite, 200), **_statistics(cases)}
        start = _start("testsuite", {**head, "timestamp": self._record.created_at.isoformat()})
        return b"".join((start, b"<properties>", *told, b"</properties>\n", body, b"</testsuite>\n"))

    def _document(self, suites: bytes, cases: Sequence[Case], left: Counter[str]) -> bytes:
        comment = f"<!-- Left out of this file: {_words(left)}. The whole is in {self._whole}. -->\n"
        name = one_line(self._record.name or self._record.id, 200)
        return b"".join(
            (
                DECLARATION,
                comment.encode() if left else b"",
                _start("testsuites", {"name": name, **_statistics(cases)}),
                b"\n",
                suites,
                b"</testsuites>",
            )
        )


def _name(cases: Sequence[Case], limit: int) -> None:
    """Cut names to `limit` characters, and number equal ones: GitLab ignores all but the first."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in cases:
        one.classname, name = one_line(one.classname, limit), one_line(one.name, limit)
        key = first = one.classname, name
        while key in seen:
            seen[first] += 1
            key = one.classname, f"{name} ({seen[first]})"
        seen[key] = 1
        one.name = key[1]


def _fit(cases: Sequence[Case], field: Literal["attachment", "text"], size: Callable[[str], int]) -> None:
    """Keep a field of the first cases, as long as there is room in its share."""
    room = SHARE
    for one in cases:
        if value := getattr(one, field):
            room -= size(value)
            if room < 0:
                setattr(one, field, "")


def _fitting(properties: Iterable[Property], share: float) -> tuple[bytes, int]:
    """Return the properties that fit, and the number of the others. Those of single agents come last."""
    listed = [(_property(name, str(value)), "[" in name) for name, value in properties]
    kept: set[int] = set()
    for place, (text, _) in sorted(enumerate(listed), key=lambda one: one[1][1]):
        share -= len(text)
        if share >= 0:
            kept.add(place)
    return b"".join(text for place, (text, _) in enumerate(listed) if place in kept), len(listed) - len(kept)


def _kinds(cases: Iterable[Case]) -> Counter[str]:
    return Counter(one.kind for one in cases)


def _words(left: Counter[str]) -> str:
    """`2,013 passed, 1 skipped`."""
    words = {"failure": "failed", "error": "with an error"}
    order = (*_KINDS, "property", "properties")
    return ", ".join(f"{left[kind]:,} {words.get(kind, kind)}" for kind in order if left[kind])


def _statistics(cases: Sequence[Case]) -> dict[str, str]:
    kinds = _kinds(cases)
    return {
        "tests": str(len(cases)),
        "failures": str(kinds["failure"]),
        "errors": str(kinds["error"]),
        "skipped": str(kinds["skipped"]),
        "time": f"{sum(one.seconds for one in cases):.1f}",
    }


def _case_xml(case: Case, *, short: bool) -> bytes:
    start = {
        "classname": case.classname,
        "name": case.name,
        "time": str(round(case.seconds, 1 if short else 3)),
    }
    if case.file is not None:
        start["file"] = case.file
    inside = b""
    if case.properties:
        inside = b"".join([_property(name, str(value)) for name, value in case.properties])
        inside = b"<properties>" + inside + b"</properties>"
    if case.kind != "passed":
        type_ = {} if case.type is None else {"type": case.type}
        start_of_kind = {"message": case.message, **type_}
        if case.text:
            inside += _start(case.kind, start_of_kind) + f"{escape(case.text)}</{case.kind}>".encode()
        else:
            inside += _start(case.kind, start_of_kind, "/>")
    if case.attachment:
        inside += _attachment(case.attachment)
    if not inside:
        return _start("testcase", start, "/>\n")
    return _start("testcase", start) + inside + b"</testcase>\n"


def _attachment(path: str) -> bytes:
    return f"<system-out>[[ATTACHMENT|{escape(path)}]]</system-out>".encode()


@functools.lru_cache(maxsize=1024)  # most are the same in all cases of a file
def _property(name: str, value: str) -> bytes:
    return _start("property", {"name": name, "value": value}, "/>")


def _start(tag: str, attributes: dict[str, str], end: str = ">") -> bytes:
    told = [name + '="' + escape(value).replace('"', "&quot;") + '"' for name, value in attributes.items()]
    return f"<{' '.join((tag, *told))}{end}".encode()
