from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import jsonschema
import pytest

import pytest_benchjobs as benchjobs
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.report.documents.jobs import TrialLog
from pytest_benchjobs.store.copying import inside, staged

from .cli import Cli, cli, origin
from .jobs import ended, make_job, run

__all__ = ["cli"]

JOB, EARLIER = "20261121-054712-4f9a2c", "20261120-000000-000000"


def tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def files_of(cli: Cli, job: str = JOB) -> Path:
    return cli.bundle(job).root / "trials" / "oracle/count/1"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_each_trial_gets_a_directory(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}, "codex:org/gpt 5.5": {"count": "H"}})
    text, talk = cli("logs", "last", "-o", out)
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
    why = {"class": "below_threshold", "message": "below_threshold of count"}
    assert (results["outcome"], results["score"], results["failure"]) == ("failed", 0.25, why)
    assert results["scorers"] == [
        {
            "name": "right", "type": "bash", "weight": 1.0, "score": 0.25, "status": "complete", "definition": {},
            "output": "said so\n", "error": None,
        }
    ]  # fmt: skip


def test_attempts_end_in_their_number(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P.P", "sums": "F"}})
    shown = cli("logs", "last", "-o", out).lines
    assert sorted(path.name for path in (out / "oracle").iterdir()) == ["count-1", "count-3", "sums-1"]
    assert shown[:2] == ["  ✓ oracle / count 1", "  ✓ oracle / count 3"]


def test_a_directory_has_an_option_of_its_own(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    arguments = ["logs", "last", "--output-dir", out]
    assert json.loads(cli(*arguments, "-o", "json").out)["directory"] == str(out)
    log = out / "oracle/count/agent.log"
    assert log.exists()
    assert "only one directory" in cli.refused(*arguments, "-o", cli.directory / "other")
    assert "is a file" in cli.refused("logs", "last", "-o", log)


def test_namesakes_get_places_of_their_own(cli: Cli, out: Path) -> None:
    trials = [ended("P"), ended("F", file="b.bench.yaml"), ended("P", "Count"), ended("P", "count-1")]
    cli.make(JOB, trials)
    document = cli.document("logs", "last", "-o", out)
    places = [found["directory"] for found in document["trials"]]
    assert len({place.casefold() for place in places}) == 4
    for found in document["trials"]:
        results = json.loads((out / found["directory"] / "results.json").read_text())
        assert results["node_id"] == found["node_id"]


def test_a_run_or_a_scenario_or_a_trial_may_be_chosen(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "PP", "sums": "PP"}, "nop": {"count": "FF"}})
    for number, (arguments, expected) in enumerate(
        [
            (["--run", f"{JOB}.2"], ["nop/count-1", "nop/count-2"]),
            (["--run", "2", "--scenario", "count"], ["nop/count-1", "nop/count-2"]),
            (["--scenario", "sums"], ["oracle/sums-1", "oracle/sums-2"]),
            (["--scenario", "a.bench.yaml::sums[oracle-2]"], ["oracle/sums-2"]),
            (["--scenario", "texts::sums[oracle-2]"], ["oracle/sums-2"]),
            (["--scenario", "sums[oracle-2]"], ["oracle/sums-2"]),
        ]
    ):
        place = out / str(number)
        cli("logs", "last", "-o", place, *arguments)
        assert sorted(str(path.parent.relative_to(place)) for path in place.rglob("results.json")) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", f"{JOB}.9"], f"there is no run '{JOB}.9' in job {JOB}: it has {JOB}.1, {JOB}.2"),
        (["--scenario", "coutn"], f"there is no trial of scenario 'coutn' in job {JOB}. Did you mean count?"),
        (
            ["--scenario", "sums", "--run", "2"],
            f"there is no trial of scenario 'sums' in run {JOB}.2: it has count",
        ),
        (["--scenario", "zz"], f"there is no trial of scenario 'zz' in job {JOB}: it has count, sums"),
    ],
)
def test_an_unknown_run_or_scenario_is_one_line(
    cli: Cli, out: Path, arguments: list[str], message: str
) -> None:
    cli.make(JOB, {"oracle": {"count": "P", "sums": "P"}, "nop": {"count": "F"}})
    said = cli.refused("logs", "last", "-o", out, *arguments)
    assert said.startswith(f"benchjobs: {message}")
    assert not out.exists()


