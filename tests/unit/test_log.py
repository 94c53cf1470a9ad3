from __future__ import annotations

import base64
import itertools
import json
import tracemalloc
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import DiskFull, ResultsUnwritable
from pytest_benchjobs.store.log import CappedLog
from pytest_benchjobs.system.redact import Redactor, looks_secret

from .examples import at_most

SECRET = "s3cr3t/value+with=signs"
quick = at_most(150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@quick
@given(st.lists(st.binary(max_size=60), max_size=30), st.integers(2, 80), st.integers(0, 100))
def test_a_log_keeps_its_first_and_last_half(
    tmp_path: Path, pieces: list[bytes], limit: int, end: int
) -> None:
    data = b"".join(pieces)
    log = CappedLog(tmp_path / "log", limit=limit)
    for piece in pieces:
        log.write(piece)
    kept = min(end, len(data), len(data) if len(data) <= limit else limit // 2)
    log.close()
    assert log.tail(kept) == data[len(data) - kept :].decode("utf-8", "replace")
    if len(data) <= limit:
        assert log.path.read_bytes() == data
    else:
        head = limit - limit // 2
        marker = b"\n[... %d bytes left out ...]\n" % (len(data) - limit)
        assert log.path.read_bytes() == data[:head] + marker + data[len(data) - limit // 2 :]
        assert log.left_out == len(data) - limit
    assert log.received == len(data)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_the_tail_of_a_closed_log_is_its_end(tmp_path: Path) -> None:
    with CappedLog(tmp_path / "log", limit=100) as log:
        log.write(b"x" * 1000 + "täil".encode())
    assert log.tail(5) == "täil"
    assert log.tail(3) == "\ufffdil"
    log.write(b"too late")
    log.close()
    assert log.tail(2) == "il"
    assert log.tail(10_000).startswith("x" * 50)
    log.path.unlink()
    assert log.tail(2) == ""


def test_a_flood_costs_no_memory(tmp_path: Path) -> None:
    piece = b"x" * 65_536
    tracemalloc.start()
    with CappedLog(tmp_path / "log", limit=2 << 20, redactor=Redactor({"KEY": SECRET})) as log:
        for _ in range(500):
            log.write(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    assert log.received == 500 * 65_536
    assert log.path.stat().st_size < (2 << 20) + 100


def test_a_log_that_cannot_be_written_is_an_infrastructure_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsUnwritable, match="cannot write results"):
        CappedLog(tmp_path / "file" / "log")
    with CappedLog(Path("/dev/full")) as log, pytest.raises(DiskFull, match="no space left"):
        log.write(b"x")


@quick
@given(
    st.lists(
        st.sampled_from(
            [b"text ", SECRET.encode(), b"s3cr", b"other-secret", b"sk-" + b"a" * 30, b"=", b"\xff\n"]
        )
    ),
    st.lists(st.integers(0, 10_000), max_size=40),
)
@example([SECRET.encode()] * 3, list(range(80)))
def test_redaction_does_not_depend_on_where_the_pieces_end(parts: list[bytes], cuts: list[int]) -> None:
    redactor = Redactor({"KEY": SECRET, "OTHER": "other-secret"})
    data = b"".join(parts)
    written: list[bytes] = []
    stream = redactor.stream(written.append)
    for piece in pieces_of(data, cuts):
        stream.write(piece)
    stream.close()
    assert b"".join(written) == redactor.redact(data)
    assert SECRET.encode() not in b"".join(written)


@given(st.text(min_size=6, max_size=40), st.text(max_size=5), st.text(max_size=5))
def test_no_usual_form_of_a_secret_survives(secret: str, before: str, after: str) -> None:
    redactor = Redactor({"PASSWORD": secret}, patterns=())
    whole = secret.encode()
    for form in (
        secret,
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
        json.dumps(secret)[1:-1],
        base64.b64encode(whole).decode(),
        base64.urlsafe_b64encode(whole).decode(),
    ):
        if len(secret.strip().encode()) >= 6:
            assert form not in redactor.redact_text(before + form + after).replace(
                "[redacted:PASSWORD]", "\0"
            )


def test_a_secret_inside_base64_of_something_longer_is_found() -> None:
    redactor = Redactor({"KEY": SECRET}, patterns=())
    for user in ("u", "us", "use"):
        encoded = base64.b64encode(f"{user}:{SECRET}@host".encode()).decode()
        assert "[redacted:KEY]" in redactor.redact_text(encoded)


def test_each_line_of_a_long_key_is_redacted() -> None:
    redactor = Redactor({"PEM": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----\n"})
    assert redactor.redact_text("got MIIEvQIBADANBgkqhkiG\r\n") == "got [redacted:PEM]\r\n"


def test_short_values_are_left_alone_and_known_key_formats_are_not() -> None:
    redactor = Redactor({"DEBUG": "true", "EMPTY": ""})
    assert redactor.redact_text("true sk-" + "x" * 24) == "true [redacted:api-key]"


def test_a_secret_never_reaches_the_log_file(tmp_path: Path) -> None:
    with CappedLog(tmp_path / "log", redactor=Redactor({"KEY": SECRET})) as log:
        for byte in f"before {SECRET} after".encode():
            log.write(bytes([byte]))
    assert log.path.read_text() == "before [redacted:KEY] after"


def test_names_of_secrets_are_recognised() -> None:
    names = (
        "OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PATH", "KEYBOARD", "MONKEY",
        "AUTHOR",
    )  # fmt: skip
    assert [looks_secret(name, "a value") for name in names] == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("MAX_TOKENS", "200000", False),
        ("MAX_TOKENS_TO_SAMPLE", "200000", False),
        ("MAX_TOKENS", "12345678901234567890", True),
        ("MAX_TOKENS", "of-whom", True),
        ("API_TOKENS", "sk-1,sk-2", True),
        ("AUTH_TOKENS", "200000", True),
        ("BOT_TOKEN", "200000", True),
        ("PIN_SECRET", "123456", True),
        ("SORT_KEY", "12345", False),
        ("SORT_KEY", "1e5", True),
        ("USE_API_KEY", "true", False),
        ("USE_API_KEY", "", True),
    ],
)
def test_a_switch_or_a_number_is_no_secret_unless_it_could_be_one(
    name: str, value: str, secret: bool
) -> None:
    assert looks_secret(name, value) is secret
