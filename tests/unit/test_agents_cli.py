"""`benchjobs agents`, and agents that others bring."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from pytest_benchjobs.agents import catalogue
from pytest_benchjobs.agents.builtin import Nop
from pytest_benchjobs.agents.catalogue import all_agents
from pytest_benchjobs.agents.fixed_results import Baseline
from pytest_benchjobs.model.errors import InputError

from .jobs import documents, run
from .packages import Registry, archive_of, package
from .packages import cache as cache
from .packages import registry as registry

MINI = 'name = "mini"\nabout = "Small"\nversion = "1.0.0"\nwires = ["openai"]\nargv = ["{agent}/bin/mini"]\n[source]\nnpm = "mini@{version}"\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path, registry: Registry) -> Path:
    """A project with an agent of its own, on a machine without keys."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "mini.agent.toml").write_text(MINI)
    monkeypatch.chdir(project)
    monkeypatch.setenv("BENCHJOBS_CONFIG", str(tmp_path / "config"))
    monkeypatch.setitem(sys.modules, "keyring", None)
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return project


def test_agents_are_listed_with_what_they_need(
    here: Path, registry: Registry, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    registry.add()
    assert run("agents", "fetch", "mini") == 0
    capsys.readouterr()
    document = documents(capsys, "agents", "agents")
    agents = {agent["name"]: agent for agent in document["agents"]}
    assert agents["mini"] == {
        "name": "mini", "needs_model": True, "about": "Small", "version": "1.0.0", "fetched": True,
        "key_variables": ["OPENAI_API_KEY"], "keys_set": ["OPENAI_API_KEY"],
    }  # fmt: skip
    assert agents["codex"]["fetched"] is False
    assert agents["claude-code"]["keys_set"] == []
    assert agents["oracle"]["fetched"] is None
    assert "sk-0123456789" not in str(document)
    assert documents(capsys, "agents", "agents", "list") == document


def test_the_list_is_a_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("agents") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["NAME", "VERSION", "FETCHED", "KEY", "ABOUT"]
    assert ["mini", "1.0.0", "no", "no", "Small"] in lines
    assert [words[:4] for words in lines if words[0] == "nop"] == [["nop", "-", "-", "-"]]
    assert " ".join(lines[-1]) == "pytest knows those of a conftest.py, too."


def test_one_is_shown_with_what_was_fetched(
    here: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add()
    (before,) = documents(capsys, "agent", "agents", "show", "mini")["packages"]
    assert (before["trouble"], before["bytes"], before["changed"]) == ("is not on this machine", None, None)
    assert run("agents", "fetch", "mini") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mini 1.0.0: fetching mini@1.0.0\n")
    registry.add("mini@2.0.0")
    assert run("agents", "fetch", "mini", "mini@2.0.0") == 0
    assert capsys.readouterr().err.startswith("mini 1.0.0: is here\nmini 2.0.0: fetching mini@2.0.0\n")
    assert registry.calls == ["mini@1.0.0", "mini@2.0.0"]
    document = documents(capsys, "agent", "agents", "show", "mini", "--verify")
    (after,) = document["packages"]
    assert (after["trouble"], after["changed"], after["npm"]) == (None, [], "mini@1.0.0")
    assert after["directory"] == str(package().directory)
    assert document["wires"] == ["openai"]


def test_what_was_changed_is_shown_and_ends_with_status_1(
    here: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add()
    assert run("agents", "fetch", "mini") == 0
    program = package().files / "bin/mini"
    program.chmod(0o755)
    program.write_text("#!/bin/sh\nrm -rf /\n")
    capsys.readouterr()
    assert run("agents", "show", "mini", "--verify") == 1
    out = capsys.readouterr().out
    assert "mini@1.0.0: was changed since it was fetched: bin/mini\n" in out
    assert "  CHANGED bin/mini\n" in out
    assert run("agents", "fetch", "mini") == 0
    assert run("agents", "show", "mini", "--verify") == 0
    assert "  every file is as it was fetched\n" in capsys.readouterr().out


def test_an_archive_stands_in_for_the_network(
    here: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    archive_of(here / "mini-1.0.0.tgz")
    assert run("agents", "fetch", "mini", "--from", "mini-1.0.0.tgz") == 0
    assert registry.calls == []
    assert run("agents", "fetch", "mini@2.0.0", "--from", "mini-1.0.0.tgz") == 2
    assert "benchjobs: mini-1.0.0.tgz: is mini@1.0.0; expected mini@2.0.0\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "minni"], "benchjobs: there is no agent 'minni' here (pytest knows those of a conftest.py, too); did you mean 'mini'?"),
        (["fetch", "nop"], "benchjobs: nop needs no fetching"),
        (["fetch", "mini@"], "benchjobs: no version after '@' in 'mini@'"),
        (["fetch", "mini", "codex", "--from", "mini.agent.toml"], "benchjobs: --from: name one agent at a time."),
        (["fetch", "mini"], "benchjobs: npm cannot fetch mini@1.0.0: 404 'mini@1.0.0' is not in this registry."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    here: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("agents", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith(message)


def test_a_broken_description_is_named_with_its_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "other.agent.yaml").write_text("name: other\nargv: [x]\nwire: openai\n")
    assert run("agents") == 0
    path = (here / "other.agent.yaml").resolve()
    out, err = capsys.readouterr()
    assert err == f"left out: {path}:3: wire: unknown key; did you mean 'wires'?\n"
    assert "mini" in out
    # It stops only who asks for it.
    assert (run("agents", "show", "mini"), run("agents", "show", "other")) == (0, 2)
    assert capsys.readouterr().err == f"benchjobs: {path}:3: wire: unknown key; did you mean 'wires'?\n"


# --- agents of others


def test_two_files_cannot_describe_the_same_agent(tmp_path: Path) -> None:
    (tmp_path / "a.agent.toml").write_text(MINI)
    assert "mini" in all_agents([tmp_path, tmp_path / ".", tmp_path / "missing"]), "a directory may, twice"
    (tmp_path / "b.agent.toml").write_text(MINI)
    message = r"b\.agent\.toml: describes 'mini', and so does .*a\.agent\.toml; remove one"
    with pytest.raises(InputError, match=message):
        all_agents([tmp_path])


def test_one_of_the_five_can_be_replaced_and_oracle_cannot(tmp_path: Path) -> None:
    path = tmp_path / "x.agent.toml"
    path.write_text(MINI.replace('"mini"', '"codex"'))
    assert all_agents([tmp_path])["codex"].packages()[0].npm == "mini@1.0.0"  # type: ignore[attr-defined]
    path.write_text(MINI.replace('"mini"', '"oracle"'))
    with pytest.raises(InputError, match="'oracle' is the name of a built-in agent; choose another"):
        all_agents([tmp_path])


class _Mine(Nop):
    """An agent of an installed package."""


def _installs(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    module = ModuleType("somebodys_agents")
    module.agent = value  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebodys_agents", module)
    point = metadata.EntryPoint("theirs", "somebodys_agents:agent", "benchjobs.agents")
    monkeypatch.setattr(catalogue, "entry_points", lambda _group: [point])


@pytest.mark.parametrize("value", [_Mine("theirs"), lambda: _Mine("theirs")])
def test_an_installed_package_brings_an_agent(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    _installs(monkeypatch, value)
    agent = all_agents([])["theirs"]
    assert isinstance(agent, _Mine)
    assert isinstance(all_agents([])["baseline"], Baseline)


def _fails() -> None:
    raise RuntimeError("no such luck")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (_fails, r"somebodys_agents:agent of benchjobs\.agents cannot be loaded: RuntimeError: no such luck; fix"),
        (3, r"somebodys_agents:agent of benchjobs\.agents gives a value of type int, which has no method `prepare`"),
    ],
)  # fmt: skip
def test_what_an_installed_package_brings_may_be_wrong(
    monkeypatch: pytest.MonkeyPatch, value: object, message: str
) -> None:
    _installs(monkeypatch, value)
    with pytest.raises(InputError, match=message):
        all_agents([])
