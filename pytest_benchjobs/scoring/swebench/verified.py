"""The scorer type `swebench`: runs the `eval_script` of a row of SWE-bench, and reads its log."""

from __future__ import annotations

from typing import Any

from ...model.errors import EnvironmentFailed, ScoreInvalid, ScorerCrashed
from ...model.scenario import ScorerSpec
from ...sandbox.protocol import File
from ...store.text import clean
from ...system.cutting import beginning_of
from ..params import names_of, text_of
from ..protocol import Graded, ScoringContext
from .logs import PARSERS, Parser
from .verdict import judge, read_log, with_exit_status

LOG_LIMIT = 32 * 1024 * 1024
"""The most bytes of a log that are read."""
_SCRIPT = "/eval.sh"
_PREFIX = "parse_log_"
_SHOWN = 20
_KEPT = 1024 * 1024
"""Characters of a log that are kept."""


class _Log:
    """A sink that keeps all output, up to a limit."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._left = LOG_LIMIT
        self.is_full = False

    def __call__(self, chunk: bytes) -> None:
        kept = chunk[: self._left]
        self._left -= len(kept)
        self._chunks.append(kept)
        self.is_full = self.is_full or len(kept) < len(chunk)

    def text(self) -> str:
        """Return the output; bytes that are not UTF-8 are replaced."""
        return b"".join(self._chunks).decode("utf-8", "replace")


def score_swebench(context: ScoringContext) -> Graded:
    """`swebench`: 1 if the tests of a row that must pass do, else 0.

    A script that does not reach its end is an error; the agent is its cause only if the script reaches its end without
    the agent's work. A log that the official harness calls invalid gives 0, as there.
    """
    spec = context.spec
    script, parser = text_of(spec, "eval_script"), _parser(spec)
    wanted = names_of(spec, "fail_to_pass"), names_of(spec, "pass_to_pass")
    context.sandbox.put(
        [File(_SCRIPT, content=with_exit_status(script).encode("utf-8", "replace"), clean=True)]
    )
    log = _Log()
    # The markers come from `set -x`, on standard error: only the shell keeps both streams in order.
    context.run(f"exec /bin/bash {_SCRIPT} 2>&1", whole=log)
    if log.is_full:
        raise ScoreInvalid(f"scorer {spec.name!r}: the log has more than {LOG_LIMIT >> 20} MiB")
    text = log.text()
    reading = read_log(text, parser)
    if reading.is_cut:
        raise ScorerCrashed(
            f"scorer {spec.name!r}: the eval_script ended before its tests: {reading.problem}"
        )
    if reading.hint is not None:
        raise EnvironmentFailed(f"scorer {spec.name!r}: {reading.problem}, and it says {reading.hint!r}")
    verdict = judge(reading.statuses, *wanted)
    is_resolved = reading.problem is None and verdict.is_resolved
    details: dict[str, Any] = {
        "resolved": is_resolved,
        "fail_to_pass": list(verdict.fail_to_pass),
        "pass_to_pass": list(verdict.pass_to_pass),
        "failing": [beginning_of(name, 200) for name in verdict.failing[:_SHOWN]],
    }
    if reading.problem is not None:
        details["problem"] = reading.problem
    return Graded(float(is_resolved), clean(text, _KEPT), details)


def _parser(spec: ScorerSpec) -> Parser:
    name = text_of(spec, "log_parser").removeprefix(_PREFIX)
    if name not in PARSERS:
        raise ScorerCrashed(
            f"scorer {spec.name!r}: no log_parser {beginning_of(name, 100)!r}; there are {', '.join(sorted(PARSERS))}"
        )
    return PARSERS[name]
