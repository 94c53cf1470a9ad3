"""Types of scorers in the package: `bash`, `command`, `tests`, `harbor`, and a list with those of other files."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ..model.errors import ScoreInvalid, ScoreMissing, ScorerCrashed
from ..model.scenario import MAIN, TURN, ScorerSpec
from ..sandbox.protocol import File
from ..sources.documents import has_windows_line_ends
from ..system.cutting import end_of
from .metrics import has_own_score, numbers_among, reported, take_metrics
from .needs import Collect, Needs, needing
from .output import Statements
from .own_runner import OwnRunner
from .parse import check_owner, parse_ctrf, parse_junit, parse_reward, parse_score
from .protocol import VERIFIER_DIRECTORY, Graded, Scorer, ScoringContext

TESTS_DIRECTORY = "/tests"
LOG_DIRECTORIES = ("/logs/agent", "/logs/artifacts", VERIFIER_DIRECTORY)
TEST_SCRIPT = "test.sh"
_REPORT_LIMIT = 8 * 1024 * 1024
_LOGS_LIMIT = 64 * 1024 * 1024
_REWARD_LIMIT = 1024 * 1024
_CHMOD_TIMEOUT = 30.0
_SIGKILL = 137
_NOT_EXECUTABLE = 126
_PYTEST_STATUS = {
    2: "was interrupted",
    3: "had an internal error",
    4: "was called wrongly",
    5: "found no tests",
}


def score_bash(context: ScoringContext) -> Graded:
    """`bash`: a script prints the score, on standard output, and exits 0."""
    stdout = Statements()
    take_metrics(context)
    result, output = context.run(context.spec.script or "", stdout=stdout)
    if result.exit_status != 0:
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} exited with status {result.exit_status}; "
            f"a bash scorer prints its score and exits 0. Output: {end_of(output, 300).strip() or 'none'}"
        )
    printed, metrics = reported(context, stdout.text())
    score = parse_score(printed, f"scorer {context.spec.name!r}") if has_own_score(context.spec) else None
    return Graded(score, output, metrics=metrics)


def score_command(context: ScoringContext) -> Graded:
    """`command`: exit status 0 is 1.0, any other 0.0; a command that cannot be run is an error."""
    take_metrics(context)
    result, output = context.run(context.spec.command or "")
    _refuse_unrunnable(context, result.exit_status, output)
    details, (_, metrics) = {"exit_status": result.exit_status}, reported(context)
    return Graded(1.0 if result.exit_status == 0 else 0.0, output, details, metrics)


@needing(Needs(leaves=(TESTS_DIRECTORY, VERIFIER_DIRECTORY)))
def score_tests(context: ScoringContext) -> Graded:
    """`tests`: files copied into the sandbox now, run, and graded by the share of tests that pass.

    Reads a JUnit report (`$BENCH_JUNIT`) or a CTRF report (`$BENCH_CTRF`) if the run leaves one; without a report the
    exit status decides. The default command is the directory's `test.sh`, else pytest; `runner` names what is started.
    """
    spec = context.spec
    if spec.path is None:  # the sources require it
        raise ScorerCrashed(f"scorer {spec.name!r} has no path")
    single = spec.path.is_file()
    target = f"{TESTS_DIRECTORY}/{spec.path.name}" if single else TESTS_DIRECTORY
    files = [context.empty(VERIFIER_DIRECTORY, directory=True)]
    if single:
        files += [File(TESTS_DIRECTORY, clean=True), File(target, source=spec.path, readable=True)]
    else:
        files += _tests_directory(spec.path)
    context.sandbox.put(files)
    script = None if single or not (spec.path / TEST_SCRIPT).is_file() else f"{TESTS_DIRECTORY}/{TEST_SCRIPT}"
    command = spec.command or (script if spec.runner is None else None)
    ours = OwnRunner(spec, spec.path, target) if command is None else None
    if ours is None:
        result, output = context.run(command or "")
    else:
        result, output = context.run(ours.command, stdout=ours, hidden=ours.key)
    _refuse_unrunnable(context, result.exit_status, output, hint=line_ends_hint(spec.path))
    counts = _read_reports(context)
    if ours is not None:
        counts = ours.counts(counts)
    if counts is not None:
        passed, total = counts
        if total == 0:
            raise ScoreMissing(f"scorer {spec.name!r} ran no test")
        if passed == total and result.exit_status != 0:
            raise ScorerCrashed(
                f"scorer {spec.name!r}: all {total} tests of its report passed, but the run exited with status "
                f"{result.exit_status}: {end_of(output, 300).strip() or 'it printed nothing'}"
            )
        details = {"passed": passed, "total": total, **(ours.details if ours is not None else {})}
        return Graded(passed / total, output, details, reported(context)[1])
    if ours is not None:
        why = _PYTEST_STATUS.get(result.exit_status or 0, f"exited with status {result.exit_status}")
        raise ScorerCrashed(
            f"{ours.name} {why} and left no report: {end_of(output, 300).strip() or 'it printed nothing'}"
        )
    details, (_, metrics) = {"exit_status": result.exit_status}, reported(context)
    return Graded(1.0 if result.exit_status == 0 else 0.0, output, details, metrics)


def _collect(spec: ScorerSpec) -> list[Collect]:
    return [
        Collect(str(hook["command"]), float(hook["timeout_sec"]), hook.get("user"), hook.get("service", MAIN))
        for hook in spec.params.get("collect", ())
    ]


@needing(
    Needs(
        directories=LOG_DIRECTORIES,
        leaves=(TESTS_DIRECTORY, VERIFIER_DIRECTORY),
        bench_run=False,
        collect=_collect,
        tells_params=False,
    )
)
def score_harbor(context: ScoringContext) -> Graded:
    """`harbor`: runs tests/test.sh, whose exit status is ignored; reads /logs/verifier/reward.json, else .txt."""
    spec = context.spec
    files = [context.empty(VERIFIER_DIRECTORY, directory=True)]
    if spec.path is not None:  # otherwise the tests are in the image
        files += _tests_directory(spec.path)
    if spec.overlay is not None:
        over = _tests_directory(spec.overlay)
        files += over if spec.path is None else [dataclasses.replace(over[0], clean=False), *over[1:]]
    context.sandbox.put(files)
    script = f"{TESTS_DIRECTORY}/{TEST_SCRIPT}"
    if not any((place / TEST_SCRIPT).is_file() for place in (spec.path, spec.overlay) if place is not None):
        # It is in the image, with the mode that it was copied with.
        chmod = ("chmod", "+x", script)
        context.sandbox.exec(chmod, timeout=_CHMOD_TIMEOUT, sink=lambda _: None, user="root")
    result, output = context.run(script, signals_matter=False)
    if result.exit_status == _SIGKILL:
        raise ScorerCrashed(f"scorer {spec.name!r} was killed, so its output may be incomplete")
    kept = context.directory / "verifier"
    fetched = context.sandbox.fetch(VERIFIER_DIRECTORY, kept, limit=_LOGS_LIMIT)
    if fetched is not None and (owner := context.owner()) is not None:
        check_owner(fetched.owners, owner[0])
    try:
        graded = parse_reward(_text(kept / "reward.json"), _text(kept / "reward.txt"), output)
        return dataclasses.replace(graded, metrics=numbers_among(graded.metrics))
    except ScoreMissing as error:
        hint = line_ends_hint(spec.overlay) or line_ends_hint(spec.path)
        raise ScoreMissing(f"{error}{hint}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A type of scorer whose module is imported when it first grades."""

    module: str
    function: str
    needs: Needs = dataclasses.field(default_factory=Needs)

    def __call__(self, context: ScoringContext) -> float | Graded:
        scorer: Scorer = getattr(importlib.import_module(self.module, __package__), self.function)
        return scorer(context)