@pytest.fixture
def chain(cli: Cli) -> Cli:
    """A trial that ran in `ran`, was graded anew in `graded` and taken over from there, then all of it once more."""
    cli.make("ran", {"oracle": {"count": "P"}}, hours_ago=9)
    before = "ran"
    for number, job in enumerate(("graded", "reused", "graded2", "last")):
        how = "rescored" if job.startswith("graded") else "reused"
        cli.make(job, [ended("F", **{how: origin(before)})], hours_ago=8 - number)
        if how == "rescored":
            place = files_of(cli, job)
            (place / "agent.log").unlink()
            (place / "artifacts" / "out.txt").unlink()
            (place / "scorers").mkdir()
            (place / "scorers" / "right.log").write_text(f"graded in {job}\n")
        before = job
    return cli


def test_the_log_of_the_agent_is_found_however_many_jobs_are_between(chain: Cli, out: Path) -> None:
    for job, grading, reused in (
        ("last", "graded2", "graded2"),
        ("graded2", "graded2", None),
        ("reused", "graded", "graded"),
        ("graded", "graded", None),
    ):
        chain("logs", job, "-o", out / job)
        copied = out / job / "oracle/count"
        assert (copied / "agent.log").read_text().endswith(" in ran\n")
        assert (copied / "scorers/right.log").read_text() == f"graded in {grading}\n"
        assert json.loads((copied / "results.json").read_text())["reused"] == reused
        (trial,) = benchjobs.open(chain.directory).job(job).trials()
        assert (trial.reused, trial.log().endswith(" in ran\n")) == (reused, True)


def test_a_chain_that_bites_its_own_tail_is_said(cli: Cli, out: Path) -> None:
    cli.make(JOB, [ended("P", reused=origin(JOB))])
    said = cli("logs", "last", "-o", out, status=1).out
    assert "the files of this trial are more than 100 jobs away" in said


def test_an_origin_that_is_gone_is_said(cli: Cli, out: Path) -> None:
    cli.make(JOB, [ended("P", reused=origin(EARLIER)), ended("P", "sums")])
    text = cli("logs", "last", "-o", out, status=1).out
    assert f"there is no job {EARLIER}" in text
    assert text.endswith(f"Copied logs of 1/2 trials to {out}\n")


