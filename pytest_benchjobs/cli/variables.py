"""Variables on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def variables(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` each; of one that is given twice the last.

    Raises:
        click.UsageError: one of them has another form.

    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.match(name):
            # What is behind the name may be a secret.
            raise click.UsageError(f"{flag}: {name!r} is not of the form KEY=VALUE")
        found[name] = value
    return found
