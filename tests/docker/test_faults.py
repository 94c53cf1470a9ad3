"""Faults of the world are errors of the right class, and cost only what they hit."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.docker.engines import OwnEngine, own_engine  # noqa: F401  a fixture
from tests.support import IMAGE, PATIENCE, by_agent, results, run, start, until

pytestmark = pytest.mark.docker

GOOD = f"""
  - id: good
    problem_statement: Write ok.
    image: {IMAGE}
    reference: echo ok > out.txt
    scorers: [{{name: ok, type: command, command: grep -q ok out.txt}}]
"""


def _manifest(directory: Path, scenarios: str) -> None:
    (directory / "faults.bench.yaml").write_text(
        f"benchmark: faults\ndefaults: {{workdir: /app, network: none}}\nscenarios:{GOOD}{textwrap.indent(textwrap.dedent(scenarios), '  ')}"
    )


def _one_error(directory: Path, code: str) -> dict[str, object]:
    found = {result["scenario"]: result for result in results(directory)}
    assert found["good"]["outcome"] == "passed", "the rest of the job goes on"
    bad = found["bad"]
    assert bad["outcome"] == "error"
    assert bad["score"] is None
    assert bad["failure"]["class"] == code, bad["failure"]
    return dict(bad["failure"])


@pytest.mark.parametrize(
    ("image", "code", "said"),
    [
        ("dockerfile: Dockerfile", "image_build", "about to fail"),
        pytest.param(
            "image: no-such-image-anywhere:1", "image_missing", "no-such-image-anywhere:1",
            marks=pytest.mark.extended,
        ),
    ],
)  # fmt: skip
def test_an_image_that_cannot_be_had(tmp_path: Path, image: str, code: str, said: str) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo about to fail && exit 7\n")
    _manifest(tmp_path, f"""
        - id: bad
          problem_statement: x
          {image}
          reference: "true"
          scorers: [{{name: s, type: command, command: "true"}}]
        """)  # fmt: skip
    done = run(tmp_path, "faults.bench.yaml")
    assert done.returncode == 1
    assert said in str(_one_error(tmp_path, code)["message"])
    assert "Traceback" not in done.stdout


BROKEN = {
    "says-nothing": ("{name: s, type: bash, script: 'echo nothing'}", "score_missing"),
    "too-much": ("{name: s, type: bash, script: 'echo score=1.5'}", "score_invalid"),
    "nan": ("{name: s, type: bash, script: 'echo nan'}", "score_invalid"),
    "fails-late": ("{name: s, type: bash, script: 'echo 1; exit 3'}", "scorer_crashed"),
    "killed": ("{name: s, type: bash, script: 'kill -9 $$'}", "scorer_crashed"),
    "not-there": ("{name: s, type: command, command: no-such-program}", "scorer_crashed"),
    "too-slow": ("{name: s, type: bash, script: 'sleep 30; echo 1', timeout: 1}", "scorer_timeout"),
}


def test_a_scorer_that_breaks_gives_no_score(tmp_path: Path) -> None:
    scenarios = "".join(
        f"""
        - id: {name}
          problem_statement: x
          image: {IMAGE}
          reference: "true"
          scorers: [{scorer}]"""
        for name, (scorer, _) in BROKEN.items()
    )
    _manifest(tmp_path, f"{scenarios}\n")
    run(tmp_path, "faults.bench.yaml")
    found = {
        result["scenario"]: (result["outcome"], result["score"], (result["failure"] or {}).get("class"))
        for result in results(tmp_path)
    }
    assert found.pop("good") == ("passed", 1.0, None), "the rest of the job goes on"
    assert found == {name: ("error", None, code) for name, (_, code) in BROKEN.items()}


def test_no_engine_at_all_is_one_clear_line(tmp_path: Path) -> None:
    _manifest(tmp_path, "")
    done = run(tmp_path, "faults.bench.yaml", DOCKER_HOST=f"unix://{tmp_path}/nobody.sock")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert done.stdout.count("no Docker Engine answers") <= 3
    assert "no Docker Engine answers" in done.stdout
    (result,) = results(tmp_path)
    assert (result["outcome"], result["score"]) == ("error", None)
    assert result["failure"]["class"] == "engine_unavailable"


@pytest.mark.slow
@pytest.mark.extended  # it is waited for: a minute and a half; tests/docker/chaos has outages that end
def test_an_engine_that_stops_in_mid_job_loses_nothing_that_was_finished(
    tmp_path: Path,
    own_engine: OwnEngine,  # noqa: F811  the fixture
) -> None:
    scenarios = "".join(
        f"""
        - id: t{number}
          problem_statement: x
          image: {IMAGE}
          reference: sleep {0 if number < 3 else 60}; echo ok > out.txt
          scorers: [{{name: ok, type: command, command: grep -q ok out.txt}}]"""
        for number in range(6)
    )
    _manifest(tmp_path, scenarios + "\n")
    process = start(tmp_path, "faults.bench.yaml", "--bench-concurrency", "4", DOCKER_HOST=own_engine.host)
    until(lambda: len(results(tmp_path)) >= 4)
    own_engine.kill()
    output, _ = process.communicate(timeout=PATIENCE)
    found = {result["scenario"]: result for result in results(tmp_path)}
    assert process.returncode == 1, output
    assert {found[name]["outcome"] for name in ("good", "t0", "t1", "t2")} == {"passed"}, output
    for name in ("t3", "t4", "t5"):
        assert found[name]["outcome"] == "error", output
        assert found[name]["failure"]["class"] in ("engine_lost", "engine_unavailable", "engine_error")
    assert "Traceback" not in output


def test_a_full_results_disk_is_an_error_and_keeps_what_was_finished(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=False).returncode
        != 0
    ):
        pytest.skip("mounting a small file system needs root")
    try:
        _manifest(tmp_path, f"""
            - id: bad
              problem_statement: x
              image: {IMAGE}
              reference: head -c 6000000 /dev/urandom | base64
              scorers: [{{name: s, type: command, command: "true"}}]
            """)  # fmt: skip
        done = run(tmp_path, "faults.bench.yaml", "--bench-dir", str(disk), "--bench-concurrency", "1")
        assert done.returncode == 1
        assert "Traceback" not in done.stdout
        assert "disk_full" in done.stdout
        shutil.copytree(disk, tmp_path / "reports")
        found = by_agent(tmp_path)["oracle"]
        assert [result["outcome"] for result in found if result["scenario"] == "good"] == ["passed"]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_an_agent_that_cannot_be_started_is_not_to_blame(tmp_path: Path) -> None:
    _manifest(tmp_path, f"""
        - id: bad
          problem_statement: x
          image: {IMAGE}
          agent_user: nobody-of-this-name
          scorers: [{{name: s, type: command, command: "true"}}]
        """)  # fmt: skip
    run(tmp_path, "faults.bench.yaml", "--bench-agent", "command:echo ok > out.txt")
    assert "nobody-of-this-name" in str(_one_error(tmp_path, "agent_setup")["message"])


@pytest.mark.extended
def test_what_a_scorer_complains_about_is_not_its_score(tmp_path: Path) -> None:
    (tmp_path / "noisy.bench.yaml").write_text(
        f"""
benchmark: noisy
scenarios:
  - id: noisy
    image: {IMAGE}
    workdir: /app
    network: none
    problem_statement: x
    reference: "true"
    scorers: [{{name: s, type: bash, script: "cat no-such-file; echo score=1; cat no-such-file; true"}}]
"""
    )
    done = run(tmp_path, "noisy.bench.yaml", "--bench-attempts", "20", "--bench-concurrency", "8")
    assert done.returncode == 0, done.stdout
    (log,) = {path.read_text() for path in tmp_path.glob("reports/jobs/*/trials/*/*/1/scorers/s/output.log")}
    assert log.count("No such file") == 2
