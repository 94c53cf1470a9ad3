"""Profiles, job files, extra keys: what they say, which of them wins, and what is wrong with them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.settings.agents import read_agent, with_defaults
from pytest_benchjobs.settings.extra import extra_layer
from pytest_benchjobs.settings.files import read_job_file, read_profile
from pytest_benchjobs.settings.layers import PER_BENCHMARK, Layer, as_one, merge
from pytest_benchjobs.settings.matrix import Matrix, parse_parameter
from pytest_benchjobs.settings.sampling import sampled, split
from pytest_benchjobs.settings.table import ALIASES
from pytest_benchjobs.settings.types import WrittenAgent
from pytest_benchjobs.settings.values import overlay, parse_sample, parse_shard, read_json, split_values
from pytest_benchjobs.settings.written import WrittenBenchmark, settings_schema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab, []{}\"\\", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
TABLES = st.dictionaries(st.text("abc", min_size=1, max_size=2), JSON, max_size=4)


def refusal(read: Any, *arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(*arguments)
    return str(caught.value)


# --- a file


YAML = """\
name: nightly
benchmark: toy
agent:
  - codex:gpt-5.5
  - {agent: mini, model: m, provider: vllm, base_url: "http://127.0.0.1:8001/v1", params: {effort: high}}
scenarios: a, b*
n_attempts: 3
n_concurrent_trials: 50
timeout: 60
provider: groq
env: {DEBUG: 1, FLAG: true}
secrets: {TOKEN: MY_TOKEN}
filter: {area: files}
metadata: {team: core}
sample: 10%
attempt_policy: rate:50%
reuse: true
extra:
  max_tasks: 5
  headless: true
  per_benchmark: {toy: {limit: 2, dataset: small}}
per_benchmark:
  toy: {threshold: 0.5, dataset: large}
matrix:
  parameters: {temperature: [0, 1]}
  exclude: [{agent: mini, temperature: 1}]
