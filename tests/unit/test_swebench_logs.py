"""Logs of SWE-bench's test runners: which tests they list, and what that is worth."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_benchjobs.scoring.swebench.logs import PARSERS
from pytest_benchjobs.scoring.swebench.verified import (
    END,
    EXIT_STATUS,
    START,
    judge,
    read_log,
    with_exit_status,
)

pytestmark = pytest.mark.when_changed


def log(*lines: str, exit_status: int | None = None) -> str:
    """What an eval_script prints."""
    after = (
        []
        if exit_status is None
        else [f"+ echo '{EXIT_STATUS}: {exit_status}'", f"{EXIT_STATUS}: {exit_status}"]
    )
    return "\n".join(["+ git status", f"+ : '{START}'", *lines, f"+ : '{END}'", *after, ""])


PYTEST = """\
tests/test_a.py ..F                    [100%]
PASSED tests/test_a.py::test_one
PASSED tests/test_a.py::test_two[a b]
SKIPPED [3] tests/test_a.py:7: not here
XFAIL tests/test_a.py::test_three - known
ERROR tests/test_b.py
FAILED tests/test_a.py::test_four[x - y] - AssertionError: 1 - 2
"""


LISTED = {
    # An id ends at its first space.
    "flask": (PYTEST, {
        "tests/test_a.py::test_one": "PASSED", "tests/test_a.py::test_two[a": "PASSED",
        "tests/test_a.py::test_three": "XFAIL", "tests/test_b.py": "ERROR", "tests/test_a.py::test_four[x": "FAILED",
    }),
    # Colours go, and spaces stay.
    "sphinx": (
        "\x1b[32mPASSED\x1b[0m t.py::\x1b[1ma[b c]\x1b[0m\n\x1b[31mFAILED\x1b[0m t.py::d[e f] - boom - bang\nt.py::g PASSED\n\x1b[33mSKIPPED\x1b[0m [2] t.py:1: no",
        {"t.py::a[b c]": "PASSED", "t.py::d[e f]": "FAILED", "t.py::g": "PASSED"},
    ),
    "matplotlib": (
        "PASSED t.py::a[MouseButton.LEFT]\nFAILED t.py::b[MouseButton.RIGHT] - x",
        {"t.py::a[1]": "PASSED", "t.py::b[3]": "FAILED"},
    ),
    "seaborn": (
        "PASSED t.py::a\nt.py::b PASSED [ 50%]\nFAILED t.py::c - x\nSKIPPED t.py::d\nFAILED",
        {"t.py::a": "PASSED", "t.py::b": "PASSED", "t.py::c": "FAILED"},
    ),
    "sympy": (
        "test_a ok\ntest_b F\ntest_c E\n[FAIL]\n____ sympy/x/tests/test_x.py:test_b ____\nsome.py:1 prose",
        {"sympy/x/tests/test_x.py:test_b": "FAILED", "test_a": "PASSED", "test_b": "FAILED", "test_c": "ERROR"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("repository", LISTED)
def test_each_repository_lists_tests_in_its_own_way(repository: str) -> None:
    log, statuses = LISTED[repository]
    assert PARSERS[repository](log) == statuses


def test_parameters_that_are_a_path_are_shortened() -> None:
    listed = "PASSED t.py::a[/x/y.py]\nPASSED t.py::b[//x/y]\nPASSED t.py::c[/x/*.py]\nPASSED t.py::d[z]tail\nPASSED t.py::e]["
    assert list(PARSERS["requests"](listed)) == [
        "t.py::a[/y.py]", "t.py::b[//x/y]", "t.py::c[/x/*.py]", "t.py::d[z]", "t.py::e][",
    ]  # fmt: skip


DJANGO = """\
test_a (m.C) ... ok
test_b (m.C) ... FAIL
test_c (m.C) ... ERROR
test_d (m.C) ... skipped 'no'
test_e (m.C) ... Creating table
ok
test_f (m.C) ... Testing against Django installed in '/django'
with up to 2 processes (2 silenced).
ok
test_g (m.C) ... Internal Server Error: /login/
ok
test_h (m.C) ... System check identified no issues (0 silenced)
ok
Applying sites.0002_alter_domain_unique...test_no_migrations (m.C) ... ok
ERROR: test_c (m.C)
FAIL:
"""


def test_django_lists_tests_with_output_in_between() -> None:
    found = PARSERS["django"](DJANGO)
    passed = {name for name, status in found.items() if status == "PASSED"}
    assert {f"test_{letter} (m.C)" for letter in "aefgh"} | {"test_no_migrations (m.C)"} == passed
    assert found["test_b (m.C)"] == "FAILED"
    assert (found["test_c (m.C)"], found["test_c"]) == ("ERROR", "ERROR")
    assert found["test_d (m.C)"] == "SKIPPED"


@pytest.mark.parametrize(
    ("printed", "passes"),
    [
        ("Testing against Django installed in '/django'\nwith 2 processes (1 silenced).\nok", True),
        ("Testing against Django installed in '/django'\nwith 2 processes (1 silenced).\nno", False),
        ("Internal Server Error: /login/\nok", True),
        ("Internal Server Error: /login\nok", False),
        ("Internal Server Error: /login/\nbroken\nok", False),
        ("System check identified no issues (0 silenced)\nok", True),
        ("System check identified no issues (0 silenced).\nok", False),
        ("System check identified no issues (1 silenced)\nok", False),
    ],
)
def test_a_test_of_django_passes_behind_its_own_output_alone(printed: str, passes: bool) -> None:
    name = "a ... test_x (m.C)"  # of which `ok` alone would pass only the beginning
    assert (PARSERS["django"](f"{name} ... {printed}\n").get(name) == "PASSED") is passes
    if not printed.startswith("Testing"):  # a test that never ended changes nothing
        lost = "test_lost (m.C) ... Testing against Django installed in '/django'\n"
        assert (PARSERS["django"](f"{lost}{name} ... {printed}\n").get(name) == "PASSED") is passes


def test_what_counts_is_between_the_markers() -> None:
    text = "PASSED before\n" + log("PASSED t::a", exit_status=0) + "PASSED after\n"
    assert read_log(text, PARSERS["flask"]).statuses == {"t::a": "PASSED"}


def test_tests_outside_of_the_markers_count_where_there_are_none_inside() -> None:
    assert read_log("PASSED t::a\n" + log(), PARSERS["flask"]).statuses == {"t::a": "PASSED"}


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_any_line_end_ends_a_line(end: str) -> None:
    assert read_log(log(f"PASSED t::a{end}PASSED t::b"), PARSERS["flask"]).statuses == dict.fromkeys(
        ("t::a", "t::b"), "PASSED"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (log("PASSED t::a", ">>>>> Tests Timed Out"), "Tests Timed Out"),
        (log("PASSED t::a", ">>>>> Patch Apply Failed"), "Patch Apply Failed"),
        (log("collected 0 items"), "no test is listed"),
        (log("PASSED t::a", exit_status=1), "exited with status 1, and its log has no failure"),
        (log("PASSED t::a", f"{EXIT_STATUS}: 0", exit_status=1), "exited with status 1"),
        (log("PASSED t::a", END), "twice"),
        (log("PASSED t::a", START), "twice"),
    ],
)
def test_a_log_that_counts_for_nothing_says_why(text: str, problem: str) -> None:
    reading = read_log(text, PARSERS["flask"])
    assert reading.problem is not None
    assert problem in reading.problem
    assert (reading.statuses, reading.is_cut) == ({}, False)


@pytest.mark.parametrize("text", ["", "PASSED t::a", f"{START}\nPASSED t::a", f"PASSED t::a\n{END}"])
def test_a_log_without_its_markers_is_cut(text: str) -> None:
    assert read_log(text, PARSERS["flask"]).is_cut


def test_a_sign_that_the_machine_failed_is_a_hint_only_where_nothing_was_tested() -> None:
    sign = "fatal: Could not resolve host: example.org"
    assert read_log(log(sign), PARSERS["flask"]).hint == "Could not resolve host"
    assert read_log(log(sign, "FAILED t::a"), PARSERS["flask"]).hint is None


def test_an_exit_status_fits_a_log_with_a_failure() -> None:
    assert read_log(log("FAILED t::a", exit_status=1), PARSERS["flask"]).problem is None


@pytest.mark.parametrize(
    ("status", "solves", "maintains"),
    [("PASSED", True, True), ("XFAIL", True, True), ("SKIPPED", False, True), ("FAILED", False, False),
     ("ERROR", False, False), ("PASSED:", False, False), (None, False, False)],
)  # fmt: skip
def test_a_status_is_worth(status: str | None, solves: bool, maintains: bool) -> None:
    statuses = {} if status is None else {"a": status}
    assert judge(statuses, ["a"], []).is_resolved is solves
    assert judge(statuses, [], ["a"]).is_resolved is maintains


def test_a_verdict_counts_and_names_what_fails() -> None:
    verdict = judge({"a": "PASSED", "b": "FAILED", "c": "SKIPPED"}, ["a", "b", "c"], ["a", "c"])
    assert (verdict.fail_to_pass, verdict.pass_to_pass, verdict.failing) == ((1, 3), (2, 2), ("b", "c"))
    assert judge({}, [], []).is_resolved


def test_a_name_that_was_cut_is_found_by_its_beginning_if_all_such_agree() -> None:
    statuses = {
        "t[a b]": "PASSED", "t[a c]": "XFAIL", "u[a b]": "PASSED", "u[a c]": "FAILED", "v b": "PASSED",
    }  # fmt: skip
    assert judge(statuses, ["t[a"], ["t[a"]).is_resolved
    assert judge(statuses, ["u[a", "v", "w["], []).failing == ("u[a", "v", "w[")
    assert judge({"t[a b]": "SKIPPED", "t[a c]": "FAILED"}, [], ["t[a"]).is_resolved  # the first one counts
    assert not judge({"t[a c]": "FAILED", "t[a b]": "SKIPPED"}, [], ["t[a"]).is_resolved


def test_a_script_is_left_as_it_is_but_for_the_exit_status() -> None:
    script = f"#!/bin/bash\nset -x\n: '{START}'\nfalse\n: '{END}'\ngit checkout x\n"
    lines = with_exit_status(script).split("\n")
    assert lines == [
        *("#!/bin/bash", "set -x", f": '{START}'", "false"),
        *("SWEBENCH_TEST_EXIT_CODE=$?", f": '{END}'", f'echo "{EXIT_STATUS}: $SWEBENCH_TEST_EXIT_CODE"'),
        *("git checkout x", ""),
    ]
    assert with_exit_status("echo\n") == "echo\n"


FRAGMENTS = [
    *(
        "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL", " - ", " ... ", " ... ok\n", " ...  OK\n",
        " ... skipped",
    ),
    *(
        " ... FAIL\n", "\nFAIL:", "\nERROR: y", "\n", " ", "t.py::a[b c]", "[100%]", "[/a/b]", "\x1b[32m",
        "\r", "\t",
    ),
    *(
        "____ x.py:test_z ____", "test_a E", " F", " ok\n", "\nok", " silenced).\nok", "/\nok", "\u2028",
        "\x00", "\ud800",
    ),
    *(" ... Testing against Django installed in ", " ... Internal Server Error: /", "[", "]", "9" * 30),
    *(
        " ... System check identified no issues (0 silenced)",
        START,
        END,
        f"{EXIT_STATUS}: ",
        "MouseButton.LEFT",
    ),
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
def test_no_log_makes_a_parser_raise(text: str) -> None:
    for parser in PARSERS.values():
        assert all(isinstance(name, str) for name in parser(text))
        reading = read_log(log(text), parser)
        judge(reading.statuses, ["a", "t.py::a["], ["test_a"])


@pytest.mark.parametrize("fragment", [*FRAGMENTS, "_", "[1", ".py:", " .py:", "... "])
def test_a_log_of_one_thing_again_and_again_is_read(fragment: str) -> None:
    """In a second, which it would not be if the steps grew with the square of its length."""
    text = fragment * (500_000 // len(fragment))
    for name in ("flask", "requests", "sphinx", "seaborn", "sympy", "django"):
        assert all(PARSERS[name](text))
