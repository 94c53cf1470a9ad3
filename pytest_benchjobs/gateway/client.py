"""The gateway as pytest processes see it: start one for a job, and open a route through it for each trial.

Nothing here waits for ever. The control socket is listened on before the gateway's process exists, so whoever
connects early is answered as soon as it is up, and a gateway that died is noticed at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..model.ending import Ending
from ..model.endpoint import Endpoint
from ..model.environ import program_environment
from ..model.errors import GatewayLost, InputError, ResultsUnwritable
from ..model.usage import Usage
from .prices import load_prices

_BACKLOG = 4096
_LONGEST_ADDRESS = 90  # of a unix socket: 108 bytes on Linux, 104 on macOS, less what is added for a route
_CLOSE_TIMEOUT = 20.0
_LOST_TIMEOUT = 1.0
_LOOK_UP = 0.2
_END_TIMEOUT = 5.0
_LOG = "log"
_LOG_TAIL = 500


@dataclasses.dataclass(frozen=True, slots=True)
class SpendingLimits:
    """Limits of spending. None: no limit."""

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    """Input and output together."""
    max_calls: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Configuration of a whole job's gateway."""

    limits: SpendingLimits = SpendingLimits()
    spent: Usage = dataclasses.field(default_factory=Usage)
    """By the job before it was taken up again; counts against `limits`."""
    ledger: Path | None = None
    """File to which all spending is written after each answer."""
    prices: Path | None = None
    """Replaces the packaged table."""
    rates: Mapping[str, tuple[int | None, int | None]] = dataclasses.field(default_factory=dict)
    """Provider -> requests and tokens a minute; `*`: each that is not named, or has no such limit of its own."""
    record: Path | None = None
    """Directory the traffic is written to, for a later `replay`."""
    replay_exact: bool = False
    """Refuse a call whose prompt is not the recorded one. Else it is answered, and noted."""
    replay: Path | None = None
    """Directory with recorded answers, in place of any endpoint."""
    patience: float = 60.0
    """Seconds a call may be held back for 429s, 5xx and failed connections before the agent is told."""
    grace: float = 5.0
    """Seconds an agent has to notice that its calls fail for good before it is stopped."""
    silence: float = 900.0
    """Seconds without a sign of life after which an endpoint is given up. Models think for minutes before a word."""
    longest: float = 3600.0
    """Seconds a call of an endpoint may take."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Name -> value of what must not be recorded, besides keys."""


class Gateway:
    """The one of a job, held by the process that controls it."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes]) -> None:
        self._directory = directory
        self._process = process

    @classmethod
    def start(cls, settings: GatewaySettings) -> Gateway:
        """Start it, without waiting until it is up.

        Raises:
            InputError: the price table is wrong, there is nothing to replay, or no place to record.

        """
        _check(settings)
        directory = _directory()
        try:
            with (
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control,
                (directory / _LOG).open("wb") as log,
            ):
                control.bind(str(directory / "control"))
                control.listen(_BACKLOG)
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "pytest_benchjobs.gateway", str(control.fileno())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=[control.fileno()],
                    cwd="/",
                    env=_environment(),
                    # Ctrl-C is for the session, which ends the gateway when the last agent has been stopped.
                    start_new_session=True,
                )
        except OSError:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        gateway = cls(directory, process)
        assert process.stdin is not None  # noqa: S101  asked for above
        with contextlib.suppress(BrokenPipeError):  # it died at once: the first route says so
            process.stdin.write(
                json.dumps({"directory": str(directory), **_written(settings)}).encode() + b"\n"
            )
            process.stdin.flush()
        return gateway

    @property
    def address(self) -> str:
        """Path of its control socket, for `open_route`."""
        return str(self._directory / "control")

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def close(self) -> None:
        """End it, and remove what it made. Routes that are still open are closed."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Upstream:
    """A real endpoint, and the real key."""

    endpoint: Endpoint
    key: str | None = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class RouteReport:
    """Usage and failures of a route."""

    usage: Usage
    """`cost_usd` is None if what any answered call costs is unknown."""
    ending: Ending | None
    """Final failure of the agent's calls, if no answer came after it."""
    message: str | None
    """Message of the endpoint, or of a limit, about that; one line, without secrets."""
    models: Mapping[str, int]
    """Those that were called, as the endpoints name them, first seen first -> calls."""
    unpriced: tuple[str, ...]
    """Those of them without a price."""
    job_stopped: Ending | None
    """BUDGET or QUOTA when the whole job has to end."""
    job_message: str | None = None
    """Reason, in one line."""
    waited: float = 0.0
    """Seconds of silence of the endpoint in the last call, which the agent gave up. 0: it was answered since."""
    refused: tuple[str, ...] = ()
    """Models the agent wanted to call, and was not allowed to."""
    unfinished: int = 0
    """Calls that were sent, and not answered to the end: what they cost is not known."""
    at_most: float | None = None
    """USD of all calls, what the unfinished ones can have cost included; None: that has no bound."""
    changed: tuple[str, ...] = ()
    """Files of recorded calls whose answers another request got."""
    carried: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """For the route of the next try: usage and limits are of all tries."""


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """Permissions of a trial on its route, and facts about the trial."""

    limits: SpendingLimits = SpendingLimits()
    """Of all its tries together."""
    models: Sequence[str] = ()
    """It may call, the one it is about first; `*` stands for anything. None at all: every model."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Name -> value of what must not be recorded, besides keys."""
    carried: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    """Of the report of its last try."""


