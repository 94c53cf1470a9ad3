"""Services beside the sandbox of a trial, for what its steps do in them."""

from __future__ import annotations

from ..model.errors import EnvironmentFailed
from ..model.scenario import MAIN
from ..sandbox.protocol import HasServices, Sandbox, Service


def service_of(sandbox: Sandbox, name: str) -> Sandbox | Service:
    """Return the service of a trial by its name; `main` is the sandbox itself.

    Raises:
        EnvironmentFailed: there is none of this name.
        InfrastructureError: the engine failed.
    """
    if name == MAIN:
        return sandbox
    if not isinstance(sandbox, HasServices):
        raise EnvironmentFailed(f"there is no service {name!r}: this sandbox has none")
    return sandbox.service(name)
