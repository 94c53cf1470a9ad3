"""Fetching benchmarks: over a network that misbehaves, from git, and from what a user gives."""

from __future__ import annotations

import email.utils
import hashlib
import io
import json
import os
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest

from pytest_benchjobs.model.errors import InfrastructureError, InputError
from pytest_benchjobs.sources.catalogue.copying import take
from pytest_benchjobs.sources.catalogue.download import download
from pytest_benchjobs.sources.catalogue.entry import Entry, FileOrigin, GitOrigin
from pytest_benchjobs.sources.catalogue.fetching import fetch
from pytest_benchjobs.sources.catalogue.kept import state_of, trouble
from pytest_benchjobs.sources.catalogue.lookup import Lookup
from pytest_benchjobs.sources.catalogue.registry import read_registry

from .git import git

pytestmark = pytest.mark.when_changed

ROWS = "".join(
    json.dumps({"id": 60 + n, "problem": f"What is {n}?", "answer": str(n)}) + "\n" for n in range(30)
)
DATA = os.urandom(300_000)
Member = tuple[str, str | bytes | tuple[bytes, str]]


class Server(ThreadingHTTPServer):
    """Serves one file; `script` says what happens to each request, `whole` once it is at its end."""

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.script: list[Any] = []
        self.seen: list[tuple[str | None, str | None]] = []
        self.tag: str | None = '"one"'
        self.wish = "7"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/rows.jsonl"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def head(self, status: int, length: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def do_GET(self) -> None:
        server = self.server
        wanted, condition = self.headers.get("Range"), self.headers.get("If-Range")
        server.seen.append((wanted, condition))
        what = server.script.pop(0) if server.script else "whole"
        if isinstance(what, int):
            self.head(what, 0, Retry_After=server.wish)
            return
        content, start, status = server.content, 0, 200
        headers = {"ETag": server.tag} if server.tag is not None else {}
        if wanted is not None and what != "no-range" and condition in (None, server.tag):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.head(416, 0, Content_Range=f"bytes */{len(content)}")
                return
            status = 206
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.head(status, len(content) - start, **headers)
        body = content[start:]
        if what == "cut":
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(DATA) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def origin(server: Server, *, sha256: str | None = None, size: int | None = None) -> FileOrigin:
    digest = sha256 or hashlib.sha256(server.content).hexdigest()
    return FileOrigin(url=server.url, name="rows.jsonl", sha256=digest, bytes=size)


def unchecked(server: Server) -> FileOrigin:
    return origin(server).model_copy(update={"sha256": None})


def nothing(_: Any) -> None:
    pass


