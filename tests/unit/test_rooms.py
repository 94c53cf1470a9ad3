"""Tests of few rooms run when these changed: what tells rooms and changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .. import rooms


def test_a_test_leans_on_what_it_imports_and_on_what_that_imports_of_its_room() -> None:
    found = rooms.leaning(rooms.ROOT / "tests/unit/test_statistics.py")
    assert "tests/unit/test_statistics.py" in found
    assert {rooms.room(name) for name in found if name.startswith("pytest_benchjobs/")} == {"analysis"}
    assert "pytest_benchjobs/analysis/statistics/permutations.py" in found


def test_names_are_those_of_files_and_directories() -> None:
    found = rooms.named(("gate", "no such room"))
    assert {"pytest_benchjobs/cli/gate.py", "pytest_benchjobs/store/gates.py"} <= found
    assert not any("gate" not in name for name in found)


def test_what_changed_is_what_differs_from_the_reference_else_from_the_parent(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def seen() -> list[str] | None:
        rooms.changed.cache_clear()
        found = rooms.changed(tmp_path)
        return None if found is None else sorted(found)

    assert seen() is None
    git("init")
    for name in ("first", "second", "third"):
        (tmp_path / name).write_text(name)
        git("add", ".")
        git("commit", "-m", name)
    (tmp_path / "first").write_text("changed")
    (tmp_path / "new").write_text("new")
    assert seen() == ["first", "new", "third"]
    git("update-ref", rooms.REFERENCE, "HEAD")
    assert seen() == ["first", "new"]
    rooms.changed.cache_clear()


@pytest.mark.parametrize("turns", [4, 8])
def test_so_many_commits_run_every_test_once(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    names = [f"docs/page.md:{number}" for number in range(50)]
    ran = []
    for number in range(turns):
        monkeypatch.setattr(rooms, "commit", lambda number=number: 7 + number)
        ran += [name for name in names if rooms.its_turn(name, turns)]
    assert sorted(ran) == sorted(names)


def test_tests_with_processes_run_each_eighth_commit_and_when_what_they_go_through_changed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"test_{number}" for number in range(40)]
    pytester.makeini("[pytest]\nmarkers = daily")
    pytester.makepyfile(
        **{
            name: "import pytest\n"
            + "\n".join(f"def {each}(): pass" for each in names)
            + "\n@pytest.mark.daily\ndef test_daily(): pass\n"
            for name in ("tests/docker/test_gate", "tests/unit/test_cheap")
        }
    )
    items = pytester.inline_genitems("tests")[0]
    assert rooms.named(("gate",))  # finds the files of the package, which are not where these tests are
    monkeypatch.setattr(rooms, "ROOT", pytester.path)
    monkeypatch.setattr(rooms, "leaning", lambda path: frozenset([path.name]))

    def due(*changes: str) -> set[str]:
        monkeypatch.setattr(rooms, "changed", lambda _root: frozenset(changes))
        return {item.nodeid for item in items if rooms.is_due(item)}

    everything = {item.nodeid for item in items}
    cheap = {name for name in everything if "test_cheap" in name}
    always = cheap | {name for name in everything if "test_daily" in name}
    assert always < due() < everything
    assert due("README.md", "pytest_benchjobs/viewer/server.py") == due()
    for changes in ("test_gate.py", "pytest_benchjobs/sandbox/protocol.py", "pytest_benchjobs/cli/gate.py"):
        assert due(changes) == everything
