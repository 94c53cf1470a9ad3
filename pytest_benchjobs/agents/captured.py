"""`captured`: replays runs that were captured earlier, from their files; no agent works."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model.errors import AgentSetupFailed
from ..sources.captures import Capture, read_capture
from .protocol import AgentCall, AgentCommand, AgentReading, Shell

NAME = "captured"
_HANDED_ON = 4 << 20
"""The most bytes of a file that is put into the sandbox."""


@dataclasses.dataclass(frozen=True, slots=True)
class Captured:
    """Writes the events of a captured run to its log, and the file into the sandbox, for scorers that run there."""

    name: str = NAME
    needs_model: bool = False
    trusted: bool = True  # nothing is run

    def answers(self, params: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """True: it runs nothing."""
        return True

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The run, as a function of this machine.

        Raises AgentSetupFailed: the scenario is no captured run; InputError: its file is broken.
        """
        scenario = call.scenario
        if scenario.answer is None or all(spec.path != scenario.source for spec in scenario.scorers):
            raise AgentSetupFailed(
                f"scenario {scenario.id!r} is no captured run, and {NAME} runs no agent: "
                "use it with --bench replay-scoring"
            )
        capture = read_capture(scenario.source)
        return AgentCommand(
            argv=(),
            identity=f"{NAME}/1",
            host=functools.partial(_hand_on, capture, scenario.source, scenario.answer.file),
            read=_read,
        )


def _hand_on(capture: Capture, path: Path, file: str, shell: Shell) -> int:
    """Log all events, and write the file. Returns an exit status, as `AgentCommand.host` does."""
    for event in capture.events:
        shell.log(json.dumps({"type": "event", "event": event.data}))
    shell.log(json.dumps({"type": "end"}))
    if path.stat().st_size <= _HANDED_ON:
        shell.write(file, path.read_bytes())
    return 0


def _read(log: Path, trajectory: Path) -> AgentReading:
    from .reading.captured import CapturedRun
    from .reading.reader import read_log

    return read_log(log, trajectory, reader=CapturedRun, agent=NAME)
