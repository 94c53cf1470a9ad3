"""A registry of many small images, each with a layer of its own, that fails in every way a registry may."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter

from .registry import MANIFEST, Answering, Listening, digest_of, image_of, layer_of

_WISH = 2


class _Handler(Answering):
    def get(self) -> None:
        parts = self.path.split("/")
        if len(parts) < 5:
            self.answer(200, "application/json", b"{}")
            return
        repository, kind, reference = parts[2], parts[3], parts[4]
        if kind == "manifests":
            self._manifest(repository, reference)
            return
        body = self.of.blob(reference)
        if body is None:
            self.answer(404, "application/json", b"{}")
            return
        fault = self.of.fault(repository, reference) if self.command == "GET" else None
        if fault == "garbled":
            body = body[::-1]
        first = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if first is not None:
            self.answer(206, "application/octet-stream", body[int(first[1]) :], cut=fault == "cut")
        else:
            self.answer(200, "application/octet-stream", body, cut=fault == "cut")

    def _manifest(self, repository: str, reference: str) -> None:
        if repository in self.of.missing:
            self.answer(404, "application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}')
            return
        body = self.of.manifest(repository)
        by_tag = not reference.startswith("sha256:")
        pulls = self.headers.get("User-Agent", "").startswith("docker")
        fault = self.of.fault(repository, None, pulls=pulls) if by_tag else None
        if fault in ("429", "503"):
            code = b"TOOMANYREQUESTS" if fault == "429" else b"UNAVAILABLE"
            wait = {"Retry_After": str(_WISH)} if fault == "429" else {}
            self.answer(int(fault), "application/json", b'{"errors": [{"code": "%s"}]}' % code, **wait)
        elif fault == "gone":
            self.of.vanish()
            self.close_connection = True
        else:
            self.answer(200, MANIFEST, body)


class ScriptedRegistry(Listening):
    """Images `registry.image(N)`, made of the layer `base` and a layer of `size` random bytes."""

    handler = _Handler

    def __init__(self, base: bytes, size: int, machine: str) -> None:
        super().__init__()
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

    def image(self, number: int) -> str:
        return f"127.0.0.1:{self.port}/task-{number}:1"

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
        own = layer_of("own", random.Random(repository).randbytes(self._size))
        environment = ["PATH=/usr/local/bin:/usr/bin:/bin"]
        manifest, config = image_of(
            [self._base, own], self._machine, Env=environment, Labels={"of": repository}
        )
        self._blobs.update({digest_of(own): own, digest_of(config): config})
        self._own[repository] = digest_of(own)
        return manifest
