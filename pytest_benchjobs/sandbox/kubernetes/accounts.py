"""Users and groups of an image, from its own tables: the cluster runs commands as nobody but root. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...model.errors import EnvironmentFailed
from ..protocol import ROOT

_HOME = "/"


@dataclasses.dataclass(frozen=True, slots=True)
class Ids:
    """A user as `serve` takes it."""

    uid: str
    gids: str
    """The user's group first, then others: `1000,27`."""
    home: str


class Accounts:
    """What `/etc/passwd` and `/etc/group` say; lines that make no sense are none."""

    def __init__(self, passwd: bytes, group: bytes) -> None:
        users = [row for row in _rows(passwd, 7) if _is_number(row[2]) and _is_number(row[3])]
        self._users = {row[0]: row for row in reversed(users)}
        self._by_number = {row[2]: row for row in reversed(users)}
        groups = [row for row in _rows(group, 4) if _is_number(row[2])]
        self._groups = {row[0]: row[2] for row in reversed(groups)}
        self._members: Mapping[str, list[str]] = {
            row[2]: [name for name in row[3].split(",") if name] for row in groups
        }

    def ids(self, user: str) -> Ids:
        """Return who a user is: `name`, `uid`, `name:group` or `uid:gid`.

        Raises EnvironmentFailed: there is no such user or group.
        """
        name, _, group = user.partition(":")
        row = self._users.get(name) or self._by_number.get(name)
        if row is None and name in ROOT:
            row = ["root", "", "0", "0", "", "/root", ""]
        if row is None and not _is_number(name):
            raise EnvironmentFailed(f"there is no user {name!r} in the image")
        uid, gid, home = (name, "0", _HOME) if row is None else (row[2], row[3], row[5] or _HOME)
        if group:
            return Ids(uid, self._gid(group), home)
        others = [
            number for number, members in self._members.items() if row is not None and row[0] in members
        ]
        return Ids(uid, ",".join(dict.fromkeys((gid, *others))), home)

    def _gid(self, group: str) -> str:
        found = self._groups.get(group) or (group if _is_number(group) else None)
        if found is None:
            raise EnvironmentFailed(f"there is no group {group!r} in the image")
        return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _rows(table: bytes, columns: int) -> list[list[str]]:
    rows = (line.split(":") for line in table.decode("utf-8", "surrogateescape").split("\n"))
    return [row for row in rows if len(row) == columns]
