"""A registry of many small images, each with a layer of its own, that fails in every way a registry may."""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import tarfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from .registry import MANIFEST, reserved_port

_WISH = 2
_INDEX = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class ScriptedRegistry:
    """Images `registry.image(N)`, made of the layer `base` and a layer of `size` random bytes."""

    def __init__(self, base: bytes, size: int, machine: str) -> None:
        self.asked: Counter[str] = Counter()
        """How often the manifest of each image was given."""
        self.refused = Counter[str]()
        """How often it failed, by way."""
        self.missing: set[str] = set()
        """Repositories that it does not have."""
        self.too_often: set[str] = set()
        """Repositories whose manifest is refused with 429 for two seconds from when it is first asked for."""
        self.cut: dict[str, int] = {}
        """Repositories whose own layer breaks off in the middle, and how many times."""
        self.garbled: dict[str, int] = {}
        """Repositories whose own layer comes with other bytes, and how many times."""
        self.unwell: dict[str, int] = {}
        """Repositories whose manifest is refused with 503, and how many times."""
        self.gone_after: int | None = None
        """Manifests given, after which it is gone for `gone_seconds`."""
        self.gone_seconds = 10.0
        self._base, self._size, self._machine = base, size, machine
        self._blobs = {digest_of(base): base}
        self._manifests: dict[str, bytes] = {}
        self._own: dict[str, str] = {}
        self._closed: dict[str, float] = {}
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = reserved_port(self)

    def image(self, number: int) -> str:
        return f"127.0.0.1:{self.port}/task-{number}:1"

    def start(self) -> None:
        registry = self

        class Handler(_Handler):
            of = registry

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def vanish(self) -> None:
        """Be gone for a while: nobody listens on the port."""

        def away() -> None:
            self.stop()
            time.sleep(self.gone_seconds)  # as long as an outage that is scripted
            self.start()

        threading.Thread(target=away, daemon=True).start()

    def manifest(self, repository: str) -> bytes:
        with self._lock:
            if repository not in self._manifests:
                self._manifests[repository] = self._made(repository)
            return self._manifests[repository]

    def blob(self, digest: str) -> bytes | None:
        return self._blobs.get(digest)

    def fault(self, repository: str, digest: str | None, *, pulls: bool = True) -> str | None:
        """The way in which this call fails, if it does.

        `digest` is that of a layer; None: it is about the manifest, and `pulls` says whether the engine asks.
        """
        with self._lock:
            if digest is not None:
                for way, times in (("cut", self.cut), ("garbled", self.garbled)):
                    if digest == self._own.get(repository) and times.get(repository, 0) > 0:
                        times[repository] -= 1
                        self.refused[way] += 1
                        return way
                return None
            if not pulls:
                return "429" if time.monotonic() < self._closed.get(repository, 0.0) else None
            if repository in self.too_often:
                self.too_often.discard(repository)
                self._closed[repository] = time.monotonic() + _WISH
                self.refused["repositories"] += 1
            if time.monotonic() < self._closed.get(repository, 0.0):
                self.refused["429"] += 1
                return "429"
            if self.unwell.get(repository, 0) > 0:
                self.unwell[repository] -= 1
                self.refused["503"] += 1
                return "503"
            if self.gone_after is not None and sum(self.asked.values()) >= self.gone_after:
                self.gone_after = None
                self.refused["gone"] += 1
                return "gone"
            self.asked[repository] += 1
            return None

    def _made(self, repository: str) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            content = random.Random(repository).randbytes(self._size)
            member = tarfile.TarInfo("own")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        own = buffer.getvalue()
        layers = [self._base, own]
        config = json.dumps(
            {
                "architecture": self._machine,
                "os": "linux",
                "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Labels": {"of": repository}},
                "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
            }
        ).encode()
        self._blobs.update({digest_of(own): own, digest_of(config): config})
        self._own[repository] = digest_of(own)

        def described(kind: str, blob: bytes) -> dict[str, Any]:
            return {"mediaType": kind, "size": len(blob), "digest": digest_of(blob)}

        return json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": described(_INDEX, config),
                "layers": [described(_LAYER, layer) for layer in layers],
            }
        ).encode()


class _Handler(BaseHTTPRequestHandler):
    of: ClassVar[ScriptedRegistry]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = self.path.split("/")
        if len(parts) < 5:
            self._answer(200, "application/json", b"{}")
            return
        repository, kind, reference = parts[2], parts[3], parts[4]
        if kind == "manifests":
            self._manifest(repository, reference)
            return
        body = self.of.blob(reference)
        if body is None:
            self._answer(404, "application/json", b"{}")
            return
        fault = self.of.fault(repository, reference) if self.command == "GET" else None
        if fault == "garbled":
            body = body[::-1]
        first = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if first is not None:
            self._answer(206, "application/octet-stream", body[int(first[1]) :], cut=fault == "cut")
        else:
            self._answer(200, "application/octet-stream", body, cut=fault == "cut")

    def _manifest(self, repository: str, reference: str) -> None:
        if repository in self.of.missing:
            self._answer(404, "application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
            return
        body = self.of.manifest(repository)
        by_tag = not reference.startswith("sha256:")
        pulls = self.headers.get("User-Agent", "").startswith("docker")
        fault = self.of.fault(repository, None, pulls=pulls) if by_tag else None
        if fault in ("429", "503"):
            code = b"TOOMANYREQUESTS" if fault == "429" else b"UNAVAILABLE"
            self._answer(
                int(fault), "application/json", b'{"errors": [{"code": "%s"}]}' % code, wait=fault == "429"
            )
        elif fault == "gone":
            self.of.vanish()
            self.close_connection = True
        else:
            self._answer(200, MANIFEST, body)

    def _answer(self, status: int, kind: str, body: bytes, *, wait: bool = False, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest_of(body))
        if wait:
            self.send_header("Retry-After", str(_WISH))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if cut else body)
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base names it
        pass
