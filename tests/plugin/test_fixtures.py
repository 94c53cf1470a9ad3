"""Fixtures of conftest.py around trials."""

from __future__ import annotations

import os
from unittest import mock

import pytest

from .conftest import Bench

NOTING = """
import os
from pathlib import Path

import pytest

NOTES = Path(__file__).parent / "notes.txt"

def note(line):
    with NOTES.open("a") as file:
        print(line, file=file)
"""

SERVICE = """
@pytest.fixture(autouse=True, scope="session")
def service():
    note("up")
    yield
    note("down")
"""


class Noting(Bench):
    """Its fixtures and its trials note in a file what they do."""

    def conftest(self, more: str) -> None:
        super().conftest(NOTING + more)


@pytest.fixture
def two(bench: Bench) -> Noting:
    flying = f"echo flying {{}} >> '{bench.path}/notes.txt'"
    bench.manifest(
        {name: {"reference": flying.format(name), "script": "echo 1"} for name in "ab"}, "two.bench.yaml"
    )
    return Noting(bench.pytester)


def _notes(bench: Noting) -> list[str]:
    return (bench.path / "notes.txt").read_text().splitlines()


def test_wide_fixtures_are_set_up_before_the_first_trial_and_torn_down_after_the_last(two: Noting) -> None:
    two.conftest(SERVICE.replace("session", "package"))
    assert two.run().ret == pytest.ExitCode.OK
    notes = _notes(two)
    assert (notes[0], sorted(notes[1:-1]), notes[-1]) == ("up", ["flying a", "flying b"], "down")


def test_trials_with_narrower_fixtures_run_one_at_a_time_inside_them(two: Noting) -> None:
    two.conftest("""
@pytest.fixture(autouse=True)
def around(request, tmp_path, monkeypatch):
    monkeypatch.setenv("HERE", "1")
    note(f"up {request.node.name} {tmp_path.is_dir()}")
    print("printed by the fixture")
    yield
    note("down")

@pytest.fixture(autouse=True, scope="module")
def module():
    note("module up")
    yield
    note("module down")
""")
    result = two.run("--bench-attempts", "1")
    assert result.ret == pytest.ExitCode.OK
    assert _notes(two) == [
        "module up", "up a[oracle] True", "flying a", "down", "up b[oracle] True", "flying b", "down", "module down",
    ]  # fmt: skip
    result.stdout.fnmatch_lines(["bench: 2 trials run one at a time, because of fixtures with scope *"])


@pytest.mark.parametrize("more", ["", "--bench-attempts=3 --bench-attempt-policy=all --bench-concurrency=1"])
def test_what_fixtures_give_is_seen_by_the_trial(two: Noting, more: str) -> None:
    script = "cat out.txt; grep -q db:5432-hello-there out.txt && echo 1"
    two.manifest({"sees": {"workdir": "/app", "script": script}}, "sees.bench.yaml")
    two.write("given/there.txt", "there")
    two.conftest("""
@pytest.fixture(scope="session")
def database():
    yield "db:5432"
    note("down")

@pytest.fixture(scope="session")
def bench_env(database):
    return {"URL": database, "DB_PASSWORD": "correct-horse-battery"}

@pytest.fixture(scope="session")
def bench_files():
    return {"hello.txt": "hello", "/app/given": Path(__file__).parent / "given"}
""")
    agent = 'command:echo $DB_PASSWORD; echo "$URL-$(cat hello.txt)-$(cat given/there.txt)" > out.txt'
    assert two.run("sees.bench.yaml", "--bench-agent", agent, *more.split()).ret == pytest.ExitCode.OK
    assert _notes(two) == ["down"]
    for path in two.path.glob("reports/**/*"):
        assert path.is_dir() or b"correct-horse-battery" not in path.read_bytes(), path


