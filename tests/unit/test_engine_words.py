"""Sentences of an engine: the few that decide something stand in one table, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_benchjobs
from pytest_benchjobs.sandbox.docker import words as module
from pytest_benchjobs.sandbox.docker.words import DISK_FULL, NO_SUCH_PATH, OWN_FAULT, TABLE, TOO_OFTEN

ROOT = Path(pytest_benchjobs.__file__).parent
SEEN = (
    "removal of container", "already in progress", "no such exec", "stopped state", "device or resource busy",
    "already exists", "address already in use", "non-overlapping ipv4", "oci runtime", "all container pids",
    "unexpected eof", "root filesystem", "deadline exceeded", "is not running", "no such container", "ttrpc",
    "did not terminate", "marked for removal", "is restarting", "pool overlaps", "is ambiguous", "permission denied",
    "executable file not found", "temporarily unavailable", "readdirent", "adding pid", "exec format error",
    "connection refused", "no such host", "i/o timeout", "tls handshake", "active endpoints", "is not connected",
)  # fmt: skip
"""Beginnings and parts of what engines were seen to say of their faults."""
_SEARCHING = {"compile", "search", "match", "fullmatch", "findall", "startswith", "endswith", "find", "count"}


def _decided_by(tree: ast.AST) -> Iterator[str]:
    """Texts that something is compared with, or searched for, in lower case."""
    for node in ast.walk(tree):
        inside: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            inside = [node.left, *node.comparators]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
            node.value, ast.Tuple | ast.List | ast.Set
        ):
            inside = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inside = [*node.args] if node.func.attr in _SEARCHING else []
        for one in inside:
            for text in ast.walk(one):
                if isinstance(text, ast.Constant) and isinstance(text.value, str | bytes):
                    yield str(text.value).lower()


def _files() -> Iterator[Path]:
    for path in sorted((ROOT / "sandbox" / "docker").rglob("*.py")):
        if path.name != "words.py":
            yield path
    yield from sorted((ROOT / "trial").rglob("*.py"))


def test_nothing_but_the_table_is_decided_by_what_an_engine_says() -> None:
    signs = {sign for words in TABLE for sign in words.signs if " " in sign}
    found = [
        f"{path.relative_to(ROOT)}: {text!r}"
        for path in _files()
        for text in _decided_by(ast.parse(path.read_text("utf-8")))
        if any(sign in text for sign in (*SEEN, *signs))
    ]
    assert found == [], "decide by the state of things, or add it to sandbox/docker/words.py"
    assert sum(len(words.signs) for words in TABLE) < 30
    assert all(words.seen and words.means and words.signs for words in TABLE)


def test_the_look_for_sentences_sees_them() -> None:
    code = 'A = ("x", "Unexpected EOF")\nif "no such exec" in text or re.search("pool overlaps", text): raise E("ttrpc")'
    assert set(_decided_by(ast.parse(code))) == {"x", "unexpected eof", "no such exec", "pool overlaps"}


@pytest.mark.parametrize(
    ("words", "text", "is_in"),
    [
        (DISK_FULL, "write /x: No space left on device", True),
        (DISK_FULL, "write /x: input/output error", False),
        (NO_SUCH_PATH, "Could not find the file /x in container c", True),
        (NO_SUCH_PATH, "lstat /x: not a directory", True),
        (NO_SUCH_PATH, "stat /x: Too many levels of symbolic links", True),
        (NO_SUCH_PATH, "stat /x: too many links", True),
        (NO_SUCH_PATH, "cannot allocate memory", False),
        (OWN_FAULT, 'exec: "x": executable file not found in $PATH', True),
        (OWN_FAULT, "adding pid to cgroups: no such file or directory", False),
        (TOO_OFTEN, "toomanyrequests: You have reached your pull rate limit", True),
    ],
)
def test_sentences_are_known_in_any_case(words: module.Words, text: str, *, is_in: bool) -> None:
    assert (text in words) is is_in
