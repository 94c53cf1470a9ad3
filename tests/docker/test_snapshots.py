"""A scenario that begins with what was kept of a trial."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

FIRST = f"""
benchmark: first
defaults: {{image: {IMAGE}, workdir: /app, network: none}}
scenarios:
  - id: set-up
    problem_statement: Begin.
    env: {{TOKEN: "abc"}}
    scorers: [{{type: command, command: test -f begun.txt && echo XYZZY > /graded.txt}}]
"""
SECOND = """
benchmark: second
scenarios:
  - id: go-on
    problem_statement: Go on.
    environment: {{snapshot: {snapshot}, network: none}}
    reference: cat begun.txt more.txt > out.txt 2>/dev/null; ls / > ls.txt
    scorers: [{{type: bash, script: "cat ls.txt; pwd; grep -q {word} out.txt && ! test -e /graded.txt && echo 1 || echo 0"}}]
"""


@pytest.fixture
def kept(client: docker.APIClient) -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    for reference in found:
        with contextlib.suppress(docker.errors.NotFound):
            client.remove_image(reference, force=True, noprune=True)


def newest(tmp_path: Path) -> Path:
    """The directory of the newest job."""
    records = (tmp_path / "reports/jobs").glob("2*/job.json")
    return max(records, key=lambda path: str(json.loads(path.read_text())["created_at"])).parent


def begin(tmp_path: Path, kept: list[str], text: str) -> tuple[str, str]:
    """Run the first scenario and keep it; returns the id of the job and the reference."""
    (tmp_path / "first.bench.yaml").write_text(FIRST)
    done = run(
        tmp_path, "first.bench.yaml", "--bench-agent", f"command:echo {text} > begun.txt", "--bench-keep", "always",
        "--bench-force",
    )  # fmt: skip
    (result,) = [one for one in results(tmp_path) if one["kept"] not in kept and one["benchmark"] == "first"]
    kept.append(result["kept"])
    assert done.returncode == 0, done.stdout
    job = newest(tmp_path)
    return job.name, result["kept"]


def go_on(tmp_path: Path, snapshot: str, *more: str, word: str = "one") -> Any:
    (tmp_path / "second.bench.yaml").write_text(SECOND.format(snapshot=snapshot, word=word))
    run(tmp_path, "second.bench.yaml", *more)
    (found,) = [json.loads(path.read_text()) for path in newest(tmp_path).glob("trials/*/*/*/result.json")]
    return found


@pytest.mark.extended
def test_a_scenario_goes_on_where_a_trial_ended(tmp_path: Path, kept: list[str]) -> None:
    job, reference = begin(tmp_path, kept, "one")
    for snapshot in (f"{job}/set-up", reference):
        result = go_on(tmp_path, snapshot, "--bench-force")
        assert (result["outcome"], result["score"]) == ("passed", 1.0), result
        assert "/app" in result["scorers"][0]["output"]
        assert result["image"]["reference"] == f"snapshot {snapshot}"
    # Its content decides what is a repeat.
    assert go_on(tmp_path, reference, "--bench-reuse")["reused"] is not None
    _, other = begin(tmp_path, kept, "two")
    result = go_on(tmp_path, other, "--bench-reuse")
    assert (result["reused"], result["score"]) == (None, 0.0)


def test_one_that_is_gone_is_an_error_and_is_not_pulled(
    tmp_path: Path, client: docker.APIClient, kept: list[str]
) -> None:
    job, reference = begin(tmp_path, kept, "one")
    client.remove_image(reference, force=True, noprune=True)
    for snapshot in (f"{job}/set-up", reference, "benchjobs-kept:never-there"):
        result = go_on(tmp_path, snapshot, "--bench-force")
        assert (result["outcome"], result["score"]) == ("error", None)
        assert result["failure"]["class"] == "image_missing"
        said = f"the snapshot {snapshot} is not on this machine: `benchjobs gc` or `rm` removed it"
        assert said in result["failure"]["message"]
