"""SWE-Bench Pro, the public set: larger issues of eleven repositories, each with its own test script and parser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ...model.errors import InputError
from ...model.scenario import Environment, FreshContainer, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import ROWS, Row, RowSource, write_rows
from .files import names, read_rows, reference_patch, the_one

WORKDIR = "/app"
EVAL_TIMEOUT = 3600.0
_REPOSITORY = "jefzda/sweap-images"
_LONGEST_TAG = 128
_KEPT = (
    *("instance_id", "repo", "base_commit", "repo_language", "dockerhub_tag", "patch", "before_repo_set_cmd"),
    *("problem_statement", "requirements", "interface"),
    *("fail_to_pass", "pass_to_pass", "selected_test_files_to_run"),
)
_COMMIT = re.compile(r"^[0-9a-f]{7,40}$")
_SAFE_ID = re.compile(r"^\w[\w.-]*$")
_SECTION = re.compile(r"(?=^diff --git )", re.MULTILINE)
_BINARY = re.compile(r"^(?:Binary files .* differ|GIT binary patch)$", re.MULTILINE)
# Newer than the rows: lists were corrected there.
_INFO = {
    "selected_test_files_to_run": "Test Files",
    "fail_to_pass": "FAIL_TO_PASS",
    "pass_to_pass": "PASS_TO_PASS",
}
_ONE_IMAGE = "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"


class SWEBenchPro(RowSource):
    """Rows with the scripts of their instance, as `prepare` writes them."""

    def ref(self, row: Row) -> ScenarioRef:
        """Id of the instance; its repository and its language are tags."""
        tags = (str(row["repo"]), str(row.get("repo_language") or ""))
        return ScenarioRef(str(row["instance_id"]), tuple(filter(None, tags)), scorers=("swebench-pro",))

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """The issue with its requirements; graded in a fresh container by the instance's own script and parser."""
        base = str(row["base_commit"])
        if not _COMMIT.match(base):
            raise ValueError(f"base_commit: a commit is expected, not {base[:50]!r}")
        checkout = str(row.get("before_repo_set_cmd") or "").strip().rpartition("\n")[2]
        if not checkout:
            raise ValueError("before_repo_set_cmd: is empty, so its tests are unknown; the row is incomplete")
        # As in the official evaluation: images were built with changes of tracked files.
        reset = f"git -c safe.directory='*' reset -q --hard {base} && git -c safe.directory='*' checkout -q {base}"
        environment = Environment(image=image(row), workdir=WORKDIR, setup=(reset,))
        return self.build(
            ref,
            problem_statement=problem_statement(row),
            metadata={key: row[key] for key in ("repo", "base_commit") if row.get(key)},
            environment=environment.model_copy(update={"git_history": base}),
            reference=reference_patch(without_binaries(str(row["patch"]))) if row.get("patch") else None,
            # There the tests are checked out of the later commit that they came with.
            fresh_container=FreshContainer(patch=True, ignored=False, environment=environment),
            scorers=(
                ScorerSpec(
                    name="tests",
                    type="swebench-pro",
                    timeout=EVAL_TIMEOUT,
                    params={
                        "environment": list(row["environment"]),
                        "checkout": checkout,
                        "run_script": row["run_script"],
                        "parser": row["parser"],
                        "test_files": names(row, "selected_test_files_to_run"),
                        "fail_to_pass": names(row, "fail_to_pass"),
                        "pass_to_pass": names(row, "pass_to_pass"),
                    },
                ),
            ),
        )


def problem_statement(row: Row) -> str:
    """Return the prompt: the issue, its requirements, and the interfaces that tests call."""
    issue, requirements, interface = (
        _unquoted(row.get(key)) for key in ("problem_statement", "requirements", "interface")
    )
    return f"{issue}\n\nRequirements:\n{requirements}\n\nNew interfaces introduced:\n{interface}"


def image(row: Row) -> str:
    """Return the image of a row, by the rule of its authors if the row names none."""
    tag = row.get("dockerhub_tag")
    if not tag:
        name, instance = str(row["repo"]).lower(), str(row["instance_id"])
        short = instance.replace("instance_", "")
        if instance != _ONE_IMAGE:
            short = short.removesuffix("-vnan")
            name = "element-hq/element" if name == "element-hq/element-web" else name
        tag = f"{name.replace('/', '.', 1)}-{short}"[:_LONGEST_TAG]
    return f"{_REPOSITORY}:{tag}"


def without_binaries(patch: str) -> str:
    """Return a patch without its binary files, which `git apply` cannot apply without their content."""
    return "".join(part for part in _SECTION.split(patch) if part.strip() and not _BINARY.search(part))


def _unquoted(text: object) -> str:
    """A text that may be written as quoted JSON."""
    if not isinstance(text, str):
        return ""
    if text.startswith('"') and text.endswith('"'):
        try:
            value = json.loads(text, strict=False)
        except ValueError:
            return text
        return value if isinstance(value, str) else text
    return text


sources = SWEBenchPro.of


def prepare(fetched: Path, directory: Path) -> None:
    """Write rows with the scripts of their instance, from the rows and the directories of the authors' repository.

    Raises InputError: something is missing, or cannot be read.
    """
    scripts = next(fetched.rglob("run_scripts"), fetched / "run_scripts")
    path = the_one(fetched, ("parquet", "jsonl", "json"), apart=(scripts, scripts.parent / "dockerfiles"))
    write_rows(directory / ROWS, (_whole(row, scripts) for row in read_rows(path)))


def _whole(row: Row, scripts: Path) -> dict[str, Any]:
    name = str(row.get("instance_id"))
    if not _SAFE_ID.match(name):
        raise InputError(f"{name[:100]!r} is not the id of an instance", path=scripts)
    whole = {key: row[key] for key in _KEPT if key in row}
    info = scripts / name / "instance_info.txt"
    if info.is_file():
        written = dict(line.split(": ", 1) for line in _text(info).splitlines() if ": " in line)
        whole |= {key: written[title] for key, title in _INFO.items() if title in written}
    whole["run_script"] = _text(scripts / name / "run_script.sh")
    whole["parser"] = _text(scripts / name / "parser.py")
    whole["environment"] = [
        line.strip().replace("ENV", "export", 1)
        for kind in ("base", "instance")
        for line in _text(scripts.parent / "dockerfiles" / f"{kind}_dockerfile" / name / "Dockerfile").split(
            "\n"
        )
        if line.strip().startswith("ENV")
    ]
    return whole


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None
