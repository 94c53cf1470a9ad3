"""Files of trials that did not run in their own job: reused or rescored ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..model.errors import InputError
from ..model.result import TrialResult
from .bundle import JobBundle, read_result
from .copying import inside

_STEPS = 100
"""Reuses that are followed at most; a cycle ends here too."""


def origins(directory: Path, result: TrialResult) -> Iterator[tuple[Path, bool]]:
    """Directories of the trials a result goes back to, the nearest first, and whether it is the same result there.

    A reused result is the same. Of a rescored one, only what the agent did is the same. The last directory is that of
    the trial that the agent worked in.

    Raises:
        InputError: one is gone, damaged, or leads out of its job.

    """
    same = True
    for _ in range(_STEPS):
        origin = result.reused or result.rescored
        if origin is None:
            return
        place = inside(JobBundle.open(directory, origin.job).root, origin.path)
        if not place.is_dir():
            raise InputError("is not there, and had the files of this trial", path=place)
        same = same and result.reused is not None
        yield place, same
        result = read_result(place)
    raise InputError(f"the files of this trial are more than {_STEPS} jobs away", path=place)
