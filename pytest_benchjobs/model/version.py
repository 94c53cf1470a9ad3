"""Version of the files of a job."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

SCHEMA_VERSION = 2


def _readable(version: int) -> int:
    if version > SCHEMA_VERSION:
        raise ValueError(f"{version} is that of a newer pytest-benchjobs, which is needed to read it")
    return version


SchemaVersion = Annotated[int, Field(ge=1), AfterValidator(_readable)]
"""Version of the files of a job: this one or an earlier one."""
