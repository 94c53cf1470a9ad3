"""Variables are copied while another thread changes them."""

from __future__ import annotations

import os
import threading

import pytest

from pytest_benchjobs.model.environ import host_environment


def test_a_variable_that_comes_and_goes_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAYS", "here")
    monkeypatch.setenv("GOES", "now and then")
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            os.environ["GOES"] = "now and then"
            os.environ.pop("GOES")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        copies = [host_environment() for _ in range(3000)]
    finally:
        stop.set()
        thread.join()
    assert all(copy["STAYS"] == "here" for copy in copies)
