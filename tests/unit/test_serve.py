"""`benchjobs serve` and `export-viewer-data`: what they print, and what they refuse."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_benchjobs.cli.serve import _urls
from tests import forking

from ..console import COMMAND
from .cli import Cli, cli
from .records import JOB
from .viewing import make, running

__all__ = ["cli"]


@contextmanager
def serving(directory: Path, *options: str, errors: list[str] | None = None) -> Iterator[str]:
    """A server of its own process; gives what it prints first. What it says on stderr is added to `errors`."""
    command = [*COMMAND, "serve", "--dir", str(directory), "--port", "0", *options]
    process = forking.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killer = threading.Timer(60, process.kill)
    killer.start()
    try:
        assert process.stdout is not None
        yield process.stdout.readline()
    finally:
        killer.cancel()
        process.terminate()
        _, err = process.communicate(timeout=30)
        assert "Traceback" not in err
        if errors is not None:
            errors.append(err)


def test_it_serves_this_machine_without_a_token(tmp_path: Path) -> None:
    made = make(tmp_path / "reports")
    with serving(made.directory) as line:
        url = line.split()[-1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        with urllib.request.urlopen(f"{url}api/jobs") as answer:
            assert json.load(answer)["total"] == 3
            assert "server" not in {name.lower() for name in answer.headers}


def test_a_directory_without_results_is_told(tmp_path: Path) -> None:
    made = make(tmp_path / "reports")
    (tmp_path / "empty").mkdir()
    for directory, told in ((tmp_path / "empty", True), (made.directory, False)):
        errors: list[str] = []
        with serving(directory, errors=errors) as line:
            urllib.request.urlopen(f"{line.split()[-1]}health").close()
        assert (f"There are no results in {directory} yet." in errors[0]) is told


def test_it_stops_while_a_page_follows_a_job(tmp_path: Path) -> None:
    running(tmp_path)
    with serving(tmp_path) as line:
        answer = urllib.request.urlopen(f"{line.split()[-1]}api/jobs/{JOB}/live")
        assert [answer.readline() for _ in range(3)][-1] == b"event: state\n"
    with answer:
        assert b"event: end" not in answer.read()


def test_at_any_other_address_it_asks_for_a_random_token(tmp_path: Path) -> None:
    made = make(tmp_path / "reports")
    with serving(made.directory, "--host", "0.0.0.0") as line:
        token = re.search(r"\?token=([\w-]{32})$", line.strip())
        assert token is not None
        port = re.search(r":(\d+)/", line)
        assert port is not None
        url = f"http://127.0.0.1:{port[1]}/api/jobs"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url)
        refused.value.close()
        assert refused.value.code == 403
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token[1]}"})
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["total"] == 3


def test_a_token_may_be_given_by_a_variable_and_the_address_of_this_machine_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path / "reports")
    monkeypatch.setenv("BENCHJOBS_VIEW_TOKEN", "of a variable")
    named, *others = _urls("0.0.0.0", 8877, None)
    assert named == f"http://{socket.gethostname()}:8877/"
    with serving(made.directory, "--host", "0.0.0.0") as line:
        assert line.strip().endswith("?token=of+a+variable")
        port = int(line.partition("?")[0].rstrip("/").rpartition(":")[2])
        for url in _urls("0.0.0.0", port, "of a variable")[1:]:
            asked = urllib.request.Request(
                f"{url.partition('?')[0]}api/jobs", headers={"Authorization": "Bearer of a variable"}
            )
            with urllib.request.urlopen(asked) as answer:
                assert json.load(answer)["total"] == 3
    assert all(ipaddress.ip_address(other[7:].partition(":")[0]) for other in others)


def test_an_address_that_is_taken_is_one_line(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.refused("serve", "--port", port) == (
            f"benchjobs: cannot listen at 127.0.0.1 port {port}: Address already in use; "
            "choose another --port or --host\n"
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHJOBS_VIEW_TOKEN", " ")
        assert "BENCHJOBS_VIEW_TOKEN is empty" in cli.refused("serve", "--host", "0.0.0.0")
    assert "choose another --port or --host" in cli.refused("serve", "--host", "192.0.2.1")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_one_line_says_what_to_install(
    cli: Cli, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in (missing, "starlette") or name.startswith("pytest_benchjobs.viewer."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert cli.refused("serve") == (
        "benchjobs: the viewer needs starlette and uvicorn: pip install 'pytest-benchjobs[view]'\n"
    )


def test_viewer_data_is_written_with_high_scores(cli: Cli, tmp_path: Path) -> None:
    cli = cli.at(make(tmp_path / "reports").directory)
    high = tmp_path / "high.toml"
    high.write_text("[texts]\nscore = 80\nunit = '%'\nsource = 'a paper'\n")
    written = cli.directory / "viewer_data.json"
    said = cli("export-viewer-data", "--high-scores", high).out
    assert said == f"Wrote {written}: 5 runs of 3 jobs\n"
    data = json.loads(written.read_text())
    assert {run["high_score_label"] for run in data["runs"]} == {"a paper"}
    other = tmp_path / "other.json"
    cli("export-viewer-data", "--out", other)
    assert {run["high_score_value"] for run in json.loads(other.read_text())["runs"]} == {None}
