"""What a native manifest means."""

from __future__ import annotations

import os
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.errors import InputError, InputErrors
from pytest_benchjobs.model.scenario import (
    Answer,
    ArtifactSpec,
    CarriedPath,
    Environment,
    Feedback,
    FreshContainer,
    GradeIn,
    HealthCheck,
    Reference,
    Requires,
    Scenario,
    ScorerSpec,
    Validation,
)
from pytest_benchjobs.sources import find_sources, open_source
from pytest_benchjobs.sources import manifest as module
from pytest_benchjobs.sources.manifest import Manifest
from pytest_benchjobs.sources.protocol import ScenarioRef, Source
from pytest_benchjobs.sources.template import fill
from pytest_benchjobs.sources.toml_data import toml_lines

from .test_broken_input import places

EVERYTHING = """\
benchmark: text-tools
version: "1.0"
description: Small jobs.
metadata: {owner: us}
defaults:
  image: debian:bookworm-slim
  workdir: /app
  env: {A: "1", B: "2"}
  metadata: {team: x, since: 2024-01-01}
  agent_timeout: 300
  network: none
  healthcheck: {command: "true", retries: 5}
scenarios:
  - id: count-words
    problem_statement: Count.
    additional_context: {hint: [1, 2]}
    tags: [easy, text]
    metadata: {team: y}
    validation: reverse
    archived: true
    env: {B: "3", C: "${HOME}"}
    cpus: 1
    memory: 512M
    storage: 1G
    pids: 64
    network: allowlist
    allowed_hosts: [pypi.org, "*.debian.org", 10.0.0.0/8]
    setup: apt-get update
    files: {in.txt: fixtures/in.txt}
    reference: wc -w < in.txt > out.txt
    threshold: 0.5
    agent_user: 1000
    agent_env: {X: y}
    agent_network: public
    provider_tools: [web_search]
    scorer_timeout: 60
    scorers:
      - {name: exists, type: bash, script: "echo 1"}
      - {name: right, type: tests, weight: 3, path: tests/, timeout: 5, network: none}
      - {name: mine, type: my-scorer, params: {a: [1]}}
    fresh_container: {paths: [out.txt, {source: src, exclude: ["*.o"]}]}
    feedback: {statement: "{problem} {output}", turns: 3, replace: {" in [0-9.]+s": ""}}
    grade_in: fresh
    artifacts: [out.txt, {source: /var/log, destination: logs, exclude: ["*.gz"]}]
    requires: {env: [HOME], secrets: [KEY], commands: [git]}
  - id: build
    problem_file: problem.md
    environment:
      dockerfile: env/Dockerfile
      context: env
      build_args: {V: "1"}
      keep_entrypoint: true
      git_history: base
    reference: {patch: gold.patch}
    scorers: [{name: c, type: command, command: "true"}]
  - id: quoted
    problem_statement: x
    reference: {file: solve.sh}
    scorers: [{name: c, type: command, command: "true"}]
"""


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("memory: 1G\n    cpus: 1.5", (1 << 30, None, 1.5, None)),
        ("memory: {request: 1G, limit: 1G}", (1 << 30, None, None, None)),
        ("memory: {request: 1G, limit: 3G}", (3 << 30, 1 << 30, None, None)),
        ("cpus: {request: 1, limit: 2}", (None, None, 2, 1)),
    ],
)
def test_resources_are_one_number_or_two(
    tmp_path: Path, written: str, found: tuple[float | None, ...]
) -> None:
    path = tmp_path / "a.bench.yaml"
    scorers = 'scorers: [{name: c, type: command, command: "true"}]'
    path.write_text(
        f"benchmark: a\nscenarios:\n  - id: one\n    image: x\n    problem_statement: y\n    {written}\n    {scorers}\n"
    )
    own = open_source(path).load("one").environment
    assert (own.memory, own.memory_request, own.cpus, own.cpus_request) == found


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    for name, text in {
        "fixtures/in.txt": "a b\n",
        "tests/test.sh": "",
        "env/Dockerfile": "FROM x\n",
        "problem.md": "From a file.\n",
        "gold.patch": "",
        "solve.sh": "true\n",
        "all.bench.yaml": EVERYTHING,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return Manifest(tmp_path / "all.bench.yaml")


def test_every_key_reaches_the_scenario(manifest: Manifest) -> None:
    base = manifest.path.parent
    assert manifest.load("count-words") == Scenario(
        id="count-words",
        benchmark="text-tools",
        benchmark_version="1.0",
        problem_statement="Count.",
        additional_context={"hint": [1, 2]},
        tags=("easy", "text"),
        metadata={"team": "y", "since": "2024-01-01"},
        archived=True,
        validation=Validation.REVERSE,
        environment=Environment(
            image="debian:bookworm-slim", workdir="/app", env={"A": "1", "B": "3", "C": "${HOME}"}, cpus=1,
            memory=512 << 20, storage=1 << 30, pids=64, network="allowlist",
            allowed_hosts=("pypi.org", "*.debian.org", "10.0.0.0/8"), setup=("apt-get update",),
            healthcheck=HealthCheck(command="true", retries=5),
        ),
        files={"in.txt": base / "fixtures/in.txt"},
        reference=Reference(script="wc -w < in.txt > out.txt"),
        threshold=0.5,
        agent_timeout=300,
        agent_user="1000",
        agent_env={"X": "y"},
        agent_network="public",
        provider_tools=("web_search",),
        scorer_timeout=60,
        scorers=(
            ScorerSpec(name="exists", type="bash", script="echo 1"),
            ScorerSpec(name="right", type="tests", weight=3, path=base / "tests", timeout=5, network="none"),
            ScorerSpec(name="mine", type="my-scorer", params={"a": [1]}),
        ),
        fresh_container=FreshContainer(
            paths=(CarriedPath(source="out.txt"), CarriedPath(source="src", exclude=("*.o",)))
        ),
        feedback=Feedback(statement="{problem} {output}", turns=3, replace=((" in [0-9.]+s", ""),)),
        artifacts=(
            ArtifactSpec(source="out.txt"),
            ArtifactSpec(source="/var/log", destination="logs", exclude=("*.gz",)),
        ),
        requires=Requires(env=("HOME",), secrets=("KEY",), commands=("git",)),
        source=manifest.path,
        line=14,
    )  # fmt: skip


def test_a_dockerfile_takes_the_place_of_a_default_image(manifest: Manifest) -> None:
    base = manifest.path.parent
    build = manifest.load("build")
    assert build.environment == Environment(
        dockerfile=base / "env/Dockerfile", context=base / "env", build_args={"V": "1"}, keep_entrypoint=True,
        workdir="/app", env={"A": "1", "B": "2"}, network="none", git_history="base",
        healthcheck=HealthCheck(command="true", retries=5), hidden=(
            base / "all.bench.yaml", base / "gold.patch", base / "solve.sh", base / "tests"
        ),
    )  # fmt: skip
    assert build.problem_statement == "From a file.\n"
    assert build.reference == Reference(patch=base / "gold.patch")
    assert manifest.load("quoted").reference == Reference(script="true\n")


def _line_of(text: str) -> int:
    return EVERYTHING.splitlines().index(text) + 1


CARRIED = (CarriedPath(source="/var/lib/app"), CarriedPath(source="data", exclude=("*.o",)))


@pytest.mark.parametrize(
    ("keys", "fresh", "warned"),
    [
        ("", FreshContainer(), ""),
        ("grade_in: fresh", FreshContainer(), ""),
        ("carry: [/var/lib/app, {source: data, exclude: ['*.o']}]", FreshContainer(carry=CARRIED), ""),
        ("fresh_container: {patch: true}", FreshContainer(patch=True), ""),
        ("workdir: /\n    carry: [/var/lib/app]", FreshContainer(carry=CARRIED[:1]), ""),
        ("grade_in: agent_container", None, ""),
        ("grade_in: agent_container\n    carry: [/x]", None, "carry: has no effect"),
        ("compose: services.yaml", None, ""),  # unless it says what is taken of them
        ("compose: services.yaml\n    carry: [/var/lib/app]", FreshContainer(carry=CARRIED[:1]), ""),
        # Keys of earlier versions.
        ("keep_processes: true", None, ""),
        ("grading: contract", None, ""),
        ("grading: strict", FreshContainer(), "grading: strict has no effect"),
        ("keep_changes: [/var/lib/app, '/opt/*']", FreshContainer(carry=CARRIED[:1]), "keep_changes: is read as"),
    ],
)  # fmt: skip
def test_where_a_scenario_is_graded(path: Path, keys: str, fresh: FreshContainer | None, warned: str) -> None:
    path.write_text(PLACED.format(defaults="", keys=keys))
    (path.parent / "services.yaml").write_text("services: {main: {}, db: {image: y}}\n")
    source = Manifest(path)
    source.refs()
    scenario = source.load("a")
    assert scenario.fresh_container == fresh
    assert scenario.grade_in is (GradeIn.AGENT_CONTAINER if fresh is None else GradeIn.FRESH)
    assert len(source.warnings) == bool(warned)
    assert warned in "".join(map(str, source.warnings))


@pytest.mark.parametrize(
    ("defaults", "keys", "fresh"),
    [
        ("grade_in: agent_container", "", None),
        ("grade_in: agent_container", "grade_in: fresh", FreshContainer()),
        ("grade_in: agent_container", "fresh_container: {patch: true}", FreshContainer(patch=True)),
        ("keep_processes: true", "grade_in: fresh", FreshContainer()),
        ("fresh_container: {patch: true}", "grade_in: agent_container", None),
        ("fresh_container: {patch: true}", "carry: [/var/lib/app]", FreshContainer(carry=CARRIED[:1])),
        ("carry: [/var/lib/app]", "fresh_container: {patch: true}", FreshContainer(patch=True)),
    ],
)
def test_a_place_of_the_scenario_takes_that_of_the_defaults(
    path: Path, defaults: str, keys: str, fresh: FreshContainer | None
) -> None:
    path.write_text(PLACED.format(defaults=f", {defaults}", keys=keys))
    assert Manifest(path).load("a").fresh_container == fresh


PLACED = """
benchmark: b
defaults: {{image: x, workdir: /app, problem_statement: y{defaults}}}
scenarios:
  - id: a
    scorers: [{{name: s, type: bash, script: echo 1}}]
    {keys}
"""


def test_refs_are_in_file_order_with_lines_and_tags(manifest: Manifest) -> None:
    requires = Requires(env=("HOME",), secrets=("KEY",), commands=("git",))
    scorers = ("bash", "tests", "my-scorer")
    assert manifest.refs() == [
        ScenarioRef("count-words", ("easy", "text"), 14, archived=True, scorers=scorers, requires=requires),
        ScenarioRef("build", (), _line_of("  - id: build"), scorers=("command",)),
        ScenarioRef("quoted", (), _line_of("  - id: quoted"), scorers=("command",)),
    ]
    assert manifest.warnings == ()
    assert manifest.benchmark == "text-tools"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "b.bench.yaml"


def mistakes(path: Path) -> list[InputError]:
    with pytest.raises(InputErrors) as raised:
        Manifest(path).refs()
    return raised.value.errors


def test_only_wanted_scenarios_are_validated(path: Path) -> None:
    path.write_text(
        "benchmark: b\nscenarios:\n  - {id: bad, workdir: [1]}\n"
        "  - {id: good, image: x, problem_statement: y, scorers: [{name: s, type: other}]}\n"
    )
    assert Manifest(path).refs("good".__eq__) == [ScenarioRef("good", (), 4, scorers=("other",))]
    with pytest.raises(InputError, match=r"scenarios\[0\]\.workdir"):
        Manifest(path).refs("bad".__eq__)


def test_unknown_keys_are_mistakes_with_line_and_suggestion(path: Path) -> None:
    path.write_text(
        "benchmark: b\nauthor: me\ndefaults: {image: x, wrkdir: /app}\nscenarios:\n"
        "  - id: a\n    problem_statement: y\n    environment:\n      memroy: 1G\n"
        "    scorers:\n      - name: s\n        type: other\n        wieght: 2\n"
    )
    assert [(str(error), error.column, error.width) for error in mistakes(path)] == [
        (f"{path}:2: author: unknown key", 1, 6),
        (f"{path}:3: defaults.wrkdir: unknown key; did you mean 'workdir'?", 22, 6),
        (f"{path}:8: scenarios[0].environment.memroy: unknown key; did you mean 'memory'?", 7, 6),
        (f"{path}:12: scenarios[0].scorers[0].wieght: unknown key; did you mean 'weight'?", 9, 6),
    ]


def test_a_key_in_both_spellings_does_not_hide_what_is_wrong_with_it(path: Path) -> None:
    path.write_text(
        "benchmark: b\nscenarios:\n  - {id: a, imagee: x, image: [y], problem_statement: z, scorers: [{type: o}]}\n"
    )
    found = sorted(error.message.partition(":")[0] for error in mistakes(path))
    assert found == ["scenarios[0].image", "scenarios[0].imagee"]


def test_the_only_scorer_needs_no_name(path: Path) -> None:
    for type_, name in (
        ("bash, script: x", "bash"),
        ("'my.kind v2'", "my-kind-v2"),
        ("bash, name: s, script: x", "s"),
    ):
        path.write_text(
            f"benchmark: b\nscenarios:\n  - {{id: a, image: x, problem_statement: y, scorers: [{{type: {type_}}}]}}\n"
        )
        assert [scorer.name for scorer in Manifest(path).load("a").scorers] == [name]


def test_requirements_may_be_the_text_of_a_file_of_them(path: Path) -> None:
    text = "benchmark: b\ndefaults: {image: x, problem_statement: y}\nscenarios:\n  - id: a\n    scorers:\n"
    text += "      - type: python\n        script: '1'\n        requirements: |\n          # for both\n          a==1  # why\n\n          b\n"
    path.write_text(text)
    (scorer,) = Manifest(path).load("a").scorers
    assert scorer.requirements == ("a==1", "b")


def test_a_wrong_header_does_not_hide_mistakes_of_scenarios(path: Path) -> None:
    path.write_text("benchmrk: b\nscenarios:\n  - {id: a, workdir: [1]}\n")
    with pytest.raises(InputError) as raised:
        assert Manifest(path).benchmark
    found = [line.partition(": ")[2].partition(":")[0] for line in str(raised.value).splitlines()]
    assert found == ["benchmrk", "scenarios[0].workdir"]


def test_what_only_looks_like_a_number_or_date_stays_text(path: Path) -> None:
    path.write_text(
        "benchmark: b\nversion: 2024-05-06\nscenarios:\n"
        "  - {id: a, image: x, problem_statement: y, env: {MODE: 0755, AT: 12:30, V: 1.2.3}, scorers: [{name: s, type: o}]}\n"
    )
    scenario = Manifest(path).load("a")
    assert scenario.benchmark_version == "2024-05-06"
    assert scenario.environment.env == {"MODE": "0755", "AT": "12:30", "V": "1.2.3"}


def test_anchors_and_merge_keys_work_and_keep_their_lines(path: Path) -> None:
    path.write_text(
        "benchmark: b\nscenarios:\n  - &first\n    id: a\n    image: x\n    problem_statement: y\n"
        "    scorers: [{name: s, type: o}]\n  - <<: *first\n    id: b\n    image: z\n"
    )
    source = Manifest(path)
    assert source.refs() == [ScenarioRef("a", (), 3, scorers=("o",)), ScenarioRef("b", (), 8, scorers=("o",))]
    assert [source.load(name).environment.image for name in "ab"] == ["x", "z"]


def test_toml_says_the_same_as_yaml(tmp_path: Path) -> None:
    text = (
        '\ufeffbenchmark = "b"\n\n[defaults]\nimage = "x"\nmetadata = { since = 2024-01-01 }\n\n'
        '[[scenarios]]\nid = "a"\nproblem_statement = """\nDo\nit.\n"""\n'
        '[[scenarios.scorers]]\nname = "s"\ntype = "bash"\nscript = "echo 1"\n'
        '[[scenarios]]\nid = "b"\nproblem_statement = "x"\nscorers = [\n  { name = "s", type = "other" },\n]\n'
    )
    path = tmp_path / "b.bench.toml"
    path.write_text(text.replace("\n", "\r\n"), newline="")
    source = Manifest(path)
    first = ScenarioRef("a", (), 7, scorers=("bash",))
    assert source.refs() == [first, ScenarioRef("b", (), 17, scorers=("other",))]
    assert source.load("a").problem_statement == "Do\nit.\n"
    assert source.load("a").metadata == {"since": "2024-01-01"}
    wrong = text.replace('"other"', '"bash"')
    path.write_text(wrong.replace('type = "bash"\nscript', 'weight = 0\ntype = ""\nscript'))
    assert [f"{error.line}: {error.message}" for error in mistakes(path)] == [
        "15: scenarios[0].scorers[0].weight: must be greater than 0, not 0",
        "16: scenarios[0].scorers[0].type: is empty",
        "22: scenarios[1].scorers[0].script: is required but missing for a scorer of type 'bash'",
    ]


def test_loading_knows_an_unknown_id_and_keeps_the_file_as_first_read(manifest: Manifest) -> None:
    first = manifest.load("build")
    manifest.path.write_text("")
    assert manifest.load("build") == first
    with pytest.raises(InputError, match=r"no scenario 'biuld'\. did you mean 'build'"):
        manifest.load("biuld")


def test_a_file_that_is_gone_since_it_was_listed_is_a_mistake_when_the_scenario_is_loaded(
    manifest: Manifest,
) -> None:
    manifest.refs()
    (manifest.path.parent / "gold.patch").unlink()
    with pytest.raises(InputErrors, match=r"no file 'gold\.patch'"):
        manifest.load("build")


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were parsed."""
    found: list[Path] = []
    parse = module.parse_document

    def noting(path: Path, text: str, keys: Any) -> Any:
        found.append(path)
        return parse(path, text, keys=keys)

    monkeypatch.setattr(module, "parse_document", noting)
    return found


def test_many_threads_load_from_one_reading(manifest: Manifest, readings: list[Path]) -> None:
    loaded: list[Scenario] = []
    threads = [threading.Thread(target=lambda: loaded.append(manifest.load("count-words"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == [manifest.load("count-words")] * 8
    assert readings == [manifest.path]


def test_what_was_collected_is_parsed_again_if_the_file_says_something_else_or_is_large(
    manifest: Manifest, readings: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert manifest.benchmark
    manifest.refs()
    first = manifest.load("build")
    assert len(readings) == 1
    again = Manifest(manifest.path)
    again.refs()
    about = manifest.path.stat()
    text = manifest.path.read_text()
    manifest.path.write_text(text.replace("id: build", "id: built"))
    os.utime(manifest.path, ns=(about.st_atime_ns, about.st_mtime_ns))
    with pytest.raises(InputError, match="no scenario 'build'"):
        again.load("build")
    assert len(readings) == 3
    manifest.path.write_text(text)
    monkeypatch.setattr(module, "_MEMORY", len(text) - 1)
    large = Manifest(manifest.path)
    large.refs()
    assert large.load("build") == first
    assert len(readings) == 5


def test_sources_are_found_in_directories_of_directories(manifest: Manifest) -> None:
    base = manifest.path.parent
    for name in ("tasks/one", "tasks/two", ".hidden/three", "a/b/c/four", "a/b/c/d/five"):
        (base / name / "environment").mkdir(parents=True)
        (base / name / "instruction.md").touch()
        (base / name / "task.toml").touch()
    (base / "tasks" / "x.bench.toml").touch()
    found: list[Source] = find_sources(base)
    expected = ["a/b/c/four", "all.bench.yaml", "tasks/one", "tasks/two", "tasks/x.bench.toml"]
    assert [str(source.path.relative_to(base)) for source in found] == expected
    assert [source.benchmark for source in found if source.path.name == "one"] == ["tasks"]
    (alone,) = find_sources(base / "tasks" / "one" / "task.toml")
    assert alone.path == base / "tasks" / "one"
    assert open_source(base / "problem.md") is None
    assert open_source(base / "env") is None
    with pytest.raises(InputError, match="is not a benchmark"):
        find_sources(base / "problem.md")
    with pytest.raises(InputError, match="no such file"):
        find_sources(base / "nothing")


def test_collecting_a_manifest_imports_no_engine(manifest: Manifest) -> None:
    import subprocess

    code = (
        "import sys; from pathlib import Path; from pytest_benchjobs.sources import open_source\n"
        f"open_source(Path({str(manifest.path)!r})).refs()\n"
        "print(sorted({'docker', 'pytest', 'sqlite3', 'requests'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_templates_fill_whole_values_only() -> None:
    env = {
        "A": "${HOME}", "B": "${NO:-d e}", "C": "x${HOME}", "D": "${EMPTY:-d}", "E": "${NO:-}",
        "F": "${EMPTY}",
    }  # fmt: skip
    expected = {"A": "/h", "B": "d e", "C": "x${HOME}", "D": "d", "E": "", "F": ""}
    assert fill(env, {"HOME": "/h", "EMPTY": ""}) == expected


def test_templates_name_every_variable_that_is_missing() -> None:
    with pytest.raises(InputError) as raised:
        fill({"A": "${NO}", "TOKEN": "${TOKEN}"}, {})
    assert str(raised.value) == (
        "the environment variables NO (for A), TOKEN are not set; set them, or give a default: ${NAME:-default}"
    )


KEYS = st.from_regex(r"[a-z]{1,3}", fullmatch=True)
TOML = st.recursive(
    st.integers(0, 9) | st.text("ab[]{}#='\"\n", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(KEYS | st.just("a b"), TOML, max_size=4),
    st.lists(st.dictionaries(KEYS, TOML, max_size=2), max_size=3),
)
def test_every_place_of_a_toml_text_has_a_line(top: dict[str, Any], tables: list[dict[str, Any]]) -> None:
    text = "# [x]\n" + "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in top.items())
    text += "".join(
        "[[tables.list]] # =\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
        for table in tables
    )
    data = tomllib.loads(text)
    lines = toml_lines(text)
    assert {place for place in lines if _is_there(data, place)} == set(lines)
    assert [place for place in places(data) if place not in lines] == []
    source = text.split("\n")
    top_lines = [(place[0], line) for place, line in lines.items() if len(place) == 1]
    assert all(str(key).split()[0] in source[line - 1] for key, line in top_lines)


def _key(key: str) -> str:
    return f'"{key}"' if " " in key else key


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(_toml, value)) + "\n]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"""{escaped}"""' if "\\n" in escaped else f'"{escaped}"'
    return str(value)


def _is_there(data: Any, place: tuple[Any, ...]) -> bool:
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def test_a_short_answer_is_a_question_unless_it_needs_a_container(path: Path) -> None:
    path.with_name("in.txt").touch()
    path.write_text("""\
benchmark: b
defaults:
  image: x
  problem_statement: How much?
scenarios:
  - id: asked
    answer: {reference: "42", instruction: "Into {file}."}
    scorers: [{name: a, type: answer, params: {match: integer, expected: 42}}]
  - id: of-files
    files: {in.txt: in.txt}
    answer: {file: out/a.txt}
    scorers: [{name: a, type: answer, params: {match: exact, expected: "x"}}]
""")
    source = Manifest(path)
    asked, of_files = map(source.load, ("asked", "of-files"))
    assert asked.answer == Answer(reference="42", instruction="Into {file}.")
    assert of_files.answer == Answer(file="out/a.txt")
    assert asked.statement_in_container == "How much?\n\nInto answer.txt."
    assert (asked.is_question, of_files.is_question) == (True, False)
    assert [ref.needs_container for ref in source.refs()] == [False, True]
