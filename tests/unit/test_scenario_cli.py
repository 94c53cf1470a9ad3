"""`benchjobs scenario`: scenarios written, listed, shown, checked and imported."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pytest_benchjobs.cli import main
from pytest_benchjobs.sources import benchmark_schema
from pytest_benchjobs.sources.manifest import Manifest

from ..schemas import obeys


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "acme"\n')
    return tmp_path


def called(*arguments: str) -> tuple[int, str, str]:
    """Status, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(["scenario", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue(), err.getvalue()


def run(*arguments: str, status: int = 0) -> str:
    code, out, err = called(*arguments)
    assert code == status, (out, err)
    return out + err


def document(*arguments: str, status: int = 0, name: str) -> Any:
    code, out, _ = called(*arguments, "-o", "json")
    assert code == status
    found = json.loads(out)
    obeys(found, name)
    return found


# --- new


@pytest.mark.parametrize("name", ["acme.bench.yaml", "acme.bench.toml"])
def test_the_first_scenarios_make_a_manifest_that_editors_know(project: Path, name: str) -> None:
    path = project / "benchmarks" / name
    assert "wrote  benchmarks/" in run("new", "first", "--in", str(path))
    run("new", "second", "--in", str(path), "--image", "other", "--tag", "easy")
    source = Manifest(path)
    assert [ref.id for ref in source.refs()] == ["first", "second"]
    first, second = source.load("first"), source.load("second")
    assert first.environment.image != second.environment.image == "other"
    assert second.tags == ("easy",)
    head = "#:schema " if name.endswith("toml") else "# yaml-language-server: $schema="
    assert path.read_text().splitlines()[0] == f"{head}./.bench.schema.json"
    assert json.loads((path.parent / ".bench.schema.json").read_text()) == benchmark_schema()


def test_comments_and_indentation_of_a_manifest_stay(project: Path) -> None:
    path = project / "mine.bench.yaml"
    before = "benchmark: mine   # ours\ndefaults: {image: none}\nscenarios:\n- id: a  # first\n  problem_statement: |\n    Do.\n\n  scorers: [{type: command, command: 'true'}]\n\n\n"
    path.write_text(before)
    out = run(
        "new", "b", "--statement", "Say: 'it'\nis.", "--reference", "true", "--check", "test 1", "--check", "test 2",
        "--file", "in/x.txt=pyproject.toml",
    )  # fmt: skip
    assert "added  b to mine.bench.yaml" in out
    assert path.read_text().startswith(before.rstrip())
    found = Manifest(path).load("b")
    expected = ("Say: 'it'\nis.", ["test 1", "test 2"])
    assert (found.problem_statement, [spec.command for spec in found.scorers]) == expected
    assert found.files == {"in/x.txt": project / "pyproject.toml"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("b", "--statement", "x"), "--check is missing"),
        (("b", "--check", "x"), "--statement is missing"),
        (("b", "--reference", "x"), "--statement and --check is missing"),
        (("b", "--file", "x"), "--file: TARGET=PATH is expected, not 'x'"),
        (("b", "--in", "x.yaml"), "a manifest ends in .bench.yaml"),
        (("a",), "has a scenario 'a' already"),
        (("a b",), "'a b' is not a name"),
        (("b",), "`scenarios` is not at its end"),
        (("b", "--file", "x=none"), "no file or directory 'none'"),
    ],
)
def test_a_mistake_changes_nothing(project: Path, arguments: tuple[str, ...], message: str) -> None:
    path = project / "mine.bench.yaml"
    scenarios = (
        "scenarios:\n  - {id: a, image: none, problem_statement: x, scorers: [{type: command, command: x}]}\n"
    )
    text = f"{scenarios}benchmark: mine\n" if "its end" in message else f"benchmark: mine\n{scenarios}"
    path.write_text(text)
    assert message in run("new", *arguments, status=2)
    assert path.read_text() == text


def test_of_several_manifests_one_is_chosen(project: Path) -> None:
    run("new", "a", "--in", "benchmarks/x.bench.yaml")
    run("new", "a", "--in", "benchmarks/y.bench.yaml")
    wanted = "choose one with --in: benchmarks/x.bench.yaml, benchmarks/y.bench.yaml"
    assert wanted in run("new", "b", status=2)


# --- list, show, validate