def _later(module: str, function: str) -> Callable[..., Any]:
    """Return a function whose module is imported when it is first called."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module, __package__), function)(*arguments)

    return call


def _none(_spec: ScorerSpec) -> bool:
    return False


_KINDS: Mapping[str, Scorer] = {
    "answer": _Elsewhere(
        ".answering",
        "score_answer",
        Needs(container=False, tells_params=False, reading=_later(".answering", "reading_of")),
    ),
    "bash": score_bash,
    "command": score_command,
    "tests": score_tests,
    "harbor": score_harbor,
    "ast_grep": _Elsewhere(
        ".ast_grep", "score_ast_grep", Needs(programs=_none, check=_later(".ast_grep", "check_ast_grep"))
    ),
    "files": _Elsewhere(
        ".files",
        "score_files",
        Needs(programs=_none, check=_later(".files", "check_files"), tells_params=False),
    ),
    "result_file": _Elsewhere(
        ".result_file", "score_result_file", Needs(check=_later(".result_file", "check_result_file"))
    ),
    "capture": _Elsewhere(
        ".capture",
        "score_capture",
        Needs(container=False, check=_later(".capture", "check_capture"), tells_params=False),
    ),
    "python": _Elsewhere(
        ".python",
        "score_python",
        Needs(
            check=_later(".python", "check_python"),
            probe=_later(".python", "probe_python"),
            network="none",
        ),
    ),
    "judge": _Elsewhere(
        ".judge",
        "score_judge",
        Needs(
            container=False,
            check=_later(".judge", "check_judge"),
            model=_later(".judge", "need_of_judge"),
        ),
    ),
    TURN: _Elsewhere(
        ".turn",
        "score_turn",
        Needs(
            programs=_later(".turn", "has_commands"),
            check=_later(".turn", "check_turn"),
            tells_params=False,
        ),
    ),
    "swebench": _Elsewhere(".swebench.verified", "score_swebench", Needs(tells_params=False)),
    "swebench-pro": _Elsewhere(".swebench.pro", "score_swebench_pro", Needs(tells_params=False)),
    "bigcodebench": _Elsewhere(".bigcodebench.scorer", "score_bigcodebench", Needs(tells_params=False)),
}


def builtin_scorers() -> Mapping[str, Scorer]:
    """The types that come with the package, by their name in manifests."""
    return _KINDS


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
    """The files of a tests directory. Any user can read them, and run `test.sh`."""
    script = path / TEST_SCRIPT
    files = [File(TESTS_DIRECTORY, source=path, clean=True, readable=True)]
    if script.is_file():
        # Most repositories have it with mode 0644, and only root could change that in the sandbox.
        files.append(File(f"{TESTS_DIRECTORY}/{TEST_SCRIPT}", source=script, mode=0o755))
    return files


def line_ends_hint(path: Path | None) -> str:
    """Return the reason why a `test.sh` may not run, if it has Windows line ends; else an empty string."""
    if path is None or not has_windows_line_ends(path / TEST_SCRIPT):
        return ""
    return (
        f". {TEST_SCRIPT} has Windows line endings (CRLF), which shells cannot run: convert it (sed -i 's/\\r$//' "
        f"{TEST_SCRIPT}), and write `*.sh text eol=lf` into .gitattributes"
    )


def _refuse_unrunnable(context: ScoringContext, status: int | None, output: str, *, hint: str = "") -> None:
    if status in (_NOT_EXECUTABLE, _NOT_EXECUTABLE + 1):
        raise ScorerCrashed(
            f"scorer {context.spec.name!r} could not be run (exit status {status}): "
            f"{end_of(output, 300).strip() or 'it printed nothing'}{hint}"
        )


def _text(path: Path) -> str | None:
    if not path.is_file():
        return None
    if path.stat().st_size > _REWARD_LIMIT:
        raise ScoreInvalid(f"{path.name} is larger than {_REWARD_LIMIT >> 20} MiB")
    return path.read_text("utf-8", "replace")
