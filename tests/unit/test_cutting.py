"""Wherever a text of others is cut before it is redacted, nothing is left of a secret that the cut goes through."""

from __future__ import annotations

import base64
import io
import json
import random
import string
import tarfile
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pytest_benchjobs.agents import completion
from pytest_benchjobs.agents.reading import trajectory
from pytest_benchjobs.agents.reading.values import bounded
from pytest_benchjobs.gateway import failures, meter
from pytest_benchjobs.gateway.wires import Kind
from pytest_benchjobs.model.errors import EngineError
from pytest_benchjobs.model.scenario import Feedback, HealthCheck, ScorerSpec
from pytest_benchjobs.sandbox.archive import unpack
from pytest_benchjobs.sandbox.bubblewrap import sandbox as bubblewrap
from pytest_benchjobs.sandbox.docker.calling import Refusal
from pytest_benchjobs.sandbox.docker.compose import services
from pytest_benchjobs.sandbox.docker.running import Held
from pytest_benchjobs.sandbox.entrypoint import Entrypoint
from pytest_benchjobs.sandbox.protocol import ExecResult
from pytest_benchjobs.scoring import protocol, scores
from pytest_benchjobs.scoring.bigcodebench import scorer as bigcodebench
from pytest_benchjobs.scoring.builtin import score_bash, score_command
from pytest_benchjobs.scoring.grade import failure
from pytest_benchjobs.scoring.output import Statements, Tail
from pytest_benchjobs.scoring.result_file import score_result_file
from pytest_benchjobs.scoring.swebench import pro
from pytest_benchjobs.scoring.wheels import _why
from pytest_benchjobs.store.text import clean, cut, one_line, plain
from pytest_benchjobs.system import cutting
from pytest_benchjobs.system.cutting import HeadSink, TailSink, beginning_of, end_of, know_secrets, last_line
from pytest_benchjobs.system.redact import Redactor
from pytest_benchjobs.trial import fresh
from pytest_benchjobs.trial.agent_programs import ids_of
from pytest_benchjobs.trial.context import TrialContext
from pytest_benchjobs.trial.end_agent import Ended, _listed
from pytest_benchjobs.trial.run_agent import copy_skills
from pytest_benchjobs.trial.sandboxes import Setup
from pytest_benchjobs.trial.turns import statement_of

SPEC = ScorerSpec(name="s", type="bash", script="x", command="x")
START, END, MIDDLE = "start", "end", "middle"


class Machine:
    """A sandbox in which each command prints a text and fails."""

    workdir, user, variables = "/app", None, {}

    def __init__(self, text: str, status: int = 3) -> None:
        self.text, self.status = text.encode(), status

    def exec(self, argv: object, *, sink: Callable[[bytes], object], **_: object) -> ExecResult:
        for at in range(0, len(self.text), 70):
            sink(self.text[at : at + 70])
        return ExecResult(self.status, timed_out=False, seconds=1)

    def run(self, argv: object, *, stderr: Callable[[bytes], object], **_: object) -> int:
        return self.exec(argv, sink=stderr).exit_status or 0

    def refused(self) -> list[str]:
        return [self.text.decode()]

    def put(self, files: object) -> None: ...

    def read(self, path: str, limit: int) -> bytes | None:
        return self.text if path.endswith("metrics.json") else None


def _scoring(text: str, status: int = 3) -> Any:
    return SimpleNamespace(
        spec=SPEC,
        sandbox=Machine(text),
        printed=[text],
        empty=lambda path: None,
        run=lambda *_, **__: (ExecResult(status, timed_out=False, seconds=1), text),
    )


def _trial() -> Any:
    return SimpleNamespace(
        cancellation=SimpleNamespace(check=lambda: None),
        limits=SimpleNamespace(setup_timeout=1),
        config=SimpleNamespace(timeout_multiplier=1),
        findings=SimpleNamespace(notes=[]),
        access=SimpleNamespace(network="allowlist"),
        note_refused=lambda *_: (),
        phases=SimpleNamespace(enter=lambda _: None),
    )


def _setup(machine: Machine) -> Setup:
    scenario = SimpleNamespace(environment=SimpleNamespace(access=lambda: None))
    return Setup(_trial(), machine, scenario)  # type: ignore[arg-type]


def _noted(text: str) -> object:
    context = SimpleNamespace(findings=SimpleNamespace(notes=[]))
    TrialContext.note(context, "so", EngineError(text))  # type: ignore[arg-type]
    return context.findings.notes


def _refused(text: str) -> object:
    return TrialContext.note_refused(_trial(), Machine(text), "agent")  # type: ignore[arg-type]


def _sunk(sink: Any, text: str, said: Callable[[Any], object], step: int = 19) -> object:
    for at in range(0, len(text), step):
        sink(text[at : at + step].encode())
    return said(sink)


def _held(text: str) -> object:
    held = Held(lambda _: None, None)
    held.sink(text.encode())
    return held.text


