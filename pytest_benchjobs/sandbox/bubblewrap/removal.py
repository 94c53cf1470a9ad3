"""Removing what a sandbox left, whatever an agent made of it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from ...model.environ import program_environment

_AS_ROOT = (
    "--unshare-user",
    "--uid",
    "0",
    "--gid",
    "0",
    "--cap-drop",
    "ALL",
    "--cap-add",
    "CAP_DAC_OVERRIDE",
)
_SECONDS = 600.0


def remove_tree(path: Path) -> None:
    """Remove a directory and all in it. Never raises."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        # It is deeper than Python goes, or locked. Then root of a user namespace does it, and sees no more than that.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["bwrap", *_AS_ROOT, "--ro-bind", "/", "/", "--bind", path, path, "rm", "-rf", "--", path],
                check=False,
                cwd="/",
                env=program_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
            )
            path.rmdir()
