"""The public agents can do what their descriptions say, and nothing else of what scenarios may require."""

from __future__ import annotations

import base64
import json
import struct
import zlib

import pytest

from pytest_benchjobs.agents.described import packaged_agents
from tests.agents.jobs import EACH, MCP_SERVER, MCP_TOOL, Job

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.when_changed("agents", "gateway")]

_PROMPT = "<<<LOOK: /app/picture.png>>> <<<RUN: echo hi > made.txt>>> <<<SAY: all done>>>"
_COMMAND = {"command": "perl", "args": ["/app/mcp.pl"]}
_IN_WORKDIR = {
    "mcp.pl": MCP_SERVER,
    ".mcp.json": json.dumps({"mcpServers": {"probe": _COMMAND}}),
    ".gemini/settings.json": json.dumps({"mcpServers": {"probe": _COMMAND}}),
    ".codex/config.toml": '[mcp_servers.probe]\ncommand = "perl"\nargs = ["/app/mcp.pl"]\n',
    "opencode.json": json.dumps({"mcp": {"probe": {"type": "local", "command": ["perl", "/app/mcp.pl"]}}}),
}
"""Files with which a scenario sets up an MCP server, each in the form of one agent."""


def _picture() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0" + bytes((x * 4, y * 4, 90)[c] for x in range(64) for c in range(3)) for y in range(64)
    )
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("agent", EACH)
def test_each_can_do_what_it_says(job: Job, agent: str) -> None:
    job.scenarios({"able": _PROMPT})
    files = {name: f"files/{number}" for number, name in enumerate([*_IN_WORKDIR, "picture.png"])}
    (job.path / "files").mkdir()
    for name, text in _IN_WORKDIR.items():
        (job.path / files[name]).write_text(text)
    (job.path / files["picture.png"]).write_bytes(_picture())
    manifest = json.loads((job.path / "made.bench.yaml").read_text())
    manifest["defaults"]["files"] = files
    (job.path / "made.bench.yaml").write_text(json.dumps(manifest))

    (result,) = job.run("--bench-agent", job.spec(agent))

    bodies = [json.dumps(call.body) for call in job.server.calls]
    found = {
        "shell": result["outcome"] == "passed",
        "vision": any(base64.b64encode(_picture()).decode() in body for body in bodies),
        "mcp": any(MCP_TOOL in body for body in bodies),
    }
    (said,) = (one.capabilities for one in packaged_agents() if one.name == agent)
    assert said is not None
    assert {name for name, can in found.items() if can} == said & found.keys(), job.output
