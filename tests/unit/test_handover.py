"""The border between a trial's thread and whoever drives it; and the port of the gateway for HTTP clients."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_benchjobs.agents.interactive import Handover, InteractiveAgent, Stage
from pytest_benchjobs.agents.protocol import AgentCall, TrialScore
from pytest_benchjobs.gateway.local import LocalAddress
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.errors import AgentSetupFailed, EngineLost, NotLive
from pytest_benchjobs.model.result import Outcome
from pytest_benchjobs.store.calls import CallLog, LoggedCall

from ..support import until
from .records import trial


class Shell:
    """What a handover needs of a sandbox, without one."""

    def __init__(self) -> None:
        self.stopped = False
        self.calls: Path | None = None
        self.lines: list[str] = []
        self.replies: list[str] = []
        self.threads: set[str] = set()
        self.scores: tuple[float, ...] = ()
        self.pause, self.resume = mock.Mock(), mock.Mock()

    def run(self, command: str, timeout: float, **_how: Any) -> tuple[int | None, str]:
        self.threads.add(threading.current_thread().name)
        if command == "lost":
            raise EngineLost("gone")
        return (None, "") if command == "slow" else (0, command)

    def write(self, path: str, content: bytes, mode: int | None = None) -> None:
        self.threads.add(threading.current_thread().name)

    def reply(self, text: str) -> None:
        self.replies.append(text)

    def post(self, _url: str, body: Any) -> tuple[int, Any]:
        return body.get("answers", (200, {"choices": [{"message": {"content": "asked"}}]}))

    def log(self, line: str) -> None:
        self.lines.append(line)


@contextlib.contextmanager
def begun(handover: Handover, shell: Any) -> Iterator[list[int]]:
    """Have a trial at work in a thread, and end it; yields what gets the exit status of its agent."""
    status: list[int] = []
    thread = threading.Thread(target=lambda: status.append(handover.work(shell)), name="trial")
    thread.start()
    until(lambda: handover.stage is Stage.WORKING)
    try:
        yield status
    finally:
        if not shell.stopped:
            handover.end()
        thread.join()


def trajectory(handover: Handover, shell: Shell, directory: Path) -> tuple[Any, list[Any]]:
    """What the handover reads in its own log, and the steps that it finds there."""
    (directory / "log").write_text("\n".join(shell.lines))
    reading = handover.read(directory / "log", directory / "trajectory")
    return reading, [json.loads(line) for line in (directory / "trajectory").read_text().splitlines()]


def test_calls_run_in_the_thread_of_the_trial_and_are_logged() -> None:
    handover, shell = Handover(), Shell()
    with pytest.raises(NotLive, match="has not begun"):
        handover.call(lambda _: None)
    with begun(handover, shell) as status:
        assert handover.call(lambda live: handover.run(live, "ls", 5)) == (0, "ls")
        assert handover.call(lambda live: handover.run(live, "slow", 5)) == (None, "")
        handover.call(lambda live: handover.write(live, "a", b"xyz", None))
        with pytest.raises(EngineLost):
            handover.call(lambda live: handover.run(live, "lost", 5))
        with pytest.raises(TimeoutError):
            handover.call(lambda _: (_ for _ in ()).throw(TimeoutError("model")))
    assert (status, shell.threads, handover.stage) == ([0], {"trial"}, Stage.SCORING)
    events = [json.loads(line) for line in shell.lines]
    assert [event["type"] for event in events[:4]] == ["begin", "user", "answer", "result"]
    assert events[5]["output"] == "\n[timed out after 5 s]"
    assert events[6]["calls"][0]["arguments"] == {"path": "a", "bytes": 3}
    with pytest.raises(NotLive, match="being scored"):
        handover.call(lambda _: None)


def test_a_trial_that_is_stopped_refuses_calls_and_says_why() -> None:
    handover, shell = Handover(), Shell()
    entered, released = threading.Event(), threading.Event()
    refused: list[str] = []

    def blocking(_: object) -> None:
        entered.set()
        released.wait(30)

    def waiting() -> None:
        try:
            handover.call(lambda _: None)
        except NotLive as error:
            refused.append(str(error))

    calls = [threading.Thread(target=lambda: handover.call(blocking)), threading.Thread(target=waiting)]
    with begun(handover, shell) as status:
        calls[0].start()
        entered.wait(30)
        calls[1].start()
        until(lambda: not handover._calls.empty())
        shell.stopped = True
        released.set()
    for one in calls:
        one.join()
    assert status == [0]
    assert len(refused) == 1
    assert "its time is up" in refused[0]


def test_after_the_score_only_a_look_is_possible() -> None:
    handover, shell = Handover(), Shell()
    with begun(handover, shell):
        pass
    score = TrialScore(outcome=Outcome.FAILED, score=0.5)
    holding = threading.Thread(target=lambda: handover.hold(shell, score))  # type: ignore[arg-type]
    holding.start()
    until(lambda: handover.stage is Stage.SCORED)
    assert handover.score is score
    assert (score.passed, score.final) == (False, True)
    assert handover.call(lambda live: handover.run(live, "ls", 5)) == (0, "ls")
    with pytest.raises(NotLive, match="has been scored"):
        handover.call(lambda _: None, scored=False)
    handover.end()
    holding.join()
    assert handover.stage is Stage.ENDED


def test_another_turn_has_the_score_of_the_last_one() -> None:
    handover, shell = Handover(), Shell()
    for turn in (1, 2):
        shell.scores = (0.25,) * (turn - 1)
        with begun(handover, shell):
            pass
    assert handover.turn == 2
    assert handover.score == TrialScore(outcome=None, score=0.25)
    assert not handover.score.final


def test_the_last_reply_of_a_turn_is_its_last_step_unless_the_model_just_said_it(tmp_path: Path) -> None:
    handover, shell = Handover(), Shell()
    for replies in (("hi", "hi there"), ("asked",), ()):
        with begun(handover, shell):
            if replies == ("asked",):
                handover.call(lambda live: handover.chat(live, {}))
            for reply in replies:
                handover.call(lambda live, reply=reply: handover.reply(live, reply))
    assert shell.replies == ["hi", "hi there", "asked"]
    _, steps = trajectory(handover, shell, tmp_path)
    said = [step["message"] for step in steps if step.get("source") == "agent"]
    assert said == ["hi there", "asked"]


def test_an_answer_of_chat_is_a_step_with_its_calls_and_a_failure_is_one_too(tmp_path: Path) -> None:
    handover, shell = Handover(), Shell()
    call = {"id": "a", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}
    answers = [
        (
            200,
            {"choices": [{"message": {"content": "x", "tool_calls": [call]}}], "usage": {"prompt_tokens": 7}},
        ),
        (
            200,
            {
                "choices": [{"message": {"content": None, "tool_calls": [call]}}],
                "usage": {"prompt_tokens": 9},
            },
        ),
        (200, {"choices": [{"message": {"content": "y" * 100_000, "reasoning": "z" * 100_000}}]}),
        (402, {"error": {"message": "no money"}}),
        (502, "nothing"),
    ]
    with begun(handover, shell):
        for answer in answers:
            assert handover.call(lambda live, one=answer: handover.chat(live, {"answers": one})) == answer
    _, steps = trajectory(handover, shell, tmp_path)
    first, second, long, failed = steps[1:-1]
    assert [(one["message"], one["metrics"]["prompt_tokens"]) for one in (first, second)] == [
        ("x", 7),
        ("", 9),
    ]
    assert first["tool_calls"][0]["arguments"] == second["tool_calls"][0]["arguments"] == {"command": "ls"}
    assert (long["source"], "yyy" in long["message"]) == ("agent", True)
    assert (
        failed["message"] == "[a call of the model failed: 402 no money]\n[a call of the model failed: 502]"
    )


def test_calls_by_clients_of_the_driver_are_steps_at_their_place(tmp_path: Path) -> None:
    handover, shell = Handover(), Shell()
    shell.calls = tmp_path / "calls"
    log, messages, told = CallLog(shell.calls), list[dict[str, str]](), list[list[str]]()

    def ask(question: str) -> None:
        messages.append({"role": "user", "content": question})
        answer = {"role": "assistant", "content": f"answer to {question}"}
        body = json.dumps({"messages": messages}).encode()
        log.write(
            LoggedCall("chat", 200, body=body, answer=json.dumps({"choices": [{"message": answer}]}).encode())
        )
        messages.append(answer)

    for turn in (1, 2):
        shell.lines = []
        with begun(handover, shell):
            ask(f"before {turn}")
            handover.call(lambda live: handover.run(live, "ls", 5))
            ask(f"after {turn}")
        _, (_, *steps, _) = trajectory(handover, shell, tmp_path)
        told.append([step["message"] or step["tool_calls"][0]["function_name"] for step in steps])
    asked = (("before 1", "after 1"), ("before 2", "after 2"))
    assert told == [[one, f"answer to {one}", "exec", two, f"answer to {two}"] for one, two in asked]


def test_a_driver_that_gives_up_is_an_agent_that_crashed(tmp_path: Path) -> None:
    handover, shell = Handover(), Shell()
    with begun(handover, shell) as status:
        handover.gave_up = "ValueError: no idea"
    assert status == [1]
    reading, _ = trajectory(handover, shell, tmp_path)
    assert (reading.ending, reading.message) == (Ending.CRASHED, "ValueError: no idea")


def test_the_clock_stands_still_also_if_it_was_stopped_before_the_work() -> None:
    handover, shell = Handover(), Shell()
    handover.pause()
    with begun(handover, shell):
        shell.pause.assert_called_once()
        handover.resume()
        shell.resume.assert_called_once()


def test_an_agent_hands_over_the_trial_that_is_expected_and_no_other() -> None:
    agent, handover = InteractiveAgent("mine", code="abc"), Handover(patience=7)
    one = trial("count", "mine")
    call = AgentCall(scenario=one.scenario, spec=one.agent, env={}, timeout=5)
    with agent.expecting(one.scenario.benchmark, one.scenario.id, one.agent, 1, handover):
        command = agent.prepare(call)
    assert (command.host, command.patience, command.identity) == (handover.work, 7, "interactive/abc")
    assert handover.statement == one.scenario.problem_statement
    assert agent.endpoints(one.agent, {}, {}) == ()
    other = agent.prepare(call)
    assert other.host is not None
    with pytest.raises(AgentSetupFailed, match="neither is at work"):
        other.host(Shell())  # type: ignore[arg-type]
    spec = AgentSpec(name="mine", model="gpt-5.5", base_url="http://127.0.0.1:1/v1")
    with_model = agent.prepare(AgentCall(scenario=one.scenario, spec=spec, env={}, timeout=5))
    assert (with_model.models, with_model.endpoints[0].wire) == (("gpt-5.5",), "openai")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[tuple[LocalAddress, Any]]:
    import http.server
    import socketserver

    asked: list[tuple[str, dict[str, str], bytes]] = []

    class Gateway(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"data: 1\n\n")
            self.wfile.write(b"data: 2\n\n")

        def address_string(self) -> str:
            return "here"

        def log_message(self, *_: object) -> None:
            pass

    path = tmp_path / "g"
    server = socketserver.ThreadingUnixStreamServer(str(path), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with LocalAddress(path) as address:
        yield address, asked
        server.shutdown()
        server.server_close()


def post(address: LocalAddress, headers: dict[str, str], body: bytes | None = b"{}") -> tuple[int, bytes]:
    port = int(address.url("openai").split(":")[2].partition("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/openai/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "x-goog-api-key"])
def test_a_request_with_the_key_goes_on_without_it(address: tuple[LocalAddress, Any], name: str) -> None:
    local, asked = address
    key = f"Bearer {local.key}" if name == "Authorization" else local.key
    assert post(local, {name: key, "X-Other": "y"}) == (200, b"data: 1\n\ndata: 2\n\n")
    ((path, headers, body),) = asked
    assert (path, body, headers["x-other"]) == ("/openai/v1/chat/completions", b"{}", "y")
    assert local.key not in str(headers)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer guess"}, {"x-api-key": "ä"}])
def test_without_the_key_nothing_goes_on(address: tuple[LocalAddress, Any], headers: dict[str, str]) -> None:
    local, asked = address
    status, said = post(local, {name: value.encode().decode("latin-1") for name, value in headers.items()})
    assert (status, asked) == (401, [])
    assert "key of this trial" in json.loads(said)["error"]["message"]


def test_a_request_of_unknown_length_and_a_gateway_that_is_gone(tmp_path: Path) -> None:
    with LocalAddress(tmp_path / "nothing") as local:
        assert post(local, {"x-api-key": local.key})[0] == 502
        assert post(local, {"x-api-key": local.key, "Content-Length": "9" * 20})[0] == 413
    assert local.url("anthropic").endswith("/anthropic")
