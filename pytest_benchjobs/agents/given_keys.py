"""Agents that get the key of a provider, as by `--bench-secret OPENAI_API_KEY=NAME`, and do not know the gateway."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ..model.endpoint import GATEWAY_URL, PLACEHOLDER_KEY, Endpoint, Wire
from ..model.errors import InputError
from .protocol import AgentCommand
from .providers import PROVIDERS, own_address


def with_given_keys(command: AgentCommand, given: Iterable[str], environ: Mapping[str, str]) -> AgentCommand:
    """The command with the endpoints whose keys are among the variables `given` to it.

    Each key is replaced by a placeholder, and the variable with the base URL leads to the gateway. Agents that use the
    provider's own library, or the two variables, work unchanged.

    Raises InputError: two of the keys are of providers with the same API, which would share one address; or a variable
    has an address that is none.
    """
    variables = set(given)
    endpoints: dict[Wire, Endpoint] = {}
    env: dict[str, str] = {}
    for name, provider in PROVIDERS.items():
        keys = [variable for variable in provider.key_variables if variable in variables]
        if not keys:
            continue
        wire = next(iter(provider.urls))
        if wire in endpoints:
            raise InputError(
                f"an agent can be given the key of {endpoints[wire].provider} or of {name}, not of both: they "
                "use the same API, and the agent reaches both at one address"
            )
        base_url = own_address(provider, wire, environ)
        endpoints[wire] = Endpoint(wire=wire, provider=name, base_url=base_url, key_variables=tuple(keys))
        env |= dict.fromkeys(keys, PLACEHOLDER_KEY) | {provider.url_variable: GATEWAY_URL[wire]}
    if not endpoints:
        return command
    return dataclasses.replace(command, endpoints=tuple(endpoints.values()), env={**command.env, **env})
