"""Harbor tasks whose answer is something that runs: it lives on while it is graded, whoever started it.

The shapes are those of Terminal-Bench 2.0: kv-store-grpc starts a server with a plain `&`, pypi-server with nohup,
nginx-request-logging and configure-git-webserver run services that make daemons of themselves, git-multibranch has a
daemon that runs a hook of the solution's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, results, run

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


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for grading, options in (
        ("contract", ['--bench-agent=command:bash "$BENCH_PROBLEM_FILE"']),
        ("strict", ["--bench-grading=strict"]),
    ):
        directory = tmp_path_factory.mktemp(grading)
        _task(directory / "tasks" / "nothing", "true\n")
        for name, start in STARTS.items():
            _task(directory / "tasks" / name, _solution(start))
        run(directory, "tasks", "--bench-agent=oracle", *options, "--bench-concurrency=7")
        found[grading] = results(directory)
    return found


def _by(jobs: list[dict[str, Any]], agent: str) -> dict[str, tuple[str, float | None]]:
    return {one["scenario"]: (one["outcome"], one["score"]) for one in jobs if one["agent"]["name"] == agent}


def _ends(outcome: str, score: float) -> dict[str, tuple[str, float]]:
    return {"nothing": ("failed", 0.0), **dict.fromkeys(STARTS, (outcome, score))}


def test_the_reference_passes_and_so_does_an_agent_that_is_not_trusted(
    jobs: dict[str, list[dict[str, Any]]],
) -> None:
    assert _by(jobs["contract"], "oracle") == _ends("passed", 1.0)
    assert _by(jobs["contract"], "command") == _ends("passed", 1.0)


def test_what_lived_on_is_noted(jobs: dict[str, list[dict[str, Any]]]) -> None:
    for one in jobs["contract"]:
        if one["agent"]["name"] == "oracle" and one["scenario"] != "nothing":
            assert any("kept 1 process(es)" in note and "server.pl" in note for note in one["notes"]), one
            assert one["agent_end"]["killed"] == []


def test_strict_grading_ends_it_and_says_so(jobs: dict[str, list[dict[str, Any]]]) -> None:
    assert _by(jobs["strict"], "oracle") == _ends("failed", 0.0)
    for one in jobs["strict"]:
        if one["scenario"] != "nothing":
            assert "killed before grading" in one["failure"]["message"]
            assert "server.pl" in one["failure"]["message"]
