"""Gates at the end of a session: verdict, exit status, what is kept; and the same afterwards."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import obeys

from .conftest import Bench

SCENARIOS = 24


def letters(bench: Bench, number: int = SCENARIOS, **more: Any) -> None:
    """Scenarios `s00` and so on, which any agent solves that writes 1."""
    scorers = [{"name": "right", "type": "command", "command": "grep -q 1 out.txt"}]
    usual = {"reference": "echo 1 > out.txt", "scorers": scorers}
    scenarios = {
        f"s{place:02}": {"problem_statement": f"p{place:02}", **usual, **more} for place in range(number)
    }
    defaults = {"image": "none", "workdir": "/app"}
    bench.manifest(scenarios, "letters.bench.yaml", version="1", defaults=defaults)


def agent(*unsolved: int) -> str:
    """An agent that solves all but these."""
    failing = "|".join(f"p{place:02}" for place in unsolved) or "none"
    return (
        f"--bench-agent=command:case $(cat $BENCH_PROBLEM_FILE) in {failing}) ;; *) echo 1 > out.txt;; esac"
    )


WEAK = (20, 21, 22, 23)
"""What the agent of the baseline does not solve."""


def before(bench: Bench, *arguments: str) -> None:
    letters(bench)
    assert bench.run("letters.bench.yaml", agent(*WEAK), "--bench-job-name=before", *arguments).ret == 1


def gated(bench: Bench, *unsolved: int, status: int, more: Collection[str] = ()) -> pytest.RunResult:
    done = bench.run("letters.bench.yaml", agent(*unsolved), "--bench-baseline=job:before", *more)
    assert done.ret == status, done.stdout.str()
    return done


def report(bench: Bench) -> dict[str, Any]:
    (gate,) = bench.job()["gates"]
    obeys(gate, "gate")
    return gate  # type: ignore[no-any-return]


def rows(bench: Bench) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(bench.path / "reports" / "history.sqlite")) as history:
        return history.execute(
            "SELECT expression, scope, baseline, policy, verdict FROM gates WHERE job = ? ORDER BY id",
            (bench.bundle().name,),
        ).fetchall()


def offline(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bench.benchjobs("gate", *arguments)


def names(listed: list[dict[str, Any]]) -> list[str]:
    return sorted(one["scenario"] for one in listed)


def test_a_red_gate_fits_a_screen_and_its_verdict_is_before_the_details(bench: Bench) -> None:
    letters(bench, 5)
    attempts = "--bench-attempts=5"
    passed = bench.run("letters.bench.yaml", agent(), attempts, "--bench-job-name=before")
    (title,) = [place for place, line in enumerate(passed.outlines) if "= benchmark =" in line]
    assert any(line.startswith("agent ") for line in passed.outlines[title + 1 : title + 3])
    command = "--bench-agent=command:echo tried; echo hard"
    done = bench.run("letters.bench.yaml", command, attempts, "--bench-baseline=job:before")
    assert done.ret == 10
    shown = done.outlines[next(place for place, line in enumerate(done.outlines) if "[100%]" in line) + 1 :]
    assert len(shown) <= 40
    done.stdout.fnmatch_lines(
        [
            "*= gate =*",
            "regressed: mean 1.00 -> 0.00*",
            "broke: 5",
            "exit status 10",
            "*= benchmark =*",
            "25 unsolved:",
            "  letters.bench.yaml::s00[[]*] (5 of 5 attempts): score 0.0 < 1.0 (below_threshold)",
            "    last lines of scorer right (scorers/right/output.log): grep: *",
            "Everything about a trial: benchjobs show *",
        ],
    )
    assert "tried" not in done.stdout.str().partition("= gate =")[2].replace("echo_tried", "")
    again = bench.run("letters.bench.yaml", command, attempts, "--bench-baseline=job:before", "--tb=short")
    assert again.stdout.str().count("  tried\n  hard\n") == 5


def test_six_scenarios_worse_are_a_regression_and_are_named(bench: Bench) -> None:
    before(bench)
    done = gated(bench, *range(6), *WEAK, status=10)
    done.stdout.fnmatch_lines(
        [
            "*= gate =*",
            "regressed: mean 0.83 -> 0.58*",
            "baseline job:before (*), policy evidence",
            "regressed *mean:any of letters command:*0.833 -> 0.583, -25.0 pp (*), n=24, p=0.016, detectable drop *",
            "broke: 6",
            *(f"  letters/s{place:02}: 1 -> 0, passed 1 of 1 before, 0 of 1 now*" for place in range(6)),
            "exit status 10",
            "*14 passed, 10 unsolved*",
        ]
    )
    found = report(bench)
    assert (found["verdict"], names(found["broke"])) == ("regressed", [f"s{place:02}" for place in range(6)])
    assert [row[0] for row in rows(bench)] == ["", "mean:any"]
    assert {row[2:] for row in rows(bench)} == {("job:before", "evidence", "regressed")}
    # The same afterwards, whoever asks: by what the job was asked, from files alone, and by something else.
    again = offline(bench, "-o", "json")
    assert again.returncode == 10, again.stderr
    said = json.loads(again.stdout)
    assert {**said, "at": None} == {**found, "at": None}
    assert len(rows(bench)) == 4
    assert bench.benchjobs("db", "rebuild").returncode == 0
    assert len(rows(bench)) == 4
    for path in (bench.path / "reports").glob("history.sqlite*"):
        path.unlink()
    assert offline(bench, bench.bundle().name).returncode == 10
    tolerant = offline(bench, "last", "--fail-on-regression", "mean:30pp", "--min-score", "0.9")
    assert tolerant.returncode == 10, tolerant.stdout
    assert "--bench-min-score 0.9" in tolerant.stdout
    assert "mean:30pp" in tolerant.stdout
    assert offline(bench, "last", "--fail-on-regression", "mean:30pp").returncode == 0


def test_what_decides_the_exit_status(bench: Bench) -> None:
    before(bench)
    done = gated(bench, 0, 21, 22, 23, status=0)
    done.stdout.fnmatch_lines(
        ["ok: *", "broke: 1", "  letters/s00:*", "fixed: 1", "  letters/s20:*", "exit status 0"]
    )
    strict = ("--bench-policy=strict", "--bench-fail-on-regression=mean:5pp")
    gated(bench, 0, 1, *WEAK, status=11, more=strict)
    assert report(bench)["verdict"] == "inconclusive"
    gated(bench, 0, 1, *WEAK, status=0)
    assert report(bench)["verdict"] == "inconclusive"
    worse = (*range(6), *WEAK)
    gated(bench, *worse, status=1, more=["--bench-exit=tests"])
    gated(bench, *WEAK, status=1, more=["--bench-exit=both"])
    gated(bench, *worse, status=10, more=["--bench-exit=both"])
    # An ordinary test that fails is none of the gate's business.
    bench.write("test_ordinary.py", "def test_it():\n    assert False\n")
    gated(bench, *WEAK, status=1, more=["test_ordinary.py"])


def test_without_a_baseline(bench: Bench) -> None:
    letters(bench, 2)
    arguments = ["letters.bench.yaml", agent(0), "--bench-baseline=main"]
    refused = bench.run(*arguments, "--bench-first-run", "--bench-require-baseline")
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*--bench-baseline: there is no baseline 'main'*--bench-first-run*"])
    assert not list((bench.path / "reports").glob("jobs/*/job.json")), "a job began"
    first = bench.run(*arguments, "--bench-first-run")
    assert first.ret == 0, first.stdout.str()
    first.stdout.fnmatch_lines(["no baseline: *there is no baseline 'main'*", "exit status 0"])
    assert report(bench)["verdict"] == "no baseline"
    again = offline(bench)
    assert (again.returncode, "no baseline: not compared" in again.stdout) == (0, True), again.stderr
    # What was allowed to be missing then does not excuse another baseline.
    other = offline(bench, "last", "--baseline", "mian")
    assert other.returncode != 0
    assert "there is no baseline 'mian'" in other.stderr
    floors = bench.run(
        "letters.bench.yaml", agent(0), "--bench-min-score=0.8", "--bench-min-pass-rate=letters=50%"
    )
    assert floors.ret == 10, floors.stdout.str()
    assert [rule["verdict"] for rule in report(bench)["rules"]] == ["regressed", "ok"]


def test_errors_make_it_invalid(bench: Bench) -> None:
    before(bench)
    bench.conftest(
        """
        from pytest_benchjobs import InfrastructureError
        from pytest_benchjobs.testing import FakeProvider as Whole

        class FakeProvider(Whole):
            def start(self, spec, *more):
                if int(spec.labels["trial"].partition("::s")[2][:2]) < 8:
                    raise InfrastructureError("the engine is on strike")
                return super().start(spec, *more)
        """
    )
    done = gated(bench, *WEAK, status=12)
    done.stdout.fnmatch_lines(
        ["invalid: *33*", "8 of 24 attempts (33.3 %) ended in an error without a score*"]
    )
    assert report(bench)["verdict"] == "invalid"
    alone = ["--bench-exit=gate", "--bench-baseline=none"]
    gated(bench, *WEAK, status=0, more=[*alone, "--bench-max-error-rate=50%"])
    # Without a gate too.
    done = gated(bench, *WEAK, status=12, more=alone)
    done.stdout.fnmatch_lines(["*= gate =*", "invalid: *ended in an error*", "exit status 12"])
    assert offline(bench).returncode == 12


def test_a_part_of_the_scenarios_and_workers_of_xdist(bench: Bench) -> None:
    before(bench)
    done = gated(bench, *range(6), *WEAK, status=10, more=["-n2", "-k", "not s05 and not s23"])
    done.stdout.fnmatch_lines(["broke: 5", "note: 2 of the baseline's scenarios were not selected"])
    found = report(bench)
    assert (found["removed"], found["rules"][0]["scenarios"]) == ([], 22)
    letters(bench, 23)
    lost = gated(bench, *WEAK, status=12)
    lost.stdout.fnmatch_lines(
        ["invalid: the job did not run 1 of 24 scenarios (letters/s23) of the baseline.*"]
    )
    assert names(report(bench)["removed"]) == ["s23"]
    assert offline(bench).returncode == 12
    assert offline(bench, "last", "--allow-missing", "s23").returncode == 0
    gated(bench, *WEAK, status=0, more=["--bench-allow-missing=scenario=s23"])
    stopped = gated(bench, *WEAK, status=12, more=["-x", "--bench-concurrency=1"])
    stopped.stdout.fnmatch_lines(["invalid: the job is cancelled, 2 of 23 trials did not run*"])
    assert offline(bench).returncode == 12


def test_known_failures_in_quarantine_are_out_of_it(bench: Bench) -> None:
    before(bench)
    bench.write(
        "bench-known.toml",
        """
        [[known]]
        scenario = "letters/s0[0-5]"
        reason = "The tokenizer is broken."
        mode = "quarantine"
        until = 2099-12-31
        """,
    )
    gated(bench, *range(6), *WEAK, status=0)
    found = report(bench)
    assert (found["rules"][0]["scenarios"], len(found["known"])) == (18, 6)
    # A gate forgives trials that fail. Of one that passes against a strict entry somebody wants to know.
    known = (bench.path / "bench-known.toml").read_text("utf-8")
    bench.write("bench-known.toml", known.replace('"quarantine"', '"expected-fail"\nstrict = true'))
    gated(bench, *WEAK, status=1)


def test_a_gate_that_breaks_loses_no_result_and_is_invalid(bench: Bench) -> None:
    letters(bench, 2)
    breaking = """
        import pytest_benchjobs.{module}

        def breaks(*args, **more):
            raise ValueError("something\\nbroke")

        pytest_benchjobs.{module}.{name} = breaks
    """
    bench.conftest(breaking.format(module="analysis.gate.job", name="judge"))
    done = bench.run("letters.bench.yaml", "--bench-min-score=0.5")
    assert done.ret == 12, done.stdout.str()
    done.stdout.fnmatch_lines(["invalid: the job could not be judged: something broke", "exit status 12"])
    assert (len(bench.results()), report(bench)["verdict"]) == (2, "invalid")
    bench.conftest(breaking.format(module="job.end", name="totals"))
    done = bench.run("letters.bench.yaml", "--bench-min-score=0.5")
    assert done.ret == 12, done.stdout.str()
    done.stdout.fnmatch_lines(["invalid: the job was not judged: *", "exit status 12", "results: something*"])
    assert len(bench.results()) == 2


def test_publishing(bench: Bench) -> None:
    letters(bench, 2)
    assert bench.run("letters.bench.yaml", "--bench-scenario=s01", agent(1)).ret == 1
    assert offline(bench).returncode == 2  # nothing was asked for
    done = offline(bench, "last", "--profile", "publish", "-o", "json")
    assert done.returncode == 12, done.stderr
    codes = [reason["code"] for reason in json.loads(done.stdout)["publish"]]
    assert codes == ["partial", "unclean_tree", "few_attempts"]
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(bench.path)]
    for call in ("init -q", "add letters.bench.yaml conftest.py pytest.ini", "commit -qm All"):
        subprocess.run([*git, *call.split()], check=True)
    assert bench.run("letters.bench.yaml", agent(), "--bench-attempts=3").ret == 0
    done = offline(bench, "last", "--profile", "publish")
    assert done.returncode == 0, done.stdout
    assert "the results can be published" in done.stdout


def page(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be GitHub: returns the file that a step's summary goes to."""
    summary = bench.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_OUTPUT", str(bench.path / "outputs"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(bench.path))
    return summary


