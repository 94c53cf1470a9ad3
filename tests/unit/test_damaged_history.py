"""A history that is damaged anywhere: no gate is silently wrong, and `benchjobs db rebuild` makes it whole."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.store.layout import Layout

from .jobs import make_job, run

pytestmark = pytest.mark.when_changed

OLD, NEW = "20261101-000000-aaaaa1", "20261102-000000-aaaaa2"
NAMES = [f"s{number:02}" for number in range(12)]
KINDS = ("flip", "flips", "zeros", "cut", "head", "version", "log", "gone", "baseline")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "reports"
    for number, job in enumerate((OLD, NEW)):
        make_job(directory, job, {"oracle": dict.fromkeys(NAMES, "P")}, hours_ago=5 - number)
    run("baseline", "set", OLD, "--dir", directory)
    return directory


def damage(path: Path, kind: str, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    log = path.with_name(f"{path.name}-wal")
    place = chance.randrange(len(content))
    match kind:
        case "flip" | "flips":
            for _ in range(1 if kind == "flip" else 10):
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        case "zeros":
            content[place : place + 512] = bytes(len(content[place : place + 512]))
        case "cut":
            del content[place:]
        case "head":
            content[:100] = chance.randbytes(100)
        case "log":
            log.write_bytes(chance.randbytes(9000))
    path.write_bytes(content)
    if kind == "gone":
        path.unlink()
    elif kind in ("version", "baseline"):
        wrong = chance.choice(("jobs = '['", "set_at = 'now'", "name = '/'"))
        change = (
            f"UPDATE baselines SET {wrong}"
            if kind == "baseline"
            else f"PRAGMA user_version = {chance.choice((1, 3))}"
        )
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(change)


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, Any]:
    capsys.readouterr()
    status = run(*arguments, "-o", "json")
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return status, err, json.loads(out) if out else None


def _cells(path: Path) -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return [
            (table, row[1]) for table in tables for row in connection.execute(f"PRAGMA table_info({table})")
        ]


@pytest.mark.parametrize("value", ["CAST(x'61ff80fe' AS TEXT)", "9e999"])
def test_what_is_no_text_and_no_number_is_an_error_of_one_line(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    commands = itertools.cycle((["list"], ["runs"], ["show", NEW], ["summary", NEW], ["export", NEW],
                                ["baseline", "list"], ["compare", OLD, NEW], ["gate", NEW]))  # fmt: skip
    for table, column in _cells(Layout(whole).history):
        directory = tmp_path / f"{table}.{column}"
        shutil.copytree(whole, directory)
        with contextlib.closing(sqlite3.connect(Layout(directory).history)) as connection, connection:
            connection.execute("PRAGMA writable_schema = ON")
            with contextlib.suppress(sqlite3.IntegrityError):  # a name that has to be that of another table
                connection.execute(f'UPDATE {table} SET "{column}" = {value}')
        words = next(commands)
        status, err, document = said(capsys, *words, "--dir", directory)
        assert document is not None or (status and err.startswith("benchjobs: ")), (table, column, words, err)
        shutil.rmtree(directory / "jobs")
        run("merge", Layout(directory).history, "--dir", tmp_path / "other")
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_told_or_harmless_and_can_be_rebuilt(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, number: int
) -> None:
    directory = tmp_path / "reports"
    shutil.copytree(whole, directory)
    where = ("--dir", directory)
    judging = (
        "gate",
        NEW,
        "--baseline",
        "default",
        "--fail-on-regression",
        "mean:5pp",
        "--ci",
        "off",
        *where,
    )
    damage(Layout(directory).history, kind, random.Random(f"{kind} {number}"))
    status, err, report = said(capsys, *judging)
    if report is None:
        assert status not in (0, 10, 11), err
        assert err.startswith("benchjobs: "), err
    else:
        assert (status, [rule["scenarios"] for rule in report["rules"]]) == (0, [len(NAMES)])
    assert run("db", "rebuild", *where) == 0
    assert said(capsys, "list", *where)[2] == said(capsys, "list", "--dir", whole)[2]
    assert said(capsys, "baseline", "list", *where)[2] == said(capsys, "baseline", "list", "--dir", whole)[2]
    status, _, report = said(capsys, *judging)
    assert (status, [rule["scenarios"] for rule in report["rules"]]) == (0, [len(NAMES)])
