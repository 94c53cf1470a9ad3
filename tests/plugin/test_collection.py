from __future__ import annotations

import os
import re
import sys

import pytest

from .conftest import TASK, TOY, Bench


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def test_ids_are_path_scenario_agent_and_of_several_the_attempt(bench: Bench) -> None:
    bench.conftest("FakeProvider.__init__ = None")
    bench.toy()
    first, second = (ids(bench.run("--collect-only", "-q", "--bench-agent", "nop")) for _ in range(2))
    assert first == second == [f"toy.bench.yaml::{name}[nop]" for name in ("solved", "partial", "unscored")]
    bench.write("toy.bench.yaml", TOY.replace("id: solved", "id: solved\n    archived: true"))
    result = bench.run("--collect-only", "-q", "--bench-attempts", "2", "--bench-scenario", "solved,partial")
    assert ids(result) == ["toy.bench.yaml::partial[oracle-1]", "toy.bench.yaml::partial[oracle-2]"]
    result.stdout.fnmatch_lines(["*2/4 tests collected (2 deselected)*"])
    # Nothing was started, nothing is left.
    assert not (bench.path / "reports").exists()


def test_scenarios_are_chosen_by_id_pattern_metadata_keyword_and_tag(bench: Bench) -> None:
    area = "tags: [hard]\n    metadata: {area: [files, net]}"
    bench.write("toy.bench.yaml", TOY.replace("tags: [hard]", area))
    for options, chosen in (
        (("--bench-scenario", "solved,un*"), ["solved", "unscored"]),
        (("--bench-filter", "area=net"), ["partial"]),
        (("-k", "partial or unscored"), ["partial", "unscored"]),
        (("-m", "easy"), ["solved"]),
        (("-m", "bench_trial and not easy", "--strict-markers"), ["partial", "unscored"]),
        (("toy.bench.yaml::partial[oracle]",), ["partial"]),
        (("toy.bench.yaml::partial",), ["partial"]),
    ):
        found = ids(bench.run("--collect-only", "-q", *options))
        assert found == [f"toy.bench.yaml::{name}[oracle]" for name in chosen], options


def test_a_tag_cannot_switch_anything_on(bench: Bench) -> None:
    bench.write("toy.bench.yaml", TOY.replace("[easy, text]", '[skip, xfail, "c++ (old)"]'))
    bench.run("--strict-markers", "--bench-scenario", "solved").assert_outcomes(passed=1)


def test_a_name_finds_a_benchmark_and_nothing_else_is_collected(bench: Bench) -> None:
    bench.write("test_ordinary.py", "def test_ordinary(): pass")
    bench.write("benchmarks/toy.bench.yaml", TOY)
    ordinary = ["test_ordinary.py::test_ordinary"]
    every = [f"benchmarks/toy.bench.yaml::{name}[oracle]" for name in ("solved", "partial", "unscored")]
    for arguments, expected in (
        ("--bench toy", every),
        ("--bench toy -k solved", every[:1]),
        ("--bench toy -k toy", every),
        ("test_ordinary.py --bench toy", ordinary + every),
        ("benchmarks", every),
        ("--bench", every),
        ("--bench benchmarks/toy.bench.yaml -k solved", every[:1]),
        ("--bench toy --deselect toy::solved[oracle]", every[1:]),
        ("benchmarks --deselect toy::solved[", every[1:]),
        ("toy::solved[oracle]", every[:1]),
        ("toy::solved[oracle] benchmarks", every),
        ("toy::solved[oracle] --bench toy", every[:1]),
        ("benchmarks/toy.bench.yaml::solved[oracle] --bench toy", every[:1]),
    ):
        assert ids(bench.run("--collect-only", "-q", *arguments.split())) == expected, arguments

    for place in ("toy", "benchmarks/toy.bench.yaml"):
        wrong = f"{place}::nothing[oracle]"
        for more in ("--bench=toy", "benchmarks"):
            assert f"not found: {wrong}" in bench.refused(wrong, more)


