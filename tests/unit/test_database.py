"""Opening a history: of any version, on any file system, with others at it."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError, ResultsUnwritable
from pytest_benchjobs.model.job import JobStatus, Totals
from pytest_benchjobs.model.result import Failure, Outcome, ScorerResult, TrialResult
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.store import database
from pytest_benchjobs.store.database import NewerHistory, migrations
from pytest_benchjobs.store.filesystem import filesystem_of, on_network
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.reader import HistoryReader
from pytest_benchjobs.store.rows import JOB_COLUMNS, TRIAL_COLUMNS, job_values, score_values, trial_values

from .clocks import Clock
from .records import JOB, NOW, record, result, trial
from .rights import as_nobody

pytestmark = pytest.mark.when_changed

ROOT = str(Path(__file__).parents[2])
# What version 1 wrote.
V1_JOB = (
    "id", "name", "status", "created_at", "finished_at", "planned", "trials", "passed", "failed", "error", "cancelled",
    "skipped", "mean_score", "record",
)  # fmt: skip
V1_TRIAL = TRIAL_COLUMNS[: TRIAL_COLUMNS.index("path") + 1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def results() -> list[TrialResult]:
    """A job of two benchmarks and two agents."""
    made = []
    for number in range(12):
        of = trial(
            f"s{number % 3}", "oracle" if number % 2 else "codex:gpt-5.5", file=f"{number % 4 // 2}.yaml"
        )
        later = NOW + datetime.timedelta(seconds=number)
        made.append(
            result(
                of,
                benchmark=("texts", "numbers")[number % 4 // 2],
                benchmark_version="1.0",
                outcome=(Outcome.PASSED, Outcome.FAILED, Outcome.ERROR)[number % 3],
                score=(1.0, 0.25, None)[number % 3],
                failure=None if number % 3 == 0 else Failure(class_="x", message="y"),
                usage=Usage(input_tokens=number, output_tokens=2 * number, cost_usd=number / 8),
                scorers=(ScorerResult(name="a", type="bash", weight=2, score=1.0),),
                started_at=later,
                finished_at=later + datetime.timedelta(seconds=5),
                seconds=5.0,
            )
        )
    return made


def totals() -> Totals:
    return Totals(trials=12, passed=4, failed=4, error=4, mean_score=0.625)


def make_v1(path: Path, trials: list[TrialResult]) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(migrations()[0])
    connection.execute("PRAGMA user_version = 1")
    ended = record(path.parent, status=JobStatus.COMPLETED, finished_at=NOW, totals=totals(), planned=12)
    values = dict(zip(JOB_COLUMNS, job_values(ended), strict=True))
    insert(connection, "jobs", V1_JOB, [tuple(values[name] for name in V1_JOB)])
    for of in trials:
        insert(connection, "trials", V1_TRIAL, [trial_values(of)[: len(V1_TRIAL)]])
        (number,) = connection.execute("SELECT max(id) FROM trials").fetchone()
        columns = ("trial", "position", "scorer", "type", "weight", "score", "class", "seconds")
        insert(connection, "scores", columns, [(number, *score) for score in score_values(of.scorers)])
    connection.commit()
    connection.close()


def insert(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...], rows: list[tuple[object, ...]]
) -> None:
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)


def dump(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def read(path: Path, statement: str) -> Any:
    """The first value that a database answers with."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchone()[0]


@pytest.mark.parametrize("readonly", [False, True])
def test_an_older_history_is_brought_up_to_date_with_all_that_can_be_known(
    path: Path, readonly: bool
) -> None:
    trials = results()
    make_v1(path, trials)
    with (HistoryReader if readonly else History)(path) as history:
        upgraded = history.job_row(JOB), history.runs(JOB), history.trials(JOB), history.paired_rows(JOB)
        scores = [history.scores(JOB, of.node_id) for of in trials]
    fresh = path.with_name("fresh.sqlite")
    with History(fresh) as history:
        history.save_job(record(path.parent, status=JobStatus.COMPLETED, finished_at=NOW, planned=12))
        history.save_trials(trials)
        paid = totals().model_copy(update={"cost_usd": sum(of.usage.cost_usd or 0 for of in trials)})
        history.save_job(
            record(path.parent, status=JobStatus.COMPLETED, finished_at=NOW, planned=12, totals=paid)
        )
        assert upgraded == (
            history.job_row(JOB), history.runs(JOB), history.trials(JOB), history.paired_rows(JOB),
        )  # fmt: skip
        assert scores == [history.scores(JOB, of.node_id) for of in trials]
        assert len(history.runs(JOB)) == 4
    tables = [line for line in dump(path) if line.startswith("CREATE") or 'INTO "scenarios"' in line]
    assert tables == [line for line in dump(fresh) if line.startswith("CREATE") or 'INTO "scenarios"' in line]
    assert sum('INTO "scenarios"' in line for line in tables) == 6


