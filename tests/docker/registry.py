"""Registries on ports of their own, and one that has one image under every name and fails as it is told."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import tarfile
import threading
import weakref
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer_of(name: str, content: bytes) -> bytes:
    """Make a layer of one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def image_of(layers: Sequence[bytes], machine: str, **config: object) -> tuple[bytes, bytes]:
    """Describe an image; returns its manifest and its configuration."""
    diffs = {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]}
    about = json.dumps({"architecture": machine, "os": "linux", "config": config, "rootfs": diffs}).encode()

    def described(kind: str, blob: bytes) -> dict[str, Any]:
        return {"mediaType": kind, "size": len(blob), "digest": digest_of(blob)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(_CONFIG, about),
        "layers": [described(_LAYER, layer) for layer in layers],
    }
    return json.dumps(manifest).encode(), about


def _reserved_port(owner: object) -> int:
    """A port that nobody else is given while its owner lives. Nobody answers there until a server listens."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    weakref.finalize(owner, held.close)
    return int(held.getsockname()[1])


class Answering(BaseHTTPRequestHandler):
    """Answers for the registry that it is `of`."""

    of: ClassVar[Any]

    def get(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.get()

    def do_HEAD(self) -> None:
        self.get()

    def answer(self, status: int, kind: str, body: bytes, *, cut: bool = False, **headers: str) -> None:
        """Give a body, of which half comes if it is cut."""
        about = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Docker-Content-Digest": digest_of(body),
        }
        self.send_response(status)
        for name, value in {**about, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base names it
        pass


class Listening:
    """A server on a port of its own, on which nobody listens until `start`."""

    handler: ClassVar[type[Answering]]

    def __init__(self) -> None:
        self._server: ThreadingHTTPServer | None = None
        self.port = _reserved_port(self)

    def start(self) -> None:
        if self._server is None:
            handler = type("Handler", (self.handler,), {"of": self})
            self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
            self._server.daemon_threads = True
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


class _Handler(Answering):
    def get(self) -> None:
        if self.of.silent:
            self.of.hang()
        layer = layer_of("pulled", b"yes")
        manifest, config = image_of([layer], "amd64")
        kind, body = "application/octet-stream", b"{}"
        parts = self.path.split("/")
        if "manifests" in parts:
            if parts[-1] == "1":
                self.of.asked.append(parts[2])
            if self.of.status is not None:
                self.answer(self.of.status, "application/json", b'{"errors": [{"code": "X"}]}')
                return
            kind, body = MANIFEST, manifest
        elif "blobs" in parts:
            body = next(blob for blob in (config, layer) if digest_of(blob) == parts[-1])
        self.answer(200, kind, body)


class Registry(Listening):
    """Images are `registry.image("name")`."""

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        """Names of images it was asked for, once each time."""
        self.hanging = threading.Event()
        """It has been asked, and does not answer."""
        self.silent = False
        self.status: int | None = None
        """Instead of a manifest."""
        self._release = threading.Event()

    def image(self, name: str) -> str:
        return f"127.0.0.1:{self.port}/{name}:1"

    def stop(self) -> None:
        self._release.set()
        super().stop()

    def hang(self) -> None:
        self.hanging.set()
        self._release.wait()
