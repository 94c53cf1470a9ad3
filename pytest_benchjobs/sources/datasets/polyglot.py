"""Aider Polyglot: 225 exercises of Exercism in six languages, with two tries each.

`prepare` turns the exercises of the repository into rows, and a directory for each:

    rows.jsonl
    <language>/<exercise>/work/        the files that an agent finds: stubs, and the files that build them
    <language>/<exercise>/tests/       files that replace the agent's for grading: tests, and the files that build them
    <language>/<exercise>/solution/    the example, for `oracle`
    <language>/.image/<digest>/        files that name dependencies of exercises, fetched when the image is built

Prompts, commands, the cleaning of their output and the timeout are those of aider's benchmark.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ...model.errors import InputError
from ...model.scenario import (
    CarriedPath,
    Environment,
    Feedback,
    FreshContainer,
    Reference,
    Scenario,
    ScorerSpec,
)
from ..protocol import ScenarioRef
from ..rows import ROWS, Row, RowSource, write_rows

TEST_TIMEOUT = 180
_BUILD_TIMEOUT = 3600.0
WORKDIR = "/exercises"
_IMAGES = Path(__file__).parent / "images"
_IMAGE = ".image"
_TIMED_OUT = "Tests timed out!"
_KILLED = 137
_MOST_FILES = 1000

ADDENDUM = """
####

Use the above instructions to modify the supplied files: {files}
Don't change the names of existing functions or classes, as they may be referenced from other code like unit tests, etc.
Only use standard libraries, don't suggest installing any packages.
"""
FAILURE = """
####

See the testing errors above.
The tests are correct, don't try and change them.
Fix the code in {files} to resolve the errors.
"""
_NOT_EDITED = ("CMakeLists.txt", "Cargo.toml")
"""Files that are not among those to edit, even if an exercise lists them as its solution."""
_NOT_GIVEN = (".meta/*", ".docs/*", ".approaches/*", ".articles/*")


@dataclasses.dataclass(frozen=True, slots=True)
class Language:
    """Commands and files for testing one of the languages."""

    command: str
    """Run in the exercise's directory."""
    tests: tuple[str, ...]
    """Patterns of paths of tests, beside those that an exercise names."""
    left: tuple[str, ...]
    """Patterns of files not copied for grading: an agent's own tests, settings of test tools, and build output."""
    dependencies: tuple[str, ...] = ()
    """Patterns of paths of files that name dependencies of an exercise. The image contains these, and tests
    fetch nothing, so no score depends on the network."""


LANGUAGES: Mapping[str, Language] = {
    "cpp": Language(
        "mkdir -p build && cd build && cmake -DEXERCISM_RUN_ALL_TESTS=1 -G 'Unix Makefiles' .. && make",
        ("*_test.cpp", "test/*"),
        ("*_test.cpp", "test", "build", "CMakeCache.txt", "CMakeFiles"),
    ),
    "go": Language("go test ./...", ("*_test.go",), ("*_test.go", "go.work", "vendor")),
    "java": Language(
        "./gradlew --offline test",
        ("src/test/*",),
        (
            *(
                "src/test",
                "build",
                ".gradle",
                "gradle.properties",
                "settings.gradle*",
                "init.gradle*",
                "buildSrc",
            ),
            *("junit-platform.properties", "META-INF"),
        ),
        ("gradlew", "gradle/*", "*.gradle"),
    ),
    "javascript": Language(
        "ln -sfn /npm-install/node_modules node_modules"
        " && ln -sfn /npm-install/package-lock.json package-lock.json"
        r" && sed -i 's/\bxtest(/test(/g' *.spec.js"
        " && npm run test",
        ("*.spec.js",),
        (
            *("*.spec.js", "*.test.js", "__tests__", "__mocks__", "node_modules", "package-lock.json"),
            *("jest.config.*", "babel.config.*", ".babelrc*", ".npmrc"),
        ),
    ),
    "python": Language(
        "pytest",
        ("*_test.py", "test_*.py"),
        (
            *("*_test.py", "test_*.py", "conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"),
            *("pyproject.toml", "__pycache__", ".pytest_cache", "*.pyc"),
        ),
    ),
    "rust": Language(
        "cargo test --offline -- --include-ignored",
        ("tests/*",),
        ("tests", "target", ".cargo", "Cargo.lock", "build.rs"),
        ("Cargo.toml",),
    ),
}
# Whatever the tests do to the shell that runs them, the result is one of three statuses: passed, failed, cannot run.
_SCRIPT = """\
cp -RT --remove-destination --preserve=mode /tests . || exit 126
timeout --kill-after=1 --signal=KILL {seconds} sh -c {command}
status=$?
if [ $status -eq {killed} ]; then echo {timed_out}; fi
case $status in 0|126|127) exit $status;; *) exit 1;; esac
"""


