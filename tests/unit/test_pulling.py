"""What a registry says decides; how a connection with the engine broke does not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.sandbox.docker import pulling
from pytest_benchjobs.sandbox.docker.pulling import Refused, Registries, Unreachable

CUT = json.JSONDecodeError("Invalid \\uXXXX escape: no space left on device", "{", 1)


def registries(*answers: dict[str, str] | Exception) -> tuple[Registries, list[object]]:
    """Registries of an engine that answers one pull after the other this way; and the answers that are left."""
    left: list[Any] = list(answers)

    def pull(*_: object, **__: object) -> Iterator[dict[str, str]]:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield answer

    engine: Any = SimpleNamespace(apart=lambda: contextlib.nullcontext(SimpleNamespace(pull=pull)))
    return Registries(engine, lambda check: contextlib.nullcontext()), left


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "rest", lambda seconds, check: None)


def test_an_answer_that_ends_early_is_no_answer_whatever_words_it_ends_with() -> None:
    some, left = registries(CUT, {"error": "connection reset"}, {"status": "done"})
    some.pull("there.example/a", lambda: None)
    assert left == []


def test_an_engine_that_breaks_off_each_time_is_given_up() -> None:
    some, _ = registries(*[CUT] * 5)
    with pytest.raises(Unreachable, match="the connection with the Docker Engine broke: Invalid"):
        some.pull("there.example/a", lambda: None)


def test_what_a_registry_does_not_give_is_asked_for_once() -> None:
    some, left = registries({"error": "invalid reference format"}, {"status": "done"})
    with pytest.raises(Refused, match="invalid reference format"):
        some.pull("there.example/a", lambda: None)
    assert len(left) == 1
