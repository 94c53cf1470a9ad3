"""Manifests whose lines begin in the wrong column: said as what it is, not as a parser sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.sources.manifest import Manifest

HEAD = "benchmark: t\nscenarios:\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("  - id: one\n   image: debian\n", 4, "this line begins in column 4, the list around it (from line 3) in column 3"),
        ("- id: one\n   image: debian\n", 4, "this line is deeper than line 3, which has a value already"),
        ("- id: one\n  scorers:\n  - name: a\n   type: x\n", 6, "this line begins in column 4, the table"),
    ],
)  # fmt: skip
def test_wrong_indentation_is_told_from_other_mistakes(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    path = tmp_path / "t.bench.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(InputError) as raised:
        Manifest(path).refs()
    assert message in raised.value.message
    assert raised.value.line == line
    assert raised.value.column is not None
