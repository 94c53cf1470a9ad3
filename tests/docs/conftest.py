"""For the walk through docs/commands.md."""

import pytest

collect_ignore = ["project"]
"""For the sessions that `test_seed_commands` starts, not for this one."""

pytest.register_assert_rewrite("tests.docs.commands", "tests.docs.eliza", "tests.docs.runloop")
