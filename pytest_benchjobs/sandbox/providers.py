"""Providers of sandboxes that come with the package, by the name that `--bench-sandbox` takes.

What others need to know of a provider it says itself (`SandboxProvider.incompatible`, `machine`, `kept`). A provider is
imported when it is made: the client of an engine takes a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.job import Owner
    from .protocol import Keeper, SandboxProvider


def builtin_providers() -> Mapping[str, Callable[[Owner], SandboxProvider]]:
    """Return what makes a provider, by name."""
    return {"docker": _docker, "local": _local}


def keeper(owner: Owner) -> Keeper:
    """Make the provider that keeps file systems of trials; of those that come with the package there is one."""
    return _docker(owner)


def _docker(owner: Owner) -> Keeper:
    from .docker.provider import DockerProvider

    return DockerProvider(owner)


def _local(owner: Owner) -> SandboxProvider:
    from .bubblewrap.provider import LocalProvider

    return LocalProvider(owner)
