"""Metadata of an image from its registry: its size, and when the registry may be asked again.

The engine tells neither: it passes on an image, or the words with which it was refused. No credentials are sent, so of
a private registry nothing is known.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...system.http import Downgrade, opener, retry_after
from .dockerfile import canonical
from .engine import Engine
from .image_record import Record, RecordFile, Sizes

_TIMEOUT = 10.0
_MOST_BYTES = 4 * 1024 * 1024
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_UNPACKED = 3
"""Bytes of a layer for each byte of it compressed, to be on the safe side."""
_DOCKER_HUB = "registry-1.docker.io"
_DOCKER_HUB_TAGS = "https://hub.docker.com/v2/repositories"
_NOT_NOW = (429, 503)
_LOCAL = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_NO_NETWORK = (OSError, http.client.HTTPException)
_NONSENSE = (ValueError, KeyError, TypeError, AttributeError, Downgrade)
_IN_VAIN = 3
"""Questions in a row without an answer, after which a registry is asked no more: hundreds of images may wait."""


class NoAnswer(Exception):
    """A registry is out of reach, or does not want to be asked now."""


class RegistrySizes:
    """Asks registries for sizes of images, once for each image, and remembers what they say. Thread-safe.

    The machine of `engine` is that of the images.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._file = RecordFile(engine.host)
        self._told: dict[str, Sizes | None] = {}
        self._silent: Counter[str] = Counter()
        """Registry -> questions in a row that it has not answered."""
        self._machine = ""
        self._lock = threading.Lock()

    @functools.cached_property
    def record(self) -> Record:
        """The cache of this machine, read once: hundreds of images are looked up at a time."""
        return self._file.read()

    def of(self, name: str) -> Sizes | None:
        """Return the sizes of an image; None: they are neither in the record nor to be found out now."""
        if (known := self.record.told.get(name)) is not None:
            return known
        registry = canonical(name).partition("/")[0]
        with self._lock:
            if name in self._told or self._silent[registry] >= _IN_VAIN:
                return self._told.get(name)
            self._machine = self._machine or str(self._engine.get("/version")["Arch"])
        try:
            told = sizes_of(name, self._machine)
        except NoAnswer:
            with self._lock:
                self._silent[registry] += 1
            return None
        with self._lock:
            self._silent[registry] = 0
            self._told[name] = told
        if told is not None:
            with self._file.opened() as record:
                record.told[name] = told
        return told


def sizes_of(image: str, machine: str) -> Sizes | None:
    """Return how large an image is; None: its registry does not say. `NoAnswer`: it is out of reach.

    `machine` is the engine's word for its architecture, such as `amd64`. Some registries count it as a pull.
    """
    try:
        host, repository, reference = _parts(image)
        if host == _DOCKER_HUB and ":" not in reference:
            return _tag_sizes(repository, reference, machine)
        return _manifest_sizes(host, repository, reference, machine)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _NOT_NOW:
            raise NoAnswer(f"status {error.code}") from error
    except _NO_NETWORK as error:
        raise NoAnswer(str(error)) from error
    except _NONSENSE:
        pass
    return None


def asked_to_wait(image: str) -> float | None:
    """Seconds for which the registry of an image wants no further calls; None: it answers, or does not say."""
    with contextlib.suppress(*_NO_NETWORK, *_NONSENSE):
        try:
            _call(_address(*_parts(image)), {"Accept": _MANIFESTS}, "HEAD")
        except urllib.error.HTTPError as error:
            with error:
                return retry_after(error.headers.get("Retry-After")) if error.code in _NOT_NOW else None
    return None


def _manifest_sizes(host: str, repository: str, reference: str, machine: str) -> Sizes:
    headers = {"Accept": _MANIFESTS}
    manifest = _manifest(_address(host, repository, reference), headers)
    for one in manifest.get("manifests", ()):
        platform = one.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", machine):
            manifest = _manifest(_address(host, repository, str(one["digest"])), headers)
            break
    layers = [(max(0, int(one["size"])), str(one.get("mediaType"))) for one in manifest["layers"]]
    unpacked = sum(size if kind.endswith("tar") else size * _UNPACKED for size, kind in layers)
    return Sizes(stored=sum(size for size, _ in layers), unpacked=unpacked)


def _tag_sizes(repository: str, tag: str, machine: str) -> Sizes | None:
    """Return what Docker Hub says of a tag, where it does not count the question as a pull."""
    found = json.loads(_call(f"{_DOCKER_HUB_TAGS}/{urllib.parse.quote(f'{repository}/tags/{tag}')}", {}))
    for image in found["images"]:
        if (image["os"], image["architecture"]) == ("linux", machine):
            stored = max(0, int(image["size"]))
            return Sizes(stored=stored, unpacked=stored * _UNPACKED)
    return None


def _parts(image: str) -> tuple[str, str, str]:
    """Return the host, the repository, and the tag or digest of an image."""
    registry, _, rest = canonical(image).partition("/")
    repository, at, digest = rest.partition("@")
    name, _, tag = repository.rpartition(":")
    return _DOCKER_HUB if registry == "docker.io" else registry, name or repository, digest if at else tag


def _address(host: str, repository: str, reference: str) -> str:
    scheme = "http" if _LOCAL.fullmatch(host) else "https"
    return f"{scheme}://{host}/v2/{urllib.parse.quote(f'{repository}/manifests/{reference}', safe='/:')}"


def _manifest(url: str, headers: dict[str, str]) -> dict[str, Any]:
    """Return a manifest. `headers` get the token that everybody is given, if the registry asks for one."""
    try:
        body = _call(url, headers)
    except urllib.error.HTTPError as error:
        with error:
            challenge = error.headers.get("WWW-Authenticate", "")
            known = "Authorization" in headers or not challenge.startswith("Bearer ")
            if error.code != http.client.UNAUTHORIZED or known:
                raise
        headers["Authorization"] = f"Bearer {_token(challenge)}"
        body = _call(url, headers)
    manifest: dict[str, Any] = json.loads(body)
    return manifest


def _token(challenge: str) -> str:
    parameters = dict(_CHALLENGE.findall(challenge))
    realm = parameters.pop("realm")
    if not realm.startswith("https://"):
        raise ValueError("a token is taken over https alone")
    answer = json.loads(_call(f"{realm}?{urllib.parse.urlencode(parameters)}", {}))
    return str(answer.get("token") or answer["access_token"])


def _call(url: str, headers: Mapping[str, str], method: str = "GET") -> bytes:
    request = urllib.request.Request(url, headers=dict(headers), method=method)  # noqa: S310  http or https
    with opener().open(request, timeout=_TIMEOUT) as answer:
        body: bytes = answer.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise ValueError("the answer is too long")
    return body
