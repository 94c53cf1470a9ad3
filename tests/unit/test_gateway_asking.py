"""An endpoint is asked as often as it helps, and what it says is fit to be passed on."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
import yarl
from multidict import CIMultiDict

from pytest_benchjobs.gateway import retrying
from pytest_benchjobs.gateway.client import Upstream
from pytest_benchjobs.gateway.connections import BrokenOff, Connections
from pytest_benchjobs.gateway.job import Job
from pytest_benchjobs.gateway.rates import Rate
from pytest_benchjobs.gateway.retrying import Answer, Asking, Cut
from pytest_benchjobs.gateway.wires import recognise
from pytest_benchjobs.model.ending import Ending
from pytest_benchjobs.model.endpoint import Endpoint

from .clocks import Clock
from .gateways import JOB, KEY

CHAT = "/openai/v1/chat/completions"
GOOD = b'{"choices": [{}]}'
STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of a loop and of everything else, which passes while somebody sleeps."""
    clock = Clock(1000.0)

    async def sleep(seconds: float) -> None:
        clock.sleep(seconds)

    monkeypatch.setattr(retrying, "time", SimpleNamespace(time=clock.monotonic, monotonic=clock.monotonic))
    monkeypatch.setattr(retrying.asyncio, "sleep", sleep)
    monkeypatch.setattr(retrying.random, "uniform", lambda least, most: most)
    return clock


class Sent:
    """An answer, in pieces. `broken`: with what it breaks off then."""

    def __init__(
        self,
        status: int = 200,
        *pieces: bytes,
        headers: Mapping[str, str] | None = None,
        broken: Exception | None = None,
    ) -> None:
        self.status = status
        self.headers = CIMultiDict(headers or {})
        self.content_length = sum(map(len, pieces))
        self.given = pieces
        self.pieces: list[bytes] = []
        self.broken = broken
        self.content = self
        self.closed = self.read = 0

    async def readany(self) -> bytes:
        if self.pieces:
            self.read += 1
            return self.pieces.pop(0)
        if self.broken is not None:
            raise self.broken
        return b""

    def close(self) -> None:
        self.closed += 1


class Fails:
    """No answer: the error, and after how many seconds; whether the endpoint had begun to get the request."""

    def __init__(self, error: Exception, seconds: float = 0, *, sent: bool = True) -> None:
        self.error, self.seconds, self.sent = error, seconds, sent


class Script:
    """Connections to an endpoint that says this."""

    def __init__(self, clock: Clock, *says: Sent | Fails) -> None:
        self._clock = clock
        self._says = [*says]
        self.asked: list[tuple[str, yarl.URL, bytes, CIMultiDict[str], str | None]] = []

    async def request(
        self,
        method: str,
        url: yarl.URL,
        content: bytes,
        headers: CIMultiDict[str],
        on_sent: Callable[[bool], None],
        proxy: str | None,
    ) -> Sent:
        self.asked.append((method, url, content, headers, proxy))
        said = self._says.pop(0) if len(self._says) > 1 else self._says[0]
        if isinstance(said, Sent):
            on_sent(True)
            said.pieces = [*said.given]
            return said
        if said.sent:
            on_sent(True)
        self._clock.now += said.seconds
        raise said.error


def asking(script: Script, job: Job, path: str = CHAT, **given: Any) -> Asking:
    call = recognise(given.get("method", "POST"), path)
    assert call is not None
    endpoint = Endpoint(
        wire=call.wire, provider="openai", base_url=given.get("url", "http://127.0.0.1:9/v1/")
    )
    headers = CIMultiDict(given.get("headers", {}))
    return Asking(job, cast("Connections", script), Upstream(endpoint, given.get("key", KEY)), call, headers)


