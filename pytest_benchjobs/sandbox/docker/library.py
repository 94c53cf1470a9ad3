"""The engine's client library: a connected client, and what its exceptions say.

Over a unix socket it has one pool of connections for a whole engine. The library's own keeps a pool per URL, and every
container has URLs of its own: it never uses a connection twice. It also leaves a socket that does not connect to the
garbage collector, and Python then warns in the middle of somebody's test.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import ssl
import urllib.parse
import weakref
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import IO, Any, cast

import docker
import docker.errors
import docker.utils
import requests
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions
from docker.transport import UnixHTTPAdapter

from ...model.errors import EngineRefused
from .answers import PAUSES, QUESTION, Call, Kind, call_of, kind_of
from .calling import Asks, Found, Refusal, caller, is_json, persist
from .reaper import message, open_unix
from .tls import SharedSocket
from .words import NO_SUCH_PATH

_IDLE_CONNECTIONS = 32
_QUIET = 60.0
"""Seconds that a stream of events may be quiet; then the listener connects again."""
_ALWAYS_THERE = ("/etc/hostname", "/proc")
"""Paths that an engine makes in every container."""

BROKEN = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    json.JSONDecodeError,
    docker.errors.StreamParseError,
)
"""Exceptions of a connection that breaks, through all the layers below."""
ERRORS = (*BROKEN, docker.errors.DockerException)
"""Everything it raises of its own."""


class Client(docker.APIClient):
    """A client of `engine`, each of whose calls is made until it is known what came of it."""

    # Proxies, .netrc and REQUESTS_CA_BUNDLE are for the web, and override the engine's own certificates. A session sets
    # it when it is made, and then asks for the version at once.
    trust_env = property(lambda _: False, lambda _, __: None)

    def __init__(self, engine: Asks, **options: Any) -> None:
        self._engine = engine
        super().__init__(**options)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request; see `calling.persist` for what it raises."""
        known = call_of(str(request.method), str(request.path_url))
        if known is None:
            return super().send(request, **kwargs)
        call, subject = known
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = _QUIET

        def perform() -> requests.Response:
            # A file, which may have been sent once.
            if isinstance(position := getattr(request, "_body_position", None), int):
                cast("IO[bytes]", request.body).seek(position)
            return self.once(request, **kwargs)

        whole = not kwargs.get("stream")
        for pause in (*PAUSES, None):
            answer = persist(
                self._engine,
                call,
                subject,
                perform,
                lambda it: _refusal(call, it, whole=whole),
                _sent(request),
            )
            if isinstance(answer, Found):
                return _made_up(request, answer)
            if not call.of_files or answer.status_code != 404:
                return answer
            words = message(answer.content)
            if _is_about_file(request, words) or self._is_absent(request):
                return answer
            if pause is not None:
                caller().note_again(f"{call.does}: it is not there, and it is ({words})")
                caller().rest(pause)
        raise EngineRefused(f"the Docker Engine finds no file of a container ({words})")

    def _is_absent(self, request: requests.PreparedRequest) -> bool:
        """Return True if another kind of call does not find the file either, and files of the container are found."""
        if self._status("HEAD", str(request.url)) != 404:
            return False
        place = str(request.url).partition("?")[0]
        there = (f"{place}?path={urllib.parse.quote(path)}" for path in _ALWAYS_THERE)
        return any(self._status("GET", other) == 200 for other in there)

    def _status(self, method: str, url: str) -> int | None:
        """Return the status of an answer to one request; None: there is none."""
        request = self.prepare_request(requests.Request(method, url))
        with contextlib.suppress(OSError), self.once(request, stream=True, timeout=_QUIET) as answer:
            return answer.status_code
        return None

    def ask(self, path: str, timeout: float) -> tuple[int, bytes]:
        """Return status and body of a GET that is made once; an `OSError`, if there is no answer."""
        request = self.prepare_request(requests.Request("GET", f"{self.base_url}{path}"))
        answer = self.once(request, timeout=timeout)
        return answer.status_code, _content(answer)

    def once(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request once; a `TimeoutError` or `ConnectionError`, if there was no answer in time, or a cut one."""
        try:
            return super().send(request, **kwargs)
        except requests.Timeout as error:
            raise TimeoutError(f"no answer within {kwargs.get('timeout')} s") from error
        except BROKEN as error:
            raise ConnectionError(str(error)) from error


def _refusal(call: Call, answer: requests.Response, *, whole: bool) -> Refusal | None:
    status = answer.status_code
    if answer.ok or status == 101:
        in_json = whole and status in (200, 201) and "json" in answer.headers.get("Content-Type", "")
        return Refusal(Kind.CUT, None, "half an answer") if in_json and not is_json(answer.content) else None
    words = message(_content(answer))
    if call is QUESTION and status != 404 and status < 500:
        return None
    if call.asks and call.of_files and _is_about_file(answer.request, words):
        return None  # the fault of nobody
    return Refusal(kind_of(status), status, words)


def _is_about_file(request: requests.PreparedRequest, words: str) -> bool:
    """Return True if the engine says that the requested file does not exist, or cannot be reached."""
    query = dict(urllib.parse.parse_qsl(str(request.path_url).partition("?")[2]))
    path = PurePosixPath(query.get("path", ""))
    ways = "|".join(re.escape(str(part)) for part in (path, *path.parents[:-1]))
    return words in NO_SUCH_PATH and re.search(rf"(?:{ways})(?![\w/.-])", words) is not None


def _content(answer: requests.Response) -> bytes:
    """Return the words of a refusal, which may be cut off, too."""
    with contextlib.suppress(*BROKEN):
        return answer.content
    return b""


def _sent(request: requests.PreparedRequest) -> Mapping[str, Any]:
    """Return what a call says of the thing that it makes or joins."""
    query = str(request.path_url).partition("?")[2]
    named = {"name": name} if (name := dict(urllib.parse.parse_qsl(query)).get("name")) else {}
    if isinstance(request.body, str | bytes):
        with contextlib.suppress(ValueError):
            if isinstance(body := json.loads(request.body), dict):
                return {**body, **named}
    return named


def _made_up(request: requests.PreparedRequest, found: Found) -> requests.Response:
    """Return what the engine would have answered to a call that was done already."""
    answer = requests.Response()
    answer.status_code, answer.request, answer.url = 201, request, str(request.url)
    answer.raw = io.BytesIO(json.dumps({"Id": found.about.get("Id"), "Warnings": None}).encode())
    return answer


def connect(
    engine: Asks, environment: Mapping[str, str], path: Callable[[], str] | None, version: str, timeout: int
) -> tuple[Client, ssl.SSLContext | None]:
    """A client of the engine that an environment names, and how its connections are encrypted. Seconds.

    `path` returns that of its unix socket, if it has one; `version` is that of its interface, or `auto`. It is one of
    `ERRORS` or an `OSError` if it does not answer, or its certificates cannot be read.
    """
    options = docker.utils.kwargs_from_env(environment=environment)
    client = Client(engine, **options, version=version, timeout=timeout)
    if path is not None:
        client.close()
        client.mount("http+docker://", UnixAdapter(path, timeout))
    tls = options.get("tls")
    if not tls:
        return client, None
    context = ssl.create_default_context(cafile=tls.ca_cert)
    context.sslsocket_class = SharedSocket
    context.check_hostname = bool(tls.verify)
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(*tls.cert)
    return client, context


def said_by(error: Exception) -> tuple[int | None, str] | None:
    """The status and the words with which the engine refused; None where it said nothing."""
    if not isinstance(error, docker.errors.APIError):
        return None
    return error.status_code, error.explanation or str(error)


class _Connection(urllib3.connection.HTTPConnection):
    def __init__(
        self, path: Callable[[], str], timeout: float, opened: weakref.WeakSet[socket.socket]
    ) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path, self._opened = path, opened
        self.holder = caller()

    def connect(self) -> None:
        self.sock = open_unix(self._path(), self.timeout)
        self._opened.add(self.sock)

    def request(self, *args: Any, **kwargs: Any) -> None:
        """Send a request; its caller can break it off until its answer was read."""
        if self.sock is None:
            self.connect()
        self.holder = caller()
        self.holder.hold(self.sock)
        super().request(*args, **kwargs)


class _Pool(urllib3.connectionpool.HTTPConnectionPool):
    def __init__(self, path: Callable[[], str], timeout: float) -> None:
        super().__init__("localhost", timeout=timeout, maxsize=_IDLE_CONNECTIONS)
        self._path, self._connect_timeout = path, timeout
        self.opened: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def _put_conn(self, conn: Any) -> None:
        if conn is not None and conn.sock is not None:
            conn.holder.let_go(conn.sock)
        super()._put_conn(conn)

    def _new_conn(self) -> _Connection:
        return _Connection(self._path, self._connect_timeout, self.opened)


class UnixAdapter(UnixHTTPAdapter):
    """For `mount` on a client: reaches the engine at what `path` returns. Seconds."""

    def __init__(self, path: Callable[[], str], timeout: int) -> None:
        super().__init__("http+unix:///engine", timeout)
        self._pool = _Pool(path, timeout)

    def get_connection(self, url: Any, proxies: Any = None) -> Any:  # noqa: ARG002  the base names them
        """The one pool, whatever the URL."""
        return self._pool

    def hang_up(self) -> None:
        """Break off every call that is going on, in whatever thread; each fails there at once."""
        for connection in list(self._pool.opened):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close idle connections."""
        super().close()
        self._pool.close()
