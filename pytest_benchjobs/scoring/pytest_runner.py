"""The command that runs pytest on tests in a sandbox.

The workdir is the agent's: a `pytest.py`, a `conftest.py` or a plugin's metadata in it must not take part in running
the tests.
"""

from __future__ import annotations

import shlex
from pathlib import Path

# With `python3 -c` the path begins with the workdir, which is removed; `-s` leaves the user's own directory out. Both
# are appended when pytest and its plugins are loaded: tests can import the agent's code, which hides nothing.
_RUN = """\
import sys
sys.path[:] = [place for place in sys.path if place]
import os, site, pytest
class WorkdirLast:
    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self):
        sys.path += [os.getcwd(), site.getusersitepackages()]
sys.exit(pytest.main(plugins=[WorkdirLast()]))
"""
_NOTHING = "/dev/null"
_CONFIGURATIONS = (
    ("pytest.toml", ""),
    (".pytest.toml", ""),
    ("pytest.ini", ""),
    (".pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("tox.ini", "[pytest]"),
    ("setup.cfg", "[tool:pytest]"),
)
"""Configuration files of pytest, and the text that each must contain; the first one found counts."""


def pytest_command(tests: Path, target: str) -> str:
    """The shell command for `tests`, a file or directory of this machine that is at `target` in the sandbox."""
    directory = target if tests.is_dir() else target.rpartition("/")[0]
    options = [
        *("-q", "-p", "no:cacheprovider"),
        *("-c", _configuration(tests, directory)),
        f"--rootdir={directory}",
        f"--confcutdir={directory}",
    ]
    return f'python3 -s -c {shlex.quote(_RUN)} {shlex.join(options)} --junitxml="$BENCH_JUNIT" {shlex.quote(target)}'


def _configuration(tests: Path, directory: str) -> str:
    """The configuration file of the tests. Without it, pytest would search for one in the directories above."""
    for name, section in _CONFIGURATIONS:
        path = tests / name
        if path.is_file() and section in path.read_text("utf-8", "replace"):
            return f"{directory}/{name}"
    return _NOTHING
