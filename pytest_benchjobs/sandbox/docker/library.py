"""The engine's client library: a connected client, and what its exceptions say."""

from __future__ import annotations

import json
import ssl

import docker
import docker.errors
import docker.utils
import requests
import urllib3.exceptions

from .transport import UnixAdapter

_IDLE_CONNECTIONS = 32

BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError, json.JSONDecodeError)
"""Exceptions of a connection that breaks, through all the layers below."""
ERRORS = (*BROKEN, docker.errors.DockerException)
"""Everything it raises of its own."""


def connect(path: str | None, timeout: int) -> tuple[docker.APIClient, ssl.SSLContext | None]:
    """A client of the engine that the environment names, and how its connections are encrypted. Seconds.

    `path` is that of its unix socket, if it has one.

    Raises:
        ERRORS, OSError: it does not answer, or its certificates cannot be read.

    """
    options = docker.utils.kwargs_from_env()
    # version="auto" is one call; it is the first sign of life.
    client = docker.APIClient(**options, version="auto", timeout=timeout)
    if path is not None:
        client.close()
        client.mount("http+docker://", UnixAdapter(path, timeout, _IDLE_CONNECTIONS))
    # Proxies, .netrc and REQUESTS_CA_BUNDLE are for the web, and override the engine's own certificates.
    client.trust_env = False
    tls = options.get("tls")
    if not tls:
        return client, None
    context = ssl.create_default_context(cafile=tls.ca_cert)
    context.check_hostname = bool(tls.verify)
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(*tls.cert)
    return client, context


def said_by(error: Exception) -> tuple[int | None, str] | None:
    """The status and the words with which the engine refused; None where it said nothing."""
    if not isinstance(error, docker.errors.APIError):
        return None
    return error.status_code, error.explanation or str(error)
