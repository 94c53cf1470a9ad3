"""The scorer type `swebench-pro`: runs the test script of an instance of SWE-Bench Pro, then its parser.

The tests run the agent's code, as root. So the parser runs in another, untouched container, on what they printed.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import time
from collections.abc import Set as AbstractSet

from ...model.errors import ScoreInvalid, ScoreMissing, ScorerCrashed
from ...sandbox.protocol import File
from ...system.cutting import beginning_of, end_of
from ..params import names_of, text_of
from ..protocol import Graded, ScoringContext

OUTPUT_LIMIT = 32 * 1024 * 1024
"""The most bytes of what tests or the parser print."""
_WORKSPACE = "/workspace"
_PARSED = f"{_WORKSPACE}/parsed"
_OUTPUT = f"{_PARSED}/output.json"
_PARSER_TIMEOUT = 600.0
_PARSE = (
    '"$(command -v python || command -v python3)" '
    f"{_PARSED}/parser.py {_WORKSPACE}/stdout.log {_WORKSPACE}/stderr.log {_OUTPUT}"
)
_SHOW = f"tail -c 30000 {_WORKSPACE}/stderr.log {_WORKSPACE}/stdout.log"
_SHOWN = 20


def score_swebench_pro(context: ScoringContext) -> Graded:
    """`swebench-pro`: 1 if all tests of both lists have passed, else 0.

    If the parser leaves nothing, that is an error; the agent is its cause only if the parser leaves something without
    the agent's work. A failed checkout of the tests is an error too, if not all have passed.
    """
    spec = context.spec
    wanted = {*names_of(spec, "fail_to_pass"), *names_of(spec, "pass_to_pass")}
    parser = text_of(spec, "parser")
    begun = time.monotonic()
    is_checked_out, said = _run_tests(context)
    # The agent's code may have written anything there.
    logs = [f"{_WORKSPACE}/{name}" for name in ("stdout.log", "stderr.log")]
    printed = [File(path, content=_read(context, path) or b"") for path in logs]
    with context.untouched() as sandbox:
        reading = dataclasses.replace(context, sandbox=sandbox, bench_run=None)
        sandbox.put([*printed, File(f"{_PARSED}/parser.py", content=parser.encode("utf-8", "replace"))])
        reading.run(_SHOW, timeout=_PARSER_TIMEOUT, signals_matter=False)
        left = max(context.timeout - (time.monotonic() - begun), 1.0)
        reading.run(_PARSE, timeout=min(left, _PARSER_TIMEOUT), signals_matter=False)
        failing = sorted(wanted - _passed(reading))
    if failing and not is_checked_out:
        raise ScorerCrashed(
            f"scorer {spec.name!r}: the tests cannot be checked out: {end_of(said, 300).strip()}"
        )
    details = {
        "resolved": not failing,
        "passed": len(wanted) - len(failing),
        "total": len(wanted),
        "failing": [beginning_of(name, 200) for name in failing[:_SHOWN]],
    }
    return Graded(0.0 if failing else 1.0, "\n".join(context.printed), details)


def _run_tests(context: ScoringContext) -> tuple[bool, str]:
    """Check the tests out, and run them; returns if the checkout worked, and git's output."""
    spec = context.spec
    script = text_of(spec, "run_script")
    exports = "\n".join(names_of(spec, "environment"))
    go = f"{exports}\ncd {shlex.quote(context.sandbox.workdir)}\n"
    context.sandbox.put(
        [
            File(_WORKSPACE, clean=True),
            File(f"{_WORKSPACE}/run_script.sh", content=script.encode("utf-8", "replace")),
        ]
    )
    checkout, said = context.run(f"{go}{text_of(spec, 'checkout')}")
    # Names are not quoted, as in the official evaluation: the scripts expect the result of the shell's word splitting.
    tests = ",".join(names_of(spec, "test_files"))
    context.run(
        f"{go}bash {_WORKSPACE}/run_script.sh {tests} >{_WORKSPACE}/stdout.log 2>{_WORKSPACE}/stderr.log",
        signals_matter=False,
    )
    return checkout.exit_status == 0, said


def _read(context: ScoringContext, path: str) -> bytes | None:
    try:
        return context.sandbox.read(path, limit=OUTPUT_LIMIT)
    except ValueError as error:
        raise ScoreInvalid(f"scorer {context.spec.name!r}: {error}") from None


def _passed(context: ScoringContext) -> AbstractSet[str]:
    """Return the tests that passed, according to the parser's output."""
    name, written = context.spec.name, _read(context, _OUTPUT)
    if written is None:
        last = end_of(context.printed[-1].strip(), 300) or "nothing"
        raise ScoreMissing(f"scorer {name!r}: the parser of the instance wrote no result; it printed: {last}")
    try:
        tests = json.loads(written)["tests"]
        return {test["name"] for test in tests if test["status"] == "PASSED"}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ScoreInvalid(
            f"scorer {name!r}: the parser of the instance wrote no list of tests: {beginning_of(str(error), 200)}"
        ) from None
