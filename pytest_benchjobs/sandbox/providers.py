"""Providers of sandboxes that come with the package, by the name that `--bench-sandbox` takes.

What others need to know of a provider it says itself (`SandboxProvider.incompatible`, `machine`, `kept`). A provider is
imported when it is made: the client of an engine takes a tenth of a second.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from .protocol import KEPT

if TYPE_CHECKING:
    from ..model.job import Owner
    from .protocol import SandboxProvider


_BUILTIN = {
    "docker": ("docker.provider", "DockerProvider", KEPT),
    "local": ("bubblewrap.provider", "LocalProvider", None),
}
"""Name -> module and class, and the beginning of references of what it keeps; None: it keeps nothing."""
_KEEPERS = {prefix: name for name, (_, _, prefix) in _BUILTIN.items() if prefix is not None}


def builtin_providers() -> Mapping[str, Callable[[Owner], SandboxProvider]]:
    """Return what makes a provider, by name."""
    return {name: functools.partial(_make, module, kind) for name, (module, kind, _) in _BUILTIN.items()}


def _make(module: str, kind: str, owner: Owner) -> SandboxProvider:
    made: SandboxProvider = getattr(importlib.import_module(f".{module}", __package__), kind)(owner)
    return made


@contextlib.contextmanager
def all_providers(owner: Owner) -> Iterator[list[SandboxProvider]]:
    """Make one provider of each kind, and close them afterwards. No engine is asked for that."""
    with contextlib.ExitStack() as stack:
        made = [make(owner) for make in builtin_providers().values()]
        for provider in made:
            stack.callback(provider.close)
        yield made


@contextlib.contextmanager
def keeper_of(reference: str | None, owner: Owner) -> Iterator[SandboxProvider | None]:
    """Make the provider that keeps what has this reference; None: none that comes with the package does."""
    name = next((name for prefix, name in _KEEPERS.items() if (reference or "").startswith(prefix)), None)
    provider = None if name is None else builtin_providers()[name](owner)
    try:
        yield provider
    finally:
        if provider is not None:
            provider.close()


def by_keeper(references: Iterable[str | None]) -> list[list[str]]:
    """Return the references of which a provider that comes with the package is the keeper, in one list for each."""
    wanted = [one for one in references if one is not None]
    found = ([one for one in wanted if one.startswith(prefix)] for prefix in _KEEPERS)
    return [one for one in found if one]
