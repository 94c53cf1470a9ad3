"""What decides a result changes the signature, and nothing else does."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.builtin import builtin_agents
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand, Shell
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.job import JobConfig, Overrides, placed
from pytest_benchjobs.model.metric import MetricSpec
from pytest_benchjobs.model.result import Trial
from pytest_benchjobs.model.scenario import (
    CarriedPath,
    Environment,
    FreshContainer,
    Reference,
    Scenario,
    ScorerSpec,
)
from pytest_benchjobs.sandbox.protocol import File
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.scoring.protocol import ScoringContext
from pytest_benchjobs.settings.parse import parse
from pytest_benchjobs.settings.setting import Setting
from pytest_benchjobs.settings.table import SETTINGS
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.testing import FakeProvider
from pytest_benchjobs.trial.prepare import Services, prepare
from pytest_benchjobs.trial.signature import content_of, graded_anew, signature

from .records import OWNER
from .setting_examples import EXAMPLES

KEY = "sha256:image"


def custom(context: ScoringContext) -> float:
    return 1.0


def another(context: ScoringContext) -> float:
    return 0.5


class World:
    """A scenario with a file and a test directory on disk, and everything around it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "in.txt").write_text("one two\n")
        (path / "tests").mkdir()
        (path / "tests" / "test_it.py").write_text("def test(): pass\n")
        self.scenario = Scenario(
            id="count",
            benchmark="texts",
            problem_statement="Count.",
            environment=Environment(image="debian", workdir="/app"),
            files={"in.txt": path / "in.txt"},
            reference=Reference(script="wc -w < in.txt"),
            scorers=(
                ScorerSpec(name="right", type="bash", script="echo 1"),
                ScorerSpec(name="tests", type="tests", path=path / "tests"),
            ),
            source=path / "a.bench.yaml",
            line=3,
        )
        self.config: dict[str, Any] = {"directory": path / "reports"}
        self.agent = "oracle"
        self.secrets: dict[str, str] = {}
        self.image = KEY
        self.scorers: dict[str, Any] = dict(builtin_scorers())
        self.agents = {agent.name: agent for agent in builtin_agents()}

    def change(self, **fields: Any) -> None:
        self.scenario = self.scenario.model_copy(update=fields)

    def environment(self, **fields: Any) -> None:
        self.change(environment=self.scenario.environment.model_copy(update=fields))

    def scorer(self, **fields: Any) -> None:
        first, *rest = self.scenario.scorers
        self.change(scorers=(first.model_copy(update=fields), *rest))

    def parts(self) -> dict[str, str]:
        services = Services(
            config=JobConfig(**self.config),
            bundle=JobBundle(self.path / "reports", "job"),
            provider=FakeProvider(OWNER),
            agents=self.agents,
            scorers=self.scorers,
            secrets=self.secrets,
        )
        trial = Trial(node_id="a::b", scenario=self.scenario, agent=AgentSpec.parse(self.agent))
        trial = placed(trial, services.config)
        return signature(trial.scenario, prepare(trial, services).parts, self.image).parts


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