def test_scenarios_are_listed_and_shown_but_their_answers_are_not(project: Path) -> None:
    run(
        "new", "one", "--statement", "Do it.", "--reference", "echo XYZZY", "--check", "grep XYZZY out",
        "--tag", "t",
    )  # fmt: skip
    (project / "helpers.py").write_text(
        "from pytest_benchjobs import Benchmark, Scenario\n"
        "ours = Benchmark('ours', confidential=True, scenarios=[Scenario('two', image='none', problem_statement='Secret.',\n"
        "    requires={'env': ['NO_SUCH_VARIABLE', 'HOME']}, scorers=[{'type': 'command', 'command': 'grep XYZZY'}])])\n"
    )
    assert "acme::one" in run("list")
    listed = document("list", "benchmarks", "helpers.py", name="scenarios")["scenarios"]
    found = [(one["benchmark"], one["scenario"], one["line"]) for one in listed]
    assert found == [("acme", "one", 8), ("ours", "two", 2)]
    shown = run("show", "one")
    assert "Do it." in shown
    assert "XYZZY" not in shown
    assert document("show", "acme::one", name="scenario")["has_reference"] is True
    hidden = run("show", "helpers.py::two")
    assert "(confidential: the problem statement is not shown)" in hidden
    assert "Secret" not in hidden
    assert "missing here  NO_SUCH_VARIABLE" in hidden
    told = document("show", "helpers.py::two", name="scenario")
    assert (told["problem_statement"], told["requires"]["missing"]) == (None, ["NO_SUCH_VARIABLE"])
    assert "did you mean 'one'?" in run("show", "acme::ono", status=2)
    assert "there is no scenario 'three' here" in run("show", "three", status=2)


def test_what_is_written_is_validated_without_running(project: Path) -> None:
    run("new", "one")
    assert "1 scenario: no mistakes in the files" in run("validate", "--schema-only")
    out = run("validate", "--schema-only", "--scenarios", "noe", status=1)
    assert "there is no scenario 'noe'; did you mean 'one'?" in out
    path = project / "benchmarks/acme.bench.yaml"
    text = path.read_text().replace("reference:", "refrence:")
    path.write_text(text.replace("type: command", "type: comand"))
    (project / "broken.py").write_text("import no_such_module\n")
    (project / "benchmarks/zoo.bench.yaml").write_text("benchmark: zoo\nscenarois: []\n")
    out = run("validate", "benchmarks", "broken.py", "none.bench.yaml", status=1)
    assert "zoo.bench.yaml:2: scenarois: unknown key" in out
    assert "acme.bench.yaml:10: scenarios[0].refrence: unknown key; did you mean 'reference'?" in out
    assert "broken.py: cannot be imported: ModuleNotFoundError: No module named 'no_such_module'" in out
    assert "no such file or directory: none.bench.yaml" in out
    assert "refrence" in run("list", status=1)


OURS = """
from pytest_benchjobs import Benchmark, Scenario
ours = Benchmark("ours", scenarios=[Scenario("two", image="none", problem_statement="Do.",
    scorers=[{"type": "command", "command": "true"}])])
"""


def test_a_directory_stands_for_its_python_files_and_is_never_empty_in_silence(project: Path) -> None:
    (project / "py/deep").mkdir(parents=True)
    (project / "py/deep/test_ours.py").write_text(OURS)
    (project / "py/test_other.py").write_text("raise SystemExit\n")  # has no benchmark, so it is not run
    assert "ours::two" in run("list", "py")
    assert "1 scenario: no mistake" in run("validate", "--schema-only", "py")
    (project / "py/deep/test_ours.py").rename(project / "py/deep/ours.py")
    for command in (["list", "py"], ["validate", "--schema-only", "py"]):
        out = run(*command, status=1)
        assert "py: holds no *.bench.yaml" in out
        assert "a Python file with another name has to be named itself" in out


