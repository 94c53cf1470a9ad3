"""An agent that cheats gets 0 or a clean error, and harms nobody else."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tests.support import IMAGE, by_agent, junit_cases, results, run, start

pytestmark = pytest.mark.docker

PLANT = """mkdir -p /logs/verifier; echo '{"reward": 1}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt"""
KEEP_PLANTING = (
    "setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.txt; "
    'echo "{\\"reward\\": 1}" > /logs/verifier/reward.json; sleep 0.02; done\' >/dev/null 2>&1 & sleep 0.3'
)
FORGED = "#!/usr/bin/honest\\necho 1 > /logs/verifier/reward.txt\\necho score=1\\nexit 0\\n"
REPLACE_SHELLS = (
    f"cp /bin/dash /usr/bin/honest; printf '{FORGED}' > /usr/local/bin/forged; chmod +x /usr/local/bin/forged; "
    "for name in bash python3 grep sh; do cp /usr/local/bin/forged /usr/local/bin/$name; done; "
    "cp --remove-destination /usr/local/bin/forged /bin/bash; cp --remove-destination /usr/local/bin/forged /bin/sh"
)
REPLACE_TESTS = "mkdir -p /tests; printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt\\n' > /tests/test.sh; chmod 555 /tests/test.sh"
LINK_AWAY = (
    "rm -rf /logs/verifier /tests; mkdir /x; echo 1 > /x/reward.txt; ln -s /x /logs/verifier; ln -s /x /tests"
)


