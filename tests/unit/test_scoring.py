"""How scores are read, and refused."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import (
    InfrastructureError,
    OutOfMemory,
    ScoreContradicted,
    ScoreInvalid,
    ScoreMissing,
    ScorerCrashed,
    ScorerTimeout,
)
from pytest_benchjobs.model.result import Failure, ScorerResult
from pytest_benchjobs.model.scenario import ScorerSpec
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.sandbox.protocol import ExecResult, Fetched, File
from pytest_benchjobs.scoring.builtin import (
    builtin_scorers,
    score_bash,
    score_command,
    score_harbor,
    score_tests,
)
from pytest_benchjobs.scoring.grade import combine, make_context, run_scorer
from pytest_benchjobs.scoring.output import Statements, Tail
from pytest_benchjobs.scoring.protocol import Scorer, ScoringContext
from pytest_benchjobs.scoring.scores import (
    checked,
    counts,
    ctrf_outcomes,
    junit_outcomes,
    parse_reward,
    parse_score,
)
from pytest_benchjobs.trial.confidential import held_back

from .records import trial
from .scoring import left, scored

pytestmark = pytest.mark.when_changed
NO_REWARDS = [
    "[1]", '{"reward": "1"}', '{"reward": true}', '{"reward": 1.5}', '{"reward": null, "other": 1}', '{"a": 1, "b": -1}',
    '{"a": 1, "b": null}', "NaN", "1" + "0" * 400, "1e999", "{", "[" * 100_000, '{"reward": 0, "reward": 1}',
]  # fmt: skip


@pytest.mark.parametrize(
    ("output", "score"),
    [
        ("score=0.75\n", 0.75),
        ("score=1.0\nlater\nscore = 1\n", 1.0),
        ("SCORE=.5", 0.5),
        ("checking...\n0.25\n\n", 0.25),
        ("score=0.5\n12\n", 0.5),
        ("1e-3", 0.001),
    ],
)
def test_a_script_prints_its_score(output: str, score: float) -> None:
    assert parse_score(output, "it") == score


@pytest.mark.parametrize(
    ("error", "outputs"),
    [
        (ScoreMissing, ["", "\n \n", "done", "0.5 of 1", "score=abc", "1\nok"]),
        (ScoreInvalid, ["1.5", "-0.1", "nan", "score=inf", "score=-infinity", "7"]),
        (ScoreContradicted, ["score=0\nscore=1", "score=1\nlater\n0", "score=0\nx\nSCORE = 1\nscore=0"]),
        # Read in quadratic time, these would take a minute.
        (ScoreMissing, [begin + "1" * 100_000 + "x" for begin in ("", "score = ", "1.")]),
    ],
)
def test_output_without_one_score_from_0_to_1_is_an_error(error: type[Exception], outputs: list[str]) -> None:
    for output in outputs:
        with pytest.raises(error):
            parse_score(output, "it")


@given(
    st.lists(st.sampled_from(["score=0", "x" * 30, " metric a=1", "score=" + "9" * 600, "y"])),
    st.integers(1, 9),
)
def test_no_output_hides_what_was_stated(lines: list[str], size: int) -> None:
    kept, text = Statements(40), "\n".join([*lines, "end"])
    for at in range(0, len(text), size):
        kept(text[at : at + size].encode())
    stated = [line for line in lines if line in ("score=0", " metric a=1")]
    assert [line for line in kept.text().split("\n") if line in stated] == stated
    kept(b"\nscore=1" * 2000)
    with pytest.raises(ScoreInvalid, match="more than 1000"):
        kept.text()


@given(st.text())
def test_whatever_a_script_prints_is_a_score_or_a_clear_error(output: str) -> None:
    try:
        assert 0 <= parse_score(output, "it") <= 1
    except InfrastructureError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("reward_json", "reward_text", "score"),
    [
        ('{"reward": 1}', "1.0", 1.0),
        ("0.5", "no number", 0.5),
        ('{"speed": 0.5, "correct": 1}', "0", 0.75),
        ('{"reward": 0.25, "correct": 1}', None, 0.25),
        ('{"reward": 0.5, "cases": [{"name": "a", "ok": true}], "note": null, "deep": {"x": {"y": -3}}}', None, 0.5),
        ('\ufeff{"reward": 1}', None, 1.0),
        (None, "\ufeff0.5\n", 0.5),
        ('{"a": 1, "b": 0}', None, 0.5),
        (None, " 0.5 ", 0.5),
    ],
)  # fmt: skip
def test_harbor_reward_files(reward_json: str | None, reward_text: str | None, score: float) -> None:
    assert parse_reward(reward_json, reward_text).score == score


@pytest.mark.parametrize(
    ("reward_json", "reward_text", "error"),
    [
        *(
            (*one, ScoreMissing)
            for one in [(None, None), (None, ""), ("", "1"), ("{}", "1"), ("\ufeff", None)]
        ),
        *((None, text, ScoreInvalid) for text in ("nan", "yes", "0" * 101 + "2")),
        *((text, None, ScoreInvalid) for text in NO_REWARDS),
        *((text, other, ScoreContradicted) for text, other in [('{"reward": 0}', "1"), ("1", "0")]),
    ],
)
def test_a_reward_that_is_none_is_an_error_and_never_zero(
    reward_json: str | None, reward_text: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        parse_reward(reward_json, reward_text)


NO_JUNIT = [
    "",
    "<a/>",
    "<testsuite>",
    '<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>',
    "<!DOCTYPE testsuite><testsuite/>",
    '<!DOCTYPE testsuite SYSTEM "x.dtd"><testsuite/>',
    '<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><testsuite><testcase name="&c;"/></testsuite>',
]
NO_CTRF = [  # or one that can be read in two ways
    '{"results": {"tests": [{"status": "failed", "status": "passed"}]}}',
    '{"results": {"tests": [{"status": "failed"}]}, "results": {"tests": [{"status": "passed"}]}}',
    '{"results": {"tests": [{"status": "failed"}], "tests": [{"status": "passed"}]}}',
    '{"results": {"tests": {"status": "passed"}}}',
    '{"results": {"tests": ["passed"]}}',
    '{"results": {"tests": 7}}',
    '{"results": NaN}',
]


def test_a_report_of_another_form_is_refused() -> None:
    assert [text for text in NO_JUNIT if counts(junit_outcomes(text)) is not None] == []
    assert [text for text in NO_CTRF if counts(ctrf_outcomes(text)) is not None] == []


def test_a_report_of_any_depth_and_size_is_read_or_refused() -> None:
    deep = "<testsuite>" * 100_000
    assert counts(junit_outcomes(deep)) is None
    assert counts(junit_outcomes(f"{deep}<testcase/>{'</testsuite>' * 100_000}")) == (1, 1)
    assert counts(ctrf_outcomes('{"results": {"tests": ' + "[" * 100_000)) is None
    assert counts(ctrf_outcomes('{"a":' * 100_000 + "1" + "}" * 100_000)) is None
    wide = ",".join('{"status": "passed"}' for _ in range(50_000))
    assert counts(ctrf_outcomes(f'{{"results": {{"tests": [{wide}]}}}}')) == (50_000, 50_000)


def test_a_status_of_ctrf_that_is_no_word_is_no_pass() -> None:
    text = '{"results": {"tests": [{"status": NaN}, {"status": ["passed"]}, {"status": true}, {"status": "Passed"}]}}'
    assert counts(ctrf_outcomes(text)) == (0, 4)


def test_a_report_gives_partial_credit_leaves_out_skips_and_may_begin_with_a_byte_order_mark() -> None:
    # A failure may quote a web page.
    page = "<failure><![CDATA[got <!DOCTYPE html><html/> and <!ENTITY]]></failure>"
    cases = (
        f"<testcase/><testcase>{page}</testcase><testcase><skipped/></testcase><testcase><error/></testcase>"
    )
    assert counts(junit_outcomes(f"\ufeff<testsuites><testsuite>{cases}</testsuite></testsuites>")) == (1, 3)
    states = '{"status": "passed"}, {"status": "failed"}, {"status": "skipped"}'
    assert counts(ctrf_outcomes(f'\ufeff{{"results": {{"tests": [{states}]}}}}')) == (1, 2)
    assert counts(ctrf_outcomes("[]")) is None


def _scored(score: float | None, weight: float = 1.0) -> ScorerResult:
    error = None if score is not None else Failure(class_="scorer_crashed", message="x")
    return ScorerResult(name="s", type="bash", weight=weight, score=score, error=error)


def test_one_scorer_without_a_score_leaves_the_trial_without_one() -> None:
    assert combine([_scored(1.0), _scored(None)]) is None


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(min_value=1e-6, max_value=1e300)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_a_weighted_mean_is_within_the_range_in_any_order(
    pairs: list[tuple[float, float]], random: Random
) -> None:
    score = combine([_scored(*pair) for pair in pairs])
    assert score is not None
    assert 0 <= score <= 1
    assert score == combine([_scored(*pair) for pair in random.sample(pairs, len(pairs))])


@given(st.lists(st.sampled_from(["passed", "failed", "skipped", "pending", "other", 1, None])), st.text())
def test_whatever_a_report_holds_its_share_is_from_0_to_1(states: list[Any], text: str) -> None:
    report = json.dumps({"results": {"tests": [{"status": state} for state in states]}})
    assert counts(ctrf_outcomes(report)) is not None
    for found in (counts(ctrf_outcomes(report)), counts(ctrf_outcomes(text)), counts(junit_outcomes(text))):
        assert found is None or 0 <= found[0] <= found[1]


def test_huge_weights_weigh_like_any_others() -> None:
    assert combine([_scored(1.0, 3.0), _scored(0.0, 1.0)]) == 0.75
    assert combine([_scored(1.0, 1e308), _scored(0.5, 1e308)]) == 0.75
    assert combine([_scored(1.0, 1e-320), _scored(0.0, 1e-320)]) == 0.5


@given(st.lists(st.floats(1e-300, 1e300), min_size=1))
def test_full_marks_are_exactly_one_whatever_the_weights(weights: list[float]) -> None:
    assert combine([_scored(1.0, weight) for weight in weights]) == 1.0


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**400), True, "1", None, float("nan"), object(), 1 + 1e-7],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_score_is_refused_in_a_short_line(value: object) -> None:
    with pytest.raises(ScoreInvalid) as caught:
        checked(value, "it")
    assert len(str(caught.value)) < 150
    assert "gave 1," not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (1.0000000000000002, 1.0),
        (0.9999999999999999, 1.0),
        (-1e-17, 0.0),
        (0.1 + 0.2, 0.1 + 0.2),
        (1e-9, 1e-9),
    ],
)
def test_a_hair_beside_full_marks_is_full_marks(value: float, score: float) -> None:
    assert checked(value, "it") == score
    assert parse_score(f"score={value!r}\n{value!r}", "it") == score


def test_a_test_that_fails_and_whose_teardown_breaks_is_one(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.fixture\ndef f():\n    yield\n    assert 0\n"
        "@pytest.mark.parametrize('n', [1, 1])\ndef test_a(f, n): assert n < 1\ndef test_b(f): pass\n"
    )
    report = tmp_path / "junit.xml"
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null --junitxml={report} {tmp_path}"
    subprocess.run(command.split(), cwd=tmp_path, check=False, capture_output=True)
    assert counts(junit_outcomes(report.read_text())) == (0, 3)


SCORERS: dict[str, Scorer] = {
    "harbor": score_harbor, "tests": score_tests, "bash": score_bash, "command": score_command,
}  # fmt: skip


def _score(
    tmp_path: Path, kind: str, workdir: Mapping[str, str] = MappingProxyType({}), **spec: object
) -> ScorerResult:
    """The result of a scorer for the files in `tests`, in a directory that plays the container."""
    told = ScorerSpec.model_validate({"name": kind, "type": kind, "path": tmp_path / "tests", **spec})
    with left(workdir) as sandbox:
        return scored(sandbox, told, SCORERS[kind], tmp_path / "trial")


def _write_script(tmp_path: Path, text: str) -> None:
    """Write tests/test.sh, which runs whatever its mode is."""
    (tmp_path / "tests").mkdir(exist_ok=True)
    (tmp_path / "tests" / "test.sh").write_bytes(text.encode())
    (tmp_path / "tests" / "test.sh").chmod(0o644)


Said = tuple[float | None, str | None]


def _said(result: ScorerResult) -> Said:
    return result.score, result.error and result.error.class_


PASS_AND_FAIL = "<testcase name='a'/><testcase name='b'><failure/></testcase>"


def _graded(tmp_path: Path, kind: str, script: str) -> ScorerResult:
    """The result of a scorer of this kind, of which this is the script or the command."""
    if kind in ("harbor", "tests"):
        _write_script(tmp_path, f"#!/bin/sh\ncd $(dirname $BENCH_JUNIT)\n{script}\n")
        return _score(tmp_path, kind)
    return _score(tmp_path, kind, **{"script" if kind == "bash" else "command": script})


def _junit(cases: str) -> str:
    """Of a shell: leave a report of these cases."""
    return f'echo "<testsuite>{cases}</testsuite>" > $BENCH_JUNIT'


@pytest.mark.parametrize(
    ("kind", "script", "said", "words"),
    [
        # Of Harbor's tests the exit status says nothing, unless they were killed.
        ("harbor", "echo 0.5 > reward.txt; exit 3", (0.5, None), ""),
        ("harbor", "echo 1 > reward.txt; kill $$", (1.0, None), ""),
        ("harbor", "echo 0 > reward.txt; kill -9 $$", (None, "scorer_crashed"), ""),
        ("harbor", "exit 127", (None, "score_missing"), ""),
        ("harbor", "head -c 2000000 /dev/zero > reward.json", (None, "score_invalid"), ""),
        # What tests leave is a score, unless their report and their exit status contradict each other.
        ("tests", "exit 0", (1.0, None), ""),
        ("tests", "exit 1", (0.0, None), ""),
        ("tests", "exit 127", (None, "scorer_crashed"), "could not be run (exit status 127): it printed nothing"),
        ("tests", _junit(""), (None, "score_missing"), "ran no test"),
        ("tests", "echo rubbish > $BENCH_JUNIT", (None, "score_invalid"), "cannot be read"),
        ("tests", "echo rubbish > $BENCH_CTRF", (None, "score_invalid"), "cannot be read"),
        ("tests", f"{_junit('<testcase/>')}; echo rubbish > $BENCH_CTRF", (1.0, None), ""),
        ("tests", """echo '{"results": {"tests": [{"status": "passed"}, {"status": "other"}]}}' > $BENCH_CTRF""", (0.5, None), ""),
        ("tests", "head -c 1025 /dev/zero > $BENCH_JUNIT", (None, "score_invalid"), "larger than"),
        ("tests", _junit("<testcase/>" * 2), (1.0, None), ""),
        ("tests", f"{_junit('<testcase/>' * 2)}; exit 3", (None, "scorer_crashed"), "all 2 tests of its report passed, but the run exited with status 3"),
        ("tests", f"{_junit(PASS_AND_FAIL)}; exit 1", (0.5, None), ""),
        ("tests", _junit(PASS_AND_FAIL), (0.5, None), ""),
        # A bash scorer has a score only when it prints one and exits with 0.
        ("bash", "echo score=0.5", (0.5, None), ""),
        ("bash", "echo score=0.5; echo score=1 >&2", (0.5, None), ""),
        ("bash", "echo score=1 >&2", (None, "score_missing"), ""),
        ("bash", "echo score=1; exit 1", (None, "scorer_crashed"), ""),
        ("bash", "echo oh no; exit 3", (None, "scorer_crashed"), "exited with status 3*Output: oh no"),
        ("bash", "exit 3", (None, "scorer_crashed"), "exited with status 3*Output: none"),
        ("bash", "echo score=2", (None, "score_invalid"), ""),
        ("bash", "echo score=1; kill -9 $$", (None, "scorer_crashed"), ""),
        ("bash", "true", (None, "score_missing"), ""),
        # A command that could not be run, or was killed, is never a zero.
        *(("command", f"exit {status}", (score, None), "") for status, score in ((0, 1.0), (1, 0.0), (125, 0.0), (128, 0.0))),
        *(("command", f"exit {status}", (None, "scorer_crashed"), "") for status in (126, 127, 129)),
    ],
)  # fmt: skip
def test_what_a_script_prints_leaves_and_exits_with_is_a_score_or_says_why_it_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, script: str, said: Said, words: str
) -> None:
    monkeypatch.setattr("pytest_benchjobs.scoring.builtin._REPORT_LIMIT", 1024)
    result = _graded(tmp_path, kind, script)
    assert _said(result) == said
    assert fnmatchcase(result.error.message if result.error else "", f"*{words}*")


@pytest.mark.parametrize(
    ("spec", "definition"),
    [
        ({"type": "command", "command": "test a-key"}, {"command": "test [x]"}),
        ({"type": "bash", "script": "echo 1\necho a-key"}, {"script": "echo 1\necho [x]"}),
        ({"type": "tests", "path": "hidden"}, {"path": "../hidden", "files": "fixtures, test_sum.py"}),
        ({"type": "tests", "path": "hidden/test_sum.py"}, {"path": "../hidden/test_sum.py"}),
        (
            {"type": "judge", "params": {"model": "openai/m", "criteria": "Is it kind?", "files": ["a.md"]}},
            {"model": "openai/m", "criteria": "Is it kind?", "files": '["a.md"]'},
        ),
        ({"type": "answer", "params": {"expected": "42"}}, {}),
    ],
)
def test_a_result_has_what_its_scorer_runs_without_secrets(
    tmp_path: Path, spec: dict[str, Any], definition: dict[str, str]
) -> None:
    (tmp_path / "hidden/fixtures").mkdir(parents=True)
    (tmp_path / "hidden/test_sum.py").touch()
    spec = {**spec, "path": tmp_path / spec["path"]} if "path" in spec else spec
    of = trial(file=str(tmp_path / "benchmarks/a.bench.yaml")).scenario
    with left() as sandbox:
        about = ScorerSpec(name="right", **spec)
        context = make_context(of, about, sandbox, timeout=60, env={}, directory=tmp_path / "trial")
        graded = run_scorer(context, builtin_scorers()[about.type], lambda text: text.replace("a-key", "[x]"))
    assert graded.definition == definition
    (held,) = held_back({"scorers": (graded,)})["scorers"]
    assert held.definition == {}


def test_exit_status_and_report_are_kept(tmp_path: Path) -> None:
    assert _graded(tmp_path, "command", "exit 125").details == {"exit_status": 125}
    for script in (_junit(PASS_AND_FAIL), f"{_junit('<testcase/>')}; exit 3"):
        _graded(tmp_path, "tests", script)
        assert (tmp_path / "trial/scorers/tests/junit.xml").read_text().startswith("<testsuite>")


@pytest.mark.parametrize("kind", ["harbor", "tests"])
def test_a_script_with_the_line_ends_of_windows_is_an_error_that_says_so(tmp_path: Path, kind: str) -> None:
    _write_script(tmp_path, "#!/bin/sh\r\necho 1 > $(dirname $BENCH_JUNIT)/reward.txt\r\n")
    result = _score(tmp_path, kind)
    assert result.score is None
    assert result.error is not None
    assert fnmatchcase(result.error.message, "*Windows line endings (CRLF)*eol=lf*")


def _ended(status: int | None, *, timed_out: bool = False, oom_kills: int = 0) -> ExecResult:
    return ExecResult(status, timed_out, 1.0, oom_kills)


class _Ending:
    """A sandbox whose commands print two lines, and end as told."""

    def __init__(self, result: ExecResult) -> None:
        self._result = result
        self.files: list[str] = []
        self.limits: list[float] = []

    def put(self, files: list[File]) -> None:
        self.files += [file.path for file in files]

    def exec(self, *_: object, timeout: float, sink: Tail, **__: object) -> ExecResult:
        self.limits.append(timeout)
        sink(b"first\nlast\n")
        return self._result


class _Untold(_Ending):
    """A sandbox of an engine that tells no owners; our program tells these."""

    def __init__(self, owners: Mapping[str, int]) -> None:
        super().__init__(_ended(0))
        self._owners, self._told = owners, dict[str, int]()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        self._told = dict(self._owners)
        yield

    def fetch(self, path: str, destination: Path, *, limit: int) -> Fetched:
        destination.mkdir()
        (destination / "reward.txt").write_text("1")
        return Fetched(("reward.txt",), 1, owners=self._told)


@pytest.mark.parametrize(
    ("owners", "error"),
    [({"reward.txt": 0}, None), ({"reward.txt": 65534}, ScoreContradicted), ({}, ScorerCrashed)],
)
def test_whose_a_reward_is_our_program_tells_where_the_engine_does_not(
    tmp_path: Path, owners: Mapping[str, int], error: type[Exception] | None
) -> None:
    (tmp_path / "test.sh").write_text("true")
    spec = ScorerSpec(name="it", type="harbor", path=tmp_path)
    context = ScoringContext(
        trial().scenario, spec, _Untold(owners), 20.0, {}, tmp_path, Path(), Usage(), owner=lambda: (0, 0)  # type: ignore[arg-type]
    )  # fmt: skip
    with contextlib.nullcontext() if error is None else pytest.raises(error):
        assert score_harbor(context).score == 1.0


def _shell(sandbox: _Ending, command: str = "true", **options: Any) -> str:
    spec = ScorerSpec(name="it", type="command", command="true")
    context = ScoringContext(
        trial().scenario, spec, sandbox, 20.0, {}, Path(), Path(), Usage()  # type: ignore[arg-type]
    )  # fmt: skip
    return context.run(command, **options)[1]


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        (_ended(None, timed_out=True), ScorerTimeout, "within 20 s. Its last line: last"),
        (_ended(0, timed_out=True), ScorerTimeout, "within 20 s"),
        (_ended(None), ScorerTimeout, "within 20 s"),
        (_ended(0, oom_kills=1), OutOfMemory, "ran out of memory"),
        (_ended(137, oom_kills=1), OutOfMemory, "ran out of memory"),
        (_ended(129), ScorerCrashed, "killed by signal 1. Its last line: last"),
    ],
)
def test_a_command_of_a_scorer_that_was_ended_is_an_error(
    result: ExecResult, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        _shell(_Ending(result))
    assert words in str(caught.value)


def test_signals_and_limits_are_those_the_scorer_asks_for() -> None:
    ending = _Ending(_ended(137))
    assert _shell(ending, signals_matter=False, timeout=3.0) == "first\nlast\n"
    assert ending.limits == [3.0]
    with pytest.raises(ScorerTimeout, match="within 3 s"):
        _shell(_Ending(_ended(None)), timeout=3.0)


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("junit.xml", "<testsuite><testcase/></testsuite>"),
        ("ctrf.json", '{"results": {"tests": [{"status": "passed"}]}}'),
    ],
)
def test_a_report_that_the_agent_left_is_none(tmp_path: Path, name: str, report: str) -> None:
    _write_script(tmp_path, "#!/bin/sh\nexit 1\n")
    result = _score(tmp_path, "tests", {f"/logs/verifier/{name}": report})
    assert _said(result) == (0.0, None)


def test_a_command_of_its_own_runs_instead_of_the_script(tmp_path: Path) -> None:
    _write_script(tmp_path, "#!/bin/sh\nexit 0\n")
    assert _said(_score(tmp_path, "tests", command="exit 1")) == (0.0, None)
    assert _said(_score(tmp_path, "tests", command="exit 0")) == (1.0, None)


def test_pytest_that_finds_no_tests_has_no_score(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text("")
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    result = _score(tmp_path, "tests", env=path)
    assert result.score is None
    assert result.error is not None


def test_a_single_file_of_tests_is_run_by_pytest_whatever_lies_beside_it(tmp_path: Path) -> None:
    _write_script(tmp_path, "#!/bin/sh\nexit 0\n")
    single = tmp_path / "tests" / "test_it.py"
    single.write_text("def test_wrong():\n    assert False\n")
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    result = _score(tmp_path, "tests", path=single, env=path)
    assert (result.score, result.details) == (0.0, {"passed": 0, "total": 1})


def test_of_long_output_the_end_is_kept() -> None:
    tail = Tail(4)
    assert tail.text() == ""
    tail(b"abcd")
    assert tail.text() == "abcd"
    tail(b"ef")
    assert tail.text() == "cdef"
    tail(b"0123456789")
    assert tail.text() == "6789"
    for letter in b"xyz":
        tail(bytes([letter]))
    assert tail.text() == "9xyz"
