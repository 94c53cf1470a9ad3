"""Merging of JUnit files of any origin, such as those of CI shards."""

# mypy: disable-error-code="no-untyped-call"
# junitparser is typed, except for methods without anything to annotate.

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Iterable, Sequence
from pathlib import Path

from junitparser import JUnitXml, JUnitXmlError, Properties, TestCase, TestSuite

from ..model.errors import InputError
from .properties import DECLARATION

_Key = tuple[str | None, str | None]


@dataclasses.dataclass(slots=True)
class _Suite:
    """A suite merged from those with the same name."""

    first: TestSuite
    properties: dict[tuple[str, str], None] = dataclasses.field(default_factory=dict)
    cases: dict[_Key, tuple[int, list[TestCase]]] = dataclasses.field(default_factory=dict)
    """Cases by name, with the number of their file: a later one counts. A file may have a case twice: pytest adds one
    for an error in a fixture. They belong together."""
    files: int = 0
    suites: dict[str | None, _Suite] = dataclasses.field(default_factory=dict)

    def add(self, suite: TestSuite) -> None:
        """Add a suite of a later file."""
        self.properties.update(
            dict.fromkeys((str(each.name), str(each.value)) for each in suite.properties())
        )
        cases: dict[_Key, list[TestCase]] = {}
        for case in suite.iterchildren(TestCase):
            cases.setdefault((case.classname, case.name), []).append(case)
        self.files += 1
        self.cases.update({key: (self.files, alike) for key, alike in cases.items()})
        _add_all(self.suites, suite.testsuites())

    def joined(self) -> TestSuite:
        """Return the merged suite."""
        suite = TestSuite(self.first.name)
        for name in ("hostname", "timestamp"):
            if getattr(self.first, name) is not None:
                setattr(suite, name, getattr(self.first, name))
        for name, value in self.properties:
            suite.add_property(name, value)
        for cases in self._united():
            suite.extend(cases)
        suite.extend([nested.joined() for nested in self.suites.values()])
        suite.update_statistics()
        return suite

    def _united(self) -> Iterable[list[TestCase]]:
        """Return the cases of each test; a trial by `NAME::x`, as of earlier versions, is the one by `PATH::x`.

        Where two paths have a trial of one name, neither is meant.
        """
        trials: dict[tuple[str, str | None], list[_Key]] = {}
        for key, (_, cases) in self.cases.items():
            if (benchmark := self._benchmark(cases[0])) is not None:
                trials.setdefault((benchmark.replace("/", "."), key[1]), []).append(key)
        united = {**self.cases}
        for (benchmark, name), keys in trials.items():
            if len(keys) == 2 and (benchmark, name) in keys:
                first, other = keys
                united[first] = max(self.cases[first], united.pop(other), key=operator.itemgetter(0))
        return [cases for _, cases in united.values()]

    def _benchmark(self, case: TestCase) -> str | None:
        """Return the benchmark of a trial, which pytest's own file has with the case, ours as the suite; else None."""
        for one in itertools.chain.from_iterable(case.iterchildren(Properties)):
            if one.name == "bench_benchmark":
                return str(one.value)
        is_ours = any(name == "bench_job" for name, _ in self.properties)
        return str(self.first.name) if is_ours else None


def merge_junit(paths: Sequence[Path]) -> tuple[bytes, int]:
    """Merge files; return the merged file and its number of cases.

    Suites of the same name become one. Of a case that is in several files, the last one counts.

    Raises InputError: one is no JUnit file, with its path and line.
    """
    suites: dict[str | None, _Suite] = {}
    name = None
    for path in paths:
        document = _read(path)
        name = name or document.name
        _add_all(suites, document)
    merged = JUnitXml(name)
    for suite in suites.values():
        merged.append(suite.joined())
    merged.update_statistics()
    content: bytes = merged.tostring()
    return DECLARATION + content, int(merged.tests or 0)


def _add_all(suites: dict[str | None, _Suite], found: Iterable[TestSuite]) -> None:
    for suite in found:
        if suite.name not in suites:
            suites[suite.name] = _Suite(suite)
        suites[suite.name].add(suite)


def _read(path: Path) -> JUnitXml:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        # Entities can expand a few lines to gigabytes, or read other files.
        raise InputError("has a document type, which JUnit files have not", path=path)
    try:
        document = JUnitXml.fromstring(content)
        for suite in document:
            suite.update_statistics()  # invalid numbers
    except JUnitXmlError as error:
        raise InputError(
            "is no JUnit file: its first element is neither testsuites nor testsuite", path=path
        ) from error
    except SyntaxError as error:
        line = error.lineno or getattr(error, "position", (None, 0))[0]
        raise InputError(f"is no XML: {error.msg}", path=path, line=line) from error
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"is no JUnit file: {error}", path=path) from error
    return document
