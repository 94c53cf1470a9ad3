"""One trial, start to score: order, faults, cancellation, redaction. Real commands, no engine."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import errno
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pytest_benchjobs.agents.builtin import builtin_agents
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.errors import (
    ContainerLost,
    ContainerStartFailed,
    DiskFull,
    EngineError,
    EngineLost,
    EngineRefused,
    EnvironmentFailed,
    FilesRefused,
    ImageMissing,
    OutputLost,
    ScoreInvalid,
    ScorerTimeout,
    Ungradable,
)
from pytest_benchjobs.model.job import JobConfig, Keep, placed
from pytest_benchjobs.model.result import Amount, Failure, Outcome, Resources, TrialResult
from pytest_benchjobs.model.scenario import (
    ArtifactSpec,
    CarriedPath,
    Environment,
    Feedback,
    FreshContainer,
    GradeIn,
    HealthCheck,
    Reference,
    Requires,
    ScorerSpec,
)
from pytest_benchjobs.model.usage import Usage
from pytest_benchjobs.sandbox.protocol import ExecResult, Fetched, SandboxSpec
from pytest_benchjobs.scoring.builtin import builtin_scorers
from pytest_benchjobs.scoring.protocol import Graded
from pytest_benchjobs.store.bundle import JobBundle
from pytest_benchjobs.testing import FakeProvider, FakeSandbox
from pytest_benchjobs.trial import artifacts
from pytest_benchjobs.trial.cancellation import Cancellation
from pytest_benchjobs.trial.connection import Models
from pytest_benchjobs.trial.fresh import check_place
from pytest_benchjobs.trial.prepare import Services
from pytest_benchjobs.trial.run import run_trial

from .records import OWNER, record, trial

SECRET = "hunter2-hunter2"
RIGHT = ScorerSpec(name="right", type="bash", script="grep -qx right out.txt && echo score=1 || echo score=0")
SOLVE = "command:echo right > out.txt"
IN_PLACE: dict[str, Any] = {"fresh_container": None, "grade_in": GradeIn.AGENT_CONTAINER}
both_places = pytest.mark.parametrize("place", [{}, IN_PLACE], ids=["fresh", "in place"])

Fault = Exception | Callable[..., Any]


class _Recorded:
    """A fake sandbox that notes what is asked of it, and fails where it is told to."""

    def __init__(self, inner: FakeSandbox, provider: Provider) -> None:
        self._inner = inner
        self._provider = provider

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            fault = self._provider.noted(name, args)
            if isinstance(fault, Exception):
                raise fault
            return value(*args, **kwargs) if fault is None else fault(self._inner, *args, **kwargs)

        return call


class Provider(FakeProvider):
    def __init__(self) -> None:
        super().__init__(OWNER)
        self.calls: list[str] = []
        self.faults: dict[str, Fault | list[Fault | None]] = {}
        self.started: list[SandboxSpec] = []

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> Any:
        fault = self.noted("start", ())
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            fault(spec)
        self.started.append(spec)
        return _Recorded(super().start(spec, on_phase), self)

    def noted(self, name: str, args: tuple[Any, ...]) -> Fault | None:
        what = name
        if name == "exec":
            what = f"exec {tuple(args[0])[-1]}"
        elif name == "put":
            what = f"put {' '.join(file.path for file in args[0])}"
        elif name == "set_network":
            what = f"network {args[0]}"
        self.calls.append(what)
        for key in dict.fromkeys((what, name)):
            fault = self.faults.get(key)
            if isinstance(fault, list):
                fault = fault.pop(0) if fault else None
            if fault is not None:
                return fault
        return None

    @property
    def left(self) -> int:
        return len(self._open)


@dataclasses.dataclass
class Bench:
    """Runs one trial in a bundle of its own."""

    root: Path
    bundle: JobBundle
    provider: Provider = dataclasses.field(default_factory=Provider)
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    scorers: dict[str, Any] = dataclasses.field(default_factory=dict)
    agents: dict[str, Any] = dataclasses.field(default_factory=dict)
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    cancellation: Cancellation = dataclasses.field(default_factory=Cancellation)
    models: Models | None = None

    def run(self, agent: str = SOLVE, **scenario: Any) -> TrialResult:
        environment = {"image": "debian", "workdir": "/app", **scenario.pop("environment", {})}
        changes = {"scorers": (RIGHT,), "environment": Environment(**environment), **scenario}
        base = trial(agent="oracle")
        one = base.model_copy(
            update={
                "agent": AgentSpec.parse(agent),
                "scenario": base.scenario.model_validate({**dict(base.scenario), **changes}),
            }
        )
        config = JobConfig(directory=self.root, **self.config)
        services = Services(
            config=config,
            bundle=self.bundle,
            provider=self.provider,
            agents={**{agent.name: agent for agent in builtin_agents()}, **self.agents},
            scorers={**builtin_scorers(), **self.scorers},
            secrets=self.secrets,
            models=self.models,
        )
        result = run_trial(placed(one, config), services, self.cancellation)
        assert self.provider.left == 0, "a sandbox was left"
        return result

    def directory(self, result: TrialResult) -> Path:
        return self.bundle.root / result.path

    def everything_written(self) -> str:
        return "\n".join(
            path.read_text("utf-8", "replace") for path in self.bundle.root.rglob("*") if path.is_file()
        )

    def left(self) -> list[Path]:
        """Files of trials, and directories that were to become one's."""
        found = (self.bundle.root / "trials").rglob("*")
        return [path for path in found if path.is_file() or path.name.startswith(".tmp-")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """One that makes no sandbox ahead, so that all calls have an order."""
    monkeypatch.setattr("pytest_benchjobs.trial.run._RETRY_PAUSE", 0.0)
    monkeypatch.setattr("pytest_benchjobs.trial.sandboxes.Ahead.begin", lambda self: None)
    return Bench(tmp_path, JobBundle.create(tmp_path, record(tmp_path)))


@pytest.fixture
def eager(tmp_path: Path) -> Bench:
    """One that makes them ahead, as they are."""
    return Bench(tmp_path, JobBundle.create(tmp_path, record(tmp_path)))


def _bash(name: str, script: str, **more: Any) -> ScorerSpec:
    return ScorerSpec(name=name, type="bash", script=script, **more)


def _command(script: str) -> ScorerSpec:
    return ScorerSpec(name=f"c{abs(hash(script))}", type="command", command=script)


def _kind(result: TrialResult) -> tuple[str, str | None, float | None]:
    return result.outcome, result.failure.class_ if result.failure else None, result.score


def _failure(result: TrialResult) -> Failure:
    assert result.failure is not None
    return result.failure


# The order of things


@pytest.mark.parametrize(
    ("place", "calls", "phases"),
    [
        (
            {},
            ["end_processes", "read", "fetch", "fetch",
             "start", "exec true", "adopt_processes", "exec /app", "put /app",
             "put /logs/verifier /tests /tests/test.sh", "exec /tests/test.sh", "read", "read", "remove", "remove"],
            ["artifacts", "carry", "fresh", "setup", "carry", "score:tests", "remove"],
        ),
        (
            IN_PLACE,
            ["end_commands", "tampered", "read", "fetch",
             "put /logs/verifier /tests /tests/test.sh", "exec /tests/test.sh", "read", "read", "remove"],
            ["artifacts", "score:tests", "remove"],
        ),
    ],
    ids=["fresh", "in place"],
)  # fmt: skip
def test_scorers_go_in_only_after_the_agent_has_ended(
    bench: Bench, tmp_path: Path, place: dict[str, Any], calls: list[str], phases: list[str]
) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test.sh").write_text("#!/bin/sh\ngrep -qx right out.txt\n")
    result = bench.run(
        environment={"setup": ("true",)},
        scorers=(ScorerSpec(name="tests", type="tests", path=tests),),
        artifacts=(ArtifactSpec(source="out.txt"),),
        **place,
    )
    assert _kind(result) == ("passed", None, 1.0)
    assert bench.provider.calls == [
        "start", "exec true", "adopt_processes", "limit_hit", "exec echo right > out.txt", "limit_hit", "processes",
        *calls,
    ]  # fmt: skip
    assert not any("/tests" in file.path for file in bench.provider.started[0].files)
    begun = ["prepare", "image", "start", "setup", "agent", "end"]
    assert [phase.name for phase in result.phases] == [*begun, *phases]
    # They follow each other without a gap.
    assert [after.start for after in result.phases[1:]] == [before.end for before in result.phases[:-1]]


def test_each_scorer_that_runs_programs_has_an_untouched_container_with_the_agents_work(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "given.txt").write_text("given")
    (tmp_path / "gone.txt").write_text("gone")
    left = "out.txt /bench/data/kept /tests/hidden /logs/verifier/reward.txt"
    first = _bash("first", f"touch mark /bench/mark /logs/verifier/mark; rm -r {left}; echo score=1")
    untouched = (
        "given.txt made.txt /bench/data/kept",
        "gone.txt mark /bench/mark /logs/verifier/mark /bench/data/old /solution",
    )
    there, not_there = (
        " && ".join(f"test {how} {path}" for path in paths.split())
        for how, paths in zip(("-e", "! -e"), untouched, strict=True)
    )
    result = bench.run(
        f"{SOLVE}; rm gone.txt; rm -r /bench/data; mkdir -p /bench/data; touch /bench/data/kept; mkdir /solution",
        environment={"setup": ("echo made > made.txt; mkdir -p /bench/data; touch /bench/data/old",)},
        files={"given.txt": tmp_path / "given.txt", "gone.txt": tmp_path / "gone.txt"},
        fresh_container=FreshContainer(carry=(CarriedPath(source="/bench/data"),)),
        scorers=(first, RIGHT, _command(f"{there} && {not_there}")),
    )
    assert _kind(result) == ("passed", None, 1.0)
    assert (bench.provider.calls.count("start"), bench.provider.calls.count("fetch")) == (4, 2)
    assert result.graded_in is GradeIn.FRESH


def test_a_result_has_what_was_guaranteed_and_what_was_allowed(bench: Bench) -> None:
    bench.config |= {"headroom": 1.5, "runtime": "runsc"}
    given = {"cpus": 2, "memory": 3 << 20, "memory_request": 1 << 20}
    assert bench.run(environment=given).resources == Resources(
        sandbox="docker",
        runtime="runsc",
        cpus=Amount(request=2, limit=3),
        memory=Amount(request=1 << 20, limit=3 << 20),  # two numbers stay as they are
    )
    agent, grading = bench.provider.started
    assert (
        (agent.runtime, agent.environment.cpus) == (grading.runtime, grading.environment.cpus) == ("runsc", 3)
    )
    bench.config.clear()
    assert bench.run().resources == Resources(sandbox="docker")
    bench.config["usual_headroom"] = 3.0
    result = bench.run(environment={"cpus": 2})
    assert result.resources == Resources(sandbox="docker", cpus=Amount(request=2, limit=6))
    assert result.signature is not None
    assert result.signature.parts["headroom"] == "3"


@both_places
def test_no_container_is_made_for_scorers_that_only_read(bench: Bench, place: dict[str, Any]) -> None:
    there = ScorerSpec(
        name="there", type="files", params={"files": [{"path": "out.txt", "contains": ["right"]}]}
    )
    result = bench.run(scorers=(there,), **place)
    assert _kind(result) == ("passed", None, 1.0)
    assert bench.provider.calls.count("start") == 1
    assert result.graded_in is None
    result = bench.run(scorers=(there, RIGHT), **place)
    assert _kind(result) == ("passed", None, 1.0)
    assert bench.provider.calls.count("start") == (2 if place else 3)


@pytest.mark.parametrize(
    ("workdir", "path", "error"),
    [
        ("/app", "/app/bin:/app/.venv/bin:/usr/bin", None),
        ("/usr", "/opt/bin", "the programs of the image (/usr/local/sbin)"),
        ("/opt/bin/x", "/usr/bin:/opt/bin", "the programs of the image (/opt/bin)"),
    ],
)
def test_a_workdir_is_no_place_of_programs(workdir: str, path: str, error: str | None) -> None:
    sandbox: Any = SimpleNamespace(workdir=workdir, variables={"PATH": path}, user="", ready_to_serve=bool)
    check_place(sandbox, FreshContainer(carry=(CarriedPath(source="/x"),)))
    with pytest.raises(EnvironmentFailed, match=re.escape(error)) if error else contextlib.nullcontext():
        check_place(sandbox, FreshContainer())


def test_a_fresh_container_is_set_up_and_gets_what_is_named_and_nothing_else(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "given.txt").write_text("given")
    result = bench.run(
        "command:echo right > out.txt; echo 1 > other.txt",
        environment={"setup": ("echo made > made.txt",)},
        files={"given.txt": tmp_path / "given.txt"},
        fresh_container=FreshContainer(paths=(CarriedPath(source="out.txt"), CarriedPath(source="none.txt"))),
        scorers=(RIGHT, _command("test -e made.txt && test -e given.txt && test ! -e other.txt")),
    )
    assert _kind(result) == ("passed", None, 1.0)
    calls = bench.provider.calls
    after = calls[calls.index("fetch") :]
    assert after[:5] == ["fetch", "fetch", "start", "exec echo made > made.txt", "adopt_processes"]
    assert after[5:7] == ["exec /app/none.txt", "put /app/out.txt"]
    assert "not carried: /app/none.txt: it is not there" in result.notes
    of_agent, of_grader, _ = bench.provider.started
    assert {"/bench/problem.md"} <= {file.path for file in of_agent.files}
    assert not {"/bench/problem.md"} & {file.path for file in of_grader.files}


def test_without_programs_of_ours_there_are_no_patches_and_what_is_excluded_stays(bench: Bench) -> None:
    result = bench.run(fresh_container=FreshContainer(patch=True))
    assert _kind(result) == ("error", "environment", None)
    assert "give `fresh_container` paths instead of `patch`" in _failure(result).message
    result = bench.run(
        "command:mkdir sub build; ln -s nowhere link; echo right > out.txt; echo 1 | tee sub/more > build/x",
        environment={"setup": ("mkdir build",)},
        fresh_container=FreshContainer(paths=(CarriedPath(source=".", exclude=("build",)),)),
        scorers=(
            RIGHT,
            _command("test ! -e build/x && test -d build && test $(cat sub/more) = 1 && test -L link"),
        ),
    )
    assert _kind(result) == ("passed", None, 1.0)


def test_a_verifier_of_its_own_has_neither_the_set_up_nor_the_files_of_the_scenario(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "given.txt").write_text("given")
    own = Environment(
        image="judge", workdir="/app", network="none", healthcheck=HealthCheck(command="touch healthy")
    )
    result = bench.run(
        environment={"setup": ("touch made.txt",)},
        files={"given.txt": tmp_path / "given.txt"},
        fresh_container=FreshContainer(paths=(CarriedPath(source="out.txt"),), environment=own),
        scorers=(RIGHT, _command("test -e healthy && test ! -e made.txt && test ! -e given.txt")),
    )
    assert _kind(result) == ("passed", None, 1.0)
    assert [spec.environment.image for spec in bench.provider.started] == ["debian", "judge", "judge"]
    assert result.image is not None
    assert result.image.reference == "debian"


def test_in_place_nothing_of_a_scorer_runs_beside_the_next(bench: Bench) -> None:
    slow = _bash("slow", "sleep 60", timeout=0.3)
    bench.run("nop", scorers=(slow, _command("true"), RIGHT), **IN_PLACE)
    calls = bench.provider.calls[bench.provider.calls.index("tampered") :]
    assert [call for call in calls if call.startswith(("exec", "end_"))] == [
        "exec sleep 60", "end_commands", "exec true", "end_commands", f"exec {RIGHT.script}",
    ]  # fmt: skip


# Made ahead


def _made(file: Path, number: int) -> str:
    """A command that waits until so many sandboxes have been set up by `echo x >> file`."""
    return f"until test $(wc -l < {file}) -ge {number}; do sleep 0.02; done"


def test_the_container_for_grading_is_made_while_the_agent_works_and_the_next_while_a_scorer_does(
    eager: Bench, tmp_path: Path
) -> None:
    result = eager.run(
        f"command:{_made(tmp_path / 'made', 2)}; echo right > out.txt",
        environment={"setup": (f"echo x >> {tmp_path / 'made'}",)},
        scorers=(_bash("first", f"{_made(tmp_path / 'made', 3)}; echo score=1"), RIGHT),
        agent_timeout=60,
    )
    assert _kind(result) == ("passed", None, 1.0)
    assert eager.provider.calls.count("start") == 3


@pytest.mark.parametrize(
    ("faults", "kind"), [(1, ("passed", None, 1.0)), (2, ("error", "container_start", None))]
)
def test_what_cannot_be_made_ahead_is_made_when_it_is_needed(eager: Bench, faults: int, kind: object) -> None:
    eager.provider.faults["start"] = [None, *[ContainerStartFailed("no room")] * faults]
    assert _kind(eager.run()) == kind


def test_what_was_made_ahead_for_nothing_is_removed(eager: Bench, tmp_path: Path) -> None:
    eager.provider.faults["limit_hit"] = [None, lambda inner: "storage"]
    result = eager.run(
        f"command:{_made(tmp_path / 'made', 2)}",
        environment={"setup": (f"echo x >> {tmp_path / 'made'}",)},
        agent_timeout=60,
    )
    assert _kind(result) == ("failed", "limit_exceeded", 0.0)
    assert eager.provider.calls.count("start") == eager.provider.calls.count("remove") == 2


# How trials end


class End(NamedTuple):
    """A trial and how it ends; `faults` are those of calls, `message` parts of that of its failure."""

    kind: tuple[str, str | None, float | None]
    agent: str = SOLVE
    scenario: dict[str, Any] = {}
    faults: dict[str, Any] = {}
    message: tuple[str, ...] = ()
    phase: str | None = None
    starts: int | None = None
    worked: bool = True
    tries: int = 1
    notes: tuple[str, ...] | None = None


LOOP = FilesRefused("too many levels of symbolic links")
AGENT = f"exec {SOLVE.removeprefix('command:')}"
PASSED, NO_POINTS = ("passed", None, 1.0), ("failed", "below_threshold", 0.0)
OF_ENVIRONMENT, OF_ENGINE = ("error", "environment", None), ("error", "engine_error", None)
LOST, REFUSED = ("error", "engine_lost", None), ("error", "files_refused", None)
OVER, UNGRADABLE = ("failed", "limit_exceeded", 0.0), ("failed", "ungradable", 0.0)
NO_CONTAINER = ("error", "container_start", None)
SET_UP = {"environment": {"setup": ("true",)}}
NAMED = {"fresh_container": FreshContainer(paths=(CarriedPath(source="out.txt"),))}
MEMORY = {"environment": {"memory": 64 << 20}}
COPE = ", so the scorer is at fault: it has to cope with an agent that left nothing"
BREAKS_ON_WORK = _bash("right", "test ! -e out.txt || exit 7; echo score=0")
SICK = EngineRefused("sick", status=500)


def _raise(error: BaseException) -> Callable[[object], float]:
    def scorer(context: object) -> float:
        raise error

    return scorer


def _ended(status: int, **more: Any) -> Callable[..., ExecResult]:
    """A call of `exec` that runs nothing and ends so."""
    return lambda *_, **__: ExecResult(status, timed_out=False, seconds=1, **more)


def _reference(script: str) -> dict[str, Any]:
    return {"reference": Reference(script=script)}


ENDS = {
    # Work that is graded, and fails or passes all the same.
    "late": End(("failed", "agent_timeout", 1.0), "command:echo right > out.txt; sleep 60", {"agent_timeout": 0.5}),
    "crashed": End(("failed", "agent_crashed", 1.0), "command:echo right > out.txt; exit 3", message=("status 3",)),
    "a right reference that exits with an error": End(PASSED, "oracle", _reference("echo right > out.txt; exit 3")),
    "a wrong reference": End(NO_POINTS, "oracle", _reference("true")),
    "a wrong reference that exits with an error": End(
        ("error", "reference_failed", None), "oracle", _reference("echo so; nosuchcommand"), phase="agent",
        message=("the reference solution exited with status 127 (a command was not found), and what it left does not pass; it printed: so",),
    ),
    "a silent one": End(
        ("error", "reference_failed", None), "oracle", _reference("exit 3"), phase="agent",
        message=("the reference solution exited with status 3, and what it left does not pass",),
    ),
    "memory that ran out and was survived": End(NO_POINTS, scenario=MEMORY, faults={AGENT: _ended(0, oom_kills=1)}),
    "a weight": End(
        ("passed", None, 0.25), scenario={"scorers": (RIGHT, _bash("wrong", "echo 0", weight=3)), "threshold": 0.25}
    ),
    "a full score beside work that breaks a scorer": End(
        ("failed", "ungradable", pytest.approx(1000 / 1001)),
        scenario={"scorers": (BREAKS_ON_WORK, _bash("fine", "echo score=1", weight=1000.0)), "threshold": 0.9},
    ),
    # Work that cannot be graded.
    "memory that ran out": End(
        OVER, scenario=MEMORY, faults={AGENT: _ended(137, oom_kills=1)}, starts=1,
        message=("the agent exceeded its memory limit of 64 MiB",),
    ),
    "too much on the disk": End(OVER, faults={"limit_hit": [None, lambda _: "storage"]}, starts=1),
    "ungradable": End(UNGRADABLE, faults={"end_processes": Ungradable("it moved a directory")}, message=("it moved a directory",), starts=1),
    # Before an agent works.
    "too much on the disk by the set-up": End(OF_ENVIRONMENT, faults={"limit_hit": lambda _: "storage"}, worked=False),
    "a set-up that fails": End(
        OF_ENVIRONMENT, scenario={"environment": {"setup": ("echo no luck; exit 4",)}}, message=("status 4", "no luck"), phase="setup",
        worked=False,
    ),
    "a set-up by a user that the image lacks": End(
        OF_ENVIRONMENT, phase="setup", worked=False,
        scenario={"environment": {"user": "me", "setup": ("echo unable to find user me: no matching entries in passwd file; exit 126",)}},
        message=("the image has no user 'me' (user in ", "): name one that it has, or add it to the image"),
    ),
    "a set-up that hangs": End(
        OF_ENVIRONMENT, scenario={"environment": {"setup": ("sleep 60",), "setup_timeout": 0.3}},
        message=("did not end within 0.3 s",), phase="setup", worked=False,
    ),
    "a workdir that is the whole container": End(
        OF_ENVIRONMENT, scenario={"environment": {"workdir": "/"}}, message=("the image has no workdir of its own",), worked=False
    ),
    # While it works, only a connection that broke once starts a trial over: the agent may have cost something.
    "lost": End(LOST, faults={AGENT: [EngineLost("gone"), None]}),
    "cut once": End(PASSED, faults={AGENT: [OutputLost("cut"), None]}, tries=2),
    "cut twice": End(LOST, faults={AGENT: [OutputLost("cut")] * 2}, tries=2),
    "refused": End(OF_ENGINE, faults={AGENT: [EngineRefused("sick"), None]}),
    # A fresh container that cannot be had. Where nothing of the agent is, its set-up is the environment's: it works in
    # the one that is made to find the cause.
    "no container": End(NO_CONTAINER, scenario=SET_UP, faults={"start": [None, ContainerStartFailed("no room")]}),
    "no set-up": End(OF_ENVIRONMENT, scenario=SET_UP, faults={"exec true": [None, _ended(1), None, _ended(1)]}),
    # Files of the agent that are refused are its doing only where others are taken.
    "its file": End(UNGRADABLE, scenario=NAMED, faults={"put /app/out.txt": [FilesRefused("no")]}),
    "any file": End(
        REFUSED, scenario=NAMED,
        faults={"put /app/out.txt": [FilesRefused("no")] * 2, "put /tmp/.bench": [FilesRefused("no")] * 2},
    ),
    "a sick engine": End(OF_ENGINE, scenario=NAMED, faults={"put /app/out.txt": [SICK] * 2}),
    "an engine that was sick once": End(PASSED, scenario=NAMED, faults={"put /app/out.txt": [SICK]}),
    **{
        f"not about files: {error.code} {error}": End(("error", error.code, None), faults={"end_processes": [error, None, error]})
        for error in (EngineError("sick"), SICK, EngineLost("gone"))
    },
    **{  # as that of the agent's container, which an untouched one would have had no need of
        f"files of no container: {call}": End(REFUSED, faults={"end_processes": [LOOP, None, LOOP], call: [FilesRefused("sick")] * 3})
        for call in ("put /tmp/.bench", "read")
    },
    "files of a reference": End(REFUSED, "oracle", _reference("true"), faults={"end_processes": [LOOP, None, LOOP]}),
    # What costs no result.
    "a usage that cannot be read": End(
        PASSED, faults={"read": EngineLost("too many links")},
        notes=("the usage the agent reported cannot be read: too many links",),
    ),
    "no container to find the cause": End(
        ("error", "scorer_crashed", None), scenario={"scorers": (BREAKS_ON_WORK,)},
        faults={"start": [None, None, ContainerStartFailed("no room")]},
        notes=("whether the agent broke scorer right: no room",),
    ),
    "a full disk under a scorer": End(("error", "disk_full", None), scenario={"scorers": (ScorerSpec(name="s", type="full"),)}),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_a_trial_ends(bench: Bench, name: str) -> None:
    end = ENDS[name]
    bench.scorers["full"] = _raise(OSError(errno.ENOSPC, "No space left on device"))
    bench.provider.faults |= copy.deepcopy(end.faults)
    result = bench.run(end.agent, **copy.deepcopy(end.scenario))
    assert (_kind(result), result.tries) == (end.kind, end.tries)
    assert [part for part in end.message if part not in _failure(result).message] == []
    assert end.phase in (None, result.failure and result.failure.phase)
    assert end.starts in (None, bench.provider.calls.count("start"))
    assert end.worked or "processes" not in bench.provider.calls
    assert end.notes in (None, result.notes)
    if end.kind == OVER:
        assert result.scorers == ()


@pytest.mark.parametrize(
    "error", [ImageMissing("no"), ScorerTimeout("no"), Ungradable("it moved a directory")]
)
def test_what_would_end_the_same_is_not_tried_again(bench: Bench, error: Exception) -> None:
    bench.config["retry_errors"] = 3
    bench.provider.faults["end_processes" if isinstance(error, Ungradable) else "start"] = error
    assert bench.run().tries == 1


# What the agent does


def test_processes_left_running_are_noted_and_killed(bench: Bench) -> None:
    bench.provider.faults["processes"] = lambda inner: ("sleep 99",)
    result = bench.run("oracle", reference=Reference(script="echo right > out.txt"))
    assert result.notes == ("killed 1 process(es) the agent had left running: sleep 99",)
    assert result.agent_end is not None
    assert result.agent_end.leftovers == result.agent_end.killed == ("sleep 99",)
    assert "end_processes" in bench.provider.calls


def test_what_was_killed_stands_in_the_message_of_a_failed_trial(bench: Bench) -> None:
    bench.provider.faults["processes"] = lambda inner: ("a", "b", "c", "d")
    result = bench.run("oracle", reference=Reference(script="true"))
    assert _failure(result).message == (
        "score 0 is below the threshold 1; left running, and killed before grading: a, b, c and 1 more"
    )


@both_places
def test_every_agent_is_ended_by_the_same_steps(bench: Bench, place: dict[str, Any]) -> None:
    steps = []
    for agent in ("oracle", "nop", SOLVE, "command:sleep 60"):
        bench.provider.calls.clear()
        bench.run(
            agent,
            agent_timeout=0.5,
            reference=Reference(script="echo right > out.txt"),
            environment={"setup": ("true",)},
            **place,
        )
        # The last file it may leave says what it used, where no gateway counted that.
        calls = [call for call in bench.provider.calls if call != "read"]
        steps.append(calls[calls.index("processes") :])
    assert all(one == steps[0] for one in steps), steps
    ending = ["end_commands", "tampered"] if place else ["end_processes", "fetch"]
    assert steps[0][:3] == ["processes", *ending]


@both_places
def test_set_up_and_health_check_are_done_again_in_a_fresh_container_only(
    bench: Bench, place: dict[str, Any]
) -> None:
    health = HealthCheck(command="test -d .", interval=0.01)
    bench.run("nop", environment={"setup": ("true start", "true other"), "healthcheck": health}, **place)
    calls = [call for call in bench.provider.calls if call.startswith(("exec", "end_", "adopt"))]
    # What runs after a step is the scenario's own: no agent left it, and no scorer.
    begun = ["exec true start", "adopt_processes", "exec true other", "adopt_processes", "exec test -d ."]
    ended = ["end_commands"] if place else ["end_processes", *begun, "exec /app"]
    assert calls == [*begun, *ended, f"exec {RIGHT.script}"]


def test_what_an_agent_changed_of_the_image_is_listed_where_it_is_graded_in_place(bench: Bench) -> None:
    bench.provider.faults["tampered"] = lambda inner: ("/bin/sh", "/etc/passwd")
    for place, found in ((IN_PLACE, ("/bin/sh", "/etc/passwd")), ({}, ())):
        result = bench.run(**place)
        assert _kind(result) == ("passed", None, 1.0)
        assert result.agent_end is not None
        assert result.agent_end.tampered == found


def test_what_a_reference_changed_is_asked_by_a_check_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSandbox, "watch", lambda self: None, raising=False)
    bench.provider.faults["tampered"] = [LOOP, None, LOOP]
    assert _kind(bench.run(**IN_PLACE)) == ("failed", "ungradable", 0.0)
    assert bench.provider.calls.count("watch") == 2, "its own, and the untouched one beside it"
    for bench.config in ({}, {"check": True}):
        bench.run("oracle", reference=Reference(script="echo right > out.txt"), **IN_PLACE)
    assert bench.provider.calls.count("watch") == 3


@pytest.mark.parametrize(
    ("job", "own", "graded"),
    [
        ({}, {}, GradeIn.FRESH),
        ({}, IN_PLACE, GradeIn.AGENT_CONTAINER),
        ({"grade_in": GradeIn.FRESH}, IN_PLACE, GradeIn.FRESH),
        ({"grade_in": GradeIn.AGENT_CONTAINER}, {}, GradeIn.AGENT_CONTAINER),
        ({"grading": "contract"}, {}, GradeIn.AGENT_CONTAINER),  # as a job of an earlier version has it
        ({"grading": "strict"}, IN_PLACE, GradeIn.AGENT_CONTAINER),
        ({"grade_in": GradeIn.FRESH, "keep_processes": ("cou*",)}, {}, GradeIn.AGENT_CONTAINER),
        ({"keep_processes": ("other",)}, {}, GradeIn.FRESH),
    ],
)  # fmt: skip
def test_the_job_decides_on_the_place_before_the_scenario(
    bench: Bench, job: dict[str, Any], own: dict[str, Any], graded: GradeIn
) -> None:
    bench.config = job
    bench.provider.faults["processes"] = lambda inner: ("server",)
    result = bench.run(**own)
    in_place = graded is GradeIn.AGENT_CONTAINER
    assert (result.graded_in, result.score) == (graded, 1.0)
    assert any(note.startswith("kept" if in_place else "killed") for note in result.notes)
    ended = "end_commands" if in_place else "end_processes"
    assert {"end_commands", "end_processes"} & set(bench.provider.calls) == {ended}


@pytest.mark.parametrize(("how", "score", "class_"), [("note", 1.0, None), ("fail", 0.0, "tampered")])
def test_what_an_agent_changed_of_its_image_is_a_note_or_fails(
    bench: Bench, how: str, score: float, class_: str | None
) -> None:
    bench.config = {"on_tamper": how}
    bench.provider.faults["tampered"] = lambda inner: ("/usr/bin/grep",)
    result = bench.run(**IN_PLACE)
    assert (result.score, result.failure and result.failure.class_) == (score, class_)
    assert any("/usr/bin/grep" in note for note in result.notes)


@pytest.mark.parametrize(
    "own",
    [
        {"fresh_container": FreshContainer(paths=(CarriedPath(source="out.txt"),))},
        {"fresh_container": FreshContainer(environment=Environment(image="judge", workdir="/app"))},
        {"feedback": Feedback(statement="again")},
    ],
    ids=["paths", "image", "feedback"],
)
def test_what_has_to_be_in_a_fresh_container_stays_there(bench: Bench, own: dict[str, Any]) -> None:
    bench.config["grade_in"] = GradeIn.AGENT_CONTAINER
    assert bench.run(**own).graded_in is GradeIn.FRESH


@both_places
def test_the_network_is_switched_for_the_agent_and_back_for_a_scorer(
    bench: Bench, place: dict[str, Any]
) -> None:
    online = RIGHT.model_copy(update={"network": "public"})
    offline = RIGHT.model_copy(update={"name": "again", "network": "none"})
    bench.run(agent_network="none", scorers=(online, offline), **place)
    networks = [call.removeprefix("network ") for call in bench.provider.calls if call.startswith("network")]
    assert networks == (["none", "public", "none"] if place else ["none", "none"])


# Before the agent


def test_a_health_check_has_as_many_tries_as_it_says(bench: Bench) -> None:
    check = HealthCheck(command="echo x >> tries; exit 1", interval=0.01, retries=3)
    result = bench.run(environment={"healthcheck": check})
    assert _kind(result) == ("error", "environment", None)
    assert bench.provider.calls.count("exec echo x >> tries; exit 1") == 3


def test_failures_of_a_health_check_do_not_count_while_the_service_starts(bench: Bench) -> None:
    check = HealthCheck(
        command="echo x >> tries; test $(wc -l < tries) -ge 4",
        interval=9,
        retries=1,
        start_period=30,
        start_interval=0.01,
    )
    assert bench.run(environment={"healthcheck": check}).outcome is Outcome.PASSED


def test_what_a_scenario_requires_must_be_there_before_anything_is_spent(bench: Bench) -> None:
    result = bench.run(requires=Requires(env=("NOT_SET_HERE",), secrets=("NO_SECRET",)))
    assert _kind(result) == ("error", "agent_setup", None)
    assert "NOT_SET_HERE, NO_SECRET" in _failure(result).message
    assert bench.provider.calls == []


@pytest.mark.parametrize(
    ("scenario", "word"),
    [
        ({"agent_env": {"A": "${NOT_SET_HERE}"}}, "NOT_SET_HERE"),
        ({"environment": {"env": {"A": "${NOT_SET_HERE}"}}}, "NOT_SET_HERE"),
        ({"scorers": (RIGHT.model_copy(update={"env": {"A": "${NOT_SET_HERE}"}}),)}, "NOT_SET_HERE"),
        ({"scorers": (RIGHT, ScorerSpec(name="odd", type="magic"))}, "magic"),
        ({"files": {"in.txt": Path("/nowhere/gone.txt")}}, "gone.txt"),
    ],
    ids=["agent", "environment", "scorer", "type", "file"],
)
def test_what_is_not_there_is_an_input_error_before_anything_is_spent(
    bench: Bench, scenario: dict[str, Any], word: str
) -> None:
    result = bench.run(**scenario)
    assert _kind(result) == ("error", "input", None)
    assert word in _failure(result).message
    assert (result.scorers, bench.provider.calls) == ((), [])


# What scorers are told


def test_scorers_of_all_kinds_have_the_parameters_of_the_job(bench: Bench) -> None:
    bench.config = {"params": {"strict": True, "within": 1}}
    bench.scorers = {"near": lambda context: float(context.params == {"strict": True, "within": 1})}
    script = """test "$BENCH_PARAMS" = '{"strict": true, "within": 1}' && echo score=1 || echo score=0"""
    near = ScorerSpec(name="near", type="near")
    result = bench.run(scorers=(near, _bash("told", script)))
    assert [one.score for one in result.scorers] == [1.0, 1.0]


@pytest.mark.parametrize("variable", ["BENCH_SCORER_CONTEXT", "RL_SCORER_CONTEXT", "RL_TEST_CONTEXT"])
def test_a_script_reads_its_parameters(bench: Bench, variable: str) -> None:
    share = f"""test "${variable}" = '{{"share": 0.5}}' && echo 0.5"""
    scorers = (
        _bash("script", share, params={"share": 0.5}),
        ScorerSpec(name="own", type="command", command=f'test "${variable}" = mine', env={variable: "mine"}),
        ScorerSpec(name="none", type="command", command=f'test "${variable}" = "{{}}"'),
    )
    assert [one.score for one in bench.run(scorers=scorers).scorers] == [0.5, 1.0, 1.0]


# Scorers that break


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (_bash("s", "echo nothing"), "score_missing"),
        (_bash("s", "echo score=nan"), "score_invalid"),
        (_bash("s", "echo score=1; exit 1"), "scorer_crashed"),
        (_bash("s", "sleep 60", timeout=0.3), "scorer_timeout"),
        (ScorerSpec(name="s", type="raises"), "scorer_crashed"),
        (ScorerSpec(name="s", type="fails"), "scorer_crashed"),
        (ScorerSpec(name="s", type="exits"), "scorer_crashed"),
        (ScorerSpec(name="s", type="mute"), "scorer_crashed"),
        (ScorerSpec(name="s", type="none"), "score_invalid"),
        (ScorerSpec(name="s", type="huge"), "score_invalid"),
        (ScorerSpec(name="s", type="refuses"), "score_invalid"),
        (ScorerSpec(name="s", type="odd"), "scorer_crashed"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.script or value.command or value.type,
)
def test_a_broken_scorer_is_an_error_and_the_others_are_kept(
    bench: Bench, spec: ScorerSpec, error: str
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("not even that")

    bench.scorers = {
        "raises": _raise(ZeroDivisionError("x")), "fails": _raise(pytest.fail.Exception("no")),
        "exits": _raise(SystemExit(0)), "mute": _raise(Mute()), "none": lambda context: None,
        "huge": lambda context: 10**400, "refuses": _raise(ScoreInvalid("no such thing")),
        "odd": lambda context: Graded(1.0, "", None),
    }  # fmt: skip
    before, after = RIGHT, RIGHT.model_copy(update={"name": "after", "weight": 3.0})
    result = bench.run(scorers=(before, spec, after))
    assert _kind(result) == ("error", error, None)
    assert "Traceback" not in _failure(result).message
    assert [(one.name, one.score, one.error is None) for one in result.scorers] == [
        ("right", 1.0, True),
        ("s", None, False),
        ("after", 1.0, True),
    ]
    assert result.tries == 1


# Bugs of others


class _Buggy:
    name = "buggy"
    needs_model = False
    trusted = False

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        raise self.error


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(1), MemoryError(), pytest.skip.Exception("no")])
def test_a_bug_of_an_agent_is_an_internal_error_of_its_trial(bench: Bench, error: BaseException) -> None:
    bench.agents["buggy"] = _Buggy(error)
    result = bench.run("buggy")
    assert _kind(result) == ("error", "internal", None)
    assert _failure(result).message.startswith(type(error).__name__)
    assert "prepare" in (_failure(result).detail or "")
    assert result.path


