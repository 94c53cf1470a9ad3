"""Several attempts, one verdict: what pytest, JUnit, the summary, the status and `--lf` say is the same."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import junitparser
import pytest

from .conftest import Bench

# Scenario -> what its attempts end in, by their number.
ATTEMPTS = {"always": "111", "once": "010", "never": "000", "unsure": "1e0", "lost": "0ee"}
POLICIES = {
    "any": {"always": "passed", "once": "passed", "never": "failed", "unsure": "passed", "lost": "error"},
    "all": {"always": "passed", "once": "failed", "never": "failed", "unsure": "failed", "lost": "failed"},
    "rate:60%": {"always": "passed", "once": "failed", "never": "failed", "unsure": "error", "lost": "error"},
}


@pytest.fixture
def varied(bench: Bench) -> Bench:
    """The outcome of an attempt depends on its number, which only the node id of the trial tells."""
    counter = bench.path / "count"
    counter.mkdir()
    # A number of its own for whoever comes next: attempts of a scenario run one after the other here.
    bench.manifest(
        {
            name: f"n=$(ls {counter} | grep -c '^{name}-'); touch {counter}/{name}-$n; "
            f"o=$(echo {outcomes} | cut -c$((n+1))); [ $o = e ] && exit 3; echo score=$o"
            for name, outcomes in ATTEMPTS.items()
        },
        "v.bench.yaml",
    )
    return bench


def options(policy: str) -> tuple[str, ...]:
    return ("v.bench.yaml", "--bench-attempts=3", "--bench-attempt-policy", policy, "--bench-concurrency=1")


def cases(path: Path) -> dict[str, str]:
    """Name -> outcome, of every case there is."""
    found: dict[str, str] = {}
    for suite in junitparser.JUnitXml.fromfile(str(path)):
        for case in suite:
            kinds = {"failure": "failed", "error": "error", "skipped": "skipped"}
            outcomes = [kinds[type(result).__name__.lower()] for result in case.result]
            assert case.name not in found
            found[str(case.name)] = outcomes[0] if outcomes else "passed"
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_everybody_says_the_same(varied: Bench, policy: str) -> None:
    expected = {f"{name}[oracle]": outcome for name, outcome in POLICIES[policy].items()}
    done = varied.run(*options(policy), "--junit-xml=theirs.xml", "-v")
    assert done.ret == 1
    bundle = next(path for path in (varied.path / "reports" / "jobs").iterdir() if path.is_dir())
    assert cases(bundle / "junit.xml") == expected
    theirs = cases(varied.path / "theirs.xml")
    # pytest writes an error of set-up as an error, like ours.
    assert theirs == expected
    counts = {kind: list(expected.values()).count(kind) for kind in ("passed", "failed", "error")}
    report = varied.job()
    row = report["agents"][0]
    assert {"passed": row["passed"], "failed": row["failed"], "error": row["errors"]} == counts
    assert report["totals"]["trials"] == 15
    assert len(report["results"]) == 15
    done.stdout.fnmatch_lines(
        [f"*15 trials (5 scenarios x 1 agent x 3 attempts, policy {policy.replace('60%', '0.6')})*"]
    )
    if counts["failed"]:
        done.stdout.fnmatch_lines([f"{counts['failed']} unsolved:"])
    # What failed, and nothing else, comes again.
    again = varied.run(*options(policy), "--lf", "--collect-only", "-q")
    selected = {line.rpartition("::")[2] for line in again.outlines if "::" in line}
    assert selected == {name for name, outcome in expected.items() if outcome != "passed"}


def test_x_stops_at_a_verdict_and_every_attempt_has_its_files(varied: Bench) -> None:
    assert varied.run(*options("any"), "-x", "--bench-scenario", "once,always").ret == 0
    outcomes = {"once": ("failed", "passed", "failed"), "always": ("passed",) * 3}
    assert {result["node_id"]: result["outcome"] for result in varied.results()} == {
        f"v.bench.yaml::{name}[oracle-{number}]": outcome
        for name, all_of_them in outcomes.items()
        for number, outcome in enumerate(all_of_them, 1)
    }


def test_each_attempt_is_a_test_unless_told(varied: Bench) -> None:
    done = varied.run(
        "v.bench.yaml", "--bench-attempts", "3", "--bench-scenario", "once", "--bench-concurrency", "1"
    )
    done.stdout.fnmatch_lines(["*1 passed, 2 unsolved*"])


def test_under_xdist(varied: Bench) -> None:
    done = varied.run(*options("any"), "-n", "2", "--bench-scenario", "always,never,once")
    done.stdout.fnmatch_lines(["*2 passed, 1 unsolved*"])
    assert len(varied.results()) == 9


def test_a_worker_that_dies_with_some_attempts_ended(bench: Bench) -> None:
    marker = bench.path / "killed"
    # The second attempt kills its worker, once.
    bench.conftest(
        f"""
        import os, signal, pathlib

        def kill(context):
            if not pathlib.Path({str(marker)!r}).exists():
                attempts = pathlib.Path({str(bench.path)!r}) / "attempts"
                attempts.mkdir(exist_ok=True)
                (attempts / str(len(list(attempts.iterdir())))).touch()
                if len(list(attempts.iterdir())) == 2:
                    pathlib.Path({str(marker)!r}).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            return 1.0

        def pytest_benchjobs_scorers(config):
            return {{"kill": kill}}
        """
    )
    bench.manifest({"one": {"type": "kill"}}, "k.bench.yaml")
    policy = ("--bench-attempts=3", "--bench-attempt-policy=all", "--bench-concurrency=1")
    done = bench.run("k.bench.yaml", "-n1", "--junit-xml=theirs.xml", *policy)
    assert done.ret == 1
    outcomes = bench.outcomes()
    assert outcomes["k.bench.yaml::one[oracle-1]"] == "passed"
    assert outcomes["k.bench.yaml::one[oracle-2]"] == "error"
    (lost,) = [result for result in bench.results() if result["outcome"] == "error"]
    assert lost["failure"]["message"] == "worker gw0 died while it ran this trial"
    # pytest is told of the item, not only of the job.
    assert done.parseoutcomes() == {"errors": 1}
    (case,) = ET.parse(bench.path / "theirs.xml").iter("testcase")
    lines = (case.findtext("error") or "").splitlines()
    assert (case.get("name"), lines[0].split(" a1 ")[0]) == ("one[oracle]", "error (worker_lost) oracle")
    assert lines[2:] == [
        "1 of 3 attempts passed; all needs 3, and 1 ended in an error, 1 did not run",
        "",
        "note: attempt 1: passed, score 1: trials/oracle/one/1",
        "note: attempt 2: error (worker_lost), score -: trials/oracle/one/2",
    ]
    done.stdout.re_match_lines(
        [r"_+ ERROR at setup of one\[oracle\] _+", r"error \(worker_lost\) oracle a1 .*"]
    )
    done.stdout.fnmatch_lines(
        ["*1 of 3 attempts passed; all needs 3, and 1 ended in an error, 1 did not run*"]
    )
