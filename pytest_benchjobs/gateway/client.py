"""The gateway as pytest processes see it: start one for a job, and open a route through it for each trial.

Nothing here waits for ever. The control socket exists before the gateway's process does, so an early connection is
answered as soon as the gateway is up, and a gateway that died is noticed at once.
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
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ..model.ending import Ending
from ..model.endpoint import Endpoint
from ..model.environ import program_environment
from ..model.errors import GatewayLost, InputError, ResultsUnwritable
from ..model.quota import OnQuota
from ..model.usage import Usage
from ..system.cutting import end_of
from ..system.paths import is_directory
from ..system.temporary import directory_for_sockets
from .prices import load_prices
from .scrub import Scrubber, scrubber

_BACKLOG = 4096
_CLOSE_TIMEOUT = 35.0  # with the gateway's own call of an endpoint
_LOST_TIMEOUT = 1.0
_LOOK_UP = 0.2
_END_TIMEOUT = 5.0
_LOG = "log"
_LOG_TAIL = 500
UNLOGGED = "Benchjobs-Unlogged"
"""Header of a call from this machine that is not to be in the file of calls."""


@dataclasses.dataclass(frozen=True, slots=True)
class SpendingLimits:
    """Limits of spending. None: no limit."""

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    """Input and output together."""
    max_calls: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Settings of a job's gateway."""

    limits: SpendingLimits = SpendingLimits()
    spent: Usage = dataclasses.field(default_factory=Usage)
    """By the job before it was resumed; counts against `limits`."""
    ledger: Path | None = None
    """File to which all spending is written after each answer."""
    prices: Path | None = None
    """Replaces the packaged table."""
    rates: Mapping[str, tuple[int | None, int | None]] = dataclasses.field(default_factory=dict)
    """Provider -> requests and tokens a minute; `*`: each that is not named, or has no such limit of its own."""
    record: Path | None = None
    """Directory the traffic is written to, for a later `replay`."""
    replay_exact: bool = False
    """Refuse a call whose prompt is not the recorded one. Otherwise answer it, and note that."""
    replay: Path | None = None
    """Directory with recorded answers, in place of any endpoint."""
    patience: float = 60.0
    """Seconds of retries after 429s, 5xx and failed connections before the agent gets an error."""
    grace: float = 5.0
    """Seconds between the first permanent failure of calls and the end of the agent."""
    silence: float = 900.0
    """Seconds without a sign of life after which an endpoint is given up. Models think for minutes before a word."""
    longest: float = 3600.0
    """Seconds a call of an endpoint may take."""
    on_quota: OnQuota = OnQuota.FAIL
    """Reaction to a provider's quota that is used up."""
    quotas: Path | None = None
    """File that lists such quotas."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Name -> value of secrets that must not be recorded, besides keys."""