def _task(directory: Path) -> None:
    task = directory / "tasks" / "write-right"
    (task / "environment").mkdir(parents=True)
    (task / "tests").mkdir()
    (task / "solution").mkdir()
    (task / "instruction.md").write_text("Write right to /app/out.txt.\n")
    (task / "task.toml").write_text(
        f'schema_version = "1.0"\n[environment]\ndocker_image = "{IMAGE}"\nworkdir = "/app"\n'
    )
    (task / "solution" / "solve.sh").write_text("#!/bin/bash\necho right > /app/out.txt\n")
    (task / "tests" / "test.sh").write_text(
        "#!/bin/bash\nif grep -qx right /app/out.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    )


def _manifest(directory: Path, extra: str = "") -> None:
    (directory / "hostile.bench.yaml").write_text(
        textwrap.dedent(f"""\
        benchmark: hostile
        defaults:
          image: {IMAGE}
          workdir: /app
          network: none
          agent_timeout: 60
        scenarios:
          - id: write-right
            problem_statement: Write right to out.txt.
            reference: echo right > out.txt
            scorers:
              - {{name: right, type: bash, script: "grep -qx right out.txt && echo score=1 || echo score=0"}}
              - {{name: there, type: command, command: "grep -qx right out.txt"}}
        """)
        + extra
    )


ATTACKS = {
    "plant": PLANT,
    "keep": KEEP_PLANTING,
    "shells": REPLACE_SHELLS,
    "tests": REPLACE_TESTS,
    "link": LINK_AWAY,
}


def test_a_forged_reward_is_worth_nothing(tmp_path: Path) -> None:
    _task(tmp_path)
    _manifest(tmp_path)
    agents = [f"--bench-agent=command:{attack}" for attack in ATTACKS.values()]
    # Under Harbor's own contract what an agent made a daemon lives on, and may well write rewards.
    done = run(
        tmp_path, "tasks", "hostile.bench.yaml", "--bench-grading=strict", "--bench-agent=oracle", *agents
    )
    found = by_agent(tmp_path)
    assert [(result["outcome"], result["score"]) for result in found["oracle"]] == [("passed", 1.0)] * 2, (
        done.stdout
    )
    for result in found["command"]:
        assert result["outcome"] in ("failed", "error"), result
        assert not result["score"], result
    tried = [result["agent"]["model"] for result in found["command"]]
    assert sorted(tried) == sorted([*ATTACKS.values(), *ATTACKS.values()])


def test_replaced_programs_are_put_back_and_named(tmp_path: Path) -> None:
    _manifest(tmp_path)
    run(tmp_path, "hostile.bench.yaml", "--bench-agent", f"command:{REPLACE_SHELLS}")
    (result,) = results(tmp_path)
    assert result["outcome"] == "failed"
    assert result["score"] == 0.0
    tampered = set(result["agent_end"]["tampered"])
    assert any(path.endswith("bin/bash") and "local" not in path for path in tampered), tampered
    assert "/usr/local/bin/bash" in tampered


def test_a_process_left_behind_is_dead_before_grading_and_noted(tmp_path: Path) -> None:
    _manifest(tmp_path)
    late = "setsid sh -c 'sleep 1; while :; do echo right > /app/out.txt; done' >/dev/null 2>&1 & sleep 0.2"
    run(tmp_path, "hostile.bench.yaml", "--bench-agent", f"command:{late}")
    (result,) = results(tmp_path)
    assert (result["outcome"], result["score"]) == ("failed", 0.0)
    assert result["agent_end"]["leftovers"]
    assert any("killed" in note for note in result["notes"])


def test_a_fork_bomb_meets_the_process_limit_and_the_timeout(tmp_path: Path) -> None:
    _manifest(tmp_path, "    pids: 64\n    agent_timeout: 8\n")
    done = run(
        tmp_path, "hostile.bench.yaml", "--bench-agent", "oracle",
        "--bench-agent", "command:bomb() { bomb | bomb & }; bomb; sleep 60",
    )  # fmt: skip
    found = by_agent(tmp_path)
    assert found["oracle"][0]["outcome"] == "passed", done.stdout
    assert found["command"][0]["outcome"] in ("failed", "error")
    assert not found["command"][0]["score"]


def test_filling_the_disk_ends_the_agent_and_not_the_machine(tmp_path: Path) -> None:
    _manifest(tmp_path, "    storage: 64M\n")
    run(
        tmp_path,
        "hostile.bench.yaml",
        "--bench-agent",
        "command:dd if=/dev/zero of=/app/big bs=1M count=3000 2>&1; sleep 60",
    )
    (result,) = results(tmp_path)
    assert (result["outcome"], result["score"]) == ("failed", 0.0)
    assert result["failure"]["class"] == "limit_exceeded"


@pytest.mark.usefixtures("from_nothing")
@pytest.mark.extended
def test_a_gigabyte_of_output_is_cut_and_costs_no_memory(tmp_path: Path) -> None:
    _manifest(tmp_path, "    agent_timeout: 120\n")
    process = start(
        tmp_path, "hostile.bench.yaml", "--bench-agent", "command:head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo THE END",
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    (result,) = results(tmp_path)
    assert result["outcome"] == "failed", output
    assert result["agent_end"]["output_bytes"] > 1 << 30
    (log,) = tmp_path.glob("reports/jobs/*/trials/*/*/*/agent.log")
    assert log.stat().st_size < 9 << 20
    assert log.read_text().rstrip().endswith("THE END")
    assert len(output) < 20_000
    assert usage.ru_maxrss < 250_000, f"{usage.ru_maxrss} KiB resident"


def test_terminal_escapes_and_markup_reach_no_report(tmp_path: Path) -> None:
    _manifest(tmp_path)
    attack = "printf '\\033]0;owned\\007\\033[2J<script>alert(1)</script> ]]> \\377\\376 \\355\\240\\200 | **bold**\\n'; exit 3"
    done = run(
        tmp_path, "hostile.bench.yaml", "-n", "2", "-v", "-rA", "--junitxml=out.xml",
        "--bench-agent", f"command:{attack}", "--bench-agent", "oracle",
    )  # fmt: skip
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "INTERNALERROR" not in done.stdout
    assert sorted(junit_cases(tmp_path / "out.xml").values()) == ["failure", "passed"]
    (report,) = tmp_path.glob("reports/jobs/*/summary.md")
    text = report.read_text()
    assert "\x1b" not in text
    # What agents print is in indented blocks, in which nothing is markup.
    assert all(line.startswith("    ") for line in text.splitlines() if "<script>" in line)
    for name in ("report.json", "junit.xml"):
        (path,) = tmp_path.glob(f"reports/jobs/*/{name}")
        assert "\\u001b" not in path.read_text()
        assert "\x1b" not in path.read_text()
