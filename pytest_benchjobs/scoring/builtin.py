"""The scorer kinds that come with the package: `bash`, `command`, `tests` and `harbor`."""

from __future__ import annotations

import itertools
import json
import math
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

from ..model.errors import ScoreInvalid, ScoreMissing, ScorerCrashed
from ..model.scenario import ScorerSpec
from ..sandbox.protocol import File
from ..sources.documents import has_windows_line_ends
from .commands import Tail, run_shell
from .needs import Collect, Needs, needing
from .protocol import Graded, Scorer, ScoringContext
from .pytest_runner import pytest_command

TESTS_DIRECTORY = "/tests"
VERIFIER_DIRECTORY = "/logs/verifier"
LOG_DIRECTORIES = ("/logs/agent", "/logs/artifacts", VERIFIER_DIRECTORY)
TEST_SCRIPT = "test.sh"
_BYTE_ORDER_MARK = "\ufeff"
_REPORT_LIMIT = 8 * 1024 * 1024
_LOGS_LIMIT = 64 * 1024 * 1024
_REWARD_LIMIT = 1024 * 1024
_REWARDS_SHOWN = 100
_HUGE = 1e300
_SIGKILL = 137
_NOT_EXECUTABLE = 126
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
_SCORE_LINE = re.compile(rf"^\s*score\s*=\s*({_NUMBER})\s*$", re.IGNORECASE)
_NUMBER_LINE = re.compile(rf"^\s*({_NUMBER})\s*$", re.IGNORECASE)
_PYTEST_STATUS = {
    2: "was interrupted",
    3: "had an internal error",
    4: "was called wrongly",
    5: "found no tests",
}


