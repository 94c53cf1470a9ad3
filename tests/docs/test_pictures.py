"""Pictures of README and docs: small, whole in themselves, without a trace of the machine; and the script that makes them."""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from ..terminal import TMUX
from .documents import PAGES, ROOT

IMAGES = ROOT / "docs" / "images"
PICTURES = ("watch", "gate")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def picture(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str, int], str]:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import pictures

    return pictures.picture


def text_of(drawn: str) -> str:
    return "\n".join(node.text or "" for node in ET.fromstring(drawn).iter(f"{SVG}text")).replace("\xa0", " ")


def check(drawn: str) -> None:
    """Hold a picture against what a README may show."""
    assert len(drawn.encode()) < 60_000
    names = {node.tag.removeprefix(SVG) for node in ET.fromstring(drawn).iter()}
    assert names <= {"svg", "style", "defs", "clipPath", "rect", "g", "text", "circle"}
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)|@import|\bhref|\bon[a-z]+=", drawn) == []
    text = text_of(drawn)
    for mine in (str(ROOT), str(Path.home()), "/tmp/", socket.gethostname(), f"{getpass.getuser()}@"):
        assert mine not in text


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_documentation_is_small_and_needs_nothing_else(name: str) -> None:
    check((IMAGES / f"{name}.svg").read_text("utf-8"))
    assert any(f"images/{name}.svg" in page.read_text("utf-8") for page in PAGES)


def test_a_red_gate_is_shown() -> None:
    text = text_of((IMAGES / "gate.svg").read_text("utf-8"))
    assert "regressed" in text
    assert "exit status 10" in text


def test_colours_are_kept_and_all_else_is_text(picture: Callable[[str, str, str, int], str]) -> None:
    hostile = "\x1b[31mred\x1b[0m <script>alert(1)</script> & \x1b]8;;https://evil.example\x07link\x1b]8;;\x07\x1b[2J\x00\x9b"
    drawn = picture("one", "<title>", hostile, 80)
    check(drawn)
    text = text_of(drawn)
    assert "<script>alert(1)</script> & link" in text
    assert "red" in text.splitlines()
    assert "<title>" in text
    assert "evil" not in drawn
    assert len(set(re.findall(r"fill: (#[0-9a-f]{6})", drawn))) == 2


@pytest.mark.docker
@pytest.mark.extended
@pytest.mark.skipif(TMUX is None, reason="needs tmux")
def test_the_script_makes_them_anew(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "watching.md", tmp_path)
    (tmp_path / "images").mkdir()
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "capture.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in PICTURES:
        drawn = (tmp_path / "images" / f"{name}.svg").read_text("utf-8")
        check(drawn)
        assert len(text_of(drawn).splitlines()) > 10
    assert "regressed" in text_of((tmp_path / "images" / "gate.svg").read_text("utf-8"))
    before = (ROOT / "docs" / "watching.md").read_text("utf-8")
    after = (tmp_path / "watching.md").read_text("utf-8")
    assert re.sub(r"```text\n.*?```", "", after, flags=re.DOTALL) == re.sub(
        r"```text\n.*?```", "", before, flags=re.DOTALL
    )
