"""What the engine's refusals are, and what is quoted of them."""

from __future__ import annotations

import pytest

from pytest_benchjobs.model.errors import ContainerLost, DiskFull, EngineError
from pytest_benchjobs.sandbox.docker.engine import message, refusal


@pytest.mark.parametrize(
    ("status", "text", "error", "words"),
    [
        (
            500,
            " write /x: No space left on device\n",
            DiskFull,
            "disk is full: write /x: No space left on device",
        ),
        (404, "disk quota exceeded", DiskFull, "disk is full"),
        (404, "No such container: abc", ContainerLost, "by something else: No such container: abc"),
        (409, "container abc is not running", ContainerLost, "by something else"),
        (409, "container is marked for removal and cannot be started", ContainerLost, "by something else"),
        (409, "Container abc is restarting, wait", ContainerLost, "by something else"),
        (409, "removal of container abc is already in progress", ContainerLost, "by something else"),
        (
            409,
            "removal of container abc failed",
            EngineError,
            "refused (409): removal of container abc failed",
        ),
        (409, "a pull is in progress", EngineError, "refused (409)"),
        (500, "No such container: abc", EngineError, "refused (500): No such container: abc"),
        (404, "no such image", EngineError, "refused (404): no such image"),
        (None, "is not running", EngineError, "refused (None)"),
    ],
)
def test_what_a_refusal_means(status: int | None, text: str, error: type[Exception], words: str) -> None:
    found = refusal(status, text)
    assert type(found) is error
    assert words in str(found)
    assert str(found) == str(found).strip()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message": "no such image"}', "no such image"),
        (b'1c\r\n{"message": "no such image"}\r\n0\r\n\r\n', "no such image"),
        (b'{"error": "x"}', '{"error": "x"}'),
        (b"[1]", "[1]"),
        (b"{broken}", "{broken}"),
        (b"x" * 600, "x" * 500),
        (b"", ""),
    ],
)
def test_the_engines_own_words_are_quoted(body: bytes, words: str) -> None:
    assert message(body) == words
