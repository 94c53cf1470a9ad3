"""Harbor tasks whose answer is something that runs: it lives on while it is graded, whoever started it.

The shapes are those of Terminal-Bench 2.0: kv-store-grpc starts a server with a plain `&`, pypi-server with nohup,
nginx-request-logging and configure-git-webserver run services that make daemons of themselves, git-multibranch has a
daemon that runs a hook of the solution's.
"""

from __future__ import annotations

from pathlib import Path

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
    "plain": "perl server.pl >/dev/null 2>&1 &\nsleep 0.3",
    "plain-to-the-terminal": "perl server.pl &\nsleep 0.3",
    "nohup": "nohup perl server.pl > server.log 2>&1 &\nsleep 0.3",
    "session": "setsid perl server.pl >/dev/null 2>&1 < /dev/null &\nsleep 0.3",
    "daemon": "perl server.pl --daemon",
    "hook": "printf '#!/bin/sh\\necho 42 > /app/value\\n' > hook; chmod +x hook; echo 0 > value\nperl server.pl --daemon",
}
ASK = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(\"127.0.0.1:8080\") or exit 1; print <$s>'"


def _solution(start: str) -> str:
    return f"cd /app\necho 42 > value\ncat > server.pl <<'EOF'\n{SERVER}EOF\n{start}\n"


def _task(directory: Path, start: str) -> None:
    for name in ("environment", "tests", "solution"):
        (directory / name).mkdir(parents=True)
    (directory / "instruction.md").write_text("Serve 42 at port 8080.\n")
    (directory / "task.toml").write_text(
        f'schema_version = "1.0"\n[environment]\ndocker_image = "{IMAGE}"\nworkdir = "/app"\nallow_internet = false\n'
    )
    (directory / "solution" / "solve.sh").write_text(f"#!/bin/bash\n{_solution(start)}")
    (directory / "tests" / "test.sh").write_text(
        f'#!/bin/bash\n[ "$({ASK})" = 42 ] && reward=1 || reward=0\necho $reward > /logs/verifier/reward.txt\n'
    )


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, object]]]:
    found = {}
    for grading in ("contract", "strict"):
        directory = tmp_path_factory.mktemp(grading)
        for name, start in STARTS.items():
            _task(directory / "tasks" / name, start)
        chosen = [] if grading == "contract" else ["--bench-grading=strict"]
        agents = ("--bench-agent=oracle", "--bench-agent=nop")
        run(directory, "tasks", *agents, *chosen, "--bench-concurrency=3")
        found[grading] = results(directory)
    return found


def _by(jobs: list[dict[str, object]], agent: str) -> dict[str, tuple[object, object]]:
    return {
        str(one["scenario"]): (one["outcome"], one["score"])
        for one in jobs
        if one["agent"]["name"] == agent  # type: ignore[index]
    }


def test_the_reference_passes_and_doing_nothing_does_not(jobs: dict[str, list[dict[str, object]]]) -> None:
    assert _by(jobs["contract"], "oracle") == dict.fromkeys(STARTS, ("passed", 1.0))
    assert _by(jobs["contract"], "nop") == dict.fromkeys(STARTS, ("failed", 0.0))


def test_what_lived_on_is_noted(jobs: dict[str, list[dict[str, object]]]) -> None:
    for one in jobs["contract"]:
        if one["agent"]["name"] == "oracle":  # type: ignore[index]
            assert any("kept 1 process(es)" in note and "server.pl" in note for note in one["notes"]), one  # type: ignore[attr-defined]
            assert one["agent_end"]["killed"] == []  # type: ignore[index]


@pytest.mark.parametrize("name", STARTS)
def test_an_agent_that_is_not_trusted_gets_the_same_score_for_the_same(tmp_path: Path, name: str) -> None:
    _task(tmp_path / "tasks" / name, STARTS[name])
    run(tmp_path, "tasks", "--bench-agent", f"command:{_solution(STARTS[name])}")
    (result,) = results(tmp_path)
    assert (result["outcome"], result["score"]) == ("passed", 1.0), result["failure"]


def test_strict_grading_ends_it_and_says_so(jobs: dict[str, list[dict[str, object]]]) -> None:
    assert _by(jobs["strict"], "oracle") == dict.fromkeys(STARTS, ("failed", 0.0))
    for one in jobs["strict"]:
        if one["agent"]["name"] == "oracle":  # type: ignore[index]
            assert "killed before grading" in one["failure"]["message"]  # type: ignore[index]
            assert "server.pl" in one["failure"]["message"]  # type: ignore[index]
