"""Where the engine is: the address that DOCKER_HOST names, or the current context of Docker's own client.

An engine at an ssh:// address is reached through one `ssh` for each process, which forwards a socket of this machine to
that of the engine. It ends with this process, however that ends, and is started again where the connection broke.

Only contexts need the engine's client library.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ...system.temporary import temporary_directory

_NAMES = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
DEFAULT_HOST = "unix:///var/run/docker.sock"
_SOCKET = "/var/run/docker.sock"
_PATIENCE = 30.0
_LOOK = 0.02
_AGAIN, _SOON = 5.0, 0.5
"""Seconds before ssh is started again that did not connect, and that was cut while it did: the way may be bad."""
_CUT = re.compile(r"Connection (closed|reset) by ")
_OPTIONS = (
    "BatchMode=yes", "ExitOnForwardFailure=yes", "ServerAliveInterval=10", "ServerAliveCountMax=3", "ControlPath=none",
    "ConnectTimeout=20", "StreamLocalBindMask=0177",
)  # fmt: skip


class NoAddress(OSError):
    """The message says what is wrong with the address, or why nothing answers there."""


def address() -> Mapping[str, str]:
    """Return variables of the environment that name the engine: DOCKER_HOST, and how its connections are encrypted.

    Raises:
        NoAddress: the current context cannot be read.
    """
    # No others: DOCKER_AUTH_CONFIG of a CI system holds passwords, and these go to programs.
    named = {name: value for name in _NAMES if (value := os.environ.get(name)) is not None}
    if not named.get("DOCKER_HOST") and (context := os.environ.get("DOCKER_CONTEXT") or _current_context()):
        named = _of_context(context)
    return named | {"DOCKER_HOST": named.get("DOCKER_HOST") or DEFAULT_HOST}


def _current_context() -> str | None:
    """Return the context that Docker's client would take, without a look at what it is."""
    # What is wrong with the file, Docker's own client says.
    with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
        path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
        name = json.loads(path.read_bytes()).get("currentContext")
        return str(name) if name and name != "default" else None
    return None


def _of_context(name: str) -> dict[str, str]:
    from docker.context import ContextAPI

    if name == "default":
        return {}
    try:
        context = ContextAPI.get_context(name)
    except Exception as error:  # the library raises just that
        raise NoAddress(f"the Docker context {name!r} cannot be read: {error}") from error
    if context is None or not context.Host:
        raise NoAddress(f"there is no Docker context {name!r} with an engine: see `docker context ls`")
    found = {"DOCKER_HOST": str(context.Host)}
    if (tls := context.TLSConfig) is not None and (certificate := tls.ca_cert or (tls.cert or ("",))[0]):
        found |= {
            "DOCKER_CERT_PATH": str(Path(certificate).parent),
            "DOCKER_TLS_VERIFY": "1" if tls.verify else "",
        }
    return found


class Tunnel:
    """A socket of this machine that leads to the engine at an ssh:// address. Thread-safe."""

    def __init__(self, host: str) -> None:
        try:
            parts = urlsplit(host)
            port = ("-p", str(parts.port)) if parts.port else ()
        except ValueError as error:
            raise NoAddress(f"DOCKER_HOST={host} is no address: {error}") from None
        # As it is written: ssh tells capitals apart.
        place = parts.netloc if parts.port is None else parts.netloc.rpartition(":")[0]
        if not parts.hostname or place.startswith("-"):
            raise NoAddress(
                f"DOCKER_HOST={host} names no machine; it is ssh://USER@MACHINE, or ssh://USER@MACHINE:PORT"
            )
        self._lock = threading.Lock()
        self._exit = contextlib.ExitStack()
        self._path = self._exit.enter_context(temporary_directory("ssh", for_sockets=True)) / "engine"
        options = (part for option in _OPTIONS for part in ("-o", option))
        there = parts.path if parts.path not in ("", "/") else _SOCKET
        # What runs there ends when we do, however we end: then its input does.
        self._command = ("ssh", *options, *port, "-T", "-L", f"{self._path}:{there}", "--", place, "cat")
        self._process: subprocess.Popen[bytes] | None = None
        self._trouble: tuple[float, NoAddress] | None = None
        """When it may be tried again, and why it did not connect."""

    def path(self) -> str:
        """Return the path of the socket; `ssh` is started, or started again, where it does not run.

        Raises:
            NoAddress: ssh cannot be started, or does not connect; the message has its own words. Caused by a
                ConnectionResetError where the connection was cut.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                if self._trouble is not None and time.monotonic() < self._trouble[0]:
                    error = self._trouble[1]
                    raise NoAddress(str(error)) from error.__cause__
                self._end()
                try:
                    self._start()
                except NoAddress as error:
                    again = _SOON if isinstance(error.__cause__, ConnectionResetError) else _AGAIN
                    self._trouble = (time.monotonic() + again, error)
                    raise
        return str(self._path)

    def close(self) -> None:
        """End it. Never raises."""
        with self._lock:
            self._end()
            self._trouble = (math.inf, NoAddress("the way to the Docker Engine is closed"))
            self._exit.close()

    def _start(self) -> None:
        self._path.unlink(missing_ok=True)
        with tempfile.TemporaryFile() as words:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=words,
                    # Ctrl-C is for us, not for it.
                    start_new_session=True,
                )
            except OSError as error:
                raise NoAddress(f"{self._command[0]} cannot be started: {error.strerror}") from error
            deadline = time.monotonic() + _PATIENCE
            while not self._path.exists():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._end()
                    words.seek(0)
                    said = " ".join(words.read(2000).decode("utf-8", "replace").split()) or "it says nothing"
                    what = f"`{shlex.join(('ssh', self._command[-2]))}` does not connect: {said}"
                    raise NoAddress(what) from (ConnectionResetError(said) if _CUT.search(said) else None)
                time.sleep(_LOOK)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None
