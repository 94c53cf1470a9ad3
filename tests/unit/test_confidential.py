"""Failures of confidential scenarios: a sentence of ours for each class, which says what to do."""

from __future__ import annotations

import pytest

from pytest_benchjobs.model import errors
from pytest_benchjobs.model.result import Failure
from pytest_benchjobs.trial.confidential import HELD_BACK, failure_held_back


@pytest.mark.parametrize(
    "code",
    sorted(
        {
            error.code
            for error in vars(errors).values()
            if isinstance(error, type) and issubclass(error, errors.InfrastructureError)
        }
    ),
)
def test_every_class_of_errors_has_a_sentence(code: str) -> None:
    held = failure_held_back(Failure(class_=code, message="the prompt", detail="the prompt", phase=None))
    assert held.message not in (HELD_BACK, "the prompt")
    assert held.detail == HELD_BACK