def test_a_directory_that_must_not_be_entered_is_told_in_a_line(bench: Bench) -> None:
    bench.write("my benchmarks/closed/toy.bench.yaml", TOY)
    (bench.path / "jobs").mkdir()
    # Root enters any directory unless it gives up that right.
    kept = "-dac_override,-dac_read_search"
    limited = ("setpriv", f"--bounding-set={kept}", f"--inh-caps={kept}") if os.geteuid() == 0 else ()
    closed = [bench.path / "jobs", bench.path / "my benchmarks" / "closed"]
    for path in closed:
        path.chmod(0)
    try:
        called = (*limited, sys.executable, "-m", "pytest", "-p", "no:hypothesispytest")
        done = bench.process(*called, "my benchmarks/closed/toy.bench.yaml::solved")
        every = bench.process(*called)
    finally:
        for path in closed:
            path.chmod(0o755)
    assert "closed/toy.bench.yaml: cannot be read: Permission denied" in done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert "ERROR jobs - PermissionError" in every.stdout
    assert "pytest_benchjobs/" not in every.stdout


def test_what_no_path_finds_has_the_name_of_its_benchmark(bench: Bench) -> None:
    bench.manifest({"one": "echo 1"}, "../outside/far.bench.yaml")
    bench.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_paths = ../outside\n")
    bench.conftest(
        """
        from pytest_benchjobs import Benchmark, ScenarioRef
        from pathlib import Path

        class Rows:
            path, benchmark, version, warnings, load = Path(__file__), "rows", "1", (), print

            def refs(self, wanted=None):
                return [ScenarioRef("r")]

        def pytest_benchjobs_benchmarks(config):
            scenario = {"id": "w", "image": "none", "workdir": "/app", "problem_statement": "Write."}
            scenario |= {"reference": "true", "scorers": [{"type": "command", "command": "true"}]}
            return {"rows": Rows(), "made": Benchmark("made", version="1", scenarios=[scenario])}
        """
    )
    every = ["far::one[oracle]", "made::w[oracle]", "rows::r[oracle]"]
    for name, expected in (("far", every[:1]), ("made", every[1:2]), ("rows", every[2:]), ("", every)):
        assert sorted(ids(bench.run("--collect-only", "-q", "--bench", *name.split()))) == expected


def test_names_come_from_the_ini_file_and_from_hooks(bench: Bench) -> None:
    bench.toy()
    bench.conftest(
        """
        def pytest_benchjobs_benchmarks(config):
            return {"hooked": "toy.bench.yaml"}
        """
    )
    bench.write(
        "pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_benchmarks =\n    listed@2.1 = toy.bench.yaml\n"
    )
    for named in ("--bench=hooked", "--bench=listed", "--bench=listed@2.1", "listed::solved[oracle]"):
        found = ids(bench.run(named, "--collect-only", "-q", "--bench-scenario", "solved"))
        assert found == ["toy.bench.yaml::solved[oracle]"]
    assert bench.refused("--bench=listed@3") == "--bench: listed is known in version 2.1, not '3'"
    # A directory of tasks has a name of its own, too.
    bench.task("tasks/one")
    bench.write(
        "pytest.ini",
        "[pytest]\nbench_sandbox = fake\nbench_paths = tasks\nbench_benchmarks = named = tasks\n",
    )
    for named in ("--bench=named", "named::one[oracle]", "tasks"):
        assert ids(bench.run(named, "--collect-only", "-q")) == ["tasks/one::one[oracle]"]
    every = ids(bench.run("--bench", "--collect-only", "-q", "--bench-scenario", "one"))
    assert every == ["tasks/one::one[oracle]"]


def test_a_broken_manifest_is_one_collection_error_with_file_and_line(bench: Bench) -> None:
    bench.write("benchmarks/tiny.bench.yaml", "benchmark: tiny\nscenarios:\n  - id: 't 4'\n")
    broken = r"benchmarks/tiny\.bench\.yaml:3: .*t 4.*"
    # Alone, however it is met, and beside a good one.
    for arguments in ((), ("--bench",), ("--bench",)):
        result = bench.run(*arguments)
        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.re_match_lines([broken])
        assert "Traceback" not in result.stdout.str()
        assert not (bench.path / "reports").exists()
        if arguments:
            bench.manifest({"one": "echo 1"}, "mixed.bench.yaml")
    said = rf"--bench: there is no benchmark 'tiny'; available: mixed; not read.*: {broken}"
    assert re.match(said, bench.refused("--bench=tiny"))
    assert ids(bench.run("--bench=mixed", "--collect-only", "-q")) == ["mixed.bench.yaml::one[oracle]"]


