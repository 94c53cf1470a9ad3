"""A registry that has one image under every name, and fails as it is told."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import socket
import tarfile
import threading
import weakref
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _layer() -> tuple[bytes, str]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("pulled")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"yes"))
    return gzip.compress(buffer.getvalue(), mtime=0), _digest(buffer.getvalue())


def reserved_port(owner: object) -> int:
    """A port that nobody else is given while its owner lives. Nobody answers there until a server listens."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    weakref.finalize(owner, held.close)
    return int(held.getsockname()[1])


class Registry:
    """On a port of its own, which is closed until `start`. Images are `registry.image("name")`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Names of images it was asked for, once each time."""
        self.hanging = threading.Event()
        """It has been asked, and does not answer."""
        self.silent = False
        self.status: int | None = None
        """Instead of a manifest."""
        self._server: ThreadingHTTPServer | None = None
        self._release = threading.Event()
        self.port = reserved_port(self)

    def image(self, name: str) -> str:
        return f"127.0.0.1:{self.port}/{name}:1"

    def start(self) -> None:
        if self._server is None:
            registry = self

            class Handler(_Handler):
                of = registry

            self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
            threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._release.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def hang(self) -> None:
        self.hanging.set()
        self._release.wait()


class _Handler(BaseHTTPRequestHandler):
    of: ClassVar[Registry]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.of.silent:
            self.of.hang()
        layer, diff = _layer()
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [diff]},
                "history": [{"created_by": "test"}],
            }
        ).encode()
        kind, body = "application/octet-stream", b"{}"
        parts = self.path.split("/")
        if "manifests" in parts:
            if parts[-1] == "1":
                self.of.asked.append(parts[2])
            if self.of.status is not None:
                self._answer(self.of.status, "application/json", b'{"errors": [{"code": "X"}]}')
                return
            kind, body = MANIFEST, _manifest(config, layer)
        elif "blobs" in parts:
            body = next(blob for blob in (config, layer) if _digest(blob) == parts[-1])
        self._answer(200, kind, body)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base names it
        pass


def _manifest(config: bytes, layer: bytes) -> bytes:
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": len(config),
                "digest": _digest(config),
            },
            "layers": [
                {
                    "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                    "size": len(layer),
                    "digest": _digest(layer),
                }
            ],
        }
    ).encode()
