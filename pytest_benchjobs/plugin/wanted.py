"""Job that a session of pytest asks for, read once."""

from __future__ import annotations

import pytest

from ..job.wanted import Wanted, wanted
from ..model.environ import HOST
from ..model.errors import InputError
from .layers import env_files, said
from .state import state_of


def asked(config: pytest.Config) -> Wanted:
    """Return what the options, files and the ini file ask for.

    Raises:
        pytest.UsageError: any of it is wrong; mostly in one line.
    """
    state = state_of(config)
    if state.wanted is None:
        config.add_cleanup(HOST.lay_below(env_files(config)))
        try:
            state.wanted = wanted(said(config))
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
    return state.wanted
