"""`benchjobs doctor` names what is wrong with the command that cures it, and changes nothing."""

from __future__ import annotations

import contextlib
import datetime
import json
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pytest_benchjobs.agents.keys import KEYS
from pytest_benchjobs.cli import doctor as findings
from pytest_benchjobs.model.errors import EngineLost, EngineUnavailable
from pytest_benchjobs.model.finding import Finding, Health, ok, problem
from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider
from pytest_benchjobs.sandbox.docker import health
from pytest_benchjobs.sandbox.docker.calling import Caller
from pytest_benchjobs.sandbox.docker.dialects import DOCKER
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.health import EngineFacts
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.protocol import Kept
from pytest_benchjobs.settings.secret_store import SecretStore
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.database import migrations
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.layout import Layout

from ..schemas import obeys
from .jobs import run
from .records import NOW, OWNER, record
from .test_database import as_nobody
from .test_fetching import Server

GB = 1 << 30


def _facts(**changes: object) -> EngineFacts:
    facts = {
        "name": "Docker Engine", "version": "28.1", "api": "1.49", "storage_driver": "overlay2", "root": "/", "local": True, "cpus": 1,
        "memory": 2 * GB, "unsupported": (), "skew": 0.1, "abandoned": 0, "images": (),
        "runtimes": ("runc", "runsc"),
    }  # fmt: skip
    return EngineFacts(**{**facts, **changes})  # type: ignore[arg-type]


def _engine(**changes: object) -> dict[str, Finding]:
    return {finding.check: finding for finding in health.engine(_facts(**changes))}


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(self: DockerProvider) -> None:
        raise EngineUnavailable("no Docker Engine answers at unix:///x: start it or set DOCKER_HOST")

    monkeypatch.setattr(DockerProvider, "check", check)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for variables in KEYS.values():
        for variable in variables:
            monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.mark.usefixtures("no_engine")
def test_each_problem_is_a_line_with_its_cure(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "broken.bench.yaml").write_text("benchmark: x\nscenarios: 3\n")
    assert run("doctor", "--agent", "codex:gpt", "--dir", here / "reports") == 1
    out, err = capsys.readouterr()
    problems = [line.split()[1:] for line in out.splitlines() if line.startswith("problem ")]
    assert [words[0] for words in problems] == ["engine", "agent", "data"]
    assert "no Docker Engine answers at unix:///x -> start it or set DOCKER_HOST\n" in out
    assert "it needs OPENAI_API_KEY -> export OPENAI_API_KEY=...\n" in out
    assert "broken.bench.yaml:2: " in out
    assert err == ""
    assert sorted(path.name for path in here.iterdir()) == ["broken.bench.yaml"]


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_its_document_fits_its_schema(
    here: Path, capsys: pytest.CaptureFixture[str], output: str, read: Callable[[str], Any]
) -> None:
    assert run("doctor", "-o", output, "--agent", "oracle") == 1
    document = read(capsys.readouterr().out)
    obeys(document, "doctor")
    assert document["ok"] is False
    health = {finding["check"]: finding["health"] for finding in document["findings"]}
    assert (health["engine"], health["results"], health["data"]) == ("problem", "ok", "skipped")


@pytest.mark.usefixtures("no_engine")
def test_it_asks_about_the_sandboxes_that_the_project_uses(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(self: LocalProvider) -> None:
        raise EngineUnavailable("there is no program bwrap: install bubblewrap")

    def engine_line(*arguments: str) -> str:
        run("doctor", *arguments)
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.split()[1] == "engine")
        return line

    monkeypatch.setattr(LocalProvider, "check", check)
    assert "no Docker Engine answers" in engine_line()
    for key in ("bench_sandbox = local", "bench_no_docker = true", "bench_no_docker = Y"):
        (here / "pytest.ini").write_text(f"[pytest]\n{key}\n")
        assert "there is no program bwrap -> install bubblewrap" in engine_line()
    (here / "pytest.ini").write_text("[pytest]\nbench_no_docker = n\n")
    assert "no Docker Engine answers" in engine_line()
    (here / "pytest.ini").write_text("[pytest]\nbench_no_docker = perhaps\n")
    assert run("doctor") == 2
    assert "bench_no_docker: true or false is expected, not 'perhaps'" in capsys.readouterr().err
    (here / "pytest.ini").unlink()
    assert "no Docker Engine answers" in engine_line("--sandbox", "docker")
    (here / "pytest.ini").write_text("[pytest]\nbench_sandbox = pods\n")
    assert engine_line().startswith("skipped")
    monkeypatch.setattr(LocalProvider, "check", lambda self: None)
    monkeypatch.setattr(LocalProvider, "findings", lambda self: iter([ok("engine", "bubblewrap works")]))
    run("doctor", "--sandbox", "local")
    assert "not kept: images (it runs the programs of this machine)" in capsys.readouterr().out


