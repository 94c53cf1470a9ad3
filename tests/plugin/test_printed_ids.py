"""Ids that are printed can be pasted: into pytest, and into the commands about trials."""

from __future__ import annotations

import json

import pytest

from .conftest import Bench

OPS = "benchmarks/ops.bench.yaml"
SCORER = {"name": "right", "type": "command", "command": "grep -q 1 out.txt"}


def manifest(bench: Bench, name: str) -> None:
    keys = {"reference": "echo 1 > out.txt", "scorers": [SCORER]}
    defaults = {"image": "none", "workdir": "/app"}
    bench.manifest(dict.fromkeys(("fix-script", "other"), keys), name, defaults=defaults)


@pytest.fixture
def ops(bench: Bench) -> Bench:
    manifest(bench, OPS)
    return bench


def _ran(bench: Bench, *arguments: str) -> list[str]:
    """Ids of the trials that a call of pytest has run."""
    jobs = len(list((bench.path / "reports").glob("jobs/*/job.json")))
    result = bench.run(*arguments)
    assert len(list((bench.path / "reports").glob("jobs/*/job.json"))) == jobs + 1, result.stdout.str()
    return sorted(bench.outcomes())


@pytest.mark.extended
def test_an_id_with_the_name_of_a_benchmark_works_with_pytest(ops: Bench) -> None:
    first = _ran(
        ops, "--bench", "ops", "--bench-agent", "oracle", "--bench-agent", "command:echo 1 > out.txt"
    )
    assert f"{OPS}::fix-script[oracle]" in first
    assert len(first) == 4
    # Also without the option that names the agent, of which the label is only a digest.
    for trial in first:
        assert _ran(ops, trial) == [trial]
    assert _ran(ops, first[0], first[1]) == first[:2]
    assert _ran(ops, "-n", "2", first[0]) == first[:1]


def test_an_id_is_enough_where_nothing_has_run(ops: Bench) -> None:
    for place in ("ops", OPS):
        for trial in ("fix-script[nop]", "fix-script[oracle-2]"):
            assert _ran(ops, f"{place}::{trial}") == [f"{OPS}::{trial}"]
    # What `check` prints has no agent.
    assert _ran(ops, "ops::fix-script") == [f"{OPS}::fix-script[oracle]"]
    collected = ops.run("ops::fix-script", "--collect-only", "-q")
    collected.stdout.fnmatch_lines(["1 test collected*"])


def test_attempts_and_policy_are_those_of_then(ops: Bench) -> None:
    first = _ran(ops, "benchmarks", "--bench-attempts", "3")
    assert _ran(ops, first[1]) == [first[1]]
    # Also once a newer job has made one attempt, whose id has no number.
    assert f"{first[0].partition('[')[0]}[oracle]" in _ran(ops, "benchmarks", "--bench-attempts", "1")
    assert _ran(ops, first[0]) == [first[0]]
    _ran(ops, "benchmarks", "--bench-attempts", "2", "--bench-attempt-policy", "any")
    place = f"{OPS}::fix-script"
    assert _ran(ops, f"{place}[oracle]") == [f"{place}[oracle-1]", f"{place}[oracle-2]"]


@pytest.mark.parametrize("more", ["--bench ops --lf", "--bench ops --lf -n1", "--lf"])
def test_last_failed_knows_ids_of_earlier_versions(ops: Bench, more: str) -> None:
    ops.write("test_a.py", "def test_fails(): assert 0\ndef test_passes(): pass")
    failed = dict.fromkeys(
        ["ops::other[oracle]", *(["test_a.py::test_fails"] if "ops" in more else [])], True
    )
    ops.write(".pytest_cache/v/cache/lastfailed", json.dumps(failed))
    ops.run("test_a.py", "benchmarks", *more.split()).assert_outcomes(passed=1, failed=len(failed) - 1)
    assert ops.outcomes() == {f"{OPS}::other[oracle]": "passed"}
    left = json.loads((ops.path / ".pytest_cache/v/cache/lastfailed").read_text())
    assert left.keys() == failed.keys() - {"ops::other[oracle]"}


def test_orders_by_what_was_remembered_know_ids_of_earlier_versions(ops: Bench) -> None:
    ops.write(".pytest_cache/v/cache/lastfailed", '{"ops::other[oracle]": true}')
    ops.write(".pytest_cache/v/cache/nodeids", '["ops::fix-script[oracle]"]')
    for order in ("--ff", "--nf"):
        listed = ops.run("--bench", "ops", order, "--collect-only", "-q")
        assert listed.outlines[:2] == [f"{OPS}::other[oracle]", f"{OPS}::fix-script[oracle]"]