# Retries


@pytest.mark.parametrize(("times", "kind"), [(2, ("passed", None, 1.0)), (3, ("error", "engine_lost", None))])
def test_a_trial_that_the_engine_lost_before_its_agent_starts_over_twice_and_says_so(
    bench: Bench, times: int, kind: object
) -> None:
    bench.provider.faults["start"] = [*[EngineLost("gone")] * times, None]
    result = bench.run()
    assert (_kind(result), result.tries) == (kind, 3)
    assert [note for note in result.notes if note.startswith("started over")] == ["started over: gone"] * 2


def test_an_agent_whose_output_ends_early_each_time_has_closed_it_itself(bench: Bench) -> None:
    def closed(*_: object, **__: object) -> ExecResult:
        return ExecResult(3, timed_out=False, seconds=1, cut_short=True)

    bench.provider.faults[AGENT] = [closed, None]
    assert (_kind(bench.run()), len(bench.provider.started)) == (("passed", None, 1.0), 3)
    bench.provider.faults[AGENT] = [closed, closed]
    result = bench.run()
    assert (result.outcome, result.score, result.tries) == ("failed", 0.0, 2)


def test_calls_of_the_engine_that_were_made_again_are_counted_and_some_are_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = tuple(f"start a container: 500: {number}" for number in range(5))
    monkeypatch.setattr(FakeSandbox, "engine_retries", again, raising=False)
    bench.provider.faults["start"] = [None, None, EngineLost("gone"), None]
    fresh = FreshContainer(paths=(CarriedPath(source="out.txt"),))
    result = bench.run(fresh_container=fresh)
    assert result.engine_retries == 10  # of the agent's container and of the one for grading
    told = [note for note in result.notes if "called again" in note]
    assert told == ["the engine was called again 5 times: " + "; ".join(again[:3]) + "; and 2 more"] * 2


