from __future__ import annotations

import contextlib
import datetime
import errno
import os
import random
import signal
import socket
import string
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import DiskFull, InputError, ResultsUnwritable
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.result import ScorerResult
from pytest_benchjobs.store import files
from pytest_benchjobs.store.bundle import BundleWarning, JobBundle, new_job_id
from pytest_benchjobs.store.copying import Copied, copy_tree
from pytest_benchjobs.store.layout import slug

from .records import JOB, NOW, record, result, trial


@pytest.fixture
def bundle(tmp_path: Path) -> JobBundle:
    return JobBundle.create(tmp_path, record(tmp_path))


def test_a_new_bundle_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    made = JobBundle.create(tmp_path, record(tmp_path))
    assert JobBundle.open(tmp_path, JOB).read() == record(tmp_path)
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == [".benchjobs", made.id]


def test_values_of_variables_for_agents_are_not_written(tmp_path: Path) -> None:
    config = JobConfig(directory=tmp_path, env={"OPENAI_API_KEY": "sk-very-secret"})
    bundle = JobBundle.create(tmp_path, record(tmp_path, config=config))
    assert "very-secret" not in (bundle.root / "job.json").read_text()
    assert bundle.read().config.env == {"OPENAI_API_KEY": "[redacted:OPENAI_API_KEY]"}


def test_job_ids_sort_by_time_and_are_unique() -> None:
    ids = {new_job_id(NOW) for _ in range(50)}
    assert len(ids) > 45
    assert all(job_id.startswith("20261121-054712-") for job_id in ids)
    assert max(ids) < new_job_id(NOW + datetime.timedelta(seconds=1))


@pytest.mark.parametrize("job_id", ["../x", "", ".hidden", "a/b", "a\n"])
def test_a_job_id_never_leaves_the_directory(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(InputError, match="is not the id of a job"):
        JobBundle(tmp_path, job_id)


def test_opening_a_job_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"there is no job {JOB} in"):
        JobBundle.open(tmp_path, JOB)


def test_a_damaged_job_json_is_one_clear_error(bundle: JobBundle) -> None:
    (bundle.root / "job.json").write_text('{"id": 3')
    with pytest.raises(InputError) as caught:
        bundle.read()
    assert str(caught.value).startswith(
        f"{bundle.root / 'job.json'}: is damaged or of another version: Invalid JSON"
    )


def test_a_trial_is_found_by_the_id_of_an_earlier_version_and_renamed(bundle: JobBundle) -> None:
    old, other = trial(file="texts"), trial("sums", file="texts")
    bundle.begin(trial(file="b.bench.yaml")).commit(result(trial(file="b.bench.yaml"), benchmark="words"))
    for of in (old, other):  # a trial of another benchmark has the place of the first one
        bundle.begin(of).commit(result(of))
    for of in (old, trial()):
        assert bundle.find(of) is not None
    assert bundle.rename_by_path([(trial().node_id, "texts")])[1] == 1
    assert bundle.rename_by_path([(trial().node_id, "texts")])[1] == 0
    found = {one.node_id: one.benchmark for one in bundle.results()}
    assert found == {
        "b.bench.yaml::count[oracle-1]": "words", trial().node_id: "texts", other.node_id: "texts",
    }  # fmt: skip


def test_a_committed_trial_is_in_its_place_with_all_its_files(bundle: JobBundle) -> None:
    directory = bundle.begin(trial())
    directory.layout.agent_log.write_text("hello\n")
    (directory.layout.artifacts / "out.txt").write_text("3\n")
    assert list(bundle.results()) == []
    committed = directory.commit(result())
    assert committed == result(path="trials/oracle/count/1")
    assert list(bundle.results()) == [committed]
    place = bundle.root / committed.path
    assert directory.path == place
    assert sorted(path.relative_to(place).as_posix() for path in place.rglob("*")) == [
        "agent.log", "artifacts", "artifacts/out.txt", "result.json",
    ]  # fmt: skip


def test_a_discarded_trial_leaves_nothing_even_with_unreadable_files(bundle: JobBundle) -> None:
    directory = bundle.begin(trial())
    locked = directory.layout.artifacts / "locked"
    locked.mkdir()
    (locked / "file").write_text("x")
    locked.chmod(0)
    directory.discard()
    assert list((bundle.root / "trials/oracle/count").iterdir()) == []


def test_discard_after_commit_keeps_the_result(bundle: JobBundle) -> None:
    directory = bundle.begin(trial())
    committed = directory.commit(result())
    directory.discard()
    assert list(bundle.results()) == [committed]