def test_a_warning_made_an_error_is_one_clear_collection_error(bench: Bench) -> None:
    bench.task("tasks/odd", TASK.replace("[agent]\n", "[agent]\ntimeout_sce = 1\n"))
    result = bench.run("tasks", "-W", "error::pytest.PytestWarning", "-n", "2")
    assert result.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED)
    result.stdout.re_match_lines([r".*task\.toml:6: agent\.timeout_sce: unknown key, ignored.*"])
    assert "INTERNALERROR" not in result.stdout.str()
    result.assert_outcomes(errors=1)


def test_nothing_in_a_task_directory_is_an_ordinary_test(bench: Bench) -> None:
    bench.task("tasks/one")
    # Where such a file means something else, nothing of it is ours.
    bench.write("jobs/task.toml", '[tool]\nname = "make"\n')
    bench.write("jobs/test_it.py", "def test_it(): pass")
    all_of_it = ["jobs/test_it.py::test_it", "tasks/one::one[oracle]"]
    assert ids(bench.run("--collect-only", "-q")) == all_of_it
    assert ids(bench.run("--collect-only", "-q", "tasks/one")) == all_of_it[1:]
    assert bench.run("tasks/one/tests/test_outputs.py").ret == pytest.ExitCode.USAGE_ERROR


def test_a_rootdir_inside_a_task_does_not_make_its_tests_ordinary(bench: Bench) -> None:
    bench.task("tasks/one")
    (bench.path / "pytest.ini").unlink()
    said = bench.refused("--rootdir=tasks/one/tests", "tasks/one/tests")
    assert re.fullmatch(r".*tests belongs to the task .*tasks/one: .*Run: pytest .*tasks/one", said)


def test_a_task_that_cannot_be_run_keeps_no_other_from_running(bench: Bench) -> None:
    for name in ("bad", "good", "worse"):
        bench.task(f"tasks/{name}")
    bench.write("tasks/bad/task.toml", f"{TASK}[environment]\ngpus = 1\n")
    bench.write("tasks/worse/trajectory.json", "{}\n")
    (bench.path / "tasks/worse/environment/Dockerfile").unlink()
    result = bench.run("-n2", "tasks")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    rows = bench.job()["results"]
    found = {row["scenario"]: (row["outcome"], (row["failure"] or {}).get("class")) for row in rows}
    found.pop("good")
    assert [row["scenario"] for row in bench.results()] == ["good"], "it has run"
    assert "has neither docker_image" not in result.stdout.str(), "no other mistake of such a task is told"
    assert found == {"bad": ("error", "unsupported"), "worse": ("error", "unsupported")}
    result.stdout.fnmatch_lines(["*tasks/bad/task.toml:8: environment.gpus: GPUs are not supported yet*"])
    result.stdout.fnmatch_lines(["*trajectory.json: context from an earlier session is not supported yet*"])
    plan = bench.run("tasks", "--bench-plan")
    assert plan.ret == 0
    plan.stdout.fnmatch_lines(["*bad*GPUs are not supported yet*"])
    alone = bench.run("tasks", "-k", "good", "--collect-only", "-q")
    assert ids(alone) == ["tasks/good::good[oracle]"]
    assert ids(bench.run("tasks", "-m", "easy", "--collect-only", "-q")) == [
        f"tasks/{name}::{name}[oracle]" for name in ("bad", "good", "worse")
    ]


def test_a_mistake_in_a_task_still_keeps_all_from_running(bench: Bench) -> None:
    bench.task("tasks/good")
    bench.task("tasks/bad", TASK.replace("60.0", "'much'"))
    result = bench.run("tasks")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*tasks/bad/task.toml:4: *"])


@pytest.mark.usefixtures("from_nothing")
def test_a_manifest_imports_nothing_of_catalogue_and_datasets(bench: Bench) -> None:
    bench.manifest({"one": "echo 1"}, "one.bench.yaml")
    bench.conftest(
        """
        import sys

        def pytest_unconfigure(config):
            ours = (name.removeprefix("pytest_benchjobs.") for name in sys.modules)
            later = ("sources.catalogue", "sources.datasets", "scoring.answers", "scoring.replies", "scoring.swebench", "scoring.bigcode")
            print("later:", [name for name in ours if name.startswith(later)], file=sys.stderr)
        """
    )
    for way in (("one.bench.yaml",), ("--bench", "one.bench.yaml"), ("--bench", "one")):
        result = bench.run("--collect-only", *way)
        assert result.ret == 0
        result.stderr.fnmatch_lines(["later: []"])