def _result_file(text: str) -> object:
    spec = SPEC.model_copy(update={"type": "result_file", "params": {"file": "x"}})
    context = _scoring(text)
    context.spec = spec
    return score_result_file(context)


def _entrypoint(text: str) -> object:
    environment = SimpleNamespace(setup_timeout=1)
    return Entrypoint(Machine(text), ("x",), environment, has_first=False).start(lambda: None)  # type: ignore[arg-type]


def _name_of_artifact(text: str) -> object:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(f"top/{text}"))
    data.seek(0)
    with tarfile.open(fileobj=data) as tar:
        return unpack(tar, Path("/nowhere"), limit=1).notes


def _skills(text: str) -> None:
    there = SimpleNamespace(skills_dir="/skills", skills_if_there=None)
    copy_skills(Machine(text, 1), there, "/x", None)  # type: ignore[arg-type]


def _message(text: str) -> str:
    with mock.patch.object(trajectory, "TEXT_LIMIT", 300):
        message = trajectory._Text()
        for at in range(0, len(text), 3):
            message.add(text[at : at + 3])
        return message.text()


def _leftover(text: str) -> object:
    return Ended(leftovers=_listed([text]), killed=_listed([text])).notes


def _verdict(tests: Mapping[str, str] | None = None, reason: str | None = None) -> Any:
    verdict = {"status": "fail", "tests": tests or {}, "reason": reason}
    return bigcodebench._graded(verdict).output if tests else bigcodebench._graded(verdict)


def _removal(text: str) -> None:
    copies = fresh.Copies()
    copies.gone = ("x",)
    copies.deliver(Machine(text))  # type: ignore[arg-type]


def _wheels(text: str) -> str:
    python = SimpleNamespace(version="3", platforms="x")
    return _why(text, ("a",), python)  # type: ignore[arg-type]


PLACES: dict[str, tuple[str, int, Callable[[str], object]]] = {
    "beginning": (START, 100, lambda text: beginning_of(text, 100)),
    "beginning of bytes": (START, 100, lambda text: beginning_of(text.encode(), 100)),
    "end": (END, 100, lambda text: end_of(text, 100)),
    "end of bytes": (END, 100, lambda text: end_of(text.encode(), 100)),
    "last line": (START, 100, lambda text: last_line(f"a\n{text}\n", 100)),
    "first bytes": (START, 100, lambda text: _sunk(HeadSink(100), text, HeadSink.text)),
    "last bytes": (END, 100, lambda text: _sunk(TailSink(100), text, TailSink.raw)),
    "end of an output": (END, 100, lambda text: _sunk(Tail(100), text, Tail.text)),
    "statements": (END, 200, lambda text: _sunk(Statements(400), text, Statements.text, 9999)),
    "cut": (MIDDLE, 300, lambda text: cut(text, 300)),
    "clean": (MIDDLE, 300, lambda text: clean(f"\x1b[1m{text}", 300)),
    "one line": (MIDDLE, 300, lambda text: one_line(f" {text} ", 300)),
    "details": (MIDDLE, 300, lambda text: plain({"a": [text]}, 300)),
    "events of an agent": (MIDDLE, 300, lambda text: bounded({"a": [text] * 4}, 300)),
    "a message in pieces": (START, 600, _message),
    "a failure": (MIDDLE, 4000, lambda text: failure(EngineError(text), None).message),
    "a note": (MIDDLE, 300, _noted),
    "what was refused": (MIDDLE, 500, _refused),
    "processes": (MIDDLE, 60, _leftover),
    "bash": (END, 600, lambda text: score_bash(_scoring(text))),
    "command": (END, 300, lambda text: score_command(_scoring(text, 127))),
    "result_file": (END, 600, _result_file),
    "no score": (START, 200, lambda text: scores.parse_score(text, "it")),
    "no reward": (START, 200, lambda text: scores.parse_reward(None, None, f"a\n{text}")),
    "reward.txt": (START, 100, lambda text: scores.parse_reward(None, text)),
    "reward.json": (START, 100, lambda text: scores.parse_reward(json.dumps({text: "x"}), None)),
    "rewards": (START, 100, lambda text: scores.parse_reward(json.dumps({text: 0.5}), None).details),
    "killed": (START, 200, lambda text: protocol._last(text)),
    "tests of BigCodeBench": (END, 1500, lambda text: _verdict(tests={"t": text})),
    "reason of BigCodeBench": (START, 1500, lambda text: _verdict(reason=text).output),
    "details of BigCodeBench": (MIDDLE, 500, lambda text: _verdict(reason=text).details),
    "SWE-bench Pro": (END, 300, lambda text: pro._passed(_scoring(text))),
    "wheels": (END, 600, _wheels),
    "set-up": (END, 1000, lambda text: _setup(Machine(text)).step("x", None)),
    "command of set-up": (START, 200, lambda text: _setup(Machine("")).step(text, None)),
    "health check": (
        END, 1000,
        lambda text: _setup(Machine(text)).wait_until_healthy(HealthCheck(command="x", retries=1, start_period=0)),
    ),
    "skills": (END, 1000, _skills),
    "ids": (END, 200, lambda text: ids_of(Machine(text), "u")),  # type: ignore[arg-type]
    "git": (END, 300, lambda text: fresh.ignored_by_git(Machine(text), "/app", [b"x"])),  # type: ignore[arg-type]
    "removal": (END, 500, _removal),
    "feedback": (END, 300, lambda text: statement_of(Feedback(statement="{output}", characters=300), "p", text)),
    "services": (END, 1000, lambda text: services._line(text)),
    "ENTRYPOINT": (END, 1000, _entrypoint),
    "engine": (START, 500, lambda text: str(Refusal(None, 500, text))),  # type: ignore[arg-type]
    "command that did not start": (START, 2000, _held),
    "bubblewrap": (
        START, 500,
        lambda text: bubblewrap._never_started(text.encode(), ExecResult(1, timed_out=False, seconds=1)),
    ),
    "names of artifacts": (START, 100, lambda text: _name_of_artifact(text + "x" * 800)),
    "errors of endpoints": (MIDDLE, 300, lambda text: failures.of_response(500, {}, text.encode(), 0).message),
    "errors in streams": (MIDDLE, 300, lambda text: failures.of_event({"message": text}, 0).message),
    "no answers": (START, 200, lambda text: meter.flaw(Kind.CHAT, text.encode())),
    "answers to our agent": (START, 300, lambda text: completion._error(text)),
}  # fmt: skip


