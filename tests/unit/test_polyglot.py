"""Aider Polyglot: exercises of the repository's layout become rows, directories and scenarios."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.scenario import Scenario
from pytest_benchjobs.sandbox.archive import excluded
from pytest_benchjobs.sources.catalogue import find
from pytest_benchjobs.sources.datasets.polyglot import (
    LANGUAGES,
    Polyglot,
    command,
    prepare,
    sources,
    without_disabled,
)
from pytest_benchjobs.trial.turns import statement_of

PYTHON = {
    ".docs/introduction.md": "# Introduction\n\nAdd.\n",
    ".docs/instructions.md": "# Instructions\n\nWrite `add`.\n",
    ".docs/instructions.append.md": "\nRaise no errors.\n",
    ".meta/example.py": "def add(a, b):\n    return a + b\n",
    ".meta/tests.toml": "",
    "add_up.py": "def add(a, b):\n    pass\n",
    "add_up_test.py": "from add_up import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "test_helper.py": "",
}
FILES = {"solution": ["add_up.py"], "test": ["add_up_test.py"], "example": [".meta/example.py"]}


def exercise(
    root: Path, language: str, name: str, files: dict[str, str], lists: dict[str, list[str]]
) -> None:
    directory = root / language / "exercises" / "practice" / name
    config = json.dumps({"authors": [], "files": lists, "blurb": "x"})
    for path, content in {**files, ".meta/config.json": config}.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(content)
        (directory / path).chmod(0o755 if path == "gradlew" else 0o644)


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    root = tmp_path / "fetched"
    exercise(root, "python", "add-up", PYTHON, FILES)
    return root


def read(directory: Path) -> Polyglot:
    entry = find("polyglot")
    assert entry is not None
    [source] = sources(entry, directory)
    return source


def opened(fetched: Path) -> tuple[Polyglot, Path]:
    directory = fetched.parent / "files"
    directory.mkdir(exist_ok=True)
    prepare(fetched, directory)
    return read(directory), directory


def written(directory: Path) -> list[str]:
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def loaded(fetched: Path, name: str) -> tuple[Scenario, Path]:
    source, directory = opened(fetched)
    language, _, rest = name.partition("-")
    return source.load(name), directory / language / rest


def made(
    tmp_path: Path, language: str, files: dict[str, str], solution: list[str], test: str, *example: str
) -> tuple[Scenario, Path]:
    """Make an exercise, and load it."""
    lists = {"solution": solution, "test": [test], "example": [f".meta/{name}" for name in example]}
    files = {".docs/instructions.md": "x", **files}
    exercise(tmp_path / "fetched", language, "add-up", files, lists)
    return loaded(tmp_path / "fetched", f"{language}-add-up")


def test_the_entry_is_found_by_what_people_type() -> None:
    names = {entry.name for name in ("aider-polyglot", "polyglot", "Aider_Polyglot") if (entry := find(name))}
    assert names == {"aider-polyglot"}


def test_the_prompt_is_that_of_the_benchmark(fetched: Path) -> None:
    scenario, _ = loaded(fetched, "python-add-up")
    assert scenario.problem_statement == (
        "# Introduction\n\nAdd.\n# Instructions\n\nWrite `add`.\n\nRaise no errors.\n"
        "\n####\n\nUse the above instructions to modify the supplied files: add_up.py\n"
        "Don't change the names of existing functions or classes, as they may be referenced from other code like unit "
        "tests, etc.\nOnly use standard libraries, don't suggest installing any packages.\n"
    )
    assert (scenario.tags, scenario.environment.workdir) == (("python",), "/exercises/add-up")


def test_the_second_prompt_shows_what_the_tests_printed_without_timings_and_paths(fetched: Path) -> None:
    scenario, _ = loaded(fetched, "python-add-up")
    assert scenario.feedback is not None
    printed = "rootdir: /exercises/add-up\nE  assert None == 3\n==== 1 failed in 0.03s ====\n"
    assert statement_of(scenario.feedback, "Do it.\n", printed) == (
        "Do it.\n\nrootdir: add-up\nE  assert None == 3\n==== 1 failed  ====\n####\n\n"
        "See the testing errors above.\nThe tests are correct, don't try and change them.\n"
        "Fix the code in add_up.py to resolve the errors.\n"
    )


def test_the_agent_gets_stubs_and_neither_tests_nor_the_example(fetched: Path) -> None:
    scenario, directory = loaded(fetched, "python-add-up")
    assert scenario.files == {"add_up.py": directory / "work" / "add_up.py"}
    assert written(directory / "work") == ["add_up.py"]
    assert written(directory / "tests") == ["add_up_test.py", "test_helper.py"]
    assert scenario.fresh_container is not None
    assert scenario.fresh_container.environment == scenario.environment
    assert scenario.scorers[0].path == directory / "tests"


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_each_language_has_its_image(language: str, tmp_path: Path) -> None:
    exercise(tmp_path / "fetched", language, "add-up", PYTHON, FILES)
    scenario, _ = loaded(tmp_path / "fetched", f"{language}-add-up")
    dockerfile = scenario.environment.dockerfile
    assert dockerfile is not None
    assert re.search(r"^FROM [a-z-]+:[a-z0-9.-]+$", dockerfile.read_text(), re.MULTILINE)
    assert "://" not in dockerfile.read_text()


def test_what_builds_an_exercise_is_given_and_put_back(tmp_path: Path) -> None:
    files = {
        ".meta/proof.ci.js": "export const add = (a, b) => a + b;\n",
        "add-up.js": "", "add-up.spec.js": "xtest('adds', () => {});\n",
        "package.json": '{"scripts": {"test": "jest ./*"}}', "babel.config.js": "", "data/words.txt": "",
    }  # fmt: skip
    _, directory = made(tmp_path, "javascript", files, ["add-up.js"], "add-up.spec.js", "proof.ci.js")
    others = ["babel.config.js", "data/words.txt", "package.json"]
    assert written(directory / "work") == sorted(["add-up.js", *others])
    assert written(directory / "tests") == sorted(["add-up.spec.js", *others])


def test_a_model_edits_no_build_file_even_where_the_exercise_has_it_as_its_solution(tmp_path: Path) -> None:
    names = (".meta/example.rs", "src/lib.rs", "Cargo.toml", "tests/add.rs", "tests/more/x.rs")
    solution = ["src/lib.rs", "Cargo.toml"]
    scenario, directory = made(
        tmp_path, "rust", dict.fromkeys(names, ""), solution, "tests/add.rs", "example.rs"
    )
    assert "supplied files: lib.rs\n" in scenario.problem_statement
    assert written(directory / "tests") == ["Cargo.toml", "tests/add.rs", "tests/more/x.rs"]
    assert written(directory / "work") == ["Cargo.toml", "src/lib.rs"]


def test_an_exercise_in_java_is_enabled_runnable_and_has_all_of_its_example(tmp_path: Path) -> None:
    tests = '@Test\n    @Disabled("Remove to run test")\n    void two() {}\n@Test\nvoid one() {}\n'
    assert without_disabled(tests) == "@Test\n        void two() {}\n@Test\nvoid one() {}\n"
    files = {
        ".meta/src/reference/java/Add.java": "class Add {}",
        ".meta/src/reference/java/Sum.java": "class Sum {}", "src/main/java/Add.java": "",
        "src/test/java/AddTest.java": tests, "gradlew": "", "build.gradle": "",
        "gradle/wrapper/gradle-wrapper.properties": "distributionUrl=x",
    }  # fmt: skip
    names = [f"src/reference/java/{name}.java" for name in ("Add", "Sum")]
    scenario, directory = made(
        tmp_path, "java", files, ["src/main/java/Add.java"], "src/test/java/AddTest.java", *names
    )
    assert (directory / "tests/src/test/java/AddTest.java").read_text() == without_disabled(tests)
    assert (directory / "work/gradlew").stat().st_mode & 0o111 == 0o111
    script = (directory / "solution/solve.sh").read_text()
    assert "cp /solution/0 src/main/java/Add.java\n" in script
    assert "cp /solution/1 src/main/java/Sum.java\n" in script
    # Files that build an exercise stay runnable in the context.
    assert scenario.environment.context is not None
    [project] = scenario.environment.context.iterdir()
    assert written(project) == ["build.gradle", "gradle/wrapper/gradle-wrapper.properties", "gradlew"]
    assert (project / "gradlew").stat().st_mode & 0o111 == 0o111


def test_headers_and_sources_of_an_example_go_to_their_stubs(tmp_path: Path) -> None:
    names = ("add_up.cpp", "add_up.h", "add_up_test.cpp", "CMakeLists.txt", "test/catch.hpp")
    files = {".meta/example.cpp": "cpp", ".meta/example.h": "h", **dict.fromkeys(names, "")}
    scenario, directory = made(
        tmp_path, "cpp", files, ["add_up.cpp", "add_up.h"], "add_up_test.cpp", "example.cpp", "example.h"
    )
    assert "supplied files: add_up.cpp add_up.h\n" in scenario.problem_statement
    script = (directory / "solution/solve.sh").read_text()
    assert "cp /solution/0 add_up.cpp\n" in script
    assert "cp /solution/1 add_up.h\n" in script
    assert written(directory / "work") == ["CMakeLists.txt", "add_up.cpp", "add_up.h"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"solution": ["../../other.py"]}, "not a file of the exercise"),
        ({"solution": ["/etc/passwd"]}, "not a file of the exercise"),
        ({"test": ["gone.py"]}, "not a file of the exercise"),
        ({"example": []}, "no example"),
        ({"solution": None}, "not the configuration"),
    ],
)
def test_what_is_no_exercise_is_said_with_its_file(
    tmp_path: Path, change: dict[str, list[str]], why: str
) -> None:
    exercise(tmp_path / "fetched", "python", "add-up", PYTHON, {**FILES, **change})
    with pytest.raises(InputError, match=why):
        opened(tmp_path / "fetched")


def test_a_directory_without_exercises_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no exercises"):
        prepare(tmp_path, tmp_path)


@pytest.mark.parametrize(
    "row",
    [
        {"language": "perl", "exercise": "x", "instructions": "x", "files": "x"},
        {"language": "python", "exercise": "../x", "instructions": "x", "files": "x"},
    ],
)
def test_a_row_that_leads_elsewhere_is_refused(tmp_path: Path, row: dict[str, str]) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="the row is wrong"):
        read(tmp_path).refs()


def ended(place: Path, instead: str, seconds: str = "180") -> subprocess.CompletedProcess[str]:
    """Run the command of Go with other tests."""
    tests, work = place / "tests", place / "work"
    tests.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    script = command("go").replace("/tests", str(tests)).replace("go test ./...", instead)
    call = ["sh", "-c", script.replace("180", seconds)]
    return subprocess.run(call, cwd=work, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("status", "wanted"), [(0, 0), (1, 1), (2, 1), (124, 1), (126, 126), (127, 127), (139, 1)]
)
def test_tests_that_end_badly_have_failed_and_what_cannot_be_run_is_told_apart(
    tmp_path: Path, status: int, wanted: int
) -> None:
    assert ended(tmp_path, f"exit {status}").returncode == wanted


def test_tests_that_do_not_end_have_failed(tmp_path: Path) -> None:
    done = ended(tmp_path, "sleep 60", "0.2")
    assert (done.returncode, done.stdout) == (1, "Tests timed out!\n")


def test_the_tests_are_put_over_whatever_the_agent_left(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "go.mod").write_text("module add\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "elsewhere").write_text("mine\n")
    (tmp_path / "work" / "go.mod").symlink_to(tmp_path / "elsewhere")
    assert ended(tmp_path, "cat go.mod").stdout == "module add\n"
    assert (tmp_path / "elsewhere").read_text() == "mine\n"


def test_what_an_exercise_depends_on_is_for_its_image_and_nothing_else_of_it_is(tmp_path: Path) -> None:
    base = {".docs/instructions.md": "x", ".meta/example.rs": "", "src/lib.rs": "", "tests/add.rs": ""}
    lists = {"solution": ["src/lib.rs"], "test": ["tests/add.rs"], "example": [".meta/example.rs"]}
    for name, more in (("one", ""), ("two", ""), ("three", '[dependencies]\nrand = "0.8"\n')):
        cargo = f'[package]\nname = "{name}"\nversion = "1.0.0"\n{more}'
        exercise(tmp_path / "fetched", "rust", name, {**base, "Cargo.toml": cargo}, lists)
    scenario, _ = loaded(tmp_path / "fetched", "rust-three")
    context = scenario.environment.context
    assert context is not None
    assert [path.partition("/")[2] for path in written(context)] == ["Cargo.toml", "Cargo.toml"]
    assert sum('rand = "0.8"' in path.read_text() for path in context.rglob("Cargo.toml")) == 1
    assert "--offline" in scenario.scorers[0].command  # type: ignore[operator]


@pytest.mark.parametrize(
    "path",
    [
        "src/main/resources/junit-platform.properties",
        "src/main/resources/META-INF/services/org.junit.platform.launcher.TestExecutionListener",
        "src/main/java/META-INF/services/x",
        "src/test/resources/junit-platform.properties",
    ],
)
def test_settings_of_junit_do_not_come_along(path: str) -> None:
    assert excluded(path, LANGUAGES["java"].left)
    assert not excluded("src/main/java/Add.java", LANGUAGES["java"].left)
