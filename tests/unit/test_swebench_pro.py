"""Rows of SWE-Bench Pro: from its authors' repository to scenarios."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.sources.catalogue import find
from pytest_benchjobs.sources.datasets.swebench_pro import (
    SWEBenchPro,
    image,
    prepare,
    problem_statement,
    without_binaries,
)

COMMIT = "0123456789012345678901234567890123456789"
NAME = f"instance_Our__tiny-{COMMIT}-vnan"
PATCH = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def row(**more: Any) -> dict[str, Any]:
    """A row of the official schema."""
    return {
        "instance_id": NAME,
        "repo": "Our/tiny",
        "base_commit": COMMIT,
        "patch": PATCH,
        "test_patch": "",
        "problem_statement": '"It is\\n\\"wrong\\"."',
        "requirements": '"Be right."',
        "interface": "none",
        "repo_language": "python",
        "fail_to_pass": "['t::a']",
        "pass_to_pass": "[]",
        "issue_specificity": "[]",
        "issue_categories": "[]",
        "before_repo_set_cmd": f"git reset --hard {COMMIT}\ngit clean -fd \ngit checkout abc -- tests/t.py\n",
        "selected_test_files_to_run": '["tests/t.py", "tests/u.py"]',
        "dockerhub_tag": "",
        **more,
    }


def repository(directory: Path, *rows: Mapping[str, Any], info: str | None = None) -> Path:
    """The authors' repository, as far as it is fetched."""
    for given in rows:
        files = {
            f"run_scripts/{given['instance_id']}/run_script.sh": "echo tests\n",
            f"run_scripts/{given['instance_id']}/parser.py": "print()\n",
            f"dockerfiles/base_dockerfile/{given['instance_id']}/Dockerfile": "FROM x\nENV A=1 B=2\n  ENV C=3\n",
            f"dockerfiles/instance_dockerfile/{given['instance_id']}/Dockerfile": "FROM y\nRUN true\nENV D=4\n",
        }
        if info is not None:
            files[f"run_scripts/{given['instance_id']}/instance_info.txt"] = info
        for name, text in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
    (directory / "helper_code").mkdir(parents=True)
    lines = "".join(f"{json.dumps(given)}\n" for given in rows)
    (directory / "helper_code" / "rows.jsonl").write_text(lines)
    return directory


def source(directory: Path, fetched: Path) -> SWEBenchPro:
    """What is read of it."""
    entry = find("swebench_pro")
    assert entry is not None
    prepare(fetched, directory)
    (made,) = entry.sources(directory)
    assert isinstance(made, SWEBenchPro)
    return made


def test_a_row_is_a_scenario_with_the_scripts_of_its_instance(tmp_path: Path) -> None:
    rows = source(tmp_path, repository(tmp_path / "in", row()))
    assert [(ref.id, ref.tags) for ref in rows.refs()] == [(NAME, ("Our/tiny", "python"))]
    scenario = rows.load(NAME)
    assert scenario.problem_statement == (
        'It is\n"wrong".\n\nRequirements:\nBe right.\n\nNew interfaces introduced:\nnone'
    )
    assert scenario.environment.workdir == "/app"
    (reset,) = scenario.environment.setup
    assert COMMIT in reset
    assert "abc" not in reset  # the tests come when the agent is gone
    assert scenario.fresh_container is not None
    assert (scenario.fresh_container.patch, scenario.fresh_container.ignored) == (True, False)
    (scorer,) = scenario.scorers
    assert (scorer.type, scorer.timeout) == ("swebench-pro", 3600)
    assert scorer.params == {
        "environment": ["export A=1 B=2", "export C=3", "export D=4"],
        "checkout": "git checkout abc -- tests/t.py", "run_script": "echo tests\n", "parser": "print()\n",
        "test_files": ["tests/t.py", "tests/u.py"], "fail_to_pass": ["t::a"], "pass_to_pass": [],
    }  # fmt: skip


def test_lists_beside_the_scripts_are_newer_than_the_row(tmp_path: Path) -> None:
    info = 'Instance ID: x\nTest Files: ["v.py"]\nFAIL_TO_PASS: ["t::new"]\nPASS_TO_PASS: ["t::old: it"]\n'
    params = source(tmp_path, repository(tmp_path / "in", row(), info=info)).load(NAME).scorers[0].params
    lists = {"test_files": ["v.py"], "fail_to_pass": ["t::new"], "pass_to_pass": ["t::old: it"]}
    assert {name: params[name] for name in lists} == lists


@pytest.mark.parametrize(
    ("changes", "reference"),
    [
        ({}, f"our.tiny-Our__tiny-{COMMIT}"),
        ({"dockerhub_tag": "given"}, "given"),
        ({"instance_id": "instance_a__b-c-v1", "repo": "A/B"}, "a.b-a__b-c-v1"),
        ({"instance_id": "instance_" + "x" * 200}, ("our.tiny-" + "x" * 200)[:128]),
        (
            {"instance_id": "instance_element-hq__element-web-1-vnan", "repo": "element-hq/element-web"},
            "element-hq.element-element-hq__element-web-1",
        ),
        (
            {
                "instance_id": "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan",
                "repo": "element-hq/element-web",
            },
            "element-hq.element-web-element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan",
        ),
    ],
)
def test_an_image_is_named_by_the_rule_of_the_authors(changes: dict[str, str], reference: str) -> None:
    assert image(row(**changes)) == f"jefzda/sweap-images:{reference}"


def test_texts_that_are_not_json_stay_as_they_are() -> None:
    texts = {"problem_statement": '"a" and "b"', "requirements": None, "interface": '"open'}
    assert problem_statement(row(**texts)) == (
        '"a" and "b"\n\nRequirements:\n\n\nNew interfaces introduced:\n"open'
    )


def test_binary_files_are_left_out_of_the_reference() -> None:
    binary = "diff --git a/p b/p\nBinary files a/p and b/p differ\n"
    other = "diff --git a/q b/q\nGIT binary patch\nliteral 1\nabc\n\n"
    assert without_binaries(binary + PATCH + other) == PATCH


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"before_repo_set_cmd": None}, "the row is incomplete"),
        ({"base_commit": "HEAD; rm -rf /"}, "base_commit: a commit is expected"),
        ({"fail_to_pass": "[t::a]"}, "fail_to_pass: neither JSON nor a list of Python"),
    ],
)
def test_a_row_that_cannot_be_run_says_why_and_where(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    rows = source(tmp_path, repository(tmp_path / "in", row(**changes)))
    assert [ref.id for ref in rows.refs()] == [NAME]
    with pytest.raises(InputError, match=rf"rows\.jsonl:1: .*{message}"):
        rows.load(NAME)


def test_an_id_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    fetched = repository(tmp_path / "in", row())
    (fetched / "helper_code" / "rows.jsonl").write_text(json.dumps(row(instance_id="../../etc")))
    with pytest.raises(InputError, match="is not the id of an instance"):
        prepare(fetched, tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    fetched = repository(tmp_path / "in", row())
    (fetched / "run_scripts" / NAME / "parser.py").unlink()
    with pytest.raises(InputError, match=r"parser\.py: cannot be read"):
        prepare(fetched, tmp_path)
    (fetched / "helper_code" / "rows.jsonl").unlink()
    with pytest.raises(InputError, match="found none"):
        prepare(fetched, tmp_path)
