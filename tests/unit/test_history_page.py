"""The Python that docs/history.md shows does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_merge import OTHER, failed, made, make

PAGE = Path(__file__).parents[2] / "docs" / "history.md"


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "reports", made("a"), failed("b"), made("a", "nop"), index=True, name="nightly")
    make(tmp_path / "reports", made("a"), job=OTHER, index=True)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    out = capsys.readouterr().out
    assert "nightly completed 3 0.6666666666666666\n" in out
    assert "nop 1 0 0\noracle 1 1 0\n" in out
    assert "b below_threshold no\nlog of b in " in out
    assert re.search(r"^nop +1\.0\noracle +0\.5$", out, re.MULTILINE)
    assert len(blocks) == 2
