"""Harbor tasks whose answer is something that runs: it lives on while it is graded, whoever started it.

The shapes are those of Terminal-Bench 2.0: kv-store-grpc starts a server with a plain `&`, pypi-server with nohup,
nginx-request-logging and configure-git-webserver run services that make daemons of themselves, git-multibranch has a
daemon that runs a hook of the solution's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, by_agent, run

pytestmark = pytest.mark.docker

# Answers each connection with the content of a file, after it ran a hook if there is one.
SERVER = """\
use IO::Socket::INET;
my $listening = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die;
if (($ARGV[0] // "") eq "--daemon") {
    exit if fork(); require POSIX; POSIX::setsid(); exit if fork();
    open STDIN, "<", "/dev/null"; open STDOUT, ">", "/app/server.log"; open STDERR, ">&STDOUT";
}
while (my $client = $listening->accept) {
    system("/app/hook") if -x "/app/hook";
    open my $file, "<", "/app/value"; print {$client} <$file>; close $client;
}
"""
STARTS = {
    "plain": "perl server.pl >/dev/null 2>&1 &",
    "plain-to-the-terminal": "perl server.pl &",
    "nohup": "nohup perl server.pl > server.log 2>&1 &",
    "session": "setsid perl server.pl >/dev/null 2>&1 < /dev/null &",
    "daemon": "perl server.pl --daemon",
    "hook": "printf '#!/bin/sh\\necho 42 > /app/value\\n' > hook; chmod +x hook; echo 0 > value\nperl server.pl --daemon",
}
ASK = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(\"127.0.0.1:8080\") or exit 1; print <$s>'"
# It takes the whole answer: the hook of one that is left would still run when the agent ends.
NOBODY = '$s = IO::Socket::INET->new("127.0.0.1:8080") or exit 0; @all = <$s>; exit 1'
AWAIT = f"while perl -MIO::Socket::INET -e '{NOBODY}'; do sleep 0.1; done"


def _solution(start: str) -> str:
    return f"cd /app\necho 42 > value\ncat > server.pl <<'EOF'\n{SERVER}EOF\n{start}\n{AWAIT}\n"


def _task(directory: Path, solution: str) -> None:
    for name in ("environment", "tests", "solution"):
        (directory / name).mkdir(parents=True)
    # For an agent that runs what it is told.
    (directory / "instruction.md").write_text(f"# Serve 42 at port 8080.\n{solution}")
    (directory / "task.toml").write_text(
        f'schema_version = "1.0"\n[environment]\ndocker_image = "{IMAGE}"\nworkdir = "/app"\nallow_internet = false\n'
    )
    (directory / "solution" / "solve.sh").write_text(f"#!/bin/bash\n{solution}")
    (directory / "tests" / "test.sh").write_text(
        f'#!/bin/bash\n[ "$({ASK})" = 42 ] && reward=1 || reward=0\necho $reward > /logs/verifier/reward.txt\n'
    )


def _graded(directory: Path, option: str) -> dict[str, list[dict[str, Any]]]:
    """Results by agent, those of one that does nothing apart: they are failures."""
    _task(directory / "tasks" / "nothing", "true\n")
    for name, start in STARTS.items():
        _task(directory / "tasks" / name, _solution(start))
    run(directory, "tasks", "--bench-agent=oracle", option, "--bench-concurrency=7")
    found = by_agent(directory)
    for agent, ended in found.items():
        (nothing,) = [one for one in ended if one["scenario"] == "nothing"]
        assert (nothing["outcome"], nothing["score"]) == ("failed", 0.0)
        ended.remove(nothing)
        assert {one["scenario"] for one in ended} == set(STARTS), agent
    return found


def test_the_reference_passes_and_so_does_an_agent_that_is_not_trusted(tmp_path: Path) -> None:
    found = _graded(tmp_path, '--bench-agent=command:bash "$BENCH_PROBLEM_FILE"')
    for one in (*found["oracle"], *found["command"]):
        assert (one["outcome"], one["score"]) == ("passed", 1.0), one
    for one in found["oracle"]:
        assert any("kept 1 process(es)" in note and "server.pl" in note for note in one["notes"]), one
        assert one["agent_end"]["killed"] == []


def test_a_fresh_container_has_no_process_of_it(tmp_path: Path) -> None:
    for one in _graded(tmp_path, "--bench-grade-in=fresh")["oracle"]:
        assert (one["outcome"], one["score"]) == ("failed", 0.0), one
        assert "killed before grading" in one["failure"]["message"]
        assert "server.pl" in one["failure"]["message"]
