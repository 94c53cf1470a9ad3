"""SWE-Bench Pro through a real engine, with an instance of our own in the official form and a tiny repository."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import docker
import pytest

from tests.support import by_agent, fetched, results, run

from .built import GIT_AND_PYTHON, build

pytestmark = [pytest.mark.docker, pytest.mark.when_changed("swebench", "swebench_pro", "grade", "grading")]

TAG = "jefzda/sweap-images:our.tiny-benchjobs-test"
# The commit with the tests is in the image, as in those of the authors; a tracked file is not as it was committed.
DOCKERFILE = f"""\
{GIT_AND_PYTHON}RUN mkdir /app && cd /app && git init -q && git config user.name t && git config user.email t@localhost \
 && echo 1 > answer && echo base > lock && git add -A && git commit -qm base && git tag base \
 && mkdir tests && printf 'sh ./hook 2>/dev/null\\ngrep -qx 2 answer && echo "ok t::answer" || echo "no t::answer"\\necho "ok t::kept"\\n' > tests/run.sh \
 && git add -A && git commit -qm tests && git tag tests && git checkout -q base && echo built > lock
ENTRYPOINT ["/bin/false"]
"""
RUN_SCRIPT = 'echo "flag $FLAG" >&2; for t in $(echo "$1" | tr , " "); do bash tests/$t; done; grep -qx base lock && echo ok t::lock\n'
PARSER = """\
import json, sys
out, err, result = sys.argv[1:]
tests = [line.split(" ", 1) for line in open(out).read().splitlines() if " " in line]
assert "flag yes" in open(err).read()
json.dump({"tests": [{"name": n, "status": "PASSED" if s == "ok" else "FAILED"} for s, n in tests]}, open(result, "w"))
"""
PATCH = "diff --git a/answer b/answer\n--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-1\n+2\n"


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Build the image; returns the commits of its base and of its tests."""
    build(tmp_path_factory.mktemp("image"), DOCKERFILE, TAG)
    client = docker.from_env()
    try:
        said = client.containers.run(
            TAG, ["-C", "/app", "rev-parse", "base", "tests"], entrypoint="git", remove=True
        )
    finally:
        client.close()
    base, tests = re.findall(r"[0-9a-f]{40}", said.decode())
    return base, tests


class Instance(NamedTuple):
    """An instance with this problem and parser, whose tests are in a commit that is there, or in another."""

    problem: str = "The answer is 2."
    parser: str = PARSER
    commit: str | None = None


def run_instances(
    directory: Path, commits: tuple[str, str], instances: Mapping[str, Instance], *agents: str
) -> str:
    """Run instances by their names; returns what pytest printed."""
    base, tests = commits
    rows, files = [], {}
    for name, instance in instances.items():
        id_ = f"instance_our__{name}"
        rows.append(
            {
                "instance_id": id_,
                "repo": "our/tiny",
                "base_commit": base,
                "patch": PATCH,
                "problem_statement": instance.problem,
                "requirements": "",
                "interface": "",
                "before_repo_set_cmd": f"git reset --hard {base}\n"
                f"git checkout {instance.commit or tests} -- tests/run.sh",
                "selected_test_files_to_run": "['run.sh']",
                "fail_to_pass": "['t::answer']",
                "pass_to_pass": '["t::kept", "t::lock"]',
                "dockerhub_tag": "our.tiny-benchjobs-test",
            }
        )
        files |= {
            f"run_scripts/{id_}/run_script.sh": RUN_SCRIPT,
            f"run_scripts/{id_}/parser.py": instance.parser,
            f"dockerfiles/base_dockerfile/{id_}/Dockerfile": "FROM x\n",
            f"dockerfiles/instance_dockerfile/{id_}/Dockerfile": "ENV FLAG=yes\n",
        }
    files["rows.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)
    for path, text in files.items():
        (directory / "given" / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / "given" / path).write_text(text)
    named = [f"--bench-agent={agent}" for agent in agents]
    cache = fetched("swe-bench-pro", directory)
    return run(
        directory, "--bench=swe-bench-pro", "--bench-concurrency=6", *named, BENCHJOBS_CACHE=cache
    ).stdout


def test_the_reference_resolves_and_nothing_does_not(tmp_path: Path, commits: tuple[str, str]) -> None:
    agents = ("oracle", "nop", "command:! git checkout -q tests -- tests && echo 2 > answer")
    said = run_instances(tmp_path, commits, {"tiny-1": Instance()}, *agents)
    found = by_agent(tmp_path)
    assert found, said
    assert {name: [(one["outcome"], one["score"]) for one in results] for name, results in found.items()} == {
        "oracle": [("passed", 1.0)],
        "nop": [("failed", 0.0)],
        "command": [("passed", 1.0)],
    }, said
    assert found["nop"][0]["scorers"][0]["details"] == {
        "resolved": False,
        "passed": 2,
        "total": 3,
        "failing": ["t::answer"],
    }


REPLACED = (
    'import json; json.dump({"tests": [{"name": n, "status": "PASSED"} for n in '
    '("t::answer", "t::kept", "t::lock")]}, open("/workspace/parsed/output.json", "w"))'
)
# Run by the tests, which load what the agent left: the parser and its result are not there yet, and python comes back.
HOSTILE = f"""\
cat > hook <<'END'
mkdir -p /workspace/parsed; echo '{REPLACED}' > /workspace/parsed/parser.py; python3 /workspace/parsed/parser.py
cp /workspace/parsed/output.json /workspace/output.json
rm /usr/bin/python3; printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/python3; chmod 755 /usr/bin/python3
END
"""


ANSWER = "echo 2 > answer"
CASES = {
    "hostile": Instance(HOSTILE),
    "gone": Instance(ANSWER, commit="f" * 40),
    "exits": Instance(ANSWER, "raise SystemExit(1)"),
}


def test_what_the_tested_code_leaves_is_no_result_and_what_breaks_an_error(
    tmp_path: Path, commits: tuple[str, str]
) -> None:
    said = run_instances(tmp_path, commits, CASES, 'command:sh "$BENCH_PROBLEM_FILE"')
    found = {one["scenario"].removeprefix("instance_our__"): one for one in results(tmp_path)}
    assert {name: (one["outcome"], one["score"]) for name, one in found.items()} == {
        name: ("failed", 0.0) if name == "hostile" else ("error", None) for name in CASES
    }, said
    assert "cannot be checked out" in found["gone"]["scorers"][0]["error"]["message"]
    assert found["exits"]["scorers"][0]["error"]["class"] == "score_missing"
