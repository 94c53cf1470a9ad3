"""The scorer `python`: its script, its interpreter, and requirements from an index that is a directory."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_benchjobs.model.errors import InputError, ScorerCrashed
from pytest_benchjobs.model.result import ScorerResult
from pytest_benchjobs.model.scenario import ScorerSpec
from pytest_benchjobs.scoring import wheels
from pytest_benchjobs.scoring.python import check_python, probe_python, score_python
from pytest_benchjobs.scoring.wheels import Interpreter, wheels_for

from .scoring import Files, left, scored

pytestmark = pytest.mark.when_changed

SELF = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with wheels, which is all that pip finds."""
    place = tmp_path / "index"
    place.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("BENCHJOBS_CACHE", str(tmp_path / "cache"))
    return place


def wheel(
    place: Path, name: str, version: str = "1.0", *, tag: str = "py3-none-any", needs: str = ""
) -> None:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"VALUE = {version!r}\n",
        f"{info}/METADATA": metadata + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        lines.append(f"{path},sha256={digest},{len(text)}\n")
    with zipfile.ZipFile(place / f"{name}-{version}-{tag}.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(lines) + f"{info}/RECORD,,\n")


def score(tmp_path: Path, files: Files | None = None, **changes: Any) -> ScorerResult:
    spec = ScorerSpec(name="it", type="python", **changes)
    with left(files or {}) as sandbox:
        result = scored(sandbox, spec, score_python, tmp_path / "trial")
        place = sandbox.root / "bench" / "python"
        assert not place.exists() or not list(place.iterdir())
        return result


def told(result: ScorerResult) -> tuple[str | None, float | None]:
    return None if result.error is None else result.error.class_, result.score


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("print(0.25)", (None, 0.25)),
        ("print('score=0.25'); print('done')", (None, 0.25)),
        ("0.25", (None, 0.25)),
        ("  1 == 1\n", (None, 1.0)),
        ("open('out.txt').read() == 'no'", (None, 0.0)),
        ("import sys\nsys.exit(0) if print(1) else None", (None, 1.0)),
        ("def main():\n    print(0.5)\nif __name__ == '__main__':\n    main()\n", (None, 0.5)),
        ("print(0.5); exit()", (None, 0.5)),
        ("float('nan')", ("score_invalid", None)),
        ("2", ("score_invalid", None)),
        ("10 ** 400", ("scorer_crashed", None)),
        ("None", ("score_missing", None)),
        ("'0.5'", ("score_missing", None)),
        ("pass", ("score_missing", None)),
        ("1 / 0", ("scorer_crashed", None)),
        ("import", ("scorer_crashed", None)),
        ("import sys; print(1); sys.exit(3)", ("scorer_crashed", None)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", ("scorer_crashed", None)),
        ("import pytest", ("scorer_crashed", None)),
        ("import helper", ("scorer_crashed", None)),
        ("import json; print(json.loads('1'))", (None, 1.0)),
    ],
)
def test_a_script_prints_its_score_and_an_expression_is_its_own(
    tmp_path: Path, script: str, kind: tuple[str | None, float | None]
) -> None:
    lie = "print('score=1')\nraise SystemExit(0)\n"
    files = {f"{name}.py": lie for name in ("helper", "json", "sitecustomize", "pytest", "ast")}
    assert told(score(tmp_path, {"out.txt": "yes", **files}, script=script)) == kind


def test_a_script_may_be_a_file_and_reports_metrics(tmp_path: Path) -> None:
    path = tmp_path / "grade.py"
    path.write_text("print('metric seconds=3')\nprint('metric seconds.more=1')\nprint(0.5)\n")
    result = score(tmp_path, path=path, metrics={"seconds": {"unit": "s", "direction": "lower"}})
    assert told(result) == (None, 0.5)
    assert [metric.model_dump() for metric in result.metrics] == [
        {"name": "seconds", "value": 3.0, "unit": "s", "direction": "lower"}
    ]


def test_requirements_are_wheels_for_the_python_of_the_container(tmp_path: Path, index: Path) -> None:
    wheel(index, "outer", needs=f"inner; python_version >= '{SELF}'")
    wheel(index, "inner", "2.0")
    result = score(
        tmp_path, requirements=["outer==1.0"], script="import outer, inner\nprint(inner.VALUE == '2.0' and 1)"
    )
    assert told(result) == (None, 1.0), result.error
    assert result.details["packages"] == ["inner==2.0", "outer==1.0"]
    for path in index.iterdir():
        path.unlink()
    again = score(tmp_path, requirements=["outer==1.0"], script="import outer\nprint(1)")
    assert told(again) == (None, 1.0)  # from the cache


PYTHON: dict[str, Any] = {
    "executable": "/usr/bin/python3", "libc": "glibc 2.36", "implementation_name": "cpython",
    "python_full_version": "3.11.2", "python_version": "3.11", "platform_machine": "x86_64",
    "sys_platform": "linux",
}  # fmt: skip