@pytest.mark.usefixtures("from_nothing")
def test_unused_the_plugin_imports_nothing_but_the_standard_library_and_pytest(bench: Bench) -> None:
    bench.write("conftest.py", "")
    bench.write("pytest.ini", "[pytest]\n")
    bench.write(
        "test_imports.py",
        """
        import sys

        def test_imports():
            ours = sorted(name for name in sys.modules if name.startswith("pytest_benchjobs"))
            assert ours == [
                "pytest_benchjobs",
                "pytest_benchjobs.hookspecs",
                "pytest_benchjobs.plugin",
                "pytest_benchjobs.plugin.options",
                "pytest_benchjobs.settings",
                "pytest_benchjobs.settings.defaults",
                "pytest_benchjobs.settings.setting",
                "pytest_benchjobs.settings.table",
            ]
            assert not {"pydantic", "docker", "yaml", "sqlite3", "requests", "click"} & set(sys.modules)
        """,
    )
    bench.run().assert_outcomes(passed=1)


def test_a_conftest_of_a_task_never_runs_on_this_machine(bench: Bench) -> None:
    bench.task("tasks/one")
    for place in ("", "tests/", "solution/"):
        bench.write(f"tasks/one/{place}conftest.py", "raise SystemExit('run on the host')\n")
    for arguments in (["tasks/one"], ["tasks"], []):
        assert ids(bench.run("--collect-only", "-q", *arguments)) == ["tasks/one::one[oracle]"], arguments
    inside = bench.run("--collect-only", "-q", "tasks/one/tests")
    assert "run on the host" not in inside.stdout.str() + inside.stderr.str()


def test_every_node_id_that_is_printed_can_be_given_back(bench: Bench) -> None:
    bench.task("tasks/one")
    bench.task("tasks/two")
    bench.toy()
    agents = ("--bench-agent", "oracle", "--bench-agent", "nop")
    for arguments in (("--bench", "toy"), agents):
        found = ids(bench.run("--collect-only", "-q", *arguments))
        # Alone and all of them.
        for some in (found[-1:], found):
            assert ids(bench.run("--collect-only", "-q", *arguments, *some)) == some
    missing = bench.run("tasks/one::three[oracle]")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(["ERROR: not found: tasks/one::three*"])


def test_what_an_agent_wrote_is_never_collected(bench: Bench) -> None:
    planted = ["test_evil.py", "conftest.py", "other.bench.yaml"]
    reference = f"""echo 'raise SystemExit("ran on the host")' | tee {" ".join(planted)}"""
    bench.manifest(
        {"plant": {"workdir": "/app", "reference": reference, "artifacts": planted}}, "one.bench.yaml"
    )
    assert bench.run().ret == pytest.ExitCode.OK
    assert len(list(bench.path.glob("reports/jobs/*/trials/*/*/*/artifacts/*"))) == 3
    again = bench.run("--collect-only", "-q")
    assert ids(again) == ["one.bench.yaml::plant[oracle]"]
    assert "ran on the host" not in again.stdout.str() + again.stderr.str()


def test_asking_for_set_up_only_runs_no_trial(bench: Bench) -> None:
    bench.toy()
    for option in ("--setup-only", "--setup-plan"):
        assert bench.run(option).ret == pytest.ExitCode.OK
    assert not list(bench.path.glob("reports/jobs/*"))


def test_several_manifests_may_be_of_one_benchmark(bench: Bench) -> None:
    for name, version in (("one", "1"), ("two", "2")):
        about = {"benchmark": "both", "version": version}
        bench.manifest({name: "echo 1"}, f"benchmarks/{name}.bench.yaml", **about)
    for arguments, expected in (
        (["--bench", "both"], {"one", "two"}),
        (["--bench", "*"], {"one", "two"}),
        (["--bench", "both@2"], {"two"}),
    ):
        assert bench.run(*arguments).ret == 0
        assert {result["scenario"] for result in bench.results()} == expected
    done = bench.run("--bench", "both@3")
    done.stderr.fnmatch_lines(["ERROR: --bench: both is known in version 1, 2, not '3'"])


BOTH = ("sets/alpha/tasks/hello", "sets/beta/tasks/hello")


