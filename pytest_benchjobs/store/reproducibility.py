"""What somebody would need to know to run a job again."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

_GIT_SECONDS = 5.0
_PACKAGES = ("pytest", "pytest-xdist", "pytest-benchjobs", "docker")
_ASSIGNING = ("--bench-env",)


def reproducibility(argv: Sequence[str], directory: Path | None = None) -> dict[str, Any]:
    """Command line without values of variables, git commit and state, versions and platform.

    What cannot be found out is None: `git` may be missing, or there may be no repository.
    """
    return {
        "argv": redact_arguments(argv),
        "git": _git(directory or Path.cwd()),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in _PACKAGES},
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def redact_arguments(argv: Sequence[str]) -> list[str]:
    """Copy a command line without the values given to `--bench-env`. Those of `--bench-secret` are names."""
    redacted: list[str] = []
    previous = ""
    for argument in argv:
        option, equals, rest = argument.partition("=")
        if previous in _ASSIGNING:
            redacted.append(_without_value(argument))
        elif option in _ASSIGNING and equals:
            redacted.append(f"{option}={_without_value(rest)}")
        else:
            redacted.append(argument)
        previous = argument
    return redacted


def _without_value(assignment: str) -> str:
    name, equals, _ = assignment.partition("=")
    return f"{name}=[redacted]" if equals else name


def _git(directory: Path) -> dict[str, Any] | None:
    command = ["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    headers = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and line.count(" ") > 1)
    commit = headers.get("branch.oid")
    branch = headers.get("branch.head")
    return {
        "commit": None if commit == "(initial)" else commit,
        "branch": None if branch == "(detached)" else branch,
        "dirty": any(not line.startswith("#") for line in lines),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
