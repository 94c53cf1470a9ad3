"""Table of all settings of a job. Add a setting by a row here and a typed field.

Made from it are pytest's options and ini keys, the options of `benchjobs run` and similar commands, the keys of
profiles and job files with their JSON Schema, the rules for merging layers, the command line of a repeated job, and the
groups of `--help`. `docs/options.md` is checked against it. The typed field, in `JobConfig` or `GateConfig`, has the
bounds.

Part of every pytest run of everyone who installed the package: plain data, and only the standard library.
"""

from __future__ import annotations

import functools

from .defaults import DEFAULT_AGENT_TIMEOUT
from .setting import Setting

EVERY = "*"
"""The value of `--bench` for every benchmark; the same as `--bench` without a value."""
ALL = "all"
"""The value of `--bench-max-examples` that removes the limit of a lower layer."""
LOCAL = "local"
"""The sandbox that needs no Docker."""
_Gate = functools.partial(Setting, gate=True, resumable=True)
_Later = functools.partial(_Gate, afterwards=True)
"""Makes a gate setting that `benchjobs gate` may set, too."""

# Formatted as a table.
# fmt: off
_SELECTION = (
    Setting("benchmarks", "texts", "NAME[@VERSION]|PATH",
        "run this benchmark, repeatable; alone: every registered one",
        option="bench", aliases=("benchmark",), on_console=False, apart=True, usual=True),
    Setting("profile", "texts", "NAME|PATH", "settings by name, of pyproject.toml or benchjobs-profiles/; repeatable",
        in_files=False, console=("--model-profile",), apart=True, usual=True),
    Setting("job_file", "text", "PATH", "settings of this job: TOML, YAML or JSON",
        in_files=False, console=("-f",), apart=True),
    Setting("extra", "extra", "JSON|=@FILE", "an object of options and parameters, also per_benchmark; repeatable",
        apart=True),
    Setting("per_benchmark", "benchmarks", on_line=False, apart=True),
    Setting("scenarios", "scenarios", "ID", "only these scenarios; patterns and commas allowed, repeatable",
        option="bench_scenario", aliases=("scenario",), console=("--scenarios",), usual=True),
    Setting("filters", "pairs", "KEY=VALUE", "only scenarios with this metadata value, repeatable",
        option="bench_filter", key="filter", aliases=("filters",)),
    Setting("sample", "sample", "10%|N",
        "only a sample of each benchmark, stratified by tags",
        per_benchmark=True, usual=True),
    Setting("max_examples", "most", "N", "only the first N scenarios of each benchmark",
        aliases=("max_tasks", "max_instances", "max_questions", "max_scenarios", "limit"), per_benchmark=True,
        usual=True),
    Setting("seed", "whole", "N", "seed of --bench-sample (default: 0)", per_benchmark=True),
    Setting("shard", "shard", "I/N", "only part I of N of all scenarios, for several machines"),
    Setting("shard_durations", "text", "FILE",
        "split by the durations in FILE, the same for all shards: a baseline.json, a report.json or a job's directory",
        in_files=False),
    Setting("from", "text", "JOB[:STATE,...]",
        "only the trials of this earlier job; only those that passed, failed, ...",
        once=True, forgotten=True, in_files=False, apart=True),
)
_AGENTS = (
    Setting("agents", "agents", "AGENT[:MODEL]",
        "agent under test, repeatable; NAME=./PATH is your own; also oracle (default), nop and command:SHELL",
        option="bench_agent", aliases=("agent",), signed="agent", usual=True),
    Setting("provider", "text", "NAME", "who serves the models of agents that name no provider",
        per_benchmark=True, signed="agent"),
    Setting("model", "text", "MODEL", "model of agents that name none",
        per_benchmark=True, signed="agent"),
    Setting("parameters", "matrix", "KEY=V1,V2",
        "every agent with each of these values of a parameter, and their combinations; repeatable",
        option="bench_matrix", key="matrix", signed="parameters"),
    Setting("exclude", "patterns", on_line=False, in_files=False, key="matrix"),
    Setting("params", "values", "KEY=VALUE", "a parameter for agents and scorers, repeatable",
        option="bench_param", in_files=False, signed="parameters"),
    Setting("env", "variables", "KEY=VALUE", "a variable for agents, repeatable",
        aliases=("env_vars",), console=("--env-vars",), signed="parameters", variable="BENCHJOBS_ENV", usual=True),
    Setting("secrets", "secrets", "VARIABLE=NAME",
        "a variable for agents with the value that NAME has here; redacted in all output",
        option="bench_secret", aliases=("secret",), console=("--secrets",), signed="parameters", usual=True),
    Setting("env_file", "texts", "FILE",
        "file of KEY=VALUE lines for ${VAR}, secrets and model keys; real variables win; repeatable",
        in_files=False, apart=True),
)
_RUNNING = (
    Setting("attempts", "whole", "K", "independent attempts of each scenario and agent (default: 1)",
        aliases=("n_attempts",), console=("--n-attempts",), per_benchmark=True, usual=True),
    Setting("attempt_policy", "policy", "each|any|all|rate:X",
        "how several attempts are judged: each as a test (default), or together"),
    Setting("concurrency", "whole", "N",
        "trials at a time in the whole job, shared among xdist workers (default: 10)",
        aliases=("n_concurrent_trials", "n_concurrent"), console=("--n-concurrent-trials",), resumable=True,
        usual=True),
    Setting("agent_timeout", "number", "SECONDS",
        f"time for an agent (default: the scenario's own, else {DEFAULT_AGENT_TIMEOUT:g})",
        aliases=("timeout", "timeout_seconds"), console=("--timeout",), per_benchmark=True, signed="limits",
        resumable=True, usual=True),
    Setting("scorer_timeout", "number", "SECONDS", "time for a scorer (default: its own, else 1800)",
        per_benchmark=True, signed="limits", resumable=True),
    Setting("silent_timeout", "number", "SECONDS", "stop an agent that prints nothing for this long",
        signed="limits", resumable=True),
    Setting("job_timeout", "number", "SECONDS", "cancel trials that have not ended after this time", resumable=True),
    Setting("timeout_multiplier", "number", "X", "multiply every timeout by X",
        per_benchmark=True, signed="limits", resumable=True),
    Setting("retry_errors", "whole", "N", "retries of a trial after a transient infrastructure error (default: 0)",
        resumable=True),
    Setting("interleave", "flag", "", "agents take turns, so that drift over time affects all of them equally"),
)
MODELS = (
    Setting("max_cost", "number", "USD", "cost limit of the whole job; at the limit it stops, and can be resumed",
        resumable=True, usual=True),
    Setting("max_tokens", "whole", "N", "token limit of the whole job", resumable=True),
    Setting("max_calls", "whole", "N", "limit of model calls of the whole job", resumable=True),
    Setting("trial_max_cost", "number", "USD", "cost limit of each trial",
        signed="limits", resumable=True),
    Setting("trial_max_tokens", "whole", "N", "token limit of each trial",
        signed="limits", resumable=True),
    Setting("trial_max_calls", "whole", "N", "limit of model calls of each trial",
        signed="limits", resumable=True),
    Setting("allow_model", "names", "NAME",
        "another model that agents may call besides their own, * for any; repeatable"),
    Setting("allow_key", "names", "VARIABLE",
        "a model key that scorers may have in the container, such as for a judge; repeatable"),
    Setting("rpm", "rates", "[PROVIDER=]N", "model calls per minute, to each provider or to PROVIDER; repeatable",
        resumable=True),
    Setting("tpm", "rates", "[PROVIDER=]N", "tokens per minute, to each or to PROVIDER; repeatable", resumable=True),
    Setting("model_patience", "number", "SECONDS",
        "how long a model call is retried after transient errors (default: 60)",
        resumable=True),
    Setting("on_quota", "choice", "fail|wait|pause",
        "when a provider's quota is used up: end the job (default), wait until it is back, or pause the job",
        resumable=True),
    Setting("prices", "text", "FILE", "price table of models; wins over public prices",
        in_files=False, resumable=True),
    Setting("record", "text", "DIR", "record the traffic with models in DIR",
        in_files=False, resumable=True),
    Setting("replay", "text", "DIR", "answer agents from traffic recorded in DIR, instead of calling models",
        in_files=False),
    Setting("replay_exact", "flag", "",
        "refuse a call whose prompt differs from the recorded one (default: answer it, with a note)"),
)
_GRADING = (
    Setting("threshold", "number", "X", "score that passes a trial (default: 1.0; a scenario may set its own)",
        per_benchmark=True, signed="limits", usual=True),
    Setting("grade_in", "choice", "fresh|agent_container",
        "grade in an untouched container with the agent's files, or in the agent's own (default: the scenario's own)",
        signed="place"),
    Setting("on_tamper", "choice", "note|fail",
        "an agent that changed files of its image where it is graded: a note (default), or failed with a score of 0",
        signed="place"),
    Setting("keep_processes", "patterns", "PATTERN", "scenarios with `--bench-grade-in agent_container`",
        signed="place"),
    Setting("known", "text", "FILE", "known failures, reported as xfail (default: bench-known.toml in the rootdir)",
        in_files=False, apart=True),
)
_GATES = (
    _Later("baseline", "text", "SPEC",
        "baseline to judge the job by: NAME, job:ID, last, branch:NAME[~M], file:PATH or none", usual=True),
    _Later("anchor", "text", "SPEC",
        "older baseline, such as a release, by which the job is judged as well: many small drops add up to one"),
    _Later("require_baseline", "flag", "",
        "every agent and benchmark is required in the baseline; overrides first_run"),
    _Later("first_run", "flag", "",
        "the baseline need not exist yet; what it has no results for has the verdict `no baseline`"),
    _Later("fail_on_regression", "rules", "EXPR",
        "METRIC[SCOPE][:AMOUNT][@LEVEL] that may not get worse, such as mean:5pp; repeatable (default: mean:any)",
        usual=True),
    _Later("allow_missing", "absences", "[KEY=]PATTERN",
        "scenarios, agents or benchmarks of the baseline that the job may lack, such as scenario=old-*; repeatable"),
    _Later("min_score", "floors", "[NAME=]X",
        "minimum mean score of each benchmark and agent, or of NAME; repeatable", usual=True),
    _Later("min_pass_rate", "floors", "[NAME=]X", "minimum share of attempts that pass, in the same form; repeatable"),
    _Later("max_error_rate", "floors", "[NAME=]X",
        "maximum share of attempts that end in an error; above it a gate is invalid (default: 0.05)"),
    _Later("min_samples", "floors", "[NAME=]N", "minimum number of compared scenarios for a valid gate (default: 1)"),
    _Later("min_lift", "floors", "[NAME=]X", "minimum mean score, as a multiple of that of baseline:random"),
    _Later("require_fresh", "flag", "",
        "every scenario has to be graded in a fresh container; else a gate is invalid"),
    _Later("policy", "gate choice", "evidence|shown|strict|point", "what counts as a regression (default: evidence)"),
    _Gate("exit", "gate choice", "tests|gate|both",
        "what decides the exit status (default: gate where there is one, else tests)"),
    _Later("regress_warn", "points", "PP", "drop of the mean, such as 2pp, that causes a warning"),
    _Later("noise", "noise", "BENCHMARK=PP",
        "minimum tolerance of this benchmark, whatever a rule says; repeatable"),
    _Gate("confirm", "whole", "N",
        "fresh attempts of each scenario that looks worse than in the baseline; they alone decide about it"),
    _Gate("until_decided", "flag", "",
        "run attempts in rounds until the gate is decided; --bench-attempts is the maximum"),
)
_REUSE = (
    Setting("reuse", "flag", "",
        "reuse results of earlier jobs while nothing relevant changed (`benchjobs run` does, pytest does not)",
        console=("--reuse/--no-reuse",), usual=True),
    Setting("force", "flag", "", "run everything, even if the ini file enables reuse",
        once=True, in_files=False, apart=True),
    Setting("rerun_failed", "flag", "", "like --bench-reuse, but rerun trials that failed",
        once=True, in_files=False, apart=True),
    Setting("rerun_errors", "flag", "", "like --bench-reuse, but rerun trials that ended in an error",
        once=True, in_files=False, apart=True),
    Setting("explain_reuse", "flag", "", "show for each trial why it was or was not reused",
        once=True, in_files=False, apart=True),
    Setting("plan", "flag", "", "show what would run, and run nothing",
        once=True, forgotten=True, in_files=False, on_console=False, apart=True),
)
_SANDBOXES = (
    Setting("sandbox", "text", "NAME", "where trials run: docker (default), kubernetes, local", usual=True),
    Setting("no_docker", "flag", "",
        "same as --bench-sandbox local: run on the programs of this machine, and skip what needs an image",
        in_files=False, apart=True),
    Setting("sandbox_options", "table", "KEY=VALUE", "a setting of the sandbox of --bench-sandbox, repeatable",
        option="bench_sandbox_option", aliases=("sandbox_option",), signed="sandbox_options"),
    Setting("runtime", "text", "NAME",
        "runtime of the engine for containers of trials, such as runsc (gVisor; `benchjobs doctor` lists what it has)",
        signed="runtime"),
    Setting("headroom", "number", "X",
        "where a scenario names one number for cpus or memory, allow X times that much (default: 1; kubernetes: 3)",
        signed="headroom"),
    Setting("image_map", "map", "FROM=TO", "use image TO wherever a scenario names FROM, repeatable"),
    Setting("build_args", "table", "KEY=VALUE", "a build argument for every Dockerfile, repeatable",
        option="bench_build_arg", aliases=("build_arg",)),
    Setting("registry", "registry", "HOST/PATH",
        "repository that images which were built are pushed to, and pulled from instead of building them again",
        resumable=True),
    Setting("image_budget", "size", "SIZE",
        "disk limit of images that the job pulls or builds, such as 100G: unneeded ones are removed",
        resumable=True),
    Setting("keep", "choice", "never|failed|always", "trials whose file systems are kept (default: never)",
        resumable=True, usual=True),
    Setting("show_incompatible", "flag", "", "list what the matrix excludes and which capabilities agents lack",
        in_files=False, console=("--show-incompatible/--skip-incompatible",)),
    Setting("strict_capabilities", "flag", "",
        "a scenario whose required capabilities the agent lacks is an error, not skipped",
        per_benchmark=True),
    Setting("ignore_capabilities", "flag", "",
        "a scenario whose required capabilities the agent lacks runs all the same, and a note says so",
        per_benchmark=True),
)
_OUTPUT = (
    Setting("dir", "text", "DIR", "where results go (default: reports/ under rootdir)",
        in_files=False, apart=True, usual=True),
    Setting("name", "job name", "NAME", "a name for this job",
        option="bench_job_name", aliases=("job_name",), console=("-n",)),
    Setting("metadata", "table", "KEY=VALUE", "a note kept with the job, repeatable",
        option="bench_meta", aliases=("meta",), console=("--metadata",)),
    Setting("ci", "ci", "auto|off|github|gitlab|jenkins",
        "the CI system to write for (default: the one this runs in)"),
    Setting("markdown", "text", "FILE", "also write the summary to FILE, for a comment on a merge request"),
    Setting("export", "texts", "FILE",
        "write the job to FILE, by its name: trials as .csv, .jsonl, .parquet, .rl.jsonl or .json, a report as .html, "
        "the summary as .md, figures as .prom; repeatable"),
    Setting("html", "text", "FILE", "write a report of the job to FILE, which a browser opens from disk"),
    Setting("metrics", "text", "FILE", "write figures of each agent to FILE, as OpenMetrics text"),
)
_OF_COMMANDS = (
    *(
        Setting(name, "text", once=True, hidden=True, forgotten=True, in_files=False, apart=True)
        for name in ("job_id", "resume", "rescore", "parent")
    ),
    Setting("check", "flag", once=True, hidden=True, forgotten=True, in_files=False),
    Setting("trial", "texts", once=True, hidden=True, in_files=False, apart=True),
)
"""Settings that only the `benchjobs` commands pass to pytest."""
# fmt: on
GROUPS: tuple[tuple[str, tuple[Setting, ...]], ...] = (
    ("selection", _SELECTION),
    ("agents", _AGENTS),
    ("running", _RUNNING),
    ("models and budgets", MODELS),
    ("grading", _GRADING),
    ("gate", _GATES),
    ("reuse", _REUSE),
    ("sandboxes", _SANDBOXES),
    ("output", _OUTPUT),
    ("for the benchjobs commands", _OF_COMMANDS),
)
"""Title of a group, and its settings."""
SETTINGS = tuple(setting for _, settings in GROUPS for setting in settings)
BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_OPTION = {setting.option: setting for setting in SETTINGS if setting.on_line}
"""Ini key, which is also pytest's name of the option -> setting."""
BY_FLAG = {setting.flag: setting for setting in BY_OPTION.values()}
IN_FILES = {setting.key: setting for setting in SETTINGS if setting.in_files}
"""Key of a profile or job file -> setting."""
ALIASES = {alias: setting.key for setting in SETTINGS for alias in setting.aliases}
"""Other keys in files -> name of the setting."""
