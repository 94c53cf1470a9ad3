"""Facts needed to run a job again."""

from __future__ import annotations

import getpass
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from ..model.environ import program_environment
from .text import one_line

_GIT_SECONDS = 5.0
_PACKAGES = ("pytest", "pytest-xdist", "pytest-benchjobs", "docker")
_ASSIGNING = ("--bench-env",)
_OVERRIDING = re.compile(r"-[A-Za-z]*o|--override-ini")
_OVERRIDDEN = re.compile(
    r"(?P<upto>(?P<option>-[A-Za-z]*o=?|--override-ini=)?bench_env=)(?P<lines>.*)", re.DOTALL
)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NAME = 200
# GitHub, GitLab, Jenkins.
_CI_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")
_CI_BRANCHES = (
    ("GITHUB_REF_NAME", ""),
    ("CI_COMMIT_BRANCH", ""),
    ("BRANCH_NAME", ""),
    ("GIT_BRANCH", "origin/"),
)
_ACTORS = ("GITHUB_ACTOR", "GITLAB_USER_LOGIN", "BUILD_USER_ID")


def reproducibility(argv: Sequence[str], directory: Path | None = None) -> dict[str, Any]:
    """Return the command line without values of variables, git commit and state, versions and platform.

    Unknown facts are None: `git` may be missing, or there may be no repository.
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
    """Copy a command line without the values of `--bench-env` and its ini key. Those of `--bench-secret` are names."""
    redacted: list[str] = []
    previous = ""
    for argument in argv:
        option, equals, rest = argument.partition("=")
        if previous in _ASSIGNING:
            redacted.append(_without_value(argument))
        elif option in _ASSIGNING and equals:
            redacted.append(f"{option}={_without_value(rest)}")
        elif (overridden := ini_variables(previous, argument)) is not None:
            lines = (_without_value(line) if "=" in line else "[redacted]" for line in overridden.lines)
            redacted.append(overridden.upto + "\n".join(lines))
        else:
            redacted.append(argument)
        previous = argument
    return redacted


class IniVariables(NamedTuple):
    """An argument that overrides the ini key `bench_env`."""

    upto: str
    """Return the part before the values: `-obench_env=`."""
    lines: list[str]
    """The values, `NAME=VALUE` each."""


def ini_variables(previous: str, argument: str) -> IniVariables | None:
    """Return the variables of an argument after `previous`, if it is a form of pytest's `-o bench_env=...`."""
    match = _OVERRIDDEN.fullmatch(argument)
    if match is None or not (match["option"] or _OVERRIDING.fullmatch(previous)):
        return None
    return IniVariables(match["upto"], [line.strip() for line in match["lines"].split("\n") if line.strip()])


def _without_value(assignment: str) -> str:
    name, equals, _ = assignment.partition("=")
    return f"{name}=[redacted]" if equals else name


def is_ancestor(directory: Path, commit: str, of: str) -> bool | None:
    """Return whether a commit is an ancestor of another one, or the same. None: unknown in this directory."""
    if not (_COMMIT.fullmatch(commit) and _COMMIT.fullmatch(of)):
        return None
    done = _called(directory, "merge-base", "--is-ancestor", commit, of)
    return None if done is None or done.returncode not in (0, 1) else done.returncode == 0


def head(directory: Path) -> str | None:
    """Return the commit checked out in a directory, from git or CI; None: unknown."""
    found = _git(directory)
    commit = found and found["commit"]
    return commit if isinstance(commit, str) else None


def person(directory: Path) -> str | None:
    """Return the user: of the CI run, else of git, else the login; None: unknown."""
    for variable in _ACTORS:
        if os.environ.get(variable):
            return one_line(os.environ[variable], _NAME)
    done = _called(directory, "config", "user.name")
    name = "" if done is None or done.returncode else one_line(done.stdout.decode("utf-8", "replace"), _NAME)
    if name:
        return name
    try:
        return one_line(getpass.getuser(), _NAME)
    except (KeyError, OSError):  # no variable has it, and the machine does not know this user
        return None


def _git(directory: Path) -> dict[str, Any] | None:
    """Return commit, branch and state. CI checks out commits without branches, often in a directory git distrusts."""
    done = _called(
        directory, "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=no"
    )
    if done is None or done.returncode != 0:
        commit = next((os.environ[name] for name in _CI_COMMITS if os.environ.get(name)), None)
        if commit is None or not _COMMIT.fullmatch(commit):
            return None
        return {"commit": commit, "branch": _ci_branch(), "dirty": None}
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    headers = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and line.count(" ") > 1)
    commit = headers.get("branch.oid")
    branch = headers.get("branch.head")
    return {
        "commit": None if commit == "(initial)" else commit,
        "branch": _ci_branch() if branch == "(detached)" else branch,
        "dirty": any(not line.startswith("#") for line in lines),
    }


def _ci_branch() -> str | None:
    """Return the branch that CI builds. A pull request has CI's name: its own branch may have the name of ours."""
    for variable, prefix in _CI_BRANCHES:
        if variable == "GITHUB_REF_NAME" and os.environ.get("GITHUB_REF_TYPE") == "tag":
            continue
        branch = os.environ.get(variable, "").removeprefix(prefix)
        if branch and branch not in ("HEAD", "detached"):
            return one_line(branch, _NAME)
    return None


def _called(directory: Path, *arguments: str) -> subprocess.CompletedProcess[bytes] | None:
    """Call git; None if it is missing or fails."""
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=directory,
            env=program_environment("GIT_"),
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
