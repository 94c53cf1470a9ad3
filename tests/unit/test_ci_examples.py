"""The pipelines in `conftest_examples/ci`: their systems understand them, and every call in them is one we take."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from pytest_benchjobs.cli._commands import benchjobs

from .jobs import make_job, run

EXAMPLES = Path(__file__).parents[2] / "conftest_examples" / "ci"
FIRST_RUN = "$FIRST_RUN"
"""What a person who starts the pipeline by hand may set to `--first-run`."""
GITHUB = ("github-actions.yml", "github-actions-fork-comment.yml")


def github(name: str) -> dict[str, Any]:
    # YAML 1.1, which takes `on` for a truth; GitHub does not.
    data = yaml.safe_load((EXAMPLES / name).read_text("utf-8"))
    return {("on" if key is True else key): value for key, value in data.items()}


def steps(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for job, content in github(name)["jobs"].items():
        for step in content["steps"]:
            yield job, step


def gitlab() -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text("utf-8"))  # type: ignore[no-any-return]


def jenkins() -> str:
    return (EXAMPLES / "Jenkinsfile").read_text("utf-8")


def scripts() -> dict[str, list[str]]:
    """Every shell script of each file, with what the system puts in replaced by a word."""
    found = {
        name: [re.sub(r"\$\{\{.*?\}\}", "1", step["run"]) for _, step in steps(name) if "run" in step]
        for name in GITHUB
    }
    found["gitlab-ci.yml"] = [
        line
        for key, job in gitlab().items()
        if isinstance(job, dict) and key != "workflow"
        for part in ("before_script", "script", "after_script")
        for line in job.get(part, ())
    ]
    found |= {path.name: [path.read_text("utf-8")] for path in EXAMPLES.glob("*.sh")}
    texts = re.findall(r"'''(.*?)'''|\bsh '([^'\n]+)'", jenkins(), re.DOTALL)
    found["Jenkinsfile"] = [(long or short).replace("\\\\\n", "\\\n") for long, short in texts]
    return found


def calls() -> Iterator[tuple[str, str, list[str]]]:
    """File, program and arguments of each call of pytest or benchjobs."""
    for name, listed in scripts().items():
        for script in listed:
            for line in re.split(r"\n|&&|\|\|", script.replace("\\\n", " ")):
                program = re.match(r"\s*(?:venv/bin/)?(pytest|benchjobs)\s", line)
                if program is not None:
                    yield name, program[1], [word for word in shlex.split(line)[1:] if word != FIRST_RUN]


def test_github_and_gitlab_understand_their_pipelines() -> None:
    for name in GITHUB:
        jsonschema.Draft7Validator(get_builtin_schema("vendor.github-workflows")).validate(github(name))
    jsonschema.Draft7Validator(get_builtin_schema("vendor.gitlab-ci")).validate(gitlab())


def test_every_script_is_one() -> None:
    for name, listed in scripts().items():
        assert listed, name
        for script in listed:
            done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), f"{name}: {script}"


def test_every_call_is_one_that_we_take(
    pytestconfig: pytest.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("shards/1", "shard-1", "runs/$1/shard-1"):  # what is merged has to be there
        (tmp_path / name).mkdir(parents=True)
    seen: dict[str, set[str]] = {}
    for name, program, arguments in calls():
        seen.setdefault(name, set()).add(program)
        if program == "pytest":
            known, unknown = pytestconfig._parser.parse_known_and_unknown_args(arguments)
            assert unknown == [], f"{name}: {unknown}"
            assert known.bench_exit == "gate"
            continue
        command, rest = benchjobs, arguments
        context: click.Context | None = None
        while isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=command.name)
            _, found, rest = command.resolve_command(context, list(rest))
            assert found is not None, f"{name}: {arguments}"
            command = found  # type: ignore[assignment]
        rest = [argument.replace("*", "1") for argument in rest]
        shown = command.make_context(command.name, rest, parent=context)
        assert shown.args == [], f"{name}: {arguments}"
    assert seen == {
        "github-actions.yml": {"pytest", "benchjobs"},
        "gitlab-ci.yml": {"pytest", "benchjobs"},
        "Jenkinsfile": {"pytest", "benchjobs"},
        "slurm-array.sh": {"pytest"},
        "slurm-merge.sh": {"benchjobs"},
    }


def test_a_workflow_may_do_no_more_than_it_has_to() -> None:
    for name in GITHUB:
        workflow = github(name)
        assert workflow["permissions"] in ({}, {"contents": "read"})
        for job, content in workflow["jobs"].items():
            writes = [key for key, value in content.get("permissions", {}).items() if value == "write"]
            assert writes == (["pull-requests"] if job == "comment" else [])
            assert 0 < content["timeout-minutes"] <= 120
        assert "pull_request_target" not in (EXAMPLES / name).read_text("utf-8")


def test_what_may_write_runs_nothing_of_a_pull_request() -> None:
    for name in GITHUB:
        for job, step in steps(name):
            uses = step.get("uses", "")
            assert re.fullmatch(r"(actions/[a-z/-]+@v\d+)?", uses)  # of GitHub itself, none of a marketplace
            if job == "comment":
                assert uses in ("", "actions/download-artifact@v4")
            if uses.startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_nothing_that_a_pull_request_names_is_put_into_a_script() -> None:
    for name in GITHUB:
        for _, step in steps(name):
            assert set(re.findall(r"\$\{\{(.*?)\}\}", step.get("run", ""))) <= {" matrix.part "}


def test_results_are_kept_before_they_are_judged() -> None:
    kinds = [
        step.get("uses", step.get("run", "")) for job, step in steps("github-actions.yml") if job == "gate"
    ]
    judged = next(n for n, text in enumerate(kinds) if text.startswith("benchjobs gate"))
    assert any(text.startswith("actions/upload-artifact") for text in kinds[:judged])
    assert gitlab()["gate"]["artifacts"]["when"] == "always"
    assert jenkins().index("post {") < jenkins().index("archiveArtifacts")


def test_a_lost_cache_fails_the_gate_unless_a_person_calls_it_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_job(tmp_path / "reports", "20261121-054712-4f9a2c", {"oracle": {"count": "F", "other": "F"}})
    monkeypatch.chdir(tmp_path)
    gates = [(name, arguments) for name, _, arguments in calls() if arguments[0] == "gate"]
    assert sorted(name for name, _ in gates) == [
        "Jenkinsfile", "github-actions.yml", "gitlab-ci.yml", "slurm-merge.sh",
    ]  # fmt: skip
    for name, arguments in gates:
        assert run(*arguments) == 2, name
        assert "there is no file" in capsys.readouterr().err
        assert run(*arguments, "--first-run") == 0, name
        assert "no baseline: not compared: there is no file" in capsys.readouterr().out
        (script,) = [script for script in scripts()[name] if "benchjobs gate " in script]
        assert script.count(FIRST_RUN) == 1, f"{name}: the way out is missing"
    # Nothing but a person sets it.
    (step,) = [step for _, step in steps("github-actions.yml") if step.get("id") == "gate"]
    assert step["env"]["FIRST_RUN"].startswith("${{ inputs.first-run && ")
    assert gitlab()["variables"]["FIRST_RUN"]["value"] == ""
    assert "FIRST_RUN = \"${params.first_run ? '--first-run' : ''}\"" in jenkins()
    assert "defaultValue: false" in jenkins()
    # Whatever is not 0 fails the build; a first run on main is kept as the next baseline.
    assert "unstable(" not in jenkins()
    saved = [
        step["if"]
        for _, step in steps("github-actions.yml")
        if "steps.gate.outputs.verdict" in step.get("if", "")
    ]
    assert len(saved) == 2
    for condition in saved:
        (good,) = re.findall(r"fromJSON\('(.*?)'\)", condition)
        assert json.loads(good) == ["ok", "no baseline"]  # a job that looks worse would hide a broken agent


def test_the_gate_is_red_when_the_agent_fails_a_single_scenario_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = list(calls())
    for name, arguments in [(name, arguments) for name, _, arguments in listed if arguments[0] == "gate"]:
        here = name.replace("merge", "array")
        (ran,) = [words for place, program, words in listed if (place, program) == (here, "pytest")]
        attempts = int(ran[ran.index("--bench-attempts") + 1])
        for job, directory, letter in (("aaaaaa", "before", "P"), ("bbbbbb", "reports", "F")):
            shutil.rmtree(tmp_path / directory, ignore_errors=True)
            trials = {"oracle": {"count": letter * attempts}}
            make_job(tmp_path / directory, f"20261121-054712-{job}", trials)
        assert run("baseline", "export", "last", "--dir", "before", "--to", "baseline.json") == 0
        assert run(*arguments) == 10, name
        capsys.readouterr()


def test_a_gitlab_pipeline_hands_on_a_baseline_of_good_jobs_only() -> None:
    script = gitlab()["gate"]["script"]
    judged, kept = (
        next(n for n, line in enumerate(script) if text in line)
        for text in ("benchjobs gate", "baseline export")
    )
    assert judged < kept
    assert "grep -Eq 'verdict=\"(ok|no baseline)\"} 1' metrics.txt" in script[kept]


def test_the_jenkinsfile_is_whole() -> None:
    text = re.sub(r"'''.*?'''|'[^'\n]*'|\"[^\"\n]*\"|//[^\n]*", "", jenkins(), flags=re.DOTALL)
    opened: list[str] = []
    for char in text:
        if char in "{[(":
            opened.append(char)
        elif char in "}])":
            assert opened.pop() + char in ("{}", "[]", "()")
    assert opened == []
    assert re.match(r"\s*pipeline \{", text)
    for section in ("agent", "options", "environment", "stages", "post"):
        assert re.search(rf"^    {section} \{{", text, re.MULTILINE)
    assert "keepProperties: true" in jenkins()
