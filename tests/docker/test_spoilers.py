"""An agent cannot turn its failure into an error: what it spoils is its own failure, and is not tried again."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.support import IMAGE, results, run

pytestmark = [pytest.mark.docker, pytest.mark.extended]

SPOILERS = {
    "a pipe": "mkfifo out.txt",
    "a link to zeros": "ln -s /dev/zero out.txt",
    "a file for the workdir": "cd /; rm -rf /app; echo > /app",
    "no workdir": "cd /; rm -rf /app",
    "a link to nowhere for the workdir": "cd /; rm -rf /app; ln -s /nowhere /app",
    "more than memory holds": "head -c 150M /dev/zero | tr '\\0' x > out.txt; echo >> out.txt",
    "a hog": "head -c 150M /dev/zero | tail -n 1",
    "a directory": "mkdir out.txt",
    "a loop of links": "ln -s out.txt out.txt",
    "a socket": "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"out.txt\"))'",
    "an unreadable file": "echo wrong > out.txt; chmod 000 out.txt; chmod 000 /app",
    "deep directories": "for i in $(seq 300); do mkdir -p d/d/d/d/d/d/d/d; cd d/d/d/d/d/d/d/d; done; echo > x",
    "no shell": "rm -f /bin/sh /bin/dash /bin/bash",
    "no programs": "perl -e 'unlink glob(\"/usr/bin/*\")'",
    "no libraries": "mv /usr/lib /usr/lib2",
    "nothing at all": "rm -rf --no-preserve-root /usr /bin /lib /lib64 /etc /app /tmp /var 2>/dev/null",
    "the first process": "kill -9 1; kill -9 -1",
    "its end by memory": "echo 1000 > /proc/1/oom_score_adj; head -c 150M /dev/zero | tail -n 1",
    "a fork bomb": "bomb() { setsid sleep 60 & bomb | bomb & }; bomb >/dev/null 2>&1; sleep 2",
    "files in memory": "head -c 60M /dev/zero > /dev/shm/x",
    "no devices": "rm -rf /dev/null /dev/zero /dev/fd /dev/stdout; mkdir /dev/null",
    "no place for tests": "echo > /tests; rm -rf /logs; ln -s /proc /logs; rm -rf /bench; echo > /bench",
    "users": "rm -f /etc/passwd /etc/group; mkdir /etc/passwd",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    directory = tmp_path_factory.mktemp("spoilers")
    (directory / "spoil.bench.yaml").write_text(
        textwrap.dedent(f"""\
        benchmark: spoil
        scenarios:
          - id: write-right
            image: {IMAGE}
            workdir: /app
            network: none
            memory: 64M
            pids: 128
            agent_timeout: 40
            scorer_timeout: 6
            problem_statement: Write right to out.txt.
            reference: echo right > out.txt
            artifacts: [out.txt, "*.txt"]
            scorers:
              - {{name: right, type: bash, script: "grep -qx right out.txt && echo score=1 || echo score=0"}}
        """)
    )
    agents = [f"--bench-agent=command:{spoiler}" for spoiler in SPOILERS.values()]
    run(
        directory, "spoil.bench.yaml", "--bench-agent=oracle", *agents, "--bench-retry-errors=2",
        "--bench-concurrency=3",
    )  # fmt: skip
    return {str(result["agent"]["model"]): result for result in results(directory)}  # type: ignore[index]


@pytest.mark.parametrize("name", SPOILERS)
def test_what_an_agent_spoils_is_its_own_failure(found: dict[str, dict[str, object]], name: str) -> None:
    result = found[SPOILERS[name]]
    shown = json.dumps([result["failure"], result["notes"]])
    assert result["outcome"] == "failed", shown
    assert result["score"] == 0.0, shown
    assert result["tries"] == 1, shown


def test_and_the_reference_passes_beside_it(found: dict[str, dict[str, object]]) -> None:
    assert [result["outcome"] for result in found.values() if result["agent"]["name"] == "oracle"] == [
        "passed"
    ]  # type: ignore[index]
