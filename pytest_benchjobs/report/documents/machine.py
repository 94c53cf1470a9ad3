"""Documents about this machine: of `agents`, `secret` and `doctor`."""

from __future__ import annotations

import datetime
from typing import Literal

from ...model.base import Model
from ...model.finding import Finding
from . import Document


class AgentItem(Model):
    """An agent."""

    name: str
    needs_model: bool
    about: str = ""
    version: str | None = None
    """Version that is fetched by default; null: there is nothing to fetch."""
    fetched: bool | None = None
    """True if all of it is on this machine; null: there is nothing to fetch."""
    key_variables: tuple[str, ...] = ()
    """Variables with keys that it may need, depending on its model."""
    keys_set: tuple[str, ...] = ()
    """Variables of `keys` that have a value here."""


class AgentsDocument(Document):
    """`benchjobs agents list`."""

    agents: tuple[AgentItem, ...]


class PackageItem(Model):
    """A package that is fetched for an agent."""

    name: str
    version: str
    npm: str
    platform: str
    directory: str
    trouble: str | None
    """Reason why the fetched package cannot be used."""
    bytes: int | None
    archive_sha256: str | None
    fetched_at: datetime.datetime | None
    changed: tuple[str, ...] | None
    """Files changed since they were fetched; null: not checked."""


class AgentDocument(Document):
    """`benchjobs agents show`."""

    agent: AgentItem
    wires: tuple[str, ...] = ()
    """Protocols it can use to call a model."""
    provider: str | None = None
    """Default provider of its models."""
    parameters: tuple[str, ...] = ()
    capabilities: tuple[str, ...] | None = None
    """Capabilities it has, of those that scenarios may require; null: unknown."""
    packages: tuple[PackageItem, ...] = ()
    argv: tuple[str, ...] = ()
    """The program and its arguments, with placeholders, from its description."""
    files: str | None = None
    """Copy of its own files that sandboxes see; null: it has none."""
    files_bytes: int | None = None
    files_sha256: str | None = None


class SecretItem(Model):
    """A stored secret, without its value."""

    name: str
    kept: Literal["keyring", "file"]
    set_at: datetime.datetime
    fingerprint: str | None
    """Equal for equal values on this machine; useless otherwise. null: the keyring no longer has the secret."""


class SecretsDocument(Document):
    """`benchjobs secret list`."""

    file: str
    """File with the names of all secrets, and the values that are not in the keyring."""
    secrets: tuple[SecretItem, ...]


class DoctorDocument(Document):
    """`benchjobs doctor`."""

    ok: bool
    findings: tuple[Finding, ...]
