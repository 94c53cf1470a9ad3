"""Providers of sandboxes that come with the package, by the name that `--bench-sandbox` takes.

What others need to know of a provider it says itself (`SandboxProvider.incompatible`, `machine`, `kept`). A provider is
imported when it is made: the client of an engine takes a tenth of a second.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .protocol import KEPT

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ..model.job import Owner
    from .protocol import SandboxProvider


@dataclasses.dataclass(frozen=True, slots=True)
class _Builtin:
    """A class of providers; called, it makes one, of an owner and of its settings if it has any."""

    module: str
    kind: str
    keeps: str | None = None
    """The beginning of references of what it keeps; None: it keeps nothing."""
    has_settings: bool = False
    headroom: float | None = None
    """Usual limit of cpus and memory, as a multiple of what is guaranteed; None: nothing but that."""

    def __call__(self, owner: Owner, *settings: BaseModel) -> SandboxProvider:
        made: SandboxProvider = self._found()(owner, *settings)
        return made

    @property
    def Settings(self) -> type[BaseModel] | None:  # noqa: N802  as classes of providers have it
        """The model of its settings; None: it has none, and is not imported to say so."""
        return self._found().Settings if self.has_settings else None

    def _found(self) -> Any:
        return getattr(importlib.import_module(f".{self.module}", __package__), self.kind)


_BUILTIN = {
    "docker": _Builtin("docker.provider", "DockerProvider", KEPT),
    "kubernetes": _Builtin("kubernetes.provider", "KubernetesProvider", has_settings=True, headroom=3.0),
    "local": _Builtin("bubblewrap.provider", "LocalProvider"),
}
_KEEPERS = {one.keeps: name for name, one in _BUILTIN.items() if one.keeps is not None}


def builtin_providers() -> Mapping[str, Callable[..., SandboxProvider]]:
    """Return what makes a provider, by name: each is called as its class is."""
    return _BUILTIN


def usual_headroom(name: str) -> float | None:
    """Return the headroom that sandboxes have by the name of their provider; None: they have none of their own."""
    known = _BUILTIN.get(name)
    return None if known is None else known.headroom


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