def checked(value: object, who: str) -> float:
    """The value as a score.

    Raises:
        ScoreInvalid: not a number within [0, 1].

    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ScoreInvalid(f"{who} gave {reprlib.repr(value)}, which is not a number within [0, 1]")
    if not 0 <= value <= 1:
        shown = (
            "infinity" if abs(value) == math.inf else f"{value:g}" if abs(value) < _HUGE else "a huge number"
        )
        raise ScoreInvalid(f"{who} gave {shown}, which is outside [0, 1]")
    return float(value)


def parse_score(output: str, who: str) -> float:
    """The score a script printed: its last `score=X` line, else its last line if that is a number.

    Raises:
        ScoreMissing: neither is there.
        ScoreInvalid: not within [0, 1].

    """
    lines = [line for line in output.splitlines() if line.strip()]
    for line in reversed(lines):
        if match := _SCORE_LINE.match(line):
            return checked(float(match[1]), who)
    if lines and (match := _NUMBER_LINE.match(lines[-1])):
        return checked(float(match[1]), who)
    last = f"its last line is {lines[-1][:200]!r}" if lines else "it printed nothing"
    raise ScoreMissing(f"{who} printed no score: {last}. Print `score=X`, or a number on the last line")


def score_bash(context: ScoringContext) -> Graded:
    """`bash`: a script prints the score, on standard output, and exits 0."""
    stdout = Tail()
    result, output = run_shell(context, context.spec.script or "", stdout=stdout)
    if result.exit_status != 0:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} exited with status {result.exit_status}; "
            f"a bash scorer prints its score and exits 0. Output: {output[-300:].strip() or 'none'}"
        )
    return Graded(parse_score(stdout.text(), f"scorer {context.spec.name!r}"), output)


def score_command(context: ScoringContext) -> Graded:
    """`command`: exit status 0 is 1.0, any other 0.0; a command that cannot be run is an error."""
    result, output = run_shell(context, context.spec.command or "")
    _refuse_unrunnable(context, result.exit_status, output)
    return Graded(1.0 if result.exit_status == 0 else 0.0, output, {"exit_status": result.exit_status})


def score_tests(context: ScoringContext) -> Graded:
    """`tests`: files put in now, run, and graded by the share of tests that pass.

    Reads a JUnit report (`$BENCH_JUNIT`) or a CTRF report (`$BENCH_CTRF`) when the run leaves one; without a report
    the exit status decides. The default command is the directory's `test.sh`, else pytest.
    """
    spec = context.spec
    if spec.path is None:  # the sources see to it
        raise ScorerCrashed(f"scorer {spec.name!r} has no path")
    single = spec.path.is_file()
    target = f"{TESTS_DIRECTORY}/{spec.path.name}" if single else TESTS_DIRECTORY
    files = [File(VERIFIER_DIRECTORY, clean=True, mode=0o777)]
    if single:
        files += [File(TESTS_DIRECTORY, clean=True), File(target, source=spec.path, readable=True)]
    else:
        files += _tests_directory(spec.path)
    context.sandbox.put(files)
    own_runner = spec.command is not None or (not single and (spec.path / TEST_SCRIPT).is_file())
    if spec.command is not None:
        command = spec.command
    elif own_runner:
        command = f"{TESTS_DIRECTORY}/{TEST_SCRIPT}"
    else:
        command = pytest_command(spec.path, target)
    result, output = run_shell(context, command)
    _refuse_unrunnable(context, result.exit_status, output, hint=line_ends_hint(spec.path))
    counts = _read_reports(context)
    if counts is not None:
        passed, total = counts
        if total == 0:
            raise ScoreMissing(f"scorer {spec.name!r} ran no test")
        if passed == total and result.exit_status != 0:
            raise ScorerCrashed(
                f"scorer {spec.name!r}: all {total} tests of its report passed, but the run exited with status "
                f"{result.exit_status}: {output[-300:].strip() or 'it printed nothing'}"
            )
        return Graded(passed / total, output, {"passed": passed, "total": total})
    if not own_runner:
        why = _PYTEST_STATUS.get(result.exit_status or 0, f"exited with status {result.exit_status}")
        raise ScorerCrashed(
            f"pytest {why} and left no report: {output[-300:].strip() or 'it printed nothing'}"
        )
    return Graded(1.0 if result.exit_status == 0 else 0.0, output, {"exit_status": result.exit_status})


def _collect(spec: ScorerSpec) -> list[Collect]:
    return [
        Collect(str(hook["command"]), float(hook["timeout_sec"]), hook.get("user"))
        for hook in spec.params.get("collect", ())
    ]


@needing(Needs(directories=LOG_DIRECTORIES, collect=_collect))
def score_harbor(context: ScoringContext) -> Graded:
    """`harbor`: runs tests/test.sh, whose exit status says nothing; reads /logs/verifier/reward.json, else .txt."""
    spec = context.spec
    files = [File(VERIFIER_DIRECTORY, clean=True, mode=0o777)]
    if spec.path is not None:  # else they are in the image
        files += _tests_directory(spec.path)
    context.sandbox.put(files)
    result, output = run_shell(context, f"{TESTS_DIRECTORY}/{TEST_SCRIPT}", signals_matter=False)
    if result.exit_status == _SIGKILL:
        raise ScorerCrashed(f"scorer {spec.name!r} was killed, so what it wrote may be half a verdict")
    kept = context.directory / "verifier"
    context.sandbox.fetch(VERIFIER_DIRECTORY, kept, limit=_LOGS_LIMIT)
    try:
        return parse_reward(_text(kept / "reward.json"), _text(kept / "reward.txt"), output)
    except ScoreMissing as error:
        raise ScoreMissing(f"{error}{line_ends_hint(spec.path)}") from None


def parse_reward(reward_json: str | None, reward_text: str | None, output: str = "") -> Graded:
    """The score in Harbor's reward files; `reward.json` wins.

    A JSON object may hold more: `reward` alone is the score if it is there, else the mean of all numbers in it.

    Raises:
        ScoreMissing: neither file, or an empty one.
        ScoreInvalid: unreadable, or not within [0, 1].

    """
    if reward_json is not None:
        return _reward_of_json(reward_json.removeprefix(_BYTE_ORDER_MARK), output)
    if reward_text is None:
        last = output.strip().splitlines()[-1:] or ["nothing"]
        raise ScoreMissing(
            "the tests left neither /logs/verifier/reward.json nor reward.txt; "
            f"the last thing they printed: {last[0][:200]}"
        )
    reward_text = reward_text.removeprefix(_BYTE_ORDER_MARK)
    if not reward_text.strip():
        raise ScoreMissing("reward.txt is empty")
    try:
        number = float(reward_text)
    except ValueError:
        raise ScoreInvalid(f"reward.txt holds {reward_text.strip()[:100]!r}, which is not a number") from None
    return Graded(checked(number, "reward.txt"), output)


def _reward_of_json(text: str, output: str) -> Graded:
    if not text.strip():
        raise ScoreMissing("reward.json is empty")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScoreInvalid(f"reward.json is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        return Graded(checked(value, "reward.json"), output)
    if not value:
        raise ScoreMissing("reward.json holds no reward")
    if "reward" in value:
        # What else is there is for people to read.
        score = checked(value["reward"], "reward.json, key 'reward',")
    else:
        numbers = [checked(number, f"reward.json, key {key[:100]!r},") for key, number in value.items()]
        score = min(math.fsum(numbers) / len(numbers), 1.0)
    shown = {key[:100]: kept for key, kept in itertools.islice(value.items(), _REWARDS_SHOWN)}
    return Graded(score, output, {"rewards": shown})


class _WithoutDtd(ElementTree.TreeBuilder):
    """Refuses a DTD, for an entity there could be expanded until memory is full. A failure may well quote one."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:  # noqa: ARG002
        """There is one."""
        raise ElementTree.ParseError("it has a DTD")


