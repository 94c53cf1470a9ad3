"""What conftest.py files, packages and fixtures give, and what is said of a thing that is something else."""

from __future__ import annotations

import types
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_benchjobs import AgentCommand, scorer
from pytest_benchjobs.agents.checking import agent_fault, checked_command
from pytest_benchjobs.agents.protocol import Agent
from pytest_benchjobs.model.errors import AgentSetupFailed, InputError
from pytest_benchjobs.plugin.provided import Providing
from pytest_benchjobs.plugin.registry import is_path, named
from pytest_benchjobs.scoring import registering
from pytest_benchjobs.scoring.registering import installed_scorers, marked_scorers, scorer_fault


def agent(**more: object) -> object:
    """An agent, but for what is given; None takes an attribute away."""
    members = {
        "name": "a", "needs_model": False, "trusted": False, "prepare": lambda self, call: None, **more,
    }  # fmt: skip
    return type("A", (), {name: value for name, value in members.items() if value is not None})()


@pytest.mark.parametrize(
    ("check", "found", "fault"),
    [
        (agent_fault, agent(), None),
        (agent_fault, "x", "a value of type str, which has no method `prepare`; an agent is an object with *"),
        (agent_fault, type("A", (), {}), "the class A; give an object of it: A()"),
        (agent_fault, agent(name=7), "a value of type A, whose `name` is not a text; an agent is *"),
        (agent_fault, agent(needs_model=None), "the agent 'a', whose attribute `needs_model` is missing: True if *"),
        (agent_fault, agent(trusted="no"), "the agent 'a', whose attribute `trusted` is not True or False: *"),
        (agent_fault, agent(prepare=lambda self: None), "the agent 'a', whose `prepare` cannot be called with one argument*"),
        (agent_fault, agent(capabilities="vision"), "agent 'a': `capabilities` must be a set of lower-case strings *"),
        (scorer_fault, lambda context: 1.0, None),
        (scorer_fault, "text", "a value of type str; give a function `(context) -> score`"),
        (scorer_fault, int, "the class int; give a function, or an object of it: int()"),
        (scorer_fault, lambda: 1.0, "a function that cannot be called with one argument, `context`; write *"),
    ],
)  # fmt: skip
def test_an_object_is_an_agent_or_a_scorer_or_lacks_something(
    check: Callable[[object], str | None], found: object, fault: str | None
) -> None:
    said = check(found)
    assert said == fault if said is None or fault is None else fnmatchcase(said, fault), said


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (["x"], "hook scorers returned a value of type list; return a dict of names to paths, or None"),
        ({"x": 3}, "hook scorers returned a dict with a value of type str: a value of type int; return names to paths"),
        ({3: "x"}, "hook scorers returned a dict with a value of type int: *"),
    ],
)  # fmt: skip
def test_a_hook_returns_names(added: object, message: str) -> None:
    with pytest.raises(pytest.UsageError) as raised:
        named("scorers", added, is_path, "paths")
    assert fnmatchcase(str(raised.value), message), raised.value


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("echo 1", "prepare returned a value of type str; return AgentCommand(argv=(...)), or None to do nothing"),
        (AgentCommand(argv=cast("Any", "echo 1")), "prepare returned an AgentCommand whose argv is one text; give a tuple *"),
        (AgentCommand(argv=cast("Any", ("echo", 1))), "prepare returned an AgentCommand whose argv is not a tuple of texts"),
        (AgentCommand(argv=()), "*whose argv is empty; return None to do nothing"),
        (AgentCommand(argv=("echo",), env=cast("Any", {"A": 1})), "*whose env is not a mapping of texts to texts"),
        (AgentCommand(argv=("echo",), files=cast("Any", ("x",))), "*whose files are not a tuple of File"),
    ],
)  # fmt: skip
def test_what_an_agent_prepares_is_a_command(returned: object, message: str) -> None:
    with pytest.raises(AgentSetupFailed) as raised:
        checked_command(returned, cast("Agent", agent()))
    assert fnmatchcase(str(raised.value), f"agent 'a': {message}"), raised.value


def test_marked_functions_have_names_of_their_own() -> None:
    module = types.ModuleType("conftest")
    for name, words in (("bash", "this is a built-in type"), ("a", "another function has this name, too")):
        for function in "one", "two":
            vars(module)[function] = scorer(name)(types.FunctionType((lambda context: 1.0).__code__, {}))
        with pytest.raises(InputError, match=rf"^@scorer\('{name}'\) of .*: {words}"):
            marked_scorers(module)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("types:missing", "cannot be loaded: AttributeError: *; fix or remove the package"),
        ("nowhere:count", "cannot be loaded: ModuleNotFoundError: *; fix or remove the package"),
        ("math:pi", "gives a value of type float; *"),
    ],
)
def test_an_entry_point_is_a_scorer(monkeypatch: pytest.MonkeyPatch, value: str, words: str) -> None:
    point = metadata.EntryPoint("line-count", value, "benchjobs.scorers")
    monkeypatch.setattr(registering, "entry_points", lambda group: [point])
    with pytest.raises(InputError) as raised:
        installed_scorers()
    assert fnmatchcase(str(raised.value), f"entry point line-count = {value} of benchjobs.scorers {words}"), (
        raised.value
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bench_env": "URL=x"}, "fixture bench_env gave a value of type str; return a dict with texts as keys"),
        ({"bench_env": {"URL": ["x"]}}, "fixture bench_env: the value of URL is not a text; give str"),
        ({"bench_files": {"x": 5}}, "fixture bench_files: the value of x is neither a Path, nor content as str or bytes"),
        ({"bench_files": {"x": Path("/nowhere/x")}}, "fixture bench_files: there is no /nowhere/x, which trials need as x"),
    ],
)  # fmt: skip
def test_fixtures_give_texts_and_files(values: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, FileNotFoundError)) as raised:
        Providing().of(values)
    assert str(raised.value) == message
