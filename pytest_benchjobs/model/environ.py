"""The variables of this machine: those of this process, and those that env files add for lookups."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping


def host_environment() -> dict[str, str]:
    """Copy them, while another thread may change them: pytest sets and deletes `PYTEST_CURRENT_TEST` all the time."""
    return {name: value for name in list(os.environ) if (value := os.environ.get(name)) is not None}


_OF_PROGRAMS = re.compile(
    r"HOME|LANG|LANGUAGE|LC_\w+|LD_LIBRARY_PATH|LOGNAME|PATH|PYTHONHOME|PYTHONPATH|TMPDIR|TZ|USER|XDG_\w+"
)
_OF_NETWORKS = re.compile(r"\w*(_proxy|_PROXY)|SSL_CERT_FILE|SSL_CERT_DIR")
_KEYS = re.compile(r"\w*(API_KEY|AUTH_TOKEN|OAUTH_TOKEN)")


def program_environment(*beginnings: str, network: bool = False) -> dict[str, str]:
    """Variables for a program that has no use for any secret: what every program needs, and what begins like this."""
    return {
        name: value
        for name, value in host_environment().items()
        if _OF_PROGRAMS.fullmatch(name)
        or name.startswith(beginnings)
        or (network and _OF_NETWORKS.fullmatch(name))
    }


def environment_without_keys() -> dict[str, str]:
    """Variables for a program that may need anything but the key of a model, such as credentials of a registry."""
    return {name: value for name, value in host_environment().items() if not _KEYS.fullmatch(name)}


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """A value, and where it is from."""

    value: str = dataclasses.field(repr=False)
    place: str
    """To be named in messages."""


class Host(Mapping[str, str]):
    """Variables for `${VAR}`: the environment of this process, with env files as a fallback.

    Env files are no part of the environment itself, so nothing that this process starts inherits them.
    """

    def __init__(self) -> None:
        self.below: Mapping[str, Variable] = {}
        """Variables of env files, also those that the environment overrides."""

    def lay_below(self, variables: Mapping[str, Variable]) -> Callable[[], None]:
        """Have these, and no others, below the environment. What is returned undoes it."""
        before, self.below = self.below, dict(variables)

        def undo() -> None:
            self.below = before

        return undo

    def find(self, name: str) -> Variable | None:
        """The variable and where it is from; one that is empty counts as not set."""
        if value := os.environ.get(name):
            return Variable(value, "the environment")
        below = self.below.get(name)
        return below if below is not None and below.value else None

    def __getitem__(self, name: str) -> str:
        value = os.environ.get(name)
        return self.below[name].value if value is None else value

    def __iter__(self) -> Iterator[str]:
        return iter({**self.below, **host_environment()})

    def __len__(self) -> int:
        return len({*self.below, *host_environment()})

    def __repr__(self) -> str:
        return "<the variables of this machine>"  # and not their values


HOST = Host()
"""As there is one environment in a process, there is one of these."""
