"""Whether a job needs a gateway: for its agents, or for keys that it is given."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_benchjobs.job.models import needed
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobConfig


@pytest.mark.parametrize(
    ("named", "secrets", "is_needed"),
    [
        (["talks"], {}, True),
        (["silent"], {}, False),
        (["oracle"], {}, False),
        (["silent", "talks"], {}, True),
        (["unknown"], {}, False),
        (["silent:gpt-5"], {}, False),
        (["described:gpt-5"], {}, True),
        (["described"], {}, False),
        ([], {}, False),
        (["silent"], {"OPENAI_API_KEY": "sk-0123456789"}, True),
        (["silent"], {"NOTE": "0123456789"}, False),
    ],
)
def test_a_gateway_is_needed_for_an_agent_that_talks_to_a_model_or_for_a_key(
    tmp_path: Path, named: list[str], secrets: dict[str, str], *, is_needed: bool
) -> None:
    agents: Any = {
        name: SimpleNamespace(name=name, needs_model=needs_model)
        for name, needs_model in (("talks", True), ("silent", False), ("oracle", True), ("described", False))
    }
    agents["described"].endpoints = lambda *_: ()
    config = JobConfig(directory=tmp_path, agents=tuple(AgentSpec.parse(name) for name in named))
    assert needed(config, agents, secrets) is is_needed
