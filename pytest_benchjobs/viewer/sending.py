"""Answers with files: the page and its parts, which come with this package, and files of trials, which agents wrote."""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from .content import FILE, open_file
from .guard import POLICY
from .inline import page_parts
from .query import Query, Refused
from .results import Results
from .static import INDEX, static_files
from .trial import image_type, kind_of

_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_CHUNK = 1 << 18
_WORTH, _LARGE = 1000, 1 << 18
_SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
"""Content security policy of a page that an agent wrote: it runs nothing, loads nothing, and has no origin."""
_PICTURE = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"


PAGES = ("jobs", "runs", "job", "trial", "compare", "steps", "scenario", "trend", "live")
"""Values of `page`."""


def page_answer(results: Results, request: Request) -> Response:  # noqa: ARG001  the page is the same for all
    """Answer with the page, whose script shows everything, also that there is no page of such a name."""
    answer = packed(request, static_files()[INDEX], "text/html", {"Content-Security-Policy": POLICY})
    if (request.query_params.get("page") or PAGES[0]) not in PAGES:
        answer.status_code = 404
    return answer


def static_answer(results: Results, request: Request) -> Response:  # noqa: ARG001  all are the package's own
    """Answer with a part of the page."""
    name = request.path_params["name"]
    data = _parts().get(name)
    if data is None:
        raise Refused(404, "there is no such file")
    tag = _tag(name)
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    media_type = _TYPES.get(PurePosixPath(name).suffix, "text/plain")
    if _takes_gzip(request) and len(data) > _WORTH:
        headers |= {"Vary": "Accept-Encoding", "Content-Encoding": "gzip"}
        return Response(_packed_part(name), 200, headers, media_type)
    return packed(request, data, media_type, headers)


def file_answer(results: Results, request: Request) -> Response:
    """Answer with a file of a trial: to be stored, or with `view=1` shown as far as that is safe."""
    query = Query(request.query_params.multi_items(), FILE)
    view = query.choice("view", "0", ("0", "1")) == "1"
    file, path = open_file(results, query, request.path_params["job"])
    size = os.fstat(file.fileno()).st_size
    headers = {"Accept-Ranges": "bytes", **_as_shown(path, view)}
    start, end = 0, size
    status = 200
    wanted = request.headers.get("range")
    if wanted is not None and (span := _range(wanted, size)) is not None:
        start, end = span
        if start >= size:
            file.close()
            return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    headers["Content-Length"] = str(end - start)
    if request.method == "HEAD":
        file.close()
        return Response(status_code=status, headers=headers)
    return _FileResponse(file, _read(file, start, end), status, headers)


class _FileResponse(StreamingResponse):
    """Closes the file when it ends, in whatever way: who leaves before the first byte never begins to read."""

    def __init__(
        self, file: BinaryIO, content: Iterator[bytes], status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(content, status, headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def packed(request: Request, data: bytes, media_type: str, headers: dict[str, str] | None = None) -> Response:
    """Return an answer, compressed where that is worth it and the client can read it."""
    headers = {"Vary": "Accept-Encoding", **(headers or {})}
    if len(data) > _WORTH and _takes_gzip(request):
        data = gzip.compress(data, 4 if len(data) < _LARGE else 1)  # of a large one, time counts more
        headers["Content-Encoding"] = "gzip"
    return Response(data, 200, headers, media_type)


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _as_shown(path: str, view: bool) -> dict[str, str]:
    """Return the headers of a file, by its name: what it contains is not looked at."""
    kind = kind_of(path)
    name = quote(path.rpartition("/")[2], safe="")
    if not view or kind == "binary":
        return {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Security-Policy": _SANDBOX,
        }
    if kind == "image":
        return {"Content-Type": image_type(path), "Content-Security-Policy": _PICTURE}
    if kind == "html":
        page = "image/svg+xml" if path.lower().endswith(".svg") else "text/html; charset=utf-8"
        return {"Content-Type": page, "Content-Security-Policy": _SANDBOX}
    return {"Content-Type": "text/plain; charset=utf-8", "Content-Security-Policy": _SANDBOX}


def _range(header: str, size: int) -> tuple[int, int] | None:
    """Parse a range of bytes; None for what is none, or several."""
    unit, _, spans = header.partition("=")
    first, dash, last = spans.partition("-")
    numbers = [part for part in (first, last) if part]
    if unit.strip() != "bytes" or not dash or not numbers or not all(_is_number(part) for part in numbers):
        return None
    if not first:
        return max(0, size - int(last)), size
    start = int(first)
    end = int(last) + 1 if last else max(size, start + 1)
    return (start, min(end, size)) if end > start else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _read(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while start < end and (data := file.read(min(_CHUNK, end - start))):
            start += len(data)
            yield data
        if start < end:
            yield b"\0" * (end - start)  # it became shorter, and the length is sent already


@functools.cache
def _parts() -> dict[str, bytes]:
    return page_parts(static_files())


@functools.cache
def _packed_part(name: str) -> bytes:
    return gzip.compress(_parts()[name])


@functools.cache
def _tag(name: str) -> str:
    return f'"{hashlib.sha256(_parts()[name]).hexdigest()[:24]}"'