def _forms(key: str) -> Iterator[tuple[str, int]]:
    """Yield what a key may look like, and how many characters in a row hold five of it."""
    yield key, 5
    yield urllib.parse.quote(key, safe=""), 7
    yield json.dumps(json.dumps(key))[3:-3], 5
    for shift in range(3):
        whole = base64.b64encode(b"x" * shift + key.encode() + b"x" * (-(shift + len(key)) % 3))
        yield whole[-(-shift * 8 // 6) : (shift + len(key)) * 8 // 6].decode(), 8


def _cut_texts(form: str, side: str, limit: int) -> Iterator[str]:
    """Yield texts which are cut at each place of a form."""
    pad, far = "lorem, ipsum. " * (limit // 14 + 20), "dolor. " * (limit // 7 + 40)
    if side == MIDDLE:
        # Marks and what is around a text take some of the room.
        yield from (f"{pad[: max(0, limit // 2 - at)]}{form}{far}" for at in range(-3, len(form) + 45))
        yield from (f"{far}{form}{pad[: max(0, limit // 2 - at)]}" for at in range(-3, len(form) + 45))
    for at in range(-3, len(form) + 3):
        yield f"{pad[: limit - at]}{form}{far}" if side == START else f"{far}{form}{pad[: limit - at]}"


def _said(place: Callable[[str], object], text: str) -> str:
    try:
        found = place(text)
    except Exception as error:
        found = error
    return found.decode() if isinstance(found, bytes) else str(found)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("keys", [1, pytest.param(200, marks=pytest.mark.extended)])
def test_no_more_than_four_characters_of_a_key_are_left(
    place: str, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, limit, function = PLACES[place]
    for number in range(keys):
        letters = string.hexdigits[:16] if number % 3 == 2 else string.ascii_letters + string.digits
        key = random.choice(("", "sk-", "tok_")) + "".join(
            random.choices(letters, k=random.choice((24, 40, 64)))
        )
        monkeypatch.setattr(cutting, "_redactor", Redactor({"K": key}))
        redactor = Redactor({"K": key}, patterns=())
        form, width = [*_forms(key)][number % 6]
        parts = {form[at : at + width] for at in range(len(form) - width + 1)}
        seen = set()
        for text in _cut_texts(form, side, limit):
            said = _said(function, text)
            left = redactor.redact_text(said)
            seen.add(left == said)
            assert not any(part in left for part in parts), (key, form, text)
        assert True in seen, "it was nowhere cut"
        assert False in seen or len(form) > limit // 2 - 2, "it is never there"


def test_no_line_is_left_of_a_key_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "".join(random.choices(string.hexdigits[:16], k=128))
    monkeypatch.setattr(cutting, "_redactor", Redactor({"K": key}))
    lines = base64.encodebytes(key.encode()).decode()
    parts = [lines[at : at + 8] for at in range(len(lines) - 8) if "\n" not in lines[at : at + 8]]
    for after in range(250):
        text = f"{'x' * 40}\n" * 20 + lines + "y" * after
        for said in (_sunk(Statements(250), text, Statements.text), last_line(text, 200)):
            assert not any(part in Redactor({"K": key}).redact_text(str(said)) for part in parts)


def test_every_secret_of_a_trial_is_known_wherever_something_is_cut() -> None:
    know_secrets(["kept-by-another-trial-7f3a", "short"])
    assert beginning_of("key: kept-by-another-trial-7f3a", 20) == "key: "
    assert end_of("kept-by-another-trial-7f3a, too", 20) == ", too"
    assert beginning_of("a short text", 4) == "a sh"
