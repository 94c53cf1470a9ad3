"""Types of scorers in the package: `bash`, `command`, `tests`, `harbor`, and a list with those of other files."""

from __future__ import annotations

import dataclasses
import importlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ..model.errors import ScoreInvalid, ScoreMissing, ScorerCrashed
from ..model.scenario import MAIN, TURN, ScorerSpec
from ..sandbox.protocol import Fetched, File
from ..sandbox.runner import ActsInside
from ..sources.documents import has_windows_line_ends
from ..system.cutting import end_of
from .metrics import numbers_among, printed_score, reported, take_metrics
from .needs import Collect, Needs, needing
from .own_runner import OwnRunner
from .protocol import VERIFIER_DIRECTORY, Graded, Scorer, ScoringContext
from .scores import check_owner, counts, ctrf_outcomes, junit_outcomes, parse_reward

TESTS_DIRECTORY = "/tests"
TEST_SCRIPT = "test.sh"


def put_tests(context: ScoringContext, *paths: Path | None) -> None:
    """Put tests in the place of whatever is in `/tests`, each path over those before, and empty the reward directory.

    Any user can read them, and run `test.sh`. Without a path, the tests of the image stay.
    """
    files = [context.empty(VERIFIER_DIRECTORY, directory=True)]
    for path in filter(None, paths):
        files += _files_of(path, clean=len(files) == 1)
    context.sandbox.put(files)


def _files_of(path: Path, *, clean: bool) -> Iterator[File]:
    if path.is_file():
        yield File(TESTS_DIRECTORY, clean=clean)
        yield File(f"{TESTS_DIRECTORY}/{path.name}", source=path, readable=True)
        return
    yield File(TESTS_DIRECTORY, source=path, clean=clean, readable=True)
    script = path / TEST_SCRIPT
    if script.is_file():
        # Most repositories have it with mode 0644, and only root could change that in the sandbox.
        yield File(f"{TESTS_DIRECTORY}/{TEST_SCRIPT}", source=script, mode=0o755)


LOG_DIRECTORIES = ("/logs/agent", "/logs/artifacts", VERIFIER_DIRECTORY)
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
    take_metrics(context)
    return printed_score(context, context.spec.script or "", "a bash scorer prints its score and exits 0")


def score_command(context: ScoringContext) -> Graded:
    """`command`: exit status 0 is 1.0, any other 0.0; a command that cannot be run is an error."""
    take_metrics(context)
    result, output = context.run(context.spec.command or "")
    _refuse_unrunnable(context, result.exit_status, output)
    return _by_status(context, result.exit_status, output)


def _by_status(context: ScoringContext, status: int | None, output: str) -> Graded:
    return Graded(float(status == 0), output, {"exit_status": status}, reported(context)[1])


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
    put_tests(context, spec.path)
    script = None if single or not (spec.path / TEST_SCRIPT).is_file() else f"{TESTS_DIRECTORY}/{TEST_SCRIPT}"
    command = spec.command or (script if spec.runner is None else None)
    ours = OwnRunner(spec, spec.path, target) if command is None else None
    if ours is None:
        result, output = context.run(command or "")
    else:
        result, output = context.run(ours.command, stdout=ours, hidden=ours.key)
    _refuse_unrunnable(context, result.exit_status, output, hint=line_ends_hint(spec.path))
    tests = _read_reports(context)
    if ours is not None:
        tests = ours.counts(tests)
    if tests is not None:
        passed, total = tests
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
    return _by_status(context, result.exit_status, output)


def _collect(spec: ScorerSpec) -> list[Collect]:
    return [
        Collect(str(hook["command"]), float(hook["timeout_sec"]), hook.get("user"), hook.get("service", MAIN))
        for hook in spec.params.get("collect", ())
    ]