def test_an_infrastructure_error_is_tried_again_and_leaves_its_evidence(bench: Bench) -> None:
    bench.config["retry_errors"] = 2
    bench.provider.faults["end_processes"] = [
        *([EngineLost("gone")] * 2),  # in the untouched sandbox, too: it is the engine
        *([EngineLost("gone again")] * 2),
        None,
    ]
    result = bench.run("command:echo right | tee out.txt")
    assert _kind(result) == ("passed", None, 1.0)
    assert result.tries == 3
    directory = bench.directory(result)
    for number, message in ((1, "gone"), (2, "gone again")):
        why = json.loads((directory / f"try-{number}" / "failure.json").read_text())
        assert (why["class"], why["message"], why["phase"]) == ("engine_lost", message, "end")
        assert (directory / f"try-{number}" / "agent.log").read_text() == "right\n"
    assert not (directory / "failure.json").exists()


@pytest.mark.parametrize(
    ("place", "call"),
    [({}, "end_processes"), ({}, "fetch"), ({}, "exec"), (IN_PLACE, "tampered"), (IN_PLACE, "exec")],
)
def test_what_the_engine_handles_in_an_untouched_sandbox_and_not_in_the_agents_is_the_agents_doing(
    bench: Bench, place: dict[str, Any], call: str
) -> None:
    bench.config["retry_errors"] = 2
    faults = [LOOP, LOOP] if call == "fetch" else [LOOP, None, LOOP]
    before = [None] if call == "exec" else []  # the agent itself
    bench.provider.faults[call] = [*before, *faults]
    result = bench.run("command:true", **place)
    assert _kind(result) == ("failed", "ungradable", 0.0)
    assert result.tries == 1
    assert "symbolic links" in _failure(result).message