def test_a_connection_that_is_cut_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.script = ["cut", "cut", "cut"]
    lines: list[str] = []
    download(origin(server), tmp_path / "rows", lines.append, nothing)
    assert (tmp_path / "rows").read_bytes() == DATA
    assert [wanted for wanted, _ in server.seen] == [None, "bytes=150000-", "bytes=225000-", "bytes=262500-"]
    assert server.seen[1][1] == '"one"'
    assert "the connection was cut after 150000 of 300000 bytes; next try in 1 s" in lines[0]
    assert not list(tmp_path.glob("*.etag"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return tmp_path / "rows"


def test_what_an_earlier_process_left_is_gone_on_with(server: Server, rows: Path) -> None:
    rows.write_bytes(DATA[:1000])
    download(origin(server), rows, nothing, nothing)
    assert server.seen == [("bytes=1000-", None)]
    rows.write_bytes(DATA)
    download(origin(server), rows, nothing, nothing)
    assert len(server.seen) == 1, "all of it is there"


def test_a_part_of_another_file_is_thrown_away(server: Server, rows: Path) -> None:
    rows.write_bytes(b"another file")
    lines: list[str] = []
    download(origin(server), rows, lines.append, nothing)
    assert rows.read_bytes() == DATA
    assert any("fetching all of it again" in line for line in lines)


@pytest.mark.parametrize(("script", "tag"), [(["cut"], None), (["cut", "no-range"], '"one"')])
def test_without_a_tag_or_ranges_all_of_it_is_fetched_again(
    server: Server, rows: Path, script: list[Any], tag: str | None
) -> None:
    server.script, server.tag = script, tag
    download(origin(server) if tag else unchecked(server), rows, nothing, nothing)
    assert rows.read_bytes() == DATA
    assert tag or [wanted for wanted, _ in server.seen] == [None, None]


def test_a_file_that_is_replaced_meanwhile_is_fetched_whole(server: Server, rows: Path) -> None:
    server.script = ["cut"]

    def pause(_: float) -> None:
        server.content, server.tag = b"new" * 1000, '"two"'

    download(unchecked(server), rows, nothing, pause)
    assert rows.read_bytes() == b"new" * 1000


def test_a_busy_server_is_asked_again_when_it_says(server: Server, rows: Path) -> None:
    server.script = [503, 429, 500]
    waits: list[float] = []
    download(origin(server), rows, nothing, waits.append)
    assert waits == [7, 7, 7]
    rows.unlink()
    server.script, server.wish = [503], email.utils.formatdate(time.time() + 3600, usegmt=True)
    download(origin(server), rows, nothing, waits.append)
    assert waits[3:] == [60]  # as long as anybody waits


@pytest.mark.parametrize(
    ("script", "of", "message", "kept"),
    [
        (["cut", *[503] * 20], {}, r"answers 503.*KB are kept: repeat the command", 150_000),
        ([404], {}, "answers 404", None),
        ([], {"sha256": "0" * 64}, r"its sha256 is .*, and should be 0000", None),
        ([], {"size": 10}, "larger than the 10 bytes", None),
    ],
)
def test_a_server_that_stays_away_says_no_or_has_another_file_is_an_error(
    server: Server, rows: Path, script: list[Any], of: dict[str, Any], message: str, kept: int | None
) -> None:
    server.script = script
    with pytest.raises(InfrastructureError, match=message):
        download(origin(server, **of), rows, nothing, nothing)
    assert kept is None or rows.stat().st_size == kept
    assert kept or len(server.seen) == 1
    assert "sha256" not in of or not rows.exists()


def test_an_address_without_encryption_needs_a_checksum() -> None:
    with pytest.raises(ValueError, match="needs a sha256"):
        FileOrigin(url="http://example.org/rows", name="rows")


def entry(**changes: Any) -> Entry:
    return Entry.model_validate(
        {
            "name": "sums", "version": "1", "title": "Sums", "scenarios": 60, "licence": "MIT",
            "source": "pytest_benchjobs.sources.datasets.aime:sources", "environment": "none",
            "scoring": "exact", "files": [{"name": "test2024.jsonl"}], **changes,
        }
    )  # fmt: skip


def of(server: Server) -> Entry:
    server.content = ROWS.encode()
    digest = hashlib.sha256(server.content).hexdigest()
    return entry(files=[{"name": "test2024.jsonl", "url": server.url, "sha256": digest}])


def test_a_benchmark_is_fetched_once_and_mended(server: Server) -> None:
    wanted = of(server)
    lines: list[str] = []
    assert trouble(wanted) == "is not on this machine"
    assert fetch(wanted, lines.append)
    assert "30 of 60 scenarios" in lines[-1]
    assert not fetch(wanted, lines.append)
    assert len(server.seen) == 1
    record = state_of(wanted).record
    assert record is not None
    assert (record.scenarios, record.given) == (30, False)

    # A record as earlier versions wrote it says more of a file.
    manifest = wanted.directory / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"path"', '"sha256": "0", "path"'), "utf-8")
    assert trouble(wanted) is None

    rows = wanted.directory / "files" / "test2024.jsonl"
    rows.write_text("", "utf-8")
    assert trouble(wanted) == "was changed since it was fetched: test2024.jsonl"
    assert fetch(wanted, lines.append)
    rows.unlink()
    assert trouble(wanted) == "has lost test2024.jsonl"
    assert fetch(wanted, lines.append)
    (wanted.directory / "manifest.json").write_text("{", "utf-8")
    assert fetch(wanted, lines.append)
    assert trouble(wanted) is None
    names = sorted(path.name for path in wanted.directory.parent.iterdir())
    assert names == ["1", "1.lock"]


def test_an_interrupted_fetch_leaves_nothing_half_and_goes_on(server: Server) -> None:
    wanted = of(server)
    server.script = ["cut", 404]
    with pytest.raises(InfrastructureError, match="404"):
        fetch(wanted, nothing)
    assert not wanted.directory.exists()
    assert fetch(wanted, nothing)
    assert server.seen[-1][0] == f"bytes={len(ROWS) // 2}-"


def test_an_entry_of_another_origin_is_fetched_again(server: Server) -> None:
    wanted = of(server)
    fetch(wanted, nothing)
    other = wanted.model_copy(update={"prepare": "a.b:c"})
    assert trouble(other) == "was fetched from another origin than its entry names now"


def test_several_threads_fetch_it_once(server: Server) -> None:
    wanted = of(server)
    done: list[bool] = []
    threads = [threading.Thread(target=lambda: done.append(fetch(wanted, nothing))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, False, False, True]
    assert len(server.seen) == 1


def test_where_nobody_may_fetch_it_the_user_is_told_how() -> None:
    with pytest.raises(InputError, match="sign here, then: benchjobs"):
        fetch(entry(gated="sign here,\nthen: benchjobs benchmarks fetch sums --from FILE"), nothing)
    with pytest.raises(InputError, match="--from PATH"):
        fetch(entry(), nothing)


def _directory(path: Path) -> Path:
    path.mkdir(parents=True)
    _file(path / "test2024.jsonl")
    return path


def _nested(path: Path) -> Path:
    return _directory(path / "repository-main").parent


def _file(path: Path) -> Path:
    path.write_text(ROWS, "utf-8")
    return path


def _tar(path: Path) -> Path:
    return _packed(path, ("repository-main/test2024.jsonl", ROWS.encode()), mode="w:gz")


def _zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("repository-main/test2024.jsonl", ROWS)
    return path


@pytest.mark.parametrize("make", [_directory, _nested, _file, _tar, _zip])
def test_a_user_gives_it_in_any_form(make: Callable[[Path], Path], tmp_path: Path) -> None:
    lines: list[str] = []
    assert fetch(entry(), lines.append, given=make(tmp_path / "given"))
    assert "30 of 60 scenarios" in lines[-1]
    assert names(entry()) == ["test2024.jsonl"]
    assert trouble(entry()) is None


@pytest.mark.parametrize(
    "name", ["given", "given/test2024.jsonl", "given/mine.jsonl", "given/a/b/test2024.jsonl", "given/x.txt"]
)
def test_the_file_a_user_gives_is_checked_alone_and_in_a_directory(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    _file(file)
    for sha256, is_right in (
        ("0" * 64, False),
        (hashlib.sha256(file.read_bytes()).hexdigest(), "x.txt" not in name),
    ):
        wanted = entry(files=[{"name": "test2024.jsonl", "sha256": sha256}])
        if is_right:
            assert fetch(wanted, nothing, given=tmp_path / "given")
            assert names(wanted) == ["test2024.jsonl"]
        else:
            with pytest.raises(InputError, match=r"given: is not test2024.jsonl of sums@1: its sha256 is"):
                fetch(wanted, nothing, given=tmp_path / "given")


def test_what_is_not_the_benchmark_is_refused_and_what_was_there_stays(tmp_path: Path) -> None:
    fetch(entry(), nothing, given=_file(tmp_path / "good"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: is not sums@1: .*there are no"):
        fetch(entry(), nothing, given=tmp_path / "empty")
    (tmp_path / "bad").write_text('{"id": 1}\n', "utf-8")
    with pytest.raises(InputError, match=r"bad: is not sums@1: test2024.jsonl:1: the row has no"):
        fetch(entry(source="tests.unit.test_fetching:strict"), nothing, given=tmp_path / "bad")
    assert trouble(entry()) is None
    assert sorted(path.name for path in entry().directory.parent.iterdir()) == ["1", "1.lock"]


def strict(wanted: Entry, directory: Path) -> Any:
    """A source that asks each row for its problem."""
    from pytest_benchjobs.sources.datasets.aime import AIME

    class Strict(AIME):
        def ref(self, row: Any) -> Any:
            return row["problem"] and super().ref(row)

    return [Strict(directory / "test2024.jsonl", wanted, "2024")]


def whole(**changes: Any) -> Entry:
    """An entry of all of a repository."""
    return entry(files=[], git={"repository": "https://example.org/x", "commit": "0" * 40}, **changes)


def names(wanted: Entry) -> list[str]:
    """Files of a benchmark that was fetched."""
    return sorted(file.path for file in state_of(wanted).record.files)  # type: ignore[union-attr]


def test_a_checkout_whose_links_lead_out_is_refused(tmp_path: Path) -> None:
    given = _directory(tmp_path / "given" / "data")
    (given.parent / ".git").mkdir()
    (given / "key").symlink_to("/etc/hostname")
    for place in (given, given.parent):
        with pytest.raises(InputError, match=r"link that leads out of it: .*key") as caught:
            fetch(whole(), nothing, given=place)
        assert str(tmp_path / "cache") not in str(caught.value)


def test_links_to_files_are_followed_where_the_user_names_them(tmp_path: Path) -> None:
    """A cache of files by their digests, as of Hugging Face, has links for names."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "0a1b").write_text(ROWS, "utf-8")
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (snapshot / "test2024.jsonl").symlink_to("../../blobs/0a1b")
    (snapshot / "again.txt").symlink_to("test2024.jsonl")
    (tmp_path / "link").symlink_to(snapshot)
    for given in (snapshot / "test2024.jsonl", snapshot, tmp_path / "link"):
        for wanted in (entry(), whole()):
            fetch(wanted, nothing, given=given)
            assert state_of(wanted).record.scenarios == 30  # type: ignore[union-attr]
            assert not (wanted.directory / "files" / "test2024.jsonl").is_symlink()
    assert (whole().directory / "files" / "again.txt").read_text("utf-8") == ROWS


def test_a_directory_that_holds_the_cache_is_not_copied_into_itself(tmp_path: Path) -> None:
    _directory(tmp_path / "given")
    with pytest.raises(InputError, match="contains the cache directory to which it would be copied"):
        fetch(whole(), nothing, given=tmp_path)


def test_the_only_directory_in_what_is_named_keeps_its_name(tmp_path: Path) -> None:
    given = tmp_path / "given"
    _directory(given / "python" / "exercises")
    fetch(whole(), nothing, given=given)
    assert names(whole()) == ["python/exercises/test2024.jsonl"]
    packed = tmp_path / "given.tar"
    with tarfile.open(packed, "w") as tar:
        tar.add(given, "repository-main")
    fetch(whole(), nothing, given=packed)
    assert names(whole()) == ["python/exercises/test2024.jsonl"]


def _packed(path: Path, *members: Member, mode: Literal["w", "w:gz"] = "w") -> Path:
    """An archive: of each member the name, and the content of a file, the target of a link, or its kind."""
    with tarfile.open(path, mode) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            elif isinstance(content, bytes):
                member.size = len(content)
            else:
                member.type, member.linkname = content
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("d1/d2/d3/a", "../../../z"), ("d1/d2/d3/a/x/made/link", "y")], "a file below a link"),
        ([("a", "b"), ("a/c", b"")], "holds a file twice: 'a'"),
        ([("a/b/q", "../.."), ("e", "a/b/q/../evil")], "link that leads out of it: 'e'"),
        ([("d", "e"), ("d", "f")], "holds a file twice: 'd'"),
        ([("a", b""), ("a/b/c", b"")], "holds a file twice|cannot be unpacked: Not a directory"),
        ([("x" * 300, b"")], "cannot be unpacked: File name too long"),
        ([("loop", "loop/x"), ("a", "loop")], None),
        ([("../evil", b"")], "outside of it"),
        ([("/evil", b"")], "outside of it"),
        ([("evil", "/etc/passwd")], "link that leads out"),
        ([("evil", "a/../../x")], "link that leads out"),
        ([("evil", (tarfile.FIFOTYPE, ""))], "not a regular file"),
        ([("evil", (tarfile.LNKTYPE, "test2024.jsonl"))], "not a regular file"),
        ([("test2024.jsonl", b"")], "holds a file twice"),
    ],
)
def test_an_archive_gets_no_further_than_its_directory(
    members: list[Member], message: str | None, tmp_path: Path
) -> None:
    given = _packed(tmp_path / "evil.tar", ("test2024.jsonl", ROWS.encode()), *members)
    before = set(tmp_path.parent.iterdir())
    if message is None:
        assert fetch(entry(), nothing, given=given)
    else:
        with pytest.raises(InputError, match=message) as caught:
            fetch(entry(), nothing, given=given)
        assert str(caught.value).startswith(f"{given}: ")
    assert set(tmp_path.parent.iterdir()) == before
    assert not list((tmp_path / "cache").rglob("made"))


def test_every_member_of_an_archive_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_benchjobs.sources.catalogue.given.MAX_FILES", 3)
    for number, content in enumerate(("a", b"")):
        members = [(str(name), content) for name in range(4)]
        with pytest.raises(InputError, match="holds too much"):
            fetch(whole(), nothing, given=_packed(tmp_path / f"{number}.tar", *members))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("expected_output"), "KeyError: 'expected_output'"),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (AttributeError("'list' object has no attribute 'get'"), "AttributeError: 'list'"),
        (IsADirectoryError(21, "Is a directory", "tasks.json"), "Is a directory: tasks.json"),
    ],
)
def test_data_that_cannot_be_read_is_one_error(
    error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.test_fetching.nothing", mock.Mock(side_effect=error))
    wanted = entry(prepare="tests.unit.test_fetching:nothing")
    with pytest.raises(InputError) as caught:
        fetch(wanted, lambda _: None, given=_file(tmp_path / "given"))
    assert str(caught.value).startswith(f"{tmp_path / 'given'}: is not sums@1: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.gz", "v9.parquet"])
def test_rows_in_another_form_keep_their_name_where_the_entry_takes_them(name: str, tmp_path: Path) -> None:
    wanted = entry(
        files=[{"name": "rows.parquet", "sha256": "0" * 64, "url": "https://example.org/long-name.parquet"}],
        prepare="tests.unit.test_fetching:note",
        other_rows=[".parquet", ".jsonl", ".jsonl.gz"],
    )
    (tmp_path / name).write_text(ROWS, "utf-8")
    fetch(wanted, nothing, given=tmp_path / name)
    assert names(wanted) == sorted(["test2024.jsonl", f"{name}.seen"])
    for other in ("rows.parquet", "long-name.parquet", "download"):
        (tmp_path / other).write_text(ROWS, "utf-8")
        with pytest.raises(InputError, match=r"is not rows.parquet of sums@1: its sha256"):
            fetch(wanted, nothing, given=tmp_path / other)


def note(fetched: Path, directory: Path) -> None:
    """Note the names that were fetched."""
    (directory / "test2024.jsonl").write_text(ROWS, "utf-8")
    for path in fetched.iterdir():
        (directory / f"{path.name}.seen").touch()


def test_a_damaged_archive_is_one_error(tmp_path: Path) -> None:
    good = _tar(tmp_path / "good.tar.gz").read_bytes()
    (tmp_path / "bad.tar.gz").write_bytes(good[: len(good) // 2])
    with pytest.raises(InputError, match="is damaged"):
        fetch(entry(), nothing, given=tmp_path / "bad.tar.gz")


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str]:
    """Address and commit of a repository that has moved on since."""
    root = tmp_path / "repository"
    _directory(root / "eval" / "data")
    (root / "large.bin").write_bytes(os.urandom(1000))
    git(root, "init", "--quiet")
    git(root, "config", "uploadpack.allowFilter", "true")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "one")
    commit = git(root, "rev-parse", "HEAD")
    (root / "eval" / "data" / "test2024.jsonl").write_text("{}", "utf-8")
    git(root, "commit", "--quiet", "--all", "-m", "two")
    return root.as_uri(), commit


def from_git(repository: tuple[str, str], **changes: Any) -> Entry:
    git = {"repository": repository[0], "commit": repository[1], "paths": ["eval/data"], **changes}
    return entry(files=[], git=git)


def test_one_commit_of_a_repository_is_fetched_and_of_it_what_is_needed(repository: tuple[str, str]) -> None:
    wanted = from_git(repository)
    assert fetch(wanted, nothing)
    assert names(wanted) == ["test2024.jsonl"]
    assert [path.name for path in (wanted.directory / "files").glob("*.jsonl")] == ["test2024.jsonl"]
    assert state_of(wanted).record.scenarios == 30  # type: ignore[union-attr]
    assert not (wanted.directory / "files" / "large.bin").exists()


def test_a_commit_that_is_not_there_is_one_error(repository: tuple[str, str]) -> None:
    with pytest.raises(InfrastructureError, match="git fetch failed: "):
        fetch(from_git((repository[0], "1" * 40)), nothing)
    with pytest.raises(InfrastructureError, match="has no eval/nothing"):
        fetch(from_git(repository, paths=["eval/nothing", "eval/data"]), nothing)


@pytest.mark.parametrize(
    ("target", "changes"),
    [
        ("{outside}", {"paths": ["tasks"]}),
        ("../outside", {"placed": {"tasks/test2024.jsonl": "test2024.jsonl"}}),
        ("eval", {"paths": ["tasks"]}),
    ],
)
def test_a_link_in_a_repository_gets_nothing_of_this_machine(
    target: str, changes: dict[str, Any], repository: tuple[str, str], tmp_path: Path
) -> None:
    outside = _directory(tmp_path / "outside")
    root = tmp_path / "repository"
    (root / "tasks").symlink_to(target.format(outside=outside))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "link")
    wanted = from_git((repository[0], git(root, "rev-parse", "HEAD")), **{"paths": [], **changes})
    with pytest.raises(InfrastructureError, match=r"has a link to elsewhere at tasks|has no tasks"):
        fetch(wanted, nothing)
    assert not wanted.directory.exists()


def test_nothing_is_copied_through_a_link(tmp_path: Path) -> None:
    """Of several places that are put into one, the first must not lead the second elsewhere."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a").symlink_to(tmp_path)
    _directory(tmp_path / "two" / "a")
    take(tmp_path / "one", tmp_path / "target", "")
    for taken, place in (("two", ""), ("two/a", "a/b"), ("two/a/test2024.jsonl", "a/test2024.jsonl")):
        with pytest.raises(InputError, match="must be a directory, but is a link"):
            take(tmp_path / taken, tmp_path / "target", place)
    assert not (tmp_path / "test2024.jsonl").exists()


def test_a_repository_given_as_a_directory_is_taken_for_its_checkout(
    repository: tuple[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "repository"
    (root / "eval" / "data" / "test2024.jsonl").write_text(ROWS, "utf-8")
    assert fetch(from_git(repository), nothing, given=root)
    assert names(from_git(repository)) == ["test2024.jsonl"]


@pytest.mark.parametrize(
    ("paths", "places"),
    [
        ([], {"": ""}),
        (["eval/data"], {"eval/data": ""}),
        (["src/papers", "src/tasks"], {"src/papers": "papers", "src/tasks": "tasks"}),
        (["go/x", "rust/x"], {"go/x": "go/x", "rust/x": "rust/x"}),
        (["/etc"], None),
        (["a/../../b"], None),
    ],
)
def test_what_paths_have_in_common_is_left_out(paths: list[str], places: dict[str, str] | None) -> None:
    written = {"repository": "https://x", "commit": "0" * 40, "paths": paths}
    if places is None:
        with pytest.raises(ValueError, match="relative path"):
            GitOrigin.model_validate(written)
    else:
        assert GitOrigin.model_validate(written).places == places


def test_a_registry_of_harbor_is_read(tmp_path: Path, repository: tuple[str, str]) -> None:
    url, commit = repository
    task = {"name": "one", "git_url": url, "git_commit_id": commit, "path": "eval/data", "other": 1}
    datasets = [
        {"name": "bench", "version": "1.9", "description": "Old", "tasks": [task]},
        {"name": "bench", "version": "1.10", "description": "New\none", "tasks": [task]},
        {"name": "floating", "version": "head", "tasks": [{**task, "git_commit_id": None}]},
    ]
    path = tmp_path / "registry.json"
    path.write_text(json.dumps(datasets), "utf-8")
    entries, problems = read_registry(path)
    expected = [("bench", "1.10", "New one", 1), ("bench", "1.9", "Old", 1)]
    assert [(one.name, one.version, one.title, one.scenarios) for one in entries] == expected
    assert entries[0].git[0].places == {"eval/data": "one"}
    assert problems == ["floating@head: git[0].commit: 'none' does not match ^[0-9a-f]{40}$"]
    known = Lookup([tmp_path], entries)
    assert (known.find("BENCH"), known.find("bench@1.9")) == tuple(entries)
    with pytest.raises(InputError, match=r"^bench is known in version 1\.10, 1\.9, not '3'$"):
        known.find("bench@3")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"name": "a", "tasks": []}]'])
def test_what_is_no_registry_is_one_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "registry.json").write_text(text, "utf-8")
    with pytest.raises(InputError, match="is not a Harbor registry"):
        read_registry(tmp_path / "registry.json")
