"""What all tests share."""

from __future__ import annotations

import os
import signal

import pytest

from . import composing, limits

# A job that a shell started in the background, as CI often is, ignores Ctrl-C, and so does every process it starts.
# Tests which send it must mean something there too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Without bytecode each of the many processes that tests start would compile pytest's plugins and this package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What is kept on the machine that runs the tests is nobody's business here.
os.environ["BENCHJOBS_CONFIG"] = "/nonexistent/benchjobs"


composing.provide()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(limits, "limits")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes long, lest at the end all wait for one."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this test are not forked: it is about what they import, or what others see of them."""
    monkeypatch.setattr("tests.forking.address", None)
