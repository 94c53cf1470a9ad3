"""Known failures: to pytest an `xfail` or a `skip`, to us a result like any other that says what is known of it."""

from __future__ import annotations

from pathlib import Path

import junitparser
import pytest

from .conftest import Bench

SCORES = {"fails": 0, "passes": 1, "flaky": 0, "steady": 1, "skipped": 1, "broken": 0, "strict": 1, "new": 0}


def entry(keys: str, reason: str = "r", until: str = "2999-01-31") -> str:
    return f'[[known]]\n{keys}\nreason = "{reason}"\nuntil = {until}\n'


KNOWN = "".join(
    (
        entry('scenario = "fails"\nissue = "https://issues.example/7"', "The parser drops the last line"),
        entry('scenario = "many/passes"', "It did fail", '"2999-02-28"'),
        entry('scenario = "[fs][lt]*[y]"\nbenchmark = "ma*"\nagent = "oracle"\nmode = "quarantine"'),
        entry('scenario = "skipped"\nmode = "skip"', "Takes an hour"),
        entry('scenario = "broken"'),
        entry('scenario = "strict"\nstrict = true', "Must not pass"),
        entry('scenario = "new"\nagent = "aider:*"'),
    )
)
TEXT = "The parser drops the last line (https://issues.example/7; bench-known.toml:1; until 2999-01-31)"


@pytest.fixture
def many(bench: Bench) -> Bench:
    bench.manifest(
        {name: f"echo score={score}" for name, score in SCORES.items()} | {"broken": "echo nothing"}
    )
    bench.write("bench-known.toml", KNOWN)
    return bench


def kinds(path: Path) -> dict[str, tuple[str, str | None, str | None]]:
    """Scenario -> kind, type and message of a case."""
    found = {}
    for suite in junitparser.JUnitXml.fromfile(str(path)):
        for case in suite:
            results = [(type(one).__name__.lower(), one.type, one.message) for one in case.result]
            found[str(case.name).partition("[")[0]] = results[0] if results else ("passed", None, None)
    return found


def both(many: Bench) -> list[dict[str, tuple[str, str | None, str | None]]]:
    """Cases of our file and of pytest's, which are of the same kinds."""
    found = [kinds(many.bundle() / "junit.xml"), kinds(many.path / "theirs.xml")]
    ours, theirs = ({name: case[0] for name, case in cases.items()} for cases in found)
    assert ours == theirs
    return found


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_every_mode_as_pytest_and_we_report_it(many: Bench, workers: tuple[str, ...]) -> None:
    done = many.run("many.bench.yaml", "-rxXs", "--junit-xml=theirs.xml", *workers)
    assert done.ret == 1
    words = {"errors": 1, "failed": 1, "skipped": 1, "unsolved": 1, "xfailed": 2, "xpassed": 2}
    assert done.parseoutcomes() == words
    out = done.stdout.str()
    assert f"XFAIL many.bench.yaml::fails[[]oracle] - {TEXT}".replace("[[]", "[") in out
    assert "XPASS many.bench.yaml::passes[oracle] - It did fail (bench-known.toml:6; until 2999-02-28)" in out
    assert "Takes an hour (bench-known.toml:17; until 2999-01-31)" in out
    assert "[XPASS(strict)] Must not pass" in out
    line = (
        "known failures: 4 expected to fail (1 did, 1 ended in an error, 2 pass now: with 5 passes they can "
        "be removed from bench-known.toml:6, bench-known.toml:26), 2 quarantined, 1 skipped"
    )
    assert line in done.outlines
    # Nothing expected is among what is to be looked at.
    assert "1 unsolved:" in done.outlines
    assert "matches no scenario" not in out

    results = {result["scenario"]: result for result in many.results()}
    assert {name: result["outcome"] for name, result in results.items()} == {
        "fails": "failed", "passes": "passed", "flaky": "failed", "steady": "passed", "skipped": "skipped",
        "broken": "error", "strict": "passed", "new": "failed",
    }  # fmt: skip
    assert results["fails"]["known"] == {
        "mode": "expected-fail", "reason": "The parser drops the last line",
        "issue": "https://issues.example/7", "until": "2999-01-31", "place": "bench-known.toml:1",
        "strict": False,
    }  # fmt: skip
    assert results["flaky"]["known"]["mode"] == "quarantine"
    assert results["new"]["known"] is None
    report = many.job()
    assert report["job"]["status"] == "completed"
    assert {one["scenario"]: one["outcome"] for one in report["known"]} == {
        name: result["outcome"] for name, result in results.items() if name != "new"
    }
    # They count in the mean like all others.
    assert report["totals"]["mean_score"] == pytest.approx(3 / 6)

    ours, theirs = both(many)
    assert ours["fails"] == theirs["fails"] == ("skipped", "pytest.xfail", TEXT)
    assert ours["skipped"] == theirs["skipped"]
    assert ours["strict"][0] == theirs["strict"][0] == "failure"
    junit = (many.bundle() / "junit.xml").read_text("utf-8")
    assert junit.count('name="bench_known" value="expected-fail"') == 4
    assert 'name="bench_known_issue" value="https://issues.example/7"' in junit

    summary = (many.bundle() / "summary.md").read_text("utf-8")
    assert line in summary
    assert (
        "| `many.bench.yaml::fails[oracle]` | expected-fail | failed | 0.0 | `The parser drops the last line` "
        "| 2999-01-31 | `https://issues.example/7` |"
    ) in summary
    failed = summary.partition("## Failed")[2].partition("##")[0]
    assert "::new[" in failed
    assert "::fails[" not in failed


