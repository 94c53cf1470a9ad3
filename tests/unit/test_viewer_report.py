"""Reports of jobs in one file, or many: what they have, leave out, and allow."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.report.documents import schema_of
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.viewer import details
from pytest_benchjobs.viewer.export import Export, write_directory
from pytest_benchjobs.viewer.inline import page_of_files, script_of, style_of
from pytest_benchjobs.viewer.results import Results

from .cli import Cli
from .jobs import make_job
from .viewing import BEFORE, CODEX, HIDDEN, HOSTILE, NOW_JOB, Made, make

PAGE = """<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="benchjobs-source" content="http">
<link rel="stylesheet" href="static/a.css">
<link rel="stylesheet" href="static/b.css">
</head>
<body>
<noscript><p>served</p></noscript>
<script type="module" src="static/main.js"></script>
</body>
</html>
"""
FILES = {
    "index.html": PAGE.encode(),
    "a.css": b"a {}\n",
    "b.css": b"b {}\n",
    "main.js": b'import { one, two as zwei } from "./x.js";\nimport y from "./vendor/y.js";\nexport const done = one() + zwei + y;\n',
    "x.js": b'import y from "./vendor/y.js";\nexport function one() {\n  return y;\n}\nexport const two = 2;\n',
    "vendor/y.js": b"const a = 40;\nexport { a as default };\n",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("results") / "reports")


def elements(page: str) -> dict[str, Any]:
    """The data in a page."""
    found = re.findall(r'<script type="application/gzip\+base64" id="([^"]+)">([^<]*)</script>', page)
    return {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in found}


def written(made: Made, path: Path, *jobs: str, **sizes: int) -> str:
    with HistoryReader.of(made.directory) as history:
        Export("html", Results(made.directory), history, jobs or (NOW_JOB, BEFORE, HIDDEN), **sizes).write(
            path
        )
    return path.read_text("utf-8")


def test_a_report_has_the_documents_of_all_pages(made: Made, tmp_path: Path) -> None:
    data = elements(written(made, tmp_path / "report.html"))
    main = data["data-main"]
    jobs = {NOW_JOB, BEFORE, HIDDEN}
    assert {job["id"] for job in main["jobs"]} == set(main["job"]) == set(main["matrix"]) == jobs
    assert len(main["runs"]) == 5
    for schema, documents in (
        ("viewer-meta", [main["meta"]]),
        ("viewer-overview", [main["overview"]]),
        ("viewer-job", main["job"].values()),
        ("viewer-matrix", main["matrix"].values()),
        ("viewer-compare", main["compare"].values()),
        ("viewer-scenario", main["scenario"].values()),
        ("viewer-trend", main["trend"].values()),
    ):
        for document in documents:
            jsonschema.Draft202012Validator(schema_of(schema)).validate(document)
    assert main["meta"]["live"] is False
    assert {f"{BEFORE}\n{NOW_JOB}\n\n", f"{NOW_JOB}\n{NOW_JOB}\noracle\n{CODEX}"} <= set(main["compare"])
    assert set(main["scenario"]) == {"texts\ncount", "texts\nfix"}
    fix = made.trials["fix"]
    place = main["matrix"][NOW_JOB]["trials"]["id"].index(fix)
    chunk = data[f"data-{main['details'][NOW_JOB][place]}"]
    key = f"{NOW_JOB}\n{fix}"
    jsonschema.Draft202012Validator(schema_of("viewer-trial")).validate(chunk["trial"][key])
    assert len(chunk["steps"][key]) == 3
    assert chunk["log"][f"{key}\nagent.log"].endswith("the end")
    assert chunk["files"][f"{key}\nartifacts/pixel.png"]["data"].startswith("data:image/png;base64,")
    assert chunk["files"][f"{key}\nartifacts/page.html"]["kind"] == "html"
    assert f"{key}\nartifacts/data.bin" not in chunk["files"]


def test_agents_of_different_jobs_are_compared(made: Made, tmp_path: Path) -> None:
    main = elements(written(made, tmp_path / "report.html"))["data-main"]
    across = f"{BEFORE}\n{NOW_JOB}\noracle\n{CODEX}"
    found = main["compare"][across]
    assert (found["a_jobs"], found["b_jobs"]) == ([BEFORE], [NOW_JOB])
    assert (found["comparison"]["a"]["agents"], found["comparison"]["b"]["agents"]) == (["oracle"], [CODEX])
    # The job with one agent needs no label.
    assert f"{NOW_JOB}\n{HIDDEN}\noracle\n" in main["compare"]
    order = list(main["compare"])
    assert order.index(f"{BEFORE}\n{NOW_JOB}\n{CODEX}\n{CODEX}") < order.index(across)


def test_a_report_of_one_job_has_nothing_of_others(made: Made, tmp_path: Path) -> None:
    page = written(made, tmp_path / "report.html", BEFORE)
    data = elements(page)
    texts = json.dumps(data)
    assert NOW_JOB not in texts
    assert HIDDEN not in texts
    assert data["data-main"]["overview"]["jobs"] == 1
    assert data["data-main"]["meta"]["choices"]["branches"] == ["main"]


def test_what_a_report_lacks_has_its_reason(tmp_path: Path) -> None:
    made = make(tmp_path / "reports")
    (binary,) = (made.directory / "jobs" / NOW_JOB).glob("trials/*/fix/*/artifacts/data.bin")
    (binary.parent / "large.txt").write_text("x" * 70_000)
    (binary.parents[1] / "more.txt").write_text("no artifact: reports have none of these, and none is missed")
    cut = elements(written(made, tmp_path / "report.html"))["data-main"]["meta"]["cut"]
    # The output of a scorer is in the report as a log.
    assert cut == [f"1 file left out: {why}" for why in ("binary", "larger than 64 KB")]
    assert "--max-size" not in " ".join(cut)


def test_of_confidential_benchmarks_a_report_has_neither_prompts_nor_tests(
    made: Made, tmp_path: Path
) -> None:
    data = elements(written(made, tmp_path / "report.html", HIDDEN))
    texts = json.dumps(data)
    for secret in ("The prompt.", "secret test", "the end", "gold"):
        assert secret not in texts
    (trial,) = data["data-0"]["trial"].values()
    assert trial["withheld"] is True
    assert data["data-0"]["steps"] == data["data-0"]["log"] == data["data-0"]["files"] == {}


def test_a_report_allows_its_own_script_and_style_alone_and_no_request(made: Made, tmp_path: Path) -> None:
    page = written(made, tmp_path / "report.html")
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert page.index(policy) < page.index("<style>")
    assert "unsafe" not in policy
    assert "self" not in policy
    assert "connect-src" not in policy  # none, as by default
    assert policy.startswith("default-src 'none'; ")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for text in (script, style):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy
    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?!data:)(?:https?:|//|static/)""", page) == []
    assert "<script type=" not in page.replace('<script type="application/gzip+base64"', "")
    for text in HOSTILE[:4]:
        assert text not in page


