"""Documents about this machine: of `agents`, `secret` and `doctor`."""

from __future__ import annotations

import datetime
from enum import StrEnum
from typing import Literal

from ...model.base import Model
from . import Document


class AgentItem(Model):
    """An agent there is."""

    name: str
    needs_model: bool
    about: str = ""
    version: str | None = None
    """Fetched if no other is asked for; None: nothing is fetched."""
    fetched: bool | None = None
    """True if all of it is on this machine; None: nothing is fetched."""
    key_variables: tuple[str, ...] = ()
    """With the keys it may need; which of them, its model decides."""
    keys_set: tuple[str, ...] = ()
    """Those of them that have a value here."""


class AgentsDocument(Document):
    """`benchjobs agents list`."""

    agents: tuple[AgentItem, ...]


class PackageItem(Model):
    """Something that is fetched for an agent."""

    name: str
    version: str
    npm: str
    platform: str
    directory: str
    trouble: str | None
    """Reason why it cannot be used."""
    bytes: int | None
    archive_sha256: str | None
    fetched_at: datetime.datetime | None
    changed: tuple[str, ...] | None
    """Files whose content is not what was fetched; None: not checked."""


class AgentDocument(Document):
    """`benchjobs agents show`."""

    agent: AgentItem
    wires: tuple[str, ...] = ()
    """Wires it can speak to a model."""
    provider: str | None = None
    """Default provider of its models."""
    parameters: tuple[str, ...] = ()
    capabilities: tuple[str, ...] | None = None
    """All it can do of what scenarios may require; None: nothing is known."""
    packages: tuple[PackageItem, ...] = ()
    argv: tuple[str, ...] = ()
    """The program and its arguments, with placeholders, as its description has them."""
    files: str | None = None
    """Copy of its own files that sandboxes see; None: it has none."""
    files_bytes: int | None = None
    files_sha256: str | None = None


class SecretItem(Model):
    """A secret that is kept, without its value."""

    name: str
    kept: Literal["keyring", "file"]
    set_at: datetime.datetime
    fingerprint: str | None
    """The same for the same value on this machine, and of no other use. None: the keyring has it no more."""


class SecretsDocument(Document):
    """`benchjobs secret list`."""

    file: str
    """File with the names of all secrets, and with those values that are not in the keyring."""
    secrets: tuple[SecretItem, ...]


class Health(StrEnum):
    """Result of one check of `doctor`."""

    OK = "ok"
    PROBLEM = "problem"
    SKIPPED = "skipped"
    """It cannot be told from here; `found` says why."""


class Finding(Model):
    """One check of `doctor`."""

    check: str
    health: Health
    found: str
    cure: str | None = None
    """Remedy of a problem, if possible a command."""


class DoctorDocument(Document):
    """`benchjobs doctor`."""

    ok: bool
    findings: tuple[Finding, ...]
