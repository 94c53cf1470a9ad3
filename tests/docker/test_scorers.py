"""Scorers, set-up, networks, users and artifacts in real containers: one job of many scenarios."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

HEAD = f"""\
benchmark: graded
defaults:
  image: {IMAGE}
  workdir: /app
  network: none
  agent_timeout: 120
scenarios:
"""
BULK = "# " + "x" * 120_000
WAIT = "until test -e /app/next; do sleep 0.1; done"
"""For what a scorer left to wait for the next one."""

CONFTEST = """
from pytest_benchjobs import Graded


def line_count(context):
    status, output = context.run("wc -l < out.txt")
    wanted = context.spec.params["lines"]
    (context.directory / "note.txt").write_text(f"wanted {wanted}")
    return Graded(1.0 if output.strip() == str(wanted) else 0.5, output, {"wanted": wanted})


def pytest_benchjobs_scorers(config):
    return {"line-count": line_count}
"""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


SCENARIOS = f"""\
- id: kinds
  problem_statement: Write right.
  reference: echo right > out.txt
  scorers:
    - {{name: junit, type: tests, path: junit/}}
    - {{name: ctrf, type: tests, path: ctrf/}}
    - {{name: command, type: command, command: "grep -qx right out.txt"}}
    - {{name: refused, type: command, command: "grep -qx wrong out.txt"}}
    - {{name: lines, type: line-count, params: {{lines: 2}}}}
    - name: long
      type: bash
      script: |
        {BULK}
        [[ $(cat out.txt) == right ]] && echo score=0.125
- id: claims
  problem_statement: Nothing.
  reference: "true"
  scorers:
    - {{name: claims, type: tests, path: claims/}}
- id: no-pytest
  problem_statement: Nothing.
  reference: "true"
  scorers:
    - {{name: there, type: command, command: "true"}}
    - {{name: python, type: tests, path: junit/report.xml}}