@pytest.mark.parametrize(
    ("changes", "config", "expected"),
    [
        ({"narrowed": True}, {}, True),
        ({"narrowed": False, "partial": True}, {}, False),
        ({"narrowed": True, "name": "nightly"}, {}, False),
        ({"narrowed": True}, {"sample": "10%"}, False),
        ({"narrowed": True}, {"max_examples": 3}, False),
    ],
)
def test_a_job_of_a_selection_is_known_before_and_after_an_upgrade(
    path: Path, changes: dict[str, Any], config: dict[str, Any], expected: bool
) -> None:
    job = record(path.parent, status=JobStatus.COMPLETED, finished_at=NOW, **changes)
    job = job.model_copy(update={"config": job.config.model_copy(update=config)})
    connection = sqlite3.connect(path)
    for script in migrations()[:3]:
        connection.executescript(script)
    connection.execute("PRAGMA user_version = 3")
    values = dict(zip(JOB_COLUMNS, job_values(job), strict=True))
    for column in ("selection", "branch", '"commit"'):
        del values[column]
    insert(connection, "jobs", tuple(values), [tuple(values.values())])
    connection.commit()
    connection.close()
    fresh = path.with_name("fresh.sqlite")
    with History(path) as upgraded, History(fresh) as history:
        history.save_job(job)
        for row in (upgraded.job_row(JOB), history.job_row(JOB)):
            assert row is not None
            assert row.selection is expected


def test_many_processes_upgrade_at_once_and_one_of_them_does_it(path: Path) -> None:
    make_v1(path, results())
    code = (
        "import sys; from pathlib import Path; from pytest_benchjobs.store.history import History\n"
        "from pytest_benchjobs.store.reader import HistoryReader\n"
        "with (HistoryReader if sys.argv[2] == 'True' else History)(Path(sys.argv[1])) as history:\n"
        f"    print(len(history.runs({JOB!r})), len(history.trials({JOB!r})))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(number % 2 == 0)], stdout=subprocess.PIPE, text=True
        )
        for number in range(6)
    ]
    assert [process.communicate()[0] for process in running] == ["4 12\n"] * 6
    assert read(path, "PRAGMA user_version") == len(migrations())


def test_an_older_history_that_cannot_be_written_says_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_v1(path, [])
    before = path.read_bytes()
    monkeypatch.setattr(database, "_writable", lambda path: False)
    with pytest.raises(InputError, match=r"older version .* Make it writable"):
        HistoryReader(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_history_from_the_future_is_refused_and_not_a_byte_is_touched(
    path: Path, readonly: bool, journal: str
) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    connection.execute("CREATE TABLE things (x)")
    connection.commit()
    connection.close()
    before = hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns
    ours = len(migrations())
    with pytest.raises(
        NewerHistory, match=rf"schema {ours + 1}, not {ours}.* Upgrade pytest-benchjobs"
    ) as caught:
        (HistoryReader if readonly else History)(path)
    assert "\n" not in str(caught.value)
    assert (hashlib.sha256(path.read_bytes()).digest(), path.stat().st_mtime_ns) == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("readonly", [False, True])
def test_a_newer_version_that_died_with_its_upgrade_in_the_log_is_noticed(
    path: Path, tmp_path: Path, readonly: bool
) -> None:
    elsewhere = tmp_path / "elsewhere" / path.name
    History(elsewhere).close()
    connection = sqlite3.connect(elsewhere, isolation_level=None)
    connection.execute("PRAGMA user_version = 99")
    for suffix in ("", "-wal"):  # as they are on the disk when the process is killed
        shutil.copy(f"{elsewhere}{suffix}", f"{path}{suffix}")
    connection.close()
    before = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")}
    with pytest.raises(NewerHistory, match="schema 99"):
        (HistoryReader if readonly else History)(path)
    assert {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")} == before


def test_looking_at_the_version_leaves_the_locks_of_this_process(path: Path) -> None:
    # On POSIX, closing a file drops all locks of the process on it, also those of other connections.
    with History(path) as first:
        first.save_job(record(path.parent))
        HistoryReader(path).close()
        code = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0); "
            "print(c.execute('PRAGMA journal_mode = DELETE').fetchone())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
        )
        assert "locked" in done.stderr
        assert first.job(JOB) is not None


