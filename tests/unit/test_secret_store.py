"""Secrets that are kept: in the keyring or in a file, by one user on one machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pty
import subprocess
import sys
import types
from pathlib import Path

import pytest

from pytest_benchjobs.model.environ import HOST, Variable
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.settings.secret_store import DIRECTORY, FILE, SecretStore, find, lookup

from ..console import COMMAND
from .jobs import documents, run

pytestmark = pytest.mark.when_changed

VALUE = "hunter2-hunter2"


class FakeKeyring:
    """A backend of the package `keyring`."""

    priority = 5.0

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}
        self.locked = False

    def _unlocked(self) -> dict[tuple[str, str], str]:
        if self.locked:
            raise RuntimeError(f"locked, with {self.values}")
        return self.values

    def get_password(self, service: str, username: str) -> str | None:
        return self._unlocked().get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._unlocked()[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self._unlocked()[service, username]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "config"))
    monkeypatch.setitem(sys.modules, "keyring", None)
    # In processes of their own a keyring, if there is one, refuses.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return tmp_path / "config"


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    return use(monkeypatch)


def use(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    backend, package = FakeKeyring(), types.ModuleType("keyring")
    package.get_keyring = lambda: backend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", package)
    return backend


SET = [*COMMAND, "secret", "set"]


def set_by_pipe(stdin: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Set a secret in a process of its own."""
    return subprocess.run([*SET, *arguments], input=stdin, capture_output=True, check=False)


# The file


def test_what_is_kept_is_found_until_it_is_deleted(directory: Path) -> None:
    store = SecretStore()
    assert (store.kept(), lookup("MY_KEY")) == ([], None)
    assert not directory.exists(), "nothing is made before something is kept"
    store.set("MY_KEY", VALUE)
    store.set("other.key-2", "another")
    assert SecretStore().get("MY_KEY") == Variable(VALUE, str(store.path))
    assert [kept.name for kept in store.kept()] == ["MY_KEY", "other.key-2"]
    store.set("MY_KEY", "changed")
    assert lookup("MY_KEY") == "changed"
    assert store.delete("MY_KEY")
    assert not store.delete("MY_KEY")
    assert lookup("MY_KEY") is None
    assert lookup("other.key-2") == "another"


def test_only_its_owner_can_read_it(directory: Path) -> None:
    before = os.umask(0)
    try:
        SecretStore().set("MY_KEY", VALUE)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (directory, *directory.iterdir())}
    assert modes == {directory.name: 0o700, FILE: 0o600, f".{FILE}.lock": 0o600}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_is_open_to_others_is_refused(directory: Path, mode: int) -> None:
    store = SecretStore()
    store.set("MY_KEY", VALUE)
    store.path.chmod(mode)
    changes = (lambda: store.set("OTHER", "x"), lambda: store.delete("MY_KEY"))
    for action in (lambda: lookup("MY_KEY"), store.kept, *changes):
        with pytest.raises(InputError, match=r"others on this machine can read it.*`chmod 600 ") as caught:
            action()
        assert str(caught.value).startswith(f"{store.path}: ")
        assert VALUE not in str(caught.value)


@pytest.mark.parametrize(
    "content", ["", "{", '{"secrets": {"MY_KEY": {"value": "hunter2"}}}', '{"version": 2, "salt": ""}']
)
def test_a_damaged_file_is_refused_without_a_word_of_it(directory: Path, content: str) -> None:
    directory.mkdir()
    (directory / FILE).touch(0o600)
    (directory / FILE).write_text(content)
    with pytest.raises(InputError, match="is damaged, or of a newer version") as caught:
        lookup("MY_KEY")
    assert "hunter2" not in str(caught.value)