def test_a_broken_file_hides_no_scenario_of_another(project: Path) -> None:
    run("new", "clean", "--in", "benchmarks/b.bench.yaml")
    (project / "benchmarks/a.bench.yaml").write_text("benchmark: [\n")
    code, out, err = called("show", "clean")
    assert (code, "::clean" in out, "a.bench.yaml" in err) == (0, True, True)
    code, _, err = called("show", "unclean")
    assert (code, "a.bench.yaml" in err, "there is no scenario 'unclean'" in err) == (2, True, True)


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("timeout", "agent_timeout"), ("timeout_sec", "agent_timeout"), ("problem", "problem_statement"),
        ("prompt", "problem_statement"), ("instruction", "problem_statement"), ("task", "problem_statement"),
        ("statement", "problem_statement"), ("tests", "scorers"),
    ],
)  # fmt: skip
def test_usual_words_for_a_key_are_understood(project: Path, key: str, ours: str) -> None:
    (project / "test_x.py").write_text(OURS.replace('image="none"', f'image="none", {key}="5"'))
    assert f"{key}: unknown key; did you mean {ours!r}?" in run("validate", "test_x.py", status=1)


@pytest.mark.parametrize(("value", "what"), [("one", "a Scenario; write"), ("3", "a value of type int")])
def test_scenarios_that_are_no_list_are_one_error_with_the_line(project: Path, value: str, what: str) -> None:
    (project / "test_x.py").write_text(
        "from pytest_benchjobs import Benchmark, Scenario\none = Scenario('one')\n"
        f"ours = Benchmark('ours', scenarios={value})\n"
    )
    assert f"test_x.py:3: scenarios: a list is expected, not {what}" in run("validate", "test_x.py", status=1)


# --- import

RUNLOOP = yaml.safe_load(r"""
id: scn_1
name: Fix the parser!
status: archived
validation_type: FORWARD
input_context: {problem_statement: Fix it., additional_context: {hint: [1]}}
environment_parameters:
  blueprint_id: bp_1
  working_directory: /home/user/app
  launch_parameters:
    resource_size_request: MEDIUM
    custom_disk_size: 20
    launch_commands: [apt-get update]
    user_parameters: {username: user, uid: 1000}
    keep_alive_time_seconds: 3600
    architecture: arm64
reference_output: "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"
required_environment_variables: [API_URL]
required_secret_names: [API_KEY]
scorer_timeout_sec: 60
metadata: {team: x}
surprise: 3
scoring_contract:
  scoring_function_parameters:
    - {name: b, weight: 0.2, scorer: {type: bash_script_scorer, bash_script: "echo score=1.0\n"}}
    - {name: c, weight: 0.2, scorer: {type: command_scorer, command: make check}}
    - {name: g, weight: 0.2, scorer: {type: ast_grep_scorer, pattern: eval($$$), lang: python, search_directory: src}}
    - name: t
      weight: 0.2
      scorer:
        type: test_based_scorer
        test_command: pytest -q tests
        test_files:
          - {file_path: tests/test_x.py, file_contents: "def test_x(): pass\n"}
          - {file_path: /etc/x.conf, file_contents: a}
          - {file_path: ../../evil, file_contents: a}
    - {name: own, weight: 0.1, scorer: {type: custom_scorer, custom_scorer_type: our-judge, scorer_params: {a: 1}}}
    - {name: what, weight: 0.1, scorer: {type: psychic_scorer}}
    - name: p
      weight: 0.1
      scorer:
        type: python_script_scorer
        python_script: "print(1.0)\n"
        python_version_constraint: ==3.12.10
        requirements_contents: "# for tables\nnumpy==2.1.0\n\n"
""")


