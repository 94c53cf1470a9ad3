"""What the command line and the ini file ask for. Every mistake is a `pytest.UsageError` of one line."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from ..model.agent import AgentSpec
    from ..model.job import JobConfig

RUNNING = "benchjobs-running"
EVERY = "*"
"""What `--bench` without a value stands for."""

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


@dataclasses.dataclass(frozen=True, slots=True)
class _Option:
    name: str
    metavar: str
    help: str
    kind: Literal["many", "text", "int", "float"] = "many"

    @property
    def flag(self) -> str:
        return "--bench-" + self.name.replace("_", "-")

    @property
    def dest(self) -> str:
        return f"bench_{self.name}"


_OPTIONS = (
    _Option(
        "agent", "AGENT[:MODEL]", "agent under test, repeatable; also oracle (default), nop and command:SHELL"
    ),
    _Option("scenario", "ID", "only these scenarios; patterns and commas allowed, repeatable"),
    _Option("filter", "KEY=VALUE", "only scenarios whose metadata say so, repeatable"),
    _Option("attempts", "K", "independent attempts of each scenario and agent (default: 1)", "int"),
    _Option(
        "concurrency",
        "N",
        "trials at a time in the whole job, shared among xdist workers (default: 10)",
        "int",
    ),
    _Option(
        "agent_timeout", "SECONDS", "time for an agent (default: the scenario's own, else 7200)", "float"
    ),
    _Option("scorer_timeout", "SECONDS", "time for a scorer (default: its own, else 1800)", "float"),
    _Option("timeout_multiplier", "X", "makes every timeout X times as long", "float"),
    _Option("env", "KEY=VALUE", "a variable for agents, repeatable"),
    _Option(
        "secret",
        "VARIABLE=NAME",
        "a variable for agents whose value is that of NAME here; never written anywhere",
    ),
    _Option(
        "threshold", "X", "score that passes a trial (default: 1.0; a scenario may set its own)", "float"
    ),
    _Option(
        "retry_errors", "N", "new tries of a trial after a passing infrastructure error (default: 0)", "int"
    ),
    _Option("image_map", "FROM=TO", "use image TO wherever a scenario says FROM, repeatable"),
    _Option("build_arg", "KEY=VALUE", "a build argument for every Dockerfile, repeatable"),
    _Option("keep_processes", "PATTERN", "scenarios whose agents' background processes live on while graded"),
    _Option("sandbox", "NAME", "where trials run (default: docker)", "text"),
    _Option("dir", "DIR", "where results go (default: reports/ under rootdir)", "text"),
    _Option("job_name", "NAME", "a name for this job", "text"),
    _Option("meta", "KEY=VALUE", "a note kept with the job, repeatable"),
)
_INI_TYPE: Mapping[str, Literal["linelist", "string", "int", "float"]] = {
    "many": "linelist",
    "text": "string",
    "int": "int",
    "float": "float",
}
_SAME_NAME = (
    "concurrency",
    "agent_timeout",
    "scorer_timeout",
    "timeout_multiplier",
    "threshold",
    "retry_errors",
    "sandbox",
)
_FLAG_OF_FIELD = {"name": "--bench-job-name", "directory": "--bench-dir", "metadata": "--bench-meta"}


def add(parser: pytest.Parser) -> None:
    """Register every option, and the ini key of the same name."""
    group = parser.getgroup("benchjobs", "agent benchmarks")
    group.addoption(
        "--bench",
        dest="bench",
        action="append",
        nargs="?",
        const=EVERY,
        metavar="NAME[@VERSION]|PATH",
        help="run this benchmark, repeatable; alone: every registered one",
    )
    parser.addini("bench", "benchmarks to run when --bench is not given", type="linelist", default=[])
    parser.addini(
        "bench_benchmarks",
        "lines `NAME[@VERSION] = PATH`: benchmarks --bench knows",
        type="linelist",
        default=[],
    )
    parser.addini(
        "bench_paths", "directories --bench looks for manifests in", type="linelist", default=["benchmarks"]
    )
    for option in _OPTIONS:
        if option.kind == "many":
            group.addoption(
                option.flag, dest=option.dest, action="append", metavar=option.metavar, help=option.help
            )
            parser.addini(option.dest, f"as {option.flag}", type="linelist", default=[])
        else:
            group.addoption(option.flag, dest=option.dest, metavar=option.metavar, help=option.help)
            parser.addini(option.dest, f"as {option.flag}", type=_INI_TYPE[option.kind], default=None)


def given(config: pytest.Config) -> bool:
    """Whether the command line names any of our options."""
    dests = ("bench", *(option.dest for option in _OPTIONS))
    return any(config.getoption(dest) is not None for dest in dests)


def ini(config: pytest.Config, key: str) -> Any:
    """An ini value.

    Raises:
        pytest.UsageError: of the wrong type.
    """
    try:
        return config.getini(key)
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"ini key {key}: {error}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """Everything that is asked for."""

    job: JobConfig
    benchmarks: tuple[str, ...]
    """As written: names, names with versions, paths, or `EVERY`."""
    agents: tuple[AgentSpec, ...]
    filters: tuple[tuple[str, str], ...]
    secrets: Mapping[str, str] = dataclasses.field(repr=False)
    seen: set[str] = dataclasses.field(default_factory=set)
    """Ids of all scenarios met, selected or not; for suggestions."""

    def wanted(self, scenario: str) -> bool:
        """Whether `--bench-scenario` selects this id."""
        self.seen.add(scenario)
        patterns = self.job.scenarios
        return not patterns or any(matches(scenario, pattern) for pattern in patterns)


def matches(scenario: str, pattern: str) -> bool:
    """Whether a pattern of `--bench-scenario` means this id."""
    return scenario == pattern or fnmatch.fnmatchcase(scenario, pattern)


_ASKED = pytest.StashKey[Asked]()


def asked(config: pytest.Config) -> Asked:
    """The options, read once.

    Raises:
        pytest.UsageError: any of them is wrong.
    """
    if _ASKED not in config.stash:
        config.stash[_ASKED] = _read(config)
    return config.stash[_ASKED]


def _read(config: pytest.Config) -> Asked:
    from pydantic import ValidationError

    from ..model.agent import AgentSpec
    from ..model.errors import InputError
    from ..model.job import JobConfig

    try:
        # What the command line names replaces the agents of the ini file: both together would be a surprise.
        agents = tuple(
            AgentSpec.parse(text) for text in _strings(config, "agent", replace=True) or ["oracle"]
        )
    except InputError as error:
        raise pytest.UsageError(f"--bench-agent: {error}") from None
    labels = [agent.label for agent in agents]
    for label in labels:
        if labels.count(label) > 1:
            raise pytest.UsageError(
                f"--bench-agent: {label} is given twice; for repeats use --bench-attempts"
            )
    fields: dict[str, Any] = {
        "agents": agents,
        "scenarios": tuple(
            pattern.strip()
            for text in _strings(config, "scenario", replace=True)
            for pattern in text.split(",")
            if pattern.strip()
        ),
        "env": _table(config, "env", variables=True),
        "image_map": _table(config, "image_map"),
        "build_args": _table(config, "build_arg"),
        "keep_processes": tuple(_strings(config, "keep_processes")),
        "metadata": _table(config, "meta"),
        "directory": _directory(config),
        "attempts": _single(config, "attempts"),
        "name": _single(config, "job_name"),
        **{name: _single(config, name) for name in _SAME_NAME},
    }
    try:
        job = JobConfig.model_validate({key: value for key, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        flag = _FLAG_OF_FIELD.get(field, "--bench-" + field.replace("_", "-"))
        raise pytest.UsageError(f"{flag}: {first['msg']} (got {first['input']!r})") from None
    return Asked(
        job=job,
        benchmarks=tuple(config.getoption("bench") or ini(config, "bench")),
        agents=agents,
        filters=tuple(_pairs("--bench-filter", _strings(config, "filter"))),
        secrets=_secrets(config),
    )


def _strings(config: pytest.Config, name: str, *, replace: bool = False) -> list[str]:
    """Ini first, then the command line, which adds or replaces."""
    from_line: list[str] = config.getoption(f"bench_{name}") or []
    if replace and from_line:
        return from_line
    return [*ini(config, f"bench_{name}"), *from_line]


def _single(config: pytest.Config, name: str) -> Any:
    value = config.getoption(f"bench_{name}")
    return ini(config, f"bench_{name}") if value is None else value


def _pairs(flag: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"{flag}: {text!r} is not of the form KEY=VALUE")
        pairs.append((key.strip(), value))
    return pairs


def _table(config: pytest.Config, name: str, *, variables: bool = False) -> dict[str, str]:
    flag = "--bench-" + name.replace("_", "-")
    table = dict(_pairs(flag, _strings(config, name)))
    if variables:
        _check_variables(flag, table)
    return table


def _check_variables(flag: str, names: Iterable[str]) -> None:
    for name in names:
        if not _VARIABLE.match(name):
            raise pytest.UsageError(
                f"{flag}: {name!r} is not a name for a variable (letters, digits and '_')"
            )


def _secrets(config: pytest.Config) -> dict[str, str]:
    sources = dict(_pairs("--bench-secret", _strings(config, "secret")))
    _check_variables("--bench-secret", sources)
    missing = sorted({name for name in sources.values() if name not in os.environ})
    if missing:
        raise pytest.UsageError(
            f"--bench-secret: {', '.join(missing)} is not set here; export it before running pytest"
        )
    return {variable: os.environ[name] for variable, name in sources.items()}


def _directory(config: pytest.Config) -> Any:
    from_line = config.getoption("bench_dir")
    if from_line is not None:
        return config.invocation_params.dir / os.path.expanduser(from_line)  # noqa: PTH111  a string until here
    return config.rootpath / (ini(config, "bench_dir") or "reports")