def test_a_newer_result_of_the_same_trial_replaces_the_older(bundle: JobBundle) -> None:
    first = bundle.begin(trial())
    first.layout.agent_log.write_text("old")
    first.commit(result(score=0.5))
    newer = bundle.begin(trial()).commit(result(score=1.0))
    assert list(bundle.results()) == [newer]
    assert sorted(path.name for path in (bundle.root / "trials/oracle/count").iterdir()) == ["1"]
    assert not (bundle.root / newer.path / "agent.log").exists()


def test_scenarios_of_one_name_in_different_files_both_keep_their_results(bundle: JobBundle) -> None:
    trials = [trial(file=f"{letter}.bench.yaml") for letter in "abc"]
    committed = [bundle.begin(of).commit(result(of)) for of in trials]
    assert len({one.path for one in committed}) == 3
    assert sorted(bundle.results(), key=lambda one: one.node_id) == committed
    again = bundle.begin(trials[1]).commit(result(trials[1], score=0.5))
    assert again.path == committed[1].path
    found = [bundle.find(trial(file=f"{letter}.bench.yaml")) for letter in "abcd"]
    assert found == [committed[0], again, committed[2], None]


def test_what_has_no_place_in_json_does_not_lose_a_result(bundle: JobBundle) -> None:
    details = {"object": object(), "nan": float("nan")}
    scorer = ScorerResult(
        name="odd", type="python", weight=1, score=0.5, output="half \ud800", details=details
    )
    committed = bundle.begin(trial()).commit(result(scorers=(scorer,), started_at=NOW))
    assert list(bundle.results()) == [committed]
    assert committed.started_at == NOW
    assert committed.scorers[0].output == "half \ufffd"
    assert committed.scorers[0].details["nan"] is None


def test_a_damaged_result_is_a_warning_and_the_others_are_read(bundle: JobBundle) -> None:
    good = bundle.begin(trial("good")).commit(result(trial("good")))
    bad = bundle.begin(trial("bad")).commit(result(trial("bad")))
    (bundle.root / bad.path / "result.json").write_bytes(b'{"outcome": "passed"\xff')
    empty = bundle.root / "trials/oracle/empty/1"
    empty.mkdir(parents=True)
    warnings: list[BundleWarning] = []
    assert list(bundle.results(warnings)) == [good]
    assert [warning.path for warning in warnings] == [
        bundle.root / bad.path / "result.json",
        empty / "result.json",
    ]
    assert "is damaged" in str(warnings[0])
    assert "cannot be read: No such file" in str(warnings[1])


def test_sweep_keeps_a_trial_that_was_complete_and_removes_the_others(bundle: JobBundle) -> None:
    unfinished = bundle.begin(trial("unfinished"))
    unfinished.layout.agent_log.write_text("half")
    complete = bundle.begin(trial("complete"))
    (complete.path / "result.json").write_text(result(trial("complete")).model_dump_json(by_alias=True))
    assert bundle.sweep() == 1
    assert [one.path for one in bundle.results()] == ["trials/oracle/complete/1"]
    assert not list(bundle.root.rglob(".*"))


def test_sweep_keeps_a_complete_trial_when_the_disk_is_full(
    bundle: JobBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = bundle.begin(trial())
    (directory.path / "result.json").write_text(result().model_dump_json(by_alias=True))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        assert bundle.sweep() == 0
    assert bundle.sweep() == 0
    assert list(bundle.results()) == [result(path="trials/oracle/count/1")]


@pytest.mark.parametrize("newer", [True, False])
def test_sweep_puts_back_a_result_that_had_stepped_aside(bundle: JobBundle, newer: bool) -> None:
    committed = bundle.begin(trial()).commit(result(score=0.5))
    place = bundle.root / committed.path
    place.rename(place.with_name(".old-0badcafe-1"))
    directory = bundle.begin(trial())
    if newer:
        (directory.path / "result.json").write_text(result(score=1.0).model_dump_json(by_alias=True))
    bundle.sweep()
    assert [one.score for one in bundle.results()] == [1.0 if newer else 0.5]
    assert not list(bundle.root.rglob(".*"))


@pytest.mark.parametrize(
    ("number", "error", "words"),
    [
        (errno.ENOSPC, DiskFull, "no space left for results"),
        (errno.EDQUOT, DiskFull, "no space left for results"),
        (errno.EROFS, ResultsUnwritable, "Read-only file system"),
        (errno.EACCES, ResultsUnwritable, "Permission denied"),
    ],
)
def test_a_directory_that_refuses_writes_is_an_infrastructure_error(
    bundle: JobBundle, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], words: str
) -> None:
    directory = bundle.begin(trial())

    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "fsync", refuse)
    with pytest.raises(error, match=words) as caught:
        directory.commit(result())
    assert str(directory.path) in str(caught.value)
    assert not list(directory.path.glob(".result*"))


