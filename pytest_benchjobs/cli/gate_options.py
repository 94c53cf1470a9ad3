"""Options of `run` and `gate` that say what a job is judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FLAGS = ("require_baseline", "first_run")
_TEXTS = ("baseline", "policy", "regress_warn")
_LISTS = ("fail_on_regression", "allow_missing")
_FLOORS = ("min_score", "min_pass_rate", "max_error_rate", "min_samples", "min_lift")
GATE_OPTIONS = (
    click.option("--baseline", metavar="SPEC", help="What to judge by: NAME, job:ID, last, branch:NAME, file:PATH."),
    click.option("--require-baseline", is_flag=True, help="Overrides --first-run, as of an ini file."),
    click.option("--first-run", is_flag=True, help="The baseline need not be there yet: the verdict is `no baseline`."),
    click.option(
        "--fail-on-regression", multiple=True, metavar="EXPR", help="What may not get worse, such as mean:5pp."
    ),
    click.option(
        "--allow-missing", multiple=True, metavar="[KEY=]PATTERN", help="What of the baseline the job need not have."
    ),
    click.option("--min-score", multiple=True, metavar="[NAME=]X", help="Least mean score."),
    click.option("--min-pass-rate", multiple=True, metavar="[NAME=]X", help="Least share of attempts that pass."),
    click.option("--max-error-rate", multiple=True, metavar="[NAME=]X", help="Share of errors.  [default: 0.05]"),
    click.option("--min-samples", multiple=True, metavar="[NAME=]N", help="Scenarios to compare.  [default: 1]"),
    click.option("--min-lift", multiple=True, metavar="[NAME=]X", help="Least multiple of baseline:random."),
    click.option("--policy", type=click.Choice(["evidence", "strict", "point"]), help="[default: evidence]"),
    click.option("--regress-warn", metavar="PP", help="Drop that is worth a warning, such as 2pp."),
    click.option("--noise", multiple=True, metavar="BENCHMARK=PP", help="Drop that is nothing on a benchmark."),
)  # fmt: skip


def gate_options(command: _Command) -> _Command:
    """Everything that says what a job is judged by, given to the command as keyword arguments."""
    for option in reversed(GATE_OPTIONS):
        command = option(command)
    return command


def gate_arguments(options: Mapping[str, Any]) -> Iterable[str]:
    """The same, as options of pytest."""
    for name in _TEXTS:
        if options[name] is not None:
            yield f"{_flag(name, 'bench-')}={_filled(name, options[name])}"
    for name in _FLAGS:
        if options[name]:
            yield _flag(name, "bench-")
    for name in (*_LISTS, *_FLOORS, "noise"):
        for text in options[name]:
            yield f"{_flag(name, 'bench-')}={_filled(name, text)}"


def gate_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same, as settings for `gate_config`: what is given only.

    Raises:
        click.UsageError: a value is not of the form it has to have.

    """
    values: dict[str, Any] = {
        name: _filled(name, options[name]) for name in _TEXTS if options[name] is not None
    }
    values |= {name: True for name in _FLAGS if options[name]}
    values |= {name: list(options[name]) for name in _LISTS if options[name]}
    for name in (*_FLOORS, "noise"):
        for text in options[name]:
            key, equals, value = _filled(name, text).rpartition("=")
            table = values.setdefault(name, {})
            key = key.strip() if equals else "*"
            if not key or key in table or (name == "noise" and not equals):
                form = "BENCHMARK=PP" if name == "noise" else "X, or NAME=X once for each benchmark or agent"
                raise click.UsageError(f"{_flag(name)}: {text!r}: write {form}")
            table[key] = value.strip()
    return values


def flag_of(key: str) -> str:
    """How the console writes the option that sets `key`."""
    return _flag(key)


def _flag(name: str, prefix: str = "") -> str:
    return f"--{prefix}{name.replace('_', '-')}"


def _filled(name: str, text: str) -> str:
    if not text.strip():
        raise click.UsageError(f"{_flag(name)} is empty; give a value, or leave it out")
    return text
