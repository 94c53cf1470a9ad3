"""Canaries: secrets that are planted everywhere a job takes them from, and looked for everywhere it writes to."""

from __future__ import annotations

import json
import secrets
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
import pytest

from pytest_benchjobs.model.endpoint import PLACEHOLDER_KEY
from pytest_benchjobs.system.redact import PATTERNS, Redactor
from tests.console import COMMAND
from tests.support import IMAGE, engine_client, results, start, until

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.usefixtures("from_nothing")]

PATIENCE = 300

# Everything a process in the container can read: variables and arguments of all processes, and small files.
DUMP = """
{ env
  env | base64 -w 0
  cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'
  find / \\( -path /proc -o -path /sys -o -path /usr -o -path /var/lib/dpkg -o -path /app \\) -prune \\
    -o -type f -size -64k -readable -exec cat {} + 2>/dev/null
} > dump.txt
cat dump.txt; cat dump.txt >&2
"""
HOLD = "mkfifo go; cat go"


class Canaries:
    """Values nobody else has."""

    def __init__(self) -> None:
        self.given = {name: _value() for name in ("REAL", "FILED", "STORED")}
        """Of variables the agents are given: from the environment, from an env file, from the store."""
        self.withheld = {
            name: _value()
            for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "DB_PASSWORD")
        }
        """From the environment, from an env file, from the store; and what nobody asks for, from an env file."""

    @property
    def all(self) -> dict[str, str]:
        return {**self.given, **self.withheld}


def _value() -> str:
    return f"canary-{secrets.token_hex(16)}"


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    return Canaries()


