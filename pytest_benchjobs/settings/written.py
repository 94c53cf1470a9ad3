"""The keys of a profile or job file, as people write them. `settings_schema` publishes this page."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from ..model.gate import GateExit, GatePolicy
from ..model.job import Keep
from ..model.policy import AttemptPolicy
from ..model.scenario import EnvName, Grading
from ..sources.complaints import Written
from .values import CiSystem, JobName, Sample, Shard

ALIASES = {
    "agent": "agents",
    "benchmark": "benchmarks",
    "scenario": "scenarios",
    "job_name": "name",
    "n_attempts": "attempts",
    "n_concurrent_trials": "concurrency",
    "n_concurrent": "concurrency",
    "timeout": "agent_timeout",
    "timeout_seconds": "agent_timeout",
    "env_vars": "env",
    "secret": "secrets",
    "meta": "metadata",
    "build_arg": "build_args",
    "filters": "filter",
    "max_tasks": "max_examples",
    "max_instances": "max_examples",
    "max_questions": "max_examples",
    "max_scenarios": "max_examples",
    "limit": "max_examples",
}
"""Words of others, and of our options -> ours."""

Text = Annotated[str, Field(min_length=1)]
_Number = Annotated[float, Strict()]
_Count = Annotated[int, Strict()]
_Flag = Annotated[bool, Strict()]
_Duration = Annotated[_Number, Field(gt=0, le=31_536_000)]


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


def _texts(value: object) -> object:
    """A text may be several, as on the command line."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _plain_text(value: object) -> object:
    """A variable or note is a text, and is often written as a number."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_Texts = Annotated[
    list[Text],
    Field(min_length=1),
    BeforeValidator(_one_or_more, json_schema_input_type=Text | Annotated[list[Text], Field(min_length=1)]),
]
_Scenarios = Annotated[
    list[Text],
    Field(min_length=1),
    BeforeValidator(_texts, json_schema_input_type=Text | Annotated[list[Text], Field(min_length=1)]),
]
_Value = Annotated[str, BeforeValidator(_plain_text, json_schema_input_type=str | int | float | bool)]


def _for_all(value: object) -> object:
    """A single number is for each benchmark and agent."""
    return value if isinstance(value, dict) else {"*": value}


_Bound = _Number | Text
"""A number, or a share as `90%`. What fits is said where all of it is read: `gates`."""
_Bounds = Annotated[
    dict[Text, _Bound], BeforeValidator(_for_all, json_schema_input_type=_Bound | dict[Text, _Bound])
]


class WrittenAgent(Written):
    """An agent whose parts are written one by one, instead of `agent:model@url`."""

    agent: Text
    """Its name; or `name@version`."""
    model: Text | None = None
    provider: Text | None = None
    base_url: Text | None = None
    params: dict[str, Any] = {}
    """For the agent alone; they are part of its name in tables."""


_Agent = Annotated[WrittenAgent | Text, Field(union_mode="left_to_right")]
_Agents = Annotated[
    list[_Agent],
    Field(min_length=1),
    BeforeValidator(
        _one_or_more, json_schema_input_type=_Agent | Annotated[list[_Agent], Field(min_length=1)]
    ),
]


class WrittenMatrix(Written):
    """Every agent with every combination of parameters."""

    parameters: dict[Text, Annotated[list[Any], Field(min_length=1)]] = {}
    exclude: list[dict[str, Any]] = []
    """Cells that make no sense: `agent`, `benchmark` (patterns allowed) and parameters, as many as tell them apart."""


class WrittenBenchmark(Written):
    """What may be said of one benchmark. Any other key is a parameter, for agents and scorers."""

    attempts: Annotated[_Count, Field(ge=1, le=10_000)] | None = None
    agent_timeout: _Duration | None = None
    """Seconds, as every time here."""
    scorer_timeout: _Duration | None = None
    timeout_multiplier: Annotated[_Number, Field(gt=0, le=1000)] | None = None
    threshold: Annotated[_Number, Field(ge=0, le=1)] | None = None
    max_examples: Annotated[_Count, Field(ge=1)] | None = None
    sample: Sample | None = None
    """`10%`, 0.1, or a number of scenarios."""
    seed: _Count | None = None
    """Of the sample."""
    strict_capabilities: _Flag | None = None
    """An agent that lacks what a scenario requires is an error instead of skipped."""
    provider: Text | None = None
    model: Text | None = None


class Settings(WrittenBenchmark):
    """A profile or job file. The keys are those of the options."""

    name: Annotated[JobName, Field(min_length=1)] | None = None
    benchmarks: _Texts | None = None
    """Names, or paths from this file."""
    agents: _Agents | None = None
    scenarios: _Scenarios | None = None
    filter: dict[Text, _Value] = {}
    shard: Shard | None = None
    attempt_policy: Annotated[AttemptPolicy, WithJsonSchema({"type": "string"})] | None = None
    concurrency: Annotated[_Count, Field(ge=1, le=10_000)] | None = None
    silent_timeout: _Duration | None = None
    job_timeout: _Duration | None = None
    env: dict[EnvName, _Value] = {}
    """Variables for agents. A profile is no place for secrets."""
    secrets: dict[EnvName, Text] = {}
    """Variable for agents -> name of the variable here that has the value."""
    max_cost: Annotated[_Number, Field(gt=0)] | None = None
    """USD that the whole job may spend on models."""
    max_tokens: Annotated[_Count, Field(ge=1)] | None = None
    max_calls: Annotated[_Count, Field(ge=1)] | None = None
    trial_max_cost: Annotated[_Number, Field(gt=0)] | None = None
    """The same for each trial."""
    trial_max_tokens: Annotated[_Count, Field(ge=1)] | None = None
    trial_max_calls: Annotated[_Count, Field(ge=1)] | None = None
    allow_model: _Scenarios | None = None
    """Models that agents may call besides the one they are asked for."""
    allow_key: _Scenarios | None = None
    """Variables with keys of models that scorers may have in the container."""
    replay_exact: _Flag | None = None
    """With `--bench-replay`: refuse a call whose prompt is not the recorded one."""
    model_patience: _Duration | None = None
    rpm: dict[Text, Annotated[_Count, Field(ge=1)]] = {}
    """Provider, or `*` -> calls a minute."""
    tpm: dict[Text, Annotated[_Count, Field(ge=1)]] = {}
    """Provider, or `*` -> tokens a minute."""
    retry_errors: Annotated[_Count, Field(ge=0, le=100)] | None = None
    image_map: dict[Text, Text] = {}
    build_args: dict[Text, _Value] = {}
    keep_processes: Annotated[
        list[Text], BeforeValidator(_one_or_more, json_schema_input_type=Text | list[Text])
    ] = []
    grading: Grading | None = None
    keep: Keep | None = None
    sandbox: Text | None = None
    ci: CiSystem | None = None
    markdown: Text | None = None
    """A file, from the rootdir."""
    metrics: Text | None = None
    """Likewise."""
    reuse: _Flag | None = None
    metadata: dict[Text, _Value] = {}
    baseline: Text | None = None
    """What the job is judged by: `NAME`, `job:ID`, `last`, `branch:NAME[~M]`, `file:PATH` or `none`."""
    require_baseline: _Flag | None = None
    first_run: _Flag | None = None
    """The baseline may not be there yet."""
    fail_on_regression: _Texts | None = None
    """Rules such as `mean:5pp`."""
    min_score: _Bounds = {}
    """A number for each benchmark and agent, or a table of some; so are the next four."""
    min_pass_rate: _Bounds = {}
    max_error_rate: _Bounds = {}
    min_samples: _Bounds = {}
    min_lift: _Bounds = {}
    policy: GatePolicy | None = None
    exit: GateExit | None = None
    regress_warn: _Bound | None = None
    """Points of score: `2pp` or 0.02."""
    noise: dict[Text, _Bound] = {}
    """Benchmark -> points of score."""
    allow_missing: _Texts | None = None
    """What the baseline has and the job need not have: `scenario=old-*`, `agent=codex:*`, `benchmark=texts`."""
    confirm: Annotated[_Count, Field(ge=0, le=1000)] | None = None
    until_decided: _Flag | None = None
    interleave: _Flag | None = None
    matrix: WrittenMatrix | None = None
    extra: dict[str, Any] = {}
    """As --bench-extra; it may have `per_benchmark`."""
    per_benchmark: dict[Text, dict[str, Any]] = {}
    """Name of a benchmark -> what is to be otherwise for it."""


def settings_schema() -> dict[str, Any]:
    """JSON Schema of a profile or job file, for editors and for `benchjobs schema`."""
    schema = Settings.model_json_schema(mode="validation")
    properties = schema["properties"]
    for alias, name in ALIASES.items():
        properties[alias] = {**properties[name], "description": f"The same as `{name}`."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
