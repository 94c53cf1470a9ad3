"""What was recorded is answered again to the byte, with no endpoint and no key."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.gateway.client import SpendingLimits
from pytest_benchjobs.gateway.record import Recorded, Recording, Replay, safe_name
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.errors import InputError, ResultsUnwritable
from tests.unit.gateways import KEY, Agent, Model, Said, agent, chat_answer, chat_stream, running, wait_until


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Where traffic is recorded; nothing is there yet."""
    return tmp_path / "a" / "records"


def _conversation(one: Agent) -> list[tuple[int, bytes]]:
    said = [
        one.chat(stream=True),
        one.call("/anthropic/v1/messages?beta=true", {"model": "m-1", "messages": ["a"]}),
        one.chat("m-2"),
        one.chat("m-2"),
        one.call("/google/v1beta/models/m-3:generateContent?key=placeholder", {}),
        one.call("/openai/v1/models", method="GET"),
        one.call("/openai/v1/responses", {"model": "m-1"}),
    ]
    return [(answer.status, answer.body) for answer in said]


def test_a_replayed_trial_is_the_same_trial(tmp_path: Path, model: Model, records: Path) -> None:
    anthropic = {
        "type": "message",
        "model": "m-1",
        "usage": {"input_tokens": 5, "output_tokens": 5},
        "é": "\u2028",
    }
    google = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}
    model.says(
        chat_stream(),
        Said(200, json.dumps(anthropic, ensure_ascii=False).encode()),
        chat_answer("m-2", 50, 5),
        Said(400, b'{"error": {"message": "too long"}}'),
        Said(200, json.dumps(google).encode()),
        Said(200, b'{"data": []}'),
        # Over the connection of the calls before (two, if one was not free in time for the next call), and over a new one.
        *[lambda handler: handler.connection.shutdown(socket.SHUT_RDWR)] * 3,
    )
    with (
        running(tmp_path, record=records, patience=0) as gateway,
        agent(gateway, model, "codex_m/count words/1") as one,
    ):
        first = _conversation(one)
        calls = len(model.asked)
        assert calls in (8, 9)
        while not model.script.empty():
            model.script.get()
        model.otherwise = Said(500, b"{}")  # to the gateway's own call
        before = one.route.close()
    assert len(model.asked) == calls + 1
    files = sorted(str(path.relative_to(records)) for path in records.rglob("*.json"))
    assert [Path(name).name for name in files] == [f"{number:04}.json" for number in range(1, 8)]
    assert KEY not in "".join((records / name).read_text() for name in files)

    model.url = "http://127.0.0.1:9"
    with running(tmp_path, replay=records) as gateway:
        for _ in range(2):
            with agent(gateway, model, "codex_m/count words/1", key=None) as one:
                assert _conversation(one) == first
                again = one.route.close()
            assert (again.usage, again.models, again.ending) == (before.usage, before.models, before.ending)
    assert len(model.asked) == calls + 1


def test_a_call_that_was_not_recorded_is_said(tmp_path: Path, model: Model, records: Path) -> None:
    model.says(chat_answer())
    with running(tmp_path, record=records) as gateway, agent(gateway, model, "a/s/1") as one:
        one.chat()
    with running(tmp_path, replay=records) as gateway:
        with agent(gateway, model, "a/s/1") as one:
            assert one.chat().status == 200
            second = one.chat()
            report = one.route.close()
        with agent(gateway, model, "a/s/2") as one:
            assert one.chat().status == 410
    assert second.status == 410
    assert "POST /chat/completions" in second.json["error"]["message"]
    assert report.ending is Ending.ENDPOINT_DOWN
    assert "was recorded" in (report.message or "")


def test_an_answer_that_broke_off_breaks_off_again(tmp_path: Path, model: Model, records: Path) -> None:
    model.says(Said(200, b'{"model": "m-1", ', cut=True))
    reports = []
    for settings in ({"record": records}, {"replay": records}):
        with running(tmp_path, **settings) as gateway, agent(gateway, model) as one:
            with pytest.raises(http.client.IncompleteRead):
                one.chat()
            reports.append(one.route.close())
    assert [report.ending for report in reports] == [Ending.ENDPOINT_DOWN] * 2
    assert reports[0].usage == reports[1].usage


def test_limits_hold_in_a_replay(tmp_path: Path, model: Model, records: Path) -> None:
    model.says(chat_answer(), chat_answer())
    with running(tmp_path, record=records) as gateway, agent(gateway, model) as one:
        assert [one.chat().status for _ in range(2)] == [200, 200]
    with (
        running(tmp_path, replay=records, limits=SpendingLimits(max_calls=1)) as gateway,
        agent(gateway, model) as one,
    ):
        assert [one.chat().status for _ in range(2)] == [200, 402]