def open_route(
    address: str, trial: str, upstreams: Sequence[Upstream], terms: Terms, timeout: float = 15
) -> Route:
    """Open a route through the gateway at `address`.

    Args:
        address: Path of its control socket.
        trial: Its name in recorded traffic, the same in every run of the job: `agent_model/scenario/attempt`.
        upstreams: One for each wire; the first of a wire counts.
        terms: Of this trial.
        timeout: Seconds the gateway has to answer, which includes its start.

    Raises:
        GatewayLost: it is not there, or did not answer.

    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(address)
        request = {
            "trial": trial,
            "upstreams": [{"endpoint": one.endpoint.model_dump(), "key": one.key} for one in upstreams],
            "limits": dataclasses.asdict(terms.limits),
            "models": list(terms.models),
            "secrets": dict(terms.secrets),
            "carried": terms.carried,
        }
        connection.sendall(json.dumps(request).encode() + b"\n")
        return Route(address, connection, timeout)
    except OSError as error:
        connection.close()
        raise _lost(address, error) from None
    except BaseException:
        connection.close()
        raise


class Route:
    """A trial's share of the gateway. It exists as long as the connection to the gateway does."""

    def __init__(self, address: str, connection: socket.socket, timeout: float) -> None:
        self._address = address
        self._connection = connection
        self._lock = threading.Lock()
        self._received = b""
        self._said: dict[str, Any] = {}
        self._gone = False
        self._report: RouteReport | None = None
        connection.setblocking(False)
        self._wait_for("door", timeout)
        self.socket = Path(self._said["door"])
        """To be mounted into the container, where the door hands over its listening socket."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Dropping the connection closes the route; without a report there is nothing to wait for.
        self._connection.close()

    def pid(self) -> int | None:
        """Process id of the agent inside its container, as the door said it; None before."""
        self._listen()
        pid: int | None = self._said.get("pid")
        return pid

    def stop_asked(self) -> bool:
        """True if the agent has to be ended: its calls fail for good, a limit is reached, or the gateway is gone.

        May be called from any thread. Never waits.
        """
        self._listen()
        return self._gone or bool(self._said.get("stop"))

    def post(
        self, url: str, body: Mapping[str, Any], timeout: float, stopped: Callable[[], bool] = lambda: False
    ) -> tuple[int, Any]:
        """POST JSON from this machine, to what containers reach under the same `GATEWAY_URL`.

        Args:
            url: Where to.
            body: What.
            timeout: Seconds until the last byte of the answer is here.
            stopped: Whether to give up at once; asked several times a second.

        Returns:
            Status and the answer's JSON, or its text where that is none.

        Raises:
            GatewayLost: the gateway is gone.
            ConnectionError: the answer broke off, as it did for the gateway.
            TimeoutError: no whole answer within `timeout` seconds, or `stopped`.

        """
        parts = urllib.parse.urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection = _UnixConnection(self._said["host"], timeout, stopped)
        try:
            connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        except TimeoutError as error:
            raise TimeoutError(str(error)) from None
        except (OSError, http.client.HTTPException) as error:
            if self._ended_within(_LOST_TIMEOUT):
                raise _lost(self._address, error) from None
            raise ConnectionResetError("the answer broke off") from None
        finally:
            connection.close()
        try:
            return response.status, json.loads(content)
        except (ValueError, RecursionError):
            return response.status, content.decode("utf-8", "replace")

    def close(self) -> RouteReport:
        """End what is still under way, and say what went over it.

        Raises:
            GatewayLost: the gateway is gone, and what it knew with it.
            ResultsUnwritable: the traffic could not be recorded. Said once; then there is a report.

        """
        if self._report is None:
            with contextlib.suppress(OSError):
                self._connection.send(b'{"close": true}\n')
            # The connection stays: with it goes the socket, without which no container that has it mounted is started
            # again, nor takes any file.
            self._wait_for("report", _CLOSE_TIMEOUT)
            self._report = _report(self._said["report"])
            if fault := self._said["report"]["fault"]:
                raise ResultsUnwritable(fault)
        return self._report

    def _listen(self) -> None:
        """Take in what the gateway has said meanwhile."""
        with self._lock:
            while not self._gone and "report" not in self._said:
                try:
                    data = self._connection.recv(1 << 16)
                except BlockingIOError:
                    return
                except OSError:
                    data = b""
                self._gone = not data
                *lines, self._received = (self._received + data).split(b"\n")
                for line in lines:
                    self._said |= json.loads(line)

    def _ended_within(self, timeout: float) -> bool:
        """True if the gateway is gone, or goes within so many seconds."""
        with contextlib.suppress(GatewayLost):
            self._wait_for("end", timeout)
        return self._gone

    def _wait_for(self, what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            self._listen()
            if what in self._said:
                return
            if self._gone:
                raise _lost(self._address, None)
            left = deadline - time.monotonic()
            if left <= 0:
                raise _lost(self._address, TimeoutError(f"no answer within {timeout:g} s"))
            poll = select.poll()
            poll.register(self._connection, select.POLLIN)
            poll.poll(left * 1000)


class _UnixConnection(http.client.HTTPConnection):
    """A connection that takes no longer than `timeout` seconds altogether, however slowly an answer drips."""

    def __init__(self, path: str, timeout: float, stopped: Callable[[], bool]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._stopped = stopped

    def connect(self) -> None:
        self.sock = _Patient(self._path, float(self.timeout or 0), self._stopped)


class _Patient(socket.socket):
    """A socket with a time for all that is read from it."""

    def __init__(self, path: str, timeout: float, stopped: Callable[[], bool]) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._limit = timeout
        self._deadline = time.monotonic() + timeout
        self._given_up = stopped
        self.settimeout(timeout)
        try:
            self.connect(path)
        except OSError:
            self.close()
            raise

    def recv_into(self, *arguments: Any) -> int:
        poll = select.poll()
        poll.register(self, select.POLLIN)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer from the model within {self._limit:g} s")
            if self._given_up():
                raise TimeoutError("it had to stop while it waited for the model")
            if poll.poll(min(left, _LOOK_UP) * 1000):
                return super().recv_into(*arguments)


def _check(settings: GatewaySettings) -> None:
    if settings.prices is not None:
        load_prices(settings.prices)
    if settings.record is not None and settings.replay is not None:
        raise InputError("traffic cannot be recorded while it is replayed; leave one of the two out")
    if settings.replay is not None and not settings.replay.is_dir():
        raise InputError("there is no recorded traffic here", path=settings.replay)
    if settings.record is not None:
        try:
            settings.record.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"traffic cannot be recorded here: {error.strerror}", path=settings.record
            ) from None


def _directory() -> Path:
    # mkdtemp makes it 0700: keys travel over the socket in it.
    directory = tempfile.mkdtemp(prefix="benchjobs-")
    if len(directory) > _LONGEST_ADDRESS:
        Path(directory).rmdir()
        directory = tempfile.mkdtemp(prefix="benchjobs-", dir="/tmp")  # one that fits
    return Path(directory)


def _environment() -> dict[str, str]:
    # Keys, which may be in the environment too, come by the control socket, and only those of its routes.
    kept = program_environment(network=True)
    if path := kept.get("PYTHONPATH"):  # it starts in another directory
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(one).absolute()) for one in path.split(os.pathsep))
    return kept


def _written(settings: GatewaySettings) -> dict[str, Any]:
    return {
        "limits": dataclasses.asdict(settings.limits),
        "spent": settings.spent.model_dump(),
        "ledger": settings.ledger and str(settings.ledger.absolute()),
        "prices": settings.prices and str(settings.prices.absolute()),
        "rates": {provider: list(rate) for provider, rate in settings.rates.items()},
        "record": settings.record and str(settings.record.absolute()),
        "replay": settings.replay and str(settings.replay.absolute()),
        "replay_exact": settings.replay_exact,
        "patience": settings.patience,
        "grace": settings.grace,
        "silence": settings.silence,
        "longest": settings.longest,
        "secrets": dict(settings.secrets),
    }


def _report(said: Mapping[str, Any]) -> RouteReport:
    doubtful, spent = said["doubtful"], said["carried"]["spending"]
    return RouteReport(
        usage=Usage.model_validate({**said["usage"], "source": "gateway"}),
        ending=said["ending"] and Ending(said["ending"]),
        message=said["message"],
        models=said["models"],
        unpriced=tuple(said["unpriced"]),
        job_stopped=said["job_stopped"] and Ending(said["job_stopped"]),
        job_message=said["job_message"],
        waited=said["waited"],
        refused=tuple(said["refused"]),
        unfinished=doubtful["calls"],
        at_most=round(spent["cost"] + doubtful["cost"], 12) if doubtful["bounded"] else None,
        changed=tuple(said["changed"]),
        carried=said["carried"],
    )


def _lost(address: str, error: Exception | None) -> GatewayLost:
    why = "" if error is None else f": {error}"
    try:
        words = Path(address).with_name(_LOG).read_bytes()[-_LOG_TAIL:].decode("utf-8", "replace").split()
    except OSError:
        words = []
    said = f"; its last words: {' '.join(words)}" if words else ""
    return GatewayLost(f"the gateway to the models is not there{why}{said}")