class Polyglot(RowSource):
    """The exercises of the rows that `prepare` wrote."""

    def ref(self, row: Row) -> ScenarioRef:
        """`python-bowling`; the language is a tag."""
        language, exercise = _names(row)
        return ScenarioRef(f"{language}-{exercise}", (language,), scorers=("tests",))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The exercise: two tries, each graded in a container with the agent's files and the tests."""
        language, exercise = _names(row)
        directory = self.path.parent / language / exercise
        environment = Environment(
            dockerfile=_IMAGES / f"polyglot-{language}" / "Dockerfile",
            context=self.path.parent / language / _IMAGE if LANGUAGES[language].dependencies else None,
            build_timeout=_BUILD_TIMEOUT,
            workdir=f"{WORKDIR}/{exercise}",
        )
        files = {entry.name: entry for entry in sorted((directory / "work").iterdir())}
        return self.build(
            ref,
            problem_statement=row["instructions"] + ADDENDUM.format(files=row["files"]),
            metadata={"language": language, "exercise": exercise},
            environment=environment,
            files=files,
            reference=Reference(solution=directory / "solution"),
            fresh_container=FreshContainer(
                paths=(CarriedPath(source=".", exclude=LANGUAGES[language].left),), environment=environment
            ),
            feedback=feedback(exercise, row["files"]),
            scorers=(
                ScorerSpec(
                    name="tests",
                    type="tests",
                    path=directory / "tests",
                    command=command(language),
                    # The benchmark's own timeout is in the command: reaching it is no error.
                    timeout=TEST_TIMEOUT + 120.0,
                ),
            ),
        )


def feedback(exercise: str, files: str) -> Feedback:
    """Return the feedback after a failed try: the official text, below the instructions, which a new agent lacks."""
    return Feedback(
        statement="{problem}\n{output}" + FAILURE.format(files=files),
        shows_output=True,  # so is the benchmark: its score is of two tries, the second one with the errors
        replace=((r"\bin \d+\.\d+s\b", ""), (re.escape(f"{WORKDIR}/{exercise}"), exercise)),
    )


def command(language: str) -> str:
    """Return the shell command that copies the tests over the agent's files, and runs them."""
    return _SCRIPT.format(
        seconds=TEST_TIMEOUT,
        command=shlex.quote(LANGUAGES[language].command),
        killed=_KILLED,
        timed_out=shlex.quote(_TIMED_OUT),
    )


sources = Polyglot.of


def prepare(fetched: Path, directory: Path) -> None:
    """Write rows and directories for the exercises of a checkout of the repository.

    Raises InputError: it has none, or one does not have Exercism's format.
    """
    configurations = sorted(fetched.glob("*/exercises/practice/*/.meta/config.json"))
    if not configurations:
        raise InputError(
            "has no exercises (<language>/exercises/practice/<exercise>); give a checkout of the repository",
            path=fetched,
        )
    exercises = (configuration.parent.parent for configuration in configurations)
    write_rows(
        directory / ROWS,
        (
            _prepare(exercise, language, directory)
            for exercise in exercises
            if (language := exercise.parents[2].name) in LANGUAGES
        ),
    )


def _prepare(exercise: Path, language: str, benchmark: Path) -> dict[str, Any]:
    """Write the directories of an exercise; returns its row."""
    _keep_dependencies(exercise, LANGUAGES[language], benchmark / language / _IMAGE)
    directory = benchmark / language / exercise.name
    files = _configuration(exercise / ".meta" / "config.json")
    tests, examples, solution = files["test"], files["example"], files["solution"]
    edited = [name for name in solution if name not in {*_NOT_EDITED, *tests, *examples}]
    given = [name for name in _files(exercise) if not _fits(name, _NOT_GIVEN)]
    hidden = {name for name in given if name in tests or _fits(name, LANGUAGES[language].tests)}
    for name in given:
        if name not in hidden:
            _copy(exercise / name, directory / "work" / name)
        if name not in edited:
            _copy(exercise / name, directory / "tests" / name, unskip=name in tests)
    _write_solution(exercise, directory / "solution", edited, examples)
    return {
        "language": language,
        "exercise": exercise.name,
        "instructions": _instructions(exercise / ".docs"),
        "files": " ".join(PurePosixPath(name).name for name in edited),
    }