def _with_owners(context: ScoringContext, kept: Path) -> Fetched | None:
    """Fetch what was left for us. Where the engine does not tell whose it is, our program does.

    Raises ScorerCrashed: nobody does.
    """
    sandbox = context.sandbox
    fetched = sandbox.fetch(VERIFIER_DIRECTORY, kept, limit=_LOGS_LIMIT)
    if fetched is None or fetched.owners or not isinstance(sandbox, ActsInside):
        return fetched
    shutil.rmtree(kept, ignore_errors=True)
    with sandbox.inside():
        fetched = sandbox.fetch(VERIFIER_DIRECTORY, kept, limit=_LOGS_LIMIT)
    if fetched is not None and not fetched.owners:
        raise ScorerCrashed(f"nobody tells whose the files in {VERIFIER_DIRECTORY} are")
    return fetched


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
    put_tests(context, spec.path, spec.overlay)
    script = f"{TESTS_DIRECTORY}/{TEST_SCRIPT}"
    if not any((place / TEST_SCRIPT).is_file() for place in (spec.path, spec.overlay) if place is not None):
        # It is in the image, with the mode that it was copied with.
        chmod = ("chmod", "+x", script)
        context.sandbox.exec(chmod, timeout=_CHMOD_TIMEOUT, sink=lambda _: None, user="root")
    result, output = context.run(script, signals_matter=False)
    if result.exit_status == _SIGKILL:
        raise ScorerCrashed(f"scorer {spec.name!r} was killed, so its output may be incomplete")
    kept = context.directory / "verifier"
    fetched = _with_owners(context, kept)
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
    """A function of another module, such as a type of scorer: the module is imported when it is first called."""

    module: str
    function: str
    needs: Needs = dataclasses.field(default_factory=Needs)

    def __call__(self, *arguments: Any) -> Any:
        return getattr(importlib.import_module(self.module, __package__), self.function)(*arguments)


def _elsewhere(module: str, function: str, later: Mapping[str, str] | None = None, **needs: Any) -> Scorer:
    """Return a type of scorer of another module; `later` are names of needs -> functions of that module."""
    functions: dict[str, Any] = {need: _Elsewhere(module, name) for need, name in (later or {}).items()}
    return _Elsewhere(module, function, Needs(**functions, **needs))


def _none(_spec: ScorerSpec) -> bool:
    return False


_KINDS: Mapping[str, Scorer] = {
    "answer": _elsewhere(
        ".answering", "score_answer", {"reading": "reading_of"}, container=False, tells_params=False
    ),
    "bash": score_bash,
    "command": score_command,
    "tests": score_tests,
    "harbor": score_harbor,
    "ast_grep": _elsewhere(".ast_grep", "score_ast_grep", {"check": "check_ast_grep"}, programs=_none),
    "files": _elsewhere(
        ".expected_files", "score_files", {"check": "check_files"}, programs=_none, tells_params=False
    ),
    "result_file": _elsewhere(".result_file", "score_result_file", {"check": "check_result_file"}),
    "capture": _elsewhere(
        ".capture", "score_capture", {"check": "check_capture"}, container=False, tells_params=False
    ),
    "python": _elsewhere(
        ".python", "score_python", {"check": "check_python", "probe": "probe_python"}, network="none"
    ),
    "judge": _elsewhere(
        ".judge", "score_judge", {"check": "need_of_judge", "model": "need_of_judge"}, container=False
    ),
    TURN: _elsewhere(
        ".turn", "score_turn", {"programs": "has_commands", "check": "check_turn"}, tells_params=False
    ),
    "swebench": _elsewhere(".swebench.verified", "score_swebench", tells_params=False),
    "swebench-pro": _elsewhere(".swebench.pro", "score_swebench_pro", tells_params=False),
    "bigcodebench": _elsewhere(".bigcodebench.scorer", "score_bigcodebench", tells_params=False),
}


def builtin_scorers() -> Mapping[str, Scorer]:
    """The types that come with the package, by their name in manifests."""
    return _KINDS


def _read_reports(context: ScoringContext) -> tuple[int, int] | None:
    for variable, outcomes_in in (("BENCH_JUNIT", junit_outcomes), ("BENCH_CTRF", ctrf_outcomes)):
        path = context.env[variable]
        try:
            content = context.sandbox.read(path, limit=_REPORT_LIMIT)
        except ValueError:
            raise ScoreInvalid(f"the report {path} is larger than {_REPORT_LIMIT >> 20} MiB") from None
        if content is None:
            continue
        (context.directory / PurePosixPath(path).name).write_bytes(content)
        found = counts(outcomes_in(content.decode("utf-8", "replace")))
        if found is None:
            raise ScoreInvalid(f"the report {path} cannot be read")
        return found
    return None


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
