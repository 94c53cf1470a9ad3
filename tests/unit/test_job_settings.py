"""The job that a call asks for: which place of a setting wins, and what is refused, each mistake once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from unittest import mock

import pytest

from pytest_benchjobs.gateway.client import Gateway, SpendingLimits
from pytest_benchjobs.job import models
from pytest_benchjobs.job.job_settings import JobSettings, Said, settings_from
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.plugin import options
from pytest_benchjobs.plugin.options import INI_ALONE
from pytest_benchjobs.settings.call import split
from pytest_benchjobs.settings.extra import extra_layer
from pytest_benchjobs.settings.layers import Layer
from pytest_benchjobs.settings.parse import parse
from pytest_benchjobs.settings.table import BY_NAME, SETTINGS

from .test_settings_table import read

_INI = {"benchmarks": (), "dir": None, "known": None}
PRICES = {
    "dear.toml": "date = 2026-11-21\n[[model]]\nnames = ['m']\ninput = 'dear'\noutput = 1\n",
    "undated.toml": "[[model]]\n",
    "open.toml": "date = ",
}


def requested(directory: Path, *words: str, ini: Mapping[str, str] = {}) -> JobSettings:
    """Return the job that options ask for, without pytest."""
    line = split(words).settings
    values = {
        name: parse(BY_NAME[name], text, BY_NAME[name].flag, directory)
        for name, text in line.items()
        if not BY_NAME[name].apart
    }
    layer = Layer(values, origin=lambda key: BY_NAME[key].flag)
    place = "pytest.ini: bench_{}".format
    return settings_from(Said([layer], line, {**_INI, **ini}, place, directory, directory))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        # Options that exclude each other, and names
        ("--bench-force --bench-reuse", "--bench-force and --bench-reuse contradict each other: *"),
        ("--bench-force --bench-rerun-failed", "--bench-force and --bench-rerun-failed contradict each other: *"),
        ("--bench-rescore=x --bench-resume=x", "--bench-rescore and --bench-resume contradict each other: *"),
        ("--bench-resume=x --bench-job-id=x", "--bench-resume and --bench-job-id contradict each other: *"),
        ("--bench-job-id=../x", "--bench-job-id: '../x' is not the id of a job"),
        ("--bench-job-name=last~1", "--bench-job-name: 'last~1' is reserved for selecting a job by age; choose another name"),
        ("--bench-job-name=a\x1bb", "--bench-job-name: a name is one line, without control characters"),
        ("--bench-from=last:faild", "--bench-from: unknown outcome 'faild'; did you mean 'failed'?"),
        # What is empty
        ("--bench-scenario=", "--bench-scenario: it is empty; give a value, or leave it out"),
        ("--bench-scenario=,", "--bench-scenario: it is empty; name a scenario, or leave it out"),
        ("--bench-model=", "--bench-model: it is empty; give a value, or leave it out"),
        ("--bench-allow-model=a,,b", "--bench-allow-model: a name is empty; leave it out"),
        # Numbers and choices
        ("--bench-attempts=0", "--bench-attempts: must be at least 1, not 0"),
        ("--bench-attempts=two", "--bench-attempts: a whole number is expected, not 'two'"),
        ("--bench-threshold=1.5", "--bench-threshold: must be at most 1, not 1.5"),
        ("--bench-threshold=high", "--bench-threshold: a number is expected, not 'high'"),
        ("--bench-job-timeout=0", "--bench-job-timeout: must be greater than 0, not 0"),
        ("--bench-silent-timeout=nan", "--bench-silent-timeout: a finite number is expected, not nan"),
        ("--bench-attempt-policy=most", "--bench-attempt-policy: 'most' is not a policy; *"),
        ("--bench-attempt-policy=rate:x", "--bench-attempt-policy: 'rate:x' is not a policy; write each, any, all or *"),
        ("--bench-export=out.xyz", "--bench-export: out.xyz is not .csv, .jsonl, * by its name"),
        ("--bench-html=.", "--bench-html: . is a directory"),
        ("--bench-keep=sometimes", "--bench-keep: 'sometimes' is not one of never, failed, always*"),
        ("--bench-on-quota=sleep", "--bench-on-quota: 'sleep' is not one of fail, wait, pause*"),
        ("--bench-ci=travis", "--bench-ci: 'travis' is not a known CI system; known are: auto, off, github, *"),
        ("--bench-policy=lax", "--bench-policy: 'lax' is none of evidence, shown, strict, point"),
        ("--bench-exit=no", "--bench-exit: 'no' is none of tests, gate, both"),
        ("--bench-sample=all", "--bench-sample: 'all' is not a sample; write a share such as 10%, or a number of scenarios"),
        ("--bench-shard=0/2", "--bench-shard: '0/2' is not a shard; write I/N, from 1/N to N/N"),
        ("--bench-shard-durations=gone.json", "--bench-shard-durations: *gone.json is not there"),
        # Pairs
        ("--bench-env=X", "--bench-env: 'X' is not of the form KEY=VALUE"),
        ("--bench-env==x", "--bench-env: '=x' is not of the form KEY=VALUE"),
        ("--bench-env=1A=x", "--bench-env: '1A' is not a name for a variable (letters, digits and '_')"),
        ("--bench-param=t", "--bench-param: 't' is not of the form KEY=VALUE"),
        ("--bench-image-map=debian", "--bench-image-map: 'debian' is not of the form FROM=TO"),
        ("--bench-secret=KEY", "--bench-secret: 'KEY' is not of the form VARIABLE=NAME"),
        ("--bench-matrix=t", "--bench-matrix: 't' is not of the form KEY=V1,V2"),
        ("--bench-matrix=t=1,1", "--bench-matrix: t has the value 1 twice"),
        ("--bench-matrix=t=1 --bench-matrix=t=2", "--bench-matrix: t is given twice; write t=V1,V2"),
        ("--bench-matrix=t=1,2 --bench-param=t=3", "--bench-param: t has several values already: --bench-matrix"),
        ("--bench-rpm=a=1 --bench-rpm=a=2", "--bench-rpm: 'a=2': write N, or PROVIDER=N once for each provider"),
        ("--bench-rpm=1 --bench-rpm=2", "--bench-rpm: '2': write N, or PROVIDER=N once for each provider"),
        ("--bench-tpm==5", "--bench-tpm: '=5': write N, or PROVIDER=N once for each provider"),
        ("--bench-tpm=a=fast", "--bench-tpm: a whole number is expected, not 'fast'"),
        # Agents
        ("--bench-agent=:x", "--bench-agent: invalid agent ':x': no name before ':'. Use format: agent:model"),
        ("--bench-agent=codex:", "--bench-agent: no model specified for agent 'codex'. Use format: codex:model"),
        ("--bench-agent=command", "--bench-agent: command needs the shell command to run. Use format: command:SHELL COMMAND"),
        ("--bench-agent=nop --bench-agent=nop", "--bench-agent: nop is given twice; for repeats use --bench-attempts"),
        ("--bench-model=m", "--bench-model: oracle would ignore it; name an agent that uses it with --bench-agent"),
        # Gates
        ("--bench-fail-on-regression=mean:5pp", "--bench-fail-on-regression: *--bench-baseline*"),
        ("--bench-baseline=x --bench-fail-on-regression=men:5pp", "--bench-fail-on-regression: *men*mean*"),
        ("--bench-baseline=what:x", "--bench-baseline: *job:ID*"),
        ("--bench-baseline=file:", "--bench-baseline: *a name is missing after the colon*"),
        ("--bench-baseline=file:dear.toml", "--bench-baseline: *dear.toml*"),
        ("--bench-min-score=2", "--bench-min-score: *0 to 1*"),
        ("--bench-min-score=0.5 --bench-min-score=0.6", "--bench-min-score: '0.6': write X, or NAME=X once for *"),
        ("--bench-min-score==0.5", "--bench-min-score: '=0.5': write X, or NAME=X once for each benchmark or agent"),
        ("--bench-regress-warn=2", "--bench-regress-warn: '2' *2pp*"),
        ("--bench-noise=2pp", "--bench-noise: *BENCHMARK=PP*"),
        ("--bench-confirm=-1", "--bench-confirm: -1 is not a number of attempts*"),
        # Secrets: both places are named, and no value is repeated
        ("--bench-secret=A=NOWHERE --bench-secret=B=NEITHER", "--bench-secret: NEITHER, NOWHERE is neither in the environment nor among the secrets kept here; export it, or run `benchjobs secret set NEITHER`"),
        ("--bench-secret=KEY=OURS --bench-param=key=a-word-of-s3crets", "--bench-param: it holds the value of the secret KEY, and would be in every report"),
        ("--bench-secret=KEY=OURS --bench-meta=key=a-word-of-s3crets", "--bench-meta: it holds the value of the secret KEY, *"),
        ("--bench-secret=KEY=OURS --bench-agent=command:a-word-of-s3crets", "--bench-agent: it holds the value of the secret KEY, *; write $KEY instead"),
        # Files
        ("--bench-dir=dear.toml/x", "--bench-dir: *dear.toml is not a directory; name another one with --bench-dir"),
        ("--bench-known=nowhere.toml", "--bench-known: */nowhere.toml is not there"),
        ("--bench-prices=nowhere.toml", "--bench-prices: */nowhere.toml is not there"),
        ("--bench-prices=dear.toml", "--bench-prices: *dear.toml:4: model[0].input: a number is expected*"),
        ("--bench-prices=undated.toml", "--bench-prices: *undated.toml: date: is required but missing*"),
        ("--bench-prices=open.toml", "--bench-prices: *open.toml:1: is not valid TOML*"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_call_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.setenv("OURS", "a-word-of-s3crets")
    for name, text in PRICES.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as raised:
        requested(tmp_path, *words.split(" "))
    assert fnmatchcase(str(raised.value), message.replace("[", "[[]")), raised.value
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(PRICES), "nothing is made"


def test_a_word_is_no_secret_that_an_agent_may_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "EMPTY")
    words = ("--bench-secret=VLLM_API_KEY=OURS", "--bench-agent=command:echo EMPTY", "--bench-param=a=EMPTY")
    assert requested(tmp_path, *words).job.agents[0].model == "echo EMPTY"


def test_a_mistake_in_the_ini_file_names_its_key(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^pytest.ini: bench_known: .*/gone.toml is not there$"):
        requested(tmp_path, ini={"known": "gone.toml"})
    (tmp_path / "taken").touch()
    with pytest.raises(
        InputError, match=r"^pytest.ini: bench_dir: .*/taken is not a directory; name another"
    ):
        requested(tmp_path, ini={"dir": "taken"})


@pytest.mark.parametrize(
    ("ini", "words", "message"),
    [
        ("bench_agnet = nop", [], "pytest.ini: bench_agnet: unknown ini key; did you mean bench_agent?"),
        ("bench-agent = nop", [], "pytest.ini: bench-agent: unknown ini key; did you mean bench_agent?"),
        ("bench_pathes = x", [], "pytest.ini: bench_pathes: unknown ini key; did you mean bench_paths?"),
        ("bench_plan = true", [], "pytest.ini: bench_plan: unknown ini key; it is for single calls: --bench-plan"),
        ("bench_zzzzzz = 1", [], "pytest.ini: bench_zzzzzz: unknown ini key; `pytest --bench-help` lists all"),
        ("", ["-o", "bench_agnet=nop"], "-o bench_agnet: unknown ini key; did you mean bench_agent?"),
        ("", ["--bench-agnet=nop"], "unknown option --bench-agnet; did you mean --bench-agent? --bench-help lists all"),
        ("bench_attempts = two", [], "pytest.ini: bench_attempts: a whole number is expected, not 'two'"),
        ("bench_reuse = perhaps", [], "pytest.ini: bench_reuse: true or false is expected, not 'perhaps'"),
        ("bench_extra = {", [], "pytest.ini: bench_extra: is not valid JSON: *"),
        ("bench_attempts = 2", ["-o", "bench_attempts=x"], "-o bench_attempts: a whole number is expected, not 'x'"),
        ("", ["--bench-profile=gone"], "there is no profile 'gone'; *"),
    ],
)  # fmt: skip
def test_pytest_names_the_place_of_a_mistake(
    pytester: pytest.Pytester, ini: str, words: list[str], message: str
) -> None:
    (pytester.path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")

    def configure() -> None:
        options.refuse_misspelt_keys(pytester.parseconfig(*words))
        read(pytester, *words)

    with pytest.raises(pytest.UsageError) as raised:
        configure()
    assert fnmatchcase(str(raised.value), message), raised.value


VALUED = [one for one in SETTINGS if one.kind != "flag"]


def _said(function: Callable[[], object]) -> str:
    try:
        return f"accepted: {function()!r}"
    except pytest.UsageError as error:
        return str(error)


def test_no_option_and_no_ini_key_is_given_empty(pytester: pytest.Pytester) -> None:
    """As by a variable of CI that is not set. `=--` is nothing to the argparse of Python 3.11."""
    given = {one.flag: [f"{one.flag}{end}"] for one in VALUED if one.on_line for end in ("=", "=--", "= ")}
    given |= {f"-o {one.option}": ["-o", f"{one.option}="] for one in VALUED if one.has_ini}
    answers = {place: _said(lambda: read(pytester, *words)) for place, words in given.items()}  # noqa: B023
    expected = {place: f"{place}: it is empty; give a value, or leave it out" for place in given}
    numbers = {f"-o {one.option}" for one in VALUED if one.written.ini in ("int", "float")}
    assert {place for place in given if answers[place] != expected[place]} == numbers, answers
    assert all("number is expected, not ''" in answers[place] for place in numbers), answers


@pytest.mark.parametrize("value", ["[1, 2]", "[{a = 1}]", "[[]]", "[true]", '["a", 1]', "[]"])
def test_a_list_of_an_ini_file_is_one_of_texts(pytester: pytest.Pytester, value: str) -> None:
    keys = [*(one.option for one in SETTINGS if one.has_ini), *(INI_ALONE if value != "[]" else ())]
    lines = (f"{key} = {value}\n" for key in keys)
    (pytester.path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{''.join(lines)}")
    config = pytester.parseconfig()
    answers = [_said(lambda: options.ini(config, key)) for key in keys]  # noqa: B023
    wrong = [one for one in answers if not fnmatchcase(one, "pyproject.toml: bench*: *is expected*")]
    assert all(one.endswith("it is empty; give a value, or leave it out") for one in wrong), wrong
    assert bool(wrong) is (value == "[]")


def test_a_model_in_the_ini_file_is_for_whatever_agent_comes(pytester: pytest.Pytester) -> None:
    (pytester.path / "pytest.ini").write_text("[pytest]\nbench_model = m\nbench_provider = p\n")
    assert [agent.label for agent in read(pytester).job.agents] == ["oracle"]


PLACES = {
    "ini": "bench_attempts = 2",
    "profile": "attempts: 3",
    "later profile": "attempts: 4",
    "job file": "attempts: 5",
    "extra": '{"attempts": 6}',
    "later extra": '{"attempts": 7}',
    "per_benchmark": '{"attempts": 1, "per_benchmark": {"toy": {"attempts": 8}}}',
    "option": "9",
}


@pytest.mark.parametrize("strongest", range(len(PLACES)), ids=list(PLACES))
def test_the_last_word_is_that_of_the_strongest_place(pytester: pytest.Pytester, strongest: int) -> None:
    arguments: list[str] = []
    for name, text in list(PLACES.items())[: strongest + 1]:
        if name == "ini":
            (pytester.path / "pytest.ini").write_text(f"[pytest]\n{text}\n")
        elif name in ("profile", "later profile", "job file"):
            path = pytester.path / f"{name.replace(' ', '-')}.yaml"
            path.write_text(text)
            arguments.append(f"--bench-{'job-file' if name == 'job file' else 'profile'}={path.name}")
        else:
            arguments.append(f"--bench-{'attempts' if name == 'option' else 'extra'}={text}")
    # Options come in any order, but for those of one kind.
    kept = [word for word in arguments if word.startswith(("--bench-profile", "--bench-extra"))]
    others = [word for word in arguments if word not in kept]
    for line in (arguments, others[::-1] + kept):
        assert read(pytester, *line).of("toy").job.attempts == strongest + 2


@pytest.mark.parametrize(
    ("words", "given", "usual"),
    [
        ((), 1.0, None),
        (("--bench-sandbox=local",), 1.0, None),
        (("--bench-sandbox=kubernetes",), 1.0, 3.0),
        (("--bench-sandbox=kubernetes", "--bench-headroom=1"), 1.0, None),
        (("--bench-sandbox=kubernetes", "--bench-headroom=2"), 2.0, None),
    ],
)
def test_a_job_records_the_usual_headroom_of_its_sandboxes_where_none_is_given(
    tmp_path: Path, words: tuple[str, ...], given: float, usual: float | None
) -> None:
    job = requested(tmp_path, *words).job
    assert (job.headroom, job.usual_headroom) == (given, usual)


def test_settings_of_a_benchmark_are_under_one_of_its_names(tmp_path: Path) -> None:
    said = '{"per_benchmark": {"replay": {"attempts": 2}, "eliza_replay": {}}}'
    layers = extra_layer(said, tmp_path)
    asked = settings_from(Said([layers], {}, _INI, str, tmp_path, tmp_path))
    assert asked.naming("replay-scoring", ["replay"]).of("replay-scoring").job.attempts == 2
    message = "^per_benchmark: eliza_replay and replay are one benchmark; give its settings under one name$"
    with pytest.raises(InputError, match=message):
        asked.naming("replay-scoring", ["replay", "eliza_replay"])


def test_limits_rates_and_models_reach_the_gateway(pytester: pytest.Pytester) -> None:
    def seen(*words: str) -> tuple[object, ...]:
        asked = read(pytester, *words)
        with mock.patch.object(Gateway, "start") as start:
            models.start_gateway(asked.job, asked.secrets, Usage(), Path("x"))
        (job,), _ = start.call_args
        trial = models.models_of(asked.job, asked.secrets, "x")
        rates = sorted(job.rates.items())
        return job.limits, trial.limits, rates, trial.allowed_models, job.replay_exact, job.patience

    assert seen() == (SpendingLimits(), SpendingLimits(), [], (), False, 60.0)
    (pytester.path / "records").mkdir()
    typed = (
        "max-cost=1.5 max-tokens=1000 max-calls=100 trial-max-cost=0.5 trial-max-tokens=300 trial-max-calls=30 "
        "rpm=60 rpm=openai=5 tpm=openai=2000 allow-model=a,b replay=records replay-exact model-patience=7"
    )
    assert seen(*(f"--bench-{word}" for word in typed.split())) == (
        SpendingLimits(max_cost_usd=1.5, max_tokens=1000, max_calls=100),
        SpendingLimits(max_cost_usd=0.5, max_tokens=300, max_calls=30),
        [("*", (60, None)), ("openai", (5, 2000))],
        ("a", "b"),
        True,
        7.0,
    )