def test_a_reader_leaves_no_files_behind(path: Path) -> None:
    History(path).close()
    with HistoryReader(path) as history:
        assert list(each(history, JOBS)) == []
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_history_on_a_medium_that_cannot_be_written_is_read() -> None:
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        path = directory / "history.sqlite"
        with History(path) as history:
            history.save_job(record(directory))
        path.chmod(0o444)
        directory.chmod(0o555)

        def look() -> None:
            with HistoryReader(path) as history:
                assert [job.id for job in each(history, JOBS)] == [JOB]

        assert as_nobody(look) == 0
        assert [file.name for file in directory.iterdir()] == [path.name]
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


class _Interrupted(sqlite3.Connection):
    """One on which Ctrl-C comes while a statement runs: Python raises it when that has ended."""

    def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
        cursor = super().execute(statement, *parameters)
        if statement == self.at:
            raise KeyboardInterrupt
        return cursor

    at = ""


@pytest.mark.parametrize("at", ["BEGIN IMMEDIATE", "INSERT INTO numbers VALUES (1)", "COMMIT"])
def test_a_write_that_is_interrupted_stops_none_that_come_after_it(at: str) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=_Interrupted)
    connection.execute("CREATE TABLE numbers (number)")
    connection.at = at
    with pytest.raises(KeyboardInterrupt), database.transaction(connection):
        connection.execute("INSERT INTO numbers VALUES (1)")
    connection.at = ""
    with database.transaction(connection):
        connection.execute("INSERT INTO numbers VALUES (2)")
    found = [number for (number,) in connection.execute("SELECT number FROM numbers")]
    assert found == ([1, 2] if at == "COMMIT" else [2])
    connection.close()


def test_a_log_is_kept_on_a_disk_of_this_machine_and_given_up_on_a_network_file_system(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with History(path) as history:
        history.save_job(record(path.parent))
    assert read(path, "PRAGMA journal_mode") == "wal"
    monkeypatch.setattr(database, "on_network", lambda directory: True)
    with History(path) as history:
        assert [job.id for job in each(history, JOBS)] == [JOB]
        with History(path) as second:  # nobody keeps the file for himself
            second.save_trials([result()])
    assert read(path, "PRAGMA journal_mode") == "delete"
    monkeypatch.undo()
    History(path).close()
    assert read(path, "PRAGMA journal_mode") == "wal"


def test_a_log_that_others_have_open_stays_until_they_are_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys; from pathlib import Path; from pytest_benchjobs.store.history import History\n"
        "with History(Path(sys.argv[1])) as history:\n"
        "    print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    monkeypatch.setattr(database, "on_network", lambda directory: True)
    monkeypatch.setattr(database, "_SWITCH_SECONDS", 0.1)
    with History(path) as history:
        history.save_job(record(path.parent))
    assert read(path, "PRAGMA journal_mode") == "wal"
    other.communicate("")
    with History(path) as history:
        assert [job.id for job in each(history, JOBS)] == [JOB]
    assert read(path, "PRAGMA journal_mode") == "delete"


@pytest.mark.parametrize("moments", [3, None])
def test_whoever_has_the_file_for_himself_is_waited_for_half_a_minute(
    path: Path, monkeypatch: pytest.MonkeyPatch, moments: int | None
) -> None:
    clock, opened = Clock(), database._open

    def taken(path: Path, readonly: bool) -> sqlite3.Connection:
        if moments is None or len(clock.pauses) < moments:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorname = "SQLITE_BUSY_RECOVERY"
            raise error
        return opened(path, readonly)

    monkeypatch.setattr(database, "time", clock)
    monkeypatch.setattr(database, "_open", taken)
    if moments is None:
        with pytest.raises(ResultsUnwritable, match="another process has kept it locked for 30 s"):
            History(path)
        assert 130 < clock.now < 130.1
    else:
        History(path).close()
        assert len(clock.pauses) == moments


def test_a_file_that_is_no_history_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(database, "time", clock)
    path.write_bytes(b"no history" * 1000)
    with pytest.raises(
        InputError, match=r"history.sqlite: is damaged or not a history .*benchjobs db rebuild"
    ):
        History(path)
    assert clock.pauses == []


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_a_connection_waits_for_others_and_keeps_what_it_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch, network: bool, old: bool
) -> None:
    monkeypatch.setattr(database, "on_network", lambda directory: network)
    if old:
        make_v1(path, [])
    for readonly in (False, True):
        connection = database.connect(path, readonly=readonly)
        asked = ("busy_timeout", "query_only", "locking_mode")
        assert [database.pragma(connection, one) for one in asked] == [30_000, int(readonly), "normal"]
        if not readonly:
            # 1 is NORMAL, which is safe with a log, and 2 is FULL.
            assert [database.pragma(connection, one) for one in ("synchronous", "foreign_keys")] == [
                2 if network else 1,
                1,
            ]
        connection.close()