def run(clock: Clock, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def timed() -> None:
        asyncio.get_running_loop().time = clock.monotonic  # type: ignore[method-assign]
        await scenario()

    asyncio.run(timed())


def answer_to(clock: Clock, *says: Sent | Fails, **given: Any) -> tuple[Answer, Asking, Script]:
    """What is answered without patience."""
    script = Script(clock, *says)
    found: list[Any] = []

    async def ask() -> None:
        one = asking(script, Job(JOB), **given)
        found.extend((await one.answer(b"{}", patient=False), one))

    run(clock, ask)
    return found[0], found[1], script


async def _whole(answer: Answer) -> tuple[bytes, str | None]:
    """The bytes of an answer, and why there are no more."""
    content = b""
    try:
        async for chunk in answer.chunks:
            content += chunk
    except Cut as cut:
        return content, str(cut)
    return content, None


def whole(answer: Answer) -> tuple[bytes, str | None]:
    return asyncio.run(_whole(answer))


# --- patience --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("says", [Sent(503), Fails(aiohttp.ServerDisconnectedError("gone"))])
def test_pauses_double_until_patience_is_used_up(clock: Clock, says: Sent | Fails) -> None:
    script = Script(clock, says)

    async def ask() -> None:
        answer = await asking(script, Job({**JOB, "patience": 60})).answer(b"{}", patient=True)
        assert answer.failure is not None
        assert answer.failure.ending is Ending.ENDPOINT_DOWN

    run(clock, ask)
    assert clock.pauses == [0.25, 0.5, 1, 2, 4, *[8] * 6, 4.25]
    assert len(script.asked) == 13


def test_an_endpoint_that_wants_a_pause_gets_it_from_all_whose_patience_does_not_run_meanwhile(
    clock: Clock,
) -> None:
    async def ask() -> None:
        job = Job({**JOB, "patience": 10})
        rate = job.rates._rates["openai"] = Rate(None, None, clock.monotonic)
        refuses = Script(clock, Sent(429, headers={"Retry-After": "7200"}))
        await asking(refuses, job).answer(b"{}", patient=True)
        assert clock.pauses == [10]
        rate.pause(3600)
        recovers = Script(clock, Sent(529), Sent(429, headers={"Retry-After": "1.5"}), Sent(200, GOOD))
        one = asking(recovers, job)
        assert (await one.answer(b"{}", patient=True)).failure is None
        assert clock.pauses == [10, 3600, 0.25, 1.5]
        assert one.kept() == 0
        rate.pause(90)
        await asking(Script(clock, Sent(200, GOOD)), job).answer(b"{}", patient=False)
        assert clock.pauses == [10, 3600, 0.25, 1.5, 90]

    run(clock, ask)


def test_how_long_a_call_was_kept_back_is_known_when_it_is_given_up(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def given_up(seconds: float) -> None:
        clock.sleep(7)
        raise asyncio.CancelledError

    async def ask() -> None:
        job = Job(JOB)
        rate = job.rates._rates["openai"] = Rate(None, None, clock.monotonic)
        rate.pause(90)
        one = asking(Script(clock, Sent(200, GOOD)), job)
        monkeypatch.setattr(retrying.asyncio, "sleep", given_up)
        with pytest.raises(asyncio.CancelledError):
            await one.answer(b"{}", patient=True)
        assert (one.kept(), one.failure) == (7, None)

    run(clock, ask)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (429, {"Retry-After": "0"}, b"{}"),
        (429, {"Retry-After": "-1"}, b"{}"),
        (503, {"Retry-After": "0.0"}, b"{}"),
        (429, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, b"{}"),
        (429, {"Retry-After-Ms": "0"}, b"{}"),
        (429, {}, b'{"error": {"details": [{"retryDelay": "0s"}]}}'),
        (429, {}, b'{"error": {"details": [{"retryDelay": "0.000001s"}]}}'),
    ],
)
def test_no_endpoint_gets_a_flood_of_calls_whatever_it_tells(
    clock: Clock, status: int, headers: dict[str, str], body: bytes
) -> None:
    script = Script(clock, Sent(status, body, headers=headers))

    async def ask() -> None:
        job = Job({**JOB, "patience": 5})
        job.rates._rates["openai"] = Rate(None, None, clock.monotonic)
        await asking(script, job).answer(b"{}", patient=True)

    run(clock, ask)
    assert clock.pauses == [0.25, 0.5, 1, 1, 1, 1, 0.25]


