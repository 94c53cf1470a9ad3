"""Registries on ports of their own, and one that has one image under every name and fails as it is told."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import socket
import tarfile
import threading
import urllib.parse
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
    # With a status line, clients that try TLS first understand that this is none.
    default_request_version = "HTTP/1.0"

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
        if self.command != "HEAD":
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


class _StoringHandler(Answering):
    """What a registry does by the Distribution API, with uploads in one piece."""

    def get(self) -> None:
        *_, kind, reference = self.path.partition("?")[0].split("/")
        stored = self.of.manifests if kind == "manifests" else self.of.blobs
        found = stored.get(reference) if kind in ("manifests", "blobs") else b"{}"
        if self._refused():
            return
        if found is None:
            self.answer(404, "application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
        else:
            self.answer(200, MANIFEST if kind == "manifests" else "application/octet-stream", found)

    def do_POST(self) -> None:
        self._body()
        if not self._refused():
            self.answer(202, "text/plain", b"", Location=f"{self.path.rstrip('/')}/{secrets.token_hex(8)}")

    def do_PATCH(self) -> None:
        place = self.path.partition("?")[0]
        self.of.uploads[place] = self.of.uploads.get(place, b"") + self._body()
        size = len(self.of.uploads[place])
        self.answer(202, "text/plain", b"", Location=place, Range=f"0-{max(0, size - 1)}")

    def do_PUT(self) -> None:
        place, _, query = self.path.partition("?")
        body = self._body()
        if "/manifests/" in place:
            if self._refused():
                return
            self.of.pushed.append(place.rpartition("/")[2])
            self.of.manifests |= {place.rpartition("/")[2]: body, digest_of(body): body}
        else:
            blob = self.of.uploads.pop(place, b"") + body
            assert digest_of(blob) == urllib.parse.parse_qs(query)["digest"][0]
            self.of.blobs[digest_of(blob)] = body = blob
        self.answer(201, "text/plain", b"", **{"Location": place, "Docker-Content-Digest": digest_of(body)})

    def _refused(self) -> bool:
        """Answer with the first of the statuses that are left, if it is for such a request."""
        pushes = self.command in ("POST", "PUT", "PATCH")
        statuses = self.of.statuses if pushes else []
        if not statuses:
            return False
        words = {403: "DENIED", 429: "TOOMANYREQUESTS"}.get(statuses[0], "UNKNOWN")
        status = statuses.pop(0) if not self.of.for_ever else statuses[0]
        self.answer(
            status,
            "application/json",
            json.dumps({"errors": [{"code": words, "message": words.lower()}]}).encode(),
        )
        return True

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)


class StoringRegistry(Listening):
    """One that takes images, as far as `statuses` lets it."""

    handler = _StoringHandler

    def __init__(self) -> None:
        super().__init__()
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.pushed: list[str] = []
        """Tags, each time."""
        self.statuses: list[int] = []
        """Answers to what would push, one after the other."""
        self.for_ever = False
        """The first of them is the answer to all."""

    @property
    def path(self) -> str:
        return f"127.0.0.1:{self.port}/team/bench"


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
