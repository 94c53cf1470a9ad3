"""The options `--bench*` and the ini keys `bench*`. What is asked for with them is read by `asked`.

Part of every pytest run of everyone who installed the package, so it holds plain tuples and imports next to nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

RUNNING = "benchjobs-running"
EVERY = "*"
"""What `--bench` without a value stands for."""

_Kind = Literal["many", "text", "int", "float"]

_OPTIONS: tuple[tuple[str, str, str, _Kind], ...] = (
    (
        "agent",
        "AGENT[:MODEL]",
        "agent under test, repeatable; also oracle (default), nop and command:SHELL",
        "many",
    ),
    ("scenario", "ID", "only these scenarios; patterns and commas allowed, repeatable", "many"),
    ("filter", "KEY=VALUE", "only scenarios whose metadata say so, repeatable", "many"),
    ("attempts", "K", "independent attempts of each scenario and agent (default: 1)", "int"),
    (
        "concurrency",
        "N",
        "trials at a time in the whole job, shared among xdist workers (default: 10)",
        "int",
    ),
    ("agent_timeout", "SECONDS", "time for an agent (default: the scenario's own, else 7200)", "float"),
    ("scorer_timeout", "SECONDS", "time for a scorer (default: its own, else 1800)", "float"),
    ("timeout_multiplier", "X", "makes every timeout X times as long", "float"),
    ("env", "KEY=VALUE", "a variable for agents, repeatable", "many"),
    (
        "secret",
        "VARIABLE=NAME",
        "a variable for agents whose value is that of NAME here; redacted wherever it would be written",
        "many",
    ),
    ("threshold", "X", "score that passes a trial (default: 1.0; a scenario may set its own)", "float"),
    ("retry_errors", "N", "new tries of a trial after a passing infrastructure error (default: 0)", "int"),
    ("image_map", "FROM=TO", "use image TO wherever a scenario says FROM, repeatable", "many"),
    ("build_arg", "KEY=VALUE", "a build argument for every Dockerfile, repeatable", "many"),
    (
        "keep_processes",
        "PATTERN",
        "scenarios whose agents' background processes live on while graded",
        "many",
    ),
    ("sandbox", "NAME", "where trials run (default: docker)", "text"),
    ("dir", "DIR", "where results go (default: reports/ under rootdir)", "text"),
    ("job_name", "NAME", "a name for this job", "text"),
    ("meta", "KEY=VALUE", "a note kept with the job, repeatable", "many"),
)
_INI_TYPE: dict[_Kind, Literal["linelist", "string", "int", "float"]] = {
    "many": "linelist",
    "text": "string",
    "int": "int",
    "float": "float",
}


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
    for name, metavar, text, kind in _OPTIONS:
        flag, dest = "--bench-" + name.replace("_", "-"), f"bench_{name}"
        if kind == "many":
            group.addoption(flag, dest=dest, action="append", metavar=metavar, help=text)
        else:
            group.addoption(flag, dest=dest, metavar=metavar, help=text)
        default: list[str] | None = [] if kind == "many" else None
        parser.addini(dest, f"as {flag}", type=_INI_TYPE[kind], default=default)


def given(config: pytest.Config) -> bool:
    """Whether the command line names any of our options."""
    dests = ("bench", *(f"bench_{name}" for name, *_ in _OPTIONS))
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