def test_in_place_daemons_that_leave_no_room_for_grading_are_killed(bench: Bench) -> None:
    bench.provider.faults["processes"] = lambda inner: ("server",) * 9
    for pids, killed in ((16, 9), (18, 0)):
        result = bench.run("command:true", environment={"pids": pids}, **IN_PLACE)
        assert result.agent_end is not None
        assert len(result.agent_end.killed) == killed


def test_tries_end_and_the_last_error_stands(bench: Bench) -> None:
    bench.config["retry_errors"] = 1
    bench.provider.faults["start"] = ContainerStartFailed("no")
    result = bench.run()
    assert (_kind(result), result.tries) == (("error", "container_start", None), 2)
    assert sorted(path.name for path in bench.directory(result).iterdir()) == ["result.json", "try-1"]


def test_nop_is_graded_without_running_anything_and_a_low_score_is_not_tried_again(bench: Bench) -> None:
    bench.config["retry_errors"] = 3
    result = bench.run("nop")
    assert _kind(result) == ("failed", "below_threshold", 0.0)
    assert (result.agent_end, result.tries) == (None, 1)


def test_no_score_of_a_try_that_broke_survives(bench: Bench) -> None:
    def lost(inner: FakeSandbox) -> None:
        inner.remove()
        raise ContainerLost("while it was removed")

    bench.provider.faults["remove"] = lost
    result = bench.run()
    assert _kind(result) == ("error", "container_lost", None)


