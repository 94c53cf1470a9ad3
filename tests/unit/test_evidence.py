"""A test of ours that fails shows its seed, its jobs, and what the engine said meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..building import ROOT
from .jobs import make_job

JOB = "20261121-120000-aaaaaa"


def test_a_failed_test_shows_seed_jobs_and_the_end_of_the_engines_log(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_job(tmp_path / "project" / "reports", JOB, {"oracle": {"count": "P", "sums": "F"}})
    log = tmp_path / "dockerd.log"
    log.write_text("long ago\n")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("BENCHJOBS_ENGINE_STATE", str(tmp_path))
    monkeypatch.setenv("BENCHJOBS_TEST_SEED", "7")
    pytester.makeini("[pytest]\nmarkers = docker")
    pytester.makepyfile(f"""
        import pathlib, random, pytest

        @pytest.fixture
        def project():
            return pathlib.Path({str(tmp_path)!r})

        @pytest.mark.docker
        def test_it(project):
            with (project / "dockerd.log").open("a") as log:
                log.write("level=info msg=routine\\nlevel=error msg=readdirent\\n")
            assert random.random() is None
    """)
    first, again = (pytester.runpytest_subprocess("-p", "tests.evidence") for _ in range(2))
    first.stdout.fnmatch_lines(
        [
            "*BENCHJOBS_TEST_SEED=7,*",
            f"*job {tmp_path}/project/reports/jobs/{JOB}*",
            "completed, planned 2:*",
            "failed *sums*",
            f"*{log}, since the test began*",
            "level=error msg=readdirent",
        ]
    )
    first.stdout.no_fnmatch_line("long ago")
    first.stdout.no_fnmatch_line("level=info*")
    drawn = [[line for line in run.outlines if line.startswith("E       assert")] for run in (first, again)]
    assert drawn[0] == drawn[1] != []