DECIDES: dict[str, tuple[str, Callable[[World], object]]] = {
    "the problem": ("scenario", lambda w: w.change(problem_statement="Count!")),
    "context": ("scenario", lambda w: w.change(additional_context={"a": 1})),
    "a byte of a file": ("scenario", lambda w: (w.path / "in.txt").write_text("one twO\n")),
    "whether a file may be executed": ("scenario", lambda w: (w.path / "in.txt").chmod(0o755)),
    "where a file goes": ("scenario", lambda w: w.change(files={"other.txt": w.path / "in.txt"})),
    "who the agent is in there": ("scenario", lambda w: w.change(agent_user="nobody")),
    "a variable of the scenario": ("scenario", lambda w: w.change(agent_env={"DEBUG": "1"})),
    "the id": ("scenario", lambda w: w.change(id="other")),
    "the workdir": ("environment", lambda w: w.environment(workdir="/work")),
    "a set-up step": ("environment", lambda w: w.environment(setup=("true",))),
    "the network": ("environment", lambda w: w.environment(network="none")),
    "what is graded in the agent's container": ("place", lambda w: w.config.update(keep_processes=("co*",))),
    "a byte of a scorer": ("scorers", lambda w: w.scorer(script="echo 0")),
    "where it is graded": ("scorers", lambda w: w.change(fresh_container=FreshContainer(patch=True))),
    "a verifier's file": (
        "scorers",
        lambda w: w.change(
            fresh_container=FreshContainer(
                paths=(CarriedPath(source="x"),),
                environment=Environment(dockerfile=w.path / "tests" / "test_it.py", context=w.path / "tests"),
            )
        ),
    ),
    "what is carried": (
        "scorers",
        lambda w: w.change(fresh_container=FreshContainer(carry=(CarriedPath(source="/etc/profile"),))),
    ),
    "a weight": ("scorers", lambda w: w.scorer(weight=2.0)),
    "a byte of a test": (
        "scorers",
        lambda w: (w.path / "tests" / "test_it.py").write_text("def test(): 1\n"),
    ),
    "metrics": ("scorers", lambda w: w.scorer(metrics={"s": MetricSpec()})),
    "what a scorer installs": ("scorers", lambda w: w.scorer(requirements=("x",))),
    "the Python of a scorer": ("scorers", lambda w: w.scorer(python_version=">=3")),
    "a new test": ("scorers", lambda w: (w.path / "tests" / "test_new.py").write_text("")),
    "the reference, for oracle": ("agent", lambda w: w.change(reference=Reference(script="wc -l < in.txt"))),
    "the agent": ("agent", lambda w: setattr(w, "agent", "nop")),
    "a parameter": ("parameters", lambda w: w.config.update(params={"temperature": 0})),
    "a parameter of the benchmark": (
        "parameters",
        lambda w: w.config.update(per_benchmark={"texts": Overrides(params={"temperature": 0})}),
    ),
    "a variable of the job": ("parameters", lambda w: w.config.update(env={"DEBUG": "1"})),
    "a new secret": ("parameters", lambda w: w.secrets.update(API_KEY="hunter2-hunter2")),
    "a time limit": ("limits", lambda w: w.config.update(agent_timeout=10)),
    "what a trial may spend": ("limits", lambda w: w.config.update(trial_max_calls=5)),
    "the threshold": ("limits", lambda w: w.config.update(threshold=0.5)),
    "memory": ("limits", lambda w: w.environment(memory=1 << 30)),
    "memory that is guaranteed": ("limits", lambda w: w.environment(memory_request=1 << 20)),
    "the image": ("image", lambda w: setattr(w, "image", "sha256:other")),
}
DOES_NOT: dict[str, Callable[[World], object]] = {
    "where it is written": lambda w: w.change(source=Path("/elsewhere/b.bench.yaml"), line=99),
    "tags and notes": lambda w: w.change(tags=("easy",), metadata={"author": "me"}, archived=True),
    "what is kept of it": lambda w: w.change(
        requires=w.scenario.requires.model_copy(update={"env": ("PATH",)})
    ),
    "the clock": lambda w: os.utime(w.path / "in.txt", (1, 1)),
    "the results directory": lambda w: w.config.update(directory=w.path / "elsewhere"),
    "how many at a time": lambda w: w.config.update(concurrency=50),
    "the job's name": lambda w: w.config.update(name="nightly", metadata={"commit": "abc"}),
    "another benchmark's": lambda w: w.config.update(per_benchmark={"other": Overrides(attempts=3)}),
    "how many attempts": lambda w: w.config.update(attempts=5),
}


@pytest.mark.parametrize("what", DECIDES)
def test_what_decides_changes_its_part_and_no_other(what: str, world: World) -> None:
    before = world.parts()
    part, change = DECIDES[what]
    change(world)
    assert changed(before, world.parts()) == {part}


@pytest.mark.parametrize("what", DOES_NOT)
def test_what_does_not_decide_changes_nothing(what: str, world: World) -> None:
    before = world.parts()
    DOES_NOT[what](world)
    assert world.parts() == before


@pytest.mark.parametrize(
    "setting",
    [
        one
        for one in SETTINGS
        if one.name in JobConfig.model_fields and one.name not in ("agents", "benchmarks", "per_benchmark")
    ],
    ids=lambda setting: setting.name,
)
def test_a_setting_of_a_job_is_in_the_part_that_its_row_names(setting: Setting, world: World) -> None:
    before = world.parts()
    written = EXAMPLES.get(setting.name, ())
    typed = written if setting.many else (*written, True)[0]
    world.config[setting.name] = parse(setting, typed, setting.flag)
    assert changed(before, world.parts()) == {setting.signed} - {None}


def test_the_same_content_elsewhere_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "deeper").mkdir(parents=True)
    assert World(tmp_path / "a").parts() == World(tmp_path / "b" / "deeper").parts()


def test_order_of_tables_is_nothing(world: World) -> None:
    world.config["params"] = {"a": 1, "b": 2}
    before = world.parts()
    world.config["params"] = {"b": 2, "a": 1}
    assert world.parts() == before


