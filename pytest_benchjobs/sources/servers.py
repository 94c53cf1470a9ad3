"""Servers of the Model Context Protocol, as manifests and Harbor tasks write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from ..model.scenario import McpServer
from .written import WrittenMcpServer


def faults_of_servers(servers: Sequence[WrittenMcpServer]) -> Iterator[tuple[int, str]]:
    """Yield mistakes: the number of the server, and what is wrong."""
    names: dict[str, int] = {}
    for index, server in enumerate(servers):
        if names.setdefault(server.name, index) != index:
            yield index, f"{server.name!r} is already the name of another server"
        if server.command is not None and server.url is not None:
            yield index, "has both command and url; give the one that its transport needs"
        elif transport_of(server) == "stdio":
            if server.command is None:
                yield index, "command: is required but missing for the transport 'stdio'"
        elif server.url is None:
            yield (
                index,
                f"url: is required but missing for the transport {server.transport or 'streamable-http'!r}",
            )
        elif not _is_url(server.url):
            yield index, f"url: {server.url!r} is not a URL such as http://127.0.0.1:8000/mcp"
        if server.args and server.command is None:
            yield index, "args: have no effect without command"


def transport_of(server: WrittenMcpServer) -> str:
    """Return `stdio`, `http` or `sse`."""
    if server.transport is None:
        return "stdio" if server.command is not None else "http"
    return "http" if server.transport == "streamable-http" else server.transport


def mcp_server(server: WrittenMcpServer) -> McpServer:
    """Return a server that has no mistakes."""
    return McpServer.model_validate(
        {
            "name": server.name,
            "transport": transport_of(server),
            "command": server.command,
            "args": tuple(server.args),
            "url": server.url,
        }
    )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not any(map(str.isspace, text))
    except ValueError:
        return False
