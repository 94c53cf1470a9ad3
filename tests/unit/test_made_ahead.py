"""Sandboxes that are made ahead: taken once they are made, else interrupted and removed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.trial import sandboxes
from pytest_benchjobs.trial.cancellation import Cancellation, Cancelled


class Maker:
    """Makes things that are ready when they are interrupted, or at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> None:
        monkeypatch.setattr(sandboxes, "make", self.make)
        self.begun, self.interrupted = threading.Event(), threading.Event()
        self.waits = waits
        self.removed: list[None] = []
        self.made = SimpleNamespace(remove=lambda: self.removed.append(None))
        self.cancellation = Cancellation()
        context: Any = SimpleNamespace(cancellation=self.cancellation)
        self.ahead = sandboxes.Ahead(context)

    def make(self, context: Any, enter: Any, own: Cancellation) -> Any:
        with own.interrupting(self.interrupted.set):
            self.begun.set()
            if self.waits:
                self.interrupted.wait()
        return self.made


def test_one_is_made_and_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker(monkeypatch, waits=False)
    assert maker.ahead.take() is None
    maker.ahead.begin()
    assert maker.ahead.take() is maker.made
    assert maker.ahead.take() is None
    maker.ahead.close()
    assert maker.removed == []


def test_what_nobody_takes_is_interrupted_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker(monkeypatch, waits=True)
    maker.ahead.begin()
    assert maker.begun.wait(60)
    maker.cancellation.request()
    with pytest.raises(Cancelled):
        maker.ahead.take()
    maker.ahead.close()
    assert maker.removed == [None]
