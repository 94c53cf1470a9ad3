"""Documents of `scenario`."""

from __future__ import annotations

from typing import Any

from ...model.base import Model
from . import Document


class ScenarioItem(Model):
    """A scenario in a list."""

    benchmark: str
    scenario: str
    tags: tuple[str, ...]
    scorers: tuple[str, ...]
    """Their types."""
    archived: bool
    file: str
    line: int | None


class ScenariosDocument(Document):
    """`benchjobs scenario list`."""

    scenarios: tuple[ScenarioItem, ...]


class ShownScorer(Model):
    """A scorer of a scenario, without what it looks for."""

    name: str
    type: str
    weight: float
    timeout: float


class ShownEnvironment(Model):
    """Where a scenario runs."""

    image: str | None
    dockerfile: str | None
    snapshot: str | None
    workdir: str | None
    user: str | None
    cpus: float | None
    memory: int | None
    """Bytes."""
    storage: int | None
    """Bytes."""
    gpus: int
    network: str
    allowed_hosts: tuple[str, ...]
    setup: tuple[str, ...]


class ShownRequires(Model):
    """Requirements of a scenario, and which of them are missing here."""

    env: tuple[str, ...]
    secrets: tuple[str, ...]
    commands: tuple[str, ...]
    capabilities: tuple[str, ...]
    missing: tuple[str, ...]
    """Variables and programs that are not on this machine. Secrets are given to a job."""


class ScenarioDocument(Document):
    """`benchjobs scenario show`."""

    benchmark: str
    version: str | None
    scenario: str
    file: str
    line: int | None
    confidential: bool
    problem_statement: str | None
    """null: it is confidential."""
    additional_context: Any
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    cluster: str | None
    archived: bool
    validation: str
    threshold: float | None
    agent_timeout: float | None
    environment: ShownEnvironment
    files: tuple[str, ...]
    """Paths in the container."""
    has_reference: bool
    scorers: tuple[ShownScorer, ...]
    requires: ShownRequires
    artifacts: tuple[str, ...]


class LeftOut(Model):
    """A part of an imported scenario that has no equivalent."""

    scenario: str
    key: str
    why: str


class ImportDocument(Document):
    """`benchjobs scenario import`."""

    file: str
    scenarios: tuple[str, ...]
    written: tuple[str, ...]
    """Files beside the manifest."""
    left_out: tuple[LeftOut, ...]
    mistakes: tuple[str, ...]
    """What is wrong with the manifest, and is to be corrected in it."""
