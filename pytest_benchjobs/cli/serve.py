"""`serve`: show results in a browser, also while jobs run. Nothing is changed."""

from __future__ import annotations

import secrets
import socket
import threading
import time
import webbrowser
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from ..model.errors import InputError
from ..store.layout import Layout
from ..viewer import app
from ._directory import directory_option, high_scores_of, high_scores_option
from ._output import say

if TYPE_CHECKING:
    import uvicorn

_OPEN_SECONDS = 10.0
_STOP_SECONDS = 2
_LOOK_SECONDS = 0.05
_ANYWHERE = ("0.0.0.0", "::", "")  # noqa: S104  compared with, not bound


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8877, show_default=True, help="0: any free one."
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Name that browsers may call this machine by, besides localhost. May be repeated; * for any.",
)
@click.option(
    "--token",
    metavar="TEXT",
    envvar="BENCHJOBS_VIEW_TOKEN",
    help="Token to ask for, better given by the variable BENCHJOBS_VIEW_TOKEN, which no list of processes shows.  "
    "[default: a random one, unless --host is loopback]",
)
@click.option("--open", "open_", is_flag=True, help="Open it in the browser.")
@high_scores_option
@directory_option
def serve(
    *,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    token: str | None,
    open_: bool,
    high_scores: Path | None,
    directory: Path,
) -> None:
    """Show jobs, trials and comparisons in a browser, also of jobs that run. Needs the extra `view`.

    Only this machine can reach it, unless --host says otherwise; then each browser needs the token in the printed URL.
    """
    try:
        import uvicorn

        from ..viewer.guard import is_loopback
        from ..viewer.streaming import stop_streams
    except ModuleNotFoundError:
        raise InputError(
            "the viewer needs starlette and uvicorn: pip install 'pytest-benchjobs[view]'"
        ) from None
    if token is not None and not token.strip():
        raise InputError(
            "--token or BENCHJOBS_VIEW_TOKEN is empty, which would let everybody in; leave it out for a random one"
        )
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    application = app(
        directory,
        hosts=(*hosts, *_names(host)),
        token=token,
        high_scores=high_scores_of(high_scores, directory),
    )
    listening = _listen(host, port)
    # Logs of requests would have the token in them.
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_STOP_SECONDS,
    )

    class Server(uvicorn.Server):
        """Ends the pages that follow a job, too."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Stop, as a signal asks for it."""
            stop_streams()
            super().handle_exit(sig, frame)

    server = Server(config)
    url, *others = _urls(host, listening.getsockname()[1], token)
    say(f"Results of {directory} at {url}")
    for other in others:
        say(f"or, where that name is not known, at {other}")
    if not Layout(directory).history.exists():
        say(
            f"There are no results in {directory} yet. They are shown when a job writes them there.", err=True
        )
    say("Ctrl-C ends it.", err=True)
    if open_:
        threading.Thread(target=_open, args=(server, url), daemon=True).start()
    server.run(sockets=[listening])


def _names(host: str) -> tuple[str, ...]:
    """Return the names that a browser may call this address by."""
    if host in _ANYWHERE:
        return socket.gethostname(), socket.getfqdn()
    return (f"[{host}]" if ":" in host else host,)


def _listen(host: str, port: int) -> socket.socket:
    """Listen at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen at {host} port {port}: {why}; choose another --port or --host"
        ) from None
    return listening


def _urls(host: str, port: int, token: str | None) -> list[str]:
    """Return the addresses of the viewer; at any address of this machine, that by its name and by its usual address."""
    names = [host] if host not in _ANYWHERE else [socket.gethostname(), *_own_address(host)]
    query = f"?{urlencode({'token': token})}" if token else ""
    return [f"http://{f'[{name}]' if ':' in name else name}:{port}/{query}" for name in names]


def _own_address(host: str) -> list[str]:
    """Return the address that others see this machine at, if it has a way to others. Nothing is sent."""
    family, far = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((far, 9))
        except OSError:
            return []
        return [str(asking.getsockname()[0])]


def _open(server: uvicorn.Server, url: str) -> None:
    deadline = time.monotonic() + _OPEN_SECONDS
    while not server.started and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    webbrowser.open(url)