def test_an_upgrade_of_another_process_is_waited_for_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience, transaction = [], database.transaction

    def watched(connection: sqlite3.Connection) -> contextlib.AbstractContextManager[None]:
        patience.append(database.pragma(connection, "busy_timeout"))
        return transaction(connection)

    monkeypatch.setattr(database, "transaction", watched)
    make_v1(path, [])
    database.connect(path, readonly=False).close()
    assert patience == [600_000]


NETWORK_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from pytest_benchjobs.store import database
database.on_network = lambda directory: True
from tests.unit.records import record, result, trial
from pytest_benchjobs.store.history import History
from pytest_benchjobs.store.listing import JOBS, each
from pytest_benchjobs.store.reader import HistoryReader
path, name = Path(sys.argv[1]), sys.argv[3]
if name != "reader":
    with History(path) as history:
        history.save_job(record(path.parent, id=name))
        for number in range(100):
            history.save_trials([result(trial(f"s{number}"), job=name)])
else:
    seen = 0
    while seen < 200:
        with HistoryReader(path) as history:
            found = sum(job.ended for job in each(history, JOBS))
            rows = sum(len(history.trials(job.id)) for job in each(history, JOBS))
            assert found <= rows and rows >= seen
            seen = rows
"""


def test_writers_and_readers_get_along_without_a_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "on_network", lambda directory: True)
    History(path).close()
    names = ("one", "two", "reader", "reader", "reader")
    running = [
        subprocess.Popen([sys.executable, "-c", NETWORK_WRITER, str(path), ROOT, name]) for name in names
    ]
    assert [process.wait() for process in running] == [0] * 5
    with HistoryReader(path) as history:
        assert [job.ended for job in each(history, JOBS)] == [100, 100]
    assert read(path, "PRAGMA journal_mode") == "delete"


MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:50 / /mnt/lab\040share rw,relatime - nfs4 server:/lab rw
41 22 0:51 / /mnt/lab\040share/cache rw - tmpfs tmpfs rw
42 22 0:52 / /home/me/remote rw - fuse.sshfs me@there: rw
43 22 8:2 / /mnt/labels rw master:2 - xfs /dev/sda2 rw
44 22 0:53 / /over rw - cifs //server/x rw
45 22 0:54 / /over rw - overlay overlay rw
rubbish
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/", "ext4"),
        ("/srv/reports", "ext4"),
        ("/mnt/lab share/reports", "nfs4"),
        ("/mnt/lab share/cache/x", "tmpfs"),
        ("/mnt/labels", "xfs"),
        ("/home/me/remote", "fuse.sshfs"),
        ("/home/me", "ext4"),
        ("/over/there", "overlay"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(
    place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    here = tmp_path.stat()
    monkeypatch.setattr(Path, "stat", lambda self, **_: here)
    monkeypatch.setattr(Path, "resolve", lambda self: self)
    assert filesystem_of(Path(place), mounts) == kind


def test_the_file_system_of_a_directory_here_is_known_and_local(tmp_path: Path) -> None:
    assert filesystem_of(tmp_path) is not None
    assert not on_network(tmp_path)
    assert filesystem_of(tmp_path / "missing") is None
    assert filesystem_of(tmp_path, tmp_path / "no-mounts") is None


@pytest.mark.parametrize(
    ("kind", "network"),
    [("nfs", True), ("fuse.sshfs", True), ("fuse.unheard-of", True), ("virtiofs", True), ("ext4", False),
     ("overlay", False), ("fuseblk", False), (None, False)],
)  # fmt: skip
def test_what_is_a_network_file_system(
    kind: str | None, network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchjobs.store.filesystem.filesystem_of", lambda directory: kind)
    assert on_network(Path("/anywhere")) is network
