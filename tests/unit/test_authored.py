"""Benchmarks and scenarios written in Python."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

import pytest_benchjobs as benchjobs
from pytest_benchjobs.model.errors import InputError, InputErrors
from pytest_benchjobs.sources.manifest import Manifest
from pytest_benchjobs.sources.written import WrittenScenario
from pytest_benchjobs.trial.signature import task_digest

from .test_manifest import EVERYTHING, manifest

__all__ = ["manifest"]

RIGHT = {"type": "command", "command": "true"}


def scenario(name: str | None = "one", **keys: Any) -> benchjobs.Scenario:
    return benchjobs.Scenario(
        name, **{"image": "none", "problem_statement": "Do.", "scorers": [RIGHT], **keys}
    )


def module(path: Path, text: str) -> dict[str, Any]:
    """Run a Python file, as an import would."""
    path.write_text(textwrap.dedent(text), "utf-8")
    names: dict[str, Any] = {}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)
    return names


def mistakes(benchmark: benchjobs.Benchmark) -> list[InputError]:
    with pytest.raises(InputErrors) as caught:
        benchmark.refs()
    return caught.value.errors


def test_a_benchmark_in_python_is_what_the_same_manifest_is(manifest: Manifest) -> None:
    data = yaml.safe_load(EVERYTHING)
    scenarios = [benchjobs.Scenario(**one) for one in data.pop("scenarios")]
    made = benchjobs.Benchmark(data.pop("benchmark"), scenarios=scenarios, **data)
    made._call = made._call._replace(path=manifest.path.with_name("test_x.py"))
    assert (made.benchmark, made.version) == (manifest.benchmark, "1.0")
    refs = manifest.refs()
    assert [(ref.id, ref.tags, ref.archived, ref.scorers) for ref in made.refs()] == [
        (ref.id, ref.tags, ref.archived, ref.scorers) for ref in refs
    ]
    for ref in refs:
        ours, theirs = made.load(ref.id), manifest.load(ref.id)
        left_out: Any = {"source": True, "line": True, "environment": {"hidden"}}
        assert ours.model_dump(exclude=left_out) == theirs.model_dump(exclude=left_out)
        moved = {made._call.path if path == manifest.path else path for path in theirs.environment.hidden}
        assert {*ours.environment.hidden} - {Path(__file__)} == moved, (
            "the module is hidden as the manifest is"
        )
        assert task_digest(ours) == task_digest(theirs)


def test_file_and_line_are_those_of_the_call(tmp_path: Path) -> None:
    names = module(
        tmp_path / "test_words.py",
        """\
        from pytest_benchjobs import Benchmark, Scenario

        words = Benchmark(
            "words",
            scenarios=[
                Scenario("right", image="none", problem_statement="Do.",
                         scorers=[{"type": "command", "command": "true"}]),
                Scenario(
                    "wrong",
                    image="none",
                    problem_statment="Do.",
                    tags="easy",
                    files={"in.txt": "missing.txt"},
                    scorers=[
                        {"name": "a", "type": "command", "comand": "true"},
                        {"name": "b", "type": "bash", "script": "echo 1", "weight": 0},
                    ],
                ),
            ],
        )
        """,
    )
    words = names["words"]
    found = [(error.line, error.message) for error in mistakes(words)]
    assert {error.path for error in mistakes(words)} == {tmp_path / "test_words.py"}
    assert found == [
        (11, "scenarios[1].problem_statment: unknown key; did you mean 'problem_statement'?"),
        (12, "scenarios[1].tags: a list is expected, not 'easy'; write [easy]"),
        (15, "scenarios[1].scorers[0].comand: unknown key; did you mean 'command'?"),
        (16, "scenarios[1].scorers[1].weight: must be greater than 0, not 0"),
    ]
    assert [(ref.id, ref.line) for ref in words.refs(lambda name: name == "right")] == [("right", 6)]
    assert words.load("right").source == tmp_path / "test_words.py"


def test_scenarios_of_another_file_are_told_with_that_file(tmp_path: Path) -> None:
    names = module(
        tmp_path / "helpers.py",
        """\
        from pytest_benchjobs import Scenario

        def wrong(name):
            return Scenario(name, image="none", scorers=[])
        """,
    )
    (error, other) = mistakes(benchjobs.Benchmark("words", scenarios=[names["wrong"]("a")]))
    assert (error.path, error.line, other.line) == (tmp_path / "helpers.py", 4, 4)
    assert {error.message, other.message} == {
        "scenarios[0].problem_statement: is required but missing",
        "scenarios[0].scorers: is empty; a scenario needs at least one scorer",
    }


@pytest.mark.parametrize(
    ("benchmark", "message"),
    [
        (lambda: benchjobs.Benchmark("a", scenario=[]), "scenario: unknown key; did you mean 'scenarios'?"),
        (lambda: benchjobs.Benchmark("a", scenarios=[scenario(), 3]), "scenarios[1]: a Scenario is expected, not a value of type int"),
        (lambda: benchjobs.Benchmark("a", scenarios=[lambda: 3]), "<lambda>: a Scenario is expected, not a value of type int"),
        (lambda: benchjobs.Benchmark("a", scenarios=[benchjobs.Scenario]), "scenarios[0]: a Scenario is expected, not the class Scenario"),
        (lambda: benchjobs.Benchmark("a", scenarios=[scenario(metadata={"x": object()})]), "scenarios[0].metadata.x: a value of type object cannot be used here; text, numbers, lists, tables and"),
        (lambda: benchjobs.Benchmark("a", scenarios=[scenario(scorers=[lambda context: 1.0])]), "scenarios[0].scorers[0]: a function that is a scorer needs a name: @pytest_benchjobs.scorer(NAME)"),
        (lambda: benchjobs.Benchmark("a", scenarios=[scenario(files={"src": "."})]), "scenarios[0].files.src: '.' contains the benchmark itself, and so the answers"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_the_words_of_manifests(
    benchmark: Callable[[], benchjobs.Benchmark], message: str
) -> None:
    found = mistakes(benchmark())
    assert any(error.message.startswith(message) for error in found), [error.message for error in found]
    assert all(error.line for error in found)
    with pytest.raises(InputError):
        benchmark().load("one")


def test_an_answer_is_in_no_text_of_the_objects() -> None:
    solved = scenario(reference="echo XYZZY", scorers=[{"type": "bash", "script": "grep XYZZY"}])
    words = benchjobs.Benchmark("words", scenarios=[solved])
    assert "XYZZY" not in f"{words!r} {solved!r} {words} {solved}"


def test_paths_enums_tuples_and_what_is_left_out(tmp_path: Path) -> None:
    class Level(enum.StrEnum):
        EASY = "easy"

    (tmp_path / "in.txt").write_text("x")
    one = scenario(tags=(Level.EASY,), files={"a": tmp_path / "in.txt"}, memory=None, reference=None)
    words = benchjobs.Benchmark("words", defaults={"workdir": "/app"}, scenarios=iter([one]))
    loaded = words.load("one")
    expected = (("easy",), {"a": tmp_path / "in.txt"}, "/app")
    assert (loaded.tags, loaded.files, loaded.environment.workdir) == expected


def test_a_function_is_a_scorer_where_it_is_written() -> None:
    @benchjobs.scorer("line-count")
    def count(context: Any) -> float:
        return 1.0

    twice = [{"name": "a", "type": count, "weight": 2}, {"name": "b", "type": count}]
    both = [scenario(scorers=[count]), scenario("two", scorers=twice)]
    words = benchjobs.Benchmark("words", scenarios=both)
    assert [ref.scorers for ref in words.refs()] == [("line-count",), ("line-count", "line-count")]
    assert [spec.weight for spec in words.load("two").scorers] == [2.0, 1.0]
    assert words.scorers == {"line-count": count}
    assert words.load("one").scorers[0].name == "line-count"


def test_parametrize_makes_variants() -> None:
    @pytest.mark.parametrize("words", [10, pytest.param(1000, id="many")])
    @pytest.mark.parametrize("order", ["up", "down"], ids=str.upper)
    def sort_lines(words: int, order: str) -> benchjobs.Scenario:
        return scenario(None, problem_statement=f"Sort {words} words {order}.", tags=[order])

    made = benchjobs.Benchmark("words", scenarios=[sort_lines, scenario("other")])
    assert [ref.id for ref in made.refs()] == [
        "sort-lines.UP-10", "sort-lines.UP-many", "sort-lines.DOWN-10", "sort-lines.DOWN-many", "other",
    ]  # fmt: skip
    loaded = made.load("sort-lines.DOWN-many")
    expected = ("Sort 1000 words down.", "sort-lines", ("down",))
    assert (loaded.problem_statement, loaded.cluster, loaded.tags) == expected


def test_ids_of_parametrize_are_those_of_pytest(pytester: pytest.Pytester) -> None:
    marks = """
        import pytest
        from pytest_benchjobs import Benchmark, Scenario
        SETS = pytest.mark.parametrize("a, b", [(1, "x"), (None, 2.5), pytest.param(object(), True), (3, "p q")])
        MORE = pytest.mark.parametrize("c", ["k", "l"], ids=["K", None])
    """
    pytester.makepyfile(f"{marks}\n\n        @SETS\n        @MORE\n        def test_it(a, b, c): pass\n")
    collected = pytester.inline_run("--collect-only", "-q", "-p", "no:cacheprovider")
    theirs = [item.name for item in collected.getcalls("pytest_itemcollected") for item in [item.item]]
    names: dict[str, Any] = {}
    exec(textwrap.dedent(marks), names)

    @names["SETS"]  # type: ignore[untyped-decorator]
    @names["MORE"]  # type: ignore[untyped-decorator]
    def test_it(a: object, b: object, c: object) -> benchjobs.Scenario:
        return scenario("test_it")

    ours = [ref.id for ref in benchjobs.Benchmark("words", scenarios=[test_it]).refs()]
    assert ours == [name.replace("[", ".").removesuffix("]").replace(" ", "-") for name in theirs]


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (pytest.mark.parametrize("a", [1, True], ids=["1", "1"]), "make: parametrize: two sets have the id '1'; give them ids=[...]"),
        (pytest.mark.parametrize("a", [1], indirect=True), "make: parametrize: indirect cannot be used for scenarios"),
        (pytest.mark.parametrize("a", [1, 2], ids=["x"]), "make: parametrize: there are 2 sets and 1 ids"),
        (pytest.mark.parametrize(("a", "b"), [(1,)]), "make: parametrize: a, b need 2 values, not 1"),
        (pytest.mark.parametrize("b", [1]), "make: raises TypeError: "),
    ],
)  # fmt: skip
def test_wrong_parameters_are_told(mark: pytest.MarkDecorator, message: str) -> None:
    def make(a: int) -> benchjobs.Scenario:
        return scenario()

    (error,) = mistakes(benchjobs.Benchmark("words", scenarios=[mark(make)]))
    assert error.message.startswith(message)
    assert error.line == make.__code__.co_firstlineno
    assert error.path == Path(__file__)


def test_scenarios_are_loaded_by_many_threads() -> None:
    words = benchjobs.Benchmark("words", scenarios=[scenario(f"s{number}") for number in range(100)])
    names = [f"s{number}" for number in range(100)] * 4
    with ThreadPoolExecutor(4) as pool:
        assert [one.id for one in pool.map(words.load, names)] == names


def test_every_key_of_a_manifest_is_known() -> None:
    every = benchjobs.Scenario(**dict.fromkeys(WrittenScenario.model_fields, 1))
    listed = benchjobs.Benchmark("words", scenarios=[every])
    assert not [error for error in mistakes(listed) if "unknown key" in error.message]


def test_a_confidential_benchmark_says_so() -> None:
    words = benchjobs.Benchmark("words", confidential=True, scenarios=[scenario()])
    assert words.confidential
    assert words.load("one").confidential
