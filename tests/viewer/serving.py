"""A server of results for a while."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from pytest_benchjobs.viewer import app
from tests.support import until


@contextlib.contextmanager
def serving(directory: Path, port: int = 0) -> Iterator[str]:
    """Serve results; yields the address of the first page."""
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app(directory), log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        until(lambda: server.started, what="the server did not start")
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
