"""Ids that are printed can be pasted: into pytest, and into the commands about trials."""

from __future__ import annotations

import pytest

from .conftest import Bench

SCORER = {"name": "right", "type": "command", "command": "grep -q 1 out.txt"}


def manifest(bench: Bench, name: str) -> None:
    keys = {"reference": "echo 1 > out.txt", "scorers": [SCORER]}
    defaults = {"image": "none", "workdir": "/app"}
    bench.manifest(dict.fromkeys(("fix-script", "other"), keys), name, defaults=defaults)


@pytest.fixture
def ops(bench: Bench) -> Bench:
    manifest(bench, "benchmarks/ops.bench.yaml")
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
    assert "ops::fix-script[oracle]" in first
    assert len(first) == 4
    # Also without the option that names the agent, of which the label is only a digest.
    for trial in first:
        assert _ran(ops, trial) == [trial]
    assert _ran(ops, first[0], first[1]) == first[:2]
    assert _ran(ops, "-n", "2", first[0]) == first[:1]


def test_an_id_is_enough_where_nothing_has_run(ops: Bench) -> None:
    assert _ran(ops, "ops::fix-script[nop]") == ["ops::fix-script[nop]"]
    assert _ran(ops, "ops::fix-script[oracle-2]") == ["ops::fix-script[oracle-2]"]
    assert _ran(ops, "benchmarks/ops.bench.yaml::other[nop]") == ["benchmarks/ops.bench.yaml::other[nop]"]
    # What `check` prints has no agent.
    assert _ran(ops, "ops::fix-script") == ["ops::fix-script[oracle]"]


def test_attempts_and_policy_are_those_of_then(ops: Bench) -> None:
    first = _ran(ops, "benchmarks", "--bench-attempts", "3")
    assert _ran(ops, first[1]) == [first[1]]
    # Also once a newer job has made one attempt, whose id has no number.
    assert f"{first[0].partition('[')[0]}[oracle]" in _ran(ops, "benchmarks", "--bench-attempts", "1")
    assert _ran(ops, first[0]) == [first[0]]
    _ran(ops, "benchmarks", "--bench-attempts", "2", "--bench-attempt-policy", "any")
    place = "benchmarks/ops.bench.yaml::fix-script"
    assert _ran(ops, f"{place}[oracle]") == [f"{place}[oracle-1]", f"{place}[oracle-2]"]


def test_a_version_in_a_name_does_not_end_an_id(bench: Bench) -> None:
    manifest(bench, "manifest/dots.bench.yaml")
    bench.conftest(
        """
        def pytest_benchjobs_benchmarks(config):
            return {"dots::v1": "manifest"}
        """
    )
    trial = "dots::v1::fix-script[oracle]"
    assert trial in _ran(bench, "--bench", "dots::v1")
    assert _ran(bench, trial) == [trial]
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
    assert shown.stdout.startswith(f"{trial}\nResult:  score 0.0 < 1.0 (below_threshold) nop a2")
    copied = ops.benchjobs("logs", trial, "-o", "copied")
    assert copied.returncode == 0, copied.stderr
    assert [path.parent.name for path in (ops.path / "copied").glob("*/*/results.json")] == ["fix-script-2"]
    shell = ops.benchjobs("shell", trial)
    assert (shell.returncode, f"nothing was kept of {trial}" in shell.stderr) == (2, True)
    again = ops.benchjobs("rerun", trial, "--", "--bench-keep", "always")
    assert again.returncode == 1, again.stderr
    assert ops.outcomes() == {trial: "failed"}
    # Not one of Docker: but it was found.
    assert "needs Docker" in ops.benchjobs("shell", trial).stderr
    unknown = ops.benchjobs("rerun", "ops::nothing[nop]")
    assert (unknown.returncode, "there is no trial" in unknown.stderr) == (2, True)
