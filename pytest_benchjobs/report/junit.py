"""`junit.xml`: a suite for each benchmark, a case for each test of pytest, named as pytest names it.

A test is a trial; under a policy that makes one verdict of several attempts, all attempts of a scenario and agent.
"""

# mypy: disable-error-code="no-untyped-call"
# junitparser is typed, but for the methods that have nothing to annotate.

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from junitparser import Error, Failure, Properties, Skipped
from junitparser.junitparser import FinalResult
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite

from ..analysis.known import is_xfail, surprising, waived
from ..analysis.verdict import verdicts
from ..model.job import JobRecord
from ..model.result import Outcome, TrialResult
from ..store.text import one_line
from .console import describe, failure_text
from .properties import properties

DECLARATION = b'<?xml version="1.0" encoding="utf-8"?>\n'


def junit_xml(record: JobRecord, results: Sequence[TrialResult]) -> bytes:
    """The whole file, UTF-8. Times are in seconds."""
    suites: dict[str, TestSuite] = {}
    for result in verdicts(results, record.config):
        suite = suites.get(result.benchmark)
        if suite is None:
            suite = suites[result.benchmark] = TestSuite(one_line(result.benchmark, 200))
            suite.timestamp = record.created_at.isoformat()
            suite.add_property("bench_job", record.id)
        suite.append(_case(result))
    document = JUnitXml(one_line(record.name or record.id, 200))
    for suite in suites.values():
        suite.update_statistics()
        document.append(suite)
    document.update_statistics()
    content: bytes = document.tostring()
    return DECLARATION + content


def case_names(node_id: str) -> tuple[str, str]:
    """`classname` and `name`, as pytest's own writer makes them of a node id."""
    address, bracket, parameters = node_id.partition("[")
    path, *names = address.split("::")
    parts = [path.replace("/", ".").removesuffix(".py"), *names]
    parts[-1] += bracket + parameters
    return ".".join(parts[:-1]), parts[-1]


def _case(result: TrialResult) -> TestCase:
    classname, name = case_names(result.node_id)
    case = TestCase(
        one_line(name, 500), one_line(classname, 500), 0.0 if result.reused else round(result.seconds, 3)
    )
    # Not by `add_property`, which looks for the list again each time and takes most of the time of the report.
    listed = ElementTree.Element("properties")
    for key, value in properties(result):
        ElementTree.SubElement(listed, "property", name=key, value=str(value))
    case.append(Properties.fromelem(listed))
    outcome = _outcome(result)
    if outcome is not None:
        outcome.text = failure_text(result)
        case.result = [outcome]
    return case


def _outcome(result: TrialResult) -> FinalResult | None:
    line = describe(result)
    if result.known is not None:
        reason = one_line(result.known.text, 2000)
        # As pytest's own writer has them.
        if waived(result):
            return Skipped(reason, "pytest.xfail")
        if surprising(result):
            return Failure(f"[XPASS(strict)] {reason}", "xpass_strict")
        if result.outcome is Outcome.SKIPPED and not is_xfail(result):
            return Skipped(reason, "pytest.skip")
    class_ = one_line(result.failure.class_, 60) if result.failure else result.outcome.value
    if result.outcome is Outcome.FAILED:
        return Failure(line, class_)
    if result.outcome is Outcome.ERROR:
        message = one_line(f"{line}: {result.failure.message}" if result.failure else line, 500)
        return Error(message, class_)
    if result.outcome in (Outcome.SKIPPED, Outcome.CANCELLED):
        return Skipped(line, result.outcome.value)
    return None