class Gateway:
    """The gateway of a job, held by the process that controls the job."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes]) -> None:
        self._directory = directory
        self._process = process

    @classmethod
    def start(cls, settings: GatewaySettings) -> Gateway:
        """Start it, without waiting until it is up.

        Raises InputError: the price table is wrong, there is nothing to replay, or no place to record; GatewayLost:
        this machine gives no process or directory for it.
        """
        _check(settings)
        directory: Path | None = None
        try:
            directory = directory_for_sockets("benchjobs-")
            process = _process(directory)
        except OSError as error:
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)
            raise GatewayLost(f"the gateway to the models could not be started: {error}") from None
        assert process.stdin is not None  # noqa: S101  asked for
        order = {"directory": str(directory), **dataclasses.asdict(settings)}
        with contextlib.suppress(BrokenPipeError):  # it died at once, and the first route reports that
            process.stdin.write(json.dumps(order, default=_written).encode() + b"\n")
            process.stdin.flush()
        return cls(directory, process)

    @property
    def address(self) -> str:
        """Path of the control socket, for `open_route`."""
        return str(self._directory / "control")

    def close(self) -> None:
        """End the gateway, and remove its files. Open routes are closed."""
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

    @property
    def scrubber(self) -> Scrubber:
        """Protection of the key from agents."""
        return scrubber(self.key)


@dataclasses.dataclass(frozen=True, slots=True)
class RouteReport:
    """Usage and failures of a route."""

    usage: Usage
    """`cost_usd` is None if the cost of any answered call is unknown."""
    ending: Ending | None
    """Final failure of the agent's calls, if no answer came after it."""
    message: str | None
    """Message of the endpoint, or of the limit, for that ending; one line, without secrets."""
    models: Mapping[str, int]
    """Model, as its endpoint names it -> calls; in the order of their first calls."""
    unknown: Mapping[str, int]
    """Reason why the cost of calls is unknown -> calls."""
    job_stopped: Ending | None
    """BUDGET or QUOTA when the whole job has to end."""
    job_message: str | None = None
    """Reason, in one line."""
    waited: float = 0.0
    """Seconds for which the endpoint was silent before the agent gave up the last call. 0: it has answered since."""
    answered: int = 0
    """Calls that were answered completely."""
    answers_others: bool = False
    """Since the last failure the endpoint has answered another trial, or the gateway's own call."""
    held: float = 0.0
    """Seconds for which the gateway held the agent's calls."""
    refused: tuple[str, ...] = ()
    """Models whose calls were refused."""
    taken_out: tuple[str, ...] = ()
    """Tools of the endpoint that were taken out of requests, which only offered them."""
    sent_again: int = 0
    """Calls that were sent again, since a kept connection ended without a byte of an answer."""
    unfinished: int = 0
    """Calls that were sent and did not say what they used, so their cost is unknown."""
    at_most: float | None = None
    """Upper bound in USD of all calls, incomplete ones included; None: there is no bound."""
    changed: tuple[str, ...] = ()
    """Recorded files whose answers went to other requests than the recorded ones."""
    carried: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """State for the route of the next try: usage and limits are for all tries together."""
    left_out: int = 0
    """Calls that are not in the file of calls, which was full."""
    fault: str | None = None
    """Error that kept traffic from being recorded."""

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> RouteReport:
        """Read the report of a gateway, which `accounting` wrote."""
        endings = {name: said[name] and Ending(said[name]) for name in ("ending", "job_stopped")}
        names = {name: tuple(said[name]) for name in ("refused", "taken_out", "changed")}
        return cls(**{**said, **endings, **names, "usage": Usage.model_validate(said["usage"])})


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """Permissions of a trial on its route, and facts about the trial."""

    limits: SpendingLimits = SpendingLimits()
    """For all tries together."""
    models: Sequence[str] = ()
    """Models it may call, its own first; `*` stands for anything. Empty: every model."""
    provider_tools: Sequence[str] | None = None
    """Tools that endpoints may run for it. None: all."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Name -> value of secrets that must not be recorded, besides keys."""
    carried: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    """From the report of its last try."""
    calls: Path | None = None
    """File for its calls, from which a conversation is made. None: they are not kept."""


