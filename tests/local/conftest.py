"""What tests of local sandboxes share."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider

# Nothing of ours: only what every sandbox of bubblewrap needs.
PLAIN = ("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true")


@pytest.fixture(scope="session", autouse=True)
def bubblewrap() -> None:
    """Skip without it; in CI that is a failure, lest nobody notices that nothing was tested.

    Where the kernel forbids user namespaces nothing can be tested, in CI either, unless BENCHJOBS_REQUIRE_LOCAL is 1.
    """
    try:
        LocalProvider(current_owner()).check()
    except EngineUnavailable as error:
        if os.environ.get("BENCHJOBS_REQUIRE_LOCAL") == "1" or (
            os.environ.get("CI") == "true" and (shutil.which("bwrap") is None or _makes_sandboxes())
        ):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def _makes_sandboxes() -> bool:
    return subprocess.run(PLAIN, capture_output=True, check=False).returncode == 0
