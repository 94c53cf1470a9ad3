"""Plain pages: filters, forms, parts of logs, and more than one page of trials and pairs."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.viewer import app, plain

from .jobs import make_job
from .records import JOB
from .viewing import NOW_JOB, Made, make, running

MANY, LATER = "20261123-080000-eeeeee", "20261123-090000-ffffff"
AGENTS = ("oracle", "nop")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = make(tmp_path_factory.mktemp("results"))
    scenarios = {"count": "PF", "fix": "FF", "other": "E"}
    make_job(made.directory, MANY, {agent: {**scenarios, "gone": "P"} for agent in AGENTS})
    make_job(made.directory, LATER, {agent: {**scenarios, "count": "FF", "new": "P"} for agent in AGENTS})
    return made


@pytest.fixture(scope="module")
def client(made: Made) -> Iterator[TestClient]:
    with TestClient(app(made.directory), base_url="http://localhost") as client:
        yield client


def opened(client: TestClient, page: str, **parameters: str) -> str:
    """A plain page."""
    answer = client.get("/", params={"page": page, "plain": "1", **parameters})
    assert answer.status_code == 200, answer.text
    return answer.text


def tables(text: str) -> dict[str, list[list[str]]]:
    """Caption -> rows of cells, without the head."""
    found = {}
    for caption, body in re.findall(r"<caption>(.*?)</caption>.*?<tbody>(.*?)</tbody>", text):
        rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", body)]
        found[caption] = [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row] for row in rows]
    return found


def linked(text: str, title: str) -> str:
    """Where the link of this title leads."""
    (address,) = re.findall(rf"href='([^']*)'>{title}</a>", text)
    return "/" + html.unescape(address)


def selects(text: str) -> dict[str, list[str]]:
    """Name of a field -> its options, the chosen ones with a star."""
    return {
        name: [
            ("*" if chosen else "") + html.unescape(value)
            for value, chosen in re.findall(r"<option value='([^']*)'( selected)?>", body)
        ]
        for name, body in re.findall(r"<select name='(\w+)'[^>]*>(.*?)</select>", text)
    }


@pytest.mark.parametrize(
    ("asked", "trials"),
    [
        ({}, ["count", "fix", "gone", "other"]),
        ({"agent": "nop"}, ["count", "fix", "gone", "other"]),
        ({"outcome": "passed"}, ["count", "gone"]),
        ({"outcome": "error", "agent": "oracle"}, ["other"]),
        ({"q": "BELOW_threshold texts"}, ["count", "fix"]),
        ({"q": "engine_lost"}, ["other"]),
        ({"outcome": "nothing"}, []),
    ],
)
def test_trials_of_a_job_are_those_that_are_asked_for(
    client: TestClient, asked: dict[str, str], trials: list[str]
) -> None:
    text = opened(client, "job", job=MANY, **asked)
    rows = next((rows for caption, rows in tables(text).items() if caption.startswith("Trials")), [])
    assert sorted({row[1] for row in rows}) == trials
    assert {row[2] for row in rows} <= ({asked["agent"]} if "agent" in asked else set(AGENTS))
    assert set(selects(text)) == {"agent", "outcome"}
    for name, value in asked.items():
        assert name == "q" or f"*{value}" in selects(text)[name]
    assert f"name='job' value='{MANY}'" in text


def test_all_trials_of_a_scenario_with_an_outcome_are_there(client: TestClient) -> None:
    """As in the matrix of the page with the script: the other attempts tell how often it happens."""
    rows = tables(opened(client, "job", job=MANY, outcome="passed", agent="nop", q="count"))["Trials: 2"]
    assert [row[4] for row in rows] == ["passed", "failed"]


def test_trials_of_a_job_go_on_on_the_next_page(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_SHOWN", 3)
    page = opened(client, "job", job=MANY, q="texts")
    seen, captions = [], []
    for _ in range(4):
        ((caption, rows),) = ((c, rows) for c, rows in tables(page).items() if c.startswith("Trials"))
        captions.append(caption)
        seen += [tuple(row[1:4]) for row in rows]
        if "Next page" not in page:
            break
        page = client.get(linked(page, "Next page")).text
    assert captions == [f"Trials {a} to {b} of 12" for a, b in ((1, 3), (4, 6), (7, 9), (10, 12))]
    assert len(seen) == len(set(seen)) == 12


def test_a_log_is_shown_by_parts(tmp_path: Path) -> None:
    made = make(tmp_path)
    text = "".join(f"<b>line é {number}</b>\n" for number in range(20_000))
    (log,) = JobBundle(made.directory, NOW_JOB).root.glob("trials/codex*/fix/1/agent.log")
    log.write_text(text, "utf-8")
    with TestClient(app(made.directory), base_url="http://localhost") as client:
        page = opened(client, "trial", job=NOW_JOB, id=made.trials["fix"])
        assert "<pre>&lt;b&gt;line" not in page
        page = client.get(linked(page, "agent.log")).text
        shown = ""
        while True:
            (part,) = re.findall(
                r"<h2 id='log'>Log agent.log</h2><p>[^<]*</p><pre>(.*?)</pre>", page, re.DOTALL
            )
            shown += html.unescape(part)
            if "Next part" not in page:
                break
            page = client.get(linked(page, "Next part")).text
        assert shown == text
        page = client.get(linked(page, "First part")).text
        assert "<pre>&lt;b&gt;line é 0&lt;/b&gt;" in page
        assert "line é 19999&lt;/b&gt;\n</pre>" in client.get(linked(page, "Last part")).text
        assert "no log of that name" in opened(
            client, "trial", job=NOW_JOB, id=made.trials["fix"], log="result.json"
        )


def test_the_log_of_a_trial_that_runs(tmp_path: Path) -> None:
    running(tmp_path)
    with TestClient(app(tmp_path), base_url="http://localhost") as client:
        (node_id,) = client.get(f"/api/jobs/{JOB}/matrix").json()["trials"]["id"]
        page = opened(client, "trial", job=JOB, id=node_id, log="agent.log")
        assert "<pre>so far\n</pre>" in page
        assert "Its steps come when it has ended." in page


def test_a_comparison_says_what_is_not_compared(client: TestClient) -> None:
    text = opened(client, "compare", a=MANY, b=LATER, a_agent="nop", b_agent="nop")
    found = tables(text)
    assert found["Scenarios of both: 2"][0][1] == "count"
    assert [row[1:3] for row in found["On A only"]] == [["gone", "nop"]]
    assert [row[1:3] for row in found["On B only"]] == [["new", "nop"]]
    assert [row[1] for row in found["Not compared: no score on a side"]] == ["other"]
    assert selects(text)["kind"] == ["", *plain.comparison.KINDS]
    assert "*nop" in selects(text)["a_agent"]
