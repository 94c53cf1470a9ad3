"""What the reaper (`../reaper.py`) of a Docker Engine runs: it removes what has our label once our process has ended.

Run as a script it needs nothing but the standard library, except for engines that are not behind a unix socket: without
site-packages it starts in 10 ms and stays small.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import socket
import sys
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

_QUIT = b"q"
"""`QUIT` of `../reaper.py`: nothing of the package is imported where this is run as a script."""
_PATIENCE = 60.0
_PAUSE = 1.0
_TIMEOUT = 120.0
_KINDS = (
    ("/containers/json?all=1&", "Id", "/containers", "?force=1&v=1"),
    ("/networks?", "Id", "/networks", ""),
    ("/volumes?", "Name", "/volumes", "?force=1"),
)
"""Kinds of things: how to list them, the key of the name, how to remove one; what others depend on comes last."""


def command(host: str, label: str) -> list[str]:
    """Return what the reaper of the engine at `host`, as in DOCKER_HOST, runs, with a `label` on everything we make."""
    isolation = ["-I", "-S"] if host.startswith("unix://") else ["-I"]
    return [sys.executable, *isolation, __file__, host, label]


def open_unix(path: str, timeout: float | None) -> socket.socket:
    """Connect with the unix socket at `path`; one that does not connect is closed, by an `OSError`. Seconds."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def ask_unix(
    path: str,
    method: str,
    target: str,
    timeout: float,
    opened: Callable[[socket.socket], object] = lambda _: None,
) -> tuple[int, bytes]:
    """Send a request without a body to the engine behind the unix socket at `path`: status and body. Seconds.

    `opened` gets the connection, and may break it off. It is an `OSError` or an `HTTPException` if nobody answers.
    """
    connection = http.client.HTTPConnection("localhost")
    connection.sock = open_unix(path, timeout)
    try:
        opened(connection.sock)
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def message(body: bytes) -> str:
    """Return the engine's own words in the body of a refusal."""
    text = body.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.loads(text)["message"])
    return text[:500]


@functools.cache
def _connect(host: str) -> Callable[[str, str], bytes]:
    """Return what sends a request to the engine, by method and path, and returns the body of its answer."""
    if host.startswith("unix://"):
        return lambda method, target: ask_unix(host.removeprefix("unix://"), method, target, _TIMEOUT)[1]
    if host.startswith("ssh://"):
        sys.path.append(str(Path(__file__).parents[3]))
        from pytest_benchjobs.sandbox.docker.address import Tunnel

        tunnel = Tunnel(host)
        return lambda method, target: ask_unix(tunnel.path(), method, target, _TIMEOUT)[1]
    import docker
    import docker.utils

    client = docker.APIClient(**docker.utils.kwargs_from_env(), version="auto", timeout=int(_TIMEOUT))
    base = f"{client.base_url}/v{client.api_version}"
    return lambda method, target: client.request(method, base + target, timeout=_TIMEOUT).content


def _remove(host: str, label: str) -> int:
    """Remove what we have there, what others need last; return how many things were found."""
    request = _connect(host)
    filters = urllib.parse.urlencode({"filters": json.dumps({"label": [label]})})
    found = 0
    for listing, key, place, how in _KINDS:
        answer: Any = json.loads(request("GET", f"{listing}{filters}"))
        for one in (answer["Volumes"] or ()) if key == "Name" else answer:
            request("DELETE", f"{place}/{one[key]}{how}")
            found += 1
    return found


def _reap(host: str, label: str) -> None:
    """Remove until nothing is found twice in a row: a container may just be in the making."""
    give_up = time.monotonic() + _PATIENCE
    empty = 0
    while empty < 2 and time.monotonic() < give_up:
        try:
            empty = 0 if _remove(host, label) else empty + 1
        except Exception:  # an engine that is away may come back within our patience
            empty = 0
        time.sleep(_PAUSE)


def main(host: str, label: str) -> None:
    """Wait for the end of our maker, and tidy up unless it said that it did."""
    if sys.stdin.buffer.read(1) != _QUIT:
        _reap(host, label)


if __name__ == "__main__":
    main(*sys.argv[1:])
