"""The job that a pytest session requests, read once."""

from __future__ import annotations

import pytest

from ..job.job_settings import JobSettings, settings_from
from ..model.environ import HOST
from ..model.errors import InputError
from .layers import env_files, said
from .options import usage_error
from .state import state_of


def settings_of(config: pytest.Config) -> JobSettings:
    """Return the job that options, files and the ini file request.

    Raises:
        pytest.UsageError: a setting is wrong; the message is mostly one line.
    """
    state = state_of(config)
    if state.settings is None:
        config.add_cleanup(HOST.lay_below(env_files(config)))
        try:
            state.settings = settings_from(said(config))
        except InputError as error:
            raise usage_error(str(error)) from None
    return state.settings
