"""Users and groups of an image are read as its own tables have them, whatever is in these."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import EnvironmentFailed
from pytest_benchjobs.sandbox.kubernetes.accounts import Accounts, Ids

PASSWD = b"""root:x:0:0:root:/root:/bin/sh
dev:x:1000:1000:A\xe2\x80\xa8Name,,,:/home/dev:/bin/sh
homeless:x:1001:1000:::
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
dev:x:7:7:the second one is nobody:/:/bin/sh
short:x:5
wrong:x:five:5:::
super:x:\xc2\xb2:5:::
"""
GROUP = b"root:x:0:\ndev:x:1000:\nsudo:x:27:dev,homeless\nvideo:x:44:,dev,\nhalf:x\n"


@pytest.mark.parametrize(
    ("user", "ids"),
    [
        ("root", Ids("0", "0", "/root")),
        ("0", Ids("0", "0", "/root")),
        ("dev", Ids("1000", "1000,27,44", "/home/dev")),
        ("1000", Ids("1000", "1000,27,44", "/home/dev")),
        ("homeless", Ids("1001", "1000,27", "/")),
        ("dev:video", Ids("1000", "44", "/home/dev")),
        ("dev:4711", Ids("1000", "4711", "/home/dev")),
        ("4711", Ids("4711", "0", "/")),
        ("4711:sudo", Ids("4711", "27", "/")),
        ("0:0", Ids("0", "0", "/root")),
    ],
)
def test_a_user_is_who_the_tables_say(user: str, ids: Ids) -> None:
    assert Accounts(PASSWD, GROUP).ids(user) == ids


def test_root_needs_no_tables() -> None:
    assert Accounts(b"", b"").ids("root") == Ids("0", "0", "/root")


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ("nosuch", "no user 'nosuch'"), ("wrong", "no user 'wrong'"), ("super", "no user 'super'"),
        ("short", "no user 'short'"), ("\u00b2", "no user"), ("dev:nosuch", "no group 'nosuch'"),
        ("dev:half", "no group 'half'"), ("dev:\u0663", "no group"),
    ],
)  # fmt: skip
def test_who_is_not_in_them_is_named(user: str, told: str) -> None:
    with pytest.raises(EnvironmentFailed, match=told):
        Accounts(PASSWD, GROUP).ids(user)


_FIELDS = st.lists(st.sampled_from([b"dev", b"root", b"0", b"1000", b"\xff", "²".encode(), b""]), max_size=8)
_TABLES = st.lists(_FIELDS.map(b":".join) | st.binary(max_size=20), max_size=6).map(b"\n".join)


@given(
    passwd=_TABLES,
    group=_TABLES,
    user=st.sampled_from(["dev", "root", "0", "1000", "²", "dev:dev", "7:", ":"]),
)
def test_whatever_the_tables_are_ids_are_numbers_or_it_is_said(
    passwd: bytes, group: bytes, user: str
) -> None:
    try:
        found = Accounts(passwd, group).ids(user)
    except EnvironmentFailed:
        return
    numbers = [found.uid, *found.gids.split(",")]
    assert all(one.isascii() and one.isdigit() for one in numbers)
    assert len(set(numbers[1:])) == len(numbers[1:])
    assert found.home