def test_two_tasks_of_one_name_are_not_one(bench: Bench) -> None:
    for place in (*BOTH, "sets/beta/tasks/other"):
        bench.task(place)
    for call in (("sets", "-n2"), ("--bench", "sets"), ("sets", "--bench-scenario", "hello")):
        result = bench.run(*call)
        assert result.ret == 4, result.stdout.str()
        (line,) = [line for line in result.errlines if "hello" in line]
        assert f"scenario 'hello' of benchmark 'tasks' is in {BOTH[0]} and in {BOTH[1]}" in line
        assert not (bench.path / "reports" / "jobs").exists()
    # Each alone is no mistake, nor is the same one given twice.
    for one in (
        (BOTH[0],),
        (BOTH[1], BOTH[1]),
        ("sets/beta", "sets/beta/tasks/hello"),
        ("sets", "-k", "other"),
    ):
        assert bench.run("--collect-only", "-q", *one).ret == 0


def test_directories_of_tasks_get_names_by_the_ini_file(bench: Bench) -> None:
    for place in BOTH:
        bench.task(place)
    bench.write(
        "pytest.ini",
        "[pytest]\nbench_sandbox = fake\nbench_benchmarks =\n    alpha = sets/alpha/tasks\n    single = sets/beta/tasks/hello\n",
    )
    for call in (("-n2", "sets"), ("--bench", "alpha", "--bench", "single"), (BOTH[0], BOTH[1])):
        result = bench.run(*call, "--bench-agent", "nop")
        assert result.ret in (0, 1), result.stdout.str()
        expected = [("alpha", "hello"), ("single", "hello")]
        assert sorted((one["benchmark"], one["scenario"]) for one in bench.results()) == expected


def test_two_manifests_with_one_name_and_id_are_not_one(bench: Bench) -> None:
    bench.manifest({"a": "echo 1"}, "one/x.bench.yaml")
    bench.manifest({"b": "echo 1"}, "two/x.bench.yaml")
    assert bench.run("--collect-only", "-q", "one", "two").ret == 0
    bench.manifest({"a": "echo 1", "b": "echo 1"}, "two/x.bench.yaml")
    twice = "scenario 'a' of benchmark 'x' is in one/x.bench.yaml and in two/x.bench.yaml"
    assert twice in bench.refused("one", "two")


def test_names_of_any_script_go_the_whole_way(bench: Bench) -> None:
    bench.manifest({"日本語": "echo 1", "Übung": "echo 1", "bung": "echo 0"}, "日本.bench.yaml")
    result = bench.run("日本.bench.yaml", "--bench-agent", "nop", "-n2")
    assert result.ret == 1
    assert sorted(one["scenario"] for one in bench.results()) == ["bung", "Übung", "日本語"]
    assert all(path.as_posix().isascii() for path in bench.bundle().glob("trials/*/*"))
    assert (
        bench.run("--bench-agent", "nop", "--bench-scenario", "日本語", "--bench-baseline", "last").ret == 0
    )
    assert [one["scenario"] for one in bench.results()] == ["日本語"]
    assert bench.run("日本.bench.yaml::Übung[oracle]", "--collect-only", "-q").ret == 0
    assert bench.run("-k", "日本語", "--collect-only", "-q").ret == 0
    exported = bench.benchjobs("baseline", "export", "job:last~1", "--to", "b.json")
    assert exported.returncode == 0, exported.stderr
    again = bench.run("日本.bench.yaml", "--bench-agent", "nop", "--bench-baseline", "file:b.json")
    assert again.ret == 0, again.stdout.str()


ROWS = """
import dataclasses, json, pathlib
from pytest_benchjobs import ScenarioRef
from pytest_benchjobs.model.scenario import Scenario

@dataclasses.dataclass
class Rows:
    path: pathlib.Path
    benchmark: str = "rows"
    version: str = "3"
    warnings: tuple = ()

    def refs(self, wanted=None):
        ids = self.path.read_text().split()
        return [ScenarioRef(one, tags=("row",)) for one in ids if wanted is None or wanted(one)]

    def load(self, scenario_id):
        with self.path.with_name("loaded.txt").open("a") as file:
            print(scenario_id, file=file)
        return Scenario(
            id=scenario_id, benchmark=self.benchmark, benchmark_version=self.version, source=self.path,
            problem_statement=f"Write {scenario_id}.", tags=("row",), environment={"image": "none", "workdir": "/app"},
            reference={"script": f"echo {scenario_id} > out.txt"},
            scorers=[{"name": "right", "type": "command", "command": f"grep -q {scenario_id} out.txt"}],
        )

def pytest_benchjobs_benchmarks(config):
    return {"rows": Rows(config.rootpath / "rows.txt")}
"""


