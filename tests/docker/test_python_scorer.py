"""The scorer `python` in real containers: its network, its interpreter, and a container of another image."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, command, results, run

from .hostile.job import DOCKERFILE
from .test_bigcodebench import TAG, image  # noqa: F401  the image of the fixture has Python and nothing else

pytestmark = pytest.mark.docker

SECRET, PATTERN = "expected-7", "expected-[7]"
"""A text of the script, and what finds it but not itself."""
NETWORK = """
import os, socket
assert os.listdir("/sys/class/net") == ["lo"], os.listdir("/sys/class/net")
try:
    socket.create_connection(("1.1.1.1", 53), timeout=2)
except OSError:
    print("score=1")
"""
IS_RIGHT = {"type": "python", "script": "open('out.txt').read() == 'right\\n'"}
AGENT = 'command:sh "$BENCH_PROBLEM_FILE"'


def _scenario(name: str, script: str, *scorers: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A scenario whose agent runs this script."""
    named = [{"name": f"scorer-{number}", **scorer} for number, scorer in enumerate(scorers)]
    return {"id": name, "problem_statement": script, "network": "none", "scorers": named, **keys}


def _run(directory: Path, scenarios: list[dict[str, Any]], *options: str) -> dict[str, dict[str, Any]]:
    (directory / "env").mkdir(exist_ok=True)
    (directory / "env" / "Dockerfile").write_text(DOCKERFILE)
    manifest = {
        "benchmark": "pythons",
        "defaults": {"dockerfile": "env/Dockerfile", "workdir": "/app", "agent_timeout": 60},
        "scenarios": scenarios,
    }
    (directory / "pythons.bench.yaml").write_text(json.dumps(manifest))
    done = run(directory, "pythons.bench.yaml", f"--bench-agent={AGENT}", "--bench-concurrency=3", *options)
    found = {one["scenario"]: one for one in results(directory)}
    assert len(found) == len(scenarios), done.stdout
    return found


def _told(result: dict[str, Any]) -> tuple[str, str | None, float | None]:
    return result["outcome"], (result["failure"] or {}).get("class"), result["score"]


def test_it_has_no_network_and_the_agent_finds_nothing_of_it(tmp_path: Path) -> None:
    peek = f"! grep -rqs '{PATTERN}' /bench /tmp /logs"
    found = _run(
        tmp_path,
        [
            _scenario(
                "network",
                "true",
                {"type": "python", "script": NETWORK},
                {"type": "command", "command": "ls /sys/class/net | grep -qv '^lo$'"},
                network="public",
            ),
            _scenario(
                "secret",
                f"grep -rs '{PATTERN}' /bench /tmp /logs > out.txt; true",
                {"type": "python", "script": f"open('out.txt').read() == '' and '{SECRET}' != ''"},
                {"type": "command", "command": peek},
            ),
        ],
    )
    assert _told(found["network"]) == ("passed", None, 1.0), found["network"]["scorers"]
    assert _told(found["secret"]) == ("passed", None, 1.0), found["secret"]["scorers"]
    shown = [{**scorer, "definition": None} for one in found.values() for scorer in one["scorers"]]
    assert SECRET not in json.dumps(shown), "nothing but what it was told to run"


def test_a_python_that_is_missing_is_told_before_the_agent_starts(tmp_path: Path) -> None:
    agent = "echo right > out.txt"
    found = _run(
        tmp_path,
        [
            _scenario("there", agent, IS_RIGHT),
            _scenario("old", agent, {**IS_RIGHT, "python_version": "<3.5"}),
            _scenario("none", agent, IS_RIGHT, image=IMAGE, dockerfile=None),
        ],
    )
    assert _told(found["there"]) == ("passed", None, 1.0)
    for name, words in (
        ("old", "needs Python <3.5, and the container has 3."),
        ("none", "the container has none"),
    ):
        assert _told(found[name]) == ("error", "scorer_crashed", None)
        assert words in found[name]["failure"]["message"]
        assert found[name]["agent_end"] is None


@pytest.mark.extended
def test_what_was_kept_is_graded_again_by_the_python_of_the_image(tmp_path: Path) -> None:
    fake = "printf '#!/bin/sh\\necho score=1\\n' > /usr/local/bin/NAME; chmod 755 /usr/local/bin/NAME"
    lie = "; ".join(fake.replace("NAME", name) for name in ("python3", "python3.19", "python3.8"))
    found = _run(
        tmp_path, [_scenario("again", lie, {"type": "python", "script": "0.25"})], "--bench-keep=always"
    )
    assert _told(found["again"]) == ("failed", "below_threshold", 0.25)
    manifest = tmp_path / "pythons.bench.yaml"
    manifest.write_text(manifest.read_text().replace("0.25", "0.5"))
    job = found["again"]["job"]
    program = Path(command()[0]).with_name("benchjobs")
    done = subprocess.run(
        [program, "rescore", job], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    again = [one for one in results(tmp_path) if one["job"] != job]
    assert [_told(one) for one in again] == [("failed", "below_threshold", 0.5)], done.stdout + done.stderr
    for one in (found["again"], *again):
        subprocess.run(["docker", "image", "rm", "-f", one["kept"]], capture_output=True, check=False)


def test_another_image_grades_what_the_agent_left(tmp_path: Path) -> None:
    fresh = {"paths": ["out.txt"], "image": TAG}
    found = _run(
        tmp_path,
        [
            _scenario(
                name, f"echo {name} > out.txt", IS_RIGHT, image=IMAGE, dockerfile=None, fresh_container=fresh
            )
            for name in ("right", "wrong")
        ],
    )
    assert _told(found["right"]) == ("passed", None, 1.0), found["right"]["failure"]
    assert _told(found["wrong"]) == ("failed", "below_threshold", 0.0)
