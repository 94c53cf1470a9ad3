from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.report.junit_merge import merge_junit


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def suite(name: str, *cases: str, more: str = "") -> str:
    return f'<testsuite name="{name}">{more}{"".join(cases)}</testsuite>'


def case(name: str, inside: str = "", classname: str = "tests.test_x", time: float = 1.5) -> str:
    return f'<testcase classname="{classname}" name="{name}" time="{time}">{inside}</testcase>'


def merged(*paths: Path) -> ElementTree.Element:
    content, count = merge_junit(paths)
    root = ElementTree.fromstring(content)
    assert count == len(root.findall(".//testcase"))
    assert content.startswith(b"<?xml")
    return root


def counts(element: ElementTree.Element) -> tuple[str | None, ...]:
    return tuple(element.get(name) for name in ("tests", "failures", "errors", "skipped", "time"))


def names(element: ElementTree.Element) -> list[str | None]:
    return [each.get("name") for each in element.findall("testcase")]


def test_suites_of_the_same_name_become_one_and_the_later_of_two_cases_wins(tmp_path: Path) -> None:
    failed = case("b", '<failure message="no"/>')
    suites = suite("s", case("a"), failed) + suite("only-one", case("x"))
    one = write(tmp_path / "1.xml", f"<testsuites name='first'>{suites}</testsuites>")
    two = write(
        tmp_path / "2.xml", suite("s", case("b", time=3), case("c", "<error/>"), case("d", "<skipped/>"))
    )
    root = merged(one, two)
    assert root.get("name") == "first"
    assert [each.get("name") for each in root] == ["s", "only-one"]
    assert names(root[0]) == ["a", "b", "c", "d"]
    assert counts(root[0]) == ("4", "0", "1", "1", "7.5")
    assert counts(root) == ("5", "0", "1", "1", "9.0")
    assert counts(merged(two, one)) == ("5", "1", "1", "1", "7.5")
    assert sum(map(len, JUnitXml.fromstring(merge_junit([one, two])[0]))) == 5


def test_merging_a_file_with_itself_or_with_what_it_is_part_of_changes_nothing(tmp_path: Path) -> None:
    one = write(tmp_path / "1.xml", suite("s", case("a"), case("b", "<failure/>")))
    once, count = merge_junit([one])
    both = tmp_path / "both.xml"
    both.write_bytes(once)
    assert merge_junit([one, one]) == (once, count)
    assert merge_junit([both, one]) == (once, count)


def test_two_cases_of_a_name_in_one_file_stay_together(tmp_path: Path) -> None:
    # As pytest writes a test whose fixture breaks after it failed.
    one = write(tmp_path / "1.xml", suite("pytest", case("a", "<failure/>"), case("a", "<error/>")))
    assert counts(merged(one)[0]) == ("2", "1", "1", "0", "3.0")
    two = write(tmp_path / "2.xml", suite("pytest", case("a")))
    assert counts(merged(one, two)[0]) == ("1", "0", "0", "0", "1.5")


def test_a_trial_by_name_and_by_path_is_one_case_and_other_tests_stay_apart(tmp_path: Path) -> None:
    ours = '<properties><property name="bench_job" value="j"/></properties>'
    by_name = case("a[oracle]", "<failure/>", "org.texts") + case("b[oracle]", "", "org.texts")
    old = write(tmp_path / "old.xml", suite("org/texts", by_name, more=ours))
    by_path = case("a[oracle]", "", "dir.a.bench.yaml")
    twice = case("b[oracle]", "", "one.bench.yaml") + case("b[oracle]", "", "two.bench.yaml")
    new = write(tmp_path / "new.xml", suite("org/texts", by_path, twice, more=ours))
    assert counts(merged(old, new)[0]) == ("4", "0", "0", "0", "6.0")
    assert counts(merged(new, old)[0]) == ("4", "1", "0", "0", "6.0")
    # pytest's own files have the benchmark with the case.
    told = '<properties><property name="bench_benchmark" value="org/texts"/></properties>'
    for name, place in (("old", "org.texts"), ("new", "dir.a")):
        write(tmp_path / f"{name}.xml", suite("pytest", case("a[oracle]", told, place), case("t", "", place)))
    assert names(merged(old, new)[0]) == ["a[oracle]", "t", "t"]


def test_properties_and_output_are_kept(tmp_path: Path) -> None:
    def properties(job: str) -> str:
        return f'<properties><property name="bench_job" value="{job}"/><property name="os" value="linux"/></properties>'

    inside = (
        '<properties><property name="score" value="0.5"/></properties><system-out>hé &lt;b&gt;</system-out>'
    )
    one = write(tmp_path / "1.xml", suite("s", case("a", inside), more=properties("j1")))
    two = write(tmp_path / "2.xml", suite("s", case("b"), more=properties("j2")))
    root = merged(one, two)
    listed = [(each.get("name"), each.get("value")) for each in root[0].findall("properties/property")]
    assert listed == [("bench_job", "j1"), ("os", "linux"), ("bench_job", "j2")]
    assert root.findtext(".//testcase[@name='a']/system-out") == "hé <b>"
    found = root.find(".//testcase[@name='a']/properties/property")
    assert found is not None
    assert found.get("value") == "0.5"


def test_suites_in_suites_are_joined_too(tmp_path: Path) -> None:
    one = write(tmp_path / "1.xml", suite("outer", suite("inner", case("a")), case("x")))
    two = write(tmp_path / "2.xml", suite("outer", suite("inner", case("b")), suite("other", case("a"))))
    root = merged(one, two)
    assert counts(root) == ("4", "0", "0", "0", "6.0")
    (outer,) = root
    assert names(outer) == ["x"]
    assert {each.get("name"): names(each) for each in outer.findall("testsuite")} == {
        "inner": ["a", "b"],
        "other": ["a"],
    }


def test_ten_thousand_cases_twice_are_ten_thousand(tmp_path: Path) -> None:
    one = write(tmp_path / "1.xml", suite("s", *(case(f"t{number}") for number in range(10_000))))
    assert merge_junit([one, one])[1] == 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<testsuite>\n<testcase>\n</testsuite>", r"broken.xml:3: is no XML: mismatched tag"),
        ("", r"broken.xml:1: is no XML: no element found"),
        ("<html/>", r"broken.xml: is no JUnit file: its first element is neither"),
        (suite("s", '<testcase name="a" time="soon"/>'), r"broken.xml: is no JUnit file: could not convert"),
        ('<?xml version="1.0" encoding="klingon"?><testsuite/>', r"broken.xml(:1)?: is no "),
        ('<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite name="&b;"/>', r"broken.xml: has a document type"),
        ('<!DOCTYPE x SYSTEM "other.dtd"><testsuite/>', r"broken.xml: has a document type"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_clear_error_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    good = write(tmp_path / "good.xml", suite("s", case("a")))
    broken = write(tmp_path / "broken.xml", text)
    with pytest.raises(InputError, match=message) as caught:
        merge_junit([good, broken])
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.xml: cannot be read"):
        merge_junit([tmp_path / "x.xml"])