def test_with_runxfail_nothing_is_expected_anywhere(many: Bench) -> None:
    done = many.run("many.bench.yaml", "--runxfail", "--junit-xml=theirs.xml", "-n2")
    assert done.parseoutcomes() == {"passed": 3, "unsolved": 3, "errors": 1, "skipped": 1}
    assert "known failures: 6 treated as ordinary tests (--runxfail)" in done.outlines
    assert "known failures: 1 skipped" in done.outlines
    known = {result["scenario"] for result in many.results() if result["known"]}
    assert known == {"skipped"}
    assert both(many)[0]["fails"][0] == "failure"


def test_nothing_but_known_failures_is_status_0_and_nothing_for_lf(many: Bench) -> None:
    done = many.run("--bench-scenario", "fails,passes,flaky,steady,skipped", "-v")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["many.bench.yaml::fails* XFAIL*", "*2 xfailed, 2 xpassed*"][:1])
    assert many.job()["job"]["status"] == "completed"
    again = many.run("--bench-scenario", "fails,passes", "--lf", "--collect-only", "-q")
    assert "2 tests collected" in again.stdout.str()
    # Those of `-m` are whatever has the marker, and `-x` does not stop for them.
    few = many.run("-m", "bench_known(mode='quarantine')", "-x")
    assert few.parseoutcomes() == {"xfailed": 1, "xpassed": 1, "deselected": 6}


def once(bench: Bench) -> None:
    """A scenario whose second attempt alone passes, and that is expected to fail."""
    counter = bench.path / "count"
    script = f"echo x >> {counter}; [ $(wc -l < {counter}) = 2 ] && echo score=1 || echo score=0"
    bench.manifest({"once": script})
    bench.write("bench-known.toml", entry('scenario = "once"'))


@pytest.mark.parametrize(
    ("policy", "outcome"), [("any", "xpassed"), ("all", "xfailed"), ("rate:0.5", "xpassed")]
)
def test_one_verdict_of_several_attempts(bench: Bench, policy: str, outcome: str) -> None:
    once(bench)
    arguments = ("--bench-attempts", "2", "--bench-attempt-policy", policy, "--bench-concurrency", "1")
    done = bench.run(*arguments)
    assert (done.ret, done.parseoutcomes()) == (0, {outcome: 1})
    assert [result["known"]["place"] for result in bench.results()] == ["bench-known.toml:1"] * 2
    (only,) = bench.job()["known"]
    assert only["node_id"] == "many.bench.yaml::once[oracle]"
    assert kinds(bench.bundle() / "junit.xml")["once"][0] == ("passed" if outcome == "xpassed" else "skipped")
    expected = (
        "1 did"
        if outcome == "xfailed"
        else "1 passes now: with 5 passes it can be removed from bench-known.toml:1"
    )
    assert f"known failures: 1 expected to fail ({expected})" in done.outlines


