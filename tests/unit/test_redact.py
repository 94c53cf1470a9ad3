"""Secrets are found however often a text that holds them was quoted, and in the names of files."""

from __future__ import annotations

import base64
import html
import json
import re
import textwrap
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.system.redact import MIN_LENGTH, Redactor
from pytest_benchjobs.trial.secrets import redact_file, redact_files

pytestmark = pytest.mark.when_changed

PEM = "-----BEGIN KEY-----\n" + "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC/+"] * 3) + "\n-----END KEY-----"
SECRETS = [
    "plain-secret-value", 'with "quotes" and more', "back\\slash\\\\and\\end\\", "line\nbreak\tand\rmore",
    "pässwörd/with/slashes", "密码密码密码", "emoji \U0001f511 key", "<tag> & 'quote'", "'<&\"&>'",
    "\x01\x1fcontrol", PEM,
]  # fmt: skip


def _go(text: str) -> str:
    """As Go's encoder writes it."""
    quoted = json.dumps(text, ensure_ascii=False)[1:-1]
    return quoted.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _upper(text: str) -> str:
    return "".join(
        "".join(f"\\u{int.from_bytes(char.encode('utf-16-be')[at : at + 2], 'big'):04X}" for at in (0, 2))
        if ord(char) > 0xFFFF
        else f"\\u{ord(char):04X}"
        if ord(char) > 126
        else json.dumps(char)[1:-1]
        for char in text
    )


