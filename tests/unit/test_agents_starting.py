"""Programs of agents that cannot be started: what is seen on this machine, and what a container's shell said."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

from pytest_benchjobs.agents.described import DescribedAgent
from pytest_benchjobs.agents.given import given_agents
from pytest_benchjobs.agents.starting import not_started, start_fault, with_problem
from pytest_benchjobs.cli import doctor as findings
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.finding import Health
from pytest_benchjobs.sandbox.protocol import Mount

from .jobs import run

SCRIPT = b"#!/bin/sh\necho hello\n"


def _agent(
    directory: Path, argv: str = '["{agent}/run.sh"]', source: str = "bot", more: str = ""
) -> DescribedAgent:
    file = directory / "mybot.agent.toml"
    file.write_text(f'name = "mybot"\nsource = {{ path = "{source}"{more} }}\nargv = {argv}\n')
    return DescribedAgent.of_file(file)


def _write(directory: Path, content: bytes = SCRIPT, mode: int = 0o755) -> Path:
    (directory / "bot").mkdir(exist_ok=True)
    path = directory / "bot" / "run.sh"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("argv", "source", "content", "mode", "message"),
    [
        ('["{agent}/run.sh"]', "bot", SCRIPT, 0o755, None),
        ('["sh", "{agent}/run.sh"]', "bot", SCRIPT, 0o644, None),
        ('["{agent}"]', "bot/run.sh", SCRIPT, 0o755, None),
        ('["python3", "-u", "{agent}/run.sh"]', "bot", b"import sys\r\n", 0o644, None),
        ('["in-the-image", "{agent}"]', "bot/run.sh", SCRIPT, 0o644, None),
        ('["{agent}/run.sh"]', "nowhere", SCRIPT, 0o755, "there is no *nowhere; `source.path` is from the directory"),
        ('["{agent}/run.sh"]', "bot", SCRIPT, 0o644, "*/bot/run.sh is not executable; run: chmod +x *bot/run.sh"),
        ('["{agent}"]', "bot/run.sh", SCRIPT, 0o644, "*/bot/run.sh is not executable; run: chmod +x *bot/run.sh"),
        ('["{agent}/run.sh"]', "bot", SCRIPT.replace(b"\n", b"\r\n"), 0o755, "*run.sh has Windows line endings (CRLF)"),
        ('["/bin/sh", "{agent}/run.sh"]', "bot", b"echo a\r\n", 0o644, "*run.sh has Windows line endings (CRLF)"),
        ('["{agent}/main.sh"]', "bot", SCRIPT, 0o755, "it is started with {agent}/main.sh, but *main.sh is not there;"),
        ('["python3", "{agent}/a.py", "{agent}/b"]', "bot", SCRIPT, 0o755, "it is started with * but *a.py is not there;"),
        ('["{agent}"]', "bot", SCRIPT, 0o755, "it is started with {agent}, but *bot is a directory;"),
    ],
)  # fmt: skip
def test_a_program_that_cannot_be_started_is_told_with_the_remedy(
    tmp_path: Path, argv: str, source: str, content: bytes, mode: int, message: str | None
) -> None:
    _write(tmp_path, content, mode)
    fault = start_fault(_agent(tmp_path, argv, source))
    if message is None:
        assert fault is None
        return
    assert fault is not None
    assert fnmatch.fnmatchcase(fault, f"agent mybot: {message}*"), fault


def test_a_program_that_is_left_out_of_the_copy_is_told(tmp_path: Path) -> None:
    _write(tmp_path)
    fault = start_fault(_agent(tmp_path, more=', leave_out = ["*.sh"]'))
    assert "run.sh is left out of what containers see" in str(fault)


def test_a_link_into_the_image_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "run.sh").symlink_to("/opt/of-the-image/run.sh")
    assert start_fault(_agent(tmp_path)) is None


def test_agents_of_packages_have_no_program_to_look_at() -> None:
    from pytest_benchjobs.agents.described import packaged_agents

    assert [start_fault(agent) for agent in packaged_agents()] == [None] * len(packaged_agents())


def test_a_script_with_crlf_is_told_for_an_agent_given_by_its_path_too(tmp_path: Path) -> None:
    path = _write(tmp_path, SCRIPT.replace(b"\n", b"\r\n"))
    for given in (path, path.parent):
        agent = given_agents([AgentSpec(name="mybot", path=str(given))])["mybot"]
        assert isinstance(agent, DescribedAgent)
        fault = start_fault(agent)
        assert "Windows line endings" in str(fault)


def test_doctor_and_agents_show_tell_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = _write(tmp_path, mode=0o644)
    _agent(tmp_path)
    known, problem = findings.agents()
    assert known.health is Health.OK
    expected = ("agent mybot", Health.PROBLEM, f"chmod +x {path}")
    assert (problem.check, problem.health, problem.cure) == expected
    assert run("agents", "show", "mybot") == 2
    assert "is not executable; run: chmod +x" in capsys.readouterr().err
    path.chmod(0o755)
    assert [finding.health for finding in findings.agents()] == [Health.OK]


@pytest.mark.parametrize(
    ("said", "status", "message"),
    [
        ("mybot: 1: exec: python9: not found\n", 127, "(status 127): the image has no python9"),
        ("mybot: line 0: exec: python9: not found\n", 127, "(status 127): the image has no python9"),
        ("mybot: 1: exec: python9: Permission denied\n", 126, "(status 126): the container's user may not execute python9"),
        ("mybot: 1: exec: python9: not found\n", 1, None),
        ("working\nmybot: 1: exec: python9: not found\n", 127, None),
        ("sh: 1: foo: not found\n", 127, None),
        ("", 127, None),
    ],
)  # fmt: skip
def test_what_the_shell_said_of_the_program(
    tmp_path: Path, said: str, status: int, message: str | None
) -> None:
    log = tmp_path / "agent.log"
    log.write_text(said)
    found = not_started(with_problem("mybot", "/bench/problem.md", ["python9"]), (), status, log)
    assert found == (None if message is None else f"the agent did not start {message}")


@pytest.mark.parametrize(
    ("first", "said", "lacks"),
    [
        ("/opt/venv/bin/python -u", "mybot: 1: exec: /opt/benchjobs/mybot/run.sh: not found", "/opt/venv/bin/python"),
        ("/usr/bin/env python3", "/usr/bin/env: 'python3': No such file or directory", "python3"),
        (" /usr/bin/env -S A=1 python3 -u", "/usr/bin/env: \u2018python3\u2019: No such file or directory", "python3"),
        ("/usr/bin/env python3", "env: can't execute 'python3': No such file or directory", "python3"),
        ("/usr/bin/env python3", "/usr/bin/env: 'node': No such file or directory", None),
        ("/usr/bin/env python3", "hello\n/usr/bin/env: 'python3': No such file or directory", None),
    ],
)  # fmt: skip
def test_a_script_whose_interpreter_the_image_lacks(
    tmp_path: Path, first: str, said: str, lacks: str | None
) -> None:
    _write(tmp_path, f"#!{first}\n".encode())
    log = tmp_path / "agent.log"
    log.write_text(f"{said}\n")
    argv = with_problem("mybot", "/bench/problem.md", ["/opt/benchjobs/mybot/run.sh"])
    why = f"the agent did not start (status 127): the image has no {lacks}, which the first line of {argv[5]} names"
    found = not_started(argv, (Mount(tmp_path / "bot", "/opt/benchjobs/mybot"),), 127, log)
    assert found == (why if lacks else None)
