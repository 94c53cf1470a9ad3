"""A small process that outlives ours and removes what we have in the engine when we die without doing so.

It blocks on a pipe whose only writer is our process. The kernel closes the pipe when we end, however we end, and the
reaper then removes what carries our label. Run as a script it needs nothing but the standard library, except for
engines that are not behind a unix socket.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

_QUIT = b"q"
_PATIENCE = 60.0
_PAUSE = 1.0
_TIMEOUT = 120.0


class Reaper:
    """Our end of the pipe.

    Args:
        host: The engine, as in DOCKER_HOST.
        label: `key=value` on everything we make.
    """

    def __init__(self, host: str, label: str) -> None:
        self._host = host
        self._label = label
        self._lock = threading.Lock()
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs already."""
        from ...model.environ import program_environment  # not where this file is run as a script

        with self._lock:
            if self._process is not None:
                return
            # Without site-packages it starts in 10 ms and stays small; only the client library lives there.
            isolation = ["-I", "-S"] if self._host.startswith("unix://") else ["-I"]
            reading, writing = os.pipe()
            try:
                self._process = subprocess.Popen(
                    [sys.executable, *isolation, __file__, self._host, self._label],
                    stdin=reading,
                    # Whoever waits for the end of our output must not wait for the reaper.
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    # It outlives us, so what it has of our environment does, too.
                    env=program_environment("DOCKER_", "SSH_AUTH_SOCK"),
                    # Ctrl-C is for us, not for it.
                    start_new_session=True,
                )
            except BaseException:
                os.close(writing)
                raise
            finally:
                os.close(reading)
            self._pipe = writing

    def close(self, *, nothing_left: bool) -> None:
        """Send it home, or, when something is left, to work."""
        with self._lock:
            if self._pipe is None or self._process is None:
                return
            if nothing_left:
                with contextlib.suppress(OSError):
                    os.write(self._pipe, _QUIT)
            os.close(self._pipe)
            self._pipe = None
            try:
                self._process.wait(timeout=2 if nothing_left else 0.01)
            except subprocess.TimeoutExpired:
                # It goes on without us, as it is meant to; there is nobody to wait for it.
                self._process.returncode = 0
            self._process = None


def open_unix(path: str, timeout: float | None) -> socket.socket:
    """Connect with the unix socket at `path`; one that does not connect is closed. Seconds.

    Raises:
        OSError: nobody answers.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float, opened: Callable[[socket.socket], object]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._opened = opened

    def connect(self) -> None:
        self.sock = open_unix(self._path, self.timeout)
        self._opened(self.sock)


def ask_unix(
    path: str,
    method: str,
    target: str,
    timeout: float,
    opened: Callable[[socket.socket], object] = lambda _: None,
) -> tuple[int, bytes]:
    """Send a request without a body to the engine behind the unix socket at `path`: status and body. Seconds.

    `opened` gets the connection, and may break it off.

    Raises:
        OSError, http.client.HTTPException: it does not answer.
    """
    connection = _UnixConnection(path, timeout, opened)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def message(body: bytes) -> str:
    """Return the engine's own words in the body of a refusal, which may be chunked."""
    text = body.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1])["message"])
    return text[:500]


class _UnixEngine:
    def __init__(self, path: str) -> None:
        self._path = path

    def list(self, label: str) -> list[tuple[str, str]]:
        """Return kinds and ids of all we have there, what others need last."""
        found = [("containers", one["Id"]) for one in self._get("containers/json", label, all="1")]
        found += [("networks", one["Id"]) for one in self._get("networks", label)]
        return found + [("volumes", one["Name"]) for one in self._get("volumes", label)["Volumes"] or ()]

    def remove(self, kind: str, name: str) -> None:
        query = {"containers": "?force=1&v=1", "networks": "", "volumes": "?force=1"}[kind]
        ask_unix(self._path, "DELETE", f"/{kind}/{name}{query}", _TIMEOUT)

    def _get(self, path: str, label: str, **query: str) -> Any:
        written = urllib.parse.urlencode({**query, "filters": json.dumps({"label": [label]})})
        return json.loads(ask_unix(self._path, "GET", f"/{path}?{written}", _TIMEOUT)[1])


class _RemoteEngine:
    def __init__(self) -> None:
        import docker
        import docker.utils

        self._client = docker.APIClient(**docker.utils.kwargs_from_env(), version="auto")

    def list(self, label: str) -> list[tuple[str, str]]:
        """Return kinds and ids of all we have there, what others need last."""
        filters = {"label": label}
        found = [("containers", one["Id"]) for one in self._client.containers(all=True, filters=filters)]
        found += [("networks", one["Id"]) for one in self._client.networks(filters=filters)]
        volumes = self._client.volumes(filters=filters)["Volumes"] or ()
        return found + [("volumes", one["Name"]) for one in volumes]

    def remove(self, kind: str, name: str) -> None:
        if kind == "containers":
            self._client.remove_container(name, force=True, v=True)
        elif kind == "networks":
            self._client.remove_network(name)
        else:
            self._client.remove_volume(name, force=True)


def _reap(host: str, label: str) -> None:
    """Remove until nothing is found twice in a row: a container may just be in the making."""
    give_up = time.monotonic() + _PATIENCE
    empty = 0
    while empty < 2 and time.monotonic() < give_up:
        try:
            engine = _UnixEngine(host[len("unix://") :]) if host.startswith("unix://") else _RemoteEngine()
            found = engine.list(label)
            for kind, name in found:
                engine.remove(kind, name)
            empty = 0 if found else empty + 1
        except Exception:  # an engine that is away may come back within our patience
            empty = 0
        time.sleep(_PAUSE)


def main(host: str, label: str) -> None:
    """Wait for the end of our maker, and tidy up unless it said that it did."""
    if sys.stdin.buffer.read(1) != _QUIT:
        _reap(host, label)


if __name__ == "__main__":
    main(*sys.argv[1:])