def test_the_pieces_of_the_page_become_one_script(tmp_path: Path) -> None:
    script = script_of(FILES)
    assert script.count("const a = 40;") == 1
    assert script.index("const a = 40;") < script.index("function one()") < script.index("const done")
    assert "import" not in script
    assert "export" not in script
    assert "const { one, two: zwei } = module1;" in script
    assert "const { default: y } = module0;" in script
    assert "return { default: a };" in script
    assert style_of(FILES) == "a {}\nb {}\n"
    page = page_of_files(FILES).decode()
    assert 'content="files"' in page
    assert page.count('rel="stylesheet"') == 2
    assert page.count("<script") == 1
    assert "served" not in page


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("x.js", 'import "./vendor/y.js";', "can be put into one file"),
        ("x.js", 'import * as y from "./vendor/y.js";', "can be put into one file"),
        ("x.js", "export default 1;", "can be put into one file"),
        ("x.js", "export let one = 1;", "can be put into one file"),
        ("x.js", 'import { done } from "./main.js";\nexport const one = 1;', "in a circle"),
        ("x.js", 'import { z } from "./z.js";', "not there"),
        ("x.js", "export const one = '</script>';", "ends the element"),
        ("x.js", "export const one = '<!-- ';", "ends the element"),
    ],
)
def test_a_module_that_cannot_be_put_into_one_file_is_refused(file: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        script_of({**FILES, file: text.encode()})


def test_a_small_report_leaves_details_out_and_says_so(made: Made, tmp_path: Path) -> None:
    chance = random.Random(0)
    big = make(tmp_path / "reports")
    for log in (big.directory / "jobs").glob("*/trials/*/*/*/agent.log"):
        log.write_text(chance.randbytes(60_000).hex())
    whole = written(big, tmp_path / "whole.html")
    assert "logs cut to 64 KB each" in " ".join(elements(whole)["data-main"]["meta"]["cut"])
    limit = 450_000
    small = written(big, tmp_path / "small.html", limit=limit)
    assert len(small.encode()) <= limit < len(whole.encode())
    cut = " ".join(elements(small)["data-main"]["meta"]["cut"])
    assert re.search(r"steps, logs and files of \d trials, the largest first, left out for want of room", cut)
    longer = elements(written(big, tmp_path / "longer.html", log_limit=200_000))
    shorter = elements(written(big, tmp_path / "shorter.html", log_limit=1_000))
    key = f"{NOW_JOB}\n{big.trials['fix']}\nagent.log"
    assert len(longer["data-0"]["log"][key]) == 120_000 or key not in longer["data-0"]["log"]
    found = [
        chunk["log"][key] for name, chunk in shorter.items() if name != "data-main" and key in chunk["log"]
    ]
    assert len(found[0]) < 1_100
    assert "bytes left out" in found[0]


def test_a_large_trial_costs_the_others_nothing(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "_CHUNK", 2)
    big = make(tmp_path / "reports")
    bundle = JobBundle(big.directory, NOW_JOB)
    (place,) = [one.path for one in bundle.results() if one.node_id == big.trials["fix"]]
    (bundle.root / place / "agent.log").write_text(random.Random(0).randbytes(30_000).hex())
    data = elements(written(big, tmp_path / "report.html", NOW_JOB, BEFORE, limit=435_000))
    chunks = [chunk for name, chunk in data.items() if name != "data-main"]
    logs = {key for chunk in chunks for key in chunk["log"]}
    trials = {key for chunk in chunks for key in chunk["trial"]}
    large = f"{NOW_JOB}\n{big.trials['fix']}"
    assert len(trials) == 8
    assert {key for key in trials if f"{key}\nagent.log" not in logs} == {large}
    assert any(large in line["trial"] for line in chunks)
    (line,) = [line for line in data["data-main"]["meta"]["cut"] if "for want of room" in line]
    assert line.startswith("steps, logs and files of 1 trial, the largest first")


def test_a_report_that_cannot_fit_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose fewer jobs, or a larger --max-size"):
        written(made, tmp_path / "report.html", limit=400_100)
    assert not (tmp_path / "report.html").exists()


def test_many_files_for_a_web_server(made: Made, tmp_path: Path) -> None:
    target = tmp_path / "site"
    with HistoryReader.of(made.directory) as history:
        for _ in range(2):  # the second one replaces the first one
            write_directory(Results(made.directory), history, [NOW_JOB], target)
        main = json.loads((target / "data" / "main.json").read_text())
        assert set(main["job"]) == {NOW_JOB}
        assert json.loads((target / "data" / "0.json").read_text())["trial"]
        assert (target / "static" / "main.js").is_file()
        page = (target / "index.html").read_text()
        assert 'content="files"' in page
        assert "script-src 'self'" in page
        assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]
        other = tmp_path / "other"
        other.mkdir()
        (other / "index.html").write_text("mine")
        with pytest.raises(InputError, match="has other files"):
            write_directory(Results(made.directory), history, [NOW_JOB], other)
        with pytest.raises(InputError, match="name a new directory"):
            write_directory(Results(made.directory), history, [NOW_JOB], made.directory)
    assert (other / "index.html").read_text() == "mine"


