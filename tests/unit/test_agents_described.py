"""Agents described by data: what a description may say, and the command it makes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.agents.described import CA_FILE, STATE, DescribedAgent, packaged_agents
from pytest_benchjobs.agents.description import Description, description_schema
from pytest_benchjobs.agents.fetch import fetch
from pytest_benchjobs.agents.protocol import AgentCall, AgentCommand
from pytest_benchjobs.agents.readiness import ensure, missing_keys
from pytest_benchjobs.model.agent import AgentSpec
from pytest_benchjobs.model.endpoint import GATEWAY_URL, PLACEHOLDER_KEY
from pytest_benchjobs.model.errors import AgentSetupFailed, InfrastructureError, InputError, InputErrors
from pytest_benchjobs.sandbox.protocol import File

from .packages import Registry, integrity, package
from .packages import cache as cache
from .packages import registry as registry
from .records import trial

FIVE = {agent.name: agent for agent in packaged_agents()}
MINI = """\
name = "mini"
version = "1.0.0"
wires = ["openai"]
argv = ["{agent}/bin/mini", "--model", "{model}", "--literal", "${x} {{x}} {\\"a\\": 1}"]
env = { URL = "{url}", HOST = "{host}", KEY = "{key}", SETTINGS = { model = "{model}", deep = { steps = 1 } } }
files = { "settings.json" = { deep = { provider = "{provider}" } }, "/etc/mini" = "of {model}\\n" }
[source]
npm = "mini@{version}"
[parameters.steps]
type = "integer"
argv = ["--steps", "{value}"]
env = { SETTINGS = { deep = { steps = "{value}" } } }
[parameters.effort]
choices = ["low", "high"]
files = { "settings.json" = { deep = { "{value}" = true } } }
"""


@pytest.fixture(autouse=True)
def _no_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)


def _described(directory: Path, text: str, name: str = "mini.agent.toml") -> DescribedAgent:
    path = directory / name
    path.write_text(text)
    return DescribedAgent.of_file(path)


def _call(spec: str, **params: Any) -> AgentCall:
    return AgentCall(scenario=trial().scenario, spec=AgentSpec.parse(spec), env={}, timeout=10, params=params)


def _command(agent: DescribedAgent, spec: str, **params: Any) -> AgentCommand:
    command = agent.prepare(_call(spec, **params))
    assert command is not None
    return command


def _settings(command: AgentCommand, path: str) -> Any:
    (content,) = [file.content for file in command.files if file.path == path]
    assert content is not None
    return json.loads(content)


@pytest.fixture
def mini(tmp_path: Path, cache: Path, registry: Registry) -> DescribedAgent:
    registry.add()
    fetch(package(), lambda _line: None)
    return _described(tmp_path, MINI)


def test_a_description_becomes_a_command(mini: DescribedAgent) -> None:
    command = _command(mini, "mini:gpt-5@http://real:1/v1")
    assert command.argv == (
        *("/bin/sh", "-c", 'exec < "$1"; shift; exec "$@"', "mini", "/bench/problem.md"),
        *("/opt/benchjobs/mini/bin/mini", "--model", "gpt-5", "--literal", '${x} {{x}} {"a": 1}'),
    )
    assert command.env == {
        "URL": GATEWAY_URL["openai"],
        "HOST": GATEWAY_URL["openai"].removesuffix("/v1"),
        "KEY": PLACEHOLDER_KEY,
        "SETTINGS": '{"deep":{"steps":1},"model":"gpt-5"}',
    }
    assert command.files == (
        File(STATE, mode=0o777),
        File(f"{STATE}/settings.json", content=b'{"deep":{"provider":"openai"}}', mode=0o666),
        File("/etc/mini", content=b"of gpt-5\n", mode=0o644),
    )
    (mount,) = command.mounts
    assert (mount.source, mount.target) == (package().files, "/opt/benchjobs/mini")
    (endpoint,) = command.endpoints
    assert (endpoint.wire, endpoint.provider, endpoint.base_url) == ("openai", "openai", "http://real:1/v1")
    assert command.identity == "mini 1.0.0"
    assert command.read is None
    assert _command(mini, "mini:gpt-5@http://real:1/v1") == command


def test_parameters_are_laid_over_the_rest_with_their_types(mini: DescribedAgent) -> None:
    command = _command(mini, "mini:gpt-5", steps=7, effort="low", of_a_scorer=1)
    assert command.argv[-2:] == ("--steps", "7")
    assert json.loads(command.env["SETTINGS"]) == {"deep": {"steps": 7}, "model": "gpt-5"}
    assert _settings(command, f"{STATE}/settings.json") == {"deep": {"provider": "openai", "low": True}}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"steps": "7"}, "mini: parameter steps is not a whole number: '7'"),
        ({"steps": True}, "mini: parameter steps is not a whole number: 'True'"),
        ({"steps": 1.5}, "mini: parameter steps is not a whole number: '1.5'"),
        ({"effort": "most"}, "mini: parameter effort is not one of low, high: 'most'"),
        ({"effort": 1}, "mini: parameter effort is no text: '1'"),
        ({"temperature": 0}, "mini takes no parameter temperature (it takes: effort, steps); leave it out, or use another agent"),
    ],
)  # fmt: skip
def test_a_parameter_it_cannot_take_is_refused_and_not_dropped(
    mini: DescribedAgent, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(AgentSetupFailed) as caught:
        _command(mini, "mini:gpt-5", **params)
    assert str(caught.value) == message


def test_without_its_program_it_says_what_to_run(mini: DescribedAgent) -> None:
    with pytest.raises(AgentSetupFailed) as caught:
        _command(mini, "mini@2.0.0:gpt-5")
    assert str(caught.value) == "mini 2.0.0 is not on this machine; run: benchjobs agents fetch mini@2.0.0"
    (package().files / "bin/mini").unlink()
    lost = r"mini 1\.0\.0 has lost bin/mini; run: benchjobs agents fetch mini$"
    with pytest.raises(AgentSetupFailed, match=lost):
        _command(mini, "mini:gpt-5")


def test_a_job_fetches_what_it_needs_before_it_begins(
    tmp_path: Path, cache: Path, registry: Registry
) -> None:
    registry.add()
    agents = {"mini": _described(tmp_path, MINI)}
    said: list[str] = []
    ensure(agents, [*map(AgentSpec.parse, ("mini:gpt-5", "oracle", "mini:gpt-4"))], said.append)
    assert registry.calls == ["mini@1.0.0"]
    assert said[0] == "mini 1.0.0: fetching mini@1.0.0"
    with pytest.raises(InfrastructureError, match=r"npm cannot fetch mini@2\.0\.0"):
        ensure(agents, [AgentSpec.parse("mini@2.0.0:gpt-5")], said.append)


ELSEWHERE = MINI.replace('npm = "mini@{version}"', 'npm = "mini-{platform}@{version}"')
X64, ARM64 = (b"\x7fELF\2\1\1" + bytes(9) + b"\2\0" + machine + b"\0" for machine in (b"\x3e", b"\xb7"))


def test_an_agent_is_fetched_and_mounted_for_the_machine_of_the_sandboxes(
    tmp_path: Path, cache: Path, registry: Registry
) -> None:
    for platform, program in (("linux-x64", X64), ("linux-arm64", ARM64)):
        registry.add(f"mini-{platform}@1.0.0", {"bin/mini": program})
    mini, spec = _described(tmp_path, ELSEWHERE), AgentSpec.parse("mini:gpt-5")
    for machine, program in (("aarch64", ARM64), (None, X64), ("aarch64", ARM64)):
        ensure({"mini": mini}, [spec], lambda _line: None, lambda: machine)  # noqa: B023
        call = dataclasses.replace(_call("mini:gpt-5"), machine=lambda: machine)  # noqa: B023
        command = mini.prepare(call)
        assert command is not None
        assert (command.mounts[0].source / "bin/mini").read_bytes() == program
        assert command.identity == "mini 1.0.0", "it is part of signatures"
    assert registry.calls == ["mini-linux-arm64@1.0.0", "mini-linux-x64@1.0.0"]
    (package(platform="linux-arm64").files / "bin/mini").unlink()
    lost = r"has lost bin/mini; run: benchjobs agents fetch mini --platform linux-arm64$"
    with pytest.raises(AgentSetupFailed, match=lost):
        mini.prepare(dataclasses.replace(call, machine=lambda: "aarch64"))


def test_an_agent_without_a_program_for_the_sandboxes_is_an_error_before_the_first_trial(
    tmp_path: Path, cache: Path, registry: Registry
) -> None:
    digest = integrity(registry.add("mini-linux-x64@1.0.0"))
    text = ELSEWHERE.replace(
        "[parameters.steps]", f'archives = {{ linux-x64 = "{digest}" }}\n[parameters.steps]'
    )
    mini = {"mini": _described(tmp_path, text)}
    ensure(mini, [AgentSpec.parse("mini:gpt-5")], lambda _line: None, lambda: "x86_64")
    wrong = r"^mini 1\.0\.0 has no program for linux-arm64, the platform of the sandboxes; it has those for linux-x64\. "
    with pytest.raises(InfrastructureError, match=wrong):
        ensure(mini, [AgentSpec.parse("mini:gpt-5")], lambda _line: None, lambda: "aarch64")
    assert registry.calls == ["mini-linux-x64@1.0.0"]


def test_what_npm_brings_has_to_be_what_was_asked_for(
    tmp_path: Path, cache: Path, registry: Registry
) -> None:
    registry.add("mini@9.0.0").rename(registry.directory / "mini@1.0.0.tgz")
    wrong = r"mini 1\.0\.0 cannot be used: .* is mini@9\.0\.0, and should be"
    with pytest.raises(InfrastructureError, match=wrong):
        ensure({"mini": _described(tmp_path, MINI)}, [AgentSpec.parse("mini:gpt-5")], lambda _line: None)


def test_a_program_beside_the_description_is_mounted_as_it_was_when_the_job_began(
    tmp_path: Path, cache: Path
) -> None:
    program = tmp_path / "run.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    text = 'name: mini\nargv: ["{agent}", "{problem}"]\nstdin: false\nsource: {path: run.sh}\n'
    agent = _described(tmp_path, text, "mini.agent.yaml")
    assert agent.needs_model is False
    command = _command(agent, "mini")
    assert command.argv == ("/opt/benchjobs/mini", "/bench/problem.md")
    (mount,) = command.mounts
    assert mount.target == "/opt/benchjobs/mini"
    assert mount.source.is_relative_to(cache.parent)
    assert mount.source.stat().st_mode & 0o777 == 0o755
    program.write_text("#!/bin/sh\necho changed\n")
    assert _command(agent, "mini") == command
    changed = _command(_described(tmp_path, text, "mini.agent.yaml"), "mini")
    assert changed.identity != command.identity
    program.unlink()
    with pytest.raises(AgentSetupFailed, match=r"run\.sh: agent mini: cannot be read: No such file"):
        _command(_described(tmp_path, text, "mini.agent.yaml"), "mini")


def test_what_is_in_the_image_has_no_version(tmp_path: Path) -> None:
    agent = _described(tmp_path, 'name = "mini"\nargv = ["mini"]\n')
    assert _command(agent, "mini").argv[-1] == "mini"
    with pytest.raises(AgentSetupFailed, match="mini has no versions to choose from; leave out @1"):
        _command(agent, "mini@1:m")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('argv = ["x"]', "name: is required but missing"),
        ('name = "x"\nargv = "run --fast"', """argv: a list is expected, not 'run --fast'; write ["run --fast"]"""),
        ('name = "x"\ncommand = ["x"]', "mini.agent.toml:2: command: unknown key; did you mean 'argv'?"),
        ('name = "x"\npath = "."\nargv = ["x"]', "mini.agent.toml:2: path: unknown key; did you mean 'source'?"),
        ('name = "x"', "argv: is required but missing"),
        ('name = "x"\nargv = []', "argv: is empty"),
        ('name = "x y"\nargv = ["x"]', "name: 'x y' is not a name"),
        ('name = "x"\nargv = ["x"]\nwire = ["openai"]', "mini.agent.toml:3: wire: unknown key; did you mean 'wires'?"),
        ('name = "x"\nargv = ["x"]\nwires = ["smtp"]', "'smtp' is not one of anthropic, openai, google"),
        ('name = "x"\nargv = ["{modle}"]\nwires = ["openai"]', "unknown placeholder {modle}; did you mean 'model'?"),
        ('name = "x"\nargv = ["{model}"]', "unknown placeholder {model}; there is none here"),
        ('name = "x"\nargv = ["{agent}"]', "unknown placeholder {agent}; there is none here"),
        ('name = "x"\nargv = ["{value}"]', "unknown placeholder {value}; there is none here"),
        ('name = "x"\nargv = ["x"]\nenv = {A = {b = ["{node}"]}}', "unknown placeholder {node}; there is none here"),
        ('name = "x"\nargv = ["x"]\nversion = "1"', "only a package of npm has a version"),
        ('name = "x"\nargv = ["x"]\n[source]\nnpm = "x@{version}"', "a package of npm needs a version"),
        ('name = "x"\nargv = ["x"]\nversion = "1"\n[source]\nnpm = "x"', "npm needs a {version}"),
        ('name = "x"\nargv = ["x"]\n[source]\nnpm = "x@{version}"\npath = "x"', "has both npm and path"),
        ('name = "x"\nargv = ["x"]\nreads = "prose"', "reads: 'prose' is not one of claude-code, codex,"),
        ("name = [", "is not valid TOML"),
        ('name = "x"\nargv = ["x"]\ncapabilities = ["Vision"]', "'Vision' is not a capability: lower-case letters"),
        ('name = "x"\nargv = ["{server}"]', "unknown placeholder {server}"),
        ('name = "x"\nargv = ["x"]\nskills = "{server}"', "skills: unknown placeholder {server}"),
        ('name = "x"\nargv = ["x"]\n[mcp.stdio]\nargv = ["{value}"]', "mcp.stdio.argv[0]: unknown placeholder {value}"),
        ('name = "x"\nargv = ["x"]\n[mcp.stdio]\nargv = ["{server_urll}"]', "did you mean 'server_url'?"),
        ('name = "x"\nargv = ["x"]\n[mcp.ftp]\nargv = ["x"]', "ftp"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_description_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        _described(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "mini.agent.toml") in str(caught.value)


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputErrors) as caught:
        _described(tmp_path, 'name = 1\nargv = "x"\nspeed = 3\n')
    assert len(caught.value.errors) == 3


def test_a_file_outside_of_its_directory_has_to_be_absolute(tmp_path: Path) -> None:
    agent = _described(tmp_path, 'name = "mini"\nargv = ["x"]\nfiles = {"../x" = "y"}\n')
    with pytest.raises(InputError, match=r"the file '\.\./x' is outside of the agent's directory"):
        _command(agent, "mini")


def test_an_endpoint_that_no_case_fits_is_refused(tmp_path: Path) -> None:
    text = 'name = "mini"\nargv = ["x"]\nwires = ["openai"]\n[[cases]]\nproviders = ["groq"]\nenv = {A = "{model}"}\n'
    agent = _described(tmp_path, text)
    assert _command(agent, "mini:groq/m").env == {"A": "m"}
    with pytest.raises(InputError, match="mini cannot use openai"):
        _command(agent, "mini:gpt-5")


def test_its_schema_is_published_and_fits_the_five() -> None:
    import jsonschema

    schema = description_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for agent in FIVE.values():
        jsonschema.validate(json.loads(agent.description.model_dump_json(exclude_unset=True)), schema)


# --- the five


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr("pytest_benchjobs.agents.described.trouble", lambda _package: None)


@pytest.mark.parametrize("name", sorted(FIVE))
@pytest.mark.usefixtures("fetched")
def test_each_is_called_with_the_gateway_and_no_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, "canary-0123456789")
    model = {"anthropic": "claude-x", "openai": "gpt-x", "google": "gemini-x"}
    description: Description = FIVE[name].description
    for wire in description.wires:
        command = _command(FIVE[name], f"{name}:{model[wire]}")
        (endpoint,) = command.endpoints
        assert (endpoint.wire, endpoint.provider) == (wire, wire)
        everything = repr((command.argv, command.env, command.files))
        assert GATEWAY_URL[wire].removesuffix("/v1") in everything
        assert PLACEHOLDER_KEY in everything
        assert model[wire] in everything
        assert "canary" not in everything
        assert "{" not in "".join(command.argv).replace("{name=", "")
        assert command.argv[:2] == ("/bin/sh", "-c")
        assert command.read is not None
        assert command.identity.startswith(f"{name} {description.version}")
        assert command.version == description.version


@pytest.mark.usefixtures("fetched")
def test_a_model_name_cannot_break_out_of_settings() -> None:
    model = 'a"}, "b": {"c{model}$(id)'
    command = _command(FIVE["opencode"], f"opencode:{model}@http://h/v1")
    settings = json.loads(command.env["OPENCODE_CONFIG_CONTENT"])
    assert list(settings["provider"]["bench"]["models"]) == [model]
    assert command.argv[-2:] == ("-m", f"bench/{model}")


@pytest.mark.parametrize(
    ("spec", "variables"),
    [
        ("goose:claude-x", {"GOOSE_PROVIDER": "anthropic", "ANTHROPIC_HOST": GATEWAY_URL["anthropic"]}),
        ("goose:gemini-x", {"GOOSE_PROVIDER": "google", "GOOGLE_HOST": GATEWAY_URL["google"]}),
        ("goose:groq/q/w", {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "q/w", "OPENAI_HOST": "http://127.0.0.1:4180/openai"}),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("fetched")
def test_goose_is_told_by_whom_its_model_is_served(spec: str, variables: dict[str, str]) -> None:
    command = _command(FIVE["goose"], spec)
    assert command.env.items() >= variables.items()
    assert command.env["SSL_CERT_FILE"] == CA_FILE
    (authorities,) = [mount.source for mount in command.mounts if mount.target == CA_FILE]
    assert b"BEGIN CERTIFICATE" in authorities.read_bytes()


@pytest.mark.usefixtures("fetched")
def test_gemini_cli_brings_its_node_and_settings() -> None:
    command = _command(FIVE["gemini-cli"], "gemini-cli:gemini-x", max_turns=9)
    assert command.argv[5:7] == ("/opt/benchjobs/node/bin/node", "/opt/benchjobs/gemini-cli/bundle/gemini.js")
    assert [mount.target for mount in command.mounts] == ["/opt/benchjobs/gemini-cli", "/opt/benchjobs/node"]
    assert command.identity == "gemini-cli 0.61.0, node 22.23.3"
    settings = _settings(command, f"{STATE}/.gemini/settings.json")
    assert settings["model"] == {"maxSessionTurns": 9}
    assert File(f"{STATE}/.gemini", mode=0o777) in command.files


@pytest.mark.parametrize(
    ("name", "params", "argv"),
    [
        ("claude-code", {"max_turns": 5, "reasoning_effort": "high"}, ("--max-turns", "5", "--effort", "high")),
        ("codex", {"reasoning_effort": "low"}, ("-c", 'model_reasoning_effort="low"')),
        ("goose", {"max_turns": 5}, ("--max-turns", "5")),
        ("opencode", {"reasoning_effort": "max"}, ("--variant", "max")),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("fetched")
def test_parameters_of_models_are_forwarded(name: str, params: dict[str, Any], argv: tuple[str, ...]) -> None:
    model = {"claude-code": "claude-x", "codex": "gpt-x"}.get(name, "gpt-x")
    assert _command(FIVE[name], f"{name}:{model}", **params).argv[-len(argv) :] == argv


@pytest.mark.usefixtures("fetched")
def test_another_version_is_another_package_with_no_known_digest() -> None:
    (usual,) = FIVE["codex"].packages()
    (other,) = FIVE["codex"].packages("1.2.3")
    assert (usual.npm, usual.root) == ("@openai/codex@0.169.0-linux-x64", "vendor/x86_64-unknown-linux-musl")
    assert usual.integrity is not None
    assert (other.npm, other.integrity) == ("@openai/codex@1.2.3-linux-x64", None)
    assert _command(FIVE["codex"], "codex@1.2.3:gpt-x").identity == "codex 1.2.3"
    assert _command(FIVE["codex"], "codex@1.2.3:gpt-x").version == "1.2.3"


def test_a_log_in_of_claude_code_may_stand_in_for_a_key() -> None:
    agent, spec = FIVE["claude-code"], AgentSpec.parse("claude-code:claude-x")
    assert missing_keys(agent, spec, {"CLAUDE_CODE_OAUTH_TOKEN": "t"}.get) is None
    assert missing_keys(agent, spec, {}.get, {"anthropic_base_url": "http://127.0.0.1:1"}) is None
    assert missing_keys(agent, spec, {}.get) == (
        "agent claude-code:claude-x: anthropic needs at least one of ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN: "
        "export it, or keep it with `benchjobs secret set ANTHROPIC_API_KEY`"
    )
    # It is of no use to anybody else.
    spec = AgentSpec.parse("opencode:claude-x")
    assert missing_keys(FIVE["opencode"], spec, {"CLAUDE_CODE_OAUTH_TOKEN": "t"}.get) is not None