def test_attempts_that_are_tests_of_their_own_pass_in_part(bench: Bench) -> None:
    once(bench)
    done = bench.run("--bench-attempts", "3", "--bench-concurrency", "1")
    assert done.parseoutcomes() == {"xfailed": 2, "xpassed": 1}
    line = "known failures: 3 expected to fail (2 did, 1 passes now: others that bench-known.toml:1 lists still fail)"
    assert line in done.outlines


def test_what_is_known_reruns_nothing_and_is_that_of_today(many: Bench) -> None:
    ran = many.path / "ran"
    many.manifest({"fails": f"echo x >> {ran}; echo score=0", "fine": f"echo x >> {ran}; echo score=1"})
    many.run("--bench-reuse")
    other = KNOWN.replace("The parser drops the last line", "Something else").replace(
        "2999-01-31", "2999-03-31"
    )
    many.write("bench-known.toml", other)
    done = many.run("--bench-reuse")
    assert ran.read_text().split() == ["x", "x"]
    assert done.parseoutcomes() == {"xfailed": 1, "passed": 1}
    (fails, fine) = many.results()
    assert (fails["known"]["reason"], fails["known"]["until"]) == ("Something else", "2999-03-31")
    assert fails["reused"] is not None
    assert fine["known"] is None
    # A job that is taken up again has its results, and what is known today.
    (many.path / "bench-known.toml").unlink()
    again = many.run("--bench-resume", many.bundle().name)
    assert ran.read_text().split() == ["x", "x"]
    assert again.parseoutcomes() == {"unsolved": 1, "passed": 1}
    assert [result["known"] for result in many.results()] == [None, None]
    assert many.job()["known"] == []


MARKER = """
import datetime
import pytest

def pytest_collection_modifyitems(items):
    marks = {
        "fails": pytest.mark.bench_known(reason="Of the marker", until=datetime.date(2999, 1, 31)),
        "flaky": pytest.mark.bench_known(reason="Now and then", until="2999-01-31", mode="quarantine", issue="#7"),
    }
    for item in items:
        if item.ref.id in marks:
            item.add_marker(marks[item.ref.id])
"""


def test_the_marker_says_the_same_and_has_the_last_word(many: Bench) -> None:
    many.conftest(MARKER)
    many.write("bench-known.toml", KNOWN.replace('mode = "quarantine"\n', ""))
    done = many.run("--strict-markers", "--bench-scenario", "fails,flaky,new", "-rx")
    assert done.parseoutcomes() == {"xfailed": 2, "unsolved": 1}
    done.stdout.fnmatch_lines(["known failures: 1 expected to fail (1 did), 1 quarantined"])
    assert "fails[oracle] - Of the marker (until 2999-01-31)" in done.stdout.str()
    known = {result["scenario"]: result["known"] for result in many.results()}
    assert known["flaky"] == {
        "mode": "quarantine", "reason": "Now and then", "issue": "#7", "until": "2999-01-31", "place": None,
        "strict": False,
    }  # fmt: skip


def test_a_mistake_in_a_marker_or_the_file_ends_the_run_as_a_usage_error(bench: Bench) -> None:
    bench.manifest({"one": "echo score=1"})
    bench.conftest(
        """
        import pytest

        def pytest_itemcollected(item):
            item.add_marker(pytest.mark.bench_known("r", until="2999-01-31"))
        """
    )
    for workers in ((), ("-n", "1")):
        done = bench.run(*workers)
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        done.stderr.fnmatch_lines(
            ["ERROR: marker bench_known of many.bench.yaml::one[[]oracle]: it takes keywords only: reason=*"]
        )
        assert "INTERNALERROR" not in done.stdout.str()
    bench.write("bench-known.toml", '[[known]]\nscenari = "x"\nreason = " "\nuntil = 2999-01-31\n')
    done = bench.run("-n", "1")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(
        [
            "ERROR: bench-known.toml:2: known[[]0].scenari: unknown key; did you mean 'scenario'?",
            "bench-known.toml:3: known[[]0].reason: is empty",
        ]
    )
    assert done.stderr.str().count("bench-known.toml:3") == 1
    assert not (bench.path / "reports").exists()