def test_an_engine_that_is_well_has_nothing_to_cure() -> None:
    assert {finding.health for finding in _engine().values()} == {Health.OK}
    assert _engine()["engine"].found == "Docker Engine 28.1, API 1.49, overlay2, 1 CPU, 2.0 GB of memory"
    podman = _engine(name="Podman")
    assert podman["engine"].found.startswith("Podman 28.1, ")
    assert _engine()["runtimes"].found.startswith("runc, runsc; ")


def test_the_clock_of_the_engine_may_differ_by_seconds_only() -> None:
    assert _engine(skew=3.0)["engine clock"].health is Health.OK
    assert _engine(skew=-90.2)["engine clock"].found == "90 s behind this machine's"
    assert _engine(skew=90.2)["engine clock"].found == "90 s ahead of this machine's"
    assert _engine(skew=90.2)["engine clock"].cure


def test_kept_file_systems_of_other_projects_are_counted_apart(tmp_path: Path) -> None:
    def one(jobs: Path) -> Kept:
        return Kept("r", "j", "t", str(jobs / "j"), 1 << 30, datetime.datetime.now(datetime.UTC))

    mine, other = tmp_path / "reports" / "jobs", tmp_path / "elsewhere"
    assert findings.kept([one(mine), one(other), one(other)], mine).found == (
        "1 file system of trials, 1.0 GB; `benchjobs gc --kept` removes them, 2 of other projects, 2.0 GB"
    )
    assert findings.kept([one(other)], mine).found == "no file systems of trials, 1 of other projects, 1.0 GB"


def test_a_full_disk_of_the_engine_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ROOM_FOR_IMAGES", 1 << 60)
    found = _engine()["engine disk"]
    assert found.health is Health.PROBLEM
    assert "gc --kept" in str(found.cure)
    assert _engine(local=False)["engine disk"].health is Health.SKIPPED


def test_what_dead_processes_left_is_a_problem() -> None:
    said = "3 objects of dead processes in the engine"
    assert _engine(abandoned=3)["left-overs"] == problem("left-overs", said, "benchjobs gc")


def test_limits_without_effect_are_a_problem_whoever_says_so() -> None:
    assert health.limits((), ()).health is Health.OK
    assert health.limits((), None).health is Health.SKIPPED
    assert health.limits(("pids",), None).found.startswith("not enforced: pids;")
    assert health.limits(("pids",), ("memory", "pids")).found.startswith("not enforced: memory, pids;")


def test_a_results_directory_that_refuses_is_a_problem(tmp_path: Path) -> None:
    (found,) = findings.results(Path("/proc/benchjobs"))
    assert (found.health, found.check) == (Health.PROBLEM, "results")
    assert "--dir" in str(found.cure)
    made, room = findings.results(tmp_path / "not" / "yet")
    assert made.found.startswith(f"{tmp_path / 'not' / 'yet'} can be made; ")
    assert room.health is Health.OK
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_or_a_network_file_system_of_results_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "ROOM_FOR_RESULTS", 1 << 60)
    monkeypatch.setattr("pytest_benchjobs.store.filesystem.filesystem_of", lambda path: "nfs4")
    found, room = findings.results(tmp_path)
    assert room.health is Health.PROBLEM
    assert found.found.endswith("nfs4, over the network: slower, and safe for several machines")


