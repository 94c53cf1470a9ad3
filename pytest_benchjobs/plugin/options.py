"""The options `--bench*` and the ini keys `bench*`. What is asked for with them is read by `asked`.

Part of every pytest run of everyone who installed the package, so it holds plain tuples and imports next to nothing.
"""

from __future__ import annotations

import argparse
from typing import Any, Literal

import pytest

EVERY = "*"
"""What `--bench` without a value stands for."""

LOCAL = "local"
"""The sandbox that needs no Docker."""

_Kind = Literal["many", "text", "int", "float", "flag"]

OPTIONS: tuple[tuple[str, str, str, _Kind], ...] = (
    (
        "agent",
        "AGENT[:MODEL]",
        "agent under test, repeatable; also oracle (default), nop and command:SHELL",
        "many",
    ),
    ("provider", "NAME", "who serves the models of agents that name no provider", "text"),
    ("model", "MODEL", "model of agents that name none", "text"),
    (
        "matrix",
        "KEY=V1,V2",
        "every agent with each of these values of a parameter, and their combinations; repeatable",
        "many",
    ),
    ("param", "KEY=VALUE", "a parameter for agents and scorers, repeatable", "many"),
    ("extra", "JSON|=@FILE", "an object of options and parameters, also per_benchmark; repeatable", "many"),
    (
        "profile",
        "NAME|PATH",
        "settings by name, of pyproject.toml or benchjobs-profiles/; repeatable",
        "many",
    ),
    ("job_file", "PATH", "settings of this job: TOML, YAML or JSON", "text"),
    ("scenario", "ID", "only these scenarios; patterns and commas allowed, repeatable", "many"),
    ("filter", "KEY=VALUE", "only scenarios whose metadata say so, repeatable", "many"),
    (
        "sample",
        "10%|N",
        "only so many scenarios of each benchmark, drawn alike from each group of tags",
        "text",
    ),
    ("max_examples", "N", "only the first N scenarios of each benchmark", "int"),
    ("seed", "N", "of --bench-sample (default: 0)", "int"),
    ("shard", "I/N", "only part I of N of all scenarios", "text"),
    ("attempts", "K", "independent attempts of each scenario and agent (default: 1)", "int"),
    (
        "attempt_policy",
        "each|any|all|rate:X",
        "what several attempts decide: a test each (default), or one together",
        "text",
    ),
    (
        "concurrency",
        "N",
        "trials at a time in the whole job, shared among xdist workers (default: 10)",
        "int",
    ),
    ("agent_timeout", "SECONDS", "time for an agent (default: the scenario's own, else 7200)", "float"),
    ("scorer_timeout", "SECONDS", "time for a scorer (default: its own, else 1800)", "float"),
    ("silent_timeout", "SECONDS", "stop an agent that prints nothing for so long", "float"),
    ("job_timeout", "SECONDS", "cancel what has not ended by then", "float"),
    ("timeout_multiplier", "X", "makes every timeout X times as long", "float"),
    ("env", "KEY=VALUE", "a variable for agents, repeatable", "many"),
    (
        "secret",
        "VARIABLE=NAME",
        "a variable for agents whose value is that of NAME here; redacted wherever it would be written",
        "many",
    ),
    ("max_cost", "USD", "what the whole job may spend on models; then it stops, and can be resumed", "float"),
    ("max_tokens", "N", "tokens the whole job may use", "int"),
    ("max_calls", "N", "calls of models the whole job may make", "int"),
    ("trial_max_cost", "USD", "what each trial may spend on models", "float"),
    ("trial_max_tokens", "N", "tokens each trial may use", "int"),
    ("trial_max_calls", "N", "calls of models each trial may make", "int"),
    (
        "allow_model",
        "NAME",
        "a model that agents may call besides the one they are asked for, * for any; repeatable",
        "many",
    ),
    (
        "allow_key",
        "VARIABLE",
        "a key of a model that scorers may have in the container, as for a judge; repeatable",
        "many",
    ),
    ("rpm", "[PROVIDER=]N", "calls a minute to a provider of models, or to each; repeatable", "many"),
    ("tpm", "[PROVIDER=]N", "tokens a minute, likewise", "many"),
    (
        "model_patience",
        "SECONDS",
        "how long a call that a model refuses for the moment is held back and tried again (default: 60)",
        "float",
    ),
    ("prices", "FILE", "prices of models, before those of public providers", "text"),
    ("record", "DIR", "keep the traffic with models there", "text"),
    ("replay", "DIR", "answer agents from traffic kept there, instead of calling models", "text"),
    (
        "replay_exact",
        "",
        "refuse a call whose prompt is not the recorded one; else it is answered and noted",
        "flag",
    ),
    (
        "env_file",
        "FILE",
        "KEY=VALUE lines: variables of this machine for ${VAR}, secrets and model keys, below real ones; repeatable",
        "many",
    ),
    (
        "known",
        "FILE",
        "known failures, reported as xfail (default: bench-known.toml in the rootdir)",
        "text",
    ),
    ("threshold", "X", "score that passes a trial (default: 1.0; a scenario may set its own)", "float"),
    (
        "baseline",
        "SPEC",
        "what to judge the job by: NAME, job:ID, last, branch:NAME[~M], file:PATH or none",
        "text",
    ),
    (
        "require_baseline",
        "",
        "every agent and benchmark has to be in the baseline, whatever first_run says",
        "flag",
    ),
    (
        "first_run",
        "",
        "the baseline need not be there yet; what it has nothing of has the verdict `no baseline`",
        "flag",
    ),
    (
        "fail_on_regression",
        "EXPR",
        "METRIC[SCOPE][:AMOUNT][@LEVEL] that may not get worse, as mean:5pp; repeatable (default: mean:any)",
        "many",
    ),
    (
        "allow_missing",
        "[KEY=]PATTERN",
        "scenarios, agents or benchmarks of the baseline that the job need not have, as scenario=old-*; repeatable",
        "many",
    ),
    (
        "min_score",
        "[NAME=]X",
        "least mean score of each benchmark and agent, or of the one called NAME; repeatable",
        "many",
    ),
    ("min_pass_rate", "[NAME=]X", "least share of attempts that pass, likewise", "many"),
    (
        "max_error_rate",
        "[NAME=]X",
        "share of attempts that may end in an error before a gate is invalid (default: 0.05)",
        "many",
    ),
    (
        "min_samples",
        "[NAME=]N",
        "scenarios that must be compared for a gate to be valid (default: 1)",
        "many",
    ),
    (
        "min_lift",
        "[NAME=]X",
        "least mean score, as a multiple of that of baseline:random in this job",
        "many",
    ),
    ("policy", "evidence|strict|point", "what counts as a regression (default: evidence)", "text"),
    (
        "exit",
        "tests|gate|both",
        "what the exit status tells of (default: gate where there is one, else tests)",
        "text",
    ),
    ("regress_warn", "PP", "drop of the mean, such as 2pp, that is worth a warning", "text"),
    (
        "noise",
        "BENCHMARK=PP",
        "drop that is nothing on this benchmark, whatever a rule says; repeatable",
        "many",
    ),
    (
        "confirm",
        "N",
        "fresh attempts of each scenario that looks worse than in the baseline, which then decide about it",
        "int",
    ),
    (
        "until_decided",
        "",
        "attempts in rounds, and none more once the gate is decided; --bench-attempts are the most",
        "flag",
    ),
    ("interleave", "", "agents take turns, so that what changes meanwhile meets all alike", "flag"),
    ("retry_errors", "N", "new tries of a trial after a passing infrastructure error (default: 0)", "int"),
    ("image_map", "FROM=TO", "use image TO wherever a scenario says FROM, repeatable", "many"),
    ("build_arg", "KEY=VALUE", "a build argument for every Dockerfile, repeatable", "many"),
    (
        "grading",
        "strict|contract",
        "what of an agent's processes lives on while graded: nothing, or its daemons (default: the scenario's own)",
        "text",
    ),
    ("keep_processes", "PATTERN", "scenarios that are graded by contract", "many"),
    ("keep", "never|failed|always", "file systems of trials to keep (default: never)", "text"),
    ("sandbox", "NAME", "where trials run: docker (default), local", "text"),
    (
        "no_docker",
        "",
        "as --bench-sandbox local: run on the programs of this machine, and skip what needs an image",
        "flag",
    ),
    ("dir", "DIR", "where results go (default: reports/ under rootdir)", "text"),
    ("job_name", "NAME", "a name for this job", "text"),
    ("meta", "KEY=VALUE", "a note kept with the job, repeatable", "many"),
    (
        "ci",
        "auto|off|github|gitlab|jenkins",
        "the CI system to write for (default: the one this runs in)",
        "text",
    ),
    ("markdown", "FILE", "write the summary there too, for a comment on a merge request", "text"),
    ("metrics", "FILE", "write figures of each agent there, as OpenMetrics text", "text"),
    ("reuse", "", "take over results of earlier jobs that nothing has changed since", "flag"),
    ("show_incompatible", "", "list what the matrix excludes, and agents lack", "flag"),
    (
        "strict_capabilities",
        "",
        "an agent that lacks what a scenario requires is an error, instead of skipped",
        "flag",
    ),
)
_THIS_TIME: tuple[tuple[str, str, str, _Kind], ...] = (
    ("explain_reuse", "", "say of each trial why it was reused, or why not", "flag"),
    ("rerun_failed", "", "as --bench-reuse, but run again what failed", "flag"),
    ("rerun_errors", "", "as --bench-reuse, but run again what ended in an error", "flag"),
    ("force", "", "run everything, whatever the ini file says of reuse", "flag"),
    ("plan", "", "say what would run, and run nothing", "flag"),
    (
        "from",
        "JOB[:STATE,...]",
        "only the trials of this earlier job; only those that passed, failed, ...",
        "text",
    ),
)
"""Without an ini key: nobody can mean them of every call."""
_OURS = ("job_id", "resume", "rescore", "parent")
"""For the `benchjobs` commands, and not in --help."""
_INI_TYPE: dict[_Kind, Literal["linelist", "string", "int", "float", "bool"]] = {
    "many": "linelist",
    "text": "string",
    "int": "int",
    "float": "float",
    "flag": "bool",
}
_EXPECTED: dict[_Kind, str] = {
    "many": "a list",
    "text": "a text",
    "int": "a whole number",
    "float": "a number",
    "flag": "true or false",
}


