"""Sandboxes are made when somebody first needs one, once, and an engine that did not answer is not asked again."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.sandbox.late import LateProvider
from pytest_benchjobs.sandbox.protocol import NeedsImages

nothing: Any = None


class Provider:
    """Answers with the name of what it was asked for."""

    def __init__(self, problem: EngineUnavailable | None = None) -> None:
        self.asked: list[str] = []
        self._problem = problem

    def check(self) -> None:
        self.asked.append("check")
        if self._problem is not None:
            raise self._problem

    def sweep(self, *, shared: bool = False) -> int:
        self.asked.append("sweep")
        return 7

    def close(self) -> None:
        self.asked.append("close")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "builder":
            raise AttributeError(name)

        def answer(*_: Any, **__: Any) -> str:
            self.asked.append(name)
            return name

        return answer


class WithImages(Provider):
    """Its sandboxes need images."""

    @property
    def builder(self) -> WithImages:
        return self

    def supply(self, *_: Any) -> str:
        return "supply"

    def weigh(self, *_: Any, ask: bool) -> str:
        return f"weigh {ask}"


def late(*made: Any) -> tuple[LateProvider, list[Any]]:
    rest = list(made)
    return LateProvider(lambda: rest.pop(0)), rest


def test_nothing_is_made_for_want_of_a_sandbox() -> None:
    provider, rest = late(Provider())
    assert provider.sweep() == 0
    provider.close()
    assert len(rest) == 1


@pytest.mark.parametrize(
    ("name", "arguments"), [("machine", 0), ("identify", 1), ("start", 2), ("kept", 0), ("forget_kept", 1)]
)
def test_each_question_is_answered_by_the_one_that_is_made_and_checked_once(
    name: str, arguments: int
) -> None:
    real = Provider()
    provider, _ = late(real)
    for _ in range(2):
        assert getattr(provider, name)(*[None] * arguments) == name
    assert real.asked == ["check", name, name]
    assert provider.sweep() == 7
    provider.close()
    assert real.asked[3:] == ["sweep", "close"]


def test_what_a_scenario_lacks_is_told_without_asking_the_engine() -> None:
    real: Any = Provider()
    provider, _ = late(real)
    assert provider.incompatible(nothing, nothing) == "incompatible"
    assert real.asked == ["incompatible"]
    provider.check()
    provider.check()
    assert real.asked == ["incompatible", "check"]


def test_an_engine_that_does_not_answer_is_asked_once() -> None:
    real = Provider(EngineUnavailable("nobody answers"))
    provider, _ = late(real)
    for _ in range(2):
        with pytest.raises(EngineUnavailable, match="nobody answers"):
            provider.check()
    assert real.asked == ["check"]
    assert provider.incompatible(nothing, nothing) is None

    def breaks() -> Any:
        raise EngineUnavailable("there is none")

    assert LateProvider(breaks).incompatible(nothing, nothing) is None


def test_only_sandboxes_that_need_images_have_a_supply_and_a_size() -> None:
    plain, _ = late(Provider())
    assert (plain.supply("j", nothing), plain.weigh(nothing)) == (None, None)
    real = WithImages()
    assert isinstance(real, NeedsImages)
    provider, _ = late(real)
    found: tuple[Any, ...] = (
        provider.supply("j", nothing),
        provider.weigh(nothing),
        provider.weigh(nothing, ask=True),
    )
    assert found == ("supply", "weigh False", "weigh True")
