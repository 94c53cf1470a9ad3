"""Bytes of a `junit.xml`: of few tests whole, of many below 1 MiB, however long ids, messages and properties are.

Written by hand: junitparser takes seconds for a thousand cases, and cannot tell how long a case will be. The room of a
short file is allotted before anything is written. Failed cases come first, with everything a short file has about them.
If even these have no room, names and messages are cut, and then cases are left out. Other cases get the remaining room,
in the order of the job. Attachments, quoted logs and the properties of suites have their own shares. The number of
cases left out is stated, and the place of the whole report.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal
from xml.sax.saxutils import escape

from ..analysis.trials import grouped
from ..model.job import JobRecord
from ..store.text import one_line
from .properties import DECLARATION, Property

LIMIT = 1024 * 1024
"""Limit of a file, in bytes."""
SHARE = LIMIT // 8
"""Shares of all attachments, of all quoted logs, and of the properties of all suites, in bytes."""
_CUT = 100
"""Characters of a name or message where not all failed cases have room otherwise."""
_QUOTED = {'"': "&quot;"}
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
        one.xml = _case(one, short=short)
    file = _File(record, cases, properties, short=short)
    failed = [one for one in cases if one.failed]
    if sum(len(one.xml) for one in failed) + file.around(failed) > file.room:
        _name(cases, _CUT)
        for one in cases:
            one.message, one.attachment, one.text = one_line(one.message, _CUT), "", ""
            one.xml = _case(one, short=short)
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


def _case(case: Case, *, short: bool) -> bytes:
    start = {
        "classname": case.classname,
        "name": case.name,
        "time": str(round(case.seconds, 1 if short else 3)),
    }
    if case.file is not None:
        start["file"] = case.file
    inside = b""
    if case.properties:
        inside = b"".join(_property(name, str(value)) for name, value in case.properties)
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


def _property(name: str, value: str) -> bytes:
    return _start("property", {"name": name, "value": value}, "/>")


def _start(tag: str, attributes: dict[str, str], end: str = ">") -> bytes:
    told = [f'{name}="{escape(value, _QUOTED)}"' for name, value in attributes.items()]
    return f"<{' '.join((tag, *told))}{end}".encode()