def test_another_file_by_option_or_ini_key(many: Bench) -> None:
    many.write("ci/nightly.toml", entry('scenario = "new"'))
    done = many.run("--bench-known", "ci/nightly.toml", "--bench-scenario", "new,fails")
    assert done.parseoutcomes() == {"xfailed": 1, "unsolved": 1}
    assert many.job()["known"][0]["place"] == "ci/nightly.toml:1"
    many.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_known = ci/nightly.toml\n")
    assert many.run("--bench-scenario", "new").parseoutcomes() == {"xfailed": 1}
    assert many.run("--bench-known", "none", "--bench-scenario", "new").parseoutcomes() == {"unsolved": 1}


def test_entries_about_nothing_are_told_where_all_was_collected(many: Bench) -> None:
    entries = [
        'scenario = "fails"', 'scenario = "fials"', 'scenario = "many/zzz*"', 'scenario = "qqq"',
        'scenario = "qqq"\nbenchmark = "elsewhere"', 'scenario = "elsewhere/qqq"',
    ]  # fmt: skip
    many.write("bench-known.toml", "".join(map(entry, entries)))
    told = [
        "bench-known.toml:5: fials matches no scenario of many; did you mean 'fails'?",
        "bench-known.toml:9: many/zzz* matches no scenario of many",
        "bench-known.toml:13: qqq matches no scenario of many; name the benchmark if it is for another one",
    ]
    # What is selected of them is another question.
    for workers in ((), ("-n", "1")):
        done = many.run("--bench-scenario", "fails", *workers)
        assert [line for line in done.outlines if "matches no" in line] == told
    for part in ("many.bench.yaml::fails[oracle]", "--ignore=other"):
        assert "matches no" not in many.run(part).stdout.str()
    many.write("bench-known.toml", "".join(entry(f'scenario = "q{number}"') for number in range(25)))
    out = many.run("--bench-scenario", "new").outlines
    lines = [line for line in out if "match no" in line or "matches no" in line]
    assert (len(lines), lines[-1]) == (21, "... and 5 more entries that match no scenario")


def test_a_tag_cannot_make_a_failure_known(bench: Bench) -> None:
    bench.manifest({"one": {"tags": ["bench_known"], "script": "echo score=0"}})
    assert bench.run().parseoutcomes() == {"unsolved": 1}


def test_what_a_dead_worker_had_finished_is_expected_all_the_same(bench: Bench) -> None:
    # It dies between writing the result and telling of it.
    bench.conftest(
        """
        import os, signal
        from pytest_benchjobs.store.trials import TrialDirectory

        def pytest_configure(config):
            commit = TrialDirectory.commit

            def and_die(self, result, **options):
                commit(self, result, **options)
                os.kill(os.getpid(), signal.SIGKILL)

            if hasattr(config, "workerinput"):
                TrialDirectory.commit = and_die
        """
    )
    bench.manifest({"fails": "echo score=0"})
    bench.write("bench-known.toml", entry('scenario = "fails"'))
    done = bench.run("-n", "1", "-rx")
    assert done.parseoutcomes()["xfailed"] == 1
    assert "fails[oracle] - r (bench-known.toml:1; until 2999-01-31)" in done.stdout.str()


def test_single_tasks_are_a_part_of_a_benchmark_and_their_directory_is_all_of_it(bench: Bench) -> None:
    for name in ("one", "two"):
        bench.task(f"tb/{name}")
    entries = ['scenario = "tb/one"', 'scenario = "three"', 'scenario = "two"\nmode = "skip"']
    bench.write("bench-known.toml", "".join(map(entry, entries)))
    whole = bench.run("tb")
    # What the task's tests write is not where it would be in a container: an error, which nobody expects.
    assert whole.parseoutcomes() == {"errors": 1, "skipped": 1}
    told = [line for line in whole.outlines if "matches no" in line]
    assert told == [
        "bench-known.toml:5: three matches no scenario of tb; name the benchmark if it is for another one"
    ]
    part = bench.run("tb/one")
    assert part.parseoutcomes() == {"errors": 1}
    assert "matches no" not in part.stdout.str()
