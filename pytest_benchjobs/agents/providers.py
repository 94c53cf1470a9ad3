"""Providers of models: their addresses, their wires, and the variables that hold their keys."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..model.agent import AgentSpec
from ..model.endpoint import Endpoint, Wire
from ..model.errors import InputError

COMPATIBLE = "openai-compatible"
"""Provider of a model at an address of which nothing else is known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A public API, or a server that many people run themselves."""

    urls: Mapping[Wire, str]
    """Supported wires, the preferred one first -> base URL."""
    url_variable: str
    """Variable that overrides the base URL."""
    key_variables: tuple[str, ...]
    key_required: bool = True
    public: bool = True
    """True for a public API at its own address. Otherwise many people run one, and its key is for any address."""


PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        {"anthropic": "https://api.anthropic.com"}, "ANTHROPIC_BASE_URL", ("ANTHROPIC_API_KEY",)
    ),
    "openai": Provider({"openai": "https://api.openai.com/v1"}, "OPENAI_BASE_URL", ("OPENAI_API_KEY",)),
    "google": Provider(
        {"google": "https://generativelanguage.googleapis.com"},
        "GOOGLE_GEMINI_BASE_URL",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "groq": Provider({"openai": "https://api.groq.com/openai/v1"}, "GROQ_BASE_URL", ("GROQ_API_KEY",)),
    "cerebras": Provider(
        {"openai": "https://api.cerebras.ai/v1"}, "CEREBRAS_BASE_URL", ("CEREBRAS_API_KEY",)
    ),
    "openrouter": Provider(
        {"openai": "https://openrouter.ai/api/v1"}, "OPENROUTER_BASE_URL", ("OPENROUTER_API_KEY",)
    ),
    "vllm": Provider(
        {"openai": "http://127.0.0.1:8001/v1", "anthropic": "http://127.0.0.1:8001"},
        "VLLM_BASE_URL",
        ("VLLM_API_KEY",),
        key_required=False,
        public=False,
    ),
}
KEY_PARAMETER = "_key_variable"
"""Suffix of parameters that name the variable with the key for an address."""
_BY_MODEL = (
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini"), "google"),
    (re.compile(r"gpt|o[1-9](?![a-z0-9])|codex|chatgpt"), "openai"),
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}\Z")


@dataclasses.dataclass(frozen=True, slots=True)
class ModelTarget:
    """Endpoint of an agent's model, and the name of the model there."""

    endpoint: Endpoint
    model: str


def target_of(
    spec: AgentSpec,
    wires: Sequence[Wire],
    default_provider: str | None,
    environ: Mapping[str, str],
    params: Mapping[str, Any] | None = None,
) -> ModelTarget:
    """Find the endpoint and the name of the model of an agent that supports `wires`.

    The provider is the one given with the agent, or the agent's own, or the word before the model's first `/`, or the
    one whose models have such names. Any other model with a base URL is at an OpenAI-compatible endpoint. The base URL
    is that of the agent (`@URL`), else the parameter `PROVIDER_base_url`, else the provider's variable, else the
    provider's own.

    Raises InputError: the provider is unknown, or the two have no wire in common.
    """
    model = spec.model
    if not model:
        raise InputError(f"no model specified for agent {spec.name!r}. Use format: {spec.name}:model")
    name = spec.provider or default_provider
    if name is None and spec.base_url is None:
        prefix, slash, rest = model.partition("/")
        if slash and rest and prefix in PROVIDERS:
            name, model = prefix, rest
    if name is None:
        name = next((provider for pattern, provider in _BY_MODEL if pattern.match(model.lower())), None)
    if name is None and spec.base_url is not None:
        name = COMPATIBLE
    if name is None:
        raise InputError(
            f"the provider of model {model!r} of {spec.name} is unknown; write {spec.name}:PROVIDER/{model} with one "
            f"of {', '.join(PROVIDERS)}, or {spec.name}:{model}@URL"
        )
    return ModelTarget(_endpoint(spec, name, wires, environ, params or {}), model)


def own_keys(provider: str) -> tuple[str, ...]:
    """Variables that may hold a provider's key."""
    return (PROVIDERS.get(provider) or _other(provider)).key_variables


def own_address(provider: Provider, wire: Wire, environ: Mapping[str, str]) -> str:
    """Base URL of a provider: that of its variable, else its own. Raises InputError: that of the variable is none."""
    url = environ.get(provider.url_variable)
    return _checked(url, wire, provider.url_variable) if url else provider.urls[wire]