def test_export_writes_reports(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, cli = tmp_path / "new" / "report.html", Cli(made.directory, capsys)
    printed = cli("export", "last", "nightly", "--out", out)
    assert re.fullmatch(rf"Wrote {re.escape(str(out))}: 2 jobs, \d+ KB\n", printed.out)
    assert printed.err == ""
    assert set(elements(out.read_text())["data-main"]["job"]) == {HIDDEN, BEFORE}
    cut = cli("export", NOW_JOB, "--out", tmp_path / "cut.html").err
    assert re.search(r"\d+ files? left out: binary\n", cut)
    cli("export", "last", "--out-dir", tmp_path / "site")
    assert (tmp_path / "site" / "index.html").is_file()
    assert elements(cli("export", "last", "--format", "html").out)["data-main"]["job"].keys() == {HIDDEN}
    document = json.loads(cli("export", "last", "--format", "viewer").out)
    assert [group["run_group_id"] for group in document["run_groups"]] == [HIDDEN]
    assert {one["run_group_id"] for one in document["runs"] + document["latest_scores"]} == {HIDDEN}
    for wrong, said in (
        (("--format", "html", "--out", out, "--out-dir", tmp_path / "site"), "give one of them"),
        (("--format", "csv", "--out-dir", tmp_path / "site"), "is for --format html"),
        (("--out", out, "--max-size", "much"), "is not a size"),
        (("--out", out, "--max-size", "100K"), "choose fewer jobs"),
    ):
        assert said in cli("export", "last", *wrong, status=2).err


def test_a_job_without_files_has_a_report(tmp_path: Path) -> None:
    directory = tmp_path / "reports"
    record = make_job(directory, NOW_JOB, {"oracle": {"count": "P"}})
    shutil.rmtree(directory / "jobs" / record.id)
    data = elements(written(Made(directory, {}), tmp_path / "report.html", NOW_JOB))
    (trial,) = data["data-0"]["trial"].values()
    assert trial["result"] is None
    assert trial["row"]["outcome"] == "passed"
