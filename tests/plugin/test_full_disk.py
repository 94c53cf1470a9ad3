"""A full disk stops a job before it pays for more."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Bench

AGENTS = 20
AT_ONCE = 3


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)]
    if subprocess.run(argv, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def _agents(bench: Bench) -> int:
    """How many have begun to work."""
    return len(list((bench.path / "begun").iterdir()))


def _options(bench: Bench, command: str, workers: str) -> tuple[str, ...]:
    (bench.path / "begun").mkdir()
    bench.manifest({f"s{number:02}": "echo 1" for number in range(AGENTS)})
    begun = f"touch {bench.path}/begun/$$; "
    return ("-n", workers, "--bench-agent", f"command:{begun}{command}", "--bench-concurrency", str(AT_ONCE))


def test_a_full_results_disk(bench: Bench, disk: Path) -> None:
    fill = f"test $(ls {bench.path}/begun | wc -l) -lt 5 || dd if=/dev/zero of={disk}/filler bs=64k"
    options = _options(bench, f"{fill} 2>/dev/null; true", "0")
    done = bench.run(*options, "--bench-dir", str(disk / "reports"), "--bench-retry-errors", "2")
    assert done.ret != pytest.ExitCode.OK
    assert _agents(bench) < 5 + AT_ONCE
    done.stdout.fnmatch_lines(["*job cancelled: * trials did not run: *no space left*benchjobs resume *"])
    (disk / "filler").unlink()
    (record,) = disk.glob("reports/jobs/*/job.json")
    kept = [json.loads(path.read_text()) for path in record.parent.glob("trials/*/*/*/result.json")]
    assert {result["outcome"] for result in kept} >= {"passed"}, "what had ended is kept"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_job_that_ran_nothing_does_not_end_with_0(bench: Bench, disk: Path, workers: str) -> None:
    room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "filler").write_bytes(bytes(room - 900 * 1024))  # enough for the job, too little for a trial
    options = _options(bench, "true", workers)
    done = bench.run(*options, "--bench-dir", str(disk / "reports"))
    assert done.parseoutcomes() == {"skipped": AGENTS}
    assert (done.ret, _agents(bench)) == (pytest.ExitCode.INTERRUPTED, 0)
    done.stdout.fnmatch_lines(
        [f"*job cancelled: {AGENTS} trials did not run: *no space left*benchjobs resume *"]
    )
    resume = ("resume", "last", "--dir", str(disk / "reports"))
    assert bench.benchjobs(*resume).returncode == pytest.ExitCode.INTERRUPTED
    (disk / "filler").unlink()
    assert bench.benchjobs(*resume).returncode == pytest.ExitCode.OK


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_full_disk_of_the_engine(bench: Bench, workers: str) -> None:
    bench.conftest(
        """
        from pytest_benchjobs.model.errors import DiskFull

        class Full(FakeProvider):
            def start(self, spec, on_phase):
                if spec.labels["trial"].partition("::")[2] >= "s02":
                    raise DiskFull("the Docker Engine's disk is full: no space left on device")
                return super().start(spec, on_phase)

        def pytest_benchjobs_sandboxes(config):
            return {"fake": Full}
        """
    )
    done = bench.run(*_options(bench, "true", workers))
    assert done.ret != pytest.ExitCode.OK
    record = json.loads((bench.bundle() / "job.json").read_text())
    classes = [row["failure"]["class"] for row in bench.job()["results"] if row["failure"]]
    assert set(classes) == {"disk_full"}
    assert len(classes) < AGENTS - 2
    assert record["status"] == "cancelled"
    assert "no space left on device" in record["message"]
    assert "benchjobs resume" in record["message"]
