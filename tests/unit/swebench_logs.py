"""Logs as an `eval_script` of SWE-bench prints them, made of the tests of a row and a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from pytest_benchjobs.scoring.swebench.verified import END, EXIT_STATUS, START

BEFORE = """\
+ source /opt/miniconda3/bin/activate
+ conda activate testbed
+ cd /testbed
+ git status
On branch main
+ git show
commit 0123456789
+ git apply -v -
Checking patch tests/test_it.py...
Applied patch tests/test_it.py cleanly.
"""
NOISE = (
    "DeprecationWarning: the imp module is deprecated",
    "  warnings.warn('PASSED in vain')",
    "ERROR:root:something was logged",
    "FAILED",
    "Traceback (most recent call last):",
    "/testbed/x.py:7: UserWarning: ok",
    "tests/test_it.py::test_of_another - it was skipped",
    '  File "/testbed/sympy/core/tests/test_x.py", line 3, in test_y',
    "Creating table auth_user",
    "50% [=====>     ]\r100% [==========]",
    "ok then",
    "",
)
Line = tuple[str, str]
"""Name of a test, and its status."""


def made_of(parser: str, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str], seed: int) -> str:
    """A log of a run of these tests. Seeds that are a multiple of 4 make one where all pass."""
    chance = random.Random(seed)
    weights = {0: (1, 0, 0, 0, 0), 1: (30, 1, 1, 1, 1), 2: (200, 1, 0, 1, 1), 3: (8, 1, 1, 2, 1)}[seed % 4]
    words = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL")
    tests = [(name, chance.choices(words, weights)[0]) for name in (*fail_to_pass, *pass_to_pass)]
    if seed % 4:
        chance.shuffle(tests)
        tests += chance.sample(tests, min(len(tests), 2))  # a test may be listed twice
        tests = tests[: len(tests) - (seed % 5 == 0)]
    lines = list(_FORMATS.get(parser, _pytest)(tests, chance))
    if seed % 3 == 1:
        for _ in range(chance.randint(1, 6)):
            lines.insert(chance.randint(0, len(lines)), chance.choice(NOISE))
    status = int(any(word in ("FAILED", "ERROR") for _, word in tests))
    return _whole(lines, status, chance if seed % 4 else None)


def _whole(lines: Sequence[str], status: int, chance: random.Random | None) -> str:
    text = (
        f"{BEFORE}+ : '{START}'\n" + "\n".join(lines) + f"\n+ SWEBENCH_TEST_EXIT_CODE={status}\n+ : '{END}'\n"
    )
    oddity = chance.randint(0, 12) if chance else 12
    if oddity == 0:  # cut off
        return text[: chance.randint(0, len(text))] if chance else text
    if oddity == 1:
        status = 1 - status
    if oddity == 2:
        text = text.replace("\n", "\r\n")
    if oddity == 3:
        text = text.replace(f"+ : '{START}'\n", "").replace(
            "git status", f"git status\n+ : '{START}'\n+ : '{END}'", 1
        )
        text = text.rpartition(f"+ : '{END}'\n")[0]
    if oddity > 4:
        text += f"+ echo '{EXIT_STATUS}: {status}'\n{EXIT_STATUS}: {status}\n"
    return text + "+ git checkout 0123456789 tests/test_it.py\nUpdated 1 path from 01234567\n"


def _pytest(tests: Sequence[Line], chance: random.Random, *, coloured: bool = False) -> Iterator[str]:
    colours = {"PASSED": 32, "FAILED": 31, "ERROR": 31, "SKIPPED": 33, "XFAIL": 33}
    yield "============================= test session starts =============================="
    yield f"collected {len(tests)} items"
    yield ""
    yield "tests/test_it.py " + "".join(status[0].lower() for _, status in tests)[:60] + " [100%]"
    if any(status == "FAILED" for _, status in tests):
        yield "=================================== FAILURES ==================================="
        yield "______________________________ test_it ______________________________"
        yield "E       AssertionError: assert 1 == 2"
    yield "=========================== short test summary info ============================"
    for name, status in tests:
        shown = f"\x1b[{colours[status]}m{status}\x1b[0m" if coloured else status
        if status == "SKIPPED" and chance.random() < 0.7:
            yield f"{shown} [1] tests/test_it.py:3: not here"
        elif status == "FAILED":
            yield f"{shown} {name} - " + chance.choice(
                ("AssertionError: a - b", "Failed: DID NO...", "[x] - y")
            )
        else:
            yield f"{shown} {name}" + (" - known" if status == "XFAIL" else "")
    yield "========================= 1 failed, 59 passed in 3.39s ========================="


def _colours(tests: Sequence[Line], chance: random.Random) -> Iterator[str]:
    if chance.random() < 0.3:  # as older versions print it
        yield from (f"{name} {status}" + chance.choice(("", " [ 50%]")) for name, status in tests)
        return
    yield from _pytest(tests, chance, coloured=chance.random() < 0.5)


def _seaborn(tests: Sequence[Line], chance: random.Random) -> Iterator[str]:
    if chance.random() < 0.3:
        yield from (f"{name} {status} [ 50%]" for name, status in tests)
    yield from _pytest(tests, chance)


def _django(tests: Sequence[Line], chance: random.Random) -> Iterator[str]:
    words = {
        "PASSED": "ok",
        "FAILED": "FAIL",
        "ERROR": "ERROR",
        "SKIPPED": "skipped 'not here'",
        "XFAIL": "expected failure",
    }
    yield "Testing against Django installed in '/testbed/django' with up to 2 processes"
    interruptions = (
        "Testing against Django installed in '/testbed/django'\nSystem check identified issues (2 silenced).\nok",
        "Internal Server Error: /admin/login/\nok",
        "System check identified no issues (0 silenced)\nok",
        "Creating table x\nok",
    )
    for name, status in tests:
        if status == "PASSED" and chance.random() < 0.05:
            yield f"{name} ... {chance.choice(interruptions)}"
        else:
            yield f"{name} ... {words[status]}"
    for name, status in tests:
        if status in ("FAILED", "ERROR"):
            yield "=" * 70
            yield f"{words[status]}: {name}"
            yield "-" * 70
    yield f"Ran {len(tests)} tests in 1.234s"


def _sympy(tests: Sequence[Line], chance: random.Random) -> Iterator[str]:
    words = {"PASSED": "ok", "FAILED": "F", "ERROR": "E", "SKIPPED": "s", "XFAIL": "f"}
    yield "============================= test process starts =============================="
    yield f"sympy/core/tests/test_it.py[{len(tests)}] "
    for name, status in tests:
        yield f"{name} {words[status]}"
    yield f"{' ' * 60}[{chance.choice(('OK', 'FAIL'))}]"
    for name, status in tests:
        if status in ("FAILED", "ERROR"):
            yield "________________________________________________________________________________"
            yield f"______________ sympy/core/tests/test_it.py:{name} ______________"
            yield "AssertionError"


_FORMATS: dict[str, Callable[[Sequence[Line], random.Random], Iterator[str]]] = {
    **dict.fromkeys(("parse_log_astropy", "parse_log_scikit", "parse_log_sphinx"), _colours),
    "parse_log_django": _django,
    "parse_log_seaborn": _seaborn,
    "parse_log_sympy": _sympy,
}