# Cancellation


@pytest.mark.parametrize(
    "phase", ["start", "exec true", "exec sleep 60", "processes", "fetch", "exec echo score=1"]
)
def test_a_trial_can_be_cancelled_in_every_phase_and_leaves_nothing(bench: Bench, phase: str) -> None:
    def cancel(inner: Any, *args: Any, **kwargs: Any) -> Any:
        bench.cancellation.request()
        name = phase.split(" ")[0]
        return None if name == "start" else getattr(inner, name)(*args, **kwargs)

    bench.config["retry_errors"] = 5
    bench.provider.faults[phase] = cancel
    agent = "command:sleep 60" if "sleep" in phase else SOLVE
    started = time.monotonic()
    result = bench.run(
        agent,
        environment={"setup": ("true",)},
        scorers=(RIGHT, _bash("one", "echo score=1")),
        artifacts=(ArtifactSpec(source="out.txt"),),
    )
    assert _kind(result) == ("cancelled", None, None)
    assert time.monotonic() - started < 20
    assert bench.left() == []


def test_a_trial_cancelled_beforehand_starts_nothing(bench: Bench) -> None:
    bench.cancellation.request()
    assert _kind(bench.run()) == ("cancelled", None, None)
    assert bench.provider.calls == []


def test_a_trial_cancelled_while_it_waits_for_its_next_try_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_benchjobs.trial.run._RETRY_PAUSE", 60.0)
    bench.config["retry_errors"] = 5
    bench.provider.faults["start"] = EngineLost("gone")
    timer = threading.Timer(0.2, bench.cancellation.request)
    timer.start()
    result = bench.run()
    timer.join()
    assert (_kind(result), result.tries) == (("cancelled", None, None), 1)
    assert bench.left() == []


