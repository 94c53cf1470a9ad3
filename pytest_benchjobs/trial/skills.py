"""Skills of a scenario, copied to where its agent looks for skills."""

from __future__ import annotations

from ..model.errors import EnvironmentFailed
from ..model.scenario import Environment
from ..sandbox.protocol import Sandbox
from ..scoring.output import Tail
from ..system.cutting import end_of

_TIMEOUT = 300.0
_NO_SUCH_DIRECTORY = 3
_OUTPUT = 1000
_COPY = """
[ -d "$1" ] || exit 3
mkdir -p "$2" && cp -R "$1/." "$2/"
"""


def copy_skills(sandbox: Sandbox, environment: Environment, target: str, user: str | None) -> None:
    """Copy the skills in a sandbox to a directory, as the agent's user, who might have had a turn already.

    Raises:
        EnvironmentFailed: a directory with skills is not there, or cannot be copied.
    """
    source = environment.skills_dir or environment.skills_if_there
    if source is None:
        return
    said = Tail()
    result = sandbox.exec(
        ("/bin/sh", "-c", _COPY, "sh", source, target), timeout=_TIMEOUT, sink=said, user=user
    )
    if result.exit_status == _NO_SUCH_DIRECTORY and environment.skills_dir is None:
        return
    if result.exit_status == _NO_SUCH_DIRECTORY:
        raise EnvironmentFailed(f"skills_dir: there is no directory {source} in the container")
    if result.exit_status != 0:
        raise EnvironmentFailed(f"the skills in {source} cannot be copied: {end_of(said.text(), _OUTPUT)}")