def parse_junit(text: str) -> tuple[int, int] | None:
    """(passed, total) of a JUnit report, leaving out skipped tests; None when it is not one."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        root = ElementTree.fromstring(text, ElementTree.XMLParser(target=_WithoutDtd()))  # noqa: S314
    except ElementTree.ParseError:
        return None
    if root.tag not in ("testsuites", "testsuite"):
        return None
    passed = total = 0
    for case in root.iter("testcase"):
        if case.find("skipped") is not None:
            continue
        total += 1
        passed += case.find("failure") is None and case.find("error") is None
    return passed, total


def parse_ctrf(text: str) -> tuple[int, int] | None:
    """(passed, total) of a CTRF report, leaving out skipped tests; None when it is not one."""
    try:
        tests: Any = json.loads(text.removeprefix(_BYTE_ORDER_MARK))["results"]["tests"]
        states = [test["status"] for test in tests if test["status"] not in ("skipped", "pending")]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return sum(state == "passed" for state in states), len(states)


def builtin_scorers() -> Mapping[str, Scorer]:
    """The kinds that come with the package, by the name a manifest uses as `type`."""
    return {"bash": score_bash, "command": score_command, "tests": score_tests, "harbor": score_harbor}


def _read_reports(context: ScoringContext) -> tuple[int, int] | None:
    for variable, parse in (("BENCH_JUNIT", parse_junit), ("BENCH_CTRF", parse_ctrf)):
        path = context.env[variable]
        try:
            content = context.sandbox.read(path, limit=_REPORT_LIMIT)
        except ValueError:
            raise ScoreInvalid(f"the report {path} is larger than {_REPORT_LIMIT >> 20} MiB") from None
        if content is None:
            continue
        (context.directory / PurePosixPath(path).name).write_bytes(content)
        counts = parse(content.decode("utf-8", "replace"))
        if counts is None:
            raise ScoreInvalid(f"the report {path} cannot be read")
        return counts
    return None


def _tests_directory(path: Path) -> list[File]:
    """The directory at its place; whoever the scorer runs as can read it, and run its `test.sh`."""
    script = path / TEST_SCRIPT
    files = [File(TESTS_DIRECTORY, source=path, clean=True, readable=True)]
    if script.is_file():
        # Most repositories have it with mode 0644, and root alone could change that inside.
        files.append(File(f"{TESTS_DIRECTORY}/{TEST_SCRIPT}", source=script, mode=0o755))
    return files


def line_ends_hint(path: Path | None) -> str:
    """Why a `test.sh` may not run, if that is how its lines end; else nothing."""
    if path is None or not has_windows_line_ends(path / TEST_SCRIPT):
        return ""
    return (
        f". {TEST_SCRIPT} has the line ends of Windows (CRLF), which shells cannot run: convert it (sed -i 's/\\r$//' "
        f"{TEST_SCRIPT}), and write `*.sh text eol=lf` into .gitattributes"
    )


def _refuse_unrunnable(context: ScoringContext, status: int | None, output: str, *, hint: str = "") -> None:
    if status in (_NOT_EXECUTABLE, _NOT_EXECUTABLE + 1):
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} could not be run (exit status {status}): "
            f"{output[-300:].strip() or 'it printed nothing'}{hint}"
        )


def _text(path: Path) -> str | None:
    if not path.is_file():
        return None
    if path.stat().st_size > _REWARD_LIMIT:
        raise ScoreInvalid(f"{path.name} is larger than {_REWARD_LIMIT >> 20} MiB")
    return path.read_text("utf-8", "replace")
