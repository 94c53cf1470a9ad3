"""File of quotas that are used up, in a running job: the gateway writes it, trials and `watch` read it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..model.quota import Quota

_QUOTAS = TypeAdapter(dict[str, Quota])


def account(provider: str, address: str, key: str | None) -> str:
    """Return the name of an account with a provider, which has a quota of its own. It tells nothing about the key."""
    content = "\0".join((provider, address, key or ""))
    return hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=8).hexdigest()


def write(file: Path, quotas: Mapping[str, Quota]) -> None:
    """Write the quotas by account, atomically. Never raises: a full disk must not fail a model call."""
    aside = f"{file}.tmp"
    with contextlib.suppress(OSError):
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as out:  # noqa: PTH123  a descriptor
            out.write(_QUOTAS.dump_json(dict(quotas)))
        os.replace(aside, file)  # noqa: PTH105


def read(file: Path) -> dict[str, Quota]:
    """Return the quotas that are used up, by account. Never raises."""
    try:
        return _QUOTAS.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return {}