@pytest.mark.parametrize(
    "more",
    [
        (),
        pytest.param(("--bench-baseline=none",), marks=pytest.mark.extended),
        pytest.param(("--bench-max-error-rate=20%",), marks=pytest.mark.extended),
    ],
)
def test_a_job_without_a_gate_says_nothing_of_gates(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    before(bench)
    summary = page(bench, monkeypatch)
    done = bench.run(
        "letters.bench.yaml", agent(*range(8), *WEAK), "--bench-exit=gate", "--bench-ci=github", *more
    )
    assert done.ret == 0
    text = done.stdout.str()
    assert "= gate =" not in text
    assert not [line for line in done.outlines if line.startswith(("ok", "::notice title=benchmark gate"))]
    assert bench.job()["gates"] == []
    assert "Benchmark gate" not in summary.read_text("utf-8")
    assert "verdict<<" in (outputs := (bench.path / "outputs").read_text("utf-8"))
    assert "\nok\n" not in outputs
    assert "bench_gate" not in (bench.bundle() / "junit.xml").read_text("utf-8")
    nothing = offline(bench)
    assert (nothing.returncode, "has no gate configured" in nothing.stderr) == (2, True)
    # The gate that comes after is alone on the page.
    judged = offline(bench, "last", "--baseline", "job:before", "--ci", "github")
    assert judged.returncode == 10, judged.stderr
    found = summary.read_text("utf-8")
    assert (found.count("Benchmark gate"), found.count("[!CAUTION]"), "[!TIP]" in found) == (1, 1, False)
    assert not json.loads(offline(bench, "last", "--baseline", "job:before", "-o", "json").stdout)["notes"][
        0
    ].startswith("this replaces")


def test_a_later_verdict_says_that_it_takes_the_place_of_another(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(bench)
    summary = page(bench, monkeypatch)
    gated(
        bench, *range(6), *WEAK, status=0, more=["--bench-fail-on-regression=mean:50pp", "--bench-ci=github"]
    )
    judged = offline(bench, "last", "--fail-on-regression", "mean:5pp", "--ci", "github")
    assert judged.returncode == 10
    note = "this replaces an earlier verdict on the job, by other gates: ok"
    assert f"note: {note}" in judged.stdout
    assert note in summary.read_text("utf-8").rpartition("[!CAUTION]")[2]


@pytest.mark.extended
def test_shards_together_are_the_whole_and_a_lost_one_is_missed(bench: Bench) -> None:
    before(bench)
    assert bench.benchjobs("baseline", "export", "job:before", "--to", "b.json").returncode == 0

    def shards(*numbers: int, more: Collection[str] = ()) -> list[str]:
        names = []
        for number in numbers:
            names.append(f"shard-{number}-{len(more)}")
            place = (f"--bench-shard={number}/2", f"--bench-dir={names[-1]}")
            assert bench.run("letters.bench.yaml", agent(*WEAK), *place, *more).ret in (0, 1)
        return names

    def merged(name: str, parts: Collection[str]) -> subprocess.CompletedProcess[str]:
        assert bench.benchjobs("merge", *parts, "--as-job", name, "--dir", name).returncode == 0
        return offline(bench, "last", "--dir", name, "--baseline", "file:b.json")

    both = shards(1, 2, more=["-n2"])
    whole = merged("whole", both)
    assert (whole.returncode, whole.stdout.splitlines()[0][:3]) == (0, "ok:"), whole.stdout
    for part in both:
        lost = merged(f"lost-{part}", [part])
        assert lost.returncode == 12
        missing = "2/2" if part == both[0] else "1/2"
        assert lost.stdout.startswith("invalid: the job is cancelled"), lost.stdout
        assert f"1 of 2 shards: {missing} is missing" in lost.stdout
    # What was left out of every shard was not wanted.
    some = merged("some", shards(1, 2, more=["-k", "not s05"]))
    assert (some.returncode, "1 of the baseline's scenarios was not selected" in some.stdout) == (0, True)


@pytest.mark.parametrize("workers", [(), ("-n2",)])
@pytest.mark.extended
def test_a_job_knows_what_was_asked_of_it(bench: Bench, workers: tuple[str, ...]) -> None:
    bench.manifest({"first": "echo 1", "second": "echo 1"})
    for arguments, expected in (
        ((), (False, False, False)),
        ((".",), (False, False, False)),
        (("many.bench.yaml",), (False, False, True)),
        (("--bench", "many"), (False, False, True)),
        (("-k", "first"), (True, True, False)),
        (("many.bench.yaml::first[oracle]",), (True, True, True)),
        (("--bench-scenario", "second"), (True, True, False)),
        (("--bench-sample", "1"), (True, True, False)),
        (("--bench-shard", "1/1"), (True, False, False)),
        (("--bench-shard", "1/1", "-k", "first"), (True, True, False)),
    ):
        assert bench.run(*arguments, *workers).ret == 0
        record = json.loads((bench.bundle() / "job.json").read_text("utf-8"))
        assert (record["partial"], record["narrowed"], record["named"]) == expected, arguments


def test_a_job_that_is_taken_up_again_is_judged_by_what_it_was_asked_for(bench: Bench) -> None:
    before(bench)
    worse = agent(*range(12), *WEAK)
    asked = ("letters.bench.yaml", worse, "--bench-baseline=job:before", "--bench-concurrency=1")
    assert bench.run(*asked, "-x").ret == 12
    done = bench.run("letters.bench.yaml", worse, "--bench-resume=last")
    assert done.ret == 10
    done.stdout.fnmatch_lines(["*= gate =*", "regressed*mean:any of letters *", "exit status 10"])
    assert bench.run("letters.bench.yaml", worse, "--bench-resume=last", "--bench-exit=tests").ret == 1
    # What is said now goes before that.
    assert bench.run("letters.bench.yaml", worse, "--bench-resume=last", "--bench-min-score=0.1").ret == 0