_HEX = re.compile("%..")
QUOTINGS: dict[str, Callable[[str], str]] = {
    "json with slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json of go": _go,
    "json in upper case": _upper,
    "html": html.escape,
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "url in lower case": lambda text: _HEX.sub(
        lambda byte: byte[0].lower(), urllib.parse.quote(text, safe="")
    ),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode(),
    "base64 in lines of 64": lambda text: "\r\n".join(
        textwrap.wrap(base64.b64encode(text.encode()).decode(), 64)
    ),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("quoting", QUOTINGS)
def test_a_secret_is_found_however_it_is_quoted(secret: str, quoting: str) -> None:
    redactor = Redactor({"S": secret}, patterns=())
    assert redactor.redact_text(secret) == "[redacted:S]"
    quoted = QUOTINGS[quoting](secret)
    said = redactor.redact_text(f"before {quoted} after")
    # Of base64, what depends on a neighbour as well is left: fewer than four characters at its end.
    assert said.startswith("before [redacted:S]")
    assert len(said) < len("before [redacted:S] after") + 6


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_in_json_in_json(secret: str, depth: int, ascii_only: bool) -> None:
    text = secret
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    assert Redactor({"S": secret}, patterns=()).redact_text(f"x {text} y") == "x [redacted:S] y"


@pytest.mark.parametrize(
    ("name", "value", "is_left"),
    [
        *(("OPENAI_API_KEY", word, True) for word in ("ollama", "lm-studio", "token-abc123", "not-needed")),
        ("OPENAI_API_KEY_", "ollama", True),
        ("MY_TOKENS", "Bearer-0001", True),
        ("MY_TOKEN", "hunter2-hunter2", False),
        ("MY_TOKEN", "thirteen-char", False),
        ("MY_TOKEN", "x7Kp9q", False),
        ("DB_PASSWORD", "postgres", False),
        ("DB_PASSWORD", "short", True),
    ],
)
def test_a_word_in_the_place_of_a_key_is_no_secret_and_a_password_may_be_one(
    name: str, value: str, *, is_left: bool
) -> None:
    assert (Redactor({name: value}).redact_text(f"the {value}s") == f"the {value}s") is is_left


def test_with_escapes_any_character_may_be_escaped() -> None:
    redactor = Redactor({"S": "päss-word-Z9"}, patterns=(), escapes=True)
    for text in ("p\\u00e4ss%2dword-Z9", "p%C3%A4ss\\\\u002Dword-Z9", "&#112;&#xE4;ss-word-&#x5a;9"):
        assert redactor.redact_text(f"({text})") == "([redacted:S])"


def test_other_texts_stay_as_they_are() -> None:
    text = json.dumps({"a": 'with \\"quotes\\" and less', "b": "pass/with/slashes", "c": "\\\\\\\\"})
    assert Redactor({f"S{at}": secret for at, secret in enumerate(SECRETS)}).redact_text(text) == text


@given(
    st.text(min_size=MIN_LENGTH, max_size=30).filter(lambda text: len(text.strip()) >= MIN_LENGTH),
    st.integers(0, 3),
    st.integers(1, 40),
)
def test_a_stream_finds_it_wherever_its_pieces_begin(secret: str, depth: int, size: int) -> None:
    try:
        text = secret
        for _ in range(depth):
            text = json.dumps(text)[1:-1]
        data = f"(( {text} ))".encode()
    except UnicodeEncodeError:
        return
    redactor = Redactor({"S": secret}, patterns=())
    pieces: list[bytes] = []
    stream = redactor.stream(pieces.append)
    for at in range(0, len(data), size):
        stream.write(data[at : at + size])
    stream.close()
    assert b"".join(pieces) == redactor.redact(data)
    assert b"[redacted:S]" in b"".join(pieces)


SECRET = "hunter2-hunter2"


def test_a_whole_line_is_passed_on_at_once() -> None:
    pieces: list[bytes] = []
    stream = Redactor({"S": SECRET}).stream(pieces.append)
    stream.write(b"begun\nwith hunter2-hunt")
    assert pieces == [b"begun\n"]
    stream.write(b"er2 in it\n> ")
    assert b"".join(pieces) == b"begun\nwith [redacted:S] in it\n"
    stream.close()
    assert pieces[-1] == b"> "


@pytest.mark.parametrize("secret", [PEM, SECRET * 5, "n\x9d\xb5" * 20])
@pytest.mark.parametrize("quoting", QUOTINGS)
@pytest.mark.parametrize("before", ["", "x ", "a\n", "\\"])
def test_a_secret_of_several_lines_is_found_line_by_line(secret: str, quoting: str, before: str) -> None:
    redactor = Redactor({"S": secret})
    for text in (secret, QUOTINGS[quoting](secret)):
        data = f"first\n{before}{text}\nlast\n".encode()
        pieces: list[bytes] = []
        stream = redactor.stream(pieces.append)
        for line in data.splitlines(keepends=True):
            stream.write(line)
        stream.close()
        assert b"".join(pieces) == redactor.redact(data)


def test_names_of_files_hold_no_secret(tmp_path: Path) -> None:
    redactor = Redactor({"S": SECRET, "P": "half/of-a-path"})
    names = [
        f"{SECRET}.txt", f"deep/{SECRET}/x/{SECRET}", f"deep/{SECRET}/empty/", "half/of-a-path.txt",
        "same/[redacted:S]", f"same/{SECRET}", "plain.txt",
    ]  # fmt: skip
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text(f"{name.count('/')} {SECRET}")
    (tmp_path / "link").symlink_to(f"/nowhere/{SECRET}")
    (tmp_path / f"link-{SECRET}").symlink_to("plain.txt")
    (tmp_path / "fine").symlink_to("plain.txt")
    moved = redact_files(tmp_path, redactor, redactor)
    assert moved == {
        f"{SECRET}.txt": "[redacted:S].txt",
        f"deep/{SECRET}/x/{SECRET}": "deep/[redacted:S]/x/[redacted:S]",
        "half/of-a-path.txt": "[redacted:P].txt",
        f"same/{SECRET}": "same/[redacted:S]-2",
    }
    left = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*")}
    assert SECRET not in "".join(left)
    assert {name for name, path in left.items() if path.is_file()} == {
        *moved.values(), "same/[redacted:S]", "plain.txt", "fine",
    }  # fmt: skip
    assert left["deep/[redacted:S]/x/[redacted:S]"].read_text() == "3 [redacted:S]"
    assert left["same/[redacted:S]-2"].read_text() == "1 [redacted:S]"


def test_a_file_that_is_rewritten_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text(SECRET)
    file.chmod(0o750)
    redact_file(file, Redactor({"S": SECRET}))
    assert file.read_text() == "[redacted:S]"
    assert file.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [file]