def add(parser: pytest.Parser) -> None:
    """Register every option, and the ini key of the same name."""
    group = parser.getgroup("benchjobs", "agent benchmarks")
    group.addoption(
        "--bench",
        dest="bench",
        action="append",
        nargs="?",
        const=EVERY,
        metavar="NAME[@VERSION]|PATH",
        help="run this benchmark, repeatable; alone: every registered one",
    )
    parser.addini("bench", "benchmarks to run when --bench is not given", type="linelist", default=[])
    parser.addini(
        "bench_benchmarks",
        "lines `NAME[@VERSION] = PATH`: benchmarks --bench knows",
        type="linelist",
        default=[],
    )
    parser.addini(
        "bench_paths", "directories --bench looks for manifests in", type="linelist", default=["benchmarks"]
    )
    parser.addini("bench_high_scores_file", "the best that is known of benchmarks, for `benchjobs compare`")
    for name, metavar, text, kind in (*OPTIONS, *_THIS_TIME):
        if kind == "flag":
            # Not False: that would be a value.
            group.addoption(flag(name), dest=f"bench_{name}", action="store_true", default=None, help=text)
        elif kind == "many":
            group.addoption(flag(name), dest=f"bench_{name}", action="append", metavar=metavar, help=text)
        else:
            group.addoption(flag(name), dest=f"bench_{name}", metavar=metavar, help=text)
    for name, _, _, kind in OPTIONS:
        default: list[str] | None = [] if kind == "many" else None
        parser.addini(f"bench_{name}", f"as {flag(name)}", type=_INI_TYPE[kind], default=default)
    for name in _OURS:
        group.addoption(flag(name), dest=f"bench_{name}", help=argparse.SUPPRESS)


