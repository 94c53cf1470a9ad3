"""What tests of local sandboxes share."""

from __future__ import annotations

import os

import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider


@pytest.fixture(scope="session", autouse=True)
def bubblewrap() -> None:
    """Skip without it; in CI that is a failure, lest nobody notices that nothing was tested."""
    try:
        LocalProvider(current_owner()).check()
    except EngineUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
