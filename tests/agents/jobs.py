"""Jobs of real agents against the scripted model server: how they are called, and what came of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agents.server import ModelServer
from tests.support import IMAGE, results, run

AGENTS = ("claude-code", "codex", "gemini-cli", "goose", "opencode")
EACH = [name if name == "codex" else pytest.param(name, marks=pytest.mark.extended) for name in AGENTS]
"""For tests of each agent. One of them is enough for every day; all of them solve something in `test_solving.py`."""
MODELS = {
    "claude-code": "claude-sonnet-4-5",
    "codex": "gpt-5.5",
    "gemini-cli": "gemini-2.5-pro",
    "goose": "gpt-5.5",
    "opencode": "claude-sonnet-4-5",
    "model": "fake-model",
}
KEYS = {
    "ANTHROPIC_API_KEY": "canary-anthropic-0123456789",
    "OPENAI_API_KEY": "canary-openai-0123456789",
    "GEMINI_API_KEY": "canary-gemini-0123456789",
}


NAMED = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY"}


MCP_TOOL = "frobnicate"
# It leaves a trace of each call, and says something that only it says. Perl is in every Debian.
MCP_SERVER = r"""
$| = 1;
while (<STDIN>) {
    next unless /"id"\s*:\s*("[^"]*"|\d+)/;
    my $id = $1;
    my ($method) = /"method"\s*:\s*"([^"]+)"/;
    my ($version) = /"protocolVersion"\s*:\s*"([^"]+)"/;
    my $result;
    if ($method eq "initialize") {
        $result = '{"protocolVersion":"' . $version . '","capabilities":{"tools":{}},'
            . '"serverInfo":{"name":"probe","version":"1"}}';
    } elsif ($method eq "tools/list") {
        $result = '{"tools":[{"name":"TOOL","description":"Frobnicates.",'
            . '"inputSchema":{"type":"object","properties":{}}}]}';
    } elsif ($method eq "tools/call") {
        open(my $trace, ">>", "/tmp/called") or die; print $trace "$ARGV[0]\n"; close $trace;
        $result = '{"content":[{"type":"text","text":"it is frobnicated by ' . $ARGV[0] . '"}]}';
    }
    print '{"jsonrpc":"2.0","id":' . $id
        . ($result ? ',"result":' . $result : ',"error":{"code":-32601,"message":"no such method"}') . "}\n";
}
""".replace("TOOL", MCP_TOOL)


@dataclasses.dataclass
class Job:
    """A directory in which jobs run, and the server their agents' models are on."""

    path: Path
    server: ModelServer

    def scenarios(
        self, prompts: dict[str, str], *, timeout: float = 600, timeouts: Mapping[str, float] | None = None
    ) -> None:
        """One scenario for each prompt. It is solved when made.txt says hi. Some may have another time than most."""
        timeouts = timeouts or {}
        manifest = {
            "benchmark": "made",
            "defaults": {
                "image": IMAGE,
                "workdir": "/app",
                "agent_timeout": timeout,
                "network": "none",
                "scorers": [
                    {
                        "name": "made",
                        "type": "bash",
                        "script": 'test "$(cat made.txt)" = hi && echo 1 || echo 0',
                    }
                ],
            },
            "scenarios": [
                {"id": name, "problem_statement": prompt, "agent_timeout": timeouts.get(name, timeout)}
                for name, prompt in prompts.items()
            ],
        }
        (self.path / "made.bench.yaml").write_text(json.dumps(manifest))

    def spec(self, agent: str, model: str | None = None, url: str | None = None) -> str:
        """The agent with its model at the server."""
        name = model or MODELS[agent]
        wire = "/v1" if agent in ("codex", "goose", "model") else ""
        return f"{agent}:{name}@{url or self.server.url}{wire}"

    def run(self, *arguments: str, timeout: float = 300, **env: str) -> list[dict[str, Any]]:
        """Run all scenarios; the results of the newest job."""
        # The server is at an address of its own: no key goes there but one that was named for it.
        named = (f"--bench-param={name}_key_variable={variable}" for name, variable in NAMED.items())
        done = run(self.path, "made.bench.yaml", *arguments, *named, timeout=timeout, **{**KEYS, **env})
        assert done.returncode in (0, 1, 13), done.stdout
        self.output = done.stdout
        self.status = done.returncode
        found = results(self.path)
        newest = max(result["job"] for result in found)
        return [result for result in found if result["job"] == newest]


def used(result: dict[str, Any]) -> dict[str, Any]:
    """Tokens and calls of a result."""
    return {name: value for name, value in result["usage"].items() if name not in ("cost_usd", "source")}