def test_cancelling_does_not_wait_for_a_health_check(bench: Bench) -> None:
    check = HealthCheck(command="exit 1", interval=60, retries=9)
    timer = threading.Timer(0.3, bench.cancellation.request)
    timer.start()
    started = time.monotonic()
    assert bench.run(environment={"healthcheck": check}).outcome is Outcome.CANCELLED
    assert time.monotonic() - started < 20
    timer.join()


# The disk


def test_a_disk_that_is_full_while_the_agent_talks_is_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def full(descriptor: int, data: Any, offset: int) -> int:
        if b"TALK" in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    result = bench.run(f"command:head -c 5000 /dev/zero | tr '\\0' x; echo TALK; {SOLVE.partition(':')[2]}")
    assert _kind(result) == ("error", "disk_full", None)
    assert result.path, "the disk had room for a result"


def test_a_results_directory_that_is_a_file_is_an_error(bench: Bench) -> None:
    (bench.bundle.root / "trials").rmdir()
    (bench.bundle.root / "trials").write_text("in the way")
    result = bench.run()
    assert _kind(result) == ("error", "results_unwritable", None)
    assert bench.provider.calls == []


def test_a_result_that_cannot_be_committed_is_an_error_and_leaves_nothing_half_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **options: Any) -> None:
        raise DiskFull("no room")

    monkeypatch.setattr("pytest_benchjobs.store.trials.move_in", full)
    assert _kind(bench.run()) == ("error", "disk_full", None)
    assert bench.left() == []


# Secrets


