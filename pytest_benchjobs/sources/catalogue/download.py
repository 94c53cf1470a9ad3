"""Downloads by HTTP that resume after interruptions, and are verified."""

from __future__ import annotations

import contextlib
import errno
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...model.errors import InfrastructureError
from ...system.http import Downgrade, opener, retry_after
from ...system.keeping import digest
from ...system.units import size
from .entry import FileOrigin

Progress = Callable[[str], None]
"""Callback for a line about progress."""
_CHUNK = 1 << 18
_TIMEOUT = 60.0
_TRIES = 6
"""The most tries in a row that fetch nothing."""
_LONGEST_WAIT = 60.0
_PROGRESS_SECONDS = 2.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO})
_CUT = (OSError, http.client.HTTPException)


class _NotNow(Exception):
    """The server asks to retry later, perhaps after a number of seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


def download(
    origin: FileOrigin, target: Path, on_progress: Progress, pause: Callable[[float], None] = time.sleep
) -> None:
    """Make sure that the file of an address is at `target`, where a part of it may be already.

    It is an `InfrastructureError` if it cannot be fetched, or differs from the entry's checksum.
    """
    resumed = target.exists()
    if not (resumed and origin.sha256 is not None and digest(target) == origin.sha256):
        _patiently(origin, target, on_progress, pause)
    if (why := _mistake(origin, target)) is not None and resumed:
        # The existing part may have been of another file.
        on_progress(f"{origin.name}: {why}; fetching all of it again")
        _forget(target)
        _patiently(origin, target, on_progress, pause)
        why = _mistake(origin, target)
    if why is not None:
        _forget(target)
        raise InfrastructureError(f"{origin.url}: {why}. Try again later; it may have been replaced there")
    _tag_of(target).unlink(missing_ok=True)


def _mistake(origin: FileOrigin, target: Path) -> str | None:
    if origin.sha256 is None:
        return None
    found = digest(target)
    return None if found == origin.sha256 else f"its sha256 is {found}, and should be {origin.sha256}"


def _patiently(
    origin: FileOrigin, target: Path, on_progress: Progress, pause: Callable[[float], None]
) -> None:
    """Fetch the rest, with any number of interruptions, as long as something arrives."""
    failed = 0
    while True:
        before = _size(target)
        wait = None
        try:
            _fetch_rest(origin, target, on_progress)
        except _NotNow as error:
            why, wait = str(error), error.wait
        except _CUT as error:
            if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
                raise
            why = str(getattr(error, "reason", None) or error) or type(error).__name__
        else:
            return
        failed = 1 if _size(target) > before else failed + 1
        if failed >= _TRIES:
            raise InfrastructureError(
                f"{origin.url}: cannot be fetched: {why}. {size(_size(target))} are kept: "
                "repeat the command to continue"
            )
        seconds = min(wait if wait is not None else 2.0 ** (failed - 1), _LONGEST_WAIT)
        on_progress(f"{origin.name}: {why}; next try in {seconds:.0f} s")
        pause(seconds)


def _fetch_rest(origin: FileOrigin, target: Path, on_progress: Progress) -> None:
    have = _size(target)
    tag = _tag_of(target).read_text("utf-8") if _tag_of(target).exists() else None
    if have and tag is None and origin.sha256 is None:
        _forget(target)  # without a tag, the next part may be of another file
        have = 0
    headers = {"User-Agent": "pytest-benchjobs", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if tag is not None:
            headers["If-Range"] = tag
    with _answer(origin, headers) as answer:
        part, _, total = answer.headers.get("Content-Range", "").partition("/")
        if answer.status == 416:
            if total != str(have):
                _forget(target)
                raise _NotNow(f"{origin.name} is shorter on the server than the part downloaded", 0.0)
            return
        goes_on = answer.status == 206 and part.removeprefix("bytes").strip().startswith(f"{have}-")
        if answer.status == 206 and not goes_on:
            _forget(target)
            raise _NotNow("the server sent another part than requested", 0.0)
        etag = answer.headers.get("ETag")
        if etag and not etag.startswith("W/"):
            _tag_of(target).write_text(etag, "utf-8")
        elif not goes_on:
            _tag_of(target).unlink(missing_ok=True)
        _write(origin, target, answer, have if goes_on else 0, on_progress)


def _write(origin: FileOrigin, target: Path, answer: Any, have: int, on_progress: Progress) -> None:
    length = answer.headers.get("Content-Length")
    total = have + int(length) if length is not None and length.isdecimal() else origin.bytes
    said = time.monotonic()
    with target.open("ab" if have else "wb") as file:
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            have += len(chunk)
            if origin.bytes is not None and have > origin.bytes:
                raise InfrastructureError(
                    f"{origin.url}: it is larger than the {origin.bytes} bytes its entry says"
                )
            if time.monotonic() - said >= _PROGRESS_SECONDS:
                said = time.monotonic()
                of = f" of {size(total)}" if total else ""
                on_progress(f"{origin.name}: {size(have)}{of}")
    if total is not None and have < total:
        raise _NotNow(f"the connection was cut after {have} of {total} bytes")


@contextlib.contextmanager
def _answer(origin: FileOrigin, headers: Mapping[str, str]) -> Iterator[Any]:
    """Answer of the server, with a status below 300, or 416: the part that is here is complete, or of another file."""
    request = urllib.request.Request(origin.url or "", headers=dict(headers))  # noqa: S310
    try:
        with opener().open(request, timeout=_TIMEOUT) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:
                yield error
                return
            message = f"the server answers {error.code} {error.reason}"
            if error.code not in _AGAIN:
                raise InfrastructureError(f"{origin.url}: {message}") from None
            raise _NotNow(message, retry_after(error.headers.get("Retry-After"))) from None
    except Downgrade as error:
        raise InfrastructureError(f"{origin.url}: {error}") from None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _tag_of(target: Path) -> Path:
    """File with the ETag of the partial file."""
    return target.with_name(f"{target.name}.etag")


def _forget(target: Path) -> None:
    target.unlink(missing_ok=True)
    _tag_of(target).unlink(missing_ok=True)
