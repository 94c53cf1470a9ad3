"""Document of `secret list`."""

from __future__ import annotations

import datetime
from typing import Literal

from ...model.base import Model
from . import Document


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
