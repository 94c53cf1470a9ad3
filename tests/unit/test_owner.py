"""Only who is surely dead is dead."""

from __future__ import annotations

import subprocess
import sys

from pytest_benchjobs.model.owner import current_owner, is_alive


def test_we_are_alive_and_always_the_same() -> None:
    assert current_owner() == current_owner()
    assert is_alive(current_owner())


def test_a_reused_pid_a_free_pid_and_an_earlier_boot_are_dead() -> None:
    me = current_owner()
    assert not is_alive(me.model_copy(update={"started": "1"}))
    assert not is_alive(me.model_copy(update={"pid": 2**22 + 1}))
    assert not is_alive(me.model_copy(update={"boot": "earlier"}))


def test_nothing_is_known_of_another_host() -> None:
    assert is_alive(current_owner().model_copy(update={"host": "elsewhere", "pid": 2**22 + 1}))


def test_a_corpse_that_nobody_buried_is_dead() -> None:
    script = (
        "from pytest_benchjobs.model.owner import current_owner; print(current_owner().model_dump_json())"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    owner = type(current_owner()).model_validate_json(process.stdout.read())
    process.stdout.close()
    # The end of its output comes just before its own.
    while is_alive(owner):
        pass
    assert process.returncode is None
    process.wait()