"""


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_a_job_file_in_the_words_of_everybody(tmp_path: Path) -> None:
    layer = read_job_file(written(tmp_path / "job.yaml", YAML))
    values = dict(layer.values)
    agents = values.pop("agents")
    labels = [agent.label for agent in agents]
    assert labels == ["codex:gpt-5.5", "mini:vllm/m@http://127.0.0.1:8001/v1,effort=high"]
    assert str(values.pop("attempt_policy")) == "rate:0.5"
    assert values == {
        "name": "nightly", "benchmarks": ["toy"], "scenarios": ["a", "b*"], "attempts": 3, "concurrency": 50,
        "agent_timeout": 60.0, "provider": "groq", "env": {"DEBUG": "1", "FLAG": "true"},
        "secrets": {"TOKEN": "MY_TOKEN"}, "filters": [("area", "files")], "metadata": {"team": "core"},
        "sample": "10%", "reuse": True, "max_examples": 5, "params": {"headless": True},
        "parameters": {"temperature": [0, 1]}, "exclude": [{"agent": "mini", "temperature": 1}],
    }  # fmt: skip
    toy = {"max_examples": 2, "threshold": 0.5, "params": {"dataset": "large"}}
    assert layer.per_benchmark == {"toy": toy}
    assert layer.origin("attempts") == "job.yaml:7: attempts"


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    import yaml

    data = yaml.safe_load(YAML)
    same = read_job_file(written(tmp_path / "job.yaml", YAML))
    as_json = read_job_file(written(tmp_path / "job.json", json.dumps(data, indent="\t")))
    text = 'name = "nightly"\nattempts = 3\n[extra]\nmax_tasks = 5\n[per_benchmark.toy]\nlimit = 2\n'
    as_toml = read_job_file(written(tmp_path / "job.toml", text))
    assert as_json.values == same.values
    assert as_json.per_benchmark == same.per_benchmark
    assert as_toml.values == {"name": "nightly", "attempts": 3, "max_examples": 5}
    assert as_toml.per_benchmark == {"toy": {"max_examples": 2}}


def test_a_path_in_a_file_is_meant_from_there(tmp_path: Path) -> None:
    there = [str(written(tmp_path / "there" / name, "")) for name in ("toy.bench.yaml", "mine.py")]
    names = "benchmarks: [toy, ./else.bench.yaml, ./toy.bench.yaml, mine.py]"
    layer = read_job_file(written(tmp_path / "there" / "job.yaml", names))
    assert layer.values["benchmarks"] == ["toy", "./else.bench.yaml", *there]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attemps: 3", "job.yaml:1: attemps: unknown key; did you mean 'attempts'?"),
        ("name: x\nheadless: true", "job.yaml:2: headless: unknown key; what is for agents or scorers belongs under `extra`"),
        ("attempts: 0", "job.yaml:1: attempts: must be at least 1, not 0"),
        ('n_attempts: "3"', "job.yaml:1: n_attempts: a whole number is expected, not '3'; remove the quotes"),
        ("threshold: .nan", "job.yaml:1: NaN and infinity are not numbers this file can use"),
        ("agents: []", "job.yaml:1: agents: is empty"),
        ("scenarios: ''", "job.yaml:1: scenarios: is empty"),
        ("agents: [codex, ':x']", "job.yaml:1: agents[1]: invalid agent ':x': no name before ':'. Use format: agent:model"),
        ("agents: [{agent: x, modl: y}]", "job.yaml:1: agents[0].modl: unknown key; did you mean 'model'?"),
        ("attempts: 2\nn_attempts: 3", "job.yaml:2: n_attempts: contradicts 'attempts', which means the same key"),
        ("attempts: 2\nattempts: 3", "job.yaml:2: the key 'attempts' is given twice in one table (first in line 1)"),
        ("extra:\n  max_tasks: many", "job.yaml:2: extra.max_tasks: a whole number is expected, not 'many'"),
        ("per_benchmark:\n  toy: 3", "job.yaml:2: per_benchmark.toy: a table of keys is expected, not 3"),
        ("per_benchmark:\n  toy:\n    limit: 0", "job.yaml:3: per_benchmark.toy.limit: must be at least 1, not 0"),
        ("matrix: {parametres: {}}", "job.yaml:1: matrix.parametres: unknown key; did you mean 'parameters'?"),
        ("matrix: {parameters: {t: []}}", "job.yaml:1: matrix.parameters.t: is empty"),
        ("env: {1A: x}", "job.yaml:1: env.1A: '1A' is not the name of an environment variable: letters, digits and _ only"),
        ("agents: [{agent: x, base_url: localhost}]", "job.yaml:1: agents[0]: 'localhost' is not a URL; write http://HOST or https://HOST"),
        ("attempts: 1\nbaseline:", "job.yaml:2: baseline: is empty; give a value, or leave it out"),
        ("fail_on_regression: null", "job.yaml:1: fail_on_regression: is empty; give a value, or leave it out"),
        ("min_score:", "job.yaml:1: min_score: is empty; give a value, or leave it out"),
        ("[1]", "job.yaml:1: a table of keys (`key: value`) is expected at the top of the file, not a list"),
        ("# nothing", "job.yaml: is empty; see docs/profiles.md for the keys it may have"),
        ("{", "job.json:1: is not valid JSON: Expecting property name enclosed in double quotes"),
        ('{"a": 1,\n"a": 2}', "job.json: is not valid JSON: the key 'a' is given twice"),
        ("[1]", "job.json:1: an object of keys is expected, not a list or a single value"),
        ('{"threshold": NaN}', "job.json:1: threshold: NaN and infinity are not numbers this file can use"),
        ('{\n\t"attempts": 0}', "job.json:2: attempts: must be at least 1, not 0"),
    ],
    ids=lambda value: value.splitlines()[-1][:30],
)  # fmt: skip
def test_a_mistake_in_a_file_is_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    found = refusal(read_job_file, written(tmp_path / message.partition(":")[0], text))
    assert found.replace(f"{tmp_path}/", "") == message


# --- profiles


def test_a_profile_is_in_pyproject_or_a_file(tmp_path: Path) -> None:
    written(tmp_path / "pyproject.toml", "[tool.benchjobs.profiles.ci]\nattempts = 2\n")
    written(tmp_path / "benchjobs-profiles" / "big.yaml", "attempts: 5")
    written(tmp_path / "sub" / "mine.json", '{"attempts": 7}')
    for name, attempts in (("ci", 2), ("big", 5), ("mine.json", 7), ("./mine.json", 7)):
        assert read_profile(name, tmp_path, tmp_path / "sub").values == {"attempts": attempts}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("c", "there is no profile 'c'; did you mean 'ci'?"),
        ("zzz", "there is no profile 'zzz'; available: big, ci"),
        ("gone.yaml", "gone.yaml: cannot be read: No such file or directory"),
        ("ci", "pyproject.toml:2: tool.benchjobs.profiles.ci.attempts: must be at least 1, not 0"),
        ("big", "there are two profiles 'big': big.toml and big.yaml; remove one"),
    ],
)
def test_a_profile_that_is_not_there_or_wrong(tmp_path: Path, name: str, message: str) -> None:
    written(tmp_path / "pyproject.toml", "[tool.benchjobs.profiles.ci]\nattempts = 0\n")
    written(tmp_path / "benchjobs-profiles" / "big.yaml", "attempts: 5")
    written(tmp_path / "benchjobs-profiles" / "big.toml", "attempts = 5")
    assert refusal(read_profile, name, tmp_path, tmp_path).replace(f"{tmp_path}/", "") == message


def test_without_profiles_the_message_says_where_they_go(tmp_path: Path) -> None:
    assert refusal(read_profile, "ci", tmp_path, tmp_path) == (
        "there is no profile 'ci'; write one into benchjobs-profiles/ or [tool.benchjobs.profiles.ci] of pyproject.toml"
    )


# --- extra


def test_known_keys_of_extra_are_options_and_the_rest_parameters(tmp_path: Path) -> None:
    layer = extra_layer(
        '{"max_tasks": 1, "headless": true, "vm_ready_timeout_seconds": 21600, "sample": 0.1,'
        ' "per_benchmark": {"gaia": {"max_questions": 10, "matrix": true, "timeout_seconds": 5}}}',
        tmp_path,
    )
    assert layer.values == {
        "max_examples": 1,
        "sample": "10%",
        "params": {"headless": True, "vm_ready_timeout_seconds": 21600},
    }
    gaia = {"max_examples": 10, "agent_timeout": 5.0, "params": {"matrix": True}}
    assert layer.per_benchmark == {"gaia": gaia}


@pytest.mark.parametrize("alias", sorted(word for word, key in ALIASES.items() if key in PER_BENCHMARK))
def test_every_word_of_the_seeds_means_ours(tmp_path: Path, alias: str) -> None:
    assert extra_layer(json.dumps({alias: 7}), tmp_path).values == {ALIASES[alias]: 7}


def test_the_same_under_two_names_is_fine_if_it_is_the_same(tmp_path: Path) -> None:
    assert extra_layer('{"max_tasks": 3, "limit": 3}', tmp_path).values == {"max_examples": 3}
    assert refusal(extra_layer, '{"max_tasks": 3, "limit": 4}', tmp_path) == (
        "--bench-extra: limit: contradicts 'max_tasks', which means the same key"
    )


def test_extra_from_a_file(tmp_path: Path) -> None:
    written(tmp_path / "sample10.json", '{"per_benchmark": {"bfcl": {"sample": 12}}}')
    assert extra_layer("@sample10.json", tmp_path).per_benchmark == {"bfcl": {"sample": "12"}}
    missing = refusal(extra_layer, "@gone.json", tmp_path)
    assert missing == f"{tmp_path}/gone.json: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "--bench-extra: is not valid JSON: Expecting property name enclosed in double quotes at character 2"),
        ("3", '--bench-extra: a JSON object such as {"max_examples": 5} is expected, not \'3\''),
        ('{"a": NaN}', "--bench-extra: is not valid JSON: a: NaN and infinity are not numbers this file can use"),
        ('{"a": 1, "a": 2}', "--bench-extra: is not valid JSON: the key 'a' is given twice"),
        ('{"a": ' + "[" * 100_000 + "}", "--bench-extra: is not valid JSON: is nested too deeply"),
        ('{"max_tasks": 0}', "--bench-extra: max_tasks: must be at least 1, not 0"),
        ('{"max_tasks": true}', "--bench-extra: max_tasks: a whole number is expected, not true"),
        ('{"per_benchmark": 3}', "--bench-extra: per_benchmark: a table of benchmarks is expected"),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
def test_a_mistake_in_extra_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(extra_layer, text, tmp_path).startswith(message)


# --- which of them wins


def test_what_is_said_of_one_benchmark_wins_over_what_the_same_place_says_of_all() -> None:
    both = Layer({"attempts": 2, "params": {"p": 2}}, {"toy": {"attempts": 1, "params": {"p": 1}}})
    assert merge([both]).per_benchmark == {"toy": {"attempts": 1, "params": {"p": 1}}}
    # What is typed as several --bench-extra is one place.
    extra, later = (Layer({"attempts": number}, origin=f"extra {number}: {{}}".format) for number in (2, 3))
    several = as_one([Layer({}, {"toy": {"attempts": 1}}), extra, later])
    for merged in (merge([several]), merge([extra, Layer({}, {"toy": {"attempts": 1}}), later, Layer({})])):
        assert (merged.values, merged.origin("attempts")) == ({"attempts": 3}, "extra 3: attempts")
    assert merge([several]).per_benchmark == {"toy": {"attempts": 1}}


def test_a_later_place_wins_over_what_was_said_of_one_benchmark() -> None:
    below = Layer({}, {"toy": {"attempts": 1, "seed": 5, "params": {"p": 1, "q": 1}}})
    above = Layer({"attempts": 2, "params": {"p": 2}}, {"toy": {"seed": 6}})
    merged = merge([below, above])
    assert merged.values == {"attempts": 2, "params": {"p": 2}}
    assert merged.per_benchmark == {"toy": {"seed": 6, "params": {"q": 1}}}
    assert below.per_benchmark == {"toy": {"attempts": 1, "seed": 5, "params": {"p": 1, "q": 1}}}


def test_tables_are_merged_and_lists_added_to() -> None:
    merged = merge(
        [
            Layer({"env": {"A": "1", "B": "1"}, "agents": ["a"], "filters": [("x", "1")], "params": {"p": {"q": 1}}}),
            Layer({"env": {"B": "2"}, "agents": ["b"], "filters": [("y", "2")], "params": {"p": {"r": 2}}}),
        ]
    )  # fmt: skip
    assert merged.values == {
        "env": {"A": "1", "B": "2"}, "agents": ["b"], "filters": [("x", "1"), ("y", "2")],
        "params": {"p": {"q": 1, "r": 2}},
    }  # fmt: skip


@given(TABLES, TABLES)
def test_laid_over_each_other_the_last_wins_wherever_it_says_something(
    below: dict[str, Any], above: dict[str, Any]
) -> None:
    def check(laid: Any, low: Any, high: Any) -> None:
        if not (isinstance(low, dict) and isinstance(high, dict)):
            assert laid == high
            return
        assert laid.keys() == low.keys() | high.keys()
        for key in laid:
            if key in high and key in low:
                check(laid[key], low[key], high[key])
            else:
                assert laid[key] == (high if key in high else low)[key]

    check(overlay(below, above), below, above)
    assert overlay(below, {}) == below
    assert overlay({}, above) == above


# --- values


@given(JSON)
def test_json_is_read_as_it_is(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


@given(st.lists(JSON, min_size=1, max_size=4))
def test_values_of_a_parameter_are_split_where_they_end(values: list[Any]) -> None:
    texts = [json.dumps(value) for value in values]
    assert split_values(",".join(texts)) == texts
    assert parse_parameter(f"key={','.join(texts)}") == ("key", values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("effort=low,high", ("effort", ["low", "high"])),
        ("t=0,0.5,true,null", ("t", [0, 0.5, True, None])),
        ('m={"a":1,"b":2},[1,2]', ("m", [{"a": 1, "b": 2}, [1, 2]])),
        ("path=/a=b,c", ("path", ["/a=b", "c"])),
    ],
)
def test_values_are_json_where_they_can_be(text: str, expected: tuple[str, list[Any]]) -> None:
    assert parse_parameter(text) == expected


@pytest.mark.parametrize("text", ["", "key", "=1", "key=", "key=1,,2", "key=NaN"])
def test_a_parameter_without_values_is_refused(text: str) -> None:
    assert repr(text) in refusal(parse_parameter, text)


@pytest.mark.parametrize(
    ("written", "read"),
    [("10%", "10%"), ("0.5%", "0.5%"), (" 100 % ", "100%"), ("12", "12"), (12, "12"), (0.1, "10%"), ("0.25", "25%"), (1, "1"), (1.0, "100%")],
)  # fmt: skip
def test_samples(written: object, read: str) -> None:
    assert parse_sample(written) == read


def test_no_samples() -> None:
    for text in ("", "0", "0%", "101%", "-1", "1.5", 0, -3, 1.5, True, None, "ten", float("nan")):
        with pytest.raises(ValueError, match=r"sample|share"):
            parse_sample(text)


@given(st.text(max_size=8) | st.floats() | st.integers())
def test_a_sample_is_read_or_refused(value: object) -> None:
    try:
        found = parse_sample(value)
    except ValueError:
        return
    assert parse_sample(found) == found


def test_shards() -> None:
    for text in ("1/1", "4/4"):
        assert parse_shard(text) == text
    for text in ("0/4", "5/4", "1", "a/b", "1/0"):
        with pytest.raises(ValueError, match="not a shard"):
            parse_shard(text)


# --- samples

SCENARIOS = {f"s{number:03}": (("easy",) if number % 4 else ("hard", "net")) for number in range(200)}


def test_a_sample_has_its_share_of_each_group() -> None:
    drawn = sampled("b", SCENARIOS, "10%", 0)
    assert Counter(SCENARIOS[name] for name in drawn) == {("easy",): 15, ("hard", "net"): 5}
    assert len(sampled("b", {"a": (), "b": ("x",)}, "1%", 0)) == 1
    assert drawn == sorted(drawn)
    assert drawn == sampled("b", SCENARIOS, "20", 0)
    assert sampled("b", SCENARIOS, "100%", 0) == list(SCENARIOS) == sampled("b", SCENARIOS, "500", 0)
    assert len({tuple(sampled("b", SCENARIOS, "10%", seed)) for seed in range(5)}) == 5
    assert sampled("b", SCENARIOS, "10%", 0) != sampled("other", SCENARIOS, "10%", 0)


def test_a_scenario_more_changes_little() -> None:
    before = set(sampled("b", SCENARIOS, "20%", 1))
    after = set(sampled("b", {**SCENARIOS, "new": ("easy",)}, "20%", 1))
    assert len(before ^ after) <= 2


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=4), st.lists(st.sampled_from("abc"), max_size=2).map(tuple), min_size=1, max_size=30
    ),
    st.integers(1, 40),
    st.integers(),
)  # fmt: skip
def test_quotas_are_whole_and_fair(tags: dict[str, tuple[str, ...]], count: int, seed: int) -> None:
    drawn = sampled("b", tags, str(count), seed)
    assert len(drawn) == min(count, len(tags)) == len(set(drawn))
    sizes = Counter(tuple(sorted(set(of))) for of in tags.values())
    taken = Counter(tuple(sorted(set(tags[name]))) for name in drawn)
    for group, size in sizes.items():
        assert abs(taken[group] - len(drawn) * size / len(tags)) < 1


@given(
    st.dictionaries(st.tuples(st.sampled_from("ab"), st.text(max_size=3)), st.floats(0, 1e6), max_size=40),
    st.integers(1, 9),
    st.randoms(),
)
def test_shards_have_everything_once_and_about_as_much(
    seconds: dict[tuple[str, str], float], parts: int, random: Random
) -> None:
    found = split(seconds, parts)
    assert found.keys() == seconds.keys()
    assert {*found.values()} <= {*range(1, parts + 1)}
    shuffled = [*seconds.items()]
    random.shuffle(shuffled)
    assert split(dict(shuffled), parts) == found
    loads = [sum(seconds[key] for key in seconds if found[key] == part) for part in range(1, parts + 1)]
    longest, mean = max(seconds.values(), default=0), sum(seconds.values()) / parts
    assert max(loads) <= mean + longest * (1 - 1 / parts) + 1e-3
    alike = Counter(split(dict.fromkeys(seconds, 1.0), parts).values())
    assert (
        max(alike[part] for part in range(1, parts + 1)) - min(alike[part] for part in range(1, parts + 1))
        <= 1
    )


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7), st.integers(1, 3))
def test_the_longest_shard_is_near_the_best_there_is(times: list[int], parts: int) -> None:
    def longest(places: Sequence[int]) -> int:
        return max(
            sum(time for time, at in zip(times, places, strict=True) if at == part) for part in {*places}
        )

    seconds = {("b", str(number)): float(time) for number, time in enumerate(times)}
    best = min(map(longest, itertools.product(range(1, parts + 1), repeat=len(times))))
    assert longest([*map(split(seconds, parts).get, seconds)]) <= (4 / 3 - 1 / (3 * parts)) * best + 1e-9


def test_a_sample_is_the_same_in_another_process() -> None:
    script = "from pytest_benchjobs.settings.sampling import sampled; print(','.join(sampled('b', {str(n): (str(n % 3),) for n in range(50)}, '7', 3)))"
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


# --- agents and the matrix


def test_defaults_are_for_agents_without() -> None:
    agents = [read_agent(text, Path()) for text in ("codex", "codex:own", "oracle", "command:ls")]
    expected = ["codex:groq/m", "codex:groq/own", "oracle", "command:ls"]
    assert [agent.label for agent in with_defaults(agents, "groq", "m")] == expected
    assert [agent.label for agent in with_defaults(agents, None, None)] == [agent.label for agent in agents]


def test_a_matrix_is_every_agent_with_every_combination() -> None:
    matrix = Matrix(
        {"temperature": [0, 1], "effort": ["low", "high"]},
        [{"agent": "b", "temperature": 1}, {"benchmark": "to*", "effort": "high", "agent": "a:m"}],
    )
    agents = [AgentSpec.parse("a:m"), AgentSpec.parse("b")]
    matrix.check(agents)
    cells = matrix.cells(agents)
    assert [cell.label for cell in cells] == [
        f"{name},effort={effort},temperature={temperature}"
        for name in ("a:m", "b")
        for temperature in (0, 1)
        for effort in ("low", "high")
    ]
    left = {
        name: [cell.label for cell in cells if not matrix.excludes(name, cell)] for name in ("toy", "else")
    }
    assert left == {
        "toy": ["a:m,effort=low,temperature=0", "a:m,effort=low,temperature=1", "b,effort=low,temperature=0", "b,effort=high,temperature=0"],
        "else": [cell.label for cell in cells if not (cell.name == "b" and cell.params["temperature"] == 1)],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "exclude", "message"),
    [
        ({"t": [1, 1.0]}, [], "t has the value 1.0 twice"),
        ({"t": [True, 1]}, [], None),
        ({"t": []}, [], "t has no values"),
        ({"t": [*range(100)], "u": [*range(100)]}, [], None),
        ({"t": [*range(101)], "u": [*range(100)]}, [], "it has 10100 agents with parameters; at most 10000 are allowed"),
        ({"effort": ["x"]}, [], "effort is a parameter of the agent a:m,effort=high already"),
        ({"t": [1]}, [{}], "an empty exclusion would exclude everything"),
        ({"t": [1]}, [{"agent": "c"}], "exclude: no agent is called 'c'; available: a:m,effort=high"),
        ({"t": [1]}, [{"zz": 1}], "exclude: 'zz' is not a parameter of the matrix; available: agent, benchmark, t"),
        ({"t": [1]}, [{"t": 2}], "exclude: t has no value 2; its values are 1"),
        ({"t": [1]}, [{"t": True}], "exclude: t has no value true; its values are 1"),
        ({"t": [1]}, [{"benchmark": 3}], "exclude: 3 is not the name of a benchmark"),
    ],
)  # fmt: skip
def test_a_matrix_that_makes_no_sense(
    parameters: dict[str, list[Any]], exclude: list[dict[str, Any]], message: str | None
) -> None:
    agents = [AgentSpec(name="a", model="m", params={"effort": "high"})]
    if message is None:
        Matrix(parameters, exclude).check(agents)
    else:
        assert refusal(Matrix(parameters, exclude).check, agents) == message


# --- the schema


def test_the_schema_takes_what_the_reader_takes() -> None:
    import yaml

    schema = settings_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    data = yaml.safe_load(YAML)
    jsonschema.validate(data, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"attemps": 3}, schema)


def test_every_key_of_a_benchmark_is_one_of_a_file() -> None:
    assert set(PER_BENCHMARK) == set(WrittenBenchmark.model_fields)


def test_a_command_may_be_written_as_its_model() -> None:
    assert read_agent(WrittenAgent(agent="command", model="sort in.txt"), Path()).model == "sort in.txt"
    with pytest.raises(InputError, match="already has a model"):
        read_agent(WrittenAgent(agent="command:true", model="false"), Path())
