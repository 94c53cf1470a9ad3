"""What a registry says of an image without giving it: how large it is, and when it wants to be asked again.

The engine tells neither: it passes on an image, or the words with which it was refused. No credentials are sent, so of
a private registry nothing is known.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from ...system.http import Downgrade, capped, opener, retry_after
from .dockerfile import canonical
from .ledger import Sizes

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
_PROBLEMS = (OSError, http.client.HTTPException, ValueError, Downgrade)


class NoAnswer(Exception):
    """A registry is out of reach, or does not want to be asked now."""


def sizes_of(image: str, machine: str) -> Sizes | None:
    """Return how large an image is; None: its registry does not say.

    `machine` is the engine's word for its architecture, such as `amd64`. Some registries count it as a pull.

    Raises:
        NoAnswer: nobody answers, or wants to be asked.
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
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, Downgrade):
        pass
    return None


def _manifest_sizes(host: str, repository: str, reference: str, machine: str) -> Sizes:
    token: list[str] = []
    manifest = _manifest(host, repository, reference, token)
    for one in manifest.get("manifests", ()):
        platform = one.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", machine):
            manifest = _manifest(host, repository, str(one["digest"]), token)
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


def asked_to_wait(image: str) -> float | None:
    """Seconds for which the registry of an image wants no further calls; None: it answers, or does not say."""
    with contextlib.suppress(*_PROBLEMS):
        host, repository, reference = _parts(image)
        try:
            _call(_address(host, f"/v2/{repository}/manifests/{reference}"), {"Accept": _MANIFESTS}, "HEAD")
        except urllib.error.HTTPError as error:
            with error:
                return retry_after(error.headers.get("Retry-After")) if error.code in _NOT_NOW else None
    return None


def _parts(image: str) -> tuple[str, str, str]:
    """Return the host, the repository, and the tag or digest of an image."""
    name = canonical(image)
    registry, _, rest = name.partition("/")
    repository, at, reference = rest.partition("@")
    if at:
        repository = repository.rpartition(":")[0] or repository
    else:
        repository, _, reference = rest.rpartition(":")
    return (_DOCKER_HUB if registry == "docker.io" else registry), repository, reference


def _address(host: str, path: str) -> str:
    scheme = "http" if _LOCAL.fullmatch(host) else "https"
    return f"{scheme}://{host}{urllib.parse.quote(path, safe='/:')}"


def _manifest(host: str, repository: str, reference: str, token: list[str]) -> dict[str, Any]:
    """Return a manifest. `token` is what the registry wants to see, once it has asked for it."""
    url = _address(host, f"/v2/{repository}/manifests/{reference}")
    try:
        body = _call(url, {"Accept": _MANIFESTS, **_bearer(token)})
    except urllib.error.HTTPError as error:
        with error:
            challenge = error.headers.get("WWW-Authenticate", "")
            if error.code != http.client.UNAUTHORIZED or token or not challenge.startswith("Bearer "):
                raise
        token.append(_token(challenge))
        body = _call(url, {"Accept": _MANIFESTS, **_bearer(token)})
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("not a manifest")
    return found


def _bearer(token: list[str]) -> dict[str, str]:
    return {"Authorization": f"Bearer {token[0]}"} if token else {}


def _token(challenge: str) -> str:
    """Return the token that everybody is given."""
    asked = dict(_CHALLENGE.findall(challenge))
    realm = asked.pop("realm")
    if not realm.startswith("https://"):
        raise ValueError("a token is taken over https alone")
    answer = json.loads(_call(f"{realm}?{urllib.parse.urlencode(asked)}", {}))
    return str(answer.get("token") or answer["access_token"])


def _call(url: str, headers: Mapping[str, str], method: str = "GET") -> bytes:
    request = urllib.request.Request(url, headers=dict(headers), method=method)  # noqa: S310  http or https
    with opener().open(request, timeout=_TIMEOUT) as answer:
        return b"".join(capped(answer, _MOST_BYTES))