@given(st.lists(st.text(max_size=200), min_size=2, max_size=2, unique=True))
def test_slugs_are_safe_and_different_for_different_texts(texts: list[str]) -> None:
    slugs = [slug(text) for text in texts]
    assert slugs[0] != slugs[1]
    for made in slugs:
        assert 0 < len(made) <= 100
        assert set(made) <= set(string.ascii_lowercase + string.digits + "._=+-")
        assert made[0] not in ".-"
        assert made[-1] not in ".-"


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.unit.records import JOB, result, trial
from pytest_benchjobs.store.bundle import JobBundle
bundle = JobBundle.open(Path(sys.argv[1]), JOB)
number = 0
while True:
    number += 1
    of = trial(f"s{number % 7}")
    directory = bundle.begin(of)
    directory.layout.agent_log.write_bytes(b"x" * 100_000)
    directory.commit(result(of, tries=number))
    print(of.scenario.id, number, flush=True)
"""


def test_killing_a_writer_leaves_whole_results_only_and_loses_none(bundle: JobBundle) -> None:
    directory = bundle.root.parent.parent
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(directory), str(Path(__file__).parents[2])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            reported = [writer.stdout.readline()]
            time.sleep(random.uniform(0.01, 0.15))  # at no moment that anything waits for
            writer.send_signal(signal.SIGKILL)
            reported += writer.stdout.readlines()
        # The last line may have been cut short by the kill.
        last = dict(line.split() for line in reported if line.endswith("\n") and len(line.split()) == 2)
        bundle.sweep()
        warnings: list[BundleWarning] = []
        found = {one.scenario: one.tries for one in bundle.results(warnings)}
        assert warnings == []
        for scenario, tries in last.items():
            assert found[scenario] >= int(tries)
        assert not list(bundle.root.rglob(".*"))
        assert {log.stat().st_size for log in bundle.root.rglob("agent.log")} == {100_000}
        files.remove_tree(bundle.root / "trials")


def test_what_cannot_be_listed_is_a_warning_and_what_is_not_there_is_none(bundle: JobBundle) -> None:
    warnings: list[BundleWarning] = []
    (bundle.root / "trials").rmdir()
    assert list(bundle.results(warnings)) == []
    assert warnings == []
    (bundle.root / "trials").write_text("no directory")
    assert list(bundle.results()) == []
    assert list(bundle.results(warnings)) == []
    assert warnings == [BundleWarning(bundle.root / "trials", "cannot be read: Not a directory")]


def test_a_result_without_files_takes_the_place_of_an_earlier_one_and_of_no_namesake(
    bundle: JobBundle,
) -> None:
    first = bundle.put(trial(), result(score=0.5))
    second = bundle.put(trial(), result(score=0.75))
    assert (first.path, second.path) == ("trials/oracle/count/1", "trials/oracle/count/1")
    namesake = trial(file="b.bench.yaml")
    other = bundle.put(namesake, result(namesake, score=0.25))
    assert other.path != second.path
    assert sorted((one.path, one.score) for one in bundle.results()) == sorted(
        [(second.path, 0.75), (other.path, 0.25)]
    )
    assert not list(bundle.root.rglob(".*"))


@pytest.mark.parametrize(
    ("kind", "left_out"),
    [("pipe", "x: is not a regular file"), ("link", "x: is a link"), ("socket", "x: is not a regular file")],
)
def test_what_is_no_file_is_not_copied_and_named(tmp_path: Path, kind: str, left_out: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener, contextlib.chdir(tmp_path / "there"):
        match kind:
            case "pipe":
                os.mkfifo("x")
            case "link":
                Path("x").symlink_to("/etc/hostname")
            case _:
                listener.bind("x")
        copied = Copied()
        copy_tree(tmp_path / "there", tmp_path / "here", copied)
    assert (copied.left_out, copied.problems, copied.files) == ([left_out], [], 0)
    assert list((tmp_path / "here").iterdir()) == []


def test_a_result_that_cannot_take_its_place_leaves_the_earlier_one_there(
    bundle: JobBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = bundle.begin(trial()).commit(result(seconds=1.0))
    place, rename = bundle.root / earlier.path, Path.rename

    def refused(self: Path, target: Path) -> Path:
        # Free, as the earlier one has stepped aside.
        if target == place and self.name.startswith(".tmp-") and not place.exists():
            raise OSError(errno.EIO, "broken")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(ResultsUnwritable, match="broken"):
        bundle.begin(trial()).commit(result(seconds=2.0))
    assert [one.seconds for one in bundle.results()] == [1.0]
    assert not list(place.parent.glob(".old-*"))
