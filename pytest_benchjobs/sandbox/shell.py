"""Shell commands in any image that has a shell: `bash` runs them, or `sh` where there is none. Pure."""

from __future__ import annotations


def by_shell(arguments: str = "") -> str:
    """Return a script for `sh` that becomes the shell, with these arguments: one command, without a look first."""
    return f"if command -v bash >/dev/null 2>&1; then exec bash {arguments}; else exec sh {arguments}; fi"


def shell(command: str) -> tuple[str, ...]:
    """Return the arguments that run a shell command."""
    return ("/bin/sh", "-c", by_shell('-c "$1"'), "sh", command)
