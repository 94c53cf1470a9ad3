"""The scorer kind `swebench`: runs the `eval_script` of a row of SWE-bench, and reads its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...model.errors import EnvironmentFailed, ScoreInvalid, ScorerCrashed
from ...sandbox.protocol import File
from ...store.text import clean
from ..protocol import Graded, ScoringContext
from .logs import PARSERS
from .verdict import judge, read_log, with_exit_status

LOG_LIMIT = 32 * 1024 * 1024
"""Bytes of a log that are read."""
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
        """Return the output; bytes that are no UTF-8 are replaced."""
        return b"".join(self._chunks).decode("utf-8", "replace")


def score_swebench(context: ScoringContext) -> Graded:
    """`swebench`: 1 if the tests of a row pass that have to, else 0.

    A script that does not get as far as its end is an error, which is the agent's doing only if it gets there without
    the agent's work. A log that the official harness calls invalid is worth 0, as there.
    """
    spec = context.spec
    params = Row(spec.params, spec.name)
    context.sandbox.put(
        [File(_SCRIPT, content=with_exit_status(params.script).encode("utf-8", "replace"), clean=True)]
    )
    log = _Log()
    # The markers come from `set -x`, on standard error: only the shell keeps both streams in order.
    context.run(f"exec /bin/bash {_SCRIPT} 2>&1", whole=log)
    if log.is_full:
        raise ScoreInvalid(f"scorer {spec.name!r}: the log has more than {LOG_LIMIT >> 20} MiB")
    text = log.text()
    reading = read_log(text, PARSERS[params.parser])
    if reading.is_cut:
        raise ScorerCrashed(
            f"scorer {spec.name!r}: the eval_script ended before its tests: {reading.problem}"
        )
    if reading.hint is not None:
        raise EnvironmentFailed(f"scorer {spec.name!r}: {reading.problem}, and it says {reading.hint!r}")
    verdict = judge(reading.statuses, params.fail_to_pass, params.pass_to_pass)
    is_resolved = reading.problem is None and verdict.is_resolved
    details: dict[str, Any] = {
        "resolved": is_resolved,
        "fail_to_pass": list(verdict.fail_to_pass),
        "pass_to_pass": list(verdict.pass_to_pass),
        "failing": [name[:200] for name in verdict.failing[:_SHOWN]],
    }
    if reading.problem is not None:
        details["problem"] = reading.problem
    return Graded(float(is_resolved), clean(text, _KEPT), details)


class Row:
    """Parts of a row that the scorer needs, checked."""

    def __init__(self, params: Mapping[str, Any], name: str) -> None:
        self._name = name
        self.script = self._text(params, "eval_script")
        self.parser = self._text(params, "log_parser").removeprefix(_PREFIX)
        self.fail_to_pass = self._names(params, "fail_to_pass")
        self.pass_to_pass = self._names(params, "pass_to_pass")
        if self.parser not in PARSERS:
            raise ScorerCrashed(
                f"scorer {name!r}: no log_parser {self.parser!r}; there are {', '.join(sorted(PARSERS))}"
            )

    def _text(self, params: Mapping[str, Any], key: str) -> str:
        value = params.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ScorerCrashed(f"scorer {self._name!r}: params.{key}: a text is expected")
        return value

    def _names(self, params: Mapping[str, Any], key: str) -> Sequence[str]:
        value = params.get(key)
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            raise ScorerCrashed(f"scorer {self._name!r}: params.{key}: a list of names of tests is expected")
        return value
