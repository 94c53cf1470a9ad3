"""What a trial calls, uses and may spend is of all its tries, and stands in its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand, AgentReading, Shell
from pytest_benchjobs.gateway.client import SpendingLimits
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.endpoint import GATEWAY_URL, PLACEHOLDER_KEY, Endpoint
from pytest_benchjobs.model.errors import EngineUnavailable
from pytest_benchjobs.model.result import TrialResult
from pytest_benchjobs.model.scenario import (
    ArtifactSpec,
    Environment,
    Feedback,
    FreshContainer,
    Reference,
    ScorerSpec,
)
from pytest_benchjobs.sandbox.program import PROGRAM
from pytest_benchjobs.trial.connection import Models

from .gateways import Model, chat_answer, running
from .test_trial import Bench, Provider, _failure
from .test_trial import bench as bench

CHAT = f"{GATEWAY_URL['openai']}/chat/completions"
FINE = ScorerSpec(name="fine", type="command", params={"command": "true"})


class Caller:
    """An agent of this machine that calls models, and reads its log as its trajectory."""

    name = "caller"
    needs_model = True
    trusted = False

    def __init__(self, url: str, names: list[str], *declared: str) -> None:
        self._endpoint = Endpoint(wire="openai", provider="openai", base_url=url + "/v1", key_required=False)
        self._names = names
        self._declared = declared

    def prepare(self, call: AgentCall) -> AgentCommand:
        return AgentCommand(
            (),
            endpoints=(self._endpoint,),
            models=self._declared,
            host=self._work,
            read=self._read,
            identity="caller",
        )

    def _work(self, shell: Shell) -> int:
        for name in self._names:
            asked = {"model": name, "messages": [], "tools": [{"type": "web_search"}]}
            shell.log(str(shell.post(CHAT, asked)[0]))
        return 0

    def _read(self, log: Path, trajectory: Path) -> AgentReading:
        pieces = log.read_text().split()
        trajectory.write_text("".join(pieces))
        return AgentReading(ending=Ending.SUCCESS)


class InContainer(Caller):
    """The same as a program of the container, where it does nothing."""

    def prepare(self, call: AgentCall) -> AgentCommand:
        return AgentCommand(("/bin/true",), endpoints=(self._endpoint,), identity="caller")


pytestmark = pytest.mark.usefixtures("answering")
Run = Callable[..., TrialResult]
_OF_THE_JOB = ("retry_errors", "allow_key", "env", "params", "agents")


@pytest.fixture
def provider(bench: Bench) -> Provider:
    return bench.provider


@pytest.fixture
def run(tmp_path: Path, bench: Bench) -> Iterator[Run]:
    with running(tmp_path, record=tmp_path / "records") as gateway:

        def run(
            agent: Any, limits: SpendingLimits | None = None, allowed: tuple[str, ...] = (), **more: Any
        ) -> TrialResult:
            bench.config = {name: more.pop(name) for name in _OF_THE_JOB if name in more}
            bench.models = Models(
                gateway.address, lambda name: None, limits or SpendingLimits(), allowed_models=allowed
            )
            if not isinstance(agent, str):
                bench.agents, agent = {agent.name: agent}, "caller:m-1"
            return bench.run(agent, **{"scorers": (FINE,), "reference": Reference(script="true"), **more})

        yield run


def test_usage_is_of_all_tries(run: Run, model: Model, provider: Provider) -> None:
    provider.faults["end_processes"] = [EngineUnavailable("gone"), None]
    result = run(Caller(model.url, ["m-1", "m-1"]), retry_errors=1)
    assert (result.outcome, result.tries) == ("passed", 2)
    assert (result.usage.calls, result.usage.input_tokens, result.usage.source) == (4, 4000, "gateway")
    assert result.usage.cost_usd == pytest.approx(4 * 0.02)
    assert result.models == {"m-1": 4}


TOLD = {"fresh_container": FreshContainer(), "feedback": Feedback(statement="{output}")}
NEVER = ScorerSpec(name="never", type="command", command="false")


def test_turns_have_one_route_and_usage_is_of_all(
    run: Run, model: Model, provider: Provider, tmp_path: Path
) -> None:
    result = run(Caller(model.url, ["m-1", "m-2"], "m-1", "m-2"), scorers=(NEVER,), **TOLD)
    assert (result.outcome, result.turns, result.usage.calls) == ("failed", (0.0, 0.0), 4)
    assert result.models == {"m-1": 4}
    assert provider.calls.count("start") == 3
    assert len(list((tmp_path / "records").rglob("*.json"))) == 4


def test_turns_in_a_container_go_through_the_door_one_after_the_other(
    run: Run, model: Model, provider: Provider
) -> None:
    result = run(InContainer(model.url, []), scorers=(NEVER,), **TOLD)
    assert (result.outcome, result.turns) == ("failed", (0.0, 0.0))
    assert sum(call.startswith("exec /bin/true") for call in provider.calls) == 2
    assert any(call.startswith("put") and PROGRAM in call for call in provider.calls)


def test_a_limit_is_of_all_turns(run: Run, model: Model) -> None:
    result = run(Caller(model.url, ["m-1", "m-1"]), SpendingLimits(max_calls=3), scorers=(NEVER,), **TOLD)
    assert (result.outcome, result.failure and result.failure.class_) == ("failed", "limit_exceeded")
    assert (len(model.asked), result.usage.calls) == (3, 3)


def test_who_uses_up_what_a_trial_may_use_has_failed(run: Run, model: Model) -> None:
    result = run(Caller(model.url, ["m-1", "m-1", "m-1"]), SpendingLimits(max_calls=2))
    assert (result.outcome, result.failure and result.failure.class_) == ("failed", "limit_exceeded")
    assert "limit of 2 calls is reached" in _failure(result).message
    assert (result.score, result.tries, result.usage.calls) == (1.0, 1, 2)


def test_a_limit_is_of_all_tries(run: Run, model: Model, provider: Provider) -> None:
    provider.faults["end_processes"] = [EngineUnavailable("gone"), None]
    result = run(Caller(model.url, ["m-1", "m-1"]), SpendingLimits(max_calls=3), retry_errors=1)
    assert (result.outcome, result.failure and result.failure.class_) == ("error", "budget")
    assert len(model.asked) == 3
    assert result.usage.calls == 3


def test_what_a_try_used_counts_when_the_next_one_does_not_come_to_a_model(
    run: Run, model: Model, provider: Provider
) -> None:
    provider.faults["end_processes"] = EngineUnavailable("gone")
    provider.faults["start"] = [None, EngineUnavailable("no more")]
    result = run(Caller(model.url, ["m-1"]), retry_errors=1)
    assert (result.outcome, result.tries) == ("error", 2)
    assert (result.usage.calls, result.models) == (1, {"m-1": 1})


def test_what_an_agent_says_it_used_adds_up_over_tries(run: Run, provider: Provider) -> None:
    said = json.dumps({"input_tokens": 5, "cost_usd": 0.5})
    provider.faults["fetch"] = [EngineUnavailable("gone"), None]
    result = run(
        f"command:echo '{said}' > $BENCH_USAGE_FILE; echo x > out.txt",
        retry_errors=1,
        artifacts=(ArtifactSpec(source="out.txt"),),
    )
    assert (result.outcome, result.tries) == ("passed", 2)
    assert (result.usage.input_tokens, result.usage.cost_usd, result.usage.source) == (10, 1.0, "agent")


def test_only_the_model_that_was_asked_for_is_called(run: Run, model: Model) -> None:
    result = run(Caller(model.url, ["m-1", "m-1-20261121", "m-dear", "m-1"]))
    assert [asked.json["model"] for asked in model.asked] == ["m-1", "m-1-20261121", "m-1"]
    assert result.outcome == "passed"
    assert result.models == {"m-1": 3}  # as the endpoint names it
    assert [note for note in result.notes if "m-dear" in note] == [
        "refused, since this trial may not call it: m-dear; allow it with --bench-allow-model"
    ]


def test_others_may_be_declared_by_the_agent_or_allowed_by_the_user(run: Run, model: Model) -> None:
    names = ["m-1", "m-small-2", "m-judge", "m-x"]
    result = run(Caller(model.url, names, "m-1", "m-small-*"), allowed=("m-judge",))
    assert [asked.json["model"] for asked in model.asked] == names[:3]
    assert any("m-x" in note for note in result.notes)


@pytest.mark.parametrize(
    ("given", "stays"),
    [
        ({}, True),
        ({"agent_network": "none"}, False),
        ({"environment": {"network": "none"}, "agent_network": "public"}, True),
        ({"agent_network": "none", "provider_tools": ("web_search",)}, True),
        ({"provider_tools": False}, False),
    ],
)
def test_tools_of_providers_go_with_the_public_network(
    run: Run, model: Model, given: dict[str, Any], stays: bool
) -> None:
    result = run(Caller(model.url, ["m-1", "m-1"]), **given)
    assert [("tools" in asked.json) for asked in model.asked] == [stays, stays]
    words = "taken out of requests, since they run at the provider, out of the network of this trial: web_search; "
    words += "a scenario allows them with provider_tools"
    assert [note for note in result.notes if "web_search" in note] == ([] if stays else [words])


def test_a_trajectory_holds_no_secret_that_came_in_pieces(
    run: Run, model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_TOKEN", "200200200")  # what the log has as three lines
    result = run(Caller(model.url, ["m-1"] * 3), agent_env={"MY_TOKEN": "${MY_TOKEN}"})
    [trajectory] = tmp_path.rglob("trajectory.jsonl")
    assert trajectory.read_text() == "[redacted:MY_TOKEN]"
    assert result.outcome == "passed"


def test_recorded_traffic_holds_no_secret_of_the_trial(
    run: Run, model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGISTRY_TOKEN", "token-of-the-registry")
    whole = chat_answer()
    said = json.dumps({**json.loads(whole.body), "x": "token-of-the-registry password-of-the-job"})
    model.otherwise = whole._replace(body=said.encode())
    env = {"DB_PASSWORD": "password-of-the-job"}
    result = run(Caller(model.url, ["m-1"]), agent_env={"REGISTRY_TOKEN": "${REGISTRY_TOKEN}"}, env=env)
    assert result.outcome == "passed"
    [file] = (tmp_path / "records").rglob("*.json")
    assert "[redacted:REGISTRY_TOKEN] [redacted:DB_PASSWORD]" in file.read_text()


def test_the_door_to_models_is_in_the_container_of_an_agent_that_runs_there(
    run: Run, model: Model, provider: Provider
) -> None:
    for agent in (InContainer(model.url, []), Caller(model.url, []), "nop"):
        run(agent)
    doors = [any(file.path == PROGRAM for file in spec.files) for spec in provider.started]
    # Each has a container for grading, too.
    assert doors == [True, False, False, False, False, False]


# Keys of models, and containers


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", "the-real-key-of-openai")
    return "the-real-key-of-openai"


REFERS = {"OPENAI_API_KEY": "${OPENAI_API_KEY}", "JUDGE": "${OPENAI_API_KEY}", "PLAIN": "x"}


@pytest.mark.parametrize("agent", ["oracle", "nop", "command:env > out.txt"])
def test_no_key_of_a_model_reaches_the_container_by_its_environment(
    run: Run, provider: Provider, key: str, agent: str
) -> None:
    run(
        agent,
        environment={"env": REFERS},
        agent_env={"OWN": "${OPENAI_API_KEY}"},
        artifacts=(ArtifactSpec(source="out.txt"),),
    )
    assert len(provider.started) == 2
    for spec in provider.started:
        assert spec.environment.env == {
            "OPENAI_API_KEY": PLACEHOLDER_KEY, "JUDGE": PLACEHOLDER_KEY, "PLAIN": "x"
        }  # fmt: skip
        assert key not in str(spec)


def test_nor_the_agent_by_its_own(run: Run, key: str, tmp_path: Path) -> None:
    result = run("command:env", agent_env={"OWN": "${OPENAI_API_KEY}"})
    log = (tmp_path / "jobs").rglob("agent.log")
    [text] = [path.read_text() for path in log]
    assert f"OWN={PLACEHOLDER_KEY}" in text
    assert key not in text
    assert result.failure is None or result.failure.class_ != "internal"


@pytest.mark.parametrize(
    ("variable", "config"),
    [
        ("BOX_SECRET", {"params": {"openai_key_variable": "BOX_SECRET"}}),
        ("BOX_SECRET", {"agents": (AgentSpec(name="nop", params={"my_cloud_key_variable": "BOX_SECRET"}),)}),
        ("BOX_API_KEY", {"agents": (AgentSpec(name="model", model="m", provider="box"),)}),
    ],
)
def test_nor_does_a_key_that_only_this_job_has_for_a_model(
    run: Run,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variable: str,
    config: dict[str, Any],
) -> None:
    monkeypatch.setenv(variable, "the-key-of-the-box-0123")
    taken = {"JUDGE": f"${{{variable}}}"}
    run("command:env", environment={"env": taken}, agent_env={"OWN": f"${{{variable}}}"}, **config)
    assert [spec.environment.env for spec in provider.started] == [{"JUDGE": PLACEHOLDER_KEY}] * 2
    [log] = [path.read_text() for path in (tmp_path / "jobs").rglob("agent.log")]
    assert f"OWN={PLACEHOLDER_KEY}" in log
    result = run("oracle", scorers=(FINE.model_copy(update={"env": taken}),), **config)
    assert f"would have {variable}, a key of a model" in _failure(result).message


@pytest.mark.parametrize(
    "scenario",
    [
        {"scorers": (FINE.model_copy(update={"env": REFERS}),)},
        {"reference": Reference(script="true", env=REFERS)},
        {
            "fresh_container": FreshContainer(
                environment=Environment(
                    image="debian", workdir="/app", env={**REFERS, "A_TOKEN": "${A_TOKEN}"}
                )
            )
        },
    ],
    ids=["scorer", "reference", "container for grading"],
)
def test_a_scorer_has_a_key_only_if_the_user_says_so(
    run: Run, provider: Provider, key: str, scenario: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "something-else")
    result = run("oracle", **scenario)
    assert (result.outcome, _failure(result).class_) == ("error", "input")
    assert "would have OPENAI_API_KEY, a key of a model, in the container" in _failure(result).message
    assert "--bench-allow-key OPENAI_API_KEY" in _failure(result).message
    assert provider.calls == []
    assert run("oracle", allow_key=("OPENAI_API_KEY",), **scenario).failure is None