def test_the_history_is_looked_at_and_not_touched(tmp_path: Path) -> None:
    path = Layout(tmp_path).history
    assert findings.history(path) == ok("history", "none yet")
    JobBundle.create(tmp_path, record(tmp_path))
    assert findings.history(path).cure == "benchjobs db rebuild"
    with History(path) as history:
        assert findings.history(path).found == "it lacks 1 job"
        history.save_job(record(tmp_path))
    assert findings.history(path) == ok("history", f"schema {len(migrations())}, 1 job, whole")

    def version(number: int) -> None:
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.commit()
        connection.close()

    version(1)
    assert findings.history(path).found == f"schema 1, where this version has {len(migrations())}"
    version(99)
    before = path.read_bytes()
    assert findings.history(path).cure == "pip install --upgrade pytest-benchjobs"
    assert path.read_bytes() == before
    path.write_bytes(b"no database at all, whatever it is called" * 100)
    assert findings.history(path).cure == "benchjobs db rebuild"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_directory_that_cannot_be_written_is_no_damage_to_the_history() -> None:
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        path = Layout(directory).history
        History(path).close()
        directory.chmod(0o555)

        def look() -> None:
            found = findings.history(path)
            assert "cannot be written" in found.found
            cure = f"make {directory} and the files in it writable, or choose another"
            assert str(found.cure).startswith(cure)

        assert as_nobody(look) == 0
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


def test_a_job_that_died_is_a_problem_and_one_that_ended_is_none(tmp_path: Path) -> None:
    from pytest_benchjobs.model.owner import current_owner

    here = current_owner()
    dead = {"owner": here.model_copy(update={"started": "never"})}
    JobBundle.create(tmp_path, record(tmp_path, **dead, id="20261121-054712-000001"))
    JobBundle.create(tmp_path, record(tmp_path, **dead, id="20261121-054712-000002", status="completed"))
    JobBundle.create(tmp_path, record(tmp_path, owner=here, id="20261121-054712-000003"))
    assert list(findings.jobs(tmp_path)) == [
        problem("jobs", "1 job died while running: 20261121-054712-000001", "benchjobs recover")
    ]


def test_a_clock_before_the_installation_or_the_newest_job_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings.clock(None).health is Health.OK
    future = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    assert "began in the future" in findings.clock(future).found
    assert findings.clock(NOW - datetime.timedelta(days=3650)).health is Health.OK
    monkeypatch.setattr(findings.time, "time", lambda: 1_000_000_000.0)
    assert "before this package was installed" in findings.clock(None).found


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("agent", "variable", "health"),
    [
        ("claude-code:opus", None, Health.PROBLEM),
        ("claude-code:opus", "CLAUDE_CODE_OAUTH_TOKEN", Health.OK),
        ("gemini-cli:pro", "GOOGLE_API_KEY", Health.OK), ("gemini-cli:pro", "OPENAI_API_KEY", Health.PROBLEM),
        ("opencode:gpt-5", "OPENAI_API_KEY", Health.OK),
        ("opencode:claude-x", "OPENAI_API_KEY", Health.PROBLEM), ("opencode", "OPENAI_API_KEY", Health.OK),
        ("opencode:m", "OPENAI_API_KEY", Health.PROBLEM),
        ("goose:m@http://localhost:8000/v1", None, Health.OK), ("nop", None, Health.OK),
        ("baseline:half", None, Health.OK), ("model:gpt-5", None, Health.PROBLEM),
        ("model:gpt-5", "OPENAI_API_KEY", Health.OK), ("model:mystery", None, Health.PROBLEM),
        ("my-own:m", None, Health.SKIPPED),
    ],
)  # fmt: skip
def test_one_of_the_keys_of_an_agent_is_enough(
    agent: str, variable: str | None, health: Health, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, "sk-secret-value")
    found = findings.keys(agent)
    assert found.health is health
    assert "sk-secret-value" not in found.found


