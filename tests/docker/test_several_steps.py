"""Several steps in real containers: Harbor's `[[steps]]`, and conversations with agents that cheat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

TASK = f"""\
schema_version = "1.4"
multi_step_reward_strategy = "STRATEGY"
artifacts = ["/app/log.txt"]
[agent]
timeout_sec = 60.0
user = "nobody"
[environment]
docker_image = "{IMAGE}"
workdir = "/app"
network_mode = "no-network"
[[steps]]
name = "one"
min_reward = 0.5
[[steps]]
name = "two"
artifacts = ["/app/two.txt"]
[steps.agent]
user = "root"
[steps.healthcheck]
command = "test -s /app/given.txt"
[[steps]]
name = "three"
min_reward = {{ reward = 1.0, style = 1.0 }}
[steps.verifier]
environment_mode = "separate"
"""
FILES = {
    "tests/helper.sh": 'say() { echo "{\\"reward\\": $1, \\"style\\": 1}" > /logs/verifier/reward.json; }\n',
    "tests/test.sh": "#!/bin/sh\n. /tests/helper.sh\ntest -s /app/log.txt && say 1 || say 0\n",
    "steps/one/instruction.md": "Write your name into log.txt.\n",
    "steps/one/tests/test.sh": "#!/bin/sh\n. /tests/helper.sh\nsay $(cat /app/rate.txt)\n",
    "steps/one/workdir/rate.txt": "0.75\n",
    "steps/one/workdir/log.txt": "",
    "steps/one/solution/solve.sh": "#!/bin/sh\nid -un > log.txt\n",
    "steps/two/instruction.md": "Write two.txt.\n",
    "steps/two/workdir/setup.sh": "#!/bin/sh\nid -un > given.txt\n",
    "steps/two/solution/solve.sh": "#!/bin/sh\nls /tests /logs/verifier > two.txt; cat log.txt given.txt >> two.txt\n",
    "steps/three/instruction.md": "Nothing to do.\n",
    "steps/three/solution/solve.sh": "#!/bin/sh\ntrue\n",
}


def write(directory: Path, strategy: str, **more: str) -> None:
    for name, text in {"task.toml": TASK.replace("STRATEGY", strategy), **FILES, **more}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "environment").mkdir()


def found(directory: Path) -> dict[str, dict[str, Any]]:
    return {f"{one['scenario']}[{one['agent']['name']}]": one for one in results(directory)}


@pytest.mark.extended
def test_harbor_tasks_of_several_steps(tmp_path: Path) -> None:
    write(tmp_path / "tasks/mean", "mean")
    write(tmp_path / "tasks/final", "final")
    write(tmp_path / "tasks/low", "mean", **{"steps/one/workdir/rate.txt": "0.25\n"})
    cheats = (
        "if grep -q 'your name' /bench/problem.md; then "
        "mkdir -p /tests 2>/dev/null; echo 1 > rate.txt; echo x > log.txt; "
        'echo \'{"reward": 1, "style": 1}\' > /logs/verifier/reward.json; '
        "(while sleep 0.1; do echo 1 > /logs/verifier/reward.txt; "
        "echo '{\"reward\": 1}' > /logs/verifier/reward.json; done) >/dev/null 2>&1 & fi; true"
    )
    done = run(
        tmp_path,
        "tasks",
        "--bench-agent=oracle",
        "--bench-agent=nop",
        f"--bench-agent=cheat=command:{cheats}",
    )
    told = found(tmp_path)
    for name, score in (("mean[oracle]", 2.75 / 3), ("final[oracle]", 1.0)):
        result = told[name]
        assert result["score"] == pytest.approx(score), (result, done.stdout)
        assert [step["score"] for step in result["steps"]] == [0.75, 1.0, 1.0]
    place = tmp_path / "reports/jobs" / told["mean[oracle]"]["job"] / told["mean[oracle]"]["path"]
    assert (place / "steps/two/artifacts/app/two.txt").read_text().split() == [
        *("/logs/verifier:", "/tests:", "nobody", "root")
    ]
    assert (place / "steps/one/artifacts/app/log.txt").read_text() == "nobody\n"
    assert (place / "steps/three/scorers/three/verifier/reward.json").exists()
    low = told["low[oracle]"]
    assert low["score"] == pytest.approx(0.25 / 3)
    assert [step["not_run"] for step in low["steps"]] == [
        None,
        *["step one: its reward 0.25 is below the least, 0.5"] * 2,
    ]
    # Without log.txt the last two steps are worth nothing.
    assert told["mean[nop]"]["score"] == pytest.approx(0.75 / 3)
    assert told["final[nop]"]["score"] == 0.0
    # The cheat changed the file that its own task is graded by, which this task leaves to it; no reward of its own counts.
    cheat = told["mean[cheat]"]
    assert [step["score"] for step in cheat["steps"]] == [1.0, 1.0, 1.0], cheat
    assert told["low[cheat]"]["steps"][1]["not_run"] is None


TALK = f"""\
benchmark: talk
defaults:
  image: {IMAGE}
  workdir: /app
  network: none
  agent_timeout: 60
