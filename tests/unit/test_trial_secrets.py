"""Who gets which secret, and what must be redacted although nobody gets it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.agents.keys import KEYS
from pytest_benchjobs.agents.providers import PROVIDERS
from pytest_benchjobs.model.endpoint import PLACEHOLDER_KEY
from pytest_benchjobs.model.environ import HOST, Variable, environment_without_keys, program_environment
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.settings.secret_store import DIRECTORY, SecretStore
from pytest_benchjobs.system.redact import looks_secret
from pytest_benchjobs.trial.secrets import (
    MODEL_KEYS,
    env_file_secrets,
    keys_taken,
    known_keys,
    secrets_of,
    split,
    together,
    unmistakable,
    without_keys,
)

from . import records


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "config"))
    monkeypatch.setitem(sys.modules, "keyring", None)
    for name in MODEL_KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def env_file() -> Iterator[None]:
    values = {
        "DB_PASSWORD": "postgres",
        "DB_TOKEN": "unmistakable-token",
        "OPENAI_API_KEY": "file-openai",
        "REGION": "eu-central",
        "AUTH": "pw",
    }
    undo = HOST.lay_below({name: Variable(value, ".env") for name, value in values.items()})
    yield
    undo()


def test_keys_of_models_are_withheld_from_agents() -> None:
    given = {"GITHUB_TOKEN": "a", "OPENAI_API_KEY": "b", "ANTHROPIC_API_KEY": "c", "MY_LLM_KEY": "d"}
    assert split(given) == (
        {"GITHUB_TOKEN": "a", "MY_LLM_KEY": "d"},
        {"OPENAI_API_KEY": "b", "ANTHROPIC_API_KEY": "c"},
    )
    assert split(given, ["MY_LLM_KEY"]).passed == {"GITHUB_TOKEN": "a"}
    assert split({}) == ({}, {})


def test_the_variables_of_every_known_agent_and_provider_are_keys() -> None:
    names = {name for names in KEYS.values() for name in names}
    names |= {name for provider in PROVIDERS.values() for name in provider.key_variables}
    assert split(dict.fromkeys(names, "x")).passed == {}


def test_every_variable_of_a_key_has_the_name_of_a_secret() -> None:
    assert [name for name in MODEL_KEYS if not looks_secret(name, "sk-1")] == []


def test_what_the_job_is_given_is_a_secret_by_name_and_what_a_manifest_says_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_TOKEN", "from-this-machine")
    monkeypatch.setenv("HOST_MAX", "64000")
    scenario = records.trial().scenario.model_copy(
        update={"agent_env": {"ANSWER_KEY": "forty-two", "MINE": "${HOST_TOKEN}", "TOKENS": "${HOST_MAX}"}}
    )
    given = {
        "ANTHROPIC_API_KEY": "sk-ant-1",
        "MAX_THINKING_TOKENS": "200000",
        "MAX_TOKENS": "${HOST_MAX}",
        "MODE": "MY_KEY",
        "SORT_KEY": "name",
    }
    config = JobConfig(directory=tmp_path, env=given)
    assert secrets_of(scenario, config, {"PASSED": "x"}) == {
        "PASSED": "x",
        "ANTHROPIC_API_KEY": "sk-ant-1",
        "SORT_KEY": "name",
        "MINE": "from-this-machine",
    }


def test_known_keys_are_those_given_else_those_of_this_machine(
    env_file: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    SecretStore().set("GEMINI_API_KEY", "kept-gemini")
    SecretStore().set("OPENAI_API_KEY", "kept-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "real-anthropic")
    assert known_keys() == {
        "ANTHROPIC_API_KEY": "real-anthropic",
        "GEMINI_API_KEY": "kept-gemini",
        "OPENAI_API_KEY": "file-openai",
    }
    given = known_keys({"OPENAI_API_KEY": "given-openai", "GITHUB_TOKEN": "x"})
    assert given["OPENAI_API_KEY"] == "given-openai"
    assert "GITHUB_TOKEN" not in given


def test_keys_that_cannot_be_read_are_no_reason_not_to_know_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SecretStore()
    store.set("GEMINI_API_KEY", "kept-gemini")
    store.path.chmod(0o644)
    monkeypatch.setenv("OPENAI_API_KEY", "real-openai")
    assert known_keys() == {"OPENAI_API_KEY": "real-openai"}


def test_what_env_files_call_a_secret_is_one(env_file: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "real-openai-canary")
    assert env_file_secrets() == {
        "DB_PASSWORD": "postgres",
        "DB_TOKEN": "unmistakable-token",
        "OPENAI_API_KEY": "file-openai",
        "AUTH": "pw",
    }
    assert unmistakable({}) == {"OPENAI_API_KEY": "real-openai-canary", "DB_TOKEN": "unmistakable-token"}


def test_two_values_of_one_name_are_both_there() -> None:
    assert together({"A": "1", "B": "2"}, {"A": "3"}, {"A": "1", "B": "4"}) == {
        "A": "1",
        "B": "2",
        "A_": "3",
        "B_": "4",
    }


def test_of_a_manifests_variables_no_key_of_a_model_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-real-key")
    monkeypatch.setenv("REGION", "eu")
    table = {
        "OPENAI_API_KEY": "${OPENAI_API_KEY}",
        "JUDGE": "${OPENAI_API_KEY:-none}",
        "GROQ_API_KEY": "${GROQ_API_KEY:-none}",
        "REGION": "${REGION}",
        "ANTHROPIC_API_KEY": "written-here",
    }
    assert keys_taken(table) == {"OPENAI_API_KEY": "OPENAI_API_KEY", "JUDGE": "OPENAI_API_KEY"}
    assert without_keys(table) == {
        "OPENAI_API_KEY": PLACEHOLDER_KEY,
        "JUDGE": PLACEHOLDER_KEY,
        "GROQ_API_KEY": "none",
        "REGION": "eu",
        "ANTHROPIC_API_KEY": "written-here",
    }


def test_programs_we_start_have_no_key_in_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*MODEL_KEYS, "GITHUB_TOKEN", "https_proxy", "npm_config_registry"):
        monkeypatch.setenv(name, "x")
    everything = environment_without_keys()
    assert not MODEL_KEYS & everything.keys()
    assert {"PATH", "GITHUB_TOKEN"} <= everything.keys()
    little = program_environment("npm_")
    assert {"PATH", "npm_config_registry"} <= little.keys()
    assert not {*MODEL_KEYS, "GITHUB_TOKEN", "https_proxy"} & little.keys()
    assert "https_proxy" in program_environment(network=True)