def test_a_directory_that_refuses_is_named(directory: Path) -> None:
    directory.write_text("a file")
    with pytest.raises(InputError, match=rf"{FILE}: cannot be written: "):
        SecretStore().set("MY_KEY", VALUE)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("", "x", "is not a valid secret name"), ("-x", "x", "is not a valid secret name"),
        ("a b", "x", "is not a valid secret name"), ("a" * 101, "x", "is not a valid secret name"),
        ("A", "", "the value is empty"), ("A", "x\0", "NUL"), ("A", "\udcff", "is not text"),
        ("A", "x" * 70_000, "more than 65536 characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_secret_is_refused(directory: Path, name: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SecretStore().set(name, value)
    assert not directory.exists()


def _set(number: int) -> None:
    SecretStore().set(f"KEY_{number}", f"value-{number}")


def test_processes_that_set_at_once_lose_nothing() -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.map(_set, range(12), chunksize=1)
        pool.close()
        pool.join()
    assert {kept.name for kept in SecretStore().kept()} == {f"KEY_{number}" for number in range(12)}


def test_a_fingerprint_tells_equal_values_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SecretStore()
    store.set("A", VALUE)
    store.set("B", VALUE)
    store.set("C", "other")
    one, same, other = (kept.fingerprint for kept in store.kept())
    assert one == same != other
    assert one is not None
    assert len(one) == 8
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "elsewhere"))
    elsewhere = SecretStore().set("A", VALUE)
    assert elsewhere.fingerprint != one


# The keyring


def test_values_are_in_the_keyring_where_there_is_one(keyring: FakeKeyring, directory: Path) -> None:
    store = SecretStore()
    kept = store.set("MY_KEY", VALUE)
    assert kept.in_keyring
    assert list(keyring.values.values()) == [VALUE]
    assert VALUE not in (directory / FILE).read_text()
    assert SecretStore().get("MY_KEY") == Variable(VALUE, "the keyring")
    assert store.delete("MY_KEY")
    assert keyring.values == {}
    assert lookup("MY_KEY") is None


def test_a_keyring_that_protects_nothing_is_not_used(keyring: FakeKeyring, directory: Path) -> None:
    keyring.priority = 0.5
    SecretStore().set("MY_KEY", VALUE)
    assert keyring.values == {}
    assert VALUE in (directory / FILE).read_text()


