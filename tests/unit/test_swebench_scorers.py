"""The kinds `swebench` and `swebench-pro`, on a sandbox that answers by script."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_benchjobs.model.errors import (
    EnvironmentFailed,
    InfrastructureError,
    OutOfMemory,
    ScoreInvalid,
    ScoreMissing,
    ScorerCrashed,
    ScorerTimeout,
)
from pytest_benchjobs.model.scenario import Environment, Scenario, ScorerSpec
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.sandbox.protocol import ExecResult, File, Sandbox
from pytest_benchjobs.scoring.protocol import Graded, ScoringContext
from pytest_benchjobs.scoring.swebench import pro, verified
from pytest_benchjobs.scoring.swebench.verified import END, START, score_swebench

ROW = {
    "eval_script": f"echo before\n: '{START}'\ntests\n: '{END}'\n",
    "log_parser": "parse_log_flask",
    "fail_to_pass": ["t::a"],
    "pass_to_pass": ["t::b"],
}
INSTANCE = {
    "environment": ["export A=1"], "checkout": "git checkout abc -- t.py", "run_script": "echo ran",
    "parser": "print()", "test_files": ["t.py", "u[x y].py"], "fail_to_pass": ["t::a"],
    "pass_to_pass": ["t::b"],
}  # fmt: skip


@dataclasses.dataclass
class Scripted:
    """A sandbox whose commands print what `prints` says, and end as `ends` says."""

    prints: Callable[[str], str] = lambda _: ""
    ends: Callable[[str], ExecResult] = lambda _: ExecResult(0, timed_out=False, seconds=1)
    output: bytes | None = None
    limit: int = 1 << 40
    workdir: str = "/app"
    other: Scripted | None = None
    """An untouched one; by default this one."""
    events: list[Any] = dataclasses.field(default_factory=list)
    cleaned: list[str] = dataclasses.field(default_factory=list)

    def put(self, files: Iterable[File]) -> None:
        files = list(files)
        self.cleaned += [file.path for file in files if file.clean]
        self.events += [
            (file.path, None if file.content is None else file.content.decode("utf-8", "replace"))
            for file in files
        ]

    def exec(self, argv: Iterable[str], *, sink: Callable[[bytes], None], **_: Any) -> ExecResult:
        command = list(argv)[-1]
        self.events.append(command)
        sink(self.prints(command).encode())
        return self.ends(command)

    def read(self, path: str, *, limit: int) -> bytes | None:
        if self.output is not None and len(self.output) > min(limit, self.limit):
            raise ValueError(f"{path} is too large")
        return self.output


def context(sandbox: Scripted, kind: str, params: Mapping[str, Any], directory: Path) -> ScoringContext:
    spec = ScorerSpec(name="tests", type=kind, params=dict(params))
    scenario = Scenario(
        id="s", benchmark="b", problem_statement="p", environment=Environment(image="i"), scorers=(spec,), source=directory
    )  # fmt: skip
    return ScoringContext(
        scenario, spec, cast("Sandbox", sandbox), 60, {}, directory, directory / "agent.log", Usage(),
        untouched=lambda: contextlib.nullcontext(cast("Sandbox", sandbox.other or sandbox)),
    )  # fmt: skip


def grade(sandbox: Scripted, directory: Path, **changes: Any) -> Graded:
    graded = score_swebench(context(sandbox, "swebench", ROW | changes, directory))
    assert isinstance(graded, Graded)
    return graded


def log(*lines: str) -> Callable[[str], str]:
    return lambda _: "\n".join([f"+ : '{START}'", *lines, f"+ : '{END}'", ""])


def test_a_row_is_resolved_or_not(tmp_path: Path) -> None:
    sandbox = Scripted(log("PASSED t::a", "PASSED t::b", "\x1b[31mred"))
    graded = grade(sandbox, tmp_path)
    assert (graded.score, graded.details["resolved"]) == (1.0, True)
    assert "\x1b" not in graded.output
    (path, script), command = sandbox.events
    assert path == "/eval.sh"
    assert sandbox.cleaned == ["/eval.sh"]
    assert script.startswith("echo before\n")
    assert "2>&1" in command
    graded = grade(Scripted(log("PASSED t::a", "FAILED t::b")), tmp_path)
    assert (graded.score, graded.details) == (
        0.0,
        {"resolved": False, "fail_to_pass": [1, 1], "pass_to_pass": [0, 1], "failing": ["t::b"]},
    )


def test_a_log_that_counts_for_nothing_is_worth_0_and_says_why(tmp_path: Path) -> None:
    graded = grade(Scripted(log("no tests ran")), tmp_path, fail_to_pass=[], pass_to_pass=[])
    assert (graded.score, graded.details["resolved"]) == (0.0, False)
    assert "no test is listed" in graded.details["problem"]


@pytest.mark.parametrize(
    ("sandbox", "changes", "error", "message"),
    [
        (Scripted(lambda _: "cut"), {}, ScorerCrashed, "ended before its tests"),
        (Scripted(log("Could not resolve host: x")), {}, EnvironmentFailed, "Could not resolve host"),
        (Scripted(ends=lambda _: ExecResult(None, timed_out=True, seconds=60)), {}, ScorerTimeout, "within 60 s"),
        (Scripted(log(), lambda _: ExecResult(1, timed_out=False, seconds=1, oom_kills=1)), {}, OutOfMemory, "memory"),
        (Scripted(log(), lambda _: ExecResult(137, timed_out=False, seconds=1)), {}, ScorerCrashed, "signal 9"),
        (Scripted(), {"log_parser": "parse_log_jest"}, ScorerCrashed, "no log_parser 'jest'; there are astroid"),
        (Scripted(), {"eval_script": ""}, ScorerCrashed, "params.eval_script: a text is expected"),
        (Scripted(), {"fail_to_pass": "['a']"}, ScorerCrashed, "params.fail_to_pass: a list of texts is expected"),
    ],
)  # fmt: skip
def test_what_breaks_is_an_error(
    tmp_path: Path, sandbox: Scripted, changes: dict[str, Any], error: type[InfrastructureError], message: str
) -> None:
    with pytest.raises(error, match=message):
        grade(sandbox, tmp_path, **changes)


def test_a_log_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "LOG_LIMIT", 1000)
    sandbox = Scripted(log("PASSED t::a", "PASSED t::b", "x" * 1000))
    with pytest.raises(ScoreInvalid, match="the log has more than"):
        grade(sandbox, tmp_path)


def grade_instance(sandbox: Scripted, directory: Path, **changes: Any) -> Graded:
    graded = pro.score_swebench_pro(context(sandbox, "swebench-pro", INSTANCE | changes, directory))
    assert isinstance(graded, Graded)
    return graded


def statuses_of(**statuses: str) -> bytes:
    return json.dumps(
        {"tests": [{"name": f"t::{name}", "status": it} for name, it in statuses.items()]}
    ).encode()


def test_an_instance_is_resolved_if_all_have_passed(tmp_path: Path) -> None:
    assert (
        grade_instance(Scripted(output=statuses_of(a="PASSED", b="PASSED", c="FAILED")), tmp_path).score
        == 1.0
    )
    graded = grade_instance(Scripted(output=statuses_of(a="PASSED", b="SKIPPED")), tmp_path)
    assert (graded.score, graded.details) == (
        0.0,
        {"resolved": False, "passed": 1, "total": 2, "failing": ["t::b"]},
    )


def test_the_parser_reads_what_the_tests_printed_where_they_never_ran(tmp_path: Path) -> None:
    other = Scripted(output=statuses_of(a="PASSED", b="PASSED"))
    sandbox = Scripted(output=b"printed", other=other)
    assert grade_instance(sandbox, tmp_path).score == 1.0
    assert sandbox.cleaned == ["/workspace"]  # nothing in it is the agent's
    assert sandbox.events == [
        ("/workspace", None),
        ("/workspace/run_script.sh", "echo ran"),
        "export A=1\ncd /app\ngit checkout abc -- t.py",
        (
            "export A=1\ncd /app\nbash /workspace/run_script.sh t.py,u[x y].py "
            ">/workspace/stdout.log 2>/workspace/stderr.log"
        ),
    ]
    assert other.events[:4] == [
        ("/workspace/stdout.log", "printed"),
        ("/workspace/stderr.log", "printed"),
        ("/workspace/parsed/parser.py", "print()"),
        "tail -c 30000 /workspace/stderr.log /workspace/stdout.log",
    ]


def test_more_than_is_read_of_what_the_tests_printed_is_an_error(tmp_path: Path) -> None:
    other = Scripted(output=statuses_of(a="PASSED", b="PASSED"))
    with pytest.raises(ScoreInvalid):
        grade_instance(Scripted(output=b"x" * 9, limit=8, other=other), tmp_path)


def test_exit_statuses_do_not_matter_but_for_tests_that_are_not_there(tmp_path: Path) -> None:
    every = Scripted(
        ends=lambda _: ExecResult(1, timed_out=False, seconds=1), output=statuses_of(a="PASSED", b="PASSED")
    )
    assert grade_instance(every, tmp_path).score == 1.0
    killed = Scripted(
        ends=lambda command: ExecResult(139 if "run_script" in command else 0, timed_out=False, seconds=1),
        output=statuses_of(a="PASSED", b="FAILED"),
    )
    assert grade_instance(killed, tmp_path).score == 0.0
    every.output = statuses_of(a="PASSED", b="FAILED")
    with pytest.raises(ScorerCrashed, match="the tests cannot be checked out"):
        grade_instance(every, tmp_path)


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (None, ScoreMissing),
        (b"", ScoreInvalid),
        (b"[]", ScoreInvalid),
        (b'{"tests": [1]}', ScoreInvalid),
        (b'{"tests": [{"name": [], "status": "PASSED"}]}', ScoreInvalid),
        (b'{"tests": 7}', ScoreInvalid),
        (b"[" * 200_000, ScoreInvalid),
        (b"\xff\xfe", ScoreInvalid),
        (b"x" * (pro.OUTPUT_LIMIT + 1), ScoreInvalid),
    ],
)
def test_a_result_of_the_parser_that_is_none_is_an_error(
    tmp_path: Path, output: bytes | None, error: type[InfrastructureError]
) -> None:
    with pytest.raises(error):
        grade_instance(Scripted(output=output), tmp_path)