def test_who_waits_for_its_turn_has_its_patience_left(clock: Clock) -> None:
    async def ask() -> None:
        job = Job({**JOB, "patience": 10})
        job.rates._rates["openai"] = Rate(1, None, clock.monotonic)
        lists = asking(Script(clock, Sent(200, b"[]")), job, "/openai/v1/models", method="GET")
        for _ in range(2):  # costs nothing, and needs no turn
            await lists.answer(b"", patient=True)
        assert clock.pauses == []
        one = asking(Script(clock, Sent(503), Sent(200, GOOD)), job)
        await one.answer(b"{}", patient=True)
        assert clock.pauses == pytest.approx([0.25, 59.75])
        other = asking(Script(clock, Sent(503), Sent(200, GOOD)), job)
        answer = await other.answer(b"{}", patient=True)
        assert answer.failure is None
        assert clock.pauses[2:] == pytest.approx([60, 0.25, 59.75])

    run(clock, ask)


# --- what was sent ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fails", "unanswered"),
    [
        (Fails(aiohttp.ClientOSError("reset"), 2.0), 0),
        (Fails(aiohttp.ClientOSError("reset"), 2.01), 1),
        (Fails(TimeoutError("slow")), 1),
        (Fails(BrokenOff("half")), 1),
        (Fails(TimeoutError("slow"), sent=False), 0),
        (Fails(OSError("refused"), sent=False), 0),
        (Fails(ValueError("no address"), sent=False), 0),
    ],
)
def test_what_an_endpoint_may_have_worked_on_is_counted(clock: Clock, fails: Fails, unanswered: int) -> None:
    answer, one, _ = answer_to(clock, fails)
    assert (one.unanswered, one.sent, one.silent()) == (unanswered, False, 0)
    assert answer.status == 502
    assert answer.failure is not None
    assert answer.failure.message == f"no answer: {fails.error}"
    assert answer.failure.again is not isinstance(fails.error, ValueError)
    assert whole(answer) == (b"", None)


@pytest.mark.parametrize(
    ("status", "refused"), [(200, False), (299, False), (300, True), (400, True), (500, True)]
)
def test_a_request_was_taken_unless_it_was_refused(clock: Clock, status: int, refused: bool) -> None:
    sent = Sent(status, GOOD)
    answer, one, _ = answer_to(clock, sent)
    assert (one.sent, answer.failure is None, sent.closed) == (not refused, not refused, int(refused))
    assert whole(answer) == (GOOD, None)
    assert answer.length == len(GOOD)
    answer.close()
    assert sent.closed == 1


# --- what is said ----------------------------------------------------------------------------------------------------


def test_of_headers_none_passes_that_is_between_two_machines_or_holds_the_key(clock: Clock) -> None:
    given = {
        "X-Id": "1", "X-Echo": f"it is {KEY}", "Connection": "close, X-Hop", "X-Hop": "1", "Keep-Alive": "5",
        "Content-Length": "9", "Set-Cookie": "a=b", "Content-Type": "text/plain", "Alt-Svc": "x",
    }  # fmt: skip
    for status in (200, 400):
        answer, _, _ = answer_to(clock, Sent(status, GOOD, headers=given))
        assert answer.headers == {"x-id": "1", "content-type": "text/plain"}
    answer, _, _ = answer_to(clock, Sent(200, GOOD, headers={"X-Id": "1"}), key=None)
    assert answer.headers == {"x-id": "1"}


def test_the_key_is_in_nothing_that_is_passed_on(clock: Clock) -> None:
    hidden = b"*" * len(KEY)
    quoting = f'{{"choices": [{{}}], "x": "{KEY}"}}'.encode()
    for status in (200, 400):
        answer, _, _ = answer_to(clock, Sent(status, quoting))
        assert whole(answer) == (quoting.replace(KEY.encode(), hidden), None)
    broken = Sent(200, b'{"x": ', KEY.encode(), broken=aiohttp.ClientPayloadError("short"))
    assert whole(answer_to(clock, broken)[0])[0].endswith(hidden)
    answer, _, _ = answer_to(
        clock, Sent(200, b'data: {"error": {"code": 502, "message": "%b"}}\n\n' % KEY.encode())
    )
    assert answer.failure is not None
    assert KEY not in answer.failure.message + str(whole(answer))
    event = f"data: {KEY[:5]} {KEY}{KEY} {KEY[:9]}".encode()
    for at in range(1, len(event)):
        for pieces in ((event[:at], event[at:]), (event[:at], event[at : at + 1], event[at + 1 :])):
            answer, _, _ = answer_to(clock, Sent(200, *pieces, headers=STREAM))
            assert whole(answer) == (event.replace(KEY.encode(), hidden), None)


