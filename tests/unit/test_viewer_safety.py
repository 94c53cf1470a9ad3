"""The viewer shows what agents wrote, to anyone who can reach it: what it refuses, and how it sends the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.store.copying import inside
from pytest_benchjobs.store.opening import files_inside, open_inside
from pytest_benchjobs.viewer import app
from pytest_benchjobs.viewer.application import DOCUMENTS
from pytest_benchjobs.viewer.guard import COOKIE, QUERY_LIMIT
from pytest_benchjobs.viewer.sending import PAGES

from .viewing import CODEX, HIDDEN, HOSTILE, NOW_JOB, PIXEL, Made, make

pytestmark = pytest.mark.when_changed

EVERYWHERE = [
    "/health", "/", "/static/viewer.css", "/nothing", "/api/jobs/none",
    *(document.path for document in DOCUMENTS if "{" not in document.path),
    f"/api/jobs/{NOW_JOB}", f"/api/jobs/{NOW_JOB}/matrix",
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("results") / "reports")


@pytest.fixture(scope="module")
def client(made: Made) -> Iterator[TestClient]:
    with TestClient(app(made.directory), base_url="http://localhost") as client:
        yield client


def file_of(client: TestClient, made: Made, path: str, **more: Any) -> Any:
    return client.get(f"/api/jobs/{NOW_JOB}/file", params={"id": made.trials["fix"], "path": path, **more})


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "10.0.0.1", "[::2]",
        "evil@localhost",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/jobs", "/health", "/static/viewer.css"])
def test_a_foreign_name_is_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert "texts" not in answer.text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8877", "127.0.0.1", "127.0.0.1:1", "[::1]:8877", "localhost."]
)
def test_the_names_of_this_machine_are_its_own(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"Host": host}).text == "ok"


def test_two_names_are_refused(client: TestClient) -> None:
    answer = client.get("/health", headers=[("Host", "localhost"), ("Host", "evil.example")])
    assert answer.status_code == 421


def test_a_name_that_is_allowed_is_allowed(made: Made) -> None:
    with TestClient(
        app(made.directory, hosts=["Bench.Example.org:80"]), base_url="http://bench.example.org"
    ) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/health", headers={"Host": "other.example.org"}).status_code == 421
    with TestClient(app(made.directory, hosts=["*"]), base_url="http://anything") as client:
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/api/jobs", f"/api/jobs/{NOW_JOB}"])
def test_nothing_but_reading_is_possible(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_reading_changes_no_file_of_the_results(made: Made) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.lstat().st_mtime_ns, path.lstat().st_size)
            for path in made.directory.rglob("*")
            if path.is_file() and not path.name.startswith("history.sqlite")
        }

    before = state()
    with TestClient(app(made.directory), base_url="http://localhost") as client:
        for path in EVERYWHERE:
            client.get(path)
        client.get(f"/api/jobs/{NOW_JOB}/live")
    assert state() == before


@pytest.mark.parametrize("path", EVERYWHERE)
def test_every_answer_has_headers_that_keep_it_harmless(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "access-control-allow-origin" not in headers


def test_a_token_is_asked_for_and_then_kept_in_a_cookie(made: Made) -> None:
    def opened() -> TestClient:
        return TestClient(
            app(made.directory, token="right"), base_url="http://localhost", follow_redirects=False
        )

    client = opened()
    for path in ("/", "/api/jobs", "/static/viewer.css", "/?token=wrong", "/api/jobs?token="):
        answer = client.get(path)
        assert answer.status_code == 403, path
        assert "texts" not in answer.text
    assert client.get("/health").text == "ok"
    for path in (
        "/api/jobs/health",
        "/api/trajectories/nightly/texts/health",
        "/static/health",
        "/health/health",
    ):
        assert client.get(path).status_code == 403, path
    for host, status in (("10.0.0.1", 403), ("[2001:db8::1]:8877", 403), ("evil.example", 421)):
        assert client.get("/api/jobs", headers={"Host": host}).status_code == status
    nobodys = TestClient(app(made.directory, token=""), base_url="http://localhost")
    assert nobodys.get("/api/jobs").status_code == 403
    assert nobodys.get("/?token=", headers={"Authorization": "Bearer "}).status_code == 403
    answer = client.get("/?page=runs&token=right&q=a%20b")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?page=runs&q=a+b"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=right;")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert client.get("/api/jobs").status_code == 200
    assert opened().get("/api/jobs", headers={"Authorization": "Bearer right"}).status_code == 200
    assert opened().get("/api/jobs", headers={"Authorization": "Bearer wrong"}).status_code == 403
    away = opened().get("http://localhost//evil.example/?token=right")
    assert away.headers["location"].startswith("/evil.example/")


def test_it_works_below_a_path_of_another_site(made: Made) -> None:
    site = Starlette(routes=[Mount("/bench", app(made.directory, token="right"))])
    with TestClient(site, base_url="http://localhost") as client:
        assert client.get("/bench/health").text == "ok"
        page = client.get("/bench/?token=right&page=runs")
        assert page.status_code == 200
        assert str(page.url) == "http://localhost/bench/?page=runs"
        links = re.findall(r'(?:href|src)="([^"]*)"', page.text)
        assert links
        assert all(not link.startswith(("/", "http")) for link in links)
        lost = client.get("/bench/a/b")
        assert lost.status_code == 404
        assert 'href="/bench/"' in lost.text
        assert client.get("/bench/api/jobs").json()["total"] == 3
        assert client.get("/bench/static/viewer.css").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "../result.json", "artifacts/../../../../job.json", "/etc/passwd", "artifacts//etc/passwd", "artifacts/linked/passwd",
        "artifacts/link.txt", "artifacts/linked", "artifacts", "artifacts/", ".", "..", "artifacts/\x00", "result.json",
        "artifacts/./page.html", "a/" * 100 + "b", "artifacts\\page.html", "%2e%2e/result.json",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_a_trial(client: TestClient, made: Made, path: str) -> None:
    answer = file_of(client, made, path)
    assert answer.status_code in (400, 404)
    assert "outside" not in answer.text
    log = client.get(f"/api/jobs/{NOW_JOB}/log", params={"id": made.trials["fix"], "name": path})
    assert log.status_code in (400, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../guard.py", "/static/..%2fguard.py", "/static/%2e%2e/guard.py", "/static/__init__.py",
        "/static//etc/passwd", "/static/index.html", "/static/dom.js",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_parts_of_the_page(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_link_in_place_of_a_job_or_trial_is_not_followed(tmp_path: Path) -> None:
    made = make(tmp_path / "reports")
    jobs = made.directory / "jobs"
    elsewhere = tmp_path / "elsewhere"
    (jobs / NOW_JOB).rename(elsewhere)
    (jobs / NOW_JOB).symlink_to(elsewhere)
    with TestClient(app(made.directory), base_url="http://localhost") as client:
        assert file_of(client, made, "artifacts/pixel.png").status_code in (403, 404)
        found = client.get(f"/api/jobs/{NOW_JOB}/trial", params={"id": made.trials["fix"]}).json()
        assert (found["result"], found["files"], found["logs"]) == (None, [], [])
        assert client.get(f"/api/jobs/{NOW_JOB}").json()["gates"] == []
        assert client.get(f"/api/jobs/{NOW_JOB}/live").status_code == 404


def test_files_are_opened_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a" / "loop").symlink_to(".")
    with open_inside(tmp_path, "a/file") as file:
        assert file.read() == b"x"
    for path in ("link/file", "a/loop/file", "a", "", "none", "../x", "a/../a/file"):
        with pytest.raises(InputError):
            open_inside(tmp_path, path)
    assert list(files_inside(tmp_path)) == [("a/file", 1)]
    assert inside(tmp_path, "a/file").is_file()


def test_what_an_agent_wrote_is_a_download_or_in_a_sandbox(client: TestClient, made: Made) -> None:
    for path in ("page.html", "drawing.svg", "pixel.png", "data.bin", "change.patch", "käse 100%.txt"):
        answer = file_of(client, made, f"artifacts/{path}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert answer.headers["content-security-policy"].startswith("sandbox; ")
    for path, kind in (
        ("page.html", "text/html"),
        ("drawing.svg", "image/svg+xml"),
        ("change.patch", "text/plain"),
    ):
        answer = file_of(client, made, f"artifacts/{path}", view="1")
        assert answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("sandbox; default-src 'none'")
        assert "allow-" not in policy
        assert "script-src" not in policy
    image = file_of(client, made, "artifacts/pixel.png", view="1")
    assert image.headers["content-type"] == "image/png"
    assert image.content == PIXEL
    binary = file_of(client, made, "artifacts/data.bin", view="1")
    assert binary.headers["content-disposition"].startswith("attachment")


def test_parts_of_files_can_be_asked_for(client: TestClient, made: Made) -> None:
    path = f"/api/jobs/{NOW_JOB}/file"
    given_ = {"id": made.trials["fix"], "path": "artifacts/data.bin"}
    whole = client.get(path, params=given_).content
    assert len(whole) == 2048
    for wanted, start, end in (
        ("bytes=0-9", 0, 10),
        ("bytes=2000-", 2000, 2048),
        ("bytes=-5", 2043, 2048),
        ("bytes=5-99999", 5, 2048),
    ):
        answer = client.get(path, params=given_, headers={"Range": wanted})
        assert answer.status_code == 206
        assert answer.content == whole[start:end]
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/2048"
    assert client.get(path, params=given_, headers={"Range": "bytes=9999-"}).status_code == 416
    for strange in ("bytes=9-3", "lines=1-2", "bytes=a-b", "bytes=1-2,4-5", "bytes=-"):
        answer = client.get(path, params=given_, headers={"Range": strange})
        assert (answer.status_code, answer.content) == (200, whole)
    head = client.head(path, params=given_)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "2048", b"")


def test_of_a_confidential_benchmark_neither_prompts_nor_tests_are_shown(
    client: TestClient, made: Made
) -> None:
    node_id = made.trials["hidden"]
    base = f"/api/jobs/{HIDDEN}"
    found = client.get(f"{base}/trial", params={"id": node_id}).json()
    assert found["withheld"] is True
    assert (found["statement"], found["steps"], found["logs"], found["files"]) == (None, 0, [], [])
    for path, more in (
        ("steps", {}),
        ("log", {}),
        ("log", {"name": "scorers/right/output.log"}),
        ("file", {"path": "artifacts/change.patch"}),
        ("file", {"path": "trajectory.jsonl"}),
        ("file", {"path": "agent.log", "view": "1"}),
    ):
        assert client.get(f"{base}/{path}", params={"id": node_id, **more}).status_code == 403, (path, more)
    sides = {
        "a_job": HIDDEN, "b_job": HIDDEN, "benchmark": "texts", "scenario": "count", "a_agent": CODEX,
        "b_agent": CODEX,
    }  # fmt: skip
    assert client.get("/api/align", params=sides).json()["rows"] == []
    for path in (
        f"{base}/trial?id={quote(node_id, safe='')}",
        base,
        f"/api/trajectories/{HIDDEN}/texts/count",
    ):
        text = client.get(path).text
        for secret in ("The prompt.", "secret test", "the end"):
            assert secret not in text


WRONG = (
    "where=score", "where=scor%3C1", "where=score%3C", "where=score%3C1;DROP", "where=score%3C1.2.3",
    "q=" + "a%20" * 9, "q=%00", "limit=501", "limit=0", "limit=1e3", "limit=" + "9" * 4000, "sort=record",
    "sort=id;DROP TABLE runs", "order=up", "after=x", "after=W1tdXQ", "unknown=1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/runs?" + "q=a&" * 101, 414),
        ("/api/runs?q=" + "a" * 5000, 414),
        ("/api/runs?q=" + "a" * (QUERY_LIMIT + 1), 414),
        *((f"/api/runs?{query}", 400) for query in WRONG),
        ("/api/jobs?job=last", 400),
        ("/api/runs?job=none", 404),
        ("/api/jobs/..%2f..%2fetc", 404),
        ("/api/compare?a=last", 400),
        (f"/api/jobs/{NOW_JOB}/trial", 400),
        (f"/api/jobs/{NOW_JOB}/trial?id=none", 404),
        (f"/api/jobs/{NOW_JOB}/log?id=none&limit=999999999", 404),
        (f"/api/jobs/{NOW_JOB}/matrix?x=1", 400),
        ("/nothing", 404),
        ("/jobs/last", 404),
        ("/static/nothing.js", 404),
    ],
)
def test_a_query_that_is_wrong_or_too_large_is_refused(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    if path.startswith("/api/"):
        assert answer.json()["error"]["message"]
    else:
        assert answer.headers["content-type"].startswith("text/html")
        assert '<a href="/">To the jobs</a>' in answer.text


def test_pages_that_are_not_there_are_the_page_that_says_so(client: TestClient) -> None:
    (of_script,) = re.findall(r"const PAGES = \{(.*?)\}", client.get("/static/main.js").text)
    assert tuple(re.findall(r"(\w+):", of_script)) == PAGES
    for query, status in (("", 200), ("?page=", 200), ("?page=runs", 200), ("?page=nope", 404)):
        answer = client.get(f"/{query}")
        assert (answer.status_code, "static/main.js" in answer.text) == (status, True)


TEXT = st.text(max_size=40) | st.sampled_from(HOSTILE)
NAMES = sorted({name for document in DOCUMENTS for name in document.parameters})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([document.path for document in DOCUMENTS] + ["/", "/api/jobs/{job}/file"]),
    job=st.sampled_from([NOW_JOB, "last", "none"]) | TEXT,
    parameters=st.lists(st.tuples(st.sampled_from(NAMES), TEXT | st.integers().map(str)), max_size=6),
)
def test_no_parameter_breaks_a_page(
    client: TestClient, path: str, job: str, parameters: list[tuple[str, str]]
) -> None:
    filled = re.sub(r"\{[^}]*\}", quote(job.encode("utf-8", "replace"), safe=""), path)
    answer = client.get(
        f"{filled}?{urlencode([(name, value.encode('utf-8', 'replace')) for name, value in parameters])}"
    )
    assert answer.status_code in (200, 307, 400, 403, 404, 414)
    assert answer.headers["x-content-type-options"] == "nosniff"
