"""A trial that fails explains itself: in the terminal, in the files for CI, and through `check`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from .conftest import Bench

SCORER = {"name": "right", "type": "command", "command": "cat out.txt || { echo no out.txt; exit 1; }"}


def _manifest(bench: Bench, references: Mapping[str, str], name: str = "dots.bench.yaml") -> None:
    scenarios = {scenario: {"reference": text, "scorers": [SCORER]} for scenario, text in references.items()}
    bench.manifest(scenarios, name, defaults={"image": "none", "workdir": "/app"})


WRONG = "no-such-git init; echo tried hard"
"""A solution that lacks a command and ends with status 0."""


@pytest.mark.parametrize("options", [(), ("-vv", "-rA", "--tb=long"), ("-q",), ("-v", "-n", "2")])
def test_the_terminal_shows_the_last_lines_of_agent_and_scorers_and_where_they_are(
    bench: Bench, options: tuple[str, ...]
) -> None:
    _manifest(bench, {"toy": WRONG})
    result = bench.run(*options)
    assert result.parseoutcomes() == {"unsolved": 1}
    result.stdout.fnmatch_lines(
        [
            "=* UNSOLVED *=",
            "_* dots.bench.yaml::toy[[]oracle] *_",
            "score 0.0 < 1.0 (below_threshold) oracle a1 *, logs: reports/jobs/*/trials/oracle/toy/1",
            "last lines of the agent (agent.log):",
            "  *no-such-git: *not found",
            "  tried hard",
            "last lines of scorer right (scorers/right/output.log):",
            "  no out.txt",
            "Everything about a trial: benchjobs show 'dots.bench.yaml::toy[[]oracle]'",
            "=* benchmark *=",
        ]
    )
    assert (bench.bundle() / "trials/oracle/toy/1/agent.log").is_file()


def test_tb_decides_how_much_is_shown(bench: Bench) -> None:
    _manifest(bench, {"toy": "seq 1 30"})
    shown = {style: bench.run(f"--tb={style}").stdout.str() for style in ("no", "line", "short", "long")}
    assert "UNSOLVED" not in shown["no"]
    assert "last lines" not in shown["line"]
    assert "dots.bench.yaml::toy[oracle]: score 0.0 < 1.0" in shown["line"].partition("= benchmark =")[0]
    assert "\n  26\n" in shown["short"]
    assert "\n  25\n" not in shown["short"]
    assert "\n  11\n" in shown["long"]
    assert "\n  10\n" not in shown["long"]
    assert "UNSOLVED" not in bench.run("-qq").stdout.str()


def test_many_failures_are_bounded_and_v_shows_more(bench: Bench) -> None:
    _manifest(bench, {f"s{number:02}": f"echo try {number}" for number in range(12)})
    few, more = bench.run(), bench.run("-v")
    assert few.stdout.str().count("last lines of the agent") == 10
    few.stdout.fnmatch_lines(["... and 2 more trials unsolved. -v explains more of them, -vv up to 1000."])
    assert more.stdout.str().count("last lines of the agent") == 12


def test_reports_of_pytest_and_ours_quote_the_same(bench: Bench) -> None:
    _manifest(bench, {"toy": WRONG})
    for workers in ("0", "2"):
        bench.run("-n", workers, "--junit-xml=junit.xml")
        theirs = (bench.path / "junit.xml").read_text()
        ours = (bench.bundle() / "junit.xml").read_text()
        summary = (bench.bundle() / "summary.md").read_text()
        for text in (theirs, ours, summary):
            assert "tried hard" in text
            assert "no out.txt" in text


def test_reports_of_pytest_quote_so_many_failures_that_memory_is_bounded(bench: Bench) -> None:
    bench.conftest("import pytest_benchjobs.plugin.status_words as reports\nreports._EXPLAINED = 2")
    _manifest(bench, {f"s{number}": "echo 1 > wrong.txt; echo tried hard" for number in range(3)})
    bench.run("--bench-concurrency", "1", "--junit-xml=junit.xml")
    cases = (bench.path / "junit.xml").read_text().split("<testcase")[1:]
    assert ["tried hard" in case for case in cases] == [True, True, False]
    assert ["last lines of scorer right" in case for case in cases] == [True, True, False]
    assert all("logs: reports/jobs/" in case and "right  0.0  weight 1" in case for case in cases)


def test_a_verdict_of_several_attempts_quotes_one_that_failed(bench: Bench) -> None:
    _manifest(bench, {"toy": WRONG})
    result = bench.run("--bench-attempts", "2", "--bench-attempt-policy", "any", "--junit-xml=junit.xml")
    assert result.stdout.str().count("  tried hard") == 1
    assert "tried hard" in (bench.path / "junit.xml").read_text()


def test_a_reused_failure_quotes_the_trial_it_comes_from(bench: Bench) -> None:
    _manifest(bench, {"toy": WRONG})
    bench.run()
    first = bench.bundle().name
    result = bench.run("--bench-reuse")
    result.stdout.fnmatch_lines([f"last lines of the agent (agent.log of job {first}):", "  tried hard"])


def test_a_reference_that_crashes_is_an_error_with_its_cause(bench: Bench) -> None:
    _manifest(bench, {"toy": "no-such-git init", "passes": "echo 1 > out.txt; exit 3"})
    result = bench.run("-v", "--bench-agent", "oracle", "--bench-agent", "command:exit 3")
    assert result.parseoutcomes() == {"passed": 1, "errors": 1, "unsolved": 2}
    result.stdout.fnmatch_lines(["*::toy[[]oracle] ERROR reference_failed *"])
    (one,) = [one for one in bench.results() if one["outcome"] == "error"]
    assert (one["failure"]["class"], one["score"]) == ("reference_failed", None)
    message = one["failure"]["message"]
    assert message.startswith("the reference solution exited with status 127 (a command was not found), and")
    assert "no-such-git" in message


@pytest.mark.extended
def test_check_gives_the_cause(bench: Bench) -> None:
    _manifest(bench, {"crashes": "no-such-git init", "wrong": WRONG}, "benchmarks/dots.bench.yaml")
    done = bench.benchjobs("check", "benchmarks/dots.bench.yaml", "--dir", "checked")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("unsolvable")] == [
        "unsolvable  dots::crashes",
        "unsolvable  dots::wrong",
    ]
    assert "expected passed, found error (reference_failed): the reference solution exited with " in lines[1]
    assert lines.count("    last lines of the agent (agent.log):") == 2
    assert lines.count("      tried hard") == 1
    assert lines.count("      no out.txt") == 2


def test_what_an_agent_printed_cannot_speak_for_us(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    _manifest(bench, {"toy": "printf '::error::gotcha\\n\\033[2J]]>\\n'"})
    output = bench.run("-v").stdout.str()
    assert "::error::gotcha" not in output
    assert "\x1b[2J" not in output
    assert ": :error::gotcha" in output


def test_a_set_up_that_fails_is_named_with_its_command_its_status_and_what_to_do(bench: Bench) -> None:
    setup = ["true", "echo no such mirror; exit 3"]
    bench.manifest({"toy": {"environment": {"image": "none", "setup": setup}}})
    result = bench.run()
    result.assert_outcomes(errors=1)
    said = "`setup` of the scenario (step 2 of 2) exited with status 3: echo no such mirror; exit 3"
    assert said in result.outlines
    at = result.outlines.index(said)
    assert result.outlines[at + 1] == "no such mirror"
    assert result.outlines[at + 2].startswith("No agent ran: mend it in the scenario")
    assert "1 error without a score: 1 environment" in result.outlines
    assert (
        f"  many.bench.yaml::toy[oracle]: environment: {said} no such mirror No agent" in result.stdout.str()
    )
    assert "infrastructure error" not in result.stdout.str()
