"""Providers of sandboxes that come with the package, by the name that `--bench-sandbox` takes.

What others need to know of a provider it says itself (`SandboxProvider.incompatible`, `machine`, `kept`). A provider is
imported when it is made: the client of an engine takes a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model.job import Owner
    from .docker.provider import DockerProvider
    from .protocol import SandboxProvider


def builtin_providers() -> Mapping[str, Callable[[Owner], SandboxProvider]]:
    """Return what makes a provider, by name."""
    return {"docker": keeper, "local": _local}


def keeper(owner: Owner) -> DockerProvider:
    """Make the provider that keeps file systems of trials, for people to look into; of ours that is Docker's."""
    from .docker.provider import DockerProvider

    return DockerProvider(owner)


def _local(owner: Owner) -> SandboxProvider:
    from .bubblewrap.provider import LocalProvider

    return LocalProvider(owner)