def _keep_dependencies(exercise: Path, language: Language, place: Path) -> None:
    """Copy the files that name dependencies of an exercise, unless another exercise has the same ones."""
    names = [name for name in _files(exercise) if _fits(name, language.dependencies)]
    content = {name: _without_name((exercise / name).read_bytes()) for name in names}
    digest = hashlib.sha256(repr(sorted(content.items())).encode()).hexdigest()[:16]
    for name in names:
        _copy(exercise / name, place / digest / name)


def _without_name(content: bytes) -> bytes:
    """Return the content of a Cargo.toml without the name of its exercise; other files unchanged."""
    return re.sub(rb'(?m)^name = "[^"]*"$', b"", content)


def _configuration(path: Path) -> dict[str, list[str]]:
    """Return lists of files of an exercise: `solution`, `test` and `example`."""
    try:
        files = json.loads(path.read_text("utf-8"))["files"]
        lists = {name: [str(one) for one in files[name]] for name in ("solution", "test", "example")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"is not the configuration of an exercise: {error!r}"[:300], path=path) from None
    for name in (one for names in lists.values() for one in names):
        if name.startswith("/") or ".." in name.split("/") or not (path.parent.parent / name).is_file():
            raise InputError(f"names {name!r}, which is not a file of the exercise", path=path)
    return lists


def _files(exercise: Path) -> list[str]:
    found = sorted(path for path in exercise.rglob("*") if path.is_file() and not path.is_symlink())
    if len(found) > _MOST_FILES:
        raise InputError(f"has {len(found)} files, more than an exercise has", path=exercise)
    return [path.relative_to(exercise).as_posix() for path in found]


def _copy(source: Path, target: Path, *, unskip: bool = False) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
    if unskip and source.suffix == ".java":
        target.write_text(without_disabled(source.read_text("utf-8")), "utf-8")


def without_disabled(tests: str) -> str:
    """Return tests in Java with all of them enabled."""
    return re.sub(r"@Disabled\([^)]*\)\s*\n", "", tests)


def _write_solution(exercise: Path, directory: Path, edited: Sequence[str], examples: Sequence[str]) -> None:
    """Write the example solution, and the script that replaces the stubs by it."""
    lines = ["#!/bin/sh", "set -e"]
    targets = list(_targets(edited, examples))
    if not targets:
        raise InputError("has no example to replace a stub", path=exercise)
    for number, (example, target) in enumerate(targets):
        _copy(exercise / example, directory / str(number))
        quoted = shlex.quote(target)
        lines += [f"mkdir -p $(dirname {quoted})", f"cp /solution/{number} {quoted}"]
    script = directory / "solve.sh"
    script.write_text("\n".join(lines) + "\n", "utf-8")
    script.chmod(0o755)


def _targets(edited: Sequence[str], examples: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each example and the path it goes to: that of the same name, else the one with the same suffix.

    An example of another name that has no stub, a class of Java, goes beside the first stub.
    """
    for example in examples:
        path = PurePosixPath(example)
        same = [name for name in edited if PurePosixPath(name).name == path.name]
        ending = [name for name in edited if PurePosixPath(name).suffix == path.suffix]
        if same:
            yield example, same[0]
        elif path.suffix == ".java" and edited:
            yield example, str(PurePosixPath(edited[0]).with_name(path.name))
        elif ending:
            yield example, ending[0]


def _instructions(docs: Path) -> str:
    names = ("introduction.md", "instructions.md", "instructions.append.md")
    texts = [path.read_text("utf-8") for name in names if (path := docs / name).is_file()]
    if not (docs / "instructions.md").is_file():
        raise InputError("has no instructions.md", path=docs)
    return "".join(texts)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _names(row: Row) -> tuple[str, str]:
    language, exercise = str(row["language"]), str(row["exercise"])
    if language not in LANGUAGES:
        raise ValueError(f"language: one of {', '.join(LANGUAGES)} is expected, not {language!r}")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", exercise):
        raise ValueError(f"exercise: {exercise!r} is not the name of an exercise")
    return language, exercise