def open_route(
    address: str, trial: str, upstreams: Sequence[Upstream], terms: Terms, timeout: float = 15
) -> Route:
    """Open a route through the gateway whose control socket is at `address`.

    `trial` is its name in recorded traffic, the same in every run of the job: `agent_model/scenario/attempt`. Of
    several upstreams for one wire the first counts. The gateway has `timeout` seconds to answer, including its start.

    Raises GatewayLost: it is not there, or did not answer.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(address)
        endpoints = [dataclasses.asdict(one) for one in upstreams]
        request = {"trial": trial, "upstreams": endpoints, **dataclasses.asdict(terms)}
        connection.sendall(json.dumps(request, default=_written).encode() + b"\n")
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
        self.host_socket = Path(self._said["host"])
        """Socket at which this machine reaches the same service by HTTP. Only this user may connect."""
        self.socket = Path(self._said["door"])
        """Socket to mount into the container, over which the door hands over its listening socket."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # Dropping the connection closes the route; without a report there is nothing to wait for.
        self._connection.close()

    def pid(self) -> int | None:
        """Process id of the agent inside its container, as the door reported it; None before."""
        self._listen()
        pid: int | None = self._said.get("pid")
        return pid

    def held(self) -> float:
        """Return the seconds so far for which the gateway has held the agent's calls. Never waits."""
        self._listen()
        seconds, since = self._said.get("held", (0.0, None))
        return float(seconds + (0.0 if since is None else time.monotonic() - since))

    def stop_asked(self) -> bool:
        """True if the agent has to be ended: all further calls will fail, a limit is reached, or the gateway is gone.

        May be called from any thread. Never waits.
        """
        self._listen()
        return self._gone or bool(self._said.get("stop"))

    def post(
        self,
        url: str,
        body: Mapping[str, Any],
        timeout: float,
        stopped: Callable[[], bool] = lambda: False,
        *,
        logged: bool = True,
    ) -> tuple[int, Any]:
        """POST JSON from this machine, to the service that containers reach under the same `GATEWAY_URL`.

        Returns status and the answer's JSON, or its text if it is not JSON. `timeout` is in seconds until the last byte
        has arrived; `stopped` is called several times a second, and says whether to give up. `logged`: it is in the
        file of calls, if there is one.

        Raises GatewayLost: the gateway is gone; ConnectionError: the answer broke off, as it did for the gateway;
        TimeoutError: no complete answer within `timeout` seconds, or `stopped`.
        """
        parts = urllib.parse.urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection = http.client.HTTPConnection("localhost")
        try:
            connection.sock = _Patient(self._said["host"], timeout, stopped)
            headers = {"Content-Type": "application/json", **({} if logged else {UNLOGGED: "1"})}
            connection.request("POST", path, json.dumps(body).encode(), headers)
            response = connection.getresponse()
            content = response.read()
        except TimeoutError as error:
            raise TimeoutError(str(error)) from None
        except (OSError, http.client.HTTPException) as error:
            with contextlib.suppress(GatewayLost):
                self._wait_for("end", _LOST_TIMEOUT)
            if self._gone:
                raise _lost(self._address, error) from None
            raise ConnectionResetError("the answer was cut off") from None
        finally:
            connection.close()
        try:
            return response.status, json.loads(content)
        except (ValueError, RecursionError):
            return response.status, content.decode("utf-8", "replace")

    def close(self) -> RouteReport:
        """End running calls, and return the report of the route.

        Raises GatewayLost: the gateway is gone, and its data with it. ResultsUnwritable: the traffic could not be
        recorded. Raised once; a second call returns the report.
        """
        if self._report is None:
            with contextlib.suppress(OSError):
                self._connection.send(b'{"close": true}\n')
            # The connection stays open, because the socket goes with it: without the socket, no container that has it
            # mounted can be started again or take a file.
            self._wait_for("report", _CLOSE_TIMEOUT)
            self._report = RouteReport.read(self._said["report"])
            if self._report.fault:
                raise ResultsUnwritable(self._report.fault)
        return self._report

    def again(self) -> None:
        """Open the route again for the next turn of the agent, after `close`.

        Its report has the calls of that turn alone, and the usage of all turns.

        Raises GatewayLost: the gateway is gone.
        """
        with self._lock:
            self._said, self._report = {}, None
        with contextlib.suppress(OSError):
            self._connection.send(b'{"again": true}\n')
        self._wait_for("door", _CLOSE_TIMEOUT)

    def _listen(self) -> None:
        """Read the messages that the gateway has sent meanwhile."""
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


class _Patient(socket.socket):
    """A unix socket with one timeout for everything that is read from it, however slowly it arrives."""

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
                raise TimeoutError("stopped while waiting for the model")
            if poll.poll(min(left, _LOOK_UP) * 1000):
                return super().recv_into(*arguments)


def _check(settings: GatewaySettings) -> None:
    if settings.prices is not None:
        load_prices(settings.prices)
    if settings.record is not None and settings.replay is not None:
        raise InputError("traffic cannot be recorded while it is replayed; leave one of the two out")
    if settings.replay is not None and not is_directory(settings.replay):
        raise InputError("there is no recorded traffic here", path=settings.replay)
    if settings.record is not None:
        try:
            settings.record.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"traffic cannot be recorded here: {error.strerror}", path=settings.record
            ) from None


def _process(directory: Path) -> subprocess.Popen[bytes]:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control,
        (directory / _LOG).open("wb") as log,
    ):
        control.bind(str(directory / "control"))
        control.listen(_BACKLOG)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "pytest_benchjobs.gateway", str(control.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=[control.fileno()],
            cwd="/",
            env=_environment(),
            # Ctrl-C is for the session, which ends the gateway after the last agent.
            start_new_session=True,
        )


def _environment() -> dict[str, str]:
    # Keys, which may be in the environment too, are sent over the control socket, and only those of the routes.
    kept = program_environment(network=True)
    if path := kept.get("PYTHONPATH"):  # the gateway runs in another directory
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(one).absolute()) for one in path.split(os.pathsep))
    return kept


def _written(value: Path | Endpoint | Usage) -> object:
    """Value as JSON has it, with absolute paths: the gateway runs in another directory."""
    return str(value.absolute()) if isinstance(value, Path) else value.model_dump()


def _lost(address: str, error: Exception | None) -> GatewayLost:
    why = "" if error is None else f": {error}"
    try:
        said = Path(address).with_name(_LOG).read_bytes()
    except OSError:
        said = b""
    words = " ".join(end_of(said, _LOG_TAIL).decode("utf-8", "replace").split())
    return GatewayLost(f"the model gateway is not running{why}{words and '; its last output: '}{words}")
