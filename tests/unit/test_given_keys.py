"""Agents that were given a provider's key get a placeholder, and the address of the gateway."""

from __future__ import annotations

import pytest

from pytest_benchjobs.agents.given_keys import with_given_keys
from pytest_benchjobs.agents.protocol import AgentCommand
from pytest_benchjobs.model.endpoint import GATEWAY_URL, PLACEHOLDER_KEY
from pytest_benchjobs.model.errors import InputError

COMMAND = AgentCommand(("true",), {"LANG": "C"})


def test_without_a_key_nothing_changes() -> None:
    assert with_given_keys(COMMAND, ["TOKEN"], {}) is COMMAND


def test_a_key_becomes_a_placeholder_and_an_address() -> None:
    command = with_given_keys(COMMAND, ["OPENAI_API_KEY", "TOKEN"], {})
    given = {"OPENAI_API_KEY": PLACEHOLDER_KEY, "OPENAI_BASE_URL": GATEWAY_URL["openai"]}
    assert command.env == {"LANG": "C", **given}
    (endpoint,) = command.endpoints
    assert (endpoint.provider, endpoint.wire) == ("openai", "openai")
    assert endpoint.key_variables == ("OPENAI_API_KEY",)
    assert endpoint.base_url.endswith("/v1")


def test_the_address_of_this_machine_is_where_the_gateway_goes() -> None:
    keys = {"anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY"}
    environ = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/"}
    command = with_given_keys(COMMAND, [*keys.values()], environ)
    assert [(one.wire, *one.key_variables) for one in command.endpoints] == [*keys.items()]
    assert command.endpoints[0].base_url == "http://127.0.0.1:9"


def test_one_address_is_not_for_two_providers() -> None:
    with pytest.raises(InputError, match="openai or of groq, not of both"):
        with_given_keys(COMMAND, ["OPENAI_API_KEY", "GROQ_API_KEY"], {})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999/v1", "http://[::1/v1", "127.0.0.1:8/v1", "ftp://h/v1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"OPENAI_BASE_URL: .* is not a base URL"):
        with_given_keys(COMMAND, ["OPENAI_API_KEY"], {"OPENAI_BASE_URL": url})
