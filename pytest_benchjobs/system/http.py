"""Calls of servers by HTTP: certificates, redirections, `Retry-After`."""

from __future__ import annotations

import contextlib
import email.utils
import functools
import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import urllib.request


class Downgrade(Exception):
    """A server leads from https to an address without encryption."""


@functools.cache
def opener() -> urllib.request.OpenerDirector:
    """Return what opens addresses: it trusts the machine's certificates and certifi's; a downgrade is a `Downgrade`."""
    import ssl
    import urllib.request

    import certifi

    class NoDowngrade(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            if req.full_url.startswith("https:") and not newurl.startswith("https:"):
                raise Downgrade(f"it leads from https to {newurl[:200]}")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), NoDowngrade())


def retry_after(written: str | None, now: float | None = None) -> float | None:
    """Return the seconds that `Retry-After` asks to wait, which it writes as a number or a date; None: neither.

    `now` is in seconds since the epoch.
    """
    if written is None:
        return None
    with contextlib.suppress(ValueError):
        seconds = float(written)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        date = email.utils.parsedate_to_datetime(written).timestamp()
        return max(0.0, date - (time.time() if now is None else now))
    return None