- id: user
  problem_statement: Append to in.txt as nobody.
  agent_user: nobody
  files: {{in.txt: in.txt, deep/more.txt: in.txt}}
  setup: ["mkdir -m 777 /out", "(sleep 1; touch /tmp/ready) >/dev/null 2>&1 &"]
  healthcheck: {{command: "test -e /tmp/ready", interval: 0.2, retries: 30}}
  reference: |
    test "$(id -un)" = nobody || exit 5
    echo more >> in.txt && echo more >> deep/more.txt
    echo a > /out/a.log; echo b > '/out/b c.log'; echo c > /out/c.txt
    ln -s a.log /out/link.log; ln -s /nowhere /out/dangling.log
  scorers:
    - {{name: wrote, type: bash, script: "test $(cat in.txt deep/more.txt | wc -l) = 4 && echo 1 || echo 0"}}
    - {{name: root, type: command, command: "test $(id -u) = 0"}}
    - {{name: nobody, type: command, user: nobody, command: "test $(id -un) = nobody"}}
  artifacts: [/out/*.log, in.txt, "*.none"]
- id: offline
  problem_statement: Notice that there is no network.
  network: public
  agent_network: none
  threshold: 1.0
  reference: ls /sys/class/net > out.txt
  scorers:
    - {{name: agent-offline, type: command, command: "! grep -q eth out.txt"}}
    - {{name: online, type: command, command: "ls /sys/class/net | grep -q eth"}}
    - {{name: offline, type: command, network: none, command: "! ls /sys/class/net | grep -q eth"}}
    - {{name: online-again, type: command, network: public, command: "ls /sys/class/net | grep -q eth"}}
- id: lenient
  problem_statement: Half of it is enough.
  threshold: 0.5
  reference: "true"
  scorers:
    - {{name: half, type: bash, script: "echo 0.5"}}
- id: broken-set-up
  problem_statement: Nothing.
  setup: ["echo out of luck >&2; exit 7"]
  reference: "true"
  scorers: [{{name: s, type: command, command: "true"}}]
- id: sick
  problem_statement: Nothing.
  healthcheck: {{command: "exit 3", interval: 0.1, retries: 2}}
  reference: "true"
  scorers: [{{name: s, type: command, command: "true"}}]
- id: names
  problem_statement: Make strange names.
  reference: |
    printf x > $(printf 'a\\nb.log'); mkdir x.log; echo 1 > x.log/in; ln -s /etc y.log; echo 2 > -n.log
  scorers: [{{name: s, type: command, command: "true"}}]
  artifacts: ["*.log"]
- id: sh
  image: null
  dockerfile: env/Dockerfile
  problem_statement: Write right.
  setup: ["test -z \\"$BASH_VERSION\\""]
  reference: echo right > out.txt
  scorers:
    - {{name: short, type: bash, script: "test -z \\"$BASH_VERSION\\" && grep -qx right out.txt && echo 1"}}
    - name: long
      type: bash
      script: |
        {BULK}
        grep -qx right out.txt && echo score=1
- id: lingering
  problem_statement: Nothing.
  reference: "true"
  scorers:
    - {{name: first, type: command, command: "setsid sh -c '{WAIT}; touch /app/late' >/dev/null 2>&1 & true"}}
    - {{name: second, type: command, command: "touch /app/next; sleep 1; test ! -e /app/late"}}
- id: closed
  problem_statement: Nothing.
  reference: "true"
  scorers: [{{name: own, type: tests, path: own/, user: nobody}}]
"""


def _files(directory: Path) -> None:
    _write(directory / "conftest.py", CONFTEST)
    _write(
        directory / "junit" / "test.sh",
        """\
        #!/bin/sh
        cat "$BENCH_TESTS_DIR/report.xml" > "$BENCH_JUNIT"
        grep -q right out.txt || exit 1
        exit 1
        """,
    )
    _write(
        directory / "junit" / "report.xml",
        "<testsuites><testsuite><testcase/><testcase/><testcase/><testcase><failure/></testcase></testsuite></testsuites>",
    )
    ctrf = {"results": {"tests": [{"status": "passed"}, {"status": "failed"}]}}
    _write(directory / "ctrf" / "test.sh", f"#!/bin/sh\necho '{json.dumps(ctrf)}' > \"$BENCH_CTRF\"\n")
    _write(
        directory / "claims" / "test.sh",
        '#!/bin/sh\necho "<testsuite><testcase/></testsuite>" > "$BENCH_JUNIT"\nexit 9\n',
    )
    _write(directory / "in.txt", "given\n")
    _write(
        directory / "env" / "Dockerfile", f"FROM {IMAGE}\nRUN rm -f /bin/bash /usr/bin/bash\nWORKDIR /app\n"
    )
    _write(
        directory / "own" / "test.sh",
        '#!/bin/sh\ntest "$(id -un)" = nobody && grep -q right "$BENCH_TESTS_DIR/data"\n',
    )
    _write(directory / "own" / "data", "right\n")
    for path in (directory / "own").iterdir():
        path.chmod(0o600)
    (directory / "own").chmod(0o700)


def _kind(result: dict[str, Any]) -> tuple[str, str | None, float | None]:
    return result["outcome"], (result["failure"] or {}).get("class"), result["score"]


def test_each_scenario_is_set_up_and_graded_as_it_says(tmp_path: Path) -> None:
    _files(tmp_path)
    (tmp_path / "graded.bench.yaml").write_text(HEAD + textwrap.indent(SCENARIOS, "  "))
    done = run(tmp_path, "graded.bench.yaml", "--bench-concurrency=8")
    found = {result["scenario"]: result for result in results(tmp_path)}
    assert found, done.stdout
    _check_scorers(tmp_path, found)
    _check_set_up(tmp_path, found)
    _check_names(found)
    assert _kind(found["sh"]) == ("passed", None, 1.0), found["sh"]
    assert _kind(found["lingering"]) == ("passed", None, 1.0), found["lingering"]
    assert _kind(found["closed"]) == ("passed", None, 1.0), found["closed"]


def _check_scorers(directory: Path, found: Mapping[str, dict[str, Any]]) -> None:
    kinds = found["kinds"]
    assert {scorer["name"]: scorer["score"] for scorer in kinds["scorers"]} == {
        "junit": 0.75,
        "ctrf": 0.5,
        "command": 1.0,
        "refused": 0.0,
        "lines": 0.5,
        "long": 0.125,
    }
    assert _kind(kinds) == ("failed", "below_threshold", pytest.approx(2.875 / 6))
    (note,) = directory.glob("reports/jobs/*/trials/*/kinds/1/scorers/lines/note.txt")
    assert note.read_text() == "wanted 2"
    (report,) = directory.glob("reports/jobs/*/trials/*/kinds/1/scorers/junit/junit.xml")
    assert report.read_text().startswith("<testsuites>")
    assert _kind(found["claims"]) == ("error", "scorer_crashed", None)
    assert "status 9" in found["claims"]["failure"]["message"]
    assert _kind(found["no-pytest"]) == ("error", "scorer_crashed", None)
    assert [scorer["score"] for scorer in found["no-pytest"]["scorers"]] == [1.0, None]


def _check_set_up(directory: Path, found: Mapping[str, dict[str, Any]]) -> None:
    user = found["user"]
    assert _kind(user) == ("passed", None, 1.0), user
    assert user["artifacts"] == ["out/a.log", "out/b c.log", "out/link.log", "in.txt"]
    (kept,) = directory.glob("reports/jobs/*/trials/*/user/1/artifacts")
    assert [(kept / name).read_text() for name in user["artifacts"]] == ["a\n", "b\n", "a\n", "given\nmore\n"]
    assert "artifact *.none does not exist" in user["notes"]
    assert _kind(found["offline"]) == ("passed", None, 1.0), found["offline"]
    assert _kind(found["lenient"]) == ("passed", None, 0.5)
    assert _kind(found["broken-set-up"]) == ("error", "environment", None)
    assert "out of luck" in found["broken-set-up"]["failure"]["message"]
    assert _kind(found["sick"]) == ("error", "environment", None)


def _check_names(found: Mapping[str, dict[str, Any]]) -> None:
    kept = set(found["names"]["artifacts"])
    assert {"x.log/in", "-n.log"} <= kept
    assert not any("\n" in name for name in kept)