def test_a_scenario_of_runloop_is_a_manifest(project: Path) -> None:
    (project / "parser.json").write_text(json.dumps(RUNLOOP))
    out = run("import", "parser.json", "--image", "ours:1")
    path = project / "benchmarks/parser.bench.yaml"
    jsonschema.validate(yaml.safe_load(path.read_text()), benchmark_schema())
    found = Manifest(path).load("Fix-the-parser")
    assert (found.problem_statement, found.additional_context) == ("Fix it.", {"hint": [1]})
    made = found.environment
    assert (made.image, made.workdir, made.cpus) == ("ours:1", "/home/user/app", 2)
    assert (made.memory, made.storage) == (4 << 30, 20 << 30)
    assert (made.setup, made.user) == (("apt-get update",), "user")
    assert (found.archived, found.validation, found.scorer_timeout) == (True, "forward", 60)
    assert found.metadata == {"team": "x", "runloop_id": "scn_1", "runloop_name": "Fix the parser!"}
    assert (found.requires.env, found.requires.secrets) == (("API_URL",), ("API_KEY",))
    assert found.reference is not None
    assert found.reference.patch == project / "benchmarks/Fix-the-parser/reference.patch"
    scorers = {spec.name: spec for spec in found.scorers}
    assert {name: (spec.type, spec.weight) for name, spec in scorers.items()} == {
        "b": ("bash", 0.2), "c": ("command", 0.2), "g": ("ast_grep", 0.2), "t": ("tests", 0.2), "own": ("our-judge", 0.1),
        "p": ("python", 0.1),
    }  # fmt: skip
    assert scorers["g"].params == {"lang": "python", "pattern": "eval($$$)", "path": "src"}
    assert scorers["own"].params == {"a": 1}
    python = scorers["p"]
    expected = ("print(1.0)\n", ("numpy==2.1.0",), "==3.12.10")
    assert (python.script, python.requirements, python.python_version) == expected
    tests = project / "benchmarks/Fix-the-parser/t"
    assert scorers["t"].path == tests
    script = "set -e\ncp -R /tests/files/. .\ncp -R /tests/root/. /\nset +e\npytest -q tests"
    assert scorers["t"].command == script
    written = sorted(str(one.relative_to(tests)) for one in tests.rglob("*") if one.is_file())
    assert written == ["files/tests/test_x.py", "root/etc/x.conf"]
    assert not list(project.glob("**/evil"))
    for left in (
        "architecture: has no equivalent",
        "surprise: has no equivalent",
        "test_files[2].file_path: '../../evil' is not the path of a file",
        "[4].scorer.custom_scorer_type: the script of 'our-judge' is in Runloop's registry: write it as a scorer",
        "[5].scorer.type: psychic_scorer is no scorer that is known",
    ):
        assert left in out, out
    assert "exists already" in run("import", "parser.json", status=2)


def test_what_is_missing_in_an_import_is_told_and_to_be_corrected(project: Path) -> None:
    second = {**RUNLOOP, "name": "second", "reference_output": "Say hello."}
    (project / "page.json").write_text(json.dumps({"scenarios": [RUNLOOP, second], "has_more": False}))
    found = document("import", "page.json", status=1, name="scenario-import")
    assert found["scenarios"] == ["Fix-the-parser", "second"]
    left = {(one["scenario"], one["key"]): one["why"] for one in found["left_out"]}
    assert "name an image here with --image" in left["second", "environment_parameters.blueprint_id"]
    assert "is not a patch" in left["second", "reference_output"]
    assert any("image: is missing" in one for one in found["mistakes"])


def test_an_import_without_its_image_can_be_repeated_with_one_until_it_is_edited(project: Path) -> None:
    (project / "parser.json").write_text(json.dumps(RUNLOOP))
    assert "image: is missing" in run("import", "parser.json", status=1)
    assert "exists already" in run("import", "parser.json", status=2)
    path = project / "benchmarks/parser.bench.yaml"
    broken = path.read_text()
    path.write_text(broken + "# mine\n")
    assert "exists already" in run("import", "parser.json", "--image", "ours:1", status=2)
    path.write_text(broken)
    run("import", "parser.json", "--image", "ours:1")
    assert "image: ours:1" in path.read_text()


def test_scenarios_of_one_name_are_imported_with_different_ids(project: Path) -> None:
    (project / "page.json").write_text(json.dumps([RUNLOOP, RUNLOOP, RUNLOOP]))
    out = document("import", "page.json", "--image", "ours:1", name="scenario-import")
    assert out["scenarios"] == ["Fix-the-parser", "Fix-the-parser-2", "Fix-the-parser-3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"), ("[]", "has no scenarios"), ("3", "is not a scenario of Runloop"),
        ('{"name": "x"}', "is not a scenario of Runloop"), ("[" * 100_000, "is nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_is_something_else_is_told(project: Path, text: str, message: str) -> None:
    (project / "x.json").write_text(text)
    assert message in run("import", "x.json", status=2)
    assert not (project / "benchmarks").exists()


def test_harbor_tasks_are_borrowed(project: Path) -> None:
    from .test_harbor import write

    write(project / "tasks" / "one")
    run("import", "tasks")
    source = Manifest(project / "benchmarks/tasks.bench.yaml")
    assert [ref.id for ref in source.refs()] == ["one"]
    assert source.load("one").benchmark == "tasks"
