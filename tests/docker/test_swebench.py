"""SWE-bench through a real engine, with rows of our own in the official schema and a tiny repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import by_agent, fetched, results, run

from .built import GIT_AND_PYTHON, build

pytestmark = [pytest.mark.docker, pytest.mark.when_changed("swebench", "grade", "grading")]

TAG = "benchjobs/swebench-test:1"
DOCKERFILE = f"""\
{GIT_AND_PYTHON}RUN mkdir /testbed && cd /testbed && git init -q && git config user.name t && git config user.email t@localhost \
 && printf '*.cache\\nbuild/\\n' > .gitignore && echo 1 > answer && echo keep > kept && echo old > gone && ln -s kept link \
 && mkdir tests real && ln -s real behind && echo x > real/x \
 && printf 'test "$(cat answer)" = 2 && echo PASSED t::answer || {{ echo FAILED t::answer - no; exit 1; }}\\n' > tests/run.sh \
 && git add -A && git commit -qm base && mkdir build && echo made > build/made && echo cached > a.cache
WORKDIR /testbed
"""
PATCH = """\
diff --git a/answer b/answer
--- a/answer
+++ b/answer
@@ -1 +1 @@
-1
+2
"""
SCRIPT = """\
#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git status --short
git checkout HEAD tests/run.sh
git apply -v - <<'EOF_114329324912'
diff --git a/tests/run.sh b/tests/run.sh
--- a/tests/run.sh
+++ b/tests/run.sh
@@ -1 +1,3 @@
+echo PASSED t::kept
+%s
 test "$(cat answer)" = 2 && echo PASSED t::answer || { echo FAILED t::answer - no; exit 1; }
EOF_114329324912
: '>>>>> Start Test Output'
bash tests/run.sh
: '>>>>> End Test Output'
git checkout HEAD tests/run.sh
"""


def row(name: str, also: str = ":", **more: Any) -> dict[str, Any]:
    return {
        "repo": "our/tiny",
        "instance_id": name,
        "base_commit": "0" * 40,
        "patch": PATCH,
        "problem_statement": "The answer is 2.",
        "version": "1",
        "FAIL_TO_PASS": '["t::answer"]',
        "PASS_TO_PASS": "['t::kept']",
        "difficulty": "<15 min fix",
        "eval_script": SCRIPT % also,
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "image": TAG,
        **more,
    }


@pytest.fixture(scope="module", autouse=True)
def image(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A repository with one commit, what git ignores, and a link to a directory."""
    build(tmp_path_factory.mktemp("image"), DOCKERFILE, TAG)


def run_rows(directory: Path, rows: Sequence[dict[str, Any]], *agents: str) -> str:
    """Put rows where those of the catalogue are, and run them; returns what pytest printed."""
    (directory / "given").mkdir()
    (directory / "given" / "rows.json").write_text(json.dumps(rows))
    named = [f"--bench-agent={agent}" for agent in agents]
    cache = fetched("swe-bench-verified", directory)
    return run(
        directory, "--bench=swe-bench-verified", "--bench-concurrency=6", *named, BENCHJOBS_CACHE=cache
    ).stdout


def test_the_reference_resolves_and_nothing_does_not(tmp_path: Path) -> None:
    said = run_rows(tmp_path, [row("our__tiny-1")], "oracle", "nop")
    found = by_agent(tmp_path)
    assert found, said
    (oracle,), (nop,) = found["oracle"], found["nop"]
    assert (oracle["outcome"], oracle["score"]) == ("passed", 1.0), said
    assert (nop["outcome"], nop["score"]) == ("failed", 0.0), said
    assert oracle["scorers"][0]["details"] == {
        "resolved": True, "fail_to_pass": [1, 1], "pass_to_pass": [1, 1], "failing": [],
    }  # fmt: skip
    assert nop["scorers"][0]["details"]["failing"] == ["t::answer"]


CHECKS = (
    'test "$(cat a.cache build/made)" = "$(printf \'cached\\nmade\')" || echo FAILED t::ignored',
    "test ! -e new.cache && test ! -e new/b.cache && test ! -e build/new || echo FAILED t::ignored-new",
    (
        "test -x new/run && test ! -e gone && test -L link && test \"$(head -c 2 binary | od -An -tx1)\" = ' 00 ff' "
        "|| echo FAILED t::kept"
    ),
    "test -d behind && test ! -L behind && test -e behind/y || echo FAILED t::behind",
)
WORK = (
    "echo 2 > answer; echo poison > a.cache; echo poison > build/made; echo x > build/new; echo x > new.cache; mkdir new; "
    "echo x > new/b.cache; echo run > new/run; chmod 755 new/run; rm gone; printf '\\000\\377' > binary; "
    "rm behind; mkdir behind; echo y > behind/y; git add -A; git -c user.name=a -c user.email=a@b commit -qm done"
)


HOSTILE = {
    "it prints what it wants to see": "printf 'echo PASSED t::answer\\nexit 1\\n' > tests/run.sh; echo 'PASSED t::answer' > answer",
    "it has the tests killed": "printf 'kill -9 $PPID\\n' > .git/hooks/post-checkout; rm -rf .git",
    "a pipe in place of what is read": "rm answer; mkfifo answer",
}
KILL = "kill -9 $PPID"
OFFLINE = SCRIPT.replace("bash tests/run.sh", "echo 'fatal: Could not resolve host: example.org'") % ":"
FAILED, ERROR = ("failed", 0.0), ("error", None)
TESTS = '["t::answer"]'


CASES: dict[str, tuple[str, tuple[str, float | None], dict[str, Any]]] = {
    # What the agent does, what has to come of it, and keys of the row.
    **{
        f"check {n}": (WORK, ("passed", 1.0), {"also": check, "FAIL_TO_PASS": TESTS})
        for n, check in enumerate(CHECKS)
    },
    **{name: (work, FAILED, {}) for name, work in HOSTILE.items()},
    # A script that breaks is an error unless it is the agent's doing.
    "broken": ("echo 3 > answer", ERROR, {"also": KILL}),
    "spoiled": ("echo 3 > answer", FAILED, {"also": f"grep -q 1 answer || {KILL}"}),
    "offline": ("echo 2 > answer", ERROR, {"eval_script": OFFLINE}),
}


def test_work_is_graded_as_a_diff_would_be_and_none_is_worth_more_than_it_is(tmp_path: Path) -> None:
    """New files, modes, deletions, links and what is binary; nothing that git ignores, and commits make no difference."""
    ids = {name: f"our__tiny-{number}" for number, name in enumerate(CASES)}
    rows = [row(id_, problem_statement=CASES[name][0], **CASES[name][2]) for name, id_ in ids.items()]
    said = run_rows(tmp_path, rows, 'command:sh "$BENCH_PROBLEM_FILE"')
    found = {result["scenario"]: result for result in results(tmp_path)}
    ends = {name: (found[id_]["outcome"], found[id_]["score"]) for name, id_ in ids.items()}
    assert ends == {name: CASES[name][1] for name in CASES}, said
    for name, id_ in ids.items():
        if name.startswith("check"):
            output = found[id_]["scorers"][0]["output"]
            assert "FAILED" not in output.partition("Start Test Output")[2], found[id_]