def flag(name: str) -> str:
    """How the option called `name` is written."""
    return "--bench-" + name.replace("_", "-")


def given(config: pytest.Config) -> bool:
    """Whether the command line names any of our options."""
    names = (*(name for name, *_ in (*OPTIONS, *_THIS_TIME)), *_OURS)
    dests = ("bench", *(f"bench_{name}" for name in names))
    return any(config.getoption(dest) is not None for dest in dests)


def ini(config: pytest.Config, key: str) -> Any:
    """An ini value.

    Raises:
        pytest.UsageError: of the wrong type.
    """
    try:
        return config.getini(key)
    except (TypeError, ValueError, pytest.UsageError) as error:  # which of them depends on pytest's version
        expected = next((_EXPECTED[kind] for name, _, _, kind in OPTIONS if key == f"bench_{name}"), "a list")
        found = str(error).rpartition(": ")[2].removeprefix("invalid truth value ")
        raise pytest.UsageError(f"{origin(config, key)}: {expected} is expected, not {found}") from None


def origin(config: pytest.Config, key: str) -> str:
    """Where an ini key has its value from, to blame it: `pytest.ini: bench_attempts`."""
    overridden = any(text.startswith(f"{key}=") for text in config.getoption("override_ini") or ())
    if overridden or config.inipath is None:
        return f"-o {key}"
    return f"{config.inipath.name}: {key}"
