"""Builds the package: hatchling, and in a wheel the program that runs inside sandboxes, compiled for each machine.

An editable installation has it compiled at first use, so it needs no compiler here.
"""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.build import *  # noqa: F403  the backend
from hatchling.build import get_requires_for_build_wheel as hatchlings
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PROGRAM = "pytest_benchjobs/sandbox/program"
_COMPILING = runpy.run_path(str(Path(__file__).parent / _PROGRAM / "compiling.py"))


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What a wheel needs beside what pyproject.toml names."""
    return [*hatchlings(config_settings), f"ziglang=={_COMPILING['ZIG']}"]


class ProgramHook(BuildHookInterface[Any]):
    """Adds the compiled programs to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile them. Nothing is left in the sources, where it would be taken for theirs."""
        if version == "editable":
            return
        self._directory = tempfile.TemporaryDirectory()
        for machine in _COMPILING["MACHINES"]:
            program = Path(self._directory.name) / f"bench-{machine}"
            program.write_bytes(_COMPILING["compile_program"](machine))
            build_data["force_include"][str(program)] = f"{_PROGRAM}/{program.name}"

    def finalize(self, version: str, *_: object) -> None:
        """Remove what is in the wheel by now."""
        if version != "editable":
            self._directory.cleanup()
