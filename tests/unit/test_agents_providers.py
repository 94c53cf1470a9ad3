"""Who serves a model is told by what the user wrote, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.agents.described import packaged_agents
from pytest_benchjobs.agents.providers import missing_key, target_of
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.endpoint import Endpoint, Wire
from pytest_benchjobs.model.errors import InputError

ALL: tuple[Wire, ...] = ("anthropic", "openai", "google")
OF_ONE_WIRE: dict[str, tuple[tuple[Wire, ...], str]] = {
    "codex": (("openai",), "openai"), "claude-code": (("anthropic",), "anthropic"),
}  # fmt: skip


def _endpoint(*args: Any, **more: Any) -> Endpoint:
    return target_of(*args, **more).endpoint


def _spec(text: str, provider: str | None = None) -> AgentSpec:
    return AgentSpec.model_validate({**AgentSpec.parse(text).model_dump(), "provider": provider})


@pytest.mark.parametrize(
    ("text", "provider", "expected"),
    [
        ("a:claude-sonnet-4-6", None, ("anthropic", "anthropic", "https://api.anthropic.com", "claude-sonnet-4-6")),
        ("a:gpt-5.5", None, ("openai", "openai", "https://api.openai.com/v1", "gpt-5.5")),
        ("a:o3-mini", None, ("openai", "openai", "https://api.openai.com/v1", "o3-mini")),
        ("a:codex-mini", None, ("openai", "openai", "https://api.openai.com/v1", "codex-mini")),
        ("a:gemini-2.5-pro", None, ("google", "google", "https://generativelanguage.googleapis.com", "gemini-2.5-pro")),
        ("a:groq/qwen/qwen3-32b", None, ("groq", "openai", "https://api.groq.com/openai/v1", "qwen/qwen3-32b")),
        ("a:qwen/qwen3-32b", "groq", ("groq", "openai", "https://api.groq.com/openai/v1", "qwen/qwen3-32b")),
        ("a:openai/gpt-oss-120b", "groq", ("groq", "openai", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b")),
        ("a:anthropic/claude-x", None, ("anthropic", "anthropic", "https://api.anthropic.com", "claude-x")),
        ("a:vllm/Qwen/Q", None, ("vllm", "openai", "http://127.0.0.1:8001/v1", "Qwen/Q")),
        ("a:Qwen/Q@http://h:8002/v1", "vllm", ("vllm", "openai", "http://h:8002/v1", "Qwen/Q")),
        ("a:Qwen/Q@http://h:8002", None, ("openai-compatible", "openai", "http://h:8002/v1", "Qwen/Q")),
        ("a:openai/gpt-oss@http://h/v1/", None, ("openai-compatible", "openai", "http://h/v1", "openai/gpt-oss")),
        ("a:claude-x@http://h/v1", None, ("anthropic", "anthropic", "http://h", "claude-x")),
        ("a:gemini-x@http://h/v1beta", None, ("google", "google", "http://h", "gemini-x")),
        ("a:gpt-5@http://h/api/v3", None, ("openai", "openai", "http://h/api/v3", "gpt-5")),
        ("a:m@http://h", "mine", ("mine", "openai", "http://h/v1", "m")),
        # Agents of one wire, with a provider of their own
        ("codex:anything/at-all", None, ("openai", "openai", "https://api.openai.com/v1", "anything/at-all")),
        ("codex:m@http://h:1/v1", None, ("openai", "openai", "http://h:1/v1", "m")),
        ("codex:m", "vllm", ("vllm", "openai", "http://127.0.0.1:8001/v1", "m")),
        ("claude-code:m", "vllm", ("vllm", "anthropic", "http://127.0.0.1:8001", "m")),
        ("claude-code:m@http://h:1/v1", None, ("anthropic", "anthropic", "http://h:1", "m")),
    ],
)  # fmt: skip
def test_who_serves_a_model(text: str, provider: str | None, expected: tuple[str, str, str, str]) -> None:
    wires, default = OF_ONE_WIRE.get(text.partition(":")[0], (ALL, None))
    target = target_of(_spec(text, provider), wires, default, {})
    endpoint = target.endpoint
    assert (endpoint.provider, endpoint.wire, endpoint.base_url, target.model) == expected


def test_the_base_url_is_the_agents_else_the_parameters_else_the_variables_else_the_default() -> None:
    environ = {"VLLM_BASE_URL": "http://variable/v1"}
    params = {"vllm_base_url": "http://parameter/v1"}

    def url(text: str, **given: Any) -> str:
        return _endpoint(_spec(text, "vllm"), ALL, None, **{"environ": {}, **given}).base_url

    assert url("a:m@http://agent/v1", environ=environ, params=params) == "http://agent/v1"
    assert url("a:m", environ=environ, params=params) == "http://parameter/v1"
    assert url("a:m", environ=environ) == "http://variable/v1"
    assert url("a:m") == "http://127.0.0.1:8001/v1"


@pytest.mark.parametrize(
    ("text", "provider", "wires", "message"),
    [
        ("a:mystery", None, ALL, "the provider of model 'mystery' of a is unknown; write a:PROVIDER/mystery with one of"),
        ("a", None, ALL, "no model specified for agent 'a'. Use format: a:model"),
        ("a:m", "groq", ("anthropic",), "a speaks Anthropic Messages, but groq speaks OpenAI's protocols; choose another"),
        ("a:m", "my-cloud", ALL, "the base URL of provider 'my-cloud' is unknown .*known are anthropic, .*set MY_CLOUD_BASE_URL"),
        ("a:m", "no good", ALL, "'no good' is not a valid provider name; known providers: "),
        ("a:gpt-5@http://", None, ALL, "'http://' is not a base URL; write "),
        ("a:gpt-5@http://h/v1?key=1", None, ALL, "is not a base URL; write "),
        ("a:gpt-5@http://h:port", None, ALL, "is not a base URL; write "),
        ("a:gpt-5@http://me:secret@h/v1", None, ALL, "is not a base URL; write "),
        ("a:gpt-5@http://[::1", None, ALL, "is not a base URL; write "),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_one_clear_error(
    text: str, provider: str | None, wires: tuple[Wire, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message.replace(".*", "\0").replace(".", r"\.").replace("\0", ".*")):
        _endpoint(_spec(text, provider), wires, None, {})


def test_a_wrong_url_of_a_variable_or_parameter_names_it() -> None:
    with pytest.raises(InputError, match=r"^VLLM_BASE_URL: 'here' is not a base URL"):
        _endpoint(_spec("a:m", "vllm"), ALL, None, {"VLLM_BASE_URL": "here"})
    with pytest.raises(InputError, match=r"^parameter vllm_base_url: '8001' is not a base URL"):
        _endpoint(_spec("a:m", "vllm"), ALL, None, {}, {"vllm_base_url": 8001})


@given(
    st.text(min_size=1).filter(str.strip),
    st.none() | st.sampled_from(["", "http://", "http://h", "https://h:1/v1"]) | st.text(),
    st.none() | st.text(),
)
def test_any_agent_has_an_endpoint_or_a_clear_error(
    model: str, url: str | None, provider: str | None
) -> None:
    spec = AgentSpec(name="a", model=model, base_url=url, provider=provider)
    try:
        endpoint = _endpoint(spec, ALL, None, {})
    except InputError as error:
        assert str(error)
    else:
        assert endpoint.base_url.startswith(("http://", "https://"))
        assert not endpoint.base_url.endswith("/")
        assert endpoint.base_url.isprintable()


def test_a_key_is_needed_where_the_provider_itself_is_asked() -> None:
    def lacks(text: str, **values: str) -> str | None:
        return missing_key(_endpoint(_spec(text), ALL, None, {}), values.get)

    assert lacks("a:gpt-5") == (
        "openai needs OPENAI_API_KEY: export it, or keep it with `benchjobs secret set OPENAI_API_KEY`"
    )
    assert lacks("a:gemini-2.5-pro") == (
        "google needs at least one of GEMINI_API_KEY, GOOGLE_API_KEY: export it, or keep it with "
        "`benchjobs secret set GEMINI_API_KEY`"
    )
    assert lacks("a:gemini-2.5-pro", GOOGLE_API_KEY="k") is None
    assert lacks("a:gpt-5", OPENAI_API_KEY="k") is None
    assert lacks("a:gpt-5", OPENAI_API_KEY="") is not None
    assert lacks("a:gpt-5@http://127.0.0.1:8001/v1") is None
    assert lacks("a:vllm/m") is None


GPU_BOX = {"OPENAI_BASE_URL": "http://gpu-box/v1"}


@pytest.mark.parametrize(
    ("text", "provider", "params", "environ", "keys", "public"),
    [
        ("a:gpt-5", None, {}, {}, ("OPENAI_API_KEY",), True),
        ("a:gpt-5@https://api.openai.com/v1/", None, {}, {}, ("OPENAI_API_KEY",), True),
        ("a:gpt-5@https://eu.api.openai.com/v1", None, {}, {}, ("OPENAI_API_KEY",), True),
        ("a:deepseek-chat@https://api.deepseek.com", "deepseek", {}, {}, ("DEEPSEEK_API_KEY",), True),  # whose name was given
        ("a:gpt-5@http://api.openai.com/v1", None, {}, {}, (), False),
        ("a:gpt-5@https://api.openai.com:8443/v1", None, {}, {}, (), False),
        ("a:gpt-5@https://notapi.openai.com.evil.example/v1", None, {}, {}, (), False),
        ("a:gpt-5@https://xapi.openai.com/v1", None, {}, {}, (), False),
        ("a:gpt-5@http://127.0.0.1:8000/v1", None, {}, {}, (), False),
        ("a:qwen3@http://gpu-box:8000/v1", "openai", {}, {}, (), False),
        ("a:gpt-oss-120b@http://gpu-box/v1", "openai", {}, {}, (), False),
        ("a:qwen3@http://gpu-box:8000/v1", "openai", {"openai_key_variable": "BOX"}, {}, ("BOX",), False),
        ("a:claude-x@http://[fd00::1]:8000", None, {}, {}, (), False),
        ("a:gemini-x@http://h", None, {}, {}, (), False),
        ("a:m@http://h/v1", "groq", {}, {}, (), False),
        ("a:gpt-5", None, {"openai_base_url": "http://gpu-box/v1"}, {}, (), False),
        # The variable with the address, the way to the provider, and the one with the key are set together.
        ("a:gpt-5", None, {}, GPU_BOX, ("OPENAI_API_KEY",), True),
        ("a:gpt-5@http://other/v1", None, {}, GPU_BOX, (), False),
        # Keys of what many people run themselves are for the one at any address. Others of theirs have no prices.
        ("a:m@http://gpu-box:8000/v1", "vllm", {}, {}, ("VLLM_API_KEY",), False),
        ("a:m@http://gpu-box:8000/v1", None, {}, {}, ("OPENAI_COMPATIBLE_API_KEY",), None),
        ("a:m@http://gpu-box:8000/v1", "my-cloud", {}, {}, ("MY_CLOUD_API_KEY",), None),
    ],
)  # fmt: skip
def test_a_key_goes_to_its_provider_or_where_it_was_named_for_and_public_prices_hold_there(
    text: str, provider: str | None, params: dict[str, Any], environ: dict[str, str], keys: tuple[str, ...],
    public: bool | None,
) -> None:  # fmt: skip
    endpoint = _endpoint(_spec(text, provider), ALL, None, environ, params)
    assert endpoint.key_variables == keys
    assert public in (None, endpoint.public)


def test_a_variable_that_is_none_is_refused() -> None:
    with pytest.raises(
        InputError, match="parameter openai_key_variable is the name of a variable, not 'sk-1'"
    ):
        _endpoint(_spec("a:gpt-5@http://h/v1"), ALL, None, {}, {"openai_key_variable": "sk-1"})


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        ("claude-code:claude-x", ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN")),
        ("claude-code:claude-x@http://gpu-box:8000", ()),
        ("codex:qwen3@http://gpu-box:8000/v1", ()),
    ],
)
def test_the_public_agents_send_no_key_elsewhere(spec: str, keys: tuple[str, ...]) -> None:
    known = {agent.name: agent for agent in packaged_agents()}
    one = AgentSpec.parse(spec)
    [endpoint] = known[one.name].endpoints(one, {}, {})
    assert endpoint.key_variables == keys