@pytest.mark.parametrize(
    "door",
    [
        "benchmarks",
        "benchmarks/own.bench.yaml",
        "--bench benchmarks/own.bench.yaml",
        "--bench benchmarks",
        "--bench own",
        "--bench own -n 2",
        "tests --bench own",
        ". --bench own",
        "benchmarks/test_beside.py --bench own",
        "own::a[greeter]",
        "own::a[greeter] benchmarks/test_beside.py",
    ],
)
def test_a_conftest_beside_a_benchmark_counts_whatever_names_it(bench: Bench, door: str) -> None:
    bench.write(
        "benchmarks/conftest.py",
        """
        import pytest

        @pytest.fixture(scope="session")
        def word():
            with open("begun", "a") as file:
                file.write("once")
            return "hello"

        @pytest.fixture(scope="session")
        def bench_env(word):
            return {"WORD": word}

        def pytest_benchjobs_scorers():
            return {"greets": lambda context: float(context.run("cat out.txt")[1] == "hello\\n")}
        """,
    )
    bench.write("benchmarks/test_beside.py", "def test_word(word):\n    assert word == 'hello'\n")
    bench.write("tests/test_other.py", "def test_other(): pass\n")
    bench.manifest({"a": {"type": "greets", "workdir": "/app"}}, "benchmarks/own.bench.yaml")
    result = bench.run(*door.split(), "--bench-agent", "greeter=command:echo $WORD > out.txt")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert [each["score"] for each in bench.results()] == [1.0]
    workers = 2 if "-n" in door else 1
    assert (bench.path / "begun").read_text() in ("once", "once" * workers)


def test_a_conftest_of_what_was_fetched_or_within_a_task_is_not_for_this_machine(bench: Bench) -> None:
    cached = "cache/benchmarks/own"
    bench.write(f"{cached}/conftest.py", "import nothing_of_this_name\n")
    bench.manifest({"a": "echo score=1"}, f"{cached}/own.bench.yaml")
    bench.task("tasks/one")
    bench.write("tasks/one/tests/conftest.py", "import nothing_of_this_name\n")
    bench.manifest({"b": "echo score=1"}, "tasks/one/tests/more.bench.yaml")
    with mock.patch.dict(os.environ, {"BENCHJOBS_CACHE": str(bench.path / "cache")}):
        result = bench.run(
            "--bench", f"{cached}/own.bench.yaml", "--bench", "tasks/one/tests/more.bench.yaml"
        )
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    assert sorted(each["scenario"] for each in bench.results()) == ["a", "b"]


def test_a_conftest_beside_a_benchmark_that_breaks_is_named(bench: Bench) -> None:
    bench.write("benchmarks/conftest.py", "import nothing_of_this_name\n")
    bench.manifest({"a": "echo score=1"}, "benchmarks/own.bench.yaml")
    told = bench.refused("--bench", "own")
    assert told.startswith(f"{bench.path}/benchmarks/conftest.py: ModuleNotFoundError")


def test_a_fixture_that_fails_is_an_error_of_its_trials_which_never_fly(two: Noting) -> None:
    two.conftest("""
@pytest.fixture(autouse=True, scope="session")
def service():
    raise ConnectionError("no database")
""")
    result = two.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    failures = [one["failure"] for one in two.results()]
    assert [(one["class"], one["message"]) for one in failures] == 2 * [
        ("fixture", "a fixture failed: ConnectionError: no database")
    ]
    assert 'raise ConnectionError("no database")' in failures[0]["detail"]
    assert "_pytest" not in failures[0]["detail"]
    assert not (two.path / "notes.txt").exists()


def test_a_fixture_that_skips_skips_its_trials(two: Noting) -> None:
    two.conftest("@pytest.fixture(autouse=True)\ndef service():\n    pytest.skip('not on this machine')\n")
    two.run("-rs").stdout.fnmatch_lines(["SKIPPED*not on this machine"])
    assert [one["outcome"] for one in two.results()] == ["skipped", "skipped"]


def test_a_fixture_that_fails_when_it_is_torn_down_is_reported(two: Noting) -> None:
    two.conftest("""
@pytest.fixture(autouse=True)
def service():
    yield
    raise ConnectionError("gone already")
""")
    result = two.run()
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["*ERROR at teardown of a[[]oracle[]]*", "*ConnectionError: gone already*"])