def missing_key(endpoint: Endpoint, value_of: Callable[[str], str | None]) -> str | None:
    """Message about a missing key or address of an endpoint, with its remedy; None if nothing is missing.

    `value_of` returns the value of a variable, from wherever it is kept on this machine.
    """
    variables = endpoint.key_variables
    if not endpoint.key_required or any(value_of(variable) for variable in variables):
        return None
    which = variables[0] if len(variables) == 1 else f"at least one of {', '.join(variables)}"
    return (
        f"{endpoint.provider} needs {which}: export it, or keep it with `benchjobs secret set {variables[0]}`"
    )


def _endpoint(
    spec: AgentSpec, name: str, wires: Sequence[Wire], environ: Mapping[str, str], params: Mapping[str, Any]
) -> Endpoint:
    if not _NAME.match(name):
        raise InputError(
            f"{name[:80]!r} is not a valid provider name; known providers: {', '.join(PROVIDERS)}"
        )
    provider = PROVIDERS.get(name) or _other(name)
    wire = next((wire for wire in provider.urls if wire in wires), None)
    if wire is None:
        raise InputError(
            f"{spec.name} speaks {_words(wires)}, but {name} speaks {_words(tuple(provider.urls))}; "
            "choose another agent or provider"
        )
    key = f"{name.replace('-', '_')}_base_url"
    given = (
        (spec.base_url, f"agent {spec.label}"),
        (params.get(key), f"parameter {key}"),
        (environ.get(provider.url_variable), provider.url_variable),
    )
    found = next(((_checked(url, wire, blame), blame) for url, blame in given if url), None)
    if found is None and not provider.urls[wire]:
        raise InputError(
            f"the base URL of provider {name!r} is unknown (known are {', '.join(PROVIDERS)}); "
            f"write {spec.name}:{spec.model}@URL, or set {provider.url_variable}"
        )
    base_url, blame = found or (provider.urls[wire], "")
    home = provider.urls[wire]
    own = not home or blame in ("", provider.url_variable) or _is_own(base_url, home)
    return Endpoint(
        wire=wire,
        provider=name,
        base_url=base_url,
        key_variables=_keys_for(name, provider, blame, params, own=own),
        key_required=provider.key_required and base_url == home,
        public=own,
    )


def _keys_for(
    name: str, provider: Provider, blame: str, params: Mapping[str, Any], *, own: bool
) -> tuple[str, ...]:
    """Variables whose key may go to an address. One that is not the provider's `own` gets only keys named for it.

    That is the parameter `PROVIDER_key_variable`, or the provider's variable beside the one that has the address.
    """
    if not blame:
        return provider.key_variables
    named = params.get(f"{name.replace('-', '_')}{KEY_PARAMETER}")
    if named is not None:
        if not isinstance(named, str) or not _VARIABLE.fullmatch(named):
            raise InputError(
                f"parameter {name}_key_variable is the name of a variable, not {str(named)[:80]!r}"
            )
        return (named,)
    return provider.key_variables if own or not provider.public else ()


def _is_own(base_url: str, home: str) -> bool:
    """True if an address belongs to the provider: its host, or one below it such as that of a region."""
    here, there = urlsplit(base_url), urlsplit(home)
    host, own = here.hostname or "", there.hostname or ""
    return (here.scheme, here.port) == (there.scheme, there.port) and (
        host == own or host.endswith(f".{own}")
    )


def _other(name: str) -> Provider:
    """An unknown provider: OpenAI-compatible, and gets a key if there is one."""
    variable = name.upper().replace("-", "_")
    return Provider(
        {"openai": ""},
        f"{variable}_BASE_URL",
        (f"{variable}_API_KEY",),
        key_required=False,
        public=False,
    )


def _checked(url: object, wire: Wire, blame: str) -> str:
    """Return the base URL in the form of `Endpoint`: with `/v1` for openai, without for the others."""
    if not isinstance(url, str) or not _is_base(url):
        shown = re.sub(r"//[^/]*@", "//", str(url))[:200]  # without a password
        raise InputError(f"{blame}: {shown!r} is not a base URL; write http://HOST[:PORT][/PATH]")
    base = url.rstrip("/")
    if wire == "openai":
        return base if urlsplit(base).path.strip("/") else f"{base}/v1"
    return re.sub(r"/v1(beta)?\Z", "", base)


def _is_base(url: str) -> bool:
    """True if paths can be added to the URL. It must hold no secret: it is shown, and signed."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises where it is no number
    except ValueError:
        return False
    plain = url.isprintable() and " " not in url and not parts.query and not parts.fragment
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None


_LANGUAGES: dict[Wire, str] = {
    "anthropic": "Anthropic Messages",
    "openai": "OpenAI's protocols",
    "google": "Google generateContent",
}


def _words(wires: Sequence[Wire]) -> str:
    return " and ".join(_LANGUAGES[wire] for wire in wires)
