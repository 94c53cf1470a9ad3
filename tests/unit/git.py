"""Repositories for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(root: Path, *words: str) -> str:
    """Run git in a directory, as somebody; returns what it says."""
    call = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip()
