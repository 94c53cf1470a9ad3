"""What connects a trial with its models: whose key goes to the gateway, and that it goes nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand, Shell
from pytest_benchjobs.gateway.client import Route, RouteReport, Terms, Upstream
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.endpoint import Endpoint
from pytest_benchjobs.model.errors import AgentSetupFailed, GatewayLost, ResultsUnwritable
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.model.result import Outcome, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.testing import FakeProvider
from pytest_benchjobs.trial.cancellation import Cancellation
from pytest_benchjobs.trial.connection import Models, usage_notes
from pytest_benchjobs.trial.prepare import Services
from pytest_benchjobs.trial.run import run_trial
from pytest_benchjobs.trial.run_agent import connection_to_models

from .records import OWNER, record, trial

KEY = "hunter2-hunter2"
URL, KEYS = "http://127.0.0.1:1/v1", ("MISTRAL_API_KEY", "OTHER")
ENDPOINT = Endpoint(wire="openai", provider="mistral", base_url=URL, key_variables=KEYS)
COMMAND = AgentCommand(("true",), endpoints=(ENDPOINT,))


class FakeRoute:
    """A way to nowhere."""

    socket = host_socket = Path("/nowhere")
    is_open = True

    def close(self) -> RouteReport:
        if not self.is_open:
            raise GatewayLost("it is closed")
        return RouteReport(Usage(calls=2), None, f"no such key: {KEY}", {}, {}, None)

    def pid(self) -> int | None:
        return None

    def held(self) -> float:
        return 0.0

    def stop_asked(self) -> bool:
        return False


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Upstream]:
    """What routes were opened to."""
    seen: list[Upstream] = []

    @contextlib.contextmanager
    def open_route(address: str, name: str, upstreams: Sequence[Upstream], terms: Terms) -> Iterator[Route]:
        seen.extend(upstreams)
        route = FakeRoute()
        try:
            yield cast("Route", route)
        finally:
            route.is_open = False

    monkeypatch.setattr("pytest_benchjobs.trial.run_agent.open_route", open_route)
    return seen


def models(**keys: str) -> Models:
    return Models("/nowhere", keys.get)


@contextlib.contextmanager
def connected(command: AgentCommand, models: Models | None, given: Mapping[str, str]) -> Iterator[Any]:
    """The context of a trial whose agent is connected to its models."""
    context: Any = SimpleNamespace(
        trial=trial(), services=SimpleNamespace(models=models), secrets={}, counted=None, route=None
    )
    context.findings, context.note_report = SimpleNamespace(), lambda report: None
    context.keep_secret = context.secrets.update
    with connection_to_models(context, command, given):
        yield context


def test_the_first_key_that_is_set_goes_to_the_gateway(opened: list[Upstream]) -> None:
    with connected(COMMAND, models(OTHER=KEY), {}) as context:
        assert list(context.secrets.values()) == [KEY]
    assert opened == [Upstream(ENDPOINT, KEY)]
    assert KEY not in repr(opened)


def test_a_key_that_was_given_to_the_agent_goes_before_that_of_this_machine(opened: list[Upstream]) -> None:
    with connected(COMMAND, models(OTHER=KEY), {"OTHER": "given-to-the-agent"}):
        pass
    assert opened == [Upstream(ENDPOINT, "given-to-the-agent")]


def test_a_key_that_is_missing_is_an_error_that_names_its_variables(opened: list[Upstream]) -> None:
    missing = pytest.raises(AgentSetupFailed, match="MISTRAL_API_KEY or OTHER")
    with missing, connected(COMMAND, models(), {}):
        pass
    assert opened == []


def test_an_endpoint_that_needs_no_key_gets_none(opened: list[Upstream]) -> None:
    free = AgentCommand(("true",), endpoints=(ENDPOINT.model_copy(update={"key_required": False}),))
    with connected(free, models(), {}):
        pass
    assert [one.key for one in opened] == [None]


def test_a_command_without_models_needs_no_gateway(opened: list[Upstream]) -> None:
    with connected(AgentCommand(("true",)), None, {}) as context:
        assert context.route is None
    with pytest.raises(GatewayLost), connected(COMMAND, None, {}):
        pass
    assert opened == []


def run(directory: Path, work: Callable[[Shell], int]) -> tuple[JobBundle, TrialResult]:
    """Run a trial of an agent that is a function, and calls models."""

    class Works:
        name = "works"
        needs_model = True
        trusted = False

        def prepare(self, call: AgentCall) -> AgentCommand:
            return AgentCommand((), endpoints=(ENDPOINT,), host=work)

    bundle = JobBundle.create(directory, record(directory))
    services = Services(
        config=JobConfig(directory=directory),
        bundle=bundle,
        provider=FakeProvider(OWNER),
        agents={"works": Works()},
        scorers=dict(builtin_scorers()),
        models=models(MISTRAL_API_KEY=KEY),
    )
    base = trial()
    scenario = base.scenario.model_validate({**dict(base.scenario), "artifacts": [{"source": "answer.txt"}]})
    one = base.model_copy(update={"agent": AgentSpec.parse("works:m"), "scenario": scenario})
    return bundle, run_trial(one, services, Cancellation())


def test_calls_of_an_agent_that_breaks_are_counted(opened: list[Upstream], tmp_path: Path) -> None:
    def work(shell: Shell) -> int:
        raise RuntimeError("broken")

    _, result = run(tmp_path, work)
    assert (result.outcome, result.usage.calls, result.notes) == (Outcome.ERROR, 2, ())


def test_calls_that_cannot_be_recorded_are_counted(
    opened: list[Upstream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closes, close = iter([ResultsUnwritable("no room")]), FakeRoute.close

    def refuse(route: FakeRoute) -> RouteReport:
        for error in closes:
            raise error
        return close(route)

    def work(shell: Shell) -> int:
        raise RuntimeError("broken")

    monkeypatch.setattr(FakeRoute, "close", refuse)
    _, result = run(tmp_path, work)
    assert (result.outcome, result.usage.calls) == (Outcome.ERROR, 2)
    assert result.failure is not None
    assert result.failure.class_ == ResultsUnwritable.code


def test_a_key_that_an_answer_repeats_is_redacted_whatever_its_variable_is_called(
    opened: list[Upstream], tmp_path: Path
) -> None:
    def work(shell: Shell) -> int:
        shell.log(f"the model says: invalid key {KEY}")
        shell.write("answer.txt", KEY.encode())
        return 0

    bundle, result = run(tmp_path, work)
    log = (bundle.root / result.path / "agent.log").read_text()
    assert log == "the model says: invalid key [redacted:MISTRAL_API_KEY]\n"
    files = [path for path in bundle.root.rglob("*") if path.is_file()]
    assert "answer.txt" in {path.name for path in files}
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("unknown", "at_most", "notes"),
    [
        ({}, 1.0, []),
        ({"did not finish": 2}, None, ["cost unknown: 2 call(s) did not finish"]),
        (
            {"no price for gpt-5 (scale)": 3, "ended with an error": 1},
            0.5,
            [
                "cost unknown: no price for gpt-5 (scale); give one with --bench-prices",
                "cost unknown: 1 call(s) ended with an error; all calls together cost at most 0.5000 USD",
            ],
        ),
    ],
)
def test_a_note_says_why_a_cost_is_unknown(
    unknown: dict[str, int], at_most: float | None, notes: list[str]
) -> None:
    report = RouteReport(Usage(), None, None, {}, unknown, None, at_most=at_most)
    assert usage_notes(report) == notes


def test_notes_count_calls_that_were_sent_again_and_those_that_the_steps_lack() -> None:
    report = RouteReport(Usage(), None, None, {}, {}, None, left_out=3, sent_again=2)
    assert usage_notes(report) == [
        "2 call(s) of models were sent again, and counted once, as a kept connection ended without an answer",
        "3 call(s) of models are not in the steps: these are made of up to 10,000 calls and 64 MB",
    ]
