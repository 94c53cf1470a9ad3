from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import jsonschema
import pytest

import pytest_benchjobs as benchjobs
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.result import Origin
from pytest_benchjobs.report.documents.jobs import TrialLog
from pytest_benchjobs.report.export import rows
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.copying import Staging, inside
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.reader import HistoryReader

from .jobs import documents, ended, make_job, run
from .records import NOW

JOB, EARLIER = "20261121-054712-4f9a2c", "20261120-000000-000000"


def tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def bundle_of(directory: Path, result: str = "oracle/count/1", job: str = JOB) -> Path:
    return JobBundle(directory, job).root / "trials" / result


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_each_trial_gets_a_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P"}, "codex:org/gpt 5.5": {"count": "H"}})
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    text, talk = capsys.readouterr()
    assert text.splitlines() == [
        "  ✓ oracle / count",
        f"  ✓ {ended('P', agent='codex:org/gpt 5.5').agent.label} / count",
        f"Copied logs of 2/2 trials to {out}",
    ]
    assert talk == f"Copying logs of 2 trials to {out}\n"
    (codex,) = out.glob("codex_org_gpt_5.5*")
    assert tree(out / "oracle") == ["count/agent.log", "count/artifacts/out.txt", "count/results.json"]
    assert (codex / "count" / "agent.log").read_text().startswith("log of a.bench.yaml::count[codex")
    results = json.loads((codex / "count" / "results.json").read_text())
    jsonschema.validate(results, TrialLog.model_json_schema(by_alias=True, mode="serialization"))
    assert (results["outcome"], results["score"], results["failure"]) == (
        "failed",
        0.25,
        {"class": "below_threshold", "message": "below_threshold of count"},
    )
    assert results["scorers"] == [
        {
            "name": "right", "type": "bash", "weight": 1.0, "score": 0.25, "status": "complete",
            "output": "said so\n", "error": None,
        }
    ]  # fmt: skip


def test_without_a_place_they_go_to_logs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_job(tmp_path / "reports", JOB, {"oracle": {"count": "P"}})
    assert run("logs", JOB[:10]) == 0
    assert tree(tmp_path / "logs")[:2] == [".gitignore", f"{JOB}/oracle/count/agent.log"]


def test_attempts_end_in_their_number(capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P.P", "sums": "F"}})
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    assert sorted(path.name for path in (out / "oracle").iterdir()) == ["count-1", "count-3", "sums-1"]
    assert capsys.readouterr().out.splitlines()[:2] == ["  ✓ oracle / count 1", "  ✓ oracle / count 3"]


def test_a_directory_has_an_option_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P"}})
    arguments = ["logs", "last", "--output-dir", out, "--dir", tmp_path]
    assert run(*arguments, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["directory"] == str(out)
    assert (out / "oracle" / "count" / "agent.log").exists()
    assert run(*arguments, "-o", tmp_path / "other") == 2
    assert "only one directory" in capsys.readouterr().err
    assert run("logs", "last", "-o", out / "oracle" / "count" / "agent.log", "--dir", tmp_path) == 2
    assert "is a file" in capsys.readouterr().err


def test_namesakes_get_places_of_their_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    trials = [ended("P"), ended("F", file="b.bench.yaml"), ended("P", "Count"), ended("P", "count-1")]
    make_job(tmp_path, JOB, trials)
    document = documents(capsys, "logs", "logs", "last", "-o", out, "--dir", tmp_path)
    places = [found["directory"] for found in document["trials"]]
    assert len({place.casefold() for place in places}) == 4
    for found in document["trials"]:
        results = json.loads((out / found["directory"] / "results.json").read_text())
        assert results["node_id"] == found["node_id"]


def test_a_run_or_a_scenario_or_a_trial_may_be_chosen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "PP", "sums": "PP"}, "nop": {"count": "FF"}})
    for number, (arguments, expected) in enumerate(
        [
            (["--run", f"{JOB}.2"], ["nop/count-1", "nop/count-2"]),
            (["--run", "2", "--scenario", "count"], ["nop/count-1", "nop/count-2"]),
            (["--scenario", "sums"], ["oracle/sums-1", "oracle/sums-2"]),
            (["--scenario", "a.bench.yaml::sums[oracle-2]"], ["oracle/sums-2"]),
        ]
    ):
        place = out / str(number)
        assert run("logs", "last", "-o", place, *arguments, "--dir", tmp_path) == 0
        assert sorted(str(path.parent.relative_to(place)) for path in place.rglob("results.json")) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", f"{JOB}.9"], f"there is no run '{JOB}.9' in job {JOB}: it has {JOB}.1, {JOB}.2"),
        (["--scenario", "coutn"], f"there is no trial of scenario 'coutn' in job {JOB}. Did you mean count?"),
        (["--scenario", "sums", "--run", "2"], f"there is no trial of scenario 'sums' in run {JOB}.2"),
    ],
)
def test_an_unknown_run_or_scenario_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path, arguments: list[str], message: str
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P", "sums": "P"}, "nop": {"count": "F"}})
    assert run("logs", "last", "-o", out, *arguments, "--dir", tmp_path) == 2
    text, talk = capsys.readouterr()
    assert (text, talk.count("\n")) == ("", 1)
    assert talk.startswith(f"benchjobs: {message}")
    assert not out.exists()


