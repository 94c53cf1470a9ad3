"""Where secrets are from, who gets them, and where they never are."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from pytest_benchjobs.model.endpoint import PLACEHOLDER_KEY
from pytest_benchjobs.settings.secret_store import DIRECTORY, SecretStore

from .conftest import Bench

VALUE = "hunter2-hunter2-hunter2"
PRINTS = "command:echo token=$TOKEN; echo length=${#TOKEN}; echo 1 > out.txt"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Secrets of these tests alone, in a file."""
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "config"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setitem(sys.modules, "keyring", None)
    for name in ("TOKEN", "OURS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config"


@pytest.fixture
def toy(bench: Bench) -> Bench:
    bench.toy()
    return bench


def logs(bench: Bench) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(bench.bundle().glob("trials/*/*/*/agent.log"))]


def assert_nowhere(bench: Bench, result: pytest.RunResult, *values: str) -> None:
    """None of the values is in anything that the job left or printed."""
    printed = result.stdout.str() + result.stderr.str()
    files = [path for path in (bench.path / "reports").rglob("*") if path.is_file()]
    assert files
    for value in values:
        assert value not in printed
        assert [path for path in files if value.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_secret_that_is_kept_reaches_the_agent_and_nothing_else(
    toy: Bench, workers: tuple[str, ...]
) -> None:
    store = SecretStore()
    store.set("my-secret", VALUE)
    result = toy.run(*workers, "--bench-secret", "TOKEN=my-secret", "--bench-agent", PRINTS)
    assert all(log == f"token=[redacted:TOKEN]\nlength={len(VALUE)}\n" for log in logs(toy))
    assert len(logs(toy)) == 3
    assert result.stdout.str().count("secrets: ") == 1
    result.stdout.fnmatch_lines([f"secrets: TOKEN from {store.path}"])
    assert_nowhere(toy, result, VALUE)


def test_the_environment_comes_first_then_env_files_then_what_is_kept(
    toy: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("A", "B", "C"):
        SecretStore().set(f"OUR_{name}", "kept" * 3)
    toy.write("keys.env", "OUR_A=from-the-file\nOUR_B=from-the-file\n")
    monkeypatch.setenv("OUR_A", "from-the-environment")
    agent = "command:echo ${#A} ${#B} ${#C}"
    secrets = [f"--bench-secret={name}=OUR_{name}" for name in ("A", "B", "C")]
    result = toy.run("--bench-env-file", "keys.env", *secrets, "--bench-agent", agent)
    result.stdout.fnmatch_lines(["secrets: A from the environment, B from keys.env, C from /*/secrets.json"])
    expected = " ".join(str(len(value)) for value in ("from-the-environment", "from-the-file", "kept" * 3))
    assert set(logs(toy)) == {f"{expected}\n"}


def test_a_store_that_others_can_read_is_refused_only_when_it_is_needed(
    toy: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SecretStore()
    store.set("OURS", VALUE)
    store.path.chmod(0o644)
    said = toy.refused("--bench-secret", "TOKEN=OURS")
    assert said.startswith(f"--bench-secret: {store.path}: others on this machine can read it")
    monkeypatch.setenv("OURS", VALUE)
    monkeypatch.setenv("OPENAI_API_KEY", VALUE)
    both = ("--bench-secret", "TOKEN=OURS", "--bench-secret", "OPENAI_API_KEY=OPENAI_API_KEY")
    assert toy.run(*both, "-k", "solved").ret == pytest.ExitCode.OK


def test_a_key_of_a_model_is_not_given_to_an_agent(toy: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real-openai-canary")
    SecretStore().set("MY_LLM", "kept-anthropic-canary")
    secrets = ("--bench-secret=OPENAI_API_KEY=OPENAI_API_KEY", "--bench-secret=ANTHROPIC_API_KEY=MY_LLM")
    # An agent of this sandbox sees the environment of this process, but for what it is given.
    agent = "command:echo $OPENAI_API_KEY $ANTHROPIC_API_KEY; echo 1 > out.txt"
    result = toy.run(*secrets, "--bench-agent", agent, "-k", "solved")
    assert logs(toy) == [f"{PLACEHOLDER_KEY} {PLACEHOLDER_KEY}\n"], result.stdout.str()
    assert_nowhere(toy, result, "real-openai-canary", "kept-anthropic-canary")


# Env files


def filled(bench: Bench, name: str) -> None:
    given = {"GIVEN": "${FROM_FILE}", "REAL": "${BOTH}"}
    keys = {"agent_env": given, "requires": {"env": ["FROM_FILE"]}, "reference": None, "script": "echo 1"}
    bench.manifest({"fills": keys}, name)


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_manifest_is_filled_in_from_an_env_file_and_real_variables_win(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    filled(bench, "filled.bench.yaml")
    bench.write("keys.env", "FROM_FILE='a file'\nBOTH=file\nUNUSED=x\n")
    monkeypatch.setenv("BOTH", "real")
    agent = "command:echo $GIVEN, $REAL, ${FROM_FILE-unset}, ${UNUSED-unset}"
    result = bench.run(*workers, "--bench-env-file=keys.env", "--bench-agent", agent)
    assert result.ret == pytest.ExitCode.OK
    # The agent of this sandbox sees all variables of this process: those of the file are not among them.
    assert logs(bench) == ["a file, real, unset, unset\n"]


def test_ordinary_tests_do_not_see_what_an_env_file_says(toy: Bench) -> None:
    toy.write("keys.env", "FROM_FILE=x\n")
    toy.write("test_ordinary.py", "import os\n\ndef test_it():\n    assert 'FROM_FILE' not in os.environ\n")
    toy.run("--bench-env-file=keys.env", "-k", "test_it").assert_outcomes(passed=1)


def test_files_of_the_ini_file_are_from_the_rootdir_and_the_last_file_wins(bench: Bench) -> None:
    filled(bench, "sub/filled.bench.yaml")
    bench.write(
        "pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_env_file =\n    base.env\n    more.env\n"
    )
    bench.write("base.env", "FROM_FILE=base\nBOTH=base\n")
    bench.write("more.env", "BOTH=more\n")
    bench.write("line.env", "FROM_FILE=line\n")
    agent = "command:echo $GIVEN, $REAL"
    assert bench.run("--bench-agent", agent).ret == pytest.ExitCode.OK
    assert logs(bench) == ["base, more\n"]
    assert bench.run("--bench-agent", agent, "--bench-env-file=line.env").ret == pytest.ExitCode.OK
    assert logs(bench) == ["line, more\n"]


def test_what_has_the_name_of_a_secret_is_redacted_even_if_nobody_asked_for_it(toy: Bench) -> None:
    path = toy.write("keys.env", f"DB_PASSWORD={VALUE}\nOPENAI_API_KEY=openai-canary\nREGION=eu-central\n")
    agent = f"command:cat {path}; cp {path} out.txt"
    result = toy.run("--bench-env-file=keys.env", "--bench-agent", agent, "-k", "solved")
    assert logs(toy) == [
        "DB_PASSWORD=[redacted:DB_PASSWORD]\nOPENAI_API_KEY=[redacted:OPENAI_API_KEY]\nREGION=eu-central\n"
    ]
    assert_nowhere(toy, result, VALUE, "openai-canary")


FORMS = ("-o ", "-o", "--override-ini=", "--override-ini ")
MODES = [f"{form}bench_env=TOKEN={VALUE}\nMODE=fast-canary" for form in FORMS]


@pytest.mark.parametrize(
    "words",
    [
        (f"-vobench_env=TOKEN={VALUE}\nMODE=fast-canary",),
        *(pytest.param(tuple(mode.split(" ", 1)), marks=pytest.mark.extended) for mode in MODES),
    ],
    ids=["-vo", *FORMS],
)
def test_variables_that_override_the_ini_file_are_kept_nowhere_and_given_again(
    toy: Bench, words: tuple[str, ...]
) -> None:
    toy.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_env = HIDDEN=1\n")
    agent = "command:echo ${#TOKEN} ${#MODE} ${HIDDEN-unset}; echo 1 > out.txt"
    result = toy.run(*words, "--bench-agent", agent, "-k", "solved")
    assert logs(toy) == [f"{len(VALUE)} {len('fast-canary')} unset\n"]
    assert_nowhere(toy, result, VALUE, "fast-canary")
    done = toy.benchjobs("rerun", "last")
    assert "give those of job" in done.stderr
    assert "--env-vars TOKEN=... MODE=..." in done.stderr
    done = toy.benchjobs("rerun", "last", "--env-vars", f"TOKEN={VALUE}", "MODE=other")
    assert logs(toy) == [f"{len(VALUE)} {len('other')} unset\n"], done.stdout + done.stderr


def test_a_value_that_nobody_means_to_write_down_is_refused_and_a_word_is_not(toy: Bench) -> None:
    toy.write("keys.env", f"DB_PASSWORD={VALUE}\n")
    said = toy.refused("--bench-env-file=keys.env", "--bench-agent", f"command:login {VALUE}")
    assert said.startswith("--bench-agent: it holds the value of the secret DB_PASSWORD")
    assert VALUE not in said
    toy.write("keys.env", "DB_PASSWORD=postgres\n")
    result = toy.run(
        "--bench-env-file=keys.env", "--bench-agent", "command:echo postgres > out.txt", "-k", "solved"
    )
    assert result.parseoutcomes()["unsolved"] == 1


def test_the_command_passes_env_files_on_by_name(toy: Bench) -> None:
    toy.write("keys.env", f"OURS={VALUE}\n")
    line = ("run", "--benchmark", "toy.bench.yaml", "--env-file", "keys.env", "--secrets", "TOKEN=OURS")
    shown = toy.benchjobs(*line, "--agent", PRINTS, "--print-command")
    assert (shown.returncode, "--bench-env-file=keys.env" in shown.stdout) == (0, True), shown.stderr
    done = toy.benchjobs(*line, "--agent", PRINTS)
    assert f"length={len(VALUE)}" in logs(toy)[0], done.stdout + done.stderr
    assert VALUE not in shown.stdout + done.stdout + done.stderr


# Cuts

CUTS = """
import os
from pytest_benchjobs.model.errors import EnvironmentFailed
from pytest_benchjobs.sandbox.docker.compose.services import _line
from pytest_benchjobs.testing import FakeProvider

class Provider(FakeProvider):
    def start(self, spec, on_phase):
        text = spec.environment.env["TEXT"].replace("KEY", os.environ["OUR_KEY"])
        if spec.environment.env["PLACE"] == "service":
            raise EnvironmentFailed(f"the services do not start: db ended with status 1: {_line(text)}")
        sandbox = super().start(spec, on_phase)
        sandbox.processes = lambda: (text,) if spec.environment.env["PLACE"] == "process" else ()
        return sandbox

def pytest_benchjobs_sandboxes(config):
    return {"fake": Provider}
"""
CUT = {"scorer": (200, True), "error": (499, False), "service": (1000, False), "process": (30, True)}
"""Places, where they cut a text, and whether they keep what is before."""
OF_A_KEY = 'printf "%s\\n" "$TEXT" | sed "s/KEY/$OUR_KEY/"'


def test_nothing_is_left_of_a_key_through_which_a_real_job_cuts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Letters that hardly come in such a row in anything else, and in no form that is known to be a key.
    key = "".join(random.choices("QXZJVKWYGH", k=40))
    monkeypatch.setenv("OUR_KEY", key)
    bench.write("conftest.py", CUTS)
    scenarios = {}
    for place, (limit, keeps_before) in CUT.items():
        for at in random.sample(range(4, len(key)), 4):
            pad, far = "x" * max(0, limit - at), "lorem ipsum " * 100
            text = f"{pad}KEY{far}" if keeps_before else f"{far}KEY{pad}"
            keys = {
                "env": {"TEXT": text, "PLACE": place},
                "reference": f"{OF_A_KEY} > out.txt",
                "script": "cat out.txt",
            }
            if place == "error":
                keys |= {"reference": f"{OF_A_KEY}; exit 3", "script": "echo 0"}
            scenarios[f"{place}-{at}"] = keys
    bench.manifest(scenarios)
    result = bench.run(
        "--bench-agent=oracle", "--bench-secret=OUR_KEY=OUR_KEY", "--junit-xml=theirs.xml", "-v"
    )
    told = {trial["node_id"].rpartition(":")[2].partition("-")[0]: str(trial["failure"]) + str(trial["notes"])
            for trial in bench.results()}  # fmt: skip
    assert [place for place, keeps in {"scorer": "its last line is", "error": "it printed", "service": "do not start",
            "process": "left running"}.items() if keeps not in told[place]] == []  # fmt: skip
    files = [path for path in bench.path.rglob("*") if path.is_file() and path.name != "conftest.py"]
    assert {"junit.xml", "theirs.xml", "history.sqlite", "result.json", "summary.md"} <= {
        one.name for one in files
    }
    texts = {"terminal": (result.stdout.str() + result.stderr.str()).encode()}
    texts |= {str(path): path.read_bytes() for path in files}
    parts = [key[at : at + 5].encode() for at in range(len(key) - 4)]
    assert [(name, part) for name, text in texts.items() for part in parts if part in text] == []