def test_the_value_of_a_secret_is_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.agent = "command:run --key hunter2-hunter2 $API_KEY"
    world.secrets["API_KEY"] = "hunter2-hunter2"
    world.config["env"] = {"OTHER_TOKEN": "abcdefgh-1", "SAME": "hunter2-hunter2"}
    world.change(agent_env={"MY_PASSWORD": "${HOST_PASSWORD}"})
    monkeypatch.setenv("HOST_PASSWORD", "first-first")
    before = world.parts()
    monkeypatch.setenv("HOST_PASSWORD", "second-second")
    world.secrets["API_KEY"] = "other-other-2"
    world.config["env"] = {"OTHER_TOKEN": "abcdefgh-2", "SAME": "other-other-2"}
    # The command itself held the old value; that is what somebody typed.
    assert changed(before, world.parts()) <= {"agent"}
    world.agent = "command:run --key other-other-2 $API_KEY"
    assert changed(before, world.parts()) <= {"agent"}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("MAX_THINKING_TOKENS", ("100", "32000")),
        ("MAX_TOKENS", ("100000", "200000")),
        ("SORT_KEY", ("1", "2")),
    ],
)
def test_a_number_of_the_job_decides_whatever_its_variable_is_called(
    world: World, name: str, values: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.config["env"] = {name: values[0]}
    before = world.parts()
    world.config["env"] = {name: values[1]}
    after = world.parts()
    assert changed(before, after) == {"parameters"}
    monkeypatch.setenv("HOST_NUMBER", values[1])
    world.config["env"] = {name: "${HOST_NUMBER}"}
    assert world.parts() == after


LITERAL: dict[str, tuple[str, Callable[[World, dict[str, str]], object]]] = {
    "of a scorer": ("scorers", lambda w, env: w.scorer(env=env)),
    "of the agent": ("scenario", lambda w, env: w.change(agent_env=env)),
    "of the container": ("environment", lambda w, env: w.environment(env=env)),
    "of the reference": ("agent", lambda w, env: w.change(reference=Reference(script=":", env=env))),
}


@pytest.mark.parametrize("where", LITERAL)
def test_what_a_manifest_says_decides_whatever_it_is_called(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, change = LITERAL[where]
    change(world, {"ANSWER_KEY": "forty-two"})
    before = world.parts()
    change(world, {"ANSWER_KEY": "forty-three"})
    assert changed(before, world.parts()) == {part}
    # What it takes from this machine under such a name does not.
    monkeypatch.setenv("HOST_VALUE", "forty-two")
    change(world, {"ANSWER_KEY": "${HOST_VALUE}"})
    taken = world.parts()
    monkeypatch.setenv("HOST_VALUE", "forty-three")
    assert world.parts() == taken


def test_an_agent_of_somebody_else_is_what_it_would_run_but_for_its_secrets(world: World) -> None:
    class Mine:
        name = "mine"
        needs_model = False
        trusted = False
        script = b"echo 1"
        key = "sk-first"
        limit = "100"

        def prepare(self, call: AgentCall) -> AgentCommand:
            files = (File("/mine/run", content=self.script),)
            env = {"MINE_API_KEY": self.key, "MAX_TOKENS": self.limit}
            return AgentCommand(("/mine/run",), files=files, env=env)

    mine = Mine()
    world.agents["mine"] = mine
    world.agent = "mine"
    before = world.parts()
    mine.key = "sk-second"
    assert world.parts() == before
    mine.limit = "32000"
    limited = world.parts()
    assert changed(before, limited) == {"agent"}
    mine.script = b"echo 2"
    assert changed(limited, world.parts()) == {"agent"}


def test_a_short_secret_hides_nothing_around_it(world: World) -> None:
    world.secrets["DEBUG_KEY"] = "1"
    world.agent = "command:run --seed 10"
    before = world.parts()
    world.agent = "command:run --seed 13"
    assert world.parts()["agent"] != before["agent"]


def test_a_variable_of_this_machine_is_what_it_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.change(agent_env={"MODE": "${HOST_MODE}"})
    world.config["env"] = {"LEVEL": "${HOST_LEVEL}"}
    monkeypatch.setenv("HOST_MODE", "fast")
    monkeypatch.setenv("HOST_LEVEL", "1")
    before = world.parts()
    monkeypatch.setenv("HOST_MODE", "slow")
    assert changed(before, world.parts()) == {"scenario"}
    monkeypatch.setenv("HOST_MODE", "fast")
    monkeypatch.setenv("HOST_LEVEL", "2")
    assert changed(before, world.parts()) == {"parameters"}


def test_one_that_is_graded_anew_is_what_its_agent_worked_under(world: World) -> None:
    before = signature(world.scenario, world.parts(), KEY)
    assert graded_anew(before, signature(world.scenario, world.parts(), KEY)) == before
    # The agent never saw this problem.
    world.change(problem_statement="Count!")
    assert graded_anew(before, signature(world.scenario, world.parts(), KEY)) == before
    world.scorer(script="echo 0")
    world.config.update(keep_processes=("co*",))
    now = signature(world.scenario, world.parts(), KEY)
    again = graded_anew(before, now)
    assert again is not None
    assert changed(before.parts, again.parts) == {"scorers", "place"}
    assert again.value not in (before.value, now.value)
    assert graded_anew(None, now) is None


@pytest.mark.parametrize("what", ["a parameter", "a variable of the job", "a time limit"])
def test_one_that_is_graded_anew_under_something_else_is_like_no_trial_of_one_piece(
    what: str, world: World
) -> None:
    before = signature(world.scenario, world.parts(), KEY)
    part, change = DECIDES[what]
    change(world)
    now = signature(world.scenario, world.parts(), KEY)
    again = graded_anew(before, now)
    assert again is not None
    assert changed(before.parts, again.parts) == {part}
    assert again.parts[part] not in (before.parts[part], now.parts[part])


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before | after if before.get(name) != after.get(name)}


def test_a_scorer_of_somebody_else_is_its_code(world: World) -> None:
    world.scorer(type="ours")
    world.scorers["ours"] = custom
    before = world.parts()
    world.scorers["ours"] = another
    assert world.parts()["scorers"] != before["scorers"]

    class Named:
        fingerprint = "v1"

        def __call__(self, context: ScoringContext) -> float:
            return 1.0

    world.scorers["ours"] = Named()
    first = world.parts()
    Named.fingerprint = "v2"
    assert world.parts()["scorers"] != first["scorers"]


class Host:
    """An agent that works on this machine."""

    name = "host"
    needs_model = False
    trusted = False
    identity = ""
    lazy = False

    def prepare(self, call: AgentCall) -> AgentCommand:
        host = (lambda shell: self.work(shell)) if self.lazy else functools.partial(self.work)
        return AgentCommand((), identity=self.identity, host=host)

    def work(self, shell: Shell) -> int:
        shell.log("one")
        return 0


class Changed(Host):
    def work(self, shell: Shell) -> int:
        shell.log("two")
        return 0


@pytest.mark.parametrize("lazy", [False, True])
def test_an_agent_that_works_on_this_machine_is_its_code_unless_it_says_what_it_is(
    world: World, lazy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Host, "lazy", lazy)
    world.agent = "host"
    world.agents["host"] = Host()
    before = world.parts()
    assert world.parts() == before
    world.agents["host"] = Changed()
    assert changed(before, world.parts()) == {"agent"}
    monkeypatch.setattr(Host, "identity", "host/1")
    identified = world.parts()
    world.agents["host"] = Host()
    assert world.parts() == identified
    monkeypatch.setattr(Host, "identity", "host/2")
    assert changed(identified, world.parts()) == {"agent"}


def test_content_of_directories(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for root in (one, two):
        (root / "sub" / "empty").mkdir(parents=True)
        (root / "sub" / "file").write_text("x")
        (root / "link").symlink_to("sub/file")
    assert content_of(one) == content_of(two)
    (two / "sub" / "empty").rmdir()
    assert content_of(one) != content_of(two)
    (two / "sub" / "empty").mkdir()
    assert content_of(one) == content_of(two)
    (two / "link").unlink()
    (two / "link").symlink_to("nowhere")
    assert content_of(one) != content_of(two)


def test_bytecode_that_python_left_beside_tests_is_nothing(world: World) -> None:
    before = world.parts()
    for directory in ("__pycache__", "deeper/__pycache__"):
        (world.path / "tests" / directory).mkdir(parents=True)
        (world.path / "tests" / directory / "test_it.cpython-313.pyc").write_bytes(b"compiled here")
    (world.path / "tests" / "deeper" / "helper.py").write_text("")
    with_helper = world.parts()
    assert changed(before, with_helper) == {"scorers"}
    (world.path / "tests" / "deeper" / "__pycache__" / "helper.cpython-313.pyc").write_bytes(b"as well")
    assert world.parts() == with_helper
    shutil.rmtree(world.path / "tests" / "deeper")
    assert world.parts() == before
