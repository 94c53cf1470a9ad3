"""Benchmarks for the plugin's own tests: no engine, tiny scenarios."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_benchjobs.store.checked import checked
from pytest_benchjobs.store.reader import HistoryReader

from .. import forking
from ..console import COMMAND

CONFTEST = """
from pytest_benchjobs.testing import FakeProvider

def pytest_benchjobs_sandboxes(config):
    return {"fake": FakeProvider}
"""

TOY = """
benchmark: toy
version: "1.0"
defaults: {image: none, workdir: /app}
scenarios:
  - id: solved
    problem_statement: Write 1.
    tags: [easy, text]
    reference: echo 1 > out.txt
    scorers: [{name: right, type: command, command: grep -q 1 out.txt}]
  - id: partial
    problem_statement: Write 2.
    tags: [hard]
    reference: echo 3 > out.txt
    scorers:
      - {name: exists, type: command, command: test -f out.txt}
      - {name: right, type: command, weight: 3, command: grep -q 2 out.txt}
  - id: unscored
    problem_statement: Nobody knows.
    reference: echo 1 > out.txt
    scorers: [{name: silent, type: bash, script: echo hello}]
"""

TASK = '[metadata]\ndifficulty = "easy"\n[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 60.0\n'

PATIENCE = 180.0


def command(*arguments: str) -> list[str]:
    """How a test starts `benchjobs`: the console script need not be on PATH."""
    return [*COMMAND, *arguments]


class Bench:
    """A directory to run pytest in, as a user would, in a process of its own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.conftest("")
        self.write("pytest.ini", "[pytest]\nbench_sandbox = fake\n")

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    def conftest(self, more: str) -> None:
        self.write("conftest.py", CONFTEST + textwrap.dedent(more))

    def toy(self) -> None:
        self.write("toy.bench.yaml", TOY)

    def manifest(
        self, scenarios: Mapping[str, str | Mapping[str, Any]], name: str = "many.bench.yaml", **more: Any
    ) -> None:
        """One scenario for each id. Its value is what its only scorer, a shell script, does; or keys that it has.

        With keys it passes, unless they say otherwise: `script` is that of the scorer, `type` its type; what is empty is
        left out. What there is more is for the whole manifest.
        """
        listed = []
        for scenario, keys in scenarios.items():
            own = {"script": keys} if isinstance(keys, str) else dict(keys)
            kind = own.pop("type", None)
            scorer = {"type": kind} if kind else {"type": "bash", "script": own.pop("script", "echo score=1")}
            usual = {
                "problem_statement": "Try.",
                "reference": "true",
                "scorers": [{"name": "score", **scorer}],
            }
            listed.append({key: value for key, value in {"id": scenario, **usual, **own}.items() if value})
        about = {"benchmark": Path(name).name.split(".")[0], "defaults": {"image": "none"}, **more}
        self.write(name, json.dumps({**about, "scenarios": listed}))

    def task(self, where: str, text: str = TASK) -> None:
        """A Harbor task, with what must not run on this machine."""
        self.write(f"{where}/task.toml", text)
        self.write(f"{where}/instruction.md", "Do it.")
        self.write(f"{where}/environment/Dockerfile", "FROM none\n")
        self.write(f"{where}/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n")
        self.write(f"{where}/tests/test_outputs.py", "def test_not_for_the_host(): assert False\n")
        self.write(f"{where}/solution/solve.sh", "true\n")

    def run(self, *arguments: str) -> pytest.RunResult:
        # The warnings of other people's plugins are not what these tests are about.
        return self.pytester.runpytest_subprocess("-p", "no:hypothesispytest", *arguments)

    def refused(self, *arguments: str) -> str:
        """The one line that is said, of a call that is wrong."""
        result = self.run(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
        assert not (self.path / "reports").exists()
        assert "Traceback" not in result.stderr.str() + result.stdout.str()
        (line,) = [line for line in result.errlines if line.strip()]
        return line.removeprefix("ERROR: ")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The same in the background, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", *arguments],
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def process(
        self, *words: str, stdin: str = "", cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end: here, or in a directory below."""
        return subprocess.run(
            words,
            cwd=cwd or self.path,
            env={**os.environ, **env},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def benchjobs(self, *arguments: str, **about: Any) -> subprocess.CompletedProcess[str]:
        """Run the console command."""
        return self.process(*command(*arguments), **about)

    def job(self) -> dict[str, Any]:
        """The report of the last job. Its history has the same results as its files."""
        bundle = self.bundle()
        with HistoryReader.of(bundle.parents[1]) as history:
            assert checked(history, bundle.name)[2:] == (None, None)
        return json.loads((bundle / "report.json").read_text("utf-8"))  # type: ignore[no-any-return]

    def outcomes(self) -> dict[str, str]:
        """Outcome of each trial of the last job."""
        return {result["node_id"]: result["outcome"] for result in self.results()}

    def results(self) -> list[dict[str, Any]]:
        found = sorted(self.bundle().glob("trials/*/*/*/result.json"))
        return [json.loads(path.read_text("utf-8")) for path in found]

    def bundle(self) -> Path:
        """The last job. Ids do not tell which of two was first in the same second."""
        jobs = (self.path / "reports" / "jobs").glob("*/job.json")
        return max(jobs, key=lambda path: json.loads(path.read_text("utf-8"))["created_at"]).parent


@pytest.fixture(scope="session", autouse=True)
def _forking() -> Iterator[None]:
    with forking.served(), mock.patch.object(subprocess, "Popen", forking.Popen):
        yield


@pytest.fixture
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody removes the fake sandboxes of a session that was killed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def bench(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for variable in list(os.environ):
        if variable.startswith("PYTEST_") and variable != "PYTEST_DEBUG_TEMPROOT":
            monkeypatch.delenv(variable)
    for variable in ("GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "TF_BUILD", "TEAMCITY_VERSION"):
        monkeypatch.delenv(variable, raising=False)  # these runs are not those of a pipeline
    return Bench(pytester)
