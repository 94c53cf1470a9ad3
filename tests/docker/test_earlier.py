"""Results of the version that graded all in the agent's container, as earlier/make.sh has that version make them."""

from __future__ import annotations

import json
import re
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from starlette.testclient import TestClient

from pytest_benchjobs.viewer import app
from tests.console import benchjobs
from tests.support import IMAGE, jobs, results, run

from ..unit.test_viewer_documents import asked

pytestmark = [pytest.mark.docker, pytest.mark.daily]

# Its image is one of another machine, and another image is another task.
SAME_IMAGE = """
from pytest_benchjobs.job import reuse
from pytest_benchjobs.trial import signature, steps
steps.signature = reuse.signature = lambda scenario, parts, _: signature.signature(scenario, parts, "{key}")
"""


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).parent / "earlier" / "made.tar.xz") as made:
        made.extractall(tmp_path, filter="data")
    for record in tmp_path.glob("reports/jobs/*/job.json"):
        record.write_text(record.read_text().replace("/home/ci/project", str(tmp_path)))
    with sqlite3.connect(tmp_path / "reports/history.sqlite") as history:
        history.execute("UPDATE jobs SET record = replace(record, '/home/ci/project', ?)", (str(tmp_path),))
    (tmp_path / "conftest.py").write_text(SAME_IMAGE.format(key=results(tmp_path)[0]["image"]["key"]))
    return tmp_path


@pytest.fixture
def kept(earlier: Path, client: docker.APIClient) -> Iterator[None]:
    """What it kept of `oracle`, committed as it did that: a container's own layer, with its own configuration."""
    names, client.timeout = [path.stem for path in earlier.glob("kept/*.json")], 1800
    for name in names:
        conf = json.loads((earlier / f"kept/{name}.json").read_text())
        conf["Labels"]["benchjobs.bundle"] = str(earlier)  # lest a `gc` beside this takes it for abandoned
        container = client.create_container(IMAGE, "true")["Id"]
        client.put_archive(container, "/", (earlier / f"kept/{name}.tar").read_bytes())
        client.commit(container, "benchjobs-kept", name, conf=conf)
        client.remove_container(container, force=True)
    yield
    for name in names:
        client.remove_image(f"benchjobs-kept:{name}", force=True, noprune=True)


def said(directory: Path, *arguments: str) -> str:
    done = benchjobs(directory, *arguments)
    assert done.returncode < 2, done
    return done.stdout + done.stderr


def added(directory: Path, known: set[str]) -> dict[str, dict[str, Any]]:
    """Scenario -> result of the job that is not known."""
    return {one["scenario"]: one for one in results(directory) if one["job"] not in known}


def test_it_is_shown(earlier: Path) -> None:
    assert "kept 1 process(es) the agent had" in said(earlier, "show", "shop.bench.yaml::served[oracle]")
    with TestClient(app(earlier / "reports"), base_url="http://localhost") as client:
        for page in ("overview", "jobs", "runs"):
            asked(client, f"/api/{page}", f"viewer-{page}")
        asked(client, f"/api/jobs/{sorted(jobs(earlier))[1]}", "viewer-job")
        for result in results(earlier):
            found = asked(client, f"/api/jobs/{result['job']}/trial", "viewer-trial", id=result["node_id"])
            assert found["result"]["score"] == result["score"]
    assert "indexed 2 jobs with 15 trials" in said(earlier, "db", "rebuild")


def test_a_job_is_judged_by_it_and_takes_nothing_of_it(earlier: Path) -> None:
    known = jobs(earlier)
    how = "--bench-job-name=after --bench-baseline=file:baseline.json --bench-allow-missing=agent=nop --bench-reuse"
    done = run(earlier, "shop.bench.yaml", "--bench-explain-reuse", "-v", *how.split()).stdout
    assert re.search("grading: strict has no effect(?s:.*)keep_changes: is read as `carry`", done)
    assert len(re.findall(r"ran: .*: changed since job \S+: place\n", done)) == 6, done
    found = {name: (one["score"], one["graded_in"]) for name, one in added(earlier, known).items()}
    in_place = dict.fromkeys(("contract", "served"), (1, "agent_container"))
    afresh = dict.fromkeys(("plain", "strict", "installed", "steps"), (1, "fresh"))
    assert found == {**in_place, **afresh, "outside": (0, "fresh")}
    for text in (done, said(earlier, "gate", "after", "--baseline", "main", "--allow-missing", "agent=nop")):
        assert "mean:any of shop oracle: 1.000 -> 0.833" in text
        assert "1 changed, not compared: shop/installed" in text
        assert "now in a fresh container, then in an unknown place" in text
    assert "shop/outside: 1 -> 0, passed 1 of 1 before, 0 of 1 now" in said(
        earlier, "compare", "before", "after"
    )


@pytest.mark.usefixtures("kept")
def test_what_it_kept_is_graded_again_or_it_is_said_why_not(earlier: Path) -> None:
    known = jobs(earlier)
    said(earlier, "rescore", "before", "--", "-k", "oracle")
    found = added(earlier, known)
    right = {name for name, one in found.items() if (one["outcome"], one["score"]) == ("passed", 1)}
    assert right == {"plain", "strict", "contract", "installed", "steps"}
    assert found["served"]["failure"]["class"] == "not_kept"
    assert found["outside"]["outcome"] == "error"
    assert "without /opt/tool; name that in `carry`, or" in found["outside"]["failure"]["message"]
    known, in_place = jobs(earlier), ("-k", "oracle", "--bench-grade-in", "agent_container")
    said(earlier, "rescore", "before", "--scenario", "outside", "--", *in_place)
    assert added(earlier, known)["outside"]["score"] == 1


def test_a_job_goes_on_as_it_was_asked_for(earlier: Path) -> None:
    assert "--bench-grade-in=agent_container" in said(earlier, "rerun", "stopped", "--print-command")
    assert "shop.bench.yaml::plain[nop]: environment, place" in said(earlier, "resume", "stopped", "--", "-v")
    found = added(earlier, {sorted(jobs(earlier))[1]})
    assert [found[name].get("graded_in") for name in ("plain", "strict")] == [None, "agent_container"]
