from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.results import find_job

from .records import NOW, record

JOBS = {
    "20261121-054712-4f9a2c": "nightly", "20261121-054712-4f9b00": None, "20261121-060000-aaaaaa": "nightly",
    "20261122-010203-bbbbbb": "2026112", "20261123-010203-cccccc": "last-week", "percent%_id": "50%",
}  # fmt: skip


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.of(tmp_path) as history:
        for number, (job_id, name) in enumerate(JOBS.items()):
            created = NOW + datetime.timedelta(hours=number)
            history.save_job(record(tmp_path, id=job_id, name=name, created_at=created))
        yield history


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("20261121-054712-4f9a2c", "20261121-054712-4f9a2c"),
        ("20261121-054712-4f9a", "20261121-054712-4f9a2c"),
        (" 20261121-06 ", "20261121-060000-aaaaaa"),
        ("last", "percent%_id"),
        ("last~0", "percent%_id"),
        ("last~5", "20261121-054712-4f9a2c"),
        ("nightly", "20261121-060000-aaaaaa"),
        ("last-week", "20261123-010203-cccccc"),
        ("50%", "percent%_id"),
        ("percent", "percent%_id"),
        # A name wins over the beginning of several ids.
        ("2026112", "20261122-010203-bbbbbb"),
    ],
)
def test_a_job_is_found(history: History, text: str, job: str) -> None:
    assert find_job(history, text) == job


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "20261121-054712-4f9",
            (
                "'20261121-054712-4f9' matches several jobs: 20261121-054712-4f9b00, 20261121-054712-4f9a2c; "
                "give more characters"
            ),
        ),
        ("nigthly", "there is no job 'nigthly'. Did you mean 'nightly'?"),
        ("20261121-060000-aaaaab", "there is no job '20261121-060000-aaaaab'. Did you mean '20261121-060000-aaaaaa'"),
        ("zebra\x1b[31m", "there is no job 'zebra'; the latest are percent%_id, 20261123-010203-cccccc, "),
        ("last~6", "there is no job last~6: there are fewer jobs"),
        ("%", "there is no job '%'"),
        ("_", "there is no job '_'"),
        ("  ", "no job was named; give an id, the beginning of one, a name, or `last`"),
        ("LAST", "there is no job 'LAST'"),
    ],
)  # fmt: skip
def test_what_is_not_found_is_one_line_that_helps(history: History, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_job(history, text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_the_beginning_of_many_ids_names_five(history: History, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": 20261123[^,]*(, [^,]*){4}; give more") as caught:
        find_job(history, "20")
    history.save_job(record(tmp_path, id="20270101-000000-dddddd"))
    with pytest.raises(InputError, match=r", \.\.\.; give more characters"):
        find_job(history, "20")
    assert "20261121-054712-4f9a2c" in str(caught.value)


def test_where_there_are_no_jobs_it_says_so(tmp_path: Path) -> None:
    with History.of(tmp_path) as history:
        for text in ("last", "last~1", "20261121", "nightly"):
            with pytest.raises(InputError, match=f"{tmp_path} yet"):
                find_job(history, text)