def test_a_key_that_is_kept_is_found_and_one_that_others_can_read_is_a_problem(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHJOBS_CONFIG", str(here / "config"))
    monkeypatch.setitem(sys.modules, "keyring", None)
    store = SecretStore()
    store.set("OPENAI_API_KEY", "sk-secret-value")
    found = findings.keys("codex:m")
    assert (found.health, found.found) == (Health.OK, f"OPENAI_API_KEY is in {store.path}")
    store.path.chmod(0o644)
    found = findings.keys("codex:m")
    assert found.health is Health.PROBLEM
    assert "others on this machine can read it" in found.found


def test_an_agent_that_cannot_be_read_is_a_mistake(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--agent", "codex:") == 2
    assert capsys.readouterr().err.startswith("benchjobs: no model specified for agent 'codex'")


def test_a_plugin_that_is_kept_out_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    assert findings.versions().health is Health.OK
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert findings.versions().cure == "unset PYTEST_DISABLE_PLUGIN_AUTOLOAD"


def test_benchmarks_that_can_be_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.bench.yaml").write_text(
        "benchmark: texts\ndefaults: {image: debian}\nscenarios:\n"
        "  - {id: one, problem_statement: x, scorers: [{name: s, type: bash, script: echo 1}]}\n"
    )
    assert list(findings.data([tmp_path])) == [ok("data", "1 scenario in 1 file or task")]
    missing = [*findings.data([tmp_path / "nowhere", tmp_path / "neither"])]
    assert [one.health for one in missing] == [Health.PROBLEM, Health.PROBLEM]


def test_known_failures_that_end_soon_are_named_and_those_that_ended_are_problems(tmp_path: Path) -> None:
    path = tmp_path / "bench-known.toml"
    assert list(findings.known(path, datetime.date(2027, 1, 1))) == []
    path.write_text(
        '[[known]]\nscenario = "a"\nreason = "r"\nuntil = 2027-01-31\n'
        '[[known]]\nscenario = "b"\nreason = "r"\nuntil = 2027-03-01\n'
    )
    two = "2 known failures in bench-known.toml"
    assert list(findings.known(path, datetime.date(2027, 1, 16))) == [ok("known", two)]
    soon = f"{two}; expiring soon: bench-known.toml:1 on 2027-01-31"
    for day in (17, 31):
        assert list(findings.known(path, datetime.date(2027, 1, day))) == [ok("known", soon)]
    (ended,) = findings.known(path, datetime.date(2027, 2, 1))
    assert ended.health is Health.PROBLEM
    assert ended.found.startswith(f"{path}:4: known[0].until: a: its failure was accepted until 2027-01-31")


def test_a_far_engine_that_went_away_says_what_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever it is asked, it answers as an engine does that is asked for its version.
    with Server(json.dumps({"ApiVersion": "1.44", "Version": "27"}).encode()) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        engine = Engine()
        assert not engine.local
        assert engine.get("/version")["Version"] == "27"
        server.shutdown()
        thread.join()
    with pytest.raises(EngineLost, match=r"at tcp://127.* does not answer"), engine.guard(Caller(patience=0)):
        engine.check()
    engine.close()


@pytest.mark.parametrize(
    ("told", "skew"),
    [
        ("1970-01-01T00:01:00.123456789Z", -39.876544), ("1970-01-01T01:01:00+01:00", -40.0), ("", 0.0),
        ("soon", 0.0),
    ],
)  # fmt: skip
def test_the_clock_of_the_engine_is_read_with_its_zone_and_nanoseconds(
    monkeypatch: pytest.MonkeyPatch, told: str, skew: float
) -> None:
    monkeypatch.setattr(health, "left_behind", lambda *_: ())
    monkeypatch.setattr(health.time, "time", lambda: 100.0)
    client = SimpleNamespace(version=dict, info=lambda: {"SystemTime": told}, images=list)
    engine = SimpleNamespace(client=client, guard=contextlib.nullcontext, host="unix:///x", dialect=DOCKER)
    provider: Any = SimpleNamespace(engine=engine)
    assert health.engine_facts(provider, OWNER).skew == pytest.approx(skew)
