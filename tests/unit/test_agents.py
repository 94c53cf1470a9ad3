"""How agents are named, and what the built-in ones do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.agents.builtin import Command, Oracle, builtin_agents
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import AgentSetupFailed, InputError
from pytest_benchjobs.model.scenario import Reference
from pytest_benchjobs.sandbox.protocol import File

from .records import trial

LONG = "echo " + "é" * 60_000
SEVERAL = "one agent is expected; for several, repeat the option, or write one on each line of the ini file"
PATH = "after '=' a path is expected, beginning with './', '../', '~/' or '/', or command:SHELL COMMAND"


@pytest.mark.parametrize(
    ("text", "spec", "label"),
    [
        ("oracle", {"name": "oracle"}, "oracle"),
        ("codex:gpt-5.5", {"name": "codex", "model": "gpt-5.5"}, "codex:gpt-5.5"),
        (" codex:org/model ", {"name": "codex", "model": "org/model"}, "codex:org/model"),
        ("codex@1.2:m", {"name": "codex", "version": "1.2", "model": "m"}, "codex@1.2:m"),
        ("a:llama:8b", {"name": "a", "model": "llama:8b"}, "a:llama:8b"),
        ("a:m@2024", {"name": "a", "model": "m@2024"}, "a:m@2024"),
        ("a:m@https://x.org/v1/", {"name": "a", "model": "m", "base_url": "https://x.org/v1/"}, "a:m@x.org/v1"),
        ("mybot=./agent", {"name": "mybot", "path": "./agent"}, "mybot"),
        ("mybot=../a/b.py:gpt-5.5", {"name": "mybot", "path": "../a/b.py", "model": "gpt-5.5"}, "mybot:gpt-5.5"),
        ("mybot=/x:a/b@http://h/v1", {"name": "mybot", "path": "/x", "model": "a/b", "base_url": "http://h/v1"}, "mybot:a/b@http://h/v1"),
        ("mybot=command:echo a:b=c", {"name": "mybot", "command": "echo a:b=c"}, "mybot"),
        ("command:A=1 ./x", {"name": "command", "model": "A=1 ./x"}, "command:A=1_./x-919f3be0"),
        ("a:m@http://localhost:8000", {"name": "a", "model": "m", "base_url": "http://localhost:8000"}, "a:m@http://localhost:8000"),
    ],
)  # fmt: skip
def test_an_agent_is_read_and_named(text: str, spec: dict[str, str], label: str) -> None:
    parsed = AgentSpec.parse(text)
    assert parsed == AgentSpec(**spec)
    assert str(parsed) == parsed.label == label


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  ", "an empty agent was given. Use format: agent:model, for example codex:gpt-5.5"),
        (":gpt", "invalid agent ':gpt': no name before ':'. Use format: agent:model"),
        ("a!b:m", "invalid agent name 'a!b': letters, digits, '.', '_', '+' and '-' only"),
        ("./pyagent", "invalid agent './pyagent': an agent of a path needs a name; write NAME=./pyagent"),
        ("~/bots/a", "invalid agent '~/bots/a': an agent of a path needs a name; write NAME=~/bots/a"),
        ("bots/a:gpt", "invalid agent 'bots/a': an agent of a path needs a name; write NAME=./bots/a"),
        ("oracle,nop", f"invalid agent 'oracle,nop': {SEVERAL}: oracle, then nop"),
        ("oracle nop", f"invalid agent 'oracle nop': {SEVERAL}: oracle, then nop"),
        ("-a:m", "invalid agent name '-a': letters, digits, '.', '_', '+' and '-' only"),
        ("a@:m", "invalid agent 'a@:m': no version after '@'. Use format: agent@version:model"),
        ("a:", "no model specified for agent 'a'. Use format: a:model"),
        ("a: ", "no model specified for agent 'a'. Use format: a:model"),
        ("mybot=agent", f"invalid agent 'mybot=agent': {PATH}. Use format: mybot=./agent"),
        ("mybot=", f"invalid agent 'mybot=': {PATH}. Use format: mybot=./my-agent"),
        ("mybot=command:", "mybot needs the shell command to run. Use format: mybot=command:SHELL COMMAND"),
        ("mybot=./x:", "no model specified for agent 'mybot'. Use format: mybot=./x:model"),
    ],
)
def test_a_wrong_agent_is_refused_in_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        AgentSpec.parse(text)
    assert str(caught.value) == message


@given(st.text() | st.from_regex(r"[a-z@:. ]{0,12}", fullmatch=True))
def test_any_text_is_an_agent_or_a_clear_error(text: str) -> None:
    try:
        spec = AgentSpec.parse(text)
    except InputError as error:
        assert str(error)
    else:
        assert spec.name


_SPECS = st.builds(
    AgentSpec,
    name=st.sampled_from(["a", "command", "codex"]),
    version=st.none() | st.sampled_from(["1", "1.2"]),
    model=st.none() | st.text(min_size=1, max_size=80) | st.sampled_from(["m", "m@x.org", "m@x", "m:x"]),
    base_url=st.none()
    | st.sampled_from(["https://x.org", "http://x.org", "https://x", "http://x", "https://x:1"]),
)


@given(_SPECS)
def test_a_label_is_safe_in_a_node_id(spec: AgentSpec) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._+:/@=,-]{1,69}|.*_.*", spec.label)
    assert "::" not in spec.label
    assert not set("[] \n\t'\"") & set(spec.label)
    assert spec.label.isascii()


@given(st.lists(_SPECS, min_size=2, max_size=8, unique=True))
def test_different_agents_have_different_labels(specs: list[AgentSpec]) -> None:
    assert len({spec.label for spec in specs}) == len(specs)


def _call(agent: str = "oracle", **changes: Any) -> AgentCall:
    scenario = trial().scenario.model_copy(update=changes)
    return AgentCall(scenario=scenario, spec=AgentSpec.parse(agent), env={}, timeout=10)


def _prepared(command: AgentCommand | None) -> AgentCommand:
    assert command is not None
    return command


def test_the_built_in_agents_are_known_by_name() -> None:
    assert [(agent.name, agent.needs_model, agent.trusted) for agent in builtin_agents()] == [
        ("oracle", False, True),
        ("nop", False, True),
        ("command", True, False),
        ("baseline", True, True),
        ("captured", False, True),
        ("model", True, False),
        ("claude-code", True, False),
        ("codex", True, False),
        ("gemini-cli", True, False),
        ("goose", True, False),
        ("opencode", True, False),
    ]


def test_oracle_runs_the_script_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HOST", "value")
    reference = Reference(script="make it", env={"A": "${FROM_HOST}", "B": "b"})
    command = _prepared(Oracle().prepare(_call(reference=reference)))
    assert command.argv[-1] == "make it"
    assert command.env == {"A": "value", "B": "b"}
    assert command.files == ()


def test_oracle_applies_the_patch_of_the_reference(tmp_path: Path) -> None:
    patch = tmp_path / "gold.patch"
    command = _prepared(Oracle().prepare(_call(reference=Reference(patch=patch))))
    assert command.files == (File("/bench/reference.patch", source=patch),)
    assert command.argv[-1].startswith("git apply ")
    assert " || patch " in command.argv[-1]


def test_oracle_runs_the_solution_of_a_task_directory(tmp_path: Path) -> None:
    command = _prepared(Oracle().prepare(_call(reference=Reference(solution=tmp_path, env={"A": "b"}))))
    assert command.files == (
        File("/solution", source=tmp_path, readable=True),
        File("/solution/solve.sh", source=tmp_path / "solve.sh", mode=0o755),
    )
    assert command.argv[-1] == "/solution/solve.sh"
    assert command.env == {"DEBIAN_FRONTEND": "noninteractive", "A": "b"}


def test_oracle_without_a_reference_says_what_to_do() -> None:
    with pytest.raises(AgentSetupFailed, match=r"'count' has no reference solution.*-k or --bench-scenario"):
        Oracle().prepare(_call())


def test_a_reference_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    with pytest.raises(InputError, match="NOT_SET_HERE"):
        Oracle().prepare(_call(reference=Reference(script=":", env={"A": "${NOT_SET_HERE}"})))


def test_command_runs_what_is_behind_the_colon() -> None:
    command = _prepared(Command().prepare(_call("command:echo a:b | tee c")))
    assert command.argv[0] == "/bin/sh"
    assert command.argv[-1] == "echo a:b | tee c"
    assert command.env == {}


@pytest.mark.parametrize("agent", ["oracle", "command"])
def test_a_script_too_long_for_an_argument_comes_as_a_file(agent: str) -> None:
    made = Oracle() if agent == "oracle" else Command()
    spec = "oracle" if agent == "oracle" else f"command:{LONG}"
    command = _prepared(made.prepare(_call(spec, reference=Reference(script=LONG))))
    assert [file.content for file in command.files] == [LONG.encode()]
    assert sum(len(argument.encode()) for argument in command.argv) < 1000
    assert command.files[0].path in command.argv[-1]
