"""How many examples are tried of each property; nothing waits for a disk; gateways, and an endpoint for them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from pytest_benchjobs.gateway.client import Gateway
from tests.unit.gateways import Model, chat_answer, running

# `daily` is what `make test` has time for. `make extended` asks for `thorough`, with `--hypothesis-profile`.
# Both are laid over what holds on this machine anyway: where CI is set, every run tries the same examples. A failure
# prints what repeats it.
settings.register_profile("thorough", settings(), deadline=None, max_examples=100, print_blob=True)
settings.register_profile("daily", settings(), deadline=None, max_examples=25, print_blob=True)
settings.load_profile("daily")


@pytest.fixture(scope="session", autouse=True)
def _no_disk_is_waited_for() -> Iterator[None]:
    """Processes are killed here, machines are not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One with a second of patience."""
    with running(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One that keeps trying for as long as a test takes."""
    with running(tmp_path_factory.mktemp("gateway"), patience=30) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One that tries again once or twice."""
    with running(tmp_path_factory.mktemp("gateway"), patience=0.3) as gateway:
        yield gateway


@pytest.fixture
def model() -> Iterator[Model]:
    """An endpoint that says what a test tells it to."""
    model = Model()
    yield model
    model.close()


@pytest.fixture
def answering(model: Model) -> None:
    """The endpoint answers every call."""
    model.otherwise = chat_answer()