@pytest.fixture
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the canaries are: outside the project, for everything in that is searched."""
    return tmp_path_factory.mktemp("hidden")


def _plant(canaries: Canaries, hidden: Path) -> dict[str, str]:
    """Put the canaries in their places; returns the variables of the call."""
    given, withheld = canaries.given, canaries.withheld
    (hidden / "keys.env").write_text(
        f"OUR_FILED={given['FILED']}\nexport ANTHROPIC_API_KEY='{withheld['ANTHROPIC_API_KEY']}'\n"
        f'DB_PASSWORD="{withheld["DB_PASSWORD"]}"\nOPENAI_API_KEY=not-that-one\n'
    )
    env = {
        "BENCHJOBS_CONFIG": str(hidden / "config"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    for name, value in (("our-stored", given["STORED"]), ("GEMINI_API_KEY", withheld["GEMINI_API_KEY"])):
        subprocess.run(
            [*COMMAND, "secret", "set", name],
            input=value,
            env=env,
            text=True,
            check=True,
            capture_output=True,
        )
    return {**env, "OUR_REAL": given["REAL"], "OPENAI_API_KEY": withheld["OPENAI_API_KEY"]}


def _manifest(directory: Path) -> None:
    (directory / "canaries.bench.yaml").write_text(
        textwrap.dedent(f"""\
        benchmark: canaries
        defaults: {{image: '{IMAGE}', workdir: /app, network: none, agent_timeout: 100}}
        scenarios:
          - id: tells
            problem_statement: Tell all you know.
            scorers:
              - {{name: dumps, type: bash, script: "cat dump.txt; env; echo score=1"}}
            artifacts: [dump.txt]
        """)
    )


def _call(hidden: Path, *arguments: str) -> list[str]:
    return [
        "canaries.bench.yaml",
        "--junit-xml=junit.xml",
        "-vv",
        "-rA",
        f"--bench-env-file={hidden / 'keys.env'}",
        "--bench-secret=REAL=OUR_REAL",
        "--bench-secret=FILED=OUR_FILED",
        "--bench-secret=STORED=our-stored",
        *arguments,
    ]


def _held_in(text: bytes, values: Mapping[str, str]) -> list[str]:
    """Names of the values that are there, plain or in base64."""
    redactor = Redactor(values, patterns=())
    plain = [name for name, value in values.items() if value.encode() in text]
    return plain or ([] if redactor.redact(text) == text else ["some, in another form"])


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())


def _processes(name: str) -> Iterator[tuple[str, bytes]]:
    """Process ids, and what /proc has of them under a name."""
    for path in Path("/proc").glob(f"[0-9]*/{name}"):
        try:
            yield path.parent.name, path.read_bytes()
        except OSError:  # it has ended, or is somebody else's
            continue


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_no_secret_is_in_anything_that_a_job_leaves_or_prints(
    tmp_path: Path, hidden: Path, canaries: Canaries, workers: tuple[str, ...]
) -> None:
    _manifest(tmp_path)
    env = _plant(canaries, hidden)
    agents = (f"--bench-agent=command:{DUMP}", f"--bench-agent=command:{DUMP}\nexit 3")
    process = start(tmp_path, *_call(hidden, *agents, *workers), **env)
    output, _ = process.communicate(timeout=PATIENCE)
    assert sorted(result["outcome"] for result in results(tmp_path)) == ["failed", "passed"], output
    assert _held_in(output.encode(), canaries.all) == []
    bundle = next((tmp_path / "reports" / "jobs").glob("*/job.json")).parent
    names = {path.name for path in _files(tmp_path)}
    assert {"history.sqlite", "junit.xml", "report.json", "summary.md", "agent.log", "dump.txt"} <= names
    for path in _files(tmp_path):
        assert _held_in(path.read_bytes(), canaries.all) == [], path
    # The agents did have what they were given, and told it.
    for path in (*bundle.rglob("agent.log"), *bundle.rglob("artifacts/**/dump.txt")):
        text = path.read_text("utf-8", "replace")
        assert all(f"{name}=[redacted:{name}]" in text for name in canaries.given), path
        assert not any(name in text for name in canaries.withheld), path


@pytest.mark.parametrize(
    "keys", [(), ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")], ids=["unasked", "gateway"]
)
def test_keys_of_models_are_in_no_container_and_no_secret_is_on_a_command_line(
    tmp_path: Path, hidden: Path, canaries: Canaries, keys: tuple[str, ...]
) -> None:
    """`keys` are given to the agent, which then has placeholders, and a gateway that has the keys."""
    _manifest(tmp_path)
    env = _plant(canaries, hidden)
    asked = [f"--bench-secret={name}={name}" for name in keys]
    process = start(tmp_path, *_call(hidden, f"--bench-agent=command:{DUMP}\n{HOLD}", *asked), **env)
    client = engine_client()
    try:
        container = _holding(client, tmp_path)
        described = json.dumps(client.inspect_container(container)).encode()
        assert _held_in(described, canaries.all) == []
        inside = {pid for pid, *_ in client.top(container, "-o pid,args")["Processes"]}
        assert inside
        for pid, arguments in _processes("cmdline"):
            assert _held_in(arguments, canaries.all) == [], pid
        seen: set[str] = set()
        ours = {pid for pid, status in _processes("status") if b"\nPPid:\t%d\n" % process.pid in status}
        gateways = {pid for pid, arguments in _processes("cmdline") if b".gateway" in arguments} & ours
        assert bool(gateways) == bool(keys)
        for pid, variables in _processes("environ"):
            seen.update(_held_in(variables, canaries.given) if pid in inside else ())
            real = {"OPENAI_API_KEY"} if pid not in {*inside, *gateways} else set()
            unseen = {name: value for name, value in canaries.withheld.items() if name not in real}
            assert _held_in(variables, unseen) == [], pid
        assert seen == set(canaries.given)  # so that it is the right processes which do not have the others
        changed = [item["Path"] for item in client.diff(container) or ()]
        assert "/app/dump.txt" in changed
        dump = _exec(client, container, "cat /app/dump.txt")
        assert all(value.encode() in dump for value in canaries.given.values())
        assert _held_in(dump, canaries.withheld) == []
        assert all(f"{name}={PLACEHOLDER_KEY}".encode() in dump for name in keys)
        _exec(client, container, "echo > /app/go")
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        client.close()
        if process.poll() is None:
            process.terminate()
        process.communicate()
    assert [result["outcome"] for result in results(tmp_path)] == ["passed"], output
    assert _held_in(output.encode(), canaries.all) == []
    for path in _files(tmp_path):
        assert _held_in(path.read_bytes(), canaries.all) == [], path


def test_the_canaries_look_like_nothing_that_is_redacted_by_its_looks() -> None:
    redactor = Redactor({}, patterns=PATTERNS)
    for value in Canaries().all.values():
        assert redactor.redact_text(value) == value


def _holding(client: docker.APIClient, directory: Path) -> str:
    """The container of the project's only trial, once its agent waits to be let go."""

    def waiting() -> str | None:
        for bundle in (directory / "reports" / "jobs").glob("*/job.json"):
            label = f"benchjobs.job={bundle.parent.name}"
            for found in client.containers(filters={"label": label}):
                if any("cat go" in row[-1] for row in client.top(found["Id"], "-o pid,args")["Processes"]):
                    return str(found["Id"])
        return None

    return str(until(waiting, PATIENCE, "no agent waits"))


def _exec(client: docker.APIClient, container: str, command: str) -> bytes:
    made = client.exec_create(container, ["sh", "-c", command])
    output: bytes = client.exec_start(made["Id"])
    return output
