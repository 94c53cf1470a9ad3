"""Sandboxes that are made ahead: taken once they are made, else interrupted and removed."""

from __future__ import annotations

import threading

import pytest

from pytest_benchjobs.trial.ahead import Ahead
from pytest_benchjobs.trial.cancellation import Cancellation, Cancelled


class Maker:
    """Makes things that are ready when they are interrupted, or at once."""

    def __init__(self, *, waits: bool) -> None:
        self.begun, self.interrupted = threading.Event(), threading.Event()
        self.waits = waits
        self.removed: list[str] = []
        self.cancellation = Cancellation()
        self.ahead = Ahead(self.make, self.removed.append, self.cancellation)

    def make(self, own: Cancellation) -> str:
        with own.interrupting(self.interrupted.set):
            self.begun.set()
            if self.waits:
                self.interrupted.wait()
        return "made"


def test_one_is_made_and_taken_once() -> None:
    maker = Maker(waits=False)
    assert maker.ahead.take() is None
    maker.ahead.begin()
    assert maker.ahead.take() == "made"
    assert maker.ahead.take() is None
    maker.ahead.close()
    assert maker.removed == []


def test_what_nobody_takes_is_interrupted_and_removed() -> None:
    maker = Maker(waits=True)
    maker.ahead.begin()
    assert maker.begun.wait(60)
    maker.cancellation.request()
    with pytest.raises(Cancelled):
        maker.ahead.take()
    maker.ahead.close()
    assert maker.removed == ["made"]