def test_secrets_of_the_job_are_not_recorded_wherever_they_are(
    tmp_path: Path, model: Model, records: Path
) -> None:
    secret = "correct horse battery"
    halves = [
        f'data: {{"choices": [], "x": "{secret[:9]}'.encode(),
        f'{secret[9:]}"}}\n\ndata: [DONE]\n\n'.encode(),
    ]
    model.says(Said(200, b"", {"Content-Type": "text/event-stream", "X-Echo": KEY}, chunks=tuple(halves)))
    with (
        running(tmp_path, record=records, secrets={"PASSPHRASE": secret}) as gateway,
        agent(gateway, model) as one,
    ):
        said = one.chat(messages=[{"content": f"it is {secret}, and {KEY}"}])
    assert secret.encode() in said.body
    assert KEY not in str(said.headers)
    [file] = records.rglob("*.json")
    text = file.read_text()
    assert "[redacted:PASSPHRASE]" in text
    assert secret not in text
    assert KEY not in text


def test_a_key_is_not_recorded_however_it_is_escaped_and_a_word_is_no_key(tmp_path: Path) -> None:
    body = rb'{"a": "sk\u002dreal\u002D%30123456789%2dA", "b": "the list is EMPTY, ollama"}'
    secrets = {"a": KEY, "VLLM_API_KEY": "EMPTY", "OPENAI_COMPATIBLE_API_KEY": "ollama"}
    recording = Recording(tmp_path, "t", secrets)
    recording.write(recording.number(), "POST", "/p", body, Recorded(200, {}, (body,), None))
    text = (tmp_path / "t" / "0001.json").read_text()
    assert (text.count("[redacted:a]"), text.count("the list is EMPTY, ollama")) == (2, 2)
    assert "0123" not in text


def test_traffic_that_cannot_be_recorded_is_no_recording(tmp_path: Path, model: Model, records: Path) -> None:
    model.says(chat_answer())
    with running(tmp_path, record=records) as gateway, agent(gateway, model, "a/s/1") as one:
        model.says(chat_answer())
        assert one.chat().status == 200
        shutil.rmtree(records)
        assert one.chat().status == 200
        with pytest.raises(ResultsUnwritable, match="could not be recorded"):
            one.route.close()


def test_a_new_try_replaces_what_was_recorded_of_the_last(tmp_path: Path) -> None:
    answer = Recorded(200, {}, (b"x",), cut=False)
    for size in (3, 1):
        recording = Recording(tmp_path, "a/s/1", {})
        for _ in range(size):
            recording.write(recording.number(), "POST", "/p", b"{}", answer)
    replay = Replay(tmp_path, "a/s/1", {})
    assert replay.answer("POST", "/p", b"{}") == (answer, None)
    assert replay.answer("POST", "/p", b"{}") is None


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=6), st.booleans(), st.integers(200, 599))
def test_every_byte_comes_back(tmp_path_factory: Any, chunks: list[bytes], cut: bool, status: int) -> None:
    directory = tmp_path_factory.mktemp("records")
    answer = Recorded(status, {"content-type": "text/plain"}, tuple(chunks), cut)
    recording = Recording(directory, "t", {"KEY": "some-secret"})
    recording.write(recording.number(), "POST", "/p?q=1", b"\xff not json", answer)
    replay = Replay(directory, "t", {"KEY": "some-secret"})
    assert replay.answer("POST", "/p?q=1", b"\xff not json") == (answer, None)


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_trial_has_a_name_that_leads_elsewhere_or_to_another(first: str, second: str) -> None:
    names = []
    for trial in (first, second):
        try:
            name = safe_name(trial)
        except ValueError:
            assert not trial.strip("/")
            return
        assert not name.startswith("/")
        assert all(part and not part.startswith(".") and len(part) < 140 for part in name.split("/"))
        names.append(name)
    if [part for part in first.split("/") if part] != [part for part in second.split("/") if part]:
        assert names[0] != names[1]


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"request": {}}', b'{"request": {"method": "POST", "path": "/p"}, "response": {}}', b"{"],
)
def test_what_nobody_recorded_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0001.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"0001\.json"):
        Replay(tmp_path, "a", {}).answer("POST", "/p", b"{}")


def test_recording_a_replay_makes_no_sense(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="cannot be recorded while"),
        running(tmp_path, record=tmp_path, replay=tmp_path),
    ):
        pass
    with (
        pytest.raises(InputError, match="no recorded traffic here"),
        running(tmp_path, replay=tmp_path / "missing"),
    ):
        pass