def other_python(version: str, libc: str | None = "glibc 2.36", machine: str = "x86_64") -> Interpreter:
    versions = {"python_full_version": version, "python_version": version.rpartition(".")[0]}
    python = Interpreter.of({**PYTHON, **versions, "libc": libc, "platform_machine": machine})
    assert python is not None
    return python


def test_markers_and_wheels_are_those_of_the_container_and_not_of_this_machine(index: Path) -> None:
    wheel(index, "outer", needs="old; python_version < '3.9'")
    wheel(index, "old")
    wheel(index, "built", "1.0", tag="cp38-cp38-manylinux_2_17_aarch64")
    wheel(index, "built", "2.0", tag="cp312-cp312-manylinux_2_34_x86_64")
    wheel(index, "built", "3.0", tag="cp312-cp312-musllinux_1_1_x86_64")
    wheel(index, "built", "4.0", tag="cp312-cp312-manylinux_2_99_x86_64")
    assert wheels_for(["outer"], other_python("3.8.10"))[1] == ("old==1.0", "outer==1.0")
    assert wheels_for(["outer"], other_python("3.12.1"))[1] == ("outer==1.0",)
    assert wheels_for(["built"], other_python("3.8.1", "glibc 2.31", "aarch64"))[1] == ("built==1.0",)
    assert wheels_for(["built"], other_python("3.12.1"))[1] == ("built==2.0",)
    assert wheels_for(["built"], other_python("3.12.1", None))[1] == ("built==3.0",)


@pytest.mark.parametrize("requirement", ["missing==1.0", "built>=1", "source"])
def test_requirements_that_cannot_be_had_are_an_error_and_leave_nothing(
    tmp_path: Path, index: Path, requirement: str
) -> None:
    wheel(index, "built", "1.0", tag="cp27-cp27m-win32")
    (index / "source-1.0.tar.gz").write_bytes(b"a source distribution runs code when it is built")
    result = score(tmp_path, requirements=[requirement], script="1")
    assert told(result) == ("scorer_crashed", None)
    assert result.error is not None
    assert f"{requirement} cannot be had as wheels for Python {SELF}" in result.error.message
    assert [path for path in (tmp_path / "cache" / "wheels").iterdir() if path.suffix != ".lock"] == []


def test_what_is_wrong_is_told_before_an_agent_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**changes: Any) -> str:
        with pytest.raises(InputError) as error:
            check_python(ScorerSpec(name="it", type="python", **changes))
        return str(error.value)

    assert "give script or path, one of the two" in refused()
    assert "is no file" in refused(path=tmp_path / "no.py")
    assert "'a b' is no requirement" in refused(script="1", requirements=["a b"])
    assert "'--index-url' is no requirement" in refused(script="1", requirements=["--index-url"])
    assert "has an address" in refused(script="1", requirements=["x @ file:///etc/passwd"])
    assert "'three' is no version" in refused(script="1", python_version="three")
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda _name: None)
    assert "install it beside pytest" in refused(script="1", requirements=["x"])


def test_a_python_that_does_not_fit_is_told_before_an_agent_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ScorerSpec(name="it", type="python", script="1", python_version="<3")
    with left() as sandbox:
        with pytest.raises(
            ScorerCrashed, match=rf"needs Python <3, and the container has {SELF}.*image: IMAGE"
        ):
            probe_python(spec, sandbox, lambda: None)
        fits = spec.model_copy(update={"python_version": SELF})
        assert probe_python(fits, sandbox, lambda: None).version.startswith(f"{SELF}.")
        (tmp_path / "none").mkdir()
        monkeypatch.setenv("PATH", str(tmp_path / "none"))
        with pytest.raises(ScorerCrashed, match=r"needs Python 3.8 or newer, and the container has none"):
            probe_python(fits, sandbox, lambda: None)


@pytest.mark.parametrize(
    "lie",
    [
        {"executable": "python3"},
        {"executable": ["/x"]},
        {"python_full_version": "3.11.2; rm -rf /"},
        {"python_full_version": None},
        {"platform_machine": "../x"},
        {"implementation_name": "pypy"},
        {"implementation_name": 7},
        dict.fromkeys(PYTHON),
    ],
)
def test_a_program_that_says_it_is_a_python_is_believed_little(lie: dict[str, Any]) -> None:
    assert Interpreter.of({**PYTHON, **lie}) is None


def test_the_scorers_of_the_example_and_of_the_page_cope_with_an_agent_that_left_nothing(
    tmp_path: Path,
) -> None:
    top = Path(__file__).parents[2]
    example = yaml.safe_load((top / "conftest_examples/scorers/scorers.bench.yaml").read_text())
    (close,) = (one["scorers"][0] for one in example["scenarios"] if one["id"] == "close")
    page = (top / "docs/scorers.md").read_text()
    block = page.partition("```yaml\nscript: |")[2].partition("```")[0]
    shown = yaml.safe_load(f"script: |{block}")
    scripts = [(close["script"], close["metrics"]), (shown["script"], {})]
    for number, (script, metrics) in enumerate(scripts):
        assert told(score(tmp_path / str(number), script=script, metrics=metrics)) == (None, 0.0)