def test_a_secret_reaches_no_file_whoever_prints_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "judge-judge-judge")
    bench.secrets = {"API_KEY": SECRET}
    bench.config["env"] = {"MY_TOKEN": "token-token-token"}
    bench.provider.faults["processes"] = lambda inner: (f"curl -H {SECRET}",)
    bench.scorers["tells"] = lambda context: Graded(1.0, "", {"seen": [SECRET]})
    bench.scorers["keeps"] = lambda context: (context.directory / "kept.txt").write_text(SECRET) and 1.0
    result = bench.run(
        "command:echo right > out.txt; echo $API_KEY $MY_TOKEN | tee leak.txt",
        artifacts=(ArtifactSpec(source="leak.txt"),),
        scorers=(
            RIGHT,
            ScorerSpec(name="tells", type="tells"),
            ScorerSpec(name="keeps", type="keeps"),
            _bash("judge", "cat leak.txt; echo $KEY", env={"KEY": "${JUDGE_KEY}"}),
        ),
    )
    assert _kind(result) == ("error", "score_missing", None)
    written = bench.everything_written()
    for value in (SECRET, "token-token-token", "judge-judge-judge"):
        assert value not in written
        assert value not in result.model_dump_json()
    assert "[redacted:API_KEY] [redacted:MY_TOKEN]" in (bench.directory(result) / "agent.log").read_text()
    assert (bench.directory(result) / "artifacts" / "leak.txt").read_text().startswith("[redacted:API_KEY]")


TOKEN = "aX9bY8cZ7dW6eV5fU4gT3hS2iR1jQ0kP"


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("cat out.txt; printf %0{}d 0; exit 3", 300),
        ("printf x%0{}d 0; cat out.txt; printf %0300d 0", 199),
        ("cat out.txt; printf %0{}d 0; echo; echo score=1", 64 * 1024 - 9),
        ("set-up: echo $A_TOKEN; printf %0{}d 0; exit 1", 1000),
    ],
)
@pytest.mark.parametrize("kept", [-1, 7, 31])
def test_a_secret_that_a_cut_goes_through_is_left_out_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, script: str, limit: int, kept: int
) -> None:
    monkeypatch.setenv("A_TOKEN", TOKEN)
    bench.secrets = {"A_TOKEN": TOKEN}
    script = script.format(limit - kept)
    setup = {"env": {"A_TOKEN": "${A_TOKEN}"}, "setup": (script[8:],)} if script[:8] == "set-up: " else {}
    result = bench.run(
        "command:printf %s $A_TOKEN > out.txt", environment=setup, scorers=(_bash("it", script),)
    )
    assert result.outcome is Outcome.ERROR or result.score == 1
    written = bench.everything_written() + result.model_dump_json()
    assert [TOKEN[at : at + 5] for at in range(28) if TOKEN[at : at + 5] in written] == []


def test_a_secret_that_is_a_word_of_ours_breaks_nothing(bench: Bench) -> None:
    bench.secrets = {"A": "message", "B": "passed", "C": "exit_status", "D": "scorer"}
    result = bench.run(
        "command:echo message passed", scorers=(RIGHT.model_copy(update={"script": "echo message"}),)
    )
    assert _kind(result) == ("error", "score_missing", None)
    assert (bench.directory(result) / "agent.log").read_text() == "[redacted:A] [redacted:B]\n"


def test_a_trusted_agent_gets_no_secret(bench: Bench) -> None:
    bench.secrets = {"API_KEY": SECRET}
    bench.run("oracle", reference=Reference(script="echo ${API_KEY:-none} > out.txt; echo ${API_KEY:-none}"))
    assert "none" in bench.everything_written()


# Artifacts


def test_artifacts_are_kept_and_named_by_where_they_are(bench: Bench) -> None:
    result = bench.run(
        "command:mkdir -p deep/er logs; echo a > deep/er/a.txt; echo b > logs/b.log; echo right > out.txt",
        artifacts=(
            ArtifactSpec(source="deep/er/a.txt"),
            ArtifactSpec(source="logs"),
            ArtifactSpec(source="out.txt", destination="renamed/out.txt"),
            ArtifactSpec(source="missing.txt"),
        ),
    )
    assert result.artifacts == ("deep/er/a.txt", "logs/b.log", "renamed/out.txt")
    assert result.notes == ("artifact missing.txt does not exist",)
    kept = bench.directory(result) / "artifacts"
    assert [(kept / name).read_text() for name in result.artifacts] == ["a\n", "b\n", "right\n"]


def test_a_pattern_keeps_what_matches_it(bench: Bench) -> None:
    result = bench.run(
        "command:mkdir -p run1 run2; echo 1 > run1/a.log; echo 2 > 'run2/b c.log'; echo no > run1/x.txt; echo right > out.txt",
        artifacts=(
            ArtifactSpec(source="run*/*.log"),
            ArtifactSpec(source="*.nothing"),
            ArtifactSpec(source="run[12]/*.txt", destination="texts"),
        ),
    )
    assert result.artifacts == ("run1/a.log", "run2/b c.log", "texts/run1/x.txt")
    assert result.notes == ("artifact *.nothing does not exist",)


@pytest.mark.parametrize("source", [".", "./", "/app", "/app/."])
def test_an_artifact_may_be_the_workdir(bench: Bench, source: str) -> None:
    result = bench.run(
        "command:mkdir -p j/k; echo 1 > j/x; echo 2 > j/k/x; echo right > out.txt",
        artifacts=(ArtifactSpec(source=source, destination="all"),),
    )
    assert (sorted(result.artifacts), result.notes) == (["all/j/k/x", "all/j/x", "all/out.txt"], ())


def test_notes_on_artifacts_are_few_and_the_others_are_counted(bench: Bench) -> None:
    bench.provider.faults["fetch"] = lambda *_, **__: Fetched((), 0, ("x: left out",) * 25)
    result = bench.run(artifacts=(ArtifactSpec(source="d"),))
    assert result.notes[19:21] == ("x: left out", "artifact d: 5 more notes")


def test_patterns_of_a_trial_bring_so_many_files_and_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "FILE_LIMIT", 5)
    result = bench.run(
        "command:mkdir -p a1 a2 a3 b1/empty/dirs plain; touch a1/x a1/y a2/x a3/x b1/x plain/x; mkdir a2/e a2/f; "
        "echo right > out.txt",
        artifacts=tuple(ArtifactSpec(source=source) for source in ("a*", "b*", "plain")),
    )
    assert result.artifacts == ("a1/x", "a1/y", "a2/x", "plain/x")
    assert result.notes == (
        "artifact a*: patterns have matched 5 files: 1 of 3 paths are left out",
        "artifact b*: patterns have matched 5 files: 1 of 1 paths are left out",
    )


@pytest.mark.parametrize(("count", "more"), [(3, False), (4, True)])
def test_a_pattern_matches_so_many_paths_and_says_where_there_are_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, count: int, more: bool
) -> None:
    monkeypatch.setattr(artifacts, "MATCH_LIMIT", 3)
    names = " ".join(f"{number}.log" for number in range(count))
    result = bench.run(
        f"command:touch {names}; echo right > out.txt", artifacts=(ArtifactSpec(source="*.log"),)
    )
    assert result.artifacts == ("0.log", "1.log", "2.log")
    assert result.notes == (
        ("artifact *.log matches more than 3 paths: the rest is left out",) if more else ()
    )


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd", "/etc/passwd", "..", "x/../../a.log", "a\n.log", "a.txt", "sub/a.log", "",
        "x" * 300 + ".log",
    ],
)  # fmt: skip
def test_a_name_that_does_not_match_the_pattern_is_not_believed(bench: Bench, name: str) -> None:
    def lie(inner: FakeSandbox, argv: Any, *, sink: Any, **kwargs: Any) -> ExecResult:
        sink(name.encode() + b"\0")
        return ExecResult(0, timed_out=False, seconds=0.1)

    def solve(inner: FakeSandbox, argv: Any, **kwargs: Any) -> ExecResult:
        return inner.exec(argv, **kwargs)

    bench.provider.faults["exec"] = [solve, lie, None]
    result = bench.run(artifacts=(ArtifactSpec(source="*.log"),))
    assert result.outcome is Outcome.PASSED
    assert result.artifacts == ()
    assert bench.provider.calls.count("fetch") == 1  # to grade it


