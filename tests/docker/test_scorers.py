"""Scorers, set-up, networks, users and artifacts in real containers: one job of many scenarios."""

from __future__ import annotations

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


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


SCENARIOS = f"""\
- id: kinds
  problem_statement: Write right.
  reference: echo right > out.txt
  scorers:
    - {{name: refused, type: command, command: "grep -qx wrong out.txt"}}
    - name: long
      type: bash
      script: |
        {BULK}
        [[ $(cat out.txt) == right ]] && echo score=0.125
- id: no-pytest
  problem_statement: Nothing.
  reference: "true"
  scorers:
    - {{name: there, type: command, command: "true"}}
    - {{name: python, type: tests, path: in.txt}}
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
- id: lingering
  grade_in: agent_container
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
    _write(directory / "in.txt", "given\n")
    _write(
        directory / "env" / "Dockerfile", f"FROM {IMAGE}\nRUN rm -f /bin/bash /usr/bin/bash\nWORKDIR /app\n"
    )
    _write(
        directory / "own" / "test.sh",
        '#!/bin/sh\ntest "$(id -un) $(stat -c %U%a /logs/verifier)" = "nobody nobody755" && grep -q right "$BENCH_TESTS_DIR/data"\n',
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
    kinds = found["kinds"]
    assert {scorer["name"]: scorer["score"] for scorer in kinds["scorers"]} == {"refused": 0.0, "long": 0.125}
    assert _kind(kinds) == ("failed", "below_threshold", 0.0625)
    assert _kind(found["no-pytest"]) == ("error", "scorer_crashed", None)
    assert [scorer["score"] for scorer in found["no-pytest"]["scorers"]] == [1.0, None]
    _check_set_up(tmp_path, found)
    kept = set(found["names"]["artifacts"])
    assert {"x.log/in", "-n.log"} <= kept
    assert not any("\n" in name for name in kept)
    assert _kind(found["sh"]) == ("passed", None, 1.0), found["sh"]
    assert _kind(found["lingering"]) == ("passed", None, 1.0), found["lingering"]
    assert _kind(found["closed"]) == ("passed", None, 1.0), found["closed"]


def _check_set_up(directory: Path, found: Mapping[str, dict[str, Any]]) -> None:
    user = found["user"]
    assert _kind(user) == ("passed", None, 1.0), user
    assert user["artifacts"] == ["out/a.log", "out/b c.log", "out/link.log", "in.txt"]
    (kept,) = directory.glob("reports/jobs/*/trials/*/user/1/artifacts")
    assert [(kept / name).read_text() for name in user["artifacts"]] == ["a\n", "b\n", "a\n", "given\nmore\n"]
    assert "artifact *.none does not exist" in user["notes"]
    assert _kind(found["offline"]) == ("passed", None, 1.0), found["offline"]