_64 = {
    shift: base64.b64encode(b"\0" * shift + KEY.encode() + b"\0" * 3)[
        -(-shift * 8 // 6) : (shift + len(KEY)) * 8 // 6
    ]
    for shift in range(3)
}
FORMS = {
    "plain": KEY.encode(),
    **{f"base64 after {shift}": form for shift, form in _64.items()},
    "percent": KEY.replace("-", "%2D").encode(),
    "percent all": b"".join(b"%%%02x" % byte for byte in KEY.encode()),
    "JSON all": "".join(f"\\u{ord(char):04x}" for char in KEY).encode(),
    "JSON some": KEY.replace("-", "\\u002D").encode(),
    "JSON in JSON": KEY.replace("s", "\\\\u0073").encode(),
    "HTML": KEY.replace("-", "&#45;").replace("A", "&#x41;").encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_errors_and_headers_have_the_key_in_no_form(form: str, clock: Clock) -> None:
    said = FORMS[form]
    headers = {"X-Debug": f"a {said.decode()} b", "X-Other": "c"}
    answer, _, _ = answer_to(clock, Sent(400, b"<" + said[:5], said[5:] + b">", headers=headers))
    assert whole(answer)[0] == b"<" + b"*" * len(said) + b">"
    assert answer.failure is not None
    assert "*****" in answer.failure.message
    rubbish, _, _ = answer_to(clock, Sent(200, b"<html>" + said))
    assert rubbish.failure is not None
    assert rubbish.failure.message.endswith(f"<html>{'*' * len(said)}")
    for one in (answer, answer_to(clock, Sent(200, GOOD, headers=headers))[0]):
        assert [name for name in one.headers if name.startswith("x-")] == ["x-other"]


WORDS = ("EMPTY", "none", "dummy", "ollama", "lm-studio", "sk-1234", "token-abc123", "not-needed", "x9#")


@pytest.mark.parametrize("key", [*WORDS, "my-local-test-server-key", "sk-0a1b2c3d4e5f"])
def test_what_a_model_says_stays_unless_it_is_a_whole_long_and_random_key(key: str, clock: Clock) -> None:
    words = f"the list is {key}; none of {key}s".encode()
    said = json.dumps({"choices": [{"message": {"content": words.decode()}}]}).encode()
    assert whole(answer_to(clock, Sent(200, said), key=key)[0])[0] == said
    for at in range(len(words)):
        answer, _, _ = answer_to(clock, Sent(200, words[:at] or b"d", words[at:], headers=STREAM), key=key)
        assert whole(answer)[0].endswith(words)
    answer, _, _ = answer_to(clock, Sent(400, words, headers={"X-A": key}), key=key)
    assert (whole(answer)[0] == words, "x-a" in answer.headers) == ((key in WORDS,) * 2)


@pytest.mark.parametrize(
    ("headers", "length"),
    [({}, 6), ({"Content-Encoding": "identity"}, 6), ({"Content-Encoding": "gzip"}, None)],
)
def test_what_costs_nothing_is_passed_on_as_it_comes(
    clock: Clock, headers: dict[str, str], length: int | None
) -> None:
    sent = Sent(200, b"one", b"two", headers=headers)
    answer, _, _ = answer_to(clock, sent, path="/openai/v1/models", method="GET")
    assert (answer.length, answer.failure, sent.read) == (length, None, 1)
    assert whole(answer) == (b"onetwo", None)


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_is_read_up_to_the_longest_there_is(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    monkeypatch.setattr(retrying, "LONGEST_ANSWER", len(GOOD) - more)
    sent = Sent(200, GOOD, b" ", b" ")
    answer_to(clock, sent)
    assert sent.read == (1 if more else 2)


def test_of_an_error_as_much_is_read_as_anybody_needs(clock: Clock) -> None:
    block = b"x" * (1 << 19)
    sent = Sent(400, block, block, block, b"never")
    answer, _, _ = answer_to(clock, sent)
    # The rest of a key may follow.
    assert (sent.read, answer.length) == (3, 1 << 20)
    answer, _, _ = answer_to(clock, Sent(400, block + b"y", block + b"z"))
    assert whole(answer)[0] == (block + b"y" + block)[: 1 << 20]
