"""SWE-Bench Pro through a real engine, with an instance of our own in the official form and a tiny repository."""

from __future__ import annotations

import json
import re
from pathlib import Path

import docker
import docker.errors
import pytest

from tests.support import IMAGE, by_agent, fetched, results, run

pytestmark = pytest.mark.docker

NAME = "instance_our__tiny-1"
TAG = "jefzda/sweap-images:our.tiny-benchjobs-test"
# The commit with the tests is in the image, as in those of the authors; a tracked file is not as it was committed.
DOCKERFILE = f"""\
FROM {IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends git python3 && rm -rf /var/lib/apt/lists/*
RUN mkdir /app && cd /app && git init -q && git config user.name t && git config user.email t@localhost \
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
    context = tmp_path_factory.mktemp("image")
    (context / "Dockerfile").write_text(DOCKERFILE)
    client = docker.from_env()
    try:
        client.images.build(path=str(context), tag=TAG, rm=True, forcerm=True)
        said = client.containers.run(
            TAG, ["-C", "/app", "rev-parse", "base", "tests"], entrypoint="git", remove=True
        )
    except docker.errors.BuildError as error:
        pytest.skip(f"an image with git cannot be built here: {str(error)[:300]}")
    finally:
        client.close()
    base, tests = re.findall(r"[0-9a-f]{40}", said.decode())
    return base, tests


def run_instance(directory: Path, commits: tuple[str, str], *agents: str, parser: str = PARSER) -> str:
    """Run the instance; returns what pytest printed."""
    base, tests = commits
    row = {
        "instance_id": NAME,
        "repo": "our/tiny",
        "base_commit": base,
        "patch": PATCH,
        "problem_statement": "The answer is 2.",
        "requirements": "",
        "interface": "",
        "before_repo_set_cmd": f"git reset --hard {base}\ngit checkout {tests} -- tests/run.sh",
        "selected_test_files_to_run": "['run.sh']",
        "fail_to_pass": "['t::answer']",
        "pass_to_pass": '["t::kept", "t::lock"]',
        "dockerhub_tag": "our.tiny-benchjobs-test",
    }
    given = directory / "given"
    for name, text in {
        "rows.jsonl": json.dumps(row),
        f"run_scripts/{NAME}/run_script.sh": RUN_SCRIPT,
        f"run_scripts/{NAME}/parser.py": parser,
        f"dockerfiles/base_dockerfile/{NAME}/Dockerfile": "FROM x\n",
        f"dockerfiles/instance_dockerfile/{NAME}/Dockerfile": "ENV FLAG=yes\n",
    }.items():
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        (given / name).write_text(text)
    options = ("--bench=swe-bench-pro", *(f"--bench-agent={agent}" for agent in agents))
    return run(directory, *options, BENCHJOBS_CACHE=fetched("swe-bench-pro", directory)).stdout


def test_the_reference_resolves_and_nothing_does_not(tmp_path: Path, commits: tuple[str, str]) -> None:
    said = run_instance(tmp_path, commits, "oracle", "nop", "command:test ! -e tests && echo 2 > answer")
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


@pytest.mark.extended
def test_what_the_tested_code_leaves_is_not_the_result(tmp_path: Path, commits: tuple[str, str]) -> None:
    said = run_instance(tmp_path, commits, f"command:{HOSTILE}")
    (result,) = results(tmp_path)
    assert (result["outcome"], result["score"]) == ("failed", 0.0), said


@pytest.mark.parametrize(
    ("parser", "error"),
    [
        ("raise SystemExit(1)", "score_missing"),
        ("import sys; open(sys.argv[3], 'w').write('[]')", "score_invalid"),
        ("import sys; open(sys.argv[3], 'w').write('[' * 100000)", "score_invalid"),
    ],
)
@pytest.mark.extended
def test_a_parser_that_breaks_is_an_error(
    tmp_path: Path, commits: tuple[str, str], parser: str, error: str
) -> None:
    said = run_instance(tmp_path, commits, "command:echo 2 > answer", parser=parser)
    (result,) = results(tmp_path)
    assert (result["outcome"], result["score"]) == ("error", None), said
    assert result["scorers"][0]["error"]["class"] == error, said


def test_tests_that_are_not_in_the_image_are_an_error(tmp_path: Path, commits: tuple[str, str]) -> None:
    said = run_instance(tmp_path, (commits[0], "f" * 40), "command:echo 2 > answer")
    (result,) = results(tmp_path)
    assert (result["outcome"], result["score"]) == ("error", None), said
    assert "cannot be checked out" in result["scorers"][0]["error"]["message"]
