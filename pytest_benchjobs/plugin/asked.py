"""What a session of pytest asks for, read once."""

from __future__ import annotations

import pytest

from ..job.wanted import Wanted, wanted
from ..model.environ import HOST
from ..model.errors import InputError
from .said import env_files, said

_ASKED = pytest.StashKey[Wanted]()


def asked(config: pytest.Config) -> Wanted:
    """Return what the options, files and the ini file ask for.

    Raises:
        pytest.UsageError: any of it is wrong; mostly in one line.
    """
    if _ASKED not in config.stash:
        config.add_cleanup(HOST.lay_below(env_files(config)))
        try:
            config.stash[_ASKED] = wanted(said(config))
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_ASKED]