def test_a_source_above_the_workdir_is_kept_below_the_artifacts(bench: Bench) -> None:
    result = bench.run(
        "command:echo right > out.txt; echo up > ../up.txt",
        environment={"workdir": "/app/deep"},
        artifacts=(ArtifactSpec(source="../up.txt"),),
    )
    assert result.artifacts == ("up.txt",)
    assert (bench.directory(result) / "artifacts" / "up.txt").read_text() == "up\n"


# What agents say they used


@pytest.mark.parametrize(
    ("write", "used"),
    [
        (
            """echo '{"input_tokens": 12, "output_tokens": 3, "cost_usd": 0.5}' > $BENCH_USAGE_FILE""",
            Usage(input_tokens=12, output_tokens=3, cost_usd=0.5, source="agent"),
        ),
        (  # one that puts the file in its place at once
            """cd $(dirname $BENCH_USAGE_FILE); echo '{"cost_usd": 1}' > new; mv new $BENCH_USAGE_FILE""",
            Usage(cost_usd=1, source="agent"),
        ),
        # Those that say nothing have used nobody knows what.
        ("true", Usage()),
        ("mkdir $BENCH_USAGE_FILE", Usage()),
        ("rm -r $(dirname $BENCH_USAGE_FILE)", Usage()),
    ],
)
def test_an_agent_that_no_gateway_sees_may_say_what_it_used(bench: Bench, write: str, used: Usage) -> None:
    result = bench.run(f"{SOLVE}; {write}")
    assert (_kind(result), result.usage, result.notes) == (("passed", None, 1.0), used, ())


def test_one_that_is_stopped_has_used_what_it_said(bench: Bench) -> None:
    bench.config["agent_timeout"] = 0.5
    result = bench.run("command:echo '{\"cost_usd\": 1}' > $BENCH_USAGE_FILE; sleep 60")
    assert _kind(result)[:2] == ("failed", "agent_timeout")
    assert result.usage.cost_usd == 1


def test_what_an_agent_used_counts_once_when_its_grading_is_done_again(bench: Bench) -> None:
    bench.provider.faults["fetch"] = [LOOP, None]
    result = bench.run(f"{SOLVE}; echo '{{\"cost_usd\": 1}}' > $BENCH_USAGE_FILE")
    assert (_kind(result), result.tries) == (("passed", None, 1.0), 1)
    assert any("only at the second try: too many levels" in note for note in result.notes)
    assert result.usage.cost_usd == 1


@pytest.mark.parametrize(
    ("write", "why"),
    [
        ("echo nonsense > $BENCH_USAGE_FILE", "Invalid JSON"),
        ("head -c 70000 /dev/zero > $BENCH_USAGE_FILE", "more|larger than 65536"),
        ("echo '{\"score\": 1}' > $BENCH_USAGE_FILE", "score"),
    ],
)
def test_whatever_else_it_says_is_a_note(bench: Bench, write: str, why: str) -> None:
    result = bench.run(f"{SOLVE}; {write}")
    assert _kind(result) == ("passed", None, 1.0)
    assert result.usage == Usage()
    (note,) = result.notes
    assert note.startswith("the usage the agent reported cannot be read: ")
    assert re.search(why, note)


def test_a_reference_solution_is_not_asked(bench: Bench) -> None:
    result = bench.run(
        "oracle", reference=Reference(script='echo right > out.txt; test -z "$BENCH_USAGE_FILE"')
    )
    assert (result.outcome, result.agent_end and result.agent_end.exit_status) == ("passed", 0)
    assert "read" not in bench.provider.calls
    assert not any("usage" in file.path for file in bench.provider.started[0].files)


# Whose doing it is that a scorer broke


def test_a_scorer_that_only_the_agents_work_breaks_is_the_agents_failure(bench: Bench) -> None:
    bench.config["retry_errors"] = 3
    fine = _bash("fine", "echo score=1")
    result = bench.run(scorers=(BREAKS_ON_WORK, fine))
    assert _kind(result) == ("failed", "ungradable", 0.5)
    assert _failure(result).message.startswith(
        "the agent's work breaks grading, which works in an untouched container: "
    )
    assert "status 7" in _failure(result).message
    assert [(one.score, one.error) for one in result.scorers] == [(0.0, None), (1.0, None)]
    assert bench.provider.calls.count("start") == 5, (
        "the agent's, one that it breaks in twice, control, and the other's"
    )
    assert bench.provider.calls.count("exec echo right > out.txt") == 1, "the agent is not paid again"
    assert (bench.directory(result) / "control" / "scorers" / "right").is_dir()


@pytest.mark.parametrize(
    ("script", "class_"),
    [
        ("test -e out.txt || echo score=0", "score_missing"),
        ("echo score=$(cat out.txt || echo 0)", "score_invalid"),
        ("echo score=1; test -e out.txt && echo score=0; true", "score_contradicted"),
        # Whatever else is wrong with a scorer, two scores are no error.
        ("test -e out.txt || exit 7; echo score=1; echo score=0", "score_contradicted"),
    ],
)
def test_work_that_keeps_a_scorer_from_a_valid_score_is_the_agents_failure(
    bench: Bench, script: str, class_: str
) -> None:
    work, spec = "echo nan > out.txt", _bash("s", script)
    failure = "tampered" if class_ == "score_contradicted" else "ungradable"
    assert _kind(bench.run(f"command:{work}", scorers=(spec,))) == ("failed", failure, 0.0)
    broken = bench.run("oracle", scorers=(spec,), reference=Reference(script=work))
    assert _kind(broken) == ("error", class_, None)


@pytest.mark.parametrize(
    ("agent", "class_", "message"),
    [
        ("nosuchcommand", "score_missing",
         f"container, too{COPE}; before that, the agent exited with status 127 (a command was not found)"),
        ("echo nan > out; exit 3", "score_invalid",
         f"container, too (score_missing){COPE}; before that, the agent exited with status 3"),
        ("true", "score_missing", f"container, too{COPE}"),
    ],
)  # fmt: skip
def test_the_error_of_a_scorer_says_how_the_agent_ended(
    bench: Bench, agent: str, class_: str, message: str
) -> None:
    careless = _bash("s", "echo score=$(cat out)")
    result = bench.run(f"command:{agent}", scorers=(careless,))
    assert _kind(result) == ("error", class_, None)
    assert _failure(result).message.endswith(f"; it breaks in an untouched {message}")
    assert bench.provider.calls.count("start") == 3


def test_a_scorer_that_broke_once_is_believed_when_it_grades_the_same_work(
    bench: Bench, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    flaky = f"if test -e out.txt && ! test -e {once}; then touch {once}; exit 7; fi; {RIGHT.script}"
    result = bench.run(scorers=(_bash("right", flaky),))
    assert _kind(result) == ("passed", None, 1.0)
    assert result.notes[0].startswith("scorer right broke once, and graded the same when it ran again: ")


@pytest.mark.parametrize("agent", ["oracle", "nop"])
def test_what_an_author_wrote_gives_a_scorer_no_excuse(bench: Bench, agent: str) -> None:
    breaks = _bash("right", "exit 7")
    result = bench.run(agent, scorers=(breaks,), reference=Reference(script="echo right > out.txt"))
    assert _kind(result) == ("error", "scorer_crashed", None)
    assert not [phase.name for phase in result.phases if phase.name.startswith("control")]


# The end of an agent


@pytest.mark.parametrize(
    ("keep", "agent", "kept"),
    [
        (Keep.NEVER, "command:true", False),
        (Keep.FAILED, SOLVE, False),
        (Keep.FAILED, "command:true", True),
        (Keep.ALWAYS, SOLVE, True),
    ],
)
def test_what_is_kept_is_what_the_job_asked_for_and_nothing_else_is_left(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: Keep, agent: str, *, kept: bool
) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(tmp_path / "kept"))
    bench.config["keep"] = keep
    result = bench.run(agent)
    assert [one.reference for one in bench.provider.kept()] == ([result.kept] if kept else [])
    assert (result.kept is not None) is kept