def _age(bench: Bench) -> None:
    """Give the trials of all jobs the ids that earlier versions gave them."""
    for path in bench.path.glob("reports/jobs/*/trials/*/*/*/result.json"):
        path.write_text(path.read_text().replace(f'"{OPS}::', '"ops::'))
    assert bench.benchjobs("db", "rebuild").returncode == 0


def test_jobs_with_ids_of_earlier_versions_are_run_again_and_resumed(ops: Bench) -> None:
    agents = ("--bench-agent", "oracle", "--bench-agent", "nop")
    _ran(ops, "--bench", "ops", *agents)
    _age(ops)
    assert {place.partition("::")[0] for place in ops.outcomes()} == {"ops"}
    ops.run("--bench", "ops", *agents, "--bench-resume", "last").assert_outcomes(passed=2)
    every = {f"{OPS}::{name}[{agent}]" for name in ("fix-script", "other") for agent in ("oracle", "nop")}
    assert ops.outcomes().keys() == every
    for words, expected in (
        (("last", "--failed"), {one for one in every if "[nop]" in one}),
        (("ops::other[nop]",), {f"{OPS}::other[nop]"}),
    ):
        _age(ops)
        assert ops.benchjobs("rerun", *words).returncode == 1
        assert ops.outcomes().keys() == expected


def test_a_version_in_a_name_does_not_end_an_id(bench: Bench) -> None:
    manifest(bench, "manifest/dots.bench.yaml")
    bench.conftest(
        """
        def pytest_benchjobs_benchmarks(config):
            return {"dots::v1": "manifest"}
        """
    )
    trial = "manifest/dots.bench.yaml::fix-script[oracle]"
    assert trial in _ran(bench, "--bench", "dots::v1")
    assert _ran(bench, "dots::v1::fix-script[oracle]") == [trial]
    shown = bench.benchjobs("show", trial)
    assert shown.stdout.splitlines()[0] == trial


def test_a_directory_with_colons_can_be_pasted_as_it_is_shown(bench: Bench) -> None:
    manifest(bench, "dots::v1/ops.bench.yaml")
    (trial, _) = _ran(bench, ".")
    assert trial == r"dots\x3a:v1/ops.bench.yaml::fix-script[oracle]"
    assert _ran(bench, trial) == [trial]


def test_what_is_not_there_is_an_error_of_pytest_and_agents_on_the_command_line_win(ops: Bench) -> None:
    for words in (
        ("nothing::fix-script[oracle]",),
        ("ops::fix-scrap[oracle]",),
        ("ops::fix-script[oracle]", "--bench-agent", "nop"),
    ):
        result = ops.run(*words)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert f"not found: {words[0]}" in result.stderr.str()


def test_commands_about_trials_take_the_id(ops: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(ops.path / "kept"))
    _ran(ops, "--bench", "ops", "--bench-agent", "oracle", "--bench-agent", "nop", "--bench-attempts", "2")
    trial = "ops::fix-script[nop-2]"
    shown = ops.benchjobs("show", trial)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(
        f"{OPS}::fix-script[nop-2]\nResult:  score 0.0 < 1.0 (below_threshold) nop a2"
    )
    copied = ops.benchjobs("logs", trial, "-o", "copied")
    assert copied.returncode == 0, copied.stderr
    assert [path.parent.name for path in (ops.path / "copied").glob("*/*/results.json")] == ["fix-script-2"]
    shell = ops.benchjobs("shell", trial)
    assert (shell.returncode, f"nothing was kept of {OPS}::fix-script[nop-2]" in shell.stderr) == (2, True)
    again = ops.benchjobs("rerun", trial, "--", "--bench-keep", "always")
    assert again.returncode == 1, again.stderr
    assert ops.outcomes() == {f"{OPS}::fix-script[nop-2]": "failed"}
    # Not one with a container: but it was found.
    assert "did not run in a sandbox" in ops.benchjobs("shell", trial).stderr
    unknown = ops.benchjobs("rerun", "ops::nothing[nop]")
    assert (unknown.returncode, "there is no trial" in unknown.stderr) == (2, True)
