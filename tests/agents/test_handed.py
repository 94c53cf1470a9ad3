"""What a scenario hands its agent: MCP servers, whose tools are really called, and skills; and a network with a list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.jobs import AGENTS, EACH, MCP_SERVER, MCP_TOOL, Job

pytestmark = [pytest.mark.docker, pytest.mark.slow]

# The same by streamable HTTP, each answer one document.
_HTTP_SERVER = (
    MCP_SERVER.replace("while (<STDIN>) {", "sub answer { $_ = shift;")
    .replace("next unless", "return undef unless")
    .replace("print '{\"jsonrpc", "return '{\"jsonrpc")
    .replace('. "}\\n";', '. "}";')
    + r"""
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8321, Listen => 9, ReuseAddr => 1) or die;
exit if fork;
while (my $client = $server->accept) {
    next if fork;
    while (my $request = <$client>) {
        my $length = 0;
        while (my $line = <$client>) {
            last if $line =~ /^\r?\n$/;
            $length = $1 if $line =~ /^content-length:\s*(\d+)/i;
        }
        read($client, my $body, $length) if $length;
        my $said = $request =~ /^POST/ ? answer($body) : undef;
        my $status = $said ? "200 OK" : $request =~ /^POST/ ? "202 Accepted" : "405 Method Not Allowed";
        $said //= "";
        print $client "HTTP/1.1 $status\r\nContent-Type: application/json\r\nContent-Length: "
            . length($said) . "\r\n\r\n$said";
    }
    exit;
}
"""
)
_SEARCHING = ("claude-code", "codex")
"""Agents that offer tools of servers to those who look for them."""
_SKILL = """---
name: greet-kindly
description: Writes a kind greeting, in the way of quuxland.
---

Write hi to made.txt.
"""
_SKILLS = 'mkdir -p "/opt/my skills/greet-kindly" && cp /app/skill.md "/opt/my skills/greet-kindly/SKILL.md"'


def _scenarios(job: Job, scenarios: dict[str, dict[str, Any]]) -> None:
    job.scenarios({name: keys.pop("prompt") for name, keys in scenarios.items()})
    given = {"mcp.pl": MCP_SERVER, "http.pl": _HTTP_SERVER, "skill.md": _SKILL}
    for name, text in given.items():
        (job.path / name).write_text(text)
    manifest = json.loads((job.path / "made.bench.yaml").read_text())
    manifest["defaults"] |= {"files": {name: name for name in given}, "carry": ["/tmp/called"]}
    for scenario in manifest["scenarios"]:
        scenario |= scenarios[scenario["id"]]
    (job.path / "made.bench.yaml").write_text(json.dumps(manifest))


def _called(by: str) -> list[dict[str, str]]:
    """A scorer that sees whether a server was called, and the rest done."""
    script = f'test "$(cat /tmp/called)" = "{by}" && test "$(cat made.txt)" = hi && echo 1 || echo 0'
    return [{"name": "made", "type": "bash", "script": script}]


@pytest.mark.parametrize("agent", EACH)
def test_an_agent_uses_what_it_is_handed(job: Job, agent: str) -> None:
    """Tools of servers here and elsewhere, skills, and its model beside the proxy of an allowlist."""
    find = f"<<<FIND: {MCP_TOOL}>>>" if agent in _SEARCHING else ""
    call = f"{find} <<<CALL: {MCP_TOOL}>>> <<<RUN: echo hi > made.txt>>> <<<SAY: all done>>>"
    _scenarios(
        job,
        {
            "here": {
                "prompt": call,
                "mcp_servers": [{"name": "probe", "command": "perl", "args": ["/app/mcp.pl", "an argument"]}],
                "scorers": _called("an argument"),
            },
            "elsewhere": {
                "prompt": call,
                "mcp_servers": [{"name": "probe", "url": "http://127.0.0.1:8321/mcp"}],
                "setup": ["setsid perl /app/http.pl there </dev/null >/dev/null 2>&1"],
                "scorers": _called("there"),
            },
            "skills": {
                "prompt": "<<<RUN: echo hi > made.txt>>> <<<SAY: all done>>>",
                "setup": [_SKILLS],
                "skills_dir": "/opt/my skills",
            },
            "allowlist": {
                "prompt": "<<<RUN: printenv https_proxy > proxy.txt; echo hi > made.txt>>> <<<SAY: all done>>>",
                "network": "allowlist",
                "allowed_hosts": ["nobody.example"],
                "artifacts": ["proxy.txt"],
            },
        },
    )
    found = {
        one["scenario"]: one for one in job.run("--bench-agent", job.spec(agent), "--bench-concurrency=4")
    }
    ends = {name: (one["outcome"], one["score"]) for name, one in found.items()}
    assert ends == dict.fromkeys(("here", "elsewhere", "skills", "allowlist"), ("passed", 1.0)), job.output
    bodies = " ".join(json.dumps(call.body) for call in job.server.calls)
    for said in ("it is frobnicated by an argument", "it is frobnicated by there", "in the way of quuxland"):
        assert said in bodies, (said, job.output)
    listed = found["allowlist"]
    kept = job.path / "reports/jobs" / listed["job"] / listed["path"] / "artifacts/proxy.txt"
    assert kept.read_text() == "http://127.0.0.1:4181\n"
    assert not [note for note in listed["notes"] if "refused" in note], listed["notes"]


def test_an_agent_without_mcp_is_told_so(job: Job) -> None:
    servers = [{"name": "probe", "transport": "sse", "url": "http://127.0.0.1:1/sse"}]
    _scenarios(job, {"handed": {"prompt": "Do it.", "mcp_servers": servers}})
    found = job.run("--bench-agent", job.spec("codex"), "--bench-agent", job.spec("model"))
    said = {result["agent"]["name"]: result["failure"] for result in found}
    assert {failure["class"] for failure in said.values()} == {"unsupported"}
    assert (
        "codex takes no MCP server of transport sse (probe), only stdio and http" in said["codex"]["message"]
    )
    assert "model takes none" in said["model"]["message"]


def test_every_agent_is_described() -> None:
    from pytest_benchjobs.agents.described import packaged_agents

    for agent in packaged_agents():
        assert agent.name in AGENTS
        assert agent.description.mcp is not None
        assert agent.description.skills is not None
