"""An agent that cheats gets 0, harms nobody else, and what it tampered with is named (`hostile/`).

`HOSTILE_RUNTIME` names a runtime of the engine. With `HOSTILE_ENGINE=ssh` or `tls` that is one elsewhere, which
has `gvisor`; it may also be a Podman, such as `trixie-user` (`podman.py`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.shares import share
from tests.support import junit_cases, results, run, start

from .elsewhere import Elsewhere, elsewhere  # noqa: F401  a fixture
from .hostile.attacks import IN_IMAGE
from .hostile.job import AGENT, SINGLE, WITH_PROGRAMS, Case, every, in_place, slug, write
from .podman import ENGINES, Podman, running

pytestmark = pytest.mark.docker

# Each has its turn within some commits; all where there is time.
PARTS = 16
# Under gVisor root reads what is graded in its own container, which results note and `docs/engines.md` says.
READ_BY_ROOT = "reads-in-place-as-root"


RUNTIME, ENGINE = (os.environ.get(f"HOSTILE_{what}") for what in ("RUNTIME", "ENGINE"))


def _give_image(there: Elsewhere | Podman, directory: Path) -> None:
    """Let an engine that reaches no network have the programs that are installed in images."""
    image = "benchjobs-hostile"
    subprocess.run(["docker", "build", "-q", "-t", image, "-"], input=WITH_PROGRAMS.encode(), check=True)
    there.load(image)
    for path in directory.rglob("Dockerfile"):
        path.write_text(path.read_text().replace(WITH_PROGRAMS, f"FROM {image}\n"))


def _cases(everything: bool) -> tuple[dict[str, Case], dict[str, Case]]:
    """Scenarios of the manifest, and tasks in Harbor's form."""
    afresh, single, harbor = every(), {slug(name): case for name, case in SINGLE.items()}, in_place()
    if not everything:
        afresh = {name: afresh[name] for name in share(afresh, PARTS)}
        harbor = {name: harbor[name] for name in share(harbor, len(IN_IMAGE))}
    return {**afresh, **single}, harbor


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Elsewhere | Podman | None]:
    """The engine that is named; None: that of this machine."""
    if ENGINE in ENGINES:
        with running(ENGINE) as engine:
            yield engine
    else:
        yield request.getfixturevalue("elsewhere") if ENGINE else None


@pytest.mark.slow
@pytest.mark.parametrize(
    "everything", [pytest.param(False, id="share"), pytest.param(True, id="all", marks=pytest.mark.extended)]
)
def test_no_attack_earns_a_score_or_another_try(
    tmp_path: Path, everything: bool, engine: Elsewhere | Podman | None
) -> None:
    expected = write(tmp_path, *_cases(everything))
    options, environment = [f"--bench-runtime={RUNTIME}"] if RUNTIME else [], {}
    if engine is not None:
        _give_image(engine, tmp_path)
        environment = engine.environment(str(ENGINE))
    done = run(
        tmp_path, "hostile.bench.yaml", "tasks", "test_hidden.py", AGENT, "--bench-retry-errors=2",
        "--bench-concurrency=8", "-n", "2", "-v", "-rA", "--junitxml=out.xml", *options,
        timeout=3000, **environment,
    )  # fmt: skip
    found = {result["scenario"]: result for result in results(tmp_path)}
    assert found.keys() == expected.keys(), done.stdout[-3000:]
    wrong = [text for id_, case in expected.items() for text in _wrong(id_, case, found[id_])]
    listed = [found[id_]["score"] for id_, case in expected.items() if case.named]
    print(
        f"{len(found) - len(listed)} afresh or before grading; in place {len(listed)}, {listed.count(1.0)} score"
    )
    assert not wrong, "\n".join(wrong)
    _check_single(tmp_path, found)
    _check_reports(tmp_path, done.stdout)


def _wrong(id_: str, case: Case, result: dict[str, Any]) -> list[str]:
    """What is not as it has to be."""
    said = f"{id_}: {result['outcome']}, {result['score']}, {result['failure']}, {result['notes']}"
    if case.named:
        found = set(result["agent_end"]["tampered"])
        return [] if found & set(case.named) else [f"{said}: {found} is named instead of {case.named}"]
    if id_ == READ_BY_ROOT and any("not promised" in note and "evidence" in note for note in result["notes"]):
        case = case._replace(outcome="passed" if result["score"] else "failed", score=None)
    score = result["score"] if case.score is None and result["score"] is not None else case.score
    if (result["outcome"], result["score"], result["tries"]) != (case.outcome, score, 1):
        return [f"{said}; in {result['tries']} tries"]
    return []


def _check_single(directory: Path, found: Mapping[str, dict[str, Any]]) -> None:
    """What is known of single ones beyond their score."""
    late = found["a-process-left-behind"]
    assert late["agent_end"]["leftovers"]
    assert any("killed" in note for note in late["notes"])
    for name in ("a-hog", "fills-the-disk"):
        assert found[name]["failure"]["class"] == "limit_exceeded"
    assert found["a-reward-of-another"]["failure"]["class"] == "tampered"
    two = found["two-scorers"]
    assert [scorer["score"] for scorer in two["scorers"]] == [1.0, 0.0]
    for place in ("in-python", "in-files"):
        log = directory / "reports/jobs" / late["job"] / found[f"searches-{place}"]["path"] / "agent.log"
        seen = [line for line in log.read_text().splitlines() if "XYZZY" in line or "test_hidden" in line]
        assert seen == []
        assert "BENCH_PROBLEM_FILE" in log.read_text()  # so that it was looked for to the end


def _check_reports(directory: Path, terminal: str) -> None:
    """What agents print is text wherever it is shown."""
    assert "\x1b" not in terminal
    assert "\x07" not in terminal
    assert "INTERNALERROR" not in terminal
    assert set(junit_cases(directory / "out.xml").values()) == {"failure", "passed"}
    (report,) = directory.glob("reports/jobs/*/summary.md")
    text = report.read_text()
    assert "\x1b" not in text
    # What agents print is in indented blocks, in which nothing is markup.
    assert all(line.startswith("    ") for line in text.splitlines() if "<script>" in line)
    for name in ("report.json", "junit.xml"):
        (path,) = directory.glob(f"reports/jobs/*/{name}")
        assert "\\u001b" not in path.read_text()
        assert "\x1b" not in path.read_text()


@pytest.mark.usefixtures("from_nothing")
@pytest.mark.extended
def test_a_gigabyte_of_output_is_cut_and_costs_no_memory(tmp_path: Path) -> None:
    manifest, _ = _cases(False)
    write(tmp_path, {"honest": manifest["honest-within-limits"]}, {})
    process = start(
        tmp_path, "hostile.bench.yaml", "--bench-timeout-multiplier=10", "--bench-agent", "command:head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo THE END",
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    (result,) = results(tmp_path)
    assert result["outcome"] == "failed", output
    assert result["agent_end"]["output_bytes"] > 1 << 30
    (log,) = tmp_path.glob("reports/jobs/*/trials/*/*/*/agent.log")
    assert log.stat().st_size < 9 << 20
    assert log.read_text().rstrip().endswith("THE END")
    assert len(output) < 20_000
    assert usage.ru_maxrss < 250_000, f"{usage.ru_maxrss} KiB resident"
