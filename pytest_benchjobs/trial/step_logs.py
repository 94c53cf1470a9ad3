"""One agent log and one trajectory of all steps of a trial, beside those of each step."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from ..agents.reading.merging import merge_trajectories
from ..model.errors import InfrastructureError
from ..store.layout import TrialLayout
from ..store.log import CappedLog

_CHUNK = 64 << 10


def merge_logs(layout: TrialLayout, steps: Sequence[str]) -> None:
    """Write the logs of a trial, from those of its steps by name. A full disk leaves them out: the parts are there."""
    try:
        _merge(layout, steps)
    except (OSError, InfrastructureError):
        layout.trajectory.unlink(missing_ok=True)


def _merge(layout: TrialLayout, steps: Sequence[str]) -> None:
    parts = [(name, layout.step(name)) for name in steps]
    logs = [(name, part.agent_log) for name, part in parts if part.agent_log.is_file()]
    if logs:
        with CappedLog(layout.agent_log) as merged:
            for name, log in logs:
                merged.write(f"=== step {name} ===\n".encode())
                with log.open("rb") as file:
                    last = b"\n"
                    while chunk := file.read(_CHUNK):
                        merged.write(chunk)
                        last = chunk
                if not last.endswith(b"\n"):
                    merged.write(b"\n")
    trajectories = [part.trajectory for _, part in parts if part.trajectory.is_file()]
    if len(trajectories) == 1:
        shutil.copyfile(trajectories[0], layout.trajectory)
    elif trajectories:
        merge_trajectories(trajectories, layout.trajectory)
