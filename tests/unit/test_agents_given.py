"""Agents that are given by a path or by a shell command under a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_benchjobs.agents.builtin import Command
from pytest_benchjobs.agents.described import DescribedAgent
from pytest_benchjobs.agents.given import given_agents
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand
from pytest_benchjobs.agents.snapshot import snapshot
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.endpoint import GATEWAY_URL, PLACEHOLDER_KEY
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.settings.agents import read_agent, with_defaults

from .records import trial


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _program(path: Path, text: str = "#!/bin/sh\necho hello\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def _call(spec: AgentSpec) -> AgentCall:
    return AgentCall(scenario=trial().scenario, spec=spec, env={}, timeout=60)


def _command(written: str, directory: Path) -> AgentCommand:
    spec = read_agent(written, directory)
    command = given_agents([spec])[spec.name].prepare(_call(spec))
    assert command is not None
    return command


def test_a_default_provider_and_model_are_not_for_commands_and_baselines(tmp_path: Path) -> None:
    specs = [read_agent(one, tmp_path) for one in ("quick=command:true", "baseline:half", "mybot=./agent")]
    found = with_defaults(specs, "groq", "qwen")
    assert [(str(spec), spec.provider) for spec in found] == [
        ("quick", None), ("baseline:half", None), ("mybot:groq/qwen", "groq"),
    ]  # fmt: skip


def test_a_relative_path_is_from_where_it_is_written(tmp_path: Path) -> None:
    assert read_agent("mybot=./agent/../bot", tmp_path).path == str(tmp_path / "bot")


@pytest.mark.parametrize(
    ("name", "mode", "argv"),
    [
        ("run", 0o755, ["{}/run"]),
        ("run.sh", 0o644, ["/bin/sh", "{}/run.sh"]),
        ("mybot.py", 0o644, ["python3", "{}/mybot.py"]),
        ("agent.py", 0o755, ["{}/agent.py"]),
        ("index.js", 0o644, ["node", "{}/index.js"]),
    ],
)
def test_a_directory_is_started_by_a_file_of_a_known_name(
    tmp_path: Path, name: str, mode: int, argv: list[str]
) -> None:
    _program(tmp_path / "bot" / name, mode=mode)
    command = _command("mybot=./bot", tmp_path)
    assert command.argv[5:] == tuple(word.format("/opt/benchjobs/mybot") for word in argv)
    assert command.argv[4] == "/bench/problem.md"
    (mount,) = command.mounts
    assert (mount.source / name).read_text() == (tmp_path / "bot" / name).read_text()


def test_run_comes_before_what_it_starts(tmp_path: Path) -> None:
    for name in ("main.py", "run.sh"):
        _program(tmp_path / "bot" / name)
    assert _command("mybot=./bot", tmp_path).argv[-1] == "/opt/benchjobs/mybot/run.sh"


def test_a_file_is_the_program(tmp_path: Path) -> None:
    _program(tmp_path / "bot.py", mode=0o644)
    _program(tmp_path / "secret.txt")
    command = _command("mybot=./bot.py", tmp_path)
    assert command.argv[-2:] == ("python3", "/opt/benchjobs/mybot")
    assert [mount.source.is_file() for mount in command.mounts] == [True]


def test_an_agent_file_in_the_directory_describes_it(tmp_path: Path) -> None:
    _program(tmp_path / "bot" / "go.py", mode=0o644)
    (tmp_path / "bot" / "other.agent.toml").write_text(
        'name = "other"\nsource = { path = "." }\nargv = ["python3", "{agent}/go.py"]\n'
    )
    for written in ("mybot=./bot", "mybot=./bot/other.agent.toml"):
        assert _command(written, tmp_path).argv[-2:] == ("python3", "/opt/benchjobs/mybot/go.py")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("mybot=./nowhere", "agent mybot: there is no .*nowhere"),
        ("mybot=./empty", 'nothing says how to start it.*(?s:.)* source = { path = "\\." }'),
        ("mybot=./text.txt", "run `chmod \\+x text.txt`, or write an agent file mybot.agent.toml"),
        ("oracle=./text.txt", "'oracle' is the name of a built-in agent"),
        ("mybot=./two", "several agent files, a.agent.toml, b.agent.toml; give one of them"),
    ],
)
def test_what_cannot_be_started_asks_for_it(tmp_path: Path, written: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    for name in ("a", "b"):
        _program(tmp_path / "two" / f"{name}.agent.toml", f'name = "{name}"\nargv = ["x"]\n')
    with pytest.raises(InputError, match=message):
        given_agents([read_agent(written, tmp_path)])


def test_one_name_has_one_program(tmp_path: Path) -> None:
    for name in ("a", "b"):
        _program(tmp_path / name)
    with pytest.raises(InputError, match="agent mybot is given twice, with different programs"):
        given_agents([read_agent(f"mybot=./{name}:m{name}", tmp_path) for name in ("a", "b")])
    assert list(given_agents([read_agent(f"mybot=./a:m{name}", tmp_path) for name in "12"])) == ["mybot"]


def test_a_command_under_a_name(tmp_path: Path) -> None:
    spec = read_agent("quick=command:echo hello", tmp_path)
    agent = given_agents([spec])["quick"]
    assert agent == Command(name="quick", needs_model=False)
    command = agent.prepare(_call(spec))
    assert command is not None
    assert command.argv[-1] == "echo hello"


@pytest.mark.parametrize("agent_file", ["", 'name = "mybot"\nargv = ["bot"]\n'])
def test_with_a_model_it_gets_the_usual_variables(tmp_path: Path, agent_file: str) -> None:
    _program(tmp_path / "bot" / "run.sh")
    if agent_file:
        (tmp_path / "bot" / "mybot.agent.toml").write_text(agent_file)
    command = _command("mybot=./bot:groq/qwen3", tmp_path)
    assert {name: command.env[name] for name in ("BENCH_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY")} == {
        "BENCH_MODEL": "qwen3",
        "OPENAI_BASE_URL": GATEWAY_URL["openai"],
        "OPENAI_API_KEY": PLACEHOLDER_KEY,
    }
    assert [endpoint.provider for endpoint in command.endpoints] == ["groq"]
    assert "ANTHROPIC_BASE_URL" in _command("mybot=./bot:claude-sonnet-4-6", tmp_path).env
    agent = given_agents([read_agent("mybot=./bot", tmp_path)])["mybot"]
    assert isinstance(agent, DescribedAgent)
    assert agent.needs_model is False


def test_variables_of_an_agent_file_come_before_the_usual_ones(tmp_path: Path) -> None:
    _program(
        tmp_path / "x.agent.toml", 'name = "x"\nargv = ["x"]\nenv = {OPENAI_BASE_URL = "http://mine/v1"}\n'
    )
    env = _command("x=./x.agent.toml:gpt-5", tmp_path).env
    assert (env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"]) == ("http://mine/v1", PLACEHOLDER_KEY)


# Snapshots


def _names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def test_repositories_environments_caches_secrets_and_answers_are_left_out(tmp_path: Path) -> None:
    bot = tmp_path / "bot"
    for name in ("run.sh", ".git/HEAD", "venv/pyvenv.cfg", "venv/bin/python", "a/__pycache__/x.pyc", ".env",
                 "a/.env.local", "a/b.py", "node_modules/x/index.js", "data/big.bin",
                 # Benchmarks and results hold answers.
                 "top.bench.yaml", "benchmarks/a.bench.toml", "benchmarks/tests/answers.py",
                 "tasks/one/task.toml", "tasks/one/instruction.md", "tasks/one/solution/solve.sh",
                 "reports/history.sqlite", "reports/jobs/x/job.json", "other/task.toml"):  # fmt: skip
        _program(bot / name)
    found = snapshot(bot, "mybot", ["data/*"])
    assert _names(found.files) == ["a/b.py", "node_modules/x/index.js", "other/task.toml", "run.sh"]


def test_the_digest_is_of_names_contents_and_what_may_be_executed(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for bot in (one, two):
        _program(bot / "run.sh")
        _program(bot / "a" / "b.py", "x = 1", 0o600)
        (bot / "link").symlink_to("a/b.py")
    first = snapshot(one, "mybot")
    assert snapshot(two, "mybot") == first
    (two / ".git").mkdir()
    os.utime(two / "run.sh", (1, 1))
    assert snapshot(two, "mybot").digest == first.digest
    seen = {first.digest}
    for change in (
        lambda: (two / "a" / "b.py").write_text("x = 2"),
        lambda: (two / "run.sh").chmod(0o644),
        lambda: (two / "run.sh").rename(two / "go.sh"),
        lambda: ((two / "link").unlink(), (two / "link").symlink_to("go.sh")),
    ):
        change()
        digest = snapshot(two, "mybot").digest
        assert digest not in seen
        seen.add(digest)


def test_any_user_can_read_the_copy(tmp_path: Path) -> None:
    bot = tmp_path / "bot"
    _program(bot / "a" / "b.py", "x = 1", 0o600)
    (bot / "a").chmod(0o700)
    bot.chmod(0o700)
    files = snapshot(bot, "mybot").files
    modes = {
        str(path.relative_to(files.parent)): path.stat().st_mode & 0o777 for path in files.parent.rglob("*")
    }
    assert modes == {"files": 0o755, "files/a": 0o755, "files/a/b.py": 0o644}


def test_links_are_copied_as_they_are_and_nothing_behind_them(tmp_path: Path) -> None:
    bot = tmp_path / "bot"
    bot.mkdir()
    (tmp_path / "private").write_text("hello")
    (bot / "link").symlink_to(tmp_path / "private")
    (bot / "loop").symlink_to(".")
    os.mkfifo(bot / "pipe")
    files = snapshot(bot, "mybot").files
    links = {path.name: str(path.readlink()) for path in files.iterdir()}
    assert links == {"link": str(tmp_path / "private"), "loop": "."}


def test_what_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_benchjobs.agents.snapshot._MAX_BYTES", 1000)
    for name in ("run.sh", "models/a.bin", "models/b.bin"):
        _program(tmp_path / "bot" / name, "x" * 600)
    with pytest.raises(
        InputError, match=r"holds more than 1000 B .* most of it in models \(1\.2 KB, 2 files\)"
    ):
        snapshot(tmp_path / "bot", "mybot")


def test_what_no_job_has_used_for_long_goes(tmp_path: Path) -> None:
    _program(tmp_path / "bot" / "run.sh")
    old = snapshot(tmp_path / "bot", "mybot").files
    os.utime(old.parent, (1, 1))
    _program(tmp_path / "bot" / "run.sh", "other")
    assert snapshot(tmp_path / "bot", "mybot").files.exists()
    assert not old.exists()
