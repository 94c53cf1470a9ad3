"""Endpoints of models, and the addresses under which an agent reaches them."""

from __future__ import annotations

from typing import Literal

from .base import Model

Wire = Literal["anthropic", "openai", "google"]
"""Protocol of a model: Anthropic Messages; OpenAI Chat Completions and Responses; Google generateContent."""

GATEWAY_PORT = 4180
PROXY_PORT = 4181
"""Port of the proxy, on the loopback of a container whose network is an allowlist."""
PROXY_VARIABLES = {
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), f"http://127.0.0.1:{PROXY_PORT}"
    ),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",  # without it Node.js itself takes none of these
}
"""Variables of commands in such a container."""
GATEWAY_URL: dict[Wire, str] = {
    "anthropic": f"http://127.0.0.1:{GATEWAY_PORT}/anthropic",  # agents add /v1/messages
    "openai": f"http://127.0.0.1:{GATEWAY_PORT}/openai/v1",  # agents add /chat/completions, /responses, /models
    "google": f"http://127.0.0.1:{GATEWAY_PORT}/google",  # agents add /v1beta/models/...
}
"""Base URLs in every container. The same for all trials: each has a loopback, and a listening socket, of its own."""
PLACEHOLDER_KEY = "benchjobs-gateway"
"""Key that agents are given. The real one never enters a container."""


class Endpoint(Model):
    """A model endpoint an agent needs, as it really is."""

    wire: Wire
    provider: str
    """`anthropic`, `openai`, `google`, `groq`, `vllm`, ...: for rates, prices and messages."""
    base_url: str
    """With `/v1` for `openai`, without a version for the others."""
    key_variables: tuple[str, ...] = ()
    """Variables that may hold the key; the first that is set counts."""
    key_required: bool = True
    """Of at least one of the variables."""
    public: bool = True
    """Public prices of the provider hold. They do not at an address of the user's that is not the provider's."""
