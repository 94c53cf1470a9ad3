"""What a described agent is handed: MCP servers in its own form, skills at a place of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.builtin import Command, Nop, Oracle
from pytest_benchjobs.agents.capabilities import check_handed
from pytest_benchjobs.agents.described import DescribedAgent
from pytest_benchjobs.agents.model_agent import ModelAgent
from pytest_benchjobs.agents.protocol import AgentCall
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import AgentLacks
from pytest_benchjobs.model.scenario import Environment, McpServer, Scenario
from pytest_benchjobs.trial.signature import _Parts

from .records import scenario_of

SERVERS = (
    McpServer(name="own", transport="stdio", command="/srv/a server", args=("-v", 'say "hi"')),
    McpServer(name="other", transport="stdio", command="b"),
    McpServer(name="far", transport="http", url="http://far:1/mcp?a=b&c"),
)
AGENT = """
name = "mine"
argv = ["run"]
skills = "{state}/skills"
[mcp]
argv = ["--config", "{state}/servers.json"]
[mcp.stdio]
argv = ["--server", "{server}={server_line}", "-c", "x.{server}={server_args_json}"]
[mcp.stdio.files."servers.json".servers."{server}"]
command = "{server_argv}"
args = "{server_args}"
[mcp.http]
env = { SERVERS = { "{server}" = "{server_url}" } }
"""


def scenario(**environment: Any) -> Scenario:
    return scenario_of(environment=Environment(image="i", **environment))


def agent(path: Path, text: str = AGENT) -> DescribedAgent:
    (path / "mine.agent.toml").write_text(text)
    return DescribedAgent.of_file(path / "mine.agent.toml")


def prepared(described: DescribedAgent, *servers: McpServer) -> Any:
    return described.prepare(
        AgentCall(scenario(mcp_servers=servers), AgentSpec(name="mine"), env={}, timeout=1.0)
    )


def test_each_server_has_the_settings_of_its_transport(tmp_path: Path) -> None:
    command = prepared(agent(tmp_path), *SERVERS)
    assert command.argv[-10:] == (
        "--config", "/bench/agent/servers.json", "--server", "own='/srv/a server' -v 'say \"hi\"'", "-c",
        'x.own=["-v", "say \\"hi\\""]', "--server", "other=b", "-c", "x.other=[]",
    )  # fmt: skip
    assert json.loads(command.env["SERVERS"]) == {"far": "http://far:1/mcp?a=b&c"}
    (file,) = (file for file in command.files if file.path.endswith("servers.json"))
    assert json.loads(file.content) == {
        "servers": {
            "own": {"command": ["/srv/a server", "-v", 'say "hi"'], "args": ["-v", 'say "hi"']},
            "other": {"command": ["b"], "args": []},
        }
    }
    assert command.skills == "/bench/agent/skills"


def test_without_servers_nothing_is_added(tmp_path: Path) -> None:
    command = prepared(agent(tmp_path))
    assert (command.argv[-1], dict(command.env)) == ("run", {})


def test_a_transport_that_an_agent_does_not_take_is_named(tmp_path: Path) -> None:
    server = McpServer(name="old", transport="sse", url="http://x/sse")
    with pytest.raises(
        AgentLacks, match=r"mine takes no MCP server of transport sse \(old\), only stdio and http;"
    ):
        prepared(agent(tmp_path), server)


HANDED = scenario(mcp_servers=SERVERS, skills_dir="/skills")


@pytest.mark.parametrize("taker", [Oracle(), Nop(), Command()])
def test_who_needs_nothing_or_is_unknown_may_have_it(taker: Any) -> None:
    check_handed(HANDED, taker)


def test_who_declares_neither_is_refused() -> None:
    with pytest.raises(AgentLacks, match="has MCP servers and skills for its agent, and model takes none"):
        check_handed(HANDED, ModelAgent())
    with pytest.raises(AgentLacks, match="has skills for its agent"):
        check_handed(scenario(skills_dir="/skills"), ModelAgent())
    check_handed(scenario(), ModelAgent())
    check_handed(scenario(skills_if_there="/harbor/skills"), ModelAgent())


def test_a_result_is_reused_only_with_the_same_servers_and_skills() -> None:
    def environment(of: Scenario) -> dict[str, Any]:
        return _Parts(of, {}, {}, {}).environment()

    plain = environment(scenario())
    assert plain == environment(scenario(skills_if_there="/harbor/skills"))
    assert not {"mcp_servers", "skills_dir", "skills_if_there"} & plain.keys()
    changed = [
        scenario(skills_dir="/a"), scenario(skills_dir="/b"), scenario(mcp_servers=SERVERS[:1]), HANDED,
    ]  # fmt: skip
    assert len({json.dumps(environment(one), sort_keys=True) for one in changed}) == 4
