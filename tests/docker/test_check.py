"""`benchjobs check` in real containers: a sound benchmark, and one with each fault."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.console import benchjobs
from tests.docs.documents import EXAMPLES
from tests.support import IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.mark.extended
def test_the_quickstart_is_sound(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "quickstart", tmp_path / "quickstart")
    done = benchjobs(tmp_path, "check", "quickstart", "--dir", "checked")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 scenarios: 8 ok" in done.stdout


@pytest.mark.when_changed("check", "checks", "soundness", page="docs/check.md")
def test_each_fault_of_an_unsound_benchmark_has_one_clear_line(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "unsound", tmp_path / "unsound")
    done = benchjobs(tmp_path, "check", "unsound", "--dir", "checked")
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"(\S[\w ]*?) {2,}unsound::([\w-]+)(?:  .*)?$", line):
            scenario = match[2]
            found[scenario] = [match[1]]
        elif re.match(r"  (oracle|nop)", line):
            found[scenario].append(line.strip().partition("; see ")[0])
    assert {name: lines[0] for name, lines in found.items()} == {
        "sound": "ok",
        "stub-passes": "passes by itself",
        "flaky-scorer": "flaky",
        "leaking-solution": "leaks its solution",
        "scorer-needs-network": "needs the network",
    }
    assert found["sound"] == ["ok"]
    assert found["stub-passes"][1:] == ["nop, attempt 1: expected failed, found passed 2 times, score 1 of 1"]
    (flaky,) = found["flaky-scorer"][1:]
    assert flaky.startswith("oracle: expected the same score each time, found 0.1")
    assert found["leaking-solution"][1:] == [
        "nop: expected no trace of the reference solution, found /app/notes.md has its script"
    ]
    for line, agent in zip(found["scorer-needs-network"][1:], ("oracle", "nop"), strict=True):
        assert line.startswith(
            f"{agent}, attempt 1: expected a scorer that needs no network, or has `network: public`, found error "
            'without the network: "'
        )
        assert "names.example.org" in line


MANIFEST: dict[str, Any] = {
    "benchmark": "net",
    "defaults": {
        "image": IMAGE,
        "workdir": "/app",
        "problem_statement": "Write hi.",
        "reference": "echo hi there, whoever reads this > out.txt",
    },
}
SCORER = {
    "name": "online",
    "type": "bash",
    "script": "test -e out.txt || { echo score=0; exit; }\n"
    "test -e /sys/class/net/eth0 && echo score=1 || { echo 'connect: Network is unreachable'; echo score=0; }",
}


@pytest.mark.extended
def test_a_scorer_that_works_with_the_network_alone_has_to_say_so(tmp_path: Path) -> None:
    scenarios = [
        {"id": "silent", "scorers": [SCORER]},
        {"id": "said", "scorers": [{**SCORER, "network": "public"}]},
    ]
    (tmp_path / "net.bench.yaml").write_text(json.dumps({**MANIFEST, "scenarios": scenarios}))
    done = benchjobs(tmp_path, "check", "net.bench.yaml", "--dir", "checked", "-o", "json")
    document = json.loads(done.stdout)
    verdicts = {one["scenario"]: one["verdict"] for one in document["scenarios"]}
    assert verdicts == {"silent": "needs the network", "said": "ok"}, done.stdout
    (problem,) = document["scenarios"][0]["problems"]
    assert (problem["agent"], problem["attempt"]) == ("oracle", 2)
    assert "Network is unreachable" in problem["found"]
