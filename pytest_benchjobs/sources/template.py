"""`${VAR}` and `${VAR:-default}` in tables of environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..model.errors import InputError

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?\}", re.DOTALL)


def reference(value: str) -> str | None:
    """The variable that is the whole of a value."""
    match = _REFERENCE.fullmatch(value)
    return None if match is None else match[1]


def fill(env: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """`env` with the values that are wholly `${VAR}` or `${VAR:-default}` replaced from `host`.

    The default also replaces a variable that is set but empty, as in a shell. `${` anywhere else is left alone.

    Raises InputError: variables without a default are not set; all of them are named.
    """
    filled: dict[str, str] = {}
    missing: list[str] = []
    for name, value in env.items():
        match = _REFERENCE.fullmatch(value)
        if match is None:
            filled[name] = value
            continue
        variable, default = match[1], match[2]
        found = host.get(variable)
        if default is not None:
            filled[name] = found or default
        elif found is not None:
            filled[name] = found
        else:
            missing.append(f"{variable} (for {name})" if variable != name else variable)
    if missing:
        one = len(missing) == 1
        raise InputError(
            f"the environment variable{'' if one else 's'} {', '.join(missing)} {'is' if one else 'are'} not set; "
            f"set {'it' if one else 'them'}, or give a default: ${{NAME:-default}}"
        )
    return filled
