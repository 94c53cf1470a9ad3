"""What agents say they can do, held against what scenarios require."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.builtin import Command, builtin_agents
from pytest_benchjobs.agents.capabilities import capabilities_of, incompatibility
from pytest_benchjobs.agents.described import DescribedAgent
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.scenario import Requires, Scenario

from .records import trial


@dataclasses.dataclass(frozen=True)
class Able(Command):
    name: str = "able"
    capabilities: Any = None


def _requiring(*names: str) -> Scenario:
    return trial().scenario.model_copy(update={"requires": Requires(capabilities=names)})


@pytest.mark.parametrize(
    ("has", "required", "why"),
    [
        ({"shell", "vision"}, ("vision",), None),
        ({"shell"}, (), None),
        ({"shell"}, ("vision",), "incompatible: able has no vision"),
        ({"shell"}, ("mcp", "shell", "vision", "mcp"), "incompatible: able has no mcp and no vision"),
        (set(), ("shell",), "incompatible: able has no shell"),
        (None, ("vision", "mcp"), None),
    ],
)
def test_an_agent_is_incompatible_only_where_it_is_known_to_lack_something(
    has: set[str] | None, required: tuple[str, ...], why: str | None
) -> None:
    agent = Able(capabilities=None if has is None else frozenset(has))
    assert incompatibility(_requiring(*required), agent) == why


@pytest.mark.parametrize(
    "said", ["vision", ["Vision"], [1], [["vision"]], 7, [""], ["a" * 61], ["two words"]]
)
def test_what_is_no_set_of_capabilities_is_refused(said: object) -> None:
    with pytest.raises(InputError, match="agent 'able': `capabilities` must be a set of lower-case strings"):
        capabilities_of(Able(capabilities=said))


def test_of_what_comes_with_the_package_only_what_is_certain_is_said() -> None:
    known = {agent.name: capabilities_of(agent) for agent in builtin_agents()}
    code = {f"code.{what}" for what in ("read", "write", "edit", "search", "shell")}
    handed = {"mcp-servers", "skills"}
    assert known["model"] == {"shell", *code}
    assert known["codex"] == known["goose"] == {"shell", "vision", *handed, *code}
    for name in ("claude-code", "gemini-cli", "opencode"):
        assert known[name] == {"shell", "vision", "mcp", *handed, *code}, name
    for name in ("oracle", "nop", "command", "baseline", "captured"):
        assert known[name] is None, name


def test_a_list_or_a_description_says_it(tmp_path: Path) -> None:
    assert capabilities_of(Able(capabilities=["vision", "x.y-z_1"])) == {"vision", "x.y-z_1"}
    path = tmp_path / "mine.agent.toml"
    path.write_text('name = "mine"\nargv = ["mine"]\ncapabilities = ["shell", "vision"]\n')
    assert capabilities_of(DescribedAgent.of_file(path)) == {"shell", "vision"}
    path.write_text('name = "mine"\nargv = ["mine"]\n')
    assert capabilities_of(DescribedAgent.of_file(path)) is None