def test_a_secret_moves_to_the_keyring_when_it_is_set_again(
    monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    SecretStore().set("MY_KEY", VALUE)
    use(monkeypatch)
    assert lookup("MY_KEY") == VALUE
    SecretStore().set("MY_KEY", VALUE)
    assert VALUE not in (directory / FILE).read_text()
    assert lookup("MY_KEY") == VALUE


def test_a_keyring_that_is_gone_is_an_error_and_not_a_missing_secret(
    keyring: FakeKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    SecretStore().set("MY_KEY", VALUE)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(InputError, match="MY_KEY is in the keyring of this system, which cannot be used now"):
        lookup("MY_KEY")


def test_a_locked_keyring_is_an_error_in_our_words(keyring: FakeKeyring) -> None:
    SecretStore().set("MY_KEY", VALUE)
    keyring.locked = True
    for action in (lambda: lookup("MY_KEY"), lambda: SecretStore().set("OTHER", "x"), SecretStore().kept):
        with pytest.raises(
            InputError, match=r"the keyring refused access \(RuntimeError\); unlock it"
        ) as caught:
            action()
        assert VALUE not in str(caught.value)


def test_what_somebody_took_out_of_the_keyring_is_listed_as_gone(
    keyring: FakeKeyring, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SecretStore()
    store.set("MY_KEY", VALUE)
    keyring.values.clear()
    assert lookup("MY_KEY") is None
    assert run("secret", "list") == 0
    assert "is gone" in capsys.readouterr().out
    assert store.delete("MY_KEY")
    assert store.kept() == []


def test_another_directory_has_other_secrets_in_the_same_keyring(
    keyring: FakeKeyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SecretStore().set("MY_KEY", VALUE)
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "elsewhere"))
    assert lookup("MY_KEY") is None
    SecretStore().set("MY_KEY", "other")
    assert sorted(keyring.values.values()) == sorted([VALUE, "other"])


# Where a name is looked up


def test_the_environment_comes_first_if_it_is_not_empty_then_env_files_then_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    SecretStore().set("MY_KEY", "kept")
    undo = HOST.lay_below({"MY_KEY": Variable("from-file", ".env")})
    try:
        monkeypatch.setenv("MY_KEY", "real")
        assert find("MY_KEY") == Variable("real", "the environment")
        assert HOST["MY_KEY"] == "real"
        monkeypatch.delenv("MY_KEY")
        assert find("MY_KEY") == Variable("from-file", ".env")
        assert HOST["MY_KEY"] == "from-file"
        assert "MY_KEY" not in os.environ
    finally:
        undo()
    assert lookup("MY_KEY") == "kept"
    assert "MY_KEY" not in HOST
    monkeypatch.setenv("MY_KEY", "")
    assert lookup("MY_KEY") == "kept"


def test_the_variables_of_this_machine_are_in_no_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", VALUE)
    assert VALUE not in repr(HOST)
    assert {"MY_KEY"} <= set(HOST)
    assert len(HOST) == len(list(HOST))


# The command


@pytest.mark.parametrize("value", [VALUE, "-----BEGIN\nkey\n-----END"])
def test_a_value_is_read_from_standard_input(directory: Path, value: str) -> None:
    done = set_by_pipe(f"{value}\r\n".encode(), "MY_KEY")
    assert (done.returncode, done.stderr) == (0, b"")
    assert value.encode() not in done.stdout
    assert done.stdout.startswith(f"MY_KEY is kept in {directory / FILE} (".encode())
    assert lookup("MY_KEY") == value


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["MY_KEY"], b"", "the value is empty"),
        (["MY_KEY"], b"\xff\xfe", "is not UTF-8 text"),
        (["MY_KEY", VALUE], b"", "do not give the value as an argument"),
        (["MY_KEY=" + VALUE], b"", "do not give the value as an argument"),
        (["sk-" + "hunter2" * 5], b"x", "that looks like a key itself"),
    ],
)
def test_what_cannot_be_kept_is_one_line_that_repeats_nothing(
    directory: Path, arguments: list[str], stdin: bytes, message: str
) -> None:
    done = set_by_pipe(stdin, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert message.encode() in done.stderr
    assert b"hunter2" not in done.stderr
    assert not directory.exists()


def test_a_terminal_is_asked_and_shows_nothing(directory: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*SET, "MY_KEY"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_control,
    )
    os.close(theirs)
    seen = b""
    try:
        while b"Value of MY_KEY:" not in seen:
            seen += os.read(ours, 1000)
        os.write(ours, f"{VALUE}\n".encode())
        with contextlib.suppress(OSError):  # nobody is at the other end any more
            while chunk := os.read(ours, 1000):
                seen += chunk
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert VALUE.encode() not in seen
    assert lookup("MY_KEY") == VALUE


def _control() -> None:
    """Make the terminal the one that the process reads passwords from."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_secrets_are_listed_without_their_values(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("secret", "list") == 0
    assert capsys.readouterr() == ("", "no secrets are kept\n")
    SecretStore().set("MY_KEY", VALUE)
    SecretStore().set("GITHUB", "other")
    assert run("secret", "list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("GITHUB  file     ")
    assert second.startswith("MY_KEY  file     ")
    document = documents(capsys, "secret", "secret", "list")
    assert VALUE not in str(document)
    assert document["file"] == str(directory / FILE)
    kept = [(item["name"], item["kept"]) for item in document["secrets"]]
    assert kept == [("GITHUB", "file"), ("MY_KEY", "file")]


def test_a_secret_is_deleted_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    SecretStore().set("MY_KEY", VALUE)
    assert run("secret", "delete", "MY_KEY") == 0
    assert capsys.readouterr().out == "deleted secret MY_KEY\n"
    assert run("secret", "delete", "MY_KEY") == 2
    assert "no secret 'MY_KEY' is kept" in capsys.readouterr().err