def test_what_was_reused_has_the_logs_of_its_origin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, EARLIER, {"oracle": {"count": "P"}})
    origin = Origin(job=EARLIER, path="trials/oracle/count/1", finished_at=NOW)
    make_job(tmp_path, JOB, [ended("P", reused=origin)], hours_ago=1)
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    assert (out / "oracle/count/agent.log").read_text().endswith(f" in {EARLIER}\n")
    assert json.loads((out / "oracle/count/results.json").read_text())["reused"] == EARLIER


def test_what_was_graded_anew_has_the_log_of_the_agent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, EARLIER, {"oracle": {"count": "P"}})
    origin = Origin(job=EARLIER, path="trials/oracle/count/1", finished_at=NOW)
    make_job(tmp_path, JOB, [ended("F", rescored=origin)], hours_ago=1)
    (bundle_of(tmp_path) / "agent.log").unlink()
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    assert (out / "oracle/count/agent.log").read_text().endswith(f" in {EARLIER}\n")


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A trial that ran in `ran`, was graded anew in `graded` and taken over from there, then all of it once more."""
    make_job(tmp_path, "ran", {"oracle": {"count": "P"}}, hours_ago=9)
    before = "ran"
    for number, job in enumerate(("graded", "reused", "graded2", "last")):
        origin = Origin(job=before, path="trials/oracle/count/1", finished_at=NOW)
        how = "rescored" if job.startswith("graded") else "reused"
        make_job(tmp_path, job, [ended("F", **{how: origin})], hours_ago=8 - number)
        if how == "rescored":
            place = bundle_of(tmp_path, job=job)
            (place / "agent.log").unlink()
            (place / "artifacts" / "out.txt").unlink()
            (place / "scorers").mkdir()
            (place / "scorers" / "right.log").write_text(f"graded in {job}\n")
        before = job
    return tmp_path


def test_the_log_of_the_agent_is_found_however_many_jobs_are_between(
    capsys: pytest.CaptureFixture[str], chain: Path, out: Path
) -> None:
    for job, grading in (("last", "graded2"), ("graded2", "graded2"), ("reused", "graded")):
        assert run("logs", job, "-o", out / job, "--dir", chain) == 0
        assert (out / job / "oracle/count/agent.log").read_text().endswith(" in ran\n")
        assert (out / job / "oracle/count/scorers/right.log").read_text() == f"graded in {grading}\n"
        (trial,) = benchjobs.open(chain).job(job).trials()
        assert trial.log().endswith(" in ran\n")
        with HistoryReader.of(chain) as history:
            (row,) = rows(chain, history, job)
        assert row["log"] == "../ran/trials/oracle/count/1/agent.log"


def test_a_chain_that_bites_its_own_tail_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    origin = Origin(job=JOB, path="trials/oracle/count/1", finished_at=NOW)
    make_job(tmp_path, JOB, [ended("P", reused=origin)])
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 1
    assert "the files of this trial are more than 100 jobs away" in capsys.readouterr().out


def test_an_origin_that_is_gone_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    origin = Origin(job=EARLIER, path="trials/oracle/count/1", finished_at=NOW)
    make_job(tmp_path, JOB, [ended("P", reused=origin), ended("P", "sums")])
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 1
    text = capsys.readouterr().out
    assert f"there is no job {EARLIER}" in text
    assert text.endswith(f"Copied logs of 1/2 trials to {out}\n")


def test_links_and_pipes_of_an_agent_are_not_followed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P", "sums": "P"}})
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("very-secret")
    artifacts = bundle_of(tmp_path) / "artifacts"
    (artifacts / "key").symlink_to(secret / "key")
    (artifacts / "keys").symlink_to(secret)
    os.mkfifo(artifacts / "pipe")
    (artifacts / "-rf ~").write_text("harmless")
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    text, talk = capsys.readouterr()
    assert text == f"  ✓ oracle / count\n  ✓ oracle / sums\nCopied logs of 2/2 trials to {out}\n"
    assert talk.splitlines()[1:] == ["left out of oracle/count: key: is a link, and 2 more"]
    assert tree(out / "oracle/count") == ["agent.log", "artifacts/-rf ~", "artifacts/out.txt", "results.json"]
    assert not any(b"very-secret" in path.read_bytes() for path in out.rglob("*") if path.is_file())
    document = documents(capsys, "logs", "logs", "last", "-o", out, "--dir", tmp_path, option="--output")
    assert [(found["status"], found["problem"]) for found in document["trials"]] == [
        ("copied", None),
        ("copied", None),
    ]


def test_a_name_of_an_agents_file_is_no_command_to_ci(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    make_job(tmp_path, JOB, {"oracle": {"count": "P"}})
    artifacts = bundle_of(tmp_path) / "artifacts"
    (artifacts / "##[error]x").symlink_to("out.txt")
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    assert run("logs", "last", "-o", out, "--scenario", "##[error]", "--dir", tmp_path) == 2
    assert run("merge", tmp_path, "--dir", out) == 0
    text = "".join(capsys.readouterr())
    assert (text.count("# #[error]"), text.count("##[")) == (3, 0)


@pytest.mark.parametrize("path", ["../../../secret", "/etc", "trials/../../..", "trials/link"])
def test_a_history_from_elsewhere_cannot_lead_out_of_the_bundle(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path, path: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("very-secret")
    job = make_job(tmp_path, JOB, [])
    (JobBundle(tmp_path, JOB).root / "trials" / "link").symlink_to(tmp_path / "secret")
    with History.of(tmp_path) as history:
        history.replace_job(job, [ended("P", path=path)])
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 1
    assert "leads out of the bundle" in capsys.readouterr().out
    assert tree(out) == []


def test_a_hostile_origin_leads_nowhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, EARLIER, {"oracle": {"count": "P"}})
    for job, path in ((EARLIER, "../../secret"), ("../../..", "etc")):
        origin = Origin(job=job, path=path, finished_at=NOW)
        make_job(tmp_path, f"{JOB}-{len(path)}", [ended("P", reused=origin)], hours_ago=0)
        assert run("logs", f"{JOB}-{len(path)}", "-o", out, "--dir", tmp_path) == 1
        assert "Copied logs of 0/1 trial to" in capsys.readouterr().out


def test_names_of_agents_and_scenarios_stay_inside(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    job = make_job(tmp_path, JOB, [])
    names = [
        "../../up", "/etc/passwd", "..", ".hidden", 'a/b\\c:d*e?f"g<h>i|j', "x" * 300, "\x1b[31mred \t x", "",
    ]  # fmt: skip
    results = [
        ended("P").model_copy(update={"scenario": name, "node_id": f"a::{name}[oracle]"}) for name in names
    ]
    with History.of(tmp_path) as history:
        history.replace_job(job, results)
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"jobs", "out"}
    shown = sorted(path.parent.relative_to(out).parts for path in out.rglob("results.json"))
    assert len(shown) == len(names)
    assert {len(parts) for parts in shown} == {2}


def test_copying_again_replaces_what_was_copied(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P"}})
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    (bundle_of(tmp_path) / "artifacts" / "out.txt").unlink()
    (bundle_of(tmp_path) / "artifacts" / "new.txt").write_text("x")
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    assert tree(out) == [
        "oracle/count/agent.log",
        "oracle/count/artifacts/new.txt",
        "oracle/count/results.json",
    ]


def test_a_directory_of_somebody_else_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P", "sums": "P"}})
    (out / "oracle" / "count").mkdir(parents=True)
    (out / "oracle" / "count" / "thesis.txt").write_text("years of work")
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 1
    assert "has other files" in capsys.readouterr().out
    assert tree(out) == [
        "oracle/count/thesis.txt",
        "oracle/sums/agent.log",
        "oracle/sums/artifacts/out.txt",
        "oracle/sums/results.json",
    ]


@pytest.mark.parametrize("kind", ["link", "directory", "file"])
def test_only_an_empty_directory_makes_room_for_logs(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.touch()
    elif kind == "directory":
        place.mkdir()
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    with (
        contextlib.nullcontext()
        if kind == "directory"
        else pytest.raises(InputError, match="has other files")
    ):
        staging = Staging(place, "results.json")
        (staging.path / "results.json").touch()
        staging.commit()
        Staging(place, "results.json").discard()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "place"][kind != "link" :]
    assert (place / "results.json").exists() is (kind == "directory")


def test_a_damaged_result_does_not_keep_the_logs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P"}})
    (bundle_of(tmp_path) / "result.json").write_text("{")
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 1
    assert "result.json: is damaged" in capsys.readouterr().out
    assert "oracle/count/agent.log" in tree(out)


def test_a_bundle_that_is_not_here_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P"}})
    (JobBundle(tmp_path, JOB).root / "job.json").unlink()
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 1
    assert f"there is no job {JOB} in {tmp_path}" in capsys.readouterr().out


def test_a_trial_that_never_had_files_has_its_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    job = make_job(tmp_path, JOB, [])
    with History.of(tmp_path) as history:
        history.replace_job(job, [ended("E")])
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    assert tree(out) == ["oracle/count/results.json"]


def test_files_of_agents_keep_their_size_and_lose_special_modes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, out: Path
) -> None:
    make_job(tmp_path, JOB, {"oracle": {"count": "P"}})
    file = bundle_of(tmp_path) / "artifacts" / "big"
    file.write_bytes(os.urandom(3_000_001))
    file.chmod(0o4755)
    assert run("logs", "last", "-o", out, "--dir", tmp_path) == 0
    copy = out / "oracle/count/artifacts/big"
    assert copy.read_bytes() == file.read_bytes()
    assert copy.stat().st_mode & 0o7777 & ~0o22 == 0o755 & ~0o22


@pytest.mark.parametrize("path", ["", ".", "..", "a/../b", "/a", "a/../../b"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="leads out of the bundle"):
        inside(tmp_path, path)


def test_a_path_inside_is_found_through_links_above_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "real" / "trials").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert inside(tmp_path / "link", "trials") == tmp_path / "link" / "trials"


@pytest.mark.parametrize("there", [False, True])
def test_the_usual_directory_keeps_itself_out_of_commits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    make_job(tmp_path / "reports", JOB, {"oracle": {"count": "P"}})
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "logs").mkdir()
    assert run("logs", "last", "--dir", tmp_path / "reports") == 0
    assert f"to logs/{JOB}" in capsys.readouterr().out
    ignored = tmp_path / "logs" / ".gitignore"
    assert ignored.exists() is not there, "a directory of the project is left as it is"
    assert there or ignored.read_text().endswith("\n*\n")
