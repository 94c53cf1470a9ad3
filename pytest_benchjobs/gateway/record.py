"""Recorded traffic on disk: written while it passes, and replayed later without an endpoint.

    DIRECTORY/<trial>/0001.json, 0002.json, ...    one call each, in the order in which they were made

Neither keys nor other secrets are in it, and of the headers only those that decide how an answer is read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..system.redact import Redactor

_UNSAFE = re.compile(r"[^A-Za-z0-9._+=@-]")
_LONGEST_NAME = 120
NOBODY_WAITED = 0
"""In place of a status, for a call that was given up before there was an answer."""
_PROMPT = (
    *("model", "messages", "system", "input", "instructions", "contents", "systemInstruction"),
    *("tools", "generationConfig", "max_tokens", "temperature"),
)
_HEADERS = ("content-type", "retry-after")


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded answer."""

    status: int
    headers: Mapping[str, str]
    chunks: tuple[bytes, ...]
    cut: bool
    """It broke off."""


class Recording:
    """Recording of one trial's calls as they are made. Replaces the recording of an earlier try.

    Raises OSError: from every method, if it cannot be written.
    """

    def __init__(self, directory: Path, trial: str, secrets: Mapping[str, str]) -> None:
        self._directory = directory / safe_name(trial)
        self._redactor = Redactor(secrets, patterns=(), escapes=True)
        self._count = 0

    def number(self) -> int:
        """Number of the next call."""
        if self._count == 0:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir(parents=True)
        self._count += 1
        return self._count

    def write(self, number: int, method: str, path: str, body: bytes, answer: Recorded) -> None:
        """Write one call and its answer."""
        whole = b"".join(answer.chunks)
        redacted = self._redactor.redact(whole)
        chunks = answer.chunks if redacted == whole else (redacted,)
        request = {
            "method": method,
            "path": self._redactor.redact_text(path),
            "body": _written(self._redactor, body),
        }
        record = {
            "request": request,
            "response": {
                "status": answer.status,
                "headers": {name: answer.headers[name] for name in _HEADERS if name in answer.headers},
                "chunks": [chunk.decode("utf-8", "surrogateescape") for chunk in chunks],
                "cut": answer.cut,
            },
        }
        try:
            text = json.dumps(record, indent=1)
        except (
            RecursionError
        ):  # the C parser reads deeper JSON than the indented writer, in Python, can write
            request["body"] = self._redactor.redact(body).decode("utf-8", "replace")
            text = json.dumps(record, indent=1)
        file = self._directory / f"{number:04}.json"
        partial = file.with_suffix(".part")
        partial.write_text(text + "\n", "ascii")
        partial.replace(file)


def _written(redactor: Redactor, body: bytes) -> Any:
    """Request body as it is recorded."""
    redacted = redactor.redact(body)
    try:
        return json.loads(redacted)
    except (ValueError, RecursionError):
        return redacted.decode("utf-8", "replace")


class Replay:
    """Replay of one trial's answers: the n-th call of a path gets the recorded answer of the n-th call of that path."""

    def __init__(self, directory: Path, trial: str, secrets: Mapping[str, str]) -> None:
        self._directory = directory / safe_name(trial)
        self._redactor = Redactor(secrets, patterns=(), escapes=True)
        self._files: dict[tuple[str, str], list[Path]] | None = None
        self._next: dict[tuple[str, str], int] = {}

    def answer(self, method: str, path: str, body: bytes) -> tuple[Recorded, str | None] | None:
        """The next answer to such a call; None: there was no such call.

        The second value is the file it is from, if the recorded call had another prompt.

        Raises ValueError: the file was not written by `Recording`.
        """
        if self._files is None:
            self._files = _by_call(sorted(self._directory.glob("*.json")))
        at = self._next.get((method, path), 0)
        files = self._files.get((method, path), [])
        if at >= len(files):
            return None
        self._next[method, path] = at + 1
        record = _load(files[at])
        request, response = record["request"], record["response"]
        same = _prompt(request.get("body")) == _prompt(_written(self._redactor, body))
        try:
            answer = Recorded(
                int(response["status"]),
                dict(response["headers"]),
                tuple(chunk.encode("utf-8", "surrogateescape") for chunk in response["chunks"]),
                bool(response["cut"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{files[at]} is not a recorded call: {error!r}") from None
        return answer, None if same else files[at].name


def _prompt(body: Any) -> Any:
    """Prompt of a request. Other parts, such as session ids, may differ each time."""
    return {name: body.get(name) for name in _PROMPT} if isinstance(body, dict) else body


def _by_call(files: Iterable[Path]) -> dict[tuple[str, str], list[Path]]:
    found: dict[tuple[str, str], list[Path]] = {}
    for file in files:
        request = _load(file)["request"]
        found.setdefault((str(request.get("method")), str(request.get("path"))), []).append(file)
    return found


def _load(file: Path) -> dict[str, dict[str, Any]]:
    try:
        record = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    if not isinstance(record, dict) or not all(
        isinstance(record.get(part), dict) for part in ("request", "response")
    ):
        raise ValueError(f"{file} is not a recorded call")
    return record


def safe_name(trial: str) -> str:
    """`trial` as a path below a directory, safe for any text; different trials get different paths."""
    parts = [_safe_part(part) for part in trial.split("/") if part]
    if not parts:
        raise ValueError("a trial has a name")
    return "/".join(parts)


def _safe_part(part: str) -> str:
    safe = _UNSAFE.sub("_", part).lstrip(".")[:_LONGEST_NAME]
    if safe == part:
        return safe
    return f"{safe}-{hashlib.sha256(part.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
