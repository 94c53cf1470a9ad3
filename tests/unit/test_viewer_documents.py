"""What the viewer answers: each document over made-up results."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from pytest_benchjobs.agents.reading.trajectory import Trajectory
from pytest_benchjobs.model.comparison import HighScore
from pytest_benchjobs.model.gate import GateConfig
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.settings.rules import parse_rule
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import TrialLayout
from pytest_benchjobs.viewer import app

from .jobs import ended, make_job
from .records import JOB
from .viewing import BEFORE, CODEX, HIDDEN, HOSTILE, NOW_JOB, PIXEL, Made, make, reused, running

pytestmark = pytest.mark.when_changed

HIGH = {"texts": HighScore(score=0.8, unit="%", source="a paper")}
SEED_COLUMNS = (
    "id", "job", "benchmark", "status", "agent", "provider", "model", "mean_score", "input_tokens", "output_tokens",
    "total_tokens", "cached_tokens", "calls", "high_score", "delta", "started_at", "seconds",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("results") / "reports")


@pytest.fixture(scope="module")
def client(made: Made) -> Iterator[TestClient]:
    with TestClient(app(made.directory, high_scores=HIGH), base_url="http://localhost") as client:
        yield client


def asked(client: TestClient, path: str, schema: str, **parameters: Any) -> Any:
    """An answer, which obeys the schema of that name."""
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    jsonschema.Draft202012Validator(schema_of(schema)).validate(found)
    return found


def test_runs_have_the_seventeen_columns_with_high_score_and_delta(client: TestClient) -> None:
    found = asked(client, "/api/runs", "viewer-runs")
    assert found["total"] == 5
    assert found["next"] is None
    assert set(SEED_COLUMNS) <= found["runs"][0].keys()
    run = next(one for one in found["runs"] if one["id"] == f"{NOW_JOB}.2")
    assert (run["agent"], run["provider"], run["model"]) == (CODEX, None, "gpt-5")
    assert (run["input_tokens"], run["output_tokens"], run["total_tokens"]) == (200, 10, 210)
    assert (run["cached_tokens"], run["calls"], run["cost_usd"]) == (100, 6, 0.5)
    assert run["high_score"] == {"score": 0.8, "unit": "%", "direction": "higher", "source": "a paper"}
    assert run["delta"] == pytest.approx(-0.8)
    assert (run["branch"], run["commit"]) == ("try", "ffff1111")


def paged(client: TestClient, path: str, schema: str, kind: str, **parameters: Any) -> list[Any]:
    """What all pages have, one after the other."""
    found: list[Any] = []
    after = ""
    while after is not None:
        page = asked(client, path, schema, after=after, **parameters)
        found += page[kind]
        after = page["next"]
    return found


RUNS = ("delta", "high_score", "total_tokens", "mean_score", "agent", "commit", "id", "calls")
JOBS = (
    "created_at", "id", "name", "mean_score", "branch", "finished_at", "cost_usd", "verdict", "benchmarks",
)  # fmt: skip


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(
    ("kind", "sort"), [*(("runs", sort) for sort in RUNS), *(("jobs", sort) for sort in JOBS)]
)
def test_pages_of_any_order_together_are_all_once(
    client: TestClient, kind: str, sort: str, order: str
) -> None:
    path, schema = f"/api/{kind}", f"viewer-{kind}"
    whole = asked(client, path, schema, sort=sort, order=order, limit=500)[kind]
    limit, number = {"runs": (2, 5), "jobs": (1, 3)}[kind]
    assert paged(client, path, schema, kind, sort=sort, order=order, limit=limit) == whole
    assert len({one["id"] for one in whole}) == number
    values = [one[sort] for one in whole]
    if sort == "high_score":
        values = [value and value["score"] for value in values]
    if sort == "benchmarks":
        values = [value[0] for value in values]
    known = [value for value in values if value is not None]
    assert values == [*sorted(known, reverse=order == "desc"), *[None] * (len(values) - len(known))]


@pytest.mark.parametrize(
    ("parameters", "jobs"),
    [
        ({"q": "NIGHTLY"}, [BEFORE]),
        ({"q": "nightly gpt-5"}, [BEFORE]),
        ({"q": "100%"}, []),
        ({"q": "a_b"}, []),
        ({"branch": "try"}, [NOW_JOB]),
        ({"branch": ["try", "main"]}, [NOW_JOB, BEFORE]),
        ({"agent": "oracle"}, [NOW_JOB, BEFORE]),
        ({"model": "gpt-5", "branch": "main"}, [BEFORE]),
        ({"tag": "easy"}, [NOW_JOB]),
        ({"tag": "eas"}, []),
        ({"tag": '"1'}, []),
        ({"status": "failed"}, []),
        ({"benchmark": "texts"}, [HIDDEN, NOW_JOB, BEFORE]),
        ({"benchmark": "other"}, []),
    ],
)
def test_filters_and_search_choose_jobs_and_their_runs(
    client: TestClient, parameters: dict[str, Any], jobs: list[str]
) -> None:
    found = asked(client, "/api/jobs", "viewer-jobs", **parameters)
    assert [job["id"] for job in found["jobs"]] == jobs
    assert found["total"] == len(jobs)
    runs = asked(client, "/api/runs", "viewer-runs", **parameters)
    assert {run["job"] for run in runs["runs"]} == set(jobs)
    assert runs["total"] == len(runs["runs"])


def test_a_place_of_another_order_is_no_fault_of_the_server(client: TestClient) -> None:
    following = client.get("/api/runs", params={"sort": "agent", "limit": 1}).json()["next"]
    answer = client.get("/api/runs", params={"sort": "mean_score", "after": '["a"]'})
    assert answer.status_code == 400, (following, answer.text)


def test_the_overview_counts_and_has_the_latest_scores(client: TestClient) -> None:
    found = asked(client, "/api/overview", "viewer-overview", branch="try")
    assert (found["jobs"], found["runs"], found["trials"], found["benchmarks"]) == (3, 5, 9, 1)
    assert (found["filtered"], found["succeeded"], found["failed"]) == (2, 2, 0)
    assert found["latest"]["job"] == NOW_JOB
    (latest,) = found["latest_scores"]
    assert (latest["benchmark"], latest["agent"]) == ("texts", CODEX)
    assert (latest["status"], latest["dead"]) == ("completed", False)
    assert latest["delta"] == pytest.approx(latest["mean_score"] - 0.8)
    assert [(one["job"], one["mean_score"], one["selection"]) for one in latest["recent"]] == [
        (BEFORE, 1.0, False),
        (NOW_JOB, 0.0, False),
        (HIDDEN, 0.0, False),
    ]
    assert all(
        one["low"] is None or one["low"] <= one["mean_score"] <= one["high"] for one in latest["recent"]
    )
    assert [one["agent"] for one in found["synthetic"]] == ["oracle"]


def test_meta_has_the_choices_of_the_filters(client: TestClient) -> None:
    found = asked(client, "/api/meta", "viewer-meta")
    assert found["live"] is True
    assert found["choices"] == {
        "benchmarks": ["texts"], "agents": [CODEX, "oracle"], "models": ["gpt-5"], "statuses": ["completed"],
        "branches": ["main", "try"], "tags": ["1", "easy"],
    }  # fmt: skip
    assert set(SEED_COLUMNS) <= set(found["columns"]["runs"])


def test_a_job_has_its_summary_verdict_reasons_and_commands(client: TestClient) -> None:
    found = asked(client, "/api/jobs/last~1", "viewer-job")
    assert found["summary"]["id"] == NOW_JOB
    assert found["summary"]["metadata"] == {"why": HOSTILE[0]}
    assert (found["branch"], found["commit"]) == ("try", "ffff1111")
    assert {(one["class"], one["outcome"], one["trials"]) for one in found["errors"]} == {
        ("below_threshold", "failed", 1),
        ("engine_lost", "error", 1),
    }
    assert found["gates"][0]["verdict"] == "regressed"
    assert found["gate_lines"][0] == {"text": "regressed: mean:5pp", "colour": "red"}
    (rule,) = found["rules"]
    assert (rule["low"], rule["change"], rule["high"], rule["tolerance"]) == (-1.0, -1.0, -0.5, 0.05)
    assert any(f"benchjobs gate {NOW_JOB}" in one["command"] for one in found["commands"])
    jobs = asked(client, "/api/jobs", "viewer-jobs")["jobs"]
    assert [job["verdict"] for job in jobs] == [None, "regressed", None]


def test_a_job_is_offered_to_be_judged_again_where_it_was_or_can_be(
    client: TestClient, tmp_path: Path
) -> None:
    assert "Judge it again" not in _offered(client, BEFORE)
    # It has no gates of its own: it was judged by options.
    again = _offered(client, NOW_JOB)["Judge it again"]
    assert again.startswith(
        f"benchjobs gate {NOW_JOB} --baseline nightly --fail-on-regression mean:5pp --dir "
    )
    make_job(tmp_path, JOB, [ended("P")], config={"gate": GateConfig(rules=(parse_rule("mean"),))})
    with TestClient(app(tmp_path), base_url="http://localhost") as configured:
        assert _offered(configured, JOB)["Judge it again"].startswith(f"benchjobs gate {JOB} --dir ")


def _offered(client: TestClient, job: str) -> dict[str, str]:
    commands = asked(client, f"/api/jobs/{job}", "viewer-job")["commands"]
    return {one["title"]: one["command"] for one in commands}


def test_a_job_that_died_is_offered_to_be_finished_or_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(tmp_path)
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        assert {"Watch it", "Stop it"} <= {*_offered(client, JOB)}
        monkeypatch.setattr("pytest_benchjobs.report.overview.is_dead", lambda *_: True)
        text = "\n".join(_offered(client, JOB).values())
    assert f"benchjobs resume {JOB}" in text
    assert "benchjobs recover --dir" in text
    assert "watch" not in text
    assert "cancel" not in text


def test_scores_of_a_job_that_died_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = running(tmp_path)
    job.land("first")
    job.change()
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        for dead in (False, True):
            monkeypatch.setattr("pytest_benchjobs.viewer.lists.died", lambda *_, dead=dead: dead)
            found = asked(client, "/api/overview", "viewer-overview")
            (latest,) = found["latest_scores"] + found["synthetic"]
            assert (latest["status"], latest["dead"]) == ("running", dead)


def test_rows_and_other_trials_are_in_the_order_of_a_terminal(tmp_path: Path) -> None:
    later = [ended("P", name, agent, attempt) for name in "ba" for agent in ("y", "x") for attempt in (2, 1)]
    make_job(tmp_path, JOB, later)
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        matrix = asked(client, f"/api/jobs/{JOB}/matrix", "viewer-matrix")
        assert matrix["rows"]["scenario"] == ["a", "b"]
        for row, node_id in zip(matrix["trials"]["row"], matrix["trials"]["id"], strict=True):
            assert f"::{matrix['rows']['scenario'][row]}[" in node_id
        found = asked(client, f"/api/jobs/{JOB}/trial", "viewer-trial", id="a.bench.yaml::a[x-2]")
    others = [(one["scenario"], one["agent"], one["attempt"]) for one in found["siblings"]]
    assert others == [("a", "x", 1), ("a", "y", 1), ("a", "y", 2)]


def test_the_matrix_has_every_trial_in_its_row(client: TestClient) -> None:
    found = asked(client, f"/api/jobs/{NOW_JOB}/matrix", "viewer-matrix")
    rows, trials = found["rows"], found["trials"]
    cells = {
        (rows["scenario"][row], found["agents"][agent]): found["outcomes"][outcome]
        for row, agent, outcome in zip(trials["row"], trials["agent"], trials["outcome"], strict=True)
    }
    assert cells == {
        ("count", "oracle"): "passed",
        ("fix", "oracle"): "passed",
        ("count", CODEX): "failed",
        ("fix", CODEX): "error",
    }
    assert sorted(map(tuple, rows["tags"])) == [(), ()]
    assert found["left_out"] == 0
    assert set(trials["flags"]) == {0}


def test_a_trial_has_its_result_files_logs_and_commands(client: TestClient, made: Made) -> None:
    found = asked(client, f"/api/jobs/{NOW_JOB}/trial", "viewer-trial", id=made.trials["fix"])
    assert found["row"]["outcome"] == "error"
    assert found["result"]["failure"]["class"] == "engine_lost"
    assert found["withheld"] is False
    assert found["steps"] == 3
    assert {one["name"] for one in found["logs"]} == {"agent.log", "scorers/right/output.log"}
    kinds = {one["path"]: one["kind"] for one in found["files"]}
    assert kinds == {
        "scorers/right/output.log": "text", "artifacts/page.html": "html", "artifacts/drawing.svg": "html",
        "artifacts/pixel.png": "image", "artifacts/change.patch": "diff", "artifacts/data.bin": "binary",
        "artifacts/käse 100%.txt": "text", "artifacts/out.txt": "text",
    }  # fmt: skip
    assert any(one["command"].startswith("pytest ") for one in found["commands"])
    assert [one["agent"] for one in found["siblings"]] == ["oracle"]


def test_steps_come_in_pages_and_by_text(client: TestClient, made: Made) -> None:
    path, fix = f"/api/jobs/{NOW_JOB}/steps", made.trials["fix"]
    first = asked(client, path, "viewer-steps", id=fix, limit=2)
    assert [step["step_id"] for step in first["steps"]] == [1, 2]
    assert (first["total"], first["next"]) == (3, 2)
    assert first["agent"]["name"] == "codex"
    rest = asked(client, path, "viewer-steps", id=fix, after=2)
    assert [step["step_id"] for step in rest["steps"]] == [3]
    assert rest["next"] is None
    assert rest["notes"].startswith("ended: ")
    found = asked(client, path, "viewer-steps", id=fix, q="RM -RF")
    assert (found["total"], [step["step_id"] for step in found["steps"]]) == (1, [2])
    assert found["steps"][0]["observation"]["results"][0]["content"] == HOSTILE[1]


def test_steps_are_found_by_what_they_say_and_not_by_names_of_fields(client: TestClient, made: Made) -> None:
    path, id_ = f"/api/jobs/{NOW_JOB}/steps", made.trials["fix"]
    for words, least in (
        ("</script><script>", 1),
        ("'\"><b>bold", 0),
        ("message", 0),
        ("tool_call_id", 0),
        ("source_call", 0),
    ):
        found = asked(client, path, "viewer-steps", id=id_, q=words)
        assert (found["total"] > 0) == bool(least), words


def test_a_log_comes_in_parts_with_its_colours(client: TestClient, made: Made) -> None:
    path, fix = f"/api/jobs/{NOW_JOB}/log", made.trials["fix"]
    whole = asked(client, path, "viewer-log", id=fix)
    assert "\x1b[31mred\x1b[0m" in whole["text"]
    assert "\u202e" not in whole["text"]
    parts, offset = [], 0
    while offset is not None:
        part = asked(client, path, "viewer-log", id=fix, offset=offset, limit=7)
        assert part["offset"] == offset
        parts.append(part["text"])
        offset = part["next"]
    assert "".join(parts) == whole["text"]
    assert asked(client, path, "viewer-log", id=fix, offset=-7)["text"] == "the end"
    scorer = asked(client, path, "viewer-log", id=fix, name="scorers/right/output.log")
    assert scorer["text"] == "secret test: assert x == 42\n"


LETTERS = "aé€😀" * 5
"""Characters of one to four bytes."""


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 64])
def test_each_character_of_a_log_is_in_one_part(tmp_path: Path, limit: int) -> None:
    made = make(tmp_path)
    path, fix = f"/api/jobs/{NOW_JOB}/log", made.trials["fix"]
    (log,) = JobBundle(made.directory, NOW_JOB).root.glob("trials/codex*/fix/1/agent.log")
    log.write_text(LETTERS, "utf-8")
    with TestClient(app(made.directory), base_url="http://localhost") as client:

        def part(offset: int, limit: int = limit) -> Any:
            return asked(client, path, "viewer-log", id=fix, offset=offset, limit=limit)

        # Wherever it is cut: by a client that knows no characters, and from the end, as the page does.
        size = len(LETTERS.encode())
        assert "".join(part(offset)["text"] for offset in range(0, size, limit)) == LETTERS
        last = part(-limit)
        texts, begin = [last["text"]], last["offset"]
        while begin:
            earlier = part(max(0, begin - limit), min(limit, begin))
            texts.append(earlier["text"])
            begin = earlier["offset"] if earlier["offset"] < begin else max(0, begin - limit)
        assert "".join(reversed(texts)) == LETTERS


def test_a_comparison_has_what_broke_with_interval_and_pairs(client: TestClient) -> None:
    found = asked(
        client, "/api/compare", "viewer-compare", a="nightly", b=NOW_JOB, b_agent=CODEX, a_agent=CODEX
    )
    (row,) = found["comparison"]["rows"]
    assert (row["a"], row["b"], row["delta"]) == (1.0, 0.0, -1.0)
    assert row["high_score"]["source"] == "a paper"
    assert found["pairs"]["scenario"] == ["count"]
    assert found["pairs"]["kind"] == ["broke"]
    assert found["comparison"]["unscored"][0]["scenario"] == "fix"
    assert found["agents_a"] == found["agents_b"] == ["oracle", CODEX]
    alone = asked(client, "/api/compare", "viewer-compare", a=NOW_JOB, b=NOW_JOB)
    assert (alone["pairs"]["a_agent"], alone["pairs"]["b_agent"]) == (["oracle"], [CODEX])


def baseline(made: Made, name: str, *jobs: str) -> None:
    with History.of(made.directory) as history:
        history.connection.execute(
            "INSERT INTO baselines (name, jobs, set_at) VALUES (?, ?, ?)",
            (name, json.dumps(jobs), datetime.datetime.now(datetime.UTC).isoformat()),
        )


def test_a_baseline_is_a_side_and_no_file_is(client: TestClient, made: Made, tmp_path: Path) -> None:
    baseline(made, "main", BEFORE)
    found = asked(client, "/api/compare", "viewer-compare", a="main", b=NOW_JOB)
    assert found["a_jobs"] == [BEFORE]
    overview = asked(client, "/api/overview", "viewer-overview")
    assert [one["name"] for one in overview["baselines"]] == ["main"]
    (tmp_path / "baseline.json").write_text("{}")
    for spec in (f"file:{tmp_path}/baseline.json", "branch:main", "job:nightly", str(tmp_path)):
        answer = client.get("/api/compare", params={"a": spec, "b": NOW_JOB})
        assert answer.status_code == 404, spec
        assert "no job" in answer.json()["error"]["message"]


def test_two_trajectories_are_aligned_step_by_step(client: TestClient) -> None:
    given = {
        "a_job": BEFORE, "b_job": NOW_JOB, "benchmark": "texts", "scenario": "fix", "a_agent": CODEX,
        "b_agent": CODEX,
    }  # fmt: skip
    found = asked(client, "/api/align", "viewer-align", **given)
    assert [row["kind"] for row in found["rows"]] == ["identical", "different", "identical"]
    assert found["counts"] == {"identical": 2, "different": 1}
    assert (found["a"]["steps"], found["b"]["steps"]) == (3, 3)
    page = asked(client, "/api/align", "viewer-align", **given, limit=1, after=1)
    assert ([row["kind"] for row in page["rows"]], page["next"], page["total"]) == (["different"], 2, 3)
    other = asked(client, "/api/align", "viewer-align", **{**given, "b_agent": "oracle"})
    assert other["counts"] == {"only_a": 3}


ALIGNED = (
    ("sua", "ua", ["only_a", "identical", "identical"]),
    ("ua", "sua", ["only_b", "identical", "identical"]),
    ("uau", "ua", ["identical", "identical", "only_a"]),
    ("sa", "ua", ["different", "identical"]),
    ("u", "", ["only_a"]),
)


@pytest.mark.parametrize(("a", "b", "kinds"), ALIGNED)
def test_a_prompt_that_one_side_lacks_moves_no_other_step(
    tmp_path: Path, a: str, b: str, kinds: list[str]
) -> None:
    sources = {"s": "system", "u": "user", "a": "agent"}
    for job, letters in ((BEFORE, a), (NOW_JOB, b)):
        make_job(tmp_path, job, [ended("P", "fix", CODEX)])
        (place,) = JobBundle(tmp_path, job).root.glob("trials/*/fix/1")
        with TrialLayout(place).trajectory.open("wb") as file:
            trajectory = Trajectory(file, "codex", "0.50", "gpt-5")
            for letter in letters:
                trajectory.say(sources[letter], "said")
            trajectory.finish(None, None)
    given = {
        "a_job": BEFORE,
        "b_job": NOW_JOB,
        "benchmark": "texts",
        "scenario": "fix",
        "a_agent": CODEX,
        "b_agent": CODEX,
    }
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        assert [row["kind"] for row in client.get("/api/align", params=given).json()["rows"]] == kinds


def test_steps_of_a_baseline_are_those_of_its_job_that_has_them(tmp_path: Path) -> None:
    made = make(tmp_path / "reports")
    baseline(made, "pooled", HIDDEN, BEFORE)
    given = {
        "benchmark": "texts", "scenario": "fix", "a_agent": CODEX, "b_agent": CODEX, "a_job": "pooled", "b_job": NOW_JOB,
    }  # fmt: skip
    with TestClient(app(made.directory), base_url="http://localhost") as client:
        found = asked(client, "/api/align", "viewer-align", **given)
        assert (found["a"]["job"], found["a"]["steps"]) == (BEFORE, 3)
        assert [(one["job"], one["attempt"]) for one in found["a"]["choices"]] == [(BEFORE, 1)]
        assert client.get("/api/align", params={**given, "a_job": "no-such"}).status_code == 404
        assert client.get("/api/align", params={**given, "a_attempt": 7}).status_code == 404


def test_a_scenario_has_its_results_over_time(client: TestClient) -> None:
    found = asked(client, "/api/scenario", "viewer-scenario", benchmark="texts", scenario="count")
    assert {one["job"] for one in found["results"]} == {BEFORE, NOW_JOB, HIDDEN}
    codex = next(one for one in found["agents"] if one["agent"] == CODEX)
    assert (codex["passed"], codex["failed"], codex["flips"], codex["flaky"]) == (1, 2, 1, True)
    assert 0 < codex["low"] < codex["pass_rate"] < codex["high"] < 1
    given = {"benchmark": "texts", "scenario": "count", "limit": 2}
    assert paged(client, "/api/scenario", "viewer-scenario", "results", **given) == found["results"]


def test_a_trend_has_means_with_intervals_by_commit_and_day(client: TestClient) -> None:
    found = asked(client, "/api/trend", "viewer-trend", agent=CODEX)
    assert {
        point["key"]: (point["mean"], point["scenarios"], point["errors"]) for point in found["points"]
    } == {"0a1b2c3d": (1.0, 2, 0), "ffff1111": (0.0, 1, 1)}
    day = asked(client, "/api/trend", "viewer-trend", by="day", agent=CODEX, branch="main")
    (point,) = day["points"]
    assert (point["key"], point["jobs"]) == ("2026-11-21", [BEFORE])
    assert point["high"] == 1.0
    assert 0 < point["low"] < 0.1  # two scenarios that pass show little


def test_a_trend_is_of_whole_jobs_and_says_where_it_is_not(tmp_path: Path) -> None:
    def job(number: int, commit: str, letters: dict[str, str], **changes: Any) -> str:
        git = {"git": {"branch": "main", "commit": commit, "dirty": False}}
        job_id = f"2026112{number}-080000-aaaaaa"
        make_job(tmp_path, job_id, {CODEX: letters}, reproducibility=git, hours_ago=9 - number, **changes)
        return job_id

    whole = job(1, "a" * 8, {"count": "P", "fix": "P"})
    job(2, "a" * 8, {"fix": "F"}, narrowed=True)
    part = job(3, "b" * 8, {"fix": "F"}, narrowed=True)
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        points = asked(client, "/api/trend", "viewer-trend")["points"]
    assert {(point["mean"], point["selection"], *point["jobs"]) for point in points} == {
        (1.0, False, whole),
        (0.0, True, part),
    }


def test_viewer_data_has_the_shape_of_the_seed(client: TestClient) -> None:
    found = asked(client, "/api/viewer-data", "viewer-data")
    assert set(found) == {
        "schema_version", "generated_at", "runs", "run_groups", "latest_scores", "benchmark_summary", "model_summary", "agent_summary",
        "calibration_summary",
    }  # fmt: skip
    assert {run["status"] for run in found["runs"]} == {"succeeded"}
    (benchmark,) = found["benchmark_summary"]
    assert (benchmark["benchmark_id"], benchmark["runs"], benchmark["best_score"]) == ("texts", 5, 1.0)
    (model,) = found["model_summary"]
    assert (model["model_key"], model["runs"], model["succeeded_runs"], model["best_score"]) == (
        "-:gpt-5", 3, 3, 1.0,
    )  # fmt: skip
    assert model["average_score"] == pytest.approx(1 / 3)
    assert [one["agent"] for one in found["calibration_summary"]] == ["oracle"]
    run = next(run for run in found["runs"] if run["run_id"] == f"{NOW_JOB}.2")
    assert run["delta_to_high_score"] == pytest.approx(-0.8)
    assert run["llm_call_count"] == 6


def test_trajectories_have_the_shape_of_the_seed(client: TestClient) -> None:
    found = asked(client, f"/api/trajectories/{NOW_JOB}/texts/fix", "trajectories")
    assert set(found) == {"schema_version", "harnesses", "paths", "task_ids"}
    assert len(found["harnesses"][CODEX]) == 3
    assert found["harnesses"]["oracle"] == []
    assert found["task_ids"] == ["count", "fix"]
    assert client.get(f"/api/trajectories/{NOW_JOB}/texts/none").status_code == 404
    hidden = client.get(f"/api/trajectories/{HIDDEN}/texts/count").json()
    assert hidden["harnesses"] == {CODEX: []}


def test_a_reused_result_has_the_files_of_the_job_that_ran_it(tmp_path: Path) -> None:
    made = make(tmp_path / "reports")
    result = next(
        one for one in JobBundle(made.directory, NOW_JOB).results() if one.node_id == made.trials["fix"]
    )
    later = "20261123-080000-dddddd"
    make_job(made.directory, later, [reused(result, later)], hours_ago=1)
    with TestClient(app(made.directory), base_url="http://localhost") as client:
        found = asked(client, f"/api/jobs/{later}/trial", "viewer-trial", id=made.trials["fix"])
        assert found["result"]["reused"]["job"] == NOW_JOB
        assert found["steps"] == 3
        answer = client.get(
            f"/api/jobs/{later}/file", params={"id": made.trials["fix"], "path": "artifacts/pixel.png"}
        )
        assert answer.content == PIXEL
        matrix = asked(client, f"/api/jobs/{later}/matrix", "viewer-matrix")
        assert matrix["trials"]["flags"] == [1]


def test_a_running_job_has_its_trials_in_flight_and_their_logs(tmp_path: Path) -> None:
    job = running(tmp_path / "reports")
    with TestClient(app(job.directory), base_url="http://localhost") as client:
        matrix = asked(client, f"/api/jobs/{JOB}/matrix", "viewer-matrix")
        (node_id,) = matrix["trials"]["id"]
        assert (matrix["benchmarks"], matrix["rows"]["scenario"]) == (["texts"], ["count"])
        assert (matrix["trials"]["outcome"], matrix["trials"]["flags"]) == ([None], [16])
        found = asked(client, f"/api/jobs/{JOB}/trial", "viewer-trial", id=node_id)
        assert (found["result"], found["row"], found["running"]["phase"]) == (None, None, "agent")
        log = asked(client, f"/api/jobs/{JOB}/log", "viewer-log", id=node_id)
        assert log["text"] == "so far\n"
        (listed,) = asked(client, "/api/jobs", "viewer-jobs", status="running")["jobs"]
        assert listed["dead"] is False


def test_events_of_a_job_are_whole_states_with_growing_numbers(tmp_path: Path) -> None:
    job = running(tmp_path / "reports")
    job.land("count")
    job.end()
    with TestClient(app(job.directory), base_url="http://localhost") as client:
        answer = client.get(f"/api/jobs/{JOB}/live", headers={"Last-Event-ID": "41"})
        assert answer.headers["content-type"].startswith("text/event-stream")
        *_, event, _ = answer.text.split("\n\n")
        kind, number, data = event.split("\n")
        assert (kind, number) == ("event: end", "id: 42")
        state = json.loads(data.removeprefix("data: "))
        jsonschema.Draft202012Validator(schema_of("watch")).validate(state)
        assert (state["status"], state["totals"]["done"]) == ("completed", 1)
        assert client.get("/api/jobs/none/live").status_code == 404


def test_what_is_counted_once_is_counted_again_when_results_come(tmp_path: Path) -> None:
    make_job(tmp_path, "20261119-080000-dddddd", [])
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        before = [asked(client, "/api/overview", "viewer-overview") for _ in range(2)]
        assert [(one["jobs"], one["trials"]) for one in before] == [(1, 0)] * 2
        assert asked(client, "/api/meta", "viewer-meta")["choices"]["agents"] == []
        make(tmp_path)
        after = asked(client, "/api/overview", "viewer-overview")
        assert (after["jobs"], after["trials"] > 0) == (4, True)
        assert CODEX in asked(client, "/api/meta", "viewer-meta")["choices"]["agents"]


def test_without_a_history_the_answer_says_so(tmp_path: Path) -> None:
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        answer = client.get("/api/jobs")
        assert answer.status_code == 404
        assert "run a benchmark first" in answer.json()["error"]["message"]


def test_numbers_are_never_no_numbers(client: TestClient) -> None:
    """JSON has no NaN; no document may have one."""
    for path in ("/api/runs", "/api/jobs", "/api/overview", "/api/trend", f"/api/jobs/{NOW_JOB}"):
        json.loads(client.get(path).text, parse_constant=lambda name: pytest.fail(name))
    assert math.isfinite(client.get("/api/overview").json()["trials"])


def test_the_page_names_tests_that_there_are() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (root / "docs" / "viewer.md").read_text("utf-8"))
    assert len(named) > 12
    for file, name in named:
        assert f"def {name}(" in (root / file).read_text("utf-8"), name
