"""For the walk through docs/commands.md."""

from collections.abc import Iterator

import pytest

from .. import forking

collect_ignore = ["project"]
"""For the sessions that `test_seed_commands` starts, not for this one."""

pytest.register_assert_rewrite("tests.docs.eliza", "tests.docs.runloop")


@pytest.fixture(scope="session", autouse=True)
def _forking() -> Iterator[None]:
    with forking.served():
        yield