def test_what_fails_after_the_last_trial_is_reported_as_its_error(two: Noting) -> None:
    two.conftest("""
@pytest.fixture(autouse=True, scope="session")
def service():
    yield
    raise ConnectionError("gone already")

@pytest.fixture(autouse=True, scope="session")
def another():
    yield
    note("down")
""")
    two.write("test_ordinary.py", "def test_one(): pass\n")
    result = two.run("-n", "1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*ERROR at teardown of *[[]oracle[]]*", "*ConnectionError: gone already*"])
    assert _notes(two)[-1] == "down"


@pytest.mark.parametrize("both", [False, True], ids=["one", "group"])
def test_an_error_at_teardown_shows_the_frames_of_the_project(two: Noting, both: bool) -> None:
    two.write("helper.py", "def stop(name):\n    raise ConnectionError(name)\n")
    two.conftest("""
from helper import stop

@pytest.fixture(autouse=True, scope="session")
def service():
    yield
    stop("gone already")
"""
        + ("""
@pytest.fixture(autouse=True, scope="session")
def another():
    yield
    stop("and the other")
""" if both else "")
    )  # fmt: skip
    two.write("pytest.ini", "[pytest]\nbench_sandbox = fake\npythonpath = .\n")
    result = two.run()
    result.stdout.fnmatch_lines(["*ERROR at teardown of *[[]oracle[]]*"])
    text = result.stdout.str()
    assert "helper.py" in text
    assert "gone already" in text
    assert ("and the other" in text) is both
    assert "_pytest/" not in text
    assert both or "plugin/items.py" not in text
    assert len(result.outlines) < 60


def test_a_mark_on_one_trial_is_for_that_one(two: Noting) -> None:
    two.conftest("""
@pytest.fixture
def special():
    note("up")
    yield
    note("down")

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name.startswith("b["):
            item.add_marker(pytest.mark.usefixtures("special"))
""")
    assert two.run().ret == pytest.ExitCode.OK
    assert _notes(two) == ["flying a", "up", "flying b", "down"]


def test_an_unknown_fixture_and_one_that_gives_something_else_are_named(two: Noting) -> None:
    two.conftest("""
@pytest.fixture
def bench_env():
    return "URL=x"

def pytest_collection_modifyitems(items):
    items[0].add_marker(pytest.mark.usefixtures("nowhere"))
""")
    two.run()
    failures = {one["scenario"]: one["failure"] for one in two.results()}
    assert {one["class"] for one in failures.values()} == {"fixture"}
    assert "fixture 'nowhere' not found" in failures["a"]["message"]
    assert "fixture bench_env gave a value of type str; return a dict" in failures["b"]["message"]


def test_ordinary_tests_and_trials_share_what_the_session_has(two: Noting) -> None:
    two.conftest(SERVICE)
    two.write("test_ordinary.py", "def test_one(): pass\ndef test_two(): pass\n")
    two.run().assert_outcomes(passed=4)
    notes = _notes(two)
    assert (notes[0], sorted(notes[1:-1]), notes[-1]) == ("up", ["flying a", "flying b"], "down")


def test_autouse_fixtures_of_installed_plugins_are_for_python(two: Noting) -> None:
    two.write(
        "site-packages/theirs.py",
        "import pytest\n@pytest.fixture(autouse=True)\ndef theirs():\n    raise ValueError\n",
    )
    two.write("pytest.ini", "[pytest]\nbench_sandbox = fake\npythonpath = site-packages\n")
    assert two.run("-p", "theirs").ret == pytest.ExitCode.OK


def test_fixtures_in_workers_of_xdist(two: Noting) -> None:
    two.conftest("""
@pytest.fixture(autouse=True, scope="session")
def service(worker_id):
    note(f"up {worker_id}")
    yield
    note(f"down {worker_id}")

@pytest.fixture(autouse=True)
def narrow():
    yield
""")
    assert two.run("-n", "1").ret == pytest.ExitCode.OK
    assert _notes(two) == ["up gw0", "flying a", "flying b", "down gw0"]


def test_stopping_early_tears_down(two: Noting) -> None:
    two.write("two.bench.yaml", (two.path / "two.bench.yaml").read_text().replace("echo 1", "echo 0"))
    two.conftest(SERVICE)
    two.run("-x", "--bench-concurrency", "1")
    assert _notes(two)[0] == "up"
    assert _notes(two)[-1] == "down"
