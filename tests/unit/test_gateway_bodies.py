"""Bodies are decompressed and parsed where they hold up nobody, and refused in the agent's own wire."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

import pytest

from pytest_benchjobs.gateway import bodies
from pytest_benchjobs.gateway.allowed import Allowed
from pytest_benchjobs.gateway.bodies import Bodies, unpacked
from pytest_benchjobs.gateway.client import Gateway
from pytest_benchjobs.gateway.outgoing import Outgoing
from pytest_benchjobs.gateway.provider_tools import EVERY_TOOL
from pytest_benchjobs.gateway.wires import TooLarge, Unsendable, recognise

from .gateways import Model, agent

PLAIN = b'{"model": "m-1", "messages": []}'
CALL = recognise("POST", "/openai/v1/chat/completions")
RAW = zlib.compressobj(wbits=-zlib.MAX_WBITS)
RAW_DEFLATE = RAW.compress(PLAIN) + RAW.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", PLAIN),
        ("identity", PLAIN),
        ("gzip", gzip.compress(PLAIN)),
        ("x-gzip", gzip.compress(PLAIN)),
        ("gzip", gzip.compress(PLAIN[:9]) + gzip.compress(PLAIN[9:])),
        ("deflate", zlib.compress(PLAIN)),
        ("deflate", RAW_DEFLATE),
    ],
    ids=range(7),
)
def test_a_body_is_what_it_was(encoding: str, body: bytes) -> None:
    assert unpacked(body, encoding, len(PLAIN)) == PLAIN
    with pytest.raises(TooLarge):
        unpacked(body, encoding, len(PLAIN) - 1)


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [
        ("gzip", PLAIN, "is not gzip"),
        ("gzip", gzip.compress(PLAIN)[:-9], "ends before its gzip does"),
        ("gzip", gzip.compress(PLAIN) + b"more", "is not gzip"),
        ("deflate", gzip.compress(PLAIN), "is not deflate"),
        ("zstd", b"(\xb5/\xfd", "compressed as 'zstd'; send it as it is, or as gzip"),
        ("br", b"\x0b", "compressed as 'br'"),
        ("gzip, gzip", gzip.compress(gzip.compress(PLAIN)), "compressed as 'gzip, gzip'"),
    ],
    ids=range(7),
)
def test_what_cannot_be_read_is_refused(
    gateway: Gateway, model: Model, encoding: str, body: bytes, words: str
) -> None:
    with agent(gateway, model) as one:
        said = one.call("/anthropic/v1/messages", body, {"Content-Encoding": encoding.upper()})
        report = one.route.close()
    assert (said.status, said.json["type"], said.json["error"]["type"]) == (
        400,
        "error",
        "invalid_request_error",
    )
    assert words in said.json["error"]["message"]
    assert report.ending == "refused"
    assert model.asked == []


def parsed(body: bytes, encoding: str = "") -> Outgoing:
    assert CALL is not None
    return asyncio.run(Bodies().outgoing(CALL, body, encoding, Allowed(["m-1"]), EVERY_TOOL))


def test_what_is_large_is_read_elsewhere_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"model": "m-1", "stream": True, "max_tokens": 7, "messages": [], "prompt": "x"}
    here = parsed(json.dumps(asked).encode())
    assert here.refers_elsewhere()
    elsewhere = []
    aside = bodies._aside

    async def noted(given: Any) -> Outgoing:
        elsewhere.append(len(given[1]))
        return await aside(given)

    monkeypatch.setattr(bodies, "_aside", noted)
    monkeypatch.setattr(bodies, "_FEW", 3)
    assert vars(parsed(json.dumps(asked).encode())) == vars(here)
    assert vars(parsed(gzip.compress(json.dumps(asked).encode()), "gzip")) == vars(here)
    for refused in (b"[" * 10_000, b'{"model": [[[[[[[[1]]]]]]]]}', gzip.compress(bytes(40 << 20))):
        with pytest.raises(Unsendable):
            parsed(refused, "gzip" if refused[:1] == b"\x1f" else "")
    assert len(elsewhere) == 5
    monkeypatch.setattr(bodies, "_LONGEST", 0)
    with pytest.raises(Unsendable, match="takes more than 0 s"):
        parsed(json.dumps(asked).encode())
