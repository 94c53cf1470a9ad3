"""Secrets stored on this machine, and the lookup of a name: environment, env files, then this store.

A value is in the system's keyring, if the package `keyring` is installed and has a secure backend; else in a file that
only its owner can read. The file lists the names and times of all secrets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import functools
import hashlib
import hmac
import importlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import Field, ValidationError

from ..model.base import Model
from ..model.environ import HOST, Variable
from ..model.errors import InputError

DIRECTORY = "BENCHJOBS_CONFIG"
"""Variable with the directory; by default that of the user's configuration."""
FILE = "secrets.json"
MAX_LENGTH = 64 << 10
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SERVICE = "benchjobs"
_USABLE = 1.0
"""Lowest priority of keyring's secure backends."""


class _Entry(Model, defer_build=True):
    value: str | None = Field(default=None, repr=False)
    """None: it is in the keyring."""
    set_at: datetime.datetime


class _Stored(Model, defer_build=True):
    version: int = 1
    salt: str
    secrets: dict[str, _Entry] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A secret, without its value."""

    name: str
    in_keyring: bool
    set_at: datetime.datetime
    fingerprint: str | None
    """Equal for equal values on this machine. None: the keyring no longer has the secret."""


class SecretStore:
    """The secrets of a user on this machine."""

    def __init__(self) -> None:
        named = os.environ.get(DIRECTORY)
        usual = platformdirs.user_config_path("benchjobs")
        directory = Path(named).absolute() if named else usual
        self.path = directory / FILE
        # Another directory has other secrets, also in the keyring.
        self._service = _SERVICE if directory == usual else f"{_SERVICE} {directory}"

    @functools.cached_property
    def _keyring(self) -> Any:
        return usable_keyring()  # on first use: the package is slow to import

    def get(self, name: str) -> Variable | None:
        """Return a stored secret. InputError: the file is damaged or open to others, or the keyring refuses access."""
        entry = self._read().secrets.get(name)
        if entry is None:
            return None
        value = self._value(name, entry)
        return None if value is None else Variable(value, self.place(in_keyring=entry.value is None))

    def kept(self) -> list[Kept]:
        """Return every secret, by name. InputError: as `get`."""
        stored = self._read()
        return [
            Kept(
                name=name,
                in_keyring=entry.value is None,
                set_at=entry.set_at,
                fingerprint=_fingerprint(stored.salt, self._value(name, entry)),
            )
            for name, entry in sorted(stored.secrets.items())
        ]

    def set(self, name: str, value: str) -> Kept:
        """Store a secret, in place of one of that name. InputError: as `get`, or name or value are invalid."""
        check_name(name)
        _check_value(value)
        with self._changing() as stored:
            if self._keyring is not None:
                with _asking_keyring():
                    self._keyring.set_password(self._service, name, value)
            kept_here = value if self._keyring is None else None
            stored[name] = _Entry(value=kept_here, set_at=datetime.datetime.now(datetime.UTC))
        return next(kept for kept in self.kept() if kept.name == name)

    def delete(self, name: str) -> bool:
        """Delete a secret; return whether it existed. InputError: as `set`."""
        with self._changing() as stored:
            entry = stored.pop(name, None)
            if entry is not None and self._value(name, entry) is not None and entry.value is None:
                with _asking_keyring():
                    self._needed_keyring(name).delete_password(self._service, name)
        return entry is not None

    def place(self, *, in_keyring: bool) -> str:
        """Return the name of the place of secrets, for messages."""
        return "the keyring" if in_keyring else str(self.path)

    def _value(self, name: str, entry: _Entry) -> str | None:
        if entry.value is not None:
            return entry.value
        with _asking_keyring():
            kept: str | None = self._needed_keyring(name).get_password(self._service, name)
            return kept

    def _needed_keyring(self, name: str) -> Any:
        if self._keyring is None:
            raise InputError(
                f"the secret {name} is in the keyring of this system, which cannot be used now; install the package "
                f"keyring, or set it again with `benchjobs secret set {name}`"
            )
        return self._keyring

    def _read(self) -> _Stored:
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read()
        except FileNotFoundError:
            return _Stored(salt=secrets.token_hex(16))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=self.path) from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InputError(
                "others on this machine can read it, so its secrets may have leaked; "
                f"replace them at their providers, then `chmod 600 {self.path}`",
                path=self.path,
            )
        try:
            stored = _Stored.model_validate_json(content)
        except ValidationError:  # its message would quote the content
            stored = None
        if stored is None or stored.version != 1:
            raise InputError(
                "is damaged, or of a newer version; upgrade, or remove it and set the secrets again",
                path=self.path,
            )
        return stored

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, _Entry]]:
        """Yield the entries of the file under its lock, and write them at the end atomically."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(f".{FILE}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=self.path) from None
        try:
            with contextlib.suppress(OSError):  # on file systems without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            stored = self._read()
            entries = dict(stored.secrets)
            yield entries
            if entries != stored.secrets:
                self._write(stored.model_copy(update={"secrets": entries}))
        finally:
            os.close(lock)

    def _write(self, stored: _Stored) -> None:
        temporary = self.path.with_name(f".{FILE}.{secrets.token_hex(4)}")
        try:
            try:
                with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(stored.model_dump_json(indent=1).encode())
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=self.path) from None


def find(name: str) -> Variable | None:
    """Look up a value and its place: the environment, an env file, or the store. An empty value does not count."""
    found = HOST.find(name)
    return SecretStore().get(name) if found is None else found


def lookup(name: str) -> str | None:
    """Return the value that `find` returns. InputError: as `SecretStore.get`."""
    found = find(name)
    return None if found is None else found.value


def check_name(name: str) -> None:
    """Validate the name of a secret. InputError: it is invalid."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:100]!r} is not a valid secret name; use letters, digits, '_', '-' and '.', at most 100"
        )


def usable_keyring() -> Any:
    """Return the system's secure keyring by the package `keyring`, if there is one."""
    try:
        backend = importlib.import_module("keyring").get_keyring()
        usable = backend.priority >= _USABLE
    except Exception:  # missing, or a backend that fails in any way
        return None
    return backend if usable else None


def _check_value(value: str) -> None:
    if not value:
        raise InputError("the value is empty")
    if "\0" in value or value.encode("utf-8", "replace").decode() != value:
        raise InputError("the value is not text, or has a NUL character, which no variable can hold")
    if len(value) > MAX_LENGTH:
        raise InputError(f"the value has more than {MAX_LENGTH} characters")


@contextlib.contextmanager
def _asking_keyring() -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each backend has its own errors, which may reveal secrets
        raise InputError(
            f"the keyring refused access ({type(error).__name__}); unlock it, or keep secrets in a file instead: "
            "PYTHON_KEYRING_BACKEND=keyring.backends.fail.Keyring"
        ) from None


def _fingerprint(salt: str, value: str | None) -> str | None:
    """Return a few digits of a keyed digest: without the salt, values cannot even be guessed."""
    if value is None:
        return None
    return hmac.new(salt.encode(), value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:8]