scenarios:
  - id: earned
    turns:
      - message: Write alpha into a.txt and say alpha.
        expect: [alpha, {{command: grep -qx alpha a.txt}}]
        reply: alpha
        reference: echo alpha > a.txt
      - message: Write beta into b.txt and say beta.
        expect: [beta, {{command: grep -qx beta b.txt}}]
        forbid: [{{command: test -e late.txt}}, {{command: '! grep -qx alpha a.txt'}}]
        reply: beta
        reference: echo beta > b.txt
"""
HOSTILE = """\
case $(cat /bench/problem.md) in
  *"new message"*) second=1 ;;
esac
# Nothing is said. The words are in every file that might be taken for a reply.
for f in reply.txt answer.txt /bench/reply.txt /logs/agent.log /bench/agent.log; do
  mkdir -p $(dirname $f); echo "alpha beta" > $f
done
if [ -z "$second" ]; then
  mkdir -p steps/turn-1 steps/turn-2
  echo alpha > steps/turn-1/reply.txt; echo beta > steps/turn-2/reply.txt
  printf '#!/bin/sh\nexit 0\n' > /usr/bin/grep; chmod 755 /usr/bin/grep
  cp /bin/true /usr/bin/test
  setsid sh -c 'sleep 2; while sleep 0.2; do
    echo late > late.txt
    for fd in /proc/[0-9]*/fd/1; do echo alpha beta > $fd; done
  done' >/dev/null 2>&1 < /dev/null &
  rm -rf /bench/problem.md; mkdir -p /bench/problem.md/x
else
  sleep 4
fi
"""


def test_a_hostile_agent_earns_no_turn(tmp_path: Path) -> None:
    (tmp_path / "talk.bench.yaml").write_text(TALK)
    liar = "if test -e a.txt; then echo beta; else echo alpha; touch a.txt; fi"
    crashes = "echo alpha > a.txt; echo beta > b.txt; echo alpha beta; exit 1"
    agents = [f"--bench-agent={name}=command:{script}" for name, script in
              (("hostile", HOSTILE), ("liar", liar), ("crashes", crashes))]  # fmt: skip
    done = run(tmp_path, "talk.bench.yaml", "--bench-agent=oracle", "--bench-agent=nop", *agents)
    told = found(tmp_path)
    assert (told["earned[oracle]"]["outcome"], told["earned[oracle]"]["score"]) == ("passed", 1.0), (
        done.stdout
    )
    assert told["earned[nop]"]["score"] == 0.0
    hostile = told["earned[hostile]"]
    assert hostile["outcome"] == "failed"
    missed = [scorer["details"]["missed"] for scorer in hostile["scorers"]]
    # Only that nothing came late is true of it: the process of the first turn had ended before the second.
    assert missed == [
        ["expect: contains alpha", "expect: command grep -qx alpha a.txt"],
        [
            "expect: contains beta",
            "expect: command grep -qx beta b.txt",
            "forbid: command ! grep -qx alpha a.txt",
        ],
    ], hostile
    assert hostile["score"] == pytest.approx(1 / 6)
    assert any("killed" in note for note in hostile["notes"]), hostile["notes"]
    assert told["earned[liar]"]["score"] == pytest.approx(3 / 6)
    crashed = told["earned[crashes]"]
    assert (crashed["outcome"], crashed["score"]) == ("failed", 0.0)
    assert crashed["steps"][1]["not_run"] == "step turn-1: the agent did not end by itself"


@pytest.mark.extended
def test_the_lifecycle_benchmark_can_be_solved_and_not_by_silence(tmp_path: Path) -> None:
    done = run(tmp_path, "--bench=orchestrator-lifecycle", "--bench-agent=oracle", "--bench-agent=nop")
    told = results(tmp_path)
    assert len(told) == 24, done.stdout
    for result in told:
        expected = ("passed", 1.0) if result["agent"]["name"] == "oracle" else ("failed", 0.0)
        assert (result["outcome"], result["score"]) == expected, result
    summary = next((tmp_path / "reports/jobs").glob("*/summary.md")).read_text()
    assert "| `oracle` | `planning` | 2 | 2 | 1.000 |" in summary