def test_a_place_that_takes_no_records_is_refused(tmp_path: Path, model: Model, records: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match="cannot be recorded here"),
        running(tmp_path, record=tmp_path / "file"),
    ):
        pass
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a").touch()
    with running(tmp_path, record=tmp_path / "records") as gateway, agent(gateway, model, "a/s/1") as one:
        assert one.chat().status == 500
        wait_until(one.route.stop_asked)
        with pytest.raises(ResultsUnwritable, match="could not be recorded"):
            one.route.close()
        assert one.route.close().usage.calls == 0
    assert model.asked == []


def test_a_call_that_was_given_up_keeps_its_place(tmp_path: Path, model: Model, records: Path) -> None:
    waiting, more = threading.Event(), threading.Event()

    def late(handler: Any) -> None:
        waiting.set()
        more.wait(20)

    model.says(late, chat_answer())
    with running(tmp_path, record=records) as gateway, agent(gateway, model) as one:
        connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=20)
        connection.request("POST", "/openai/v1/chat/completions", b'{"model": "m-1"}')
        assert waiting.wait(20)
        connection.close()
        wait_until(lambda: list(records.rglob("0001.json")))
        more.set()
        answer = one.chat()
        counted = one.route.close()
        # It was sent, so somebody pays for it.
        assert (counted.usage.calls, counted.usage.cost_usd, counted.unfinished) == (2, None, 1)
    with running(tmp_path, replay=records) as gateway, agent(gateway, model) as one:
        with pytest.raises(http.client.RemoteDisconnected):
            one.chat()
        assert one.chat().body == answer.body
        assert one.route.close().usage == counted.usage


PASSPHRASE = 'say "correct\thorse" \\ é/battery'


def test_what_is_secret_in_one_trial_is_not_recorded(tmp_path: Path, model: Model, records: Path) -> None:
    # As a tool's arguments are: JSON within JSON.
    arguments = json.dumps({"command": json.dumps({"it": PASSPHRASE})})
    answer = chat_answer()
    call = {"function": {"name": "shell", "arguments": arguments}}
    body = json.dumps({**json.loads(answer.body), "calls": [call], "plain": PASSPHRASE})
    model.says(answer._replace(body=body.encode()))
    secrets = {"PASSPHRASE": PASSPHRASE}
    with (
        running(tmp_path, record=records) as gateway,
        agent(gateway, model, terms={"secrets": secrets}) as one,
    ):
        assert one.chat(messages=[{"content": arguments}]).status == 200
    [file] = records.rglob("*.json")
    record = json.loads(file.read_text())
    assert record["request"]["body"]["messages"] == [
        {"content": '{"command": "{\\"it\\": \\"[redacted:PASSPHRASE]\\"}"}'}
    ]
    assert "correct" not in file.read_text()
    assert "battery" not in file.read_text()


def _asked_again(one: Agent) -> list[int]:
    return [
        one.chat(messages=[{"role": "user", "content": "count the lines"}], user="session-2").status,
        one.chat(messages=[{"role": "user", "content": "count the words"}], user="session-2").status,
    ]


def test_an_answer_to_another_prompt_is_noted_or_refused(tmp_path: Path, model: Model, records: Path) -> None:
    model.otherwise = chat_answer()
    with running(tmp_path, record=records) as gateway, agent(gateway, model) as one:
        for what in ("lines", "bytes"):
            one.chat(messages=[{"role": "user", "content": f"count the {what}"}], user="session-1")
    with running(tmp_path, replay=records) as gateway, agent(gateway, model) as one:
        assert _asked_again(one) == [200, 200]
        assert one.route.close().changed == ("0002.json",)
    with running(tmp_path, replay=records, replay_exact=True) as gateway, agent(gateway, model) as one:
        assert _asked_again(one) == [200, 409]
        report = one.route.close()
    assert report.ending is Ending.ENDPOINT_DOWN
    assert "the request differs from the recorded one in 0002.json" in (report.message or "")
    assert report.usage.calls == 1


def test_each_turn_of_a_trial_has_a_place_of_its_own(tmp_path: Path, model: Model, records: Path) -> None:
    model.otherwise = chat_answer()
    with running(tmp_path, record=records) as gateway, agent(gateway, model, "a/s/1") as one:
        one.chat()
        for turn in (2, 3):
            one.route.close()
            one.route.again()
            again = Agent(one.route, pid=turn)
            wait_until(lambda pid=turn: one.route.pid() == pid)
            again.chat()
        one.route.close()
    files = sorted(path.relative_to(records).as_posix() for path in records.rglob("*.json"))
    assert files == ["a/s/1/0001.json", "a/s/1/turn-2/0001.json", "a/s/1/turn-3/0001.json"]
