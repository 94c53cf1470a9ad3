"""The program Docker Compose, a plugin of Docker's command line: where it is, and how it is run."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ....model.environ import host_environment, program_environment
from ....model.errors import EnvironmentFailed
from ....model.scenario import MAIN
from ....sources.compose import OWN_IMAGE
from ....sources.compose_rules import VARIABLES
from ....system.cutting import end_of
from ...host_command import LocalCommand

_NAME = "docker-compose"
_PLACES = (
    "/usr/local/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/libexec/docker/cli-plugins",
)
_OLDEST = (2, 20)
_OF_ENGINE = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION", "DOCKER_CONFIG")
_BASE = json.dumps({"services": {MAIN: {"image": OWN_IMAGE}}})
"""Base that compose files extend: a file need not give `main` an image."""
_QUOTED = str.maketrans({"\\": r"\\", '"': r"\"", "$": r"\$", "\n": r"\n", "\r": r"\r"})
_VERSION_TIMEOUT, _READING_TIMEOUT = 30.0, 60.0
_HOW = (
    "Install it: the package docker-compose-plugin of Docker, or docker-compose of Debian and Ubuntu, "
    "or put the program docker-compose into ~/.docker/cli-plugins"
)


def find_plugin(file: Path) -> str:
    """Return the path of the program, for a task with this file.

    Where there is none, or one that is too old, that is an `EnvironmentFailed`, with what to do.
    """
    own = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")  # noqa: PTH111  never raises
    places = (f"{own}/cli-plugins", *_PLACES, None)  # None: those of PATH
    path = next(filter(None, (shutil.which(_NAME, path=place) for place in places)), None)
    if path is None:
        raise EnvironmentFailed(
            f"{file} describes services, which need Docker Compose; it is not installed. {_HOW}"
        )
    version = _version(path)
    if version is not None and version < _OLDEST:
        raise EnvironmentFailed(
            f"{file} describes services, which need Docker Compose {'.'.join(map(str, _OLDEST))} or later; "
            f"{path} is {'.'.join(map(str, version))}. {_HOW}"
        )
    return path


@functools.cache
def _version(path: str) -> tuple[int, int] | None:
    try:
        done = subprocess.run(
            (path, "version", "--short"),
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT,
            env=program_environment(),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if found := re.match(r"v?(\d+)\.(\d+)", done.stdout.strip()):
        return int(found[1]), int(found[2])
    # The first version is another program, in Python.
    return (1, 0) if "docker-compose version 1" in done.stdout else None


class Plugin:
    """The program for one file, for the engine that `variables` name.

    It has no variable of this process but those that programs need.
    """

    def __init__(self, file: Path, variables: Callable[[], Mapping[str, str]]) -> None:
        self._path = find_plugin(file)
        self._file = file
        self._variables = variables

    def normalise(self, variables: Mapping[str, str], check: Callable[[], object]) -> str:
        """Return the file as JSON: short forms written out, and `variables` filled in.

        Where it refuses the file, or a variable has no value, that is an `EnvironmentFailed`.
        """
        # They go by a file: in the environment a `PATH` or `LD_PRELOAD` of a task would run code of the task here.
        env = {name: value for name, value in program_environment().items() if name not in variables}
        own = self._file.with_name(VARIABLES)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="surrogateescape") as given:
            given.writelines(f'{name}="{value.translate(_QUOTED)}"\n' for name, value in variables.items())
            given.flush()
            files = [f"--env-file={path}" for path in (*([own] if own.exists() else ()), given.name)]
            status, output, errors = self._run(
                ("--project-name", "task", "--project-directory", str(self._file.parent), *files, "--file", "-",
                 "--file", str(self._file), "config", "--format", "json"), env, _READING_TIMEOUT, check, _BASE,
            )  # fmt: skip
        unset = dict.fromkeys(re.findall(r'The \\?"(\w+)\\?" variable is not set', errors))
        if unset:
            has, it = ("has", "it") if len(unset) == 1 else ("have", "them")
            raise EnvironmentFailed(
                f"{self._file}: {', '.join(unset)} {has} no value: give {it} one in `env` of the environment, or a "
                "default: ${NAME:-default}"
            )
        if status != 0:
            raise EnvironmentFailed(
                f"{self._file}: Docker Compose refuses it: {end_of(errors.strip(), 1000)}"
            )
        return output

    def call(
        self, project: str, description: str, *arguments: str, timeout: float, check: Callable[[], object]
    ) -> tuple[int | None, str]:
        """Run a command on a project with this description; return its exit status and what it said.

        The status is None if it was still running after `timeout` seconds, and was killed. `check` is called several
        times a second; what it raises ends the program.
        """
        named = host_environment() | dict(self._variables())
        env = program_environment() | {name: named[name] for name in _OF_ENGINE if name in named}
        arguments = ("--project-name", project, "--progress", "plain", "--file", "-", *arguments)
        status, _, errors = self._run(arguments, env, timeout, check, description)
        return status, errors

    def _run(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        timeout: float,
        check: Callable[[], object],
        given: str,
    ) -> tuple[int | None, str, str]:
        output = bytearray()
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as errors:
            stdin.write(given.encode())
            stdin.seek(0)
            words = (self._path, *arguments)
            command = LocalCommand.start(words, Path("/"), env, output.extend, stdin=stdin, stderr=errors)
            result = command.run_checked(time.monotonic() + timeout, check)
            if result.timed_out:
                return None, "", f"it was still running after {timeout:g} s"
            errors.seek(0)
            return (
                result.exit_status,
                output.decode("utf-8", "replace"),
                errors.read().decode("utf-8", "replace"),
            )
