"""However a job is spread, it is the same job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import IMAGE, junit_cases, results, run

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SCENARIOS = 20
Picture = tuple[dict[str, str], dict[str, tuple[str, float]]]
"""Verdicts of the JUnit file, and outcomes and scores of the trials."""


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> str:
    scenarios = "".join(
        f"""
  - id: t{number:02}
    problem_statement: Write {number}.
    tags: [{"even" if number % 2 == 0 else "odd"}]
    reference: echo {number} > out.txt
    scorers:
      - {{name: there, type: command, command: test -e out.txt}}
      - {{name: right, type: bash, weight: 3, script: "echo score=$(test \\"$(cat out.txt 2>/dev/null)\\" = {number} && echo {1 if number % 4 else 0.5} || echo 0)"}}"""
        for number in range(SCENARIOS)
    )
    return f"benchmark: same\ndefaults: {{image: '{IMAGE}', workdir: /app, network: none}}\nscenarios:{scenarios}\n"


def _picture(directory: Path, manifest: str, *args: str) -> Picture:
    directory.mkdir()
    (directory / "same.bench.yaml").write_text(manifest)
    done = run(
        directory,
        "same.bench.yaml",
        "--bench-agent",
        "oracle",
        "--bench-agent",
        "nop",
        "--junitxml=out.xml",
        *args,
    )
    assert done.returncode == 1, done.stdout
    found = results(directory)
    assert len(found) == 2 * SCENARIOS, done.stdout
    return junit_cases(directory / "out.xml"), {
        result["node_id"]: (result["outcome"], result["score"]) for result in found
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, manifest: str) -> Picture:
    directory = tmp_path_factory.mktemp("same") / "reference"
    expected = _picture(directory, manifest, "-n", "0", "--bench-concurrency", "16")
    cases, trials = expected
    assert len(cases) == len(trials) == 2 * SCENARIOS
    assert sorted(cases.values()).count("passed") == 15
    return expected


@pytest.mark.parametrize(
    ("workers", "concurrency"),
    [
        pytest.param("2", "16", marks=pytest.mark.extended),
        pytest.param("4", "4", marks=pytest.mark.extended),
        pytest.param("0", "4", marks=pytest.mark.extended),
        pytest.param("2", "1", marks=pytest.mark.extended),
    ],
)
def test_workers_and_concurrency_change_nothing_but_the_time(
    tmp_path: Path, manifest: str, expected: Picture, workers: str, concurrency: str
) -> None:
    arguments = ("-n", workers, "--bench-concurrency", concurrency)
    assert _picture(tmp_path / "again", manifest, *arguments) == expected
