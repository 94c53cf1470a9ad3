"""What CI systems get: the shapes are in `tests/unit/test_ci_output.py`, these are whole runs."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from .conftest import Bench

HOSTILE = """
  - id: hostile
    problem_statement: Command the CI system.
    reference: "true"
    scorers:
      - {name: right, type: command, command: "echo '::error::forged'; echo '  ::set-output name=verdict::ok'; echo 'x ##[error]forged'; cat leak.txt; false"}
  - id: broken
    problem_statement: Break.
    reference: "true"
    scorers: [{name: silent, type: bash, script: "echo '::warning::forged'"}]
"""


def commands(lines: list[str]) -> list[str]:
    """Lines that GitHub's runner obeys."""
    return [line for line in lines if line.lstrip().startswith("::") or re.search(r"##\w*\[", line)]


def run_gate(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "benchjobs"), "gate", *arguments]
    # As outside of a test, where nothing is written.
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return subprocess.run(command, cwd=bench.path, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture
def github(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(bench.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(bench.path / "step-summary"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(bench.path / "step-output"))
    bench.write("toy.bench.yaml", "benchmark: toy\ndefaults: {image: none}\nscenarios:" + HOSTILE)
    return bench


def test_github_gets_summary_outputs_and_annotations_and_no_command_of_an_agent(github: Bench) -> None:
    result = github.run("toy.bench.yaml", "-q", "-rA", "--bench-min-score=0.9", "--bench-job-name=nightly run",
                        "--bench-markdown=out/comment.md", "--bench-metrics=out/metrics.txt",
                        "--bench-export=out/same.md", "--bench-export=out/same.prom")  # fmt: skip
    lines = [*result.outlines, *result.errlines]
    assert "forged" in result.stdout.str()
    told = commands(lines)
    assert told[0].startswith("::error title=benchmark gate%3A ")
    assert all("forged" not in line for line in told)
    assert result.outlines[-len(told) :] == told
    summary = (github.path / "step-summary").read_text("utf-8")
    assert summary.startswith("> [!")
    assert "# Job `nightly run`" in summary
    assert summary == (github.bundle() / "summary.md").read_text("utf-8")
    values = dict(
        re.findall(r"^(\w+)<<\w+\n(.*)$", (github.path / "step-output").read_text("utf-8"), re.MULTILINE)
    )
    assert values.keys() == {"verdict", "mean", "delta", "job", "exit"}
    assert values["job"] == github.bundle().name
    assert values["exit"] == str(result.ret)
    assert values["verdict"] in ("regressed", "invalid")
    comment = (github.path / "out" / "comment.md").read_text("utf-8")
    assert comment == f"<!-- benchjobs:nightly-run -->\n{summary}"
    figures = (github.path / "out" / "metrics.txt").read_text("utf-8")
    assert '# TYPE bench_mean_score gauge\nbench_mean_score{agent="oracle"} 0\n' in figures
    assert figures.endswith("# EOF\n")
    for written, same in (("same.md", comment), ("same.prom", figures)):
        assert (github.path / "out" / written).read_text("utf-8") == same
    gated = run_gate(github, "--markdown=again.md", "--junit=again.xml", "--metrics=again.txt", "-o", "json")
    assert gated.returncode == result.ret
    assert json.loads(gated.stdout)["verdict"] == values["verdict"]
    assert gated.stderr.splitlines()[0] == told[0]
    assert (github.path / "step-summary").read_text("utf-8").count("> **Benchmark gate: ") == 2
    assert (github.path / "step-output").read_text("utf-8").count("exit<<") == 2
    assert (github.path / "again.txt").read_text("utf-8") == figures
    suite = ET.parse(github.path / "again.xml").find("testsuite/properties")
    assert suite is not None
    assert {one.get("name"): one.get("value") for one in suite}["bench_gate"] == values["verdict"]
    again = (github.path / "again.md").read_text("utf-8")
    assert again.partition("# Job")[2] == comment.partition("# Job")[2]


def test_a_report_for_browsers_is_written_at_the_end(bench: Bench) -> None:
    bench.toy()
    bench.run("--bench-html=out/report.html", "--bench-job-name=nightly")
    page = (bench.path / "out" / "report.html").read_text("utf-8")
    (main,) = re.findall(r'<script type="application/gzip\+base64" id="data-main">([^<]*)</script>', page)
    data = json.loads(gzip.decompress(base64.b64decode(main)))
    (job,) = data["jobs"]
    assert (job["id"], job["name"], job["status"]) == (bench.bundle().name, "nightly", "completed")
    assert data["meta"]["live"] is False
    (bench.path / "taken").write_text("")
    result = bench.run("--bench-html=taken/report.html")
    result.stdout.fnmatch_lines(["*--bench-html: *taken*"])


def test_trials_are_exported_at_the_end(bench: Bench) -> None:
    bench.toy()
    bench.run("--bench-export=out/trials.csv")
    job = bench.bundle().name
    with (bench.path / "out" / "trials.csv").open(newline="") as file:
        trials = list(csv.DictReader(file))
    assert {trial["job"] for trial in trials} == {job}
    assert len(trials) == len(bench.results())
    bench.write("job.toml", 'export = "again.json"\n')
    bench.run("--bench-job-file=job.toml")
    document = json.loads((bench.path / "again.json").read_text())
    (group,) = document["run_groups"]
    assert group["run_group_id"] not in (job, None)
    (bench.path / "taken").write_text("")
    bench.run("--bench-export=taken/trials.jsonl").stdout.fnmatch_lines(["*--bench-export: *taken*"])


def test_off_and_other_systems(github: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    result = github.run("toy.bench.yaml", "--bench-ci=off")
    assert commands([*result.outlines, *result.errlines]) == []
    assert not (github.path / "step-summary").exists()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(github.path))
    github.write("job.toml", 'ci = "github"\nmarkdown = "comment.md"\n')
    secret = "very-secret-0123456789"
    monkeypatch.setenv("MY_TOKEN", secret)
    leak = "--bench-agent=command:echo said ::error::$TOKEN | tee leak.txt"
    result = github.run(
        "toy.bench.yaml", "-n2", "-rA", "--bench-job-file=job.toml", "-k", "hostile", "--bench-secret=TOKEN=MY_TOKEN",
        "--bench-min-score=0.5", leak,
    )  # fmt: skip
    assert [line.partition(" ")[0] for line in commands(result.outlines)] == ["::error"]
    junit = (github.bundle() / "junit.xml").read_text("utf-8")
    assert "said ::error::" in junit
    files = [github.path / "comment.md", github.path / "step-output"]
    for text in (result.stdout.str(), junit, *(path.read_text("utf-8") for path in files)):
        assert secret not in text
    assert "GitHub's step summary: Is a directory" in result.outlines
    assert (github.path / "comment.md").read_text("utf-8").startswith("<!-- benchjobs:toy -->\n> [!CAUTION]")
    for variable in [name for name in os.environ if name.startswith("GITHUB_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("GITLAB_CI", "true")
    monkeypatch.setenv("CI_PROJECT_DIR", str(github.path.parent))
    github.run("toy.bench.yaml")
    root = ET.parse(github.bundle() / "junit.xml")
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert {case.get("file") for case in cases.values()} == {f"{github.path.name}/toy.bench.yaml"}
    attached = cases["hostile[oracle]"].findtext("system-out") or ""
    place = re.fullmatch(r"\[\[ATTACHMENT\|(.+)\]\]", attached)
    assert place is not None
    assert (github.path.parent / place[1]).is_file()
    assert json.loads((github.bundle() / "job.json").read_text("utf-8"))["status"] == "completed"