def test_links_and_pipes_of_an_agent_are_not_followed(cli: Cli, tmp_path: Path, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P", "sums": "P"}})
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("very-secret")
    artifacts = files_of(cli) / "artifacts"
    (artifacts / "key").symlink_to(secret / "key")
    (artifacts / "keys").symlink_to(secret)
    os.mkfifo(artifacts / "pipe")
    (artifacts / "-rf ~").write_text("harmless")
    text, talk = cli("logs", "last", "-o", out)
    assert text == f"  ✓ oracle / count\n  ✓ oracle / sums\nCopied logs of 2/2 trials to {out}\n"
    assert talk.splitlines()[1:] == ["left out of oracle/count: key: is a link, and 2 more"]
    assert tree(out / "oracle/count") == ["agent.log", "artifacts/-rf ~", "artifacts/out.txt", "results.json"]
    assert not any(b"very-secret" in path.read_bytes() for path in out.rglob("*") if path.is_file())
    document = cli.document("logs", "last", "-o", out, option="--output")
    assert [(one["status"], one["problem"]) for one in document["trials"]] == [("copied", None)] * 2


def test_a_name_of_an_agents_file_is_no_command_to_ci(
    cli: Cli, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    cli.make(JOB, {"oracle": {"count": "P"}})
    artifacts = files_of(cli) / "artifacts"
    (artifacts / "##[error]x").symlink_to("out.txt")
    logs = ("logs", "last", "-o", out)
    said = (*cli(*logs), *cli(*logs, "--scenario", "##[error]", status=2), *cli.at(out)("merge", tmp_path))
    text = "".join(said)
    assert (text.count("# #[error]"), text.count("##[")) == (3, 0)


@pytest.mark.parametrize("path", ["../../../secret", "/etc", "trials/../../..", "trials/link"])
def test_a_history_from_elsewhere_cannot_lead_out_of_the_bundle(
    cli: Cli, tmp_path: Path, out: Path, path: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("very-secret")
    job = cli.make(JOB, [])
    (cli.bundle(JOB).root / "trials" / "link").symlink_to(tmp_path / "secret")
    cli.index(job, [ended("P", path=path)])
    assert "leads out of the bundle" in cli("logs", "last", "-o", out, status=1).out
    assert tree(out) == []


def test_a_hostile_origin_leads_nowhere(cli: Cli, out: Path) -> None:
    cli.make(EARLIER, {"oracle": {"count": "P"}})
    for job, path in ((EARLIER, "../../secret"), ("../../..", "etc")):
        cli.make(f"{JOB}-{len(path)}", [ended("P", reused=origin(job, path))], hours_ago=0)
        assert "Copied logs of 0/1 trial to" in cli("logs", f"{JOB}-{len(path)}", "-o", out, status=1).out


def test_names_of_agents_and_scenarios_stay_inside(cli: Cli, tmp_path: Path, out: Path) -> None:
    job = cli.make(JOB, [])
    names = [
        "../../up", "/etc/passwd", "..", ".hidden", 'a/b\\c:d*e?f"g<h>i|j', "x" * 300, "\x1b[31mred \t x", "",
    ]  # fmt: skip
    of_each = [{"scenario": name, "node_id": f"a::{name}[oracle]"} for name in names]
    cli.index(job, [ended("P").model_copy(update=changes) for changes in of_each])
    assert "\x1b" not in cli("logs", "last", "-o", out).out
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"jobs", "out"}
    shown = sorted(path.parent.relative_to(out).parts for path in out.rglob("results.json"))
    assert len(shown) == len(names)
    assert {len(parts) for parts in shown} == {2}


def test_copying_again_replaces_what_was_copied(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    cli("logs", "last", "-o", out)
    (files_of(cli) / "artifacts" / "out.txt").unlink()
    (files_of(cli) / "artifacts" / "new.txt").write_text("x")
    cli("logs", "last", "-o", out)
    assert tree(out / "oracle/count") == ["agent.log", "artifacts/new.txt", "results.json"]
    assert [path.name for path in (out / "oracle").iterdir()] == ["count"]


def test_a_directory_of_somebody_else_is_left_alone(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P", "sums": "P"}})
    (out / "oracle" / "count").mkdir(parents=True)
    (out / "oracle" / "count" / "thesis.txt").write_text("years of work")
    assert "has other files" in cli("logs", "last", "-o", out, status=1).out
    assert tree(out / "oracle/count") == ["thesis.txt"]
    assert tree(out / "oracle/sums") == ["agent.log", "artifacts/out.txt", "results.json"]
    assert sorted(path.name for path in (out / "oracle").iterdir()) == ["count", "sums"]


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
        with staged(place, "results.json") as staging:
            (staging / "results.json").touch()
        with contextlib.suppress(KeyError), staged(place, "results.json"):
            raise KeyError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "place"][kind != "link" :]
    assert (place / "results.json").exists() is (kind == "directory")


def test_a_damaged_result_does_not_keep_the_logs(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    (files_of(cli) / "result.json").write_text("{")
    assert "result.json: is damaged" in cli("logs", "last", "-o", out, status=1).out
    assert "oracle/count/agent.log" in tree(out)


def test_a_bundle_that_is_not_here_is_said(cli: Cli, tmp_path: Path, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    (cli.bundle(JOB).root / "job.json").unlink()
    assert f"there is no job {JOB} in {tmp_path}" in cli("logs", "last", "-o", out, status=1).out


def test_a_trial_that_never_had_files_has_its_result(cli: Cli, out: Path) -> None:
    job = cli.make(JOB, [])
    cli.index(job, [ended("E")])
    cli("logs", "last", "-o", out)
    assert tree(out) == ["oracle/count/results.json"]


def test_files_of_agents_keep_their_size_and_lose_special_modes(cli: Cli, out: Path) -> None:
    cli.make(JOB, {"oracle": {"count": "P"}})
    file = files_of(cli) / "artifacts" / "big"
    file.write_bytes(os.urandom(3_000_001))
    file.chmod(0o4755)
    cli("logs", "last", "-o", out)
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
def test_without_a_place_logs_go_where_they_are_kept_out_of_commits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    make_job(tmp_path / "reports", JOB, {"oracle": {"count": "P"}})
    monkeypatch.chdir(tmp_path)
    if there:
        (tmp_path / "logs").mkdir()
    assert run("logs", JOB[:10]) == 0
    assert f"to logs/{JOB}" in capsys.readouterr().out
    assert f"{JOB}/oracle/count/agent.log" in tree(tmp_path / "logs")
    ignored = tmp_path / "logs" / ".gitignore"
    assert ignored.exists() is not there, "a directory of the project is left as it is"
    assert there or ignored.read_text().endswith("\n*\n")
