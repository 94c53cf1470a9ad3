"""The suite for providers of sandboxes tells one that does not keep a promise, and one that lists too much as lacking."""

from __future__ import annotations

from pathlib import Path

from tests.support import run

TESTS = """\
from pytest_benchjobs.sandbox.protocol import Promise
from pytest_benchjobs.testing import FakeProvider
from pytest_benchjobs.testing.conformance import SandboxConformance

class Liar(FakeProvider):
    def lacks(self, runtime=None):
        return {one: "perhaps" for one in Promise if one is not Promise.STORAGE}

class TestLiar(SandboxConformance):
    make = Liar
"""


def test_a_promise_is_broken_that_does_not_hold_and_one_that_holds_and_is_said_to_be_lacking(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_liar.py").write_text(TESTS)
    wanted = "runs_as_its_user or is_kept_is_there or limit_is_told or carried"
    told = run(tmp_path, "-k", wanted, "-p", "no:xdist", "-q")
    assert told.returncode == 1
    assert "[XPASS(strict)] TestLiar says that it lacks keeping: perhaps" in told.stdout
    states = dict(line.split(maxsplit=1) for line in told.stdout.splitlines() if line[:1].islower())
    assert {name: states[name] for name in ("images", "keeping", "storage", "users")} == {
        "images": "lacks: perhaps",
        "keeping": "BROKEN",
        "storage": "BROKEN",
        "users": "lacks, as was shown: perhaps",
    }
