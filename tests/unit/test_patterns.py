"""Regular expressions of authors: the same as `re` finds, and no pattern can hold a trial, the others or a signal."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import ScorerCrashed, ScorerTimeout
from pytest_benchjobs.model.pattern import pattern_fault
from pytest_benchjobs.model.scenario import Feedback, ScorerSpec
from pytest_benchjobs.scoring import patterns
from pytest_benchjobs.scoring.answers import match_of
from pytest_benchjobs.scoring.expected_files import score_files
from pytest_benchjobs.scoring.patterns import limited, search, substitute
from pytest_benchjobs.scoring.turn import _is_said
from pytest_benchjobs.trial.turns import statement_of

from .scoring import left, scored

BACKTRACKS, TEXT = r"^(a+)+$", "a" * 100 + "!"
FEEDBACK = Feedback(statement="{output}", replace=((BACKTRACKS, ""),))
DOORS: dict[str, Callable[[], object]] = {
    "answer": lambda: match_of({"match": "regex", "pattern": BACKTRACKS}).grade(TEXT, is_reply=True),
    "turn": lambda: _is_said(TEXT, "matches", BACKTRACKS),
    "feedback": lambda: statement_of(FEEDBACK, "", TEXT),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_pattern_that_backtracks_ends_with_the_time_of_its_scorer(door: str) -> None:
    with (
        limited("scorer 's'", 0.2),
        pytest.raises(ScorerTimeout, match="scorer 's': a regular expression did not"),
    ):
        DOORS[door]()


def test_the_patterns_of_a_scorer_share_its_time(tmp_path: Path) -> None:
    files = [{"path": "a", "matches": BACKTRACKS}, {"path": "a", "matches": "a"}]
    spec = ScorerSpec(name="s", type="files", params={"files": files})
    with left({"a": TEXT}) as sandbox, limited("scorer 's'", 0.2) as _:
        result = scored(sandbox, spec, score_files, tmp_path)
    assert (result.score, result.error and result.error.class_) == (None, "scorer_timeout")
    with limited("scorer 's'", 0), pytest.raises(ScorerTimeout):
        search("a", "a")


def test_who_cancels_ends_a_pattern_at_once() -> None:
    """Matched in this process, it would hold this very thread."""
    ends: list[Callable[[], None]] = []
    errors: list[BaseException] = []
    begun = threading.Event()

    def match() -> None:
        with limited("scorer 's'", 500) as end:
            ends.append(end)
            begun.set()
            try:
                search(BACKTRACKS, TEXT)
            except ScorerTimeout as error:
                errors.append(error)

    thread = threading.Thread(target=match)
    thread.start()
    begun.wait()
    ends[0]()
    thread.join()
    assert errors


def test_an_idle_process_that_was_killed_is_replaced() -> None:
    assert search("a", "a")
    for matcher in patterns._idle:
        matcher.kill()
    assert search("a", "a")


def test_a_process_that_nobody_waits_for_ends_itself() -> None:
    process = patterns._Matcher()._process
    request = {"pattern": BACKTRACKS, "flags": 0, "text": TEXT, "replacement": None, "seconds": 1}
    assert process.stdin is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    assert process.wait() == -signal.SIGALRM
    process.stdin.close()
    assert process.stdout is not None
    process.stdout.close()


def test_what_cannot_be_matched_is_a_crash_with_its_kind() -> None:
    with pytest.raises(ScorerCrashed, match="cannot be matched: error"):
        search("(", "")


@given(
    st.text("ab\n(é\ud800", max_size=20),
    st.sampled_from(["a", "^b", "(?i:A)+b$", "\\(", "é", "(?=b)"]),
    st.sampled_from([0, re.MULTILINE, re.IGNORECASE | re.MULTILINE]),
)
def test_it_is_what_re_finds(text: str, pattern: str, flags: int) -> None:
    assert search(pattern, text, flags) is (re.search(pattern, text, flags) is not None)
    assert substitute(pattern, r"<\g<0>>", text) == re.sub(pattern, r"<\g<0>>", text)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        ("(", ""),
        ("a{99999999999}", ""),
        ("(" * 5000 + ")" * 5000, ""),
        ("a", r"\1"),
        ("a", r"\g<x>"),
        ("[[a]", ""),
    ],
)
def test_a_fault_is_found_before_anything_runs(pattern: str, replacement: str) -> None:
    fault = pattern_fault(pattern, replacement)
    assert (fault is None) is (pattern == "[[a]")  # a warning of what a later Python may read otherwise
