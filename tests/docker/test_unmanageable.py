"""What an agent leaves that an engine cannot handle is the agent's failure, at once: no error, and no new try."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

LATE = "setsid sh -c 'while :; do test -e /tests/test.sh && {{ {}; }}; sleep 0.01; done' >/dev/null 2>&1 & sleep 0.3"
UNMANAGEABLE = {
    "a workdir that leads to itself": "cd /; rm -rf /app; ln -s /app /app",
    "a workdir of too long a name": "cd /; rm -rf /app; ln -s /$(printf 'a%.0s' $(seq 300)) /app",
    "paths that are too long": 'perl -e \'$n = "a" x 200; for (1..40) { mkdir $n; chdir $n } chdir "/"\'; touch /etc/x',
    "a file in the way of logs": "rm -rf /logs; touch /logs",
    "links in the way of tests": "rm -rf /tests /logs; ln -s /tests /tests; ln -s /logs /logs",
    "no users": "rm /etc/passwd; ln -s passwd /etc/passwd",
    "users that never end": "rm /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group",
    "nothing": "rm -rf --no-preserve-root / 2>/dev/null",
    "an end of everything": "touch /dev/x; kill -USR1 1; sleep 5",
}
IN_PLACE = {
    "a shell that leads to itself": "rm /bin/sh; ln -s sh /bin/sh",
    "an end while it is graded": LATE.format("touch /dev/x; kill -USR1 1"),
    "more daemons than there is room for": "for i in $(seq 40); do setsid sleep 777 >/dev/null 2>&1 & done; sleep 0.5",
    "users that never end": UNMANAGEABLE["users that never end"],
}


def _scenario(directory: Path, place: str) -> None:
    (directory / "tests").mkdir()
    (directory / "tests" / "test.sh").write_text("#!/bin/sh\nsleep 0.5\ngrep -qx right /app/out.txt\n")
    (directory / "unmanageable.bench.yaml").write_text(
        f"""\
benchmark: unmanageable
scenarios:
  - id: write-right
    image: {IMAGE}
    workdir: /app
    network: none
    pids: 64
    grade_in: {place}
    agent_timeout: 60
    scorer_timeout: 20
    problem_statement: Write right to out.txt.
    scorers: [{{name: tests, type: tests, path: tests}}]
"""
    )


@pytest.mark.parametrize(("place", "left"), [("fresh", UNMANAGEABLE), ("agent_container", IN_PLACE)])
@pytest.mark.extended
def test_what_no_engine_can_handle_is_a_failure(tmp_path: Path, place: str, left: dict[str, str]) -> None:
    _scenario(tmp_path, place)
    agents = [f"--bench-agent=command:{script}" for script in left.values()]
    done = run(
        tmp_path, "unmanageable.bench.yaml", *agents, "--bench-retry-errors=1", "--bench-concurrency=2"
    )
    by_script = {one["agent"]["model"]: one for one in results(tmp_path)}
    found = {
        name: (by_script[script]["outcome"], by_script[script]["score"], by_script[script]["tries"])
        for name, script in left.items()
    }
    assert found == dict.fromkeys(left, ("failed", 0.0, 1)), done.stdout
