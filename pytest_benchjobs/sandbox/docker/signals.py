"""Signals to what runs in a container."""

from __future__ import annotations

import contextlib

from ...model.errors import InfrastructureError
from .engine import Engine
from .library import ERRORS

NAMES = frozenset({"INT", "TERM"})

_CALL_TIMEOUT = 2.0
END_COMMANDS = r"""
has() {
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in *"$1="*) return 0 ;; esac
        line=
    done <"$2"
    return 1
}
ends=" "
again=1
while [ "$again" ]; do
    again=
    for path in /proc/[0-9]*; do
        pid=${path#/proc/} parent= ignored=
        [ "$pid" = 1 ] || [ "$pid" = $$ ] && continue
        case $ends in *" $pid "*) continue ;; esac
        { while read -r key value rest; do
            case $key in PPid:) parent=$value ;; SigIgn:) ignored=$value ;; esac
        done <"$path/status"; } 2>/dev/null || continue
        if [ "$parent" = 0 ]; then
            { has "$1" "$path/environ"; } 2>/dev/null || continue
        else
            case $ends in *" $parent "*) ;; *) continue ;; esac
            case $ignored in *[13579bdf]) continue ;; esac
        fi
        kill -s STOP "$pid" 2>/dev/null
        ends="$ends$pid " again=1
    done
done
for pid in $ends; do kill -s KILL "$pid" 2>/dev/null; done
"""
"""A script for the container's shell: kills commands that were given the variable `$1`, and their children.

Commands are what has no parent in the container. A child that ignores SIGHUP (`nohup`) was made a daemon, and so was
what has outlived its parent. Each is stopped first, so that it starts no more. It ends nobody who resists: that is what
the first process is for.
"""


def send(engine: Engine, container: str, pid: int, name: str) -> None:
    """Send a signal to a process group; `pid` is its number in the container. Never raises; takes some seconds at most.

    Every command is the leader of a session, so it has its children with it, but for those that left the group. The
    container's own `/bin/sh` sends it, as root; whether anybody got it is not known.
    """
    # 0 is the sender's own group, -1 is everybody.
    if pid <= 1 or name not in NAMES:
        return
    command = ["/bin/sh", "-c", f"kill -s {name} -- -{pid}"]
    with contextlib.suppress(InfrastructureError, *ERRORS, OSError):
        created = engine.post(f"/containers/{container}/exec", {"Cmd": command, "User": "0"}, _CALL_TIMEOUT)
        # Detached: a shell that somebody replaced cannot hold us up.
        engine.post(f"/exec/{created['Id']}/start", {"Detach": True}, _CALL_TIMEOUT)
