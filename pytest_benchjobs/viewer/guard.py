"""Checks of each request before it is answered, and headers of each answer. Agents wrote what is shown; anyone may ask.

A browser on this machine can be made to call us from any page: `Host` tells such calls by a name of somebody else (DNS
rebinding), and no answer may be read from another origin. Nothing changes whatever the request is.
"""

from __future__ import annotations

import contextlib
import hmac
import html
import ipaddress
from collections.abc import Collection, Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .query import VALUES

COOKIE = "benchjobs_token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy of pages."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "SAMEORIGIN",
    "Cache-Control": "no-store",
}
"""Headers of answers that have none of their own."""
_OWN_NAMES = frozenset({"localhost"})
QUERY_LIMIT = 16_384
"""Bytes of a query, and of a path."""


class Guard:
    """Refuses calls by foreign names, without the token, of any method that could change something, or too long."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = (), token: str | None = None) -> None:
        self._app = app
        self._hosts = frozenset(host.lower().rstrip(".") for host in hosts)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return refused(405, "only GET and HEAD: nothing here changes anything", {"Allow": "GET, HEAD"})
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return refused(
                421, "called by a name that is not its own; `benchjobs serve --allow-host NAME` allows it"
            )
        if len(scope["query_string"]) > QUERY_LIMIT or len(scope["path"]) > QUERY_LIMIT:
            return refused(414, f"the query is longer than {QUERY_LIMIT} bytes")
        return self._entry(scope, headers)

    def _is_own(self, host: str) -> bool:
        if "*" in self._hosts:
            return True
        name = _name_of(host)
        if name in _OWN_NAMES or name in self._hosts or _is_loopback(name):
            return True
        # Where a token is asked for, others may call: an address is not a name that somebody could make lead here.
        return bool(self._token) and _address(name) is not None

    def _entry(self, scope: Scope, headers: Headers) -> Response | None:
        """Return what to answer to a request without the token, or with it in the URL."""
        if self._token is None or scope["path"] == f"{scope.get('root_path', '')}/health":
            return None
        query = scope["query_string"].decode("latin-1")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=VALUES, encoding="utf-8")
        except ValueError:
            return refused(414, f"more than {VALUES} parameters")
        given = [value for name, value in pairs if name == "token"]
        if given and self._is_right(given[-1]):
            rest = urlencode([(name, value) for name, value in pairs if name != "token"])
            # Two slashes at the beginning would lead to another host.
            path = "/" + scope["path"].lstrip("/")
            answer = RedirectResponse(f"{path}{'?' if rest else ''}{rest}", status_code=303)
            root = scope.get("root_path", "") or "/"
            answer.set_cookie(COOKIE, self._token, path=root, httponly=True, samesite="lax")
            return answer
        if self._is_right(_cookie(headers)) or self._is_right(_bearer(headers)):
            return None
        return refused(403, "this address needs its token: open the URL that `benchjobs serve` printed")

    def _is_right(self, given: str) -> bool:
        # An empty token is nobody's.
        return bool(self._token) and hmac.compare_digest(given.encode(), str(self._token).encode())


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Not shown · benchjobs</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}/static/viewer.css"></head>
<body><header class="top"><p class="brand">benchjobs</p></header>
<main><h1>This page cannot be shown</h1><p class="error">{message}</p><p><a href="{root}/">To the jobs</a></p></main>
</body></html>
"""


class _Refusal(Response):
    """Why a request is refused: JSON below `/api`, a page with a way back anywhere else."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None) -> None:
        super().__init__(status_code=status)
        self._message = message
        self._more = headers or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        root = scope.get("root_path", "")
        answer: Response
        if scope["path"].startswith(f"{root}/api/"):
            error = {"status": self.status_code, "message": self._message}
            answer = JSONResponse({"error": error}, self.status_code, self._more)
        else:
            page = _PAGE.format(root=html.escape(root), message=html.escape(self._message))
            answer = HTMLResponse(page, self.status_code, {"Content-Security-Policy": POLICY, **self._more})
        await answer(scope, receive, send)


def refused(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return an answer that refuses a request."""
    return _Refusal(status, message, headers)


def health() -> Response:
    """Return the answer to whether the viewer runs."""
    return PlainTextResponse("ok")


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return guarded


def _name_of(host: str) -> str:
    """Return the name in a `Host` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name)
    return None


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return address is not None and address.is_loopback


def is_loopback(host: str) -> bool:
    """Tell whether an address that is bound can be called from this machine only."""
    return host == "localhost" or _is_loopback(host)


def _cookie(headers: Headers) -> str:
    found: SimpleCookie = SimpleCookie()
    try:
        found.load(headers.get("cookie", "")[:QUERY_LIMIT])
    except CookieError:
        return ""
    return found[COOKIE].value if COOKIE in found else ""


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def names(hosts: Iterable[str]) -> frozenset[str]:
    """Return names without what a port or brackets add."""
    return frozenset(host if host == "*" else _name_of(host) for host in hosts)
