"""Reaching a cluster: kubeconfig, credentials and TLS by lightkube; connections by its HTTP client.

Imported when a cluster is first called: the libraries take a tenth of a second.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path

import httpx2
import msgspec
import yaml
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User, UserExec
from lightkube.core.exceptions import ConfigError

from ...model.errors import EngineUnavailable
from ...system.cutting import beginning_of

BROKEN = (httpx2.TransportError, httpx2.StreamError)
"""What the client raises when an answer does not come, or not whole."""
_UNREADABLE = (
    ConfigError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    yaml.YAMLError,
    msgspec.MsgspecError,
)
_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 60_000))
"""A line that is cut is noticed after 35 seconds while nothing is sent, and after 60 while something is."""
_PLUGIN_TIMEOUT = 60
_SHOWN = 500
_UNAUTHORIZED = 401


@dataclasses.dataclass(frozen=True, slots=True)
class Reached:
    """A cluster that can be called."""

    client: httpx2.Client
    server: str
    namespace: str


def reach(kubeconfig: str | None, context: str | None, namespace: str | None) -> Reached:
    """Read who and where the cluster is; nothing is called. None: by `KUBECONFIG`, `~/.kube/config`, or as a Pod in it.

    Raises EngineUnavailable: nothing leads to one.
    """
    try:
        config = _config(kubeconfig, context)
        user = config.user or User()
        verify = client_adapter.verify_cluster(config.cluster, user, config.abs_file)
        # Python 3.13 asks more of certificates than kubectl does, and than many clusters' have.
        verify.verify_flags &= ~ssl.VERIFY_X509_STRICT
        auth = _Plugin(user.exec, config) if user.exec else client_adapter.user_auth(user)
        # Each stream of a command keeps a connection.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        server = config.cluster.server
        headers = {"User-Agent": "pytest-benchjobs"}
        client = httpx2.Client(base_url=server, verify=verify, auth=auth, limits=limits, headers=headers)
    except _UNREADABLE as error:
        where = kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG
        raise EngineUnavailable(
            f"no cluster is known by {where} ({type(error).__name__}: {error}): "
            "set KUBECONFIG to a file with which `kubectl get pods` works"
        ) from error
    return Reached(client, server, namespace or config.namespace)


def _config(kubeconfig: str | None, context: str | None) -> SingleConfig:
    """Return the context that is wanted, from the first file that has it."""
    named = kubeconfig or os.environ.get("KUBECONFIG")
    if not named and not Path(DEFAULT_KUBECONFIG).expanduser().exists() and Path(SERVICE_ACCOUNT).exists():
        return _found(KubeConfig.from_service_account().get(context))
    several = [kubeconfig] if kubeconfig else (named or DEFAULT_KUBECONFIG).split(os.pathsep)
    there = [name for name in several if name and Path(name).expanduser().exists()] or several[:1]
    files = [KubeConfig.from_file(name) for name in there]
    wanted = context or next((file.current_context for file in files if file.current_context), None)
    return _found(next((file for file in files if wanted in file.contexts), files[0]).get(wanted))


def _found(config: SingleConfig | None) -> SingleConfig:
    if config is None:
        raise ConfigError("no context is set")
    return config


def timeout(silence: float) -> httpx2.Timeout:
    """Return how long a call may be silent (seconds)."""
    return httpx2.Timeout(silence, connect=10, pool=None)


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel notice that a line was cut."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def socket_of(answer: httpx2.Response) -> socket.socket:
    """Return the connection that an answer comes through."""
    connection: socket.socket = answer.extensions["network_stream"].get_extra_info("socket")
    return connection


class _Plugin(httpx2.Auth):
    """Credentials from a program that the kubeconfig names.

    It is run once for all threads, and again when the cluster does not know its token any more. lightkube's own would
    be run by each thread, for ever, and not for version v1.
    """

    def __init__(self, run: UserExec, config: SingleConfig) -> None:
        has_place = os.sep in run.command
        self._command = [str(config.abs_file(run.command)) if has_place else run.command, *(run.args or ())]
        info = {"apiVersion": run.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
        self._variables = {"KUBERNETES_EXEC_INFO": json.dumps(info)}
        self._variables |= {one.name: one.value for one in run.env or ()}
        self._hint = run.installHint or "run it by hand"
        self._lock = threading.Lock()
        self._token: str | None = None

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the token; a new one, if it is refused."""
        token = self._other_than(None)
        request.headers["Authorization"] = f"Bearer {token}"
        answer = yield request
        if answer.status_code == _UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {self._other_than(token)}"
            yield request

    def _other_than(self, old: str | None) -> str:
        with self._lock:
            if self._token is None or self._token == old:
                self._token = self._run()
            return self._token

    def _run(self) -> str:
        said = b""
        try:
            done = subprocess.run(
                self._command,
                env={**os.environ, **self._variables},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PLUGIN_TIMEOUT,
                check=False,
            )
            said = done.stderr
            return str(json.loads(done.stdout)["status"]["token"])
        except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError) as error:
            told = beginning_of(said.decode("utf-8", "replace").strip(), _SHOWN) or repr(error)
            raise EngineUnavailable(
                f"{self._command[0]}, which the kubeconfig names, gives no token for the cluster ({told}): {self._hint}"
            ) from error


@contextlib.contextmanager
def as_broken() -> Generator[None, None, None]:
    """Raise what is wrong with an answer as a ConnectionError."""
    try:
        yield
    except BROKEN as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