def test_a_hook_gives_a_source_of_its_own(bench: Bench) -> None:
    bench.write("rows.txt", "one two three")
    bench.conftest(ROWS)
    found = ids(bench.run("--bench=rows@3", "--collect-only", "-q", "-m", "row"))
    assert found == ["rows::one[oracle]", "rows::two[oracle]", "rows::three[oracle]"]
    assert not (bench.path / "loaded.txt").exists()
    assert bench.run("--bench=rows", "--bench-scenario", "t*", "-n2").ret == 0
    assert set((bench.path / "loaded.txt").read_text().split()) == {"two", "three"}
    assert {(one["benchmark"], one["benchmark_version"], one["scenario"]) for one in bench.results()} == {
        ("rows", "3", "two"),
        ("rows", "3", "three"),
    }


HIDDEN = """benchmark: h
version: "1"
defaults: {image: debian}
scenarios:
  - id: calc
    problem_statement: Write add to calc.py.
    reference: {file: solve/test_solve.sh}
    files: {/app/given: given}
    scorers: [{name: t, type: tests, path: PATH}]
"""


@pytest.mark.parametrize(
    ("path", "arguments", "missing", "left"),
    [
        ("hidden", ["."], {"b/hidden/test_h.py"}, ["b/given", "b/hidden"]),
        ("hidden/test_h.py", ["."], {"b/hidden/test_h.py"}, ["b/given", "b/hidden/test_h.py"]),
        ("test_calc.py", ["."], {"b/test_calc.py"}, ["b/given", "b/test_calc.py"]),
        ("../tests", ["."], set(), ["b/given"]),  # a project's own tests, not beside the manifest
    ],
)
def test_hidden_tests_are_left_to_their_scenarios(
    bench: Bench, path: str, arguments: list[str], missing: set[str], left: list[str]
) -> None:
    own = {"b/hidden/test_h.py", "b/test_calc.py", "b/test_mine.py", "tests/test_own.py"}
    for name in (*own, "b/given/test_given.py"):
        bench.write(name, "def test_it(): pass\n")
    bench.write("b/given/conftest.py", "raise AssertionError\n")
    bench.write("b/solve/test_solve.sh", "")
    bench.write("b/z.bench.yaml", HIDDEN.replace("PATH", path))
    result = bench.run(*arguments, "--collect-only")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"not collected, as scenarios name them: {', '.join(left)}"])
    if path == "hidden":  # workers collect, and the controller tells
        result = bench.run(*arguments, "-n", "1")
        line = f"not collected, as scenarios name them: {', '.join(left)}"
        assert result.outlines.count(line) == 1
    result = bench.run(*arguments, "--collect-only", "-q")
    assert {line.partition("::")[0] for line in ids(result)} == {*own, "b/z.bench.yaml"} - missing
    # An argument is what was meant.
    assert ids(bench.run("b/hidden", "--collect-only", "-q")) == ["b/hidden/test_h.py::test_it"]


@pytest.mark.parametrize(
    ("files", "argument", "message"),
    [
        ({"hello.yaml": TOY}, "hello.yaml", "its name tells; call it hello.bench.yaml"),
        ({"hello.toml": 'benchmark = "b"\n[[scenarios]]\n'}, "hello.toml", "call it hello.bench.toml"),
        (
            {"tb/one/instruction.md": ""},
            "tb/one",
            "one has instruction.md, and no task.toml, which a task needs",
        ),
        ({"tb/one/instruction.md": ""}, "tb", "one has instruction.md, and no task.toml, which a task needs"),
    ],
)
def test_what_looks_like_a_benchmark_and_is_none_is_said(
    bench: Bench, files: dict[str, str], argument: str, message: str
) -> None:
    for name, content in files.items():
        bench.write(name, content)
    for arguments in ([argument], ["--bench", argument]):
        result = bench.run(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert message in result.stderr.str()
    bench.write("other.yaml", "benchmark: mine\n")
    assert "not a benchmark" not in bench.run("other.yaml").stderr.str()
