"""The program Docker Compose, a plugin of Docker's command line: where it is, and how it is run."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ....model.environ import host_environment, program_environment
from ....model.errors import EnvironmentFailed
from ....model.scenario import MAIN
from ....sources.compose import OWN_IMAGE
from ....system.cutting import end_of

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
"""What files add to: one need not give `main` an image."""
_LOOK = 0.2
_VERSION_TIMEOUT, _READING_TIMEOUT = 30.0, 60.0
_HOW = (
    "Install it: the package docker-compose-plugin of Docker, or docker-compose of Debian and Ubuntu, "
    "or put the program docker-compose into ~/.docker/cli-plugins"
)


def find_plugin(file: Path) -> str:
    """Return the path of the program, for a task with this file.

    Raises:
        EnvironmentFailed: there is none, or it is too old; with what to do.
    """
    own = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")  # noqa: PTH111  never raises
    for directory in (f"{own}/cli-plugins", *_PLACES):
        if os.access(path := f"{directory}/{_NAME}", os.X_OK):
            break
    else:
        found = shutil.which(_NAME)
        if found is None:
            raise EnvironmentFailed(
                f"{file} describes services, which need Docker Compose; it is not installed. {_HOW}"
            )
        path = found
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
    found = re.match(r"v?(\d+)\.(\d+)", done.stdout.strip())
    # The first version is another program, in Python.
    return (
        (int(found[1]), int(found[2]))
        if found
        else (1, 0)
        if "docker-compose version 1" in done.stdout
        else None
    )


class Plugin:
    """The program for one file: it has no variable of this process but those that programs need.

    Args:
        file: The file that describes the services, for messages.
        host: The engine, as in DOCKER_HOST.
    """

    def __init__(self, file: Path, host: str) -> None:
        self._path = find_plugin(file)
        self._file = file
        self._host = host

    def normalise(self, variables: Mapping[str, str], check: Callable[[], object]) -> str:
        """Return the file as JSON: short forms written out, and `variables` filled in.

        Raises:
            EnvironmentFailed: it refuses the file, or a variable has no value.
        """
        status, output, errors = self._run(
            ("--project-name", "task", "--project-directory", str(self._file.parent), "--file", "-",
             "--file", str(self._file), "config", "--format", "json"),
            env={**program_environment(), **variables},
            timeout=_READING_TIMEOUT,
            check=check,
            given=_BASE,
        )  # fmt: skip
        unset = dict.fromkeys(re.findall(r'The \\?"(\w+)\\?" variable is not set', errors))
        if unset:
            one = len(unset) == 1
            raise EnvironmentFailed(
                f"{self._file}: {', '.join(unset)} {'has' if one else 'have'} no value: give {'it' if one else 'them'} "
                "one in `env` of the environment, or a default: ${NAME:-default}"
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
        host = host_environment()
        env = program_environment() | {name: host[name] for name in _OF_ENGINE if name in host}
        status, _, errors = self._run(
            ("--project-name", project, "--progress", "plain", "--file", "-", *arguments),
            env={**env, "DOCKER_HOST": self._host},
            timeout=timeout,
            check=check,
            given=description,
        )
        return status, errors

    def _run(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout: float,
        check: Callable[[], object],
        given: str | None = None,
    ) -> tuple[int | None, str, str]:
        until = time.monotonic() + timeout
        process = subprocess.Popen(
            (self._path, *arguments),
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(env),
            cwd="/",
            # Ctrl-C is for us, which end it.
            start_new_session=True,
        )
        try:
            while True:
                try:
                    output, errors = process.communicate(given, timeout=_LOOK)
                except subprocess.TimeoutExpired:
                    given = None
                    check()
                    if time.monotonic() > until:
                        return None, "", f"it was still running after {timeout:g} s"
                else:
                    return process.returncode, output, errors
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            with process:
                pass
