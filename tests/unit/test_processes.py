"""Processes of a container, as the engine lists them."""

from __future__ import annotations

from typing import Any

import docker
import pytest

from pytest_benchjobs.sandbox.docker.processes import Processes


class Refusing:
    """A client of an engine that lists no processes."""

    def __init__(self, explanation: str) -> None:
        self._explanation = explanation

    def top(self, container: str, ps_args: str) -> Any:
        raise docker.errors.APIError("500 Server Error", explanation=self._explanation)


@pytest.mark.parametrize(
    "explanation",
    [
        "Container 4f is not running",
        "ttrpc: closed: unknown",
        "runc did not terminate successfully: exit status 1: process does not exist: unknown",
        "runc did not terminate successfully: exit status 1: container does not exist\n: unknown",
    ],
)
def test_a_container_that_has_ended_has_no_processes(explanation: str) -> None:
    processes = Processes(Refusing(explanation), "4f")  # type: ignore[arg-type]
    assert processes.listed() == []
    assert processes.others() is None
    assert processes.end_all() is None, "only a new start ends what is left"


def test_another_refusal_is_the_engines() -> None:
    with pytest.raises(docker.errors.APIError):
        Processes(Refusing("no space left on device"), "4f").listed()  # type: ignore[arg-type]
