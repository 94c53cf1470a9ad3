"""What is asked of `run`, and what that is for pytest."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ..model.agent import AgentSpec
from ..model.errors import InputError
from ..model.gate import NO_BASELINE, GateConfig
from ..model.policy import parse_policy
from ..settings.extra import extra_layer
from ..settings.files import read_job_file, read_profile
from ..settings.gates import gate_config
from ..settings.matrix import Matrix, parse_parameters
from ..settings.values import parse_job_name, parse_sample
from .common import default_directory, directory_of
from .gate_options import GATE_OPTIONS, flag_of, gate_arguments, gate_settings
from .invoke import Call

_VARIADIC = ("--agent", "--benchmark", "--benchmarks", "--scenarios", "--env-vars", "--secrets")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_YEAR = 31_536_000
_EVERY = "--bench=*"
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Asked(NamedTuple):
    """A call of pytest, and what has to be known of it."""

    call: Call
    directory: Path
    """Where results go."""
    name: str | None
    agent_timeout: float | None


class VariadicCommand(click.Command):
    """A command some of whose options take several values, and whose arguments behind `--` are for pytest.

    They are given to it as `rest`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give each value an option of its own, which is what click knows."""
        end = args.index("--") if "--" in args else len(args)
        left = super().parse_args(ctx, list(self._spread(ctx, args[:end])))
        ctx.params["rest"] = tuple(args[end + 1 :])
        return left

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Mention what is behind `--`."""
        return [*super().collect_usage_pieces(ctx), "[-- PYTEST ARGUMENTS]"]

    def _spread(self, ctx: click.Context, args: Sequence[str]) -> Iterable[str]:
        options = {
            name: parameter
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        index = 0
        while index < len(args):
            name, equals, _ = args[index].partition("=")
            option = options.get(name)
            yield args[index]
            index += 1
            if option is None or option.is_flag or option.count:
                continue
            if not equals:
                if index == len(args) or args[index].partition("=")[0] in options:
                    raise click.UsageError(f"Option '{name}' needs a value", ctx)
                yield args[index]
                index += 1
            while name in _VARIADIC and index < len(args) and not args[index].startswith("-"):
                yield from (name, args[index])
                index += 1


if TYPE_CHECKING:
    _Type = click.ParamType[str]
else:
    _Type = click.ParamType  # generic since 8.4 only


class _Number(_Type):
    """A number within bounds. Passed on as it was written."""

    name = "number"

    def __init__(self, low: float, high: float, *, whole: bool = False, above: bool = False) -> None:
        self._low, self._high, self._whole, self._above = low, high, whole, above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See that it is one."""
        try:
            number = int(value) if self._whole else float(value)
        except ValueError:
            number = float("nan")
        fits = self._low < number <= self._high if self._above else self._low <= number <= self._high
        if not fits:
            what = "a whole number" if self._whole else "a number"
            bounds = f"above {self._low:g}" if self._above else f"from {self._low:g}"
            self.fail(f"{value!r} is not {what} {bounds} to {self._high:.0f}", param, ctx)
        return str(value)


_SECONDS = _Number(0, _YEAR, above=True)
_COUNT = _Number(1, 10_000, whole=True)

_OPTIONS = (
    click.option("--agent", "agents", multiple=True, metavar="AGENT:MODEL...", help="Agents to run."),
    click.option("--benchmark", multiple=True, metavar="NAME|PATH", help="Benchmark to run."),
    click.option(
        "--benchmarks", multiple=True, metavar="NAME...", help="Benchmarks to run, with spaces or commas between."
    ),
    click.option("--all", "everything", is_flag=True, help="Run every registered benchmark."),
    click.option("--scenarios", multiple=True, metavar="ID...", help="Scenarios to run."),
    click.option("-n", "--job-name", metavar="NAME", help="A name for the job."),
    click.option("-f", "--job-file", metavar="PATH", help="Settings of the job: TOML, YAML or JSON."),
    click.option(
        "--profile", "--model-profile", "profiles", multiple=True, metavar="NAME|PATH", help="Settings by name."
    ),
    click.option("--provider", metavar="NAME", help="Who serves models of agents that name no provider."),
    click.option("--model", metavar="MODEL", help="Model of agents that name none."),
    click.option("--temperature", type=_Number(0, 100), metavar="X", help="Parameter `temperature` of agents."),
    click.option("--env-vars", multiple=True, metavar="KEY=value...", help="Variables for agents."),
    click.option(
        "--secrets", multiple=True, metavar="ENV_VAR=NAME...",
        help="Variables for agents with the value that NAME has here.",
    ),
    click.option(
        "--env-file", "env_files", multiple=True, metavar="FILE",
        help="KEY=VALUE lines: variables of this machine for ${VAR}, secrets and model keys.",
    ),
    click.option("--extra", multiple=True, metavar="JSON|@FILE", help="Options and parameters, also per_benchmark."),
    click.option(
        "--matrix", multiple=True, metavar="KEY=V1,V2", help="Every agent with each of these values of a parameter."
    ),
    click.option("--timeout", type=_SECONDS, metavar="SECONDS", help="Time for an agent.  [default: 7200]"),
    click.option("--timeout-multiplier", type=_Number(0, 1000, above=True), metavar="X", help="For every timeout."),
    click.option("--job-timeout", type=_SECONDS, metavar="SECONDS", help="Time for the whole job."),
    click.option("--n-attempts", type=_COUNT, metavar="N", help="Attempts of each scenario.  [default: 1]"),
    click.option("--attempt-policy", metavar="POLICY", help="each, any, all or rate:X.  [default: each]"),
    click.option("--n-concurrent-trials", type=_COUNT, metavar="N", help="Trials at a time.  [default: 10]"),
    click.option("--max-examples", type=_Number(1, 10**9, whole=True), metavar="N", help="The first N of a benchmark."),
    click.option("--sample", metavar="10%|N", help="So many of a benchmark, drawn alike from each group of tags."),
    click.option("--metadata", multiple=True, metavar="KEY=value", help="A note kept with the job."),
    click.option("--max-cost", type=_Number(0, 10**9, above=True), metavar="USD", help="For models, in the whole job."),
    click.option("--max-tokens", type=_Number(1, 10**15, whole=True), metavar="N", help="In the whole job."),
    *GATE_OPTIONS,
    click.option("--exit", "exit_by", type=click.Choice(["tests", "gate", "both"]), help="What the status tells of."),
    click.option("--grading", type=click.Choice(["strict", "contract"]), help="What lives on while agents are graded."),
    click.option("--keep", type=click.Choice(["never", "failed", "always"]), help="File systems of trials to keep."),
    click.option(
        "--no-docker", is_flag=True, help="Run on the programs of this machine, and skip what needs an image."
    ),
    click.option("--force", is_flag=True, help="Run everything, and reuse nothing."),
    click.option("--reuse/--no-reuse", default=True, help="Take over results of earlier jobs.  [default: reuse]"),
    click.option("--resume", is_flag=True, help="The same as --reuse, which is the default."),
    click.option("--rerun-failed", is_flag=True, help="Run again what failed the last time."),
    click.option("--rerun-errors", is_flag=True, help="Run again what ended in an error the last time."),
    click.option(
        "--show-incompatible/--skip-incompatible", default=False,
        help="List what the matrix excludes, and agents lack.  [default: skip]",
    ),
    click.option(
        "--strict-capabilities", is_flag=True, help="An agent that lacks what a scenario requires is an error."
    ),
    click.option("--confirm", type=_Number(0, 1000, whole=True), metavar="N", help="New attempts of what looks worse."),
    click.option("--until-decided", is_flag=True, help="Attempts in rounds, until the gate is decided."),
    click.option("--interleave", is_flag=True, help="Agents take turns."),
    click.option(
        "--dir", "directory", type=click.Path(file_okay=False, path_type=Path),
        help="Where results go.  [default: bench_dir of the ini file, else reports/ of the project]",
    ),
    click.option("--rootdir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="As for pytest."),
)  # fmt: skip


def run_options(command: _Command) -> _Command:
    """Everything that says what to run, given to the command as keyword arguments for `ask`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def ask(options: Mapping[str, Any]) -> Asked:
    """The call of pytest that does what the options of `run_options` say.

    Options and values are one word: a path of its own pytest takes for a place where tests are, and its rootdir from
    there, before it knows our options.

    Raises:
        click.UsageError, InputError: they contradict each other, or one of them is wrong.

    """
    directory = results_directory(options)
    name = _job_name(options["job_name"])
    arguments = [*_what(options), *_how(options)]
    if options["rootdir"] is not None:
        arguments.append(f"--rootdir={options['rootdir']}")
    arguments += [f"--bench-dir={_short(directory)}", *options["rest"]]
    env = dict(_pairs("--env-vars", options["env_vars"], "KEY=value"))
    call = Call(tuple(arguments), Path.cwd(), env)
    timeout = options["timeout"]
    return Asked(call, directory, name, None if timeout is None else float(timeout))


def _what(options: Mapping[str, Any]) -> Iterable[str]:
    """Benchmarks, scenarios and agents."""
    benchmarks = [name.strip() for text in options["benchmarks"] for name in text.split(",")]
    if options["benchmarks"] and not any(benchmarks):
        raise click.UsageError("--benchmarks is empty; name a benchmark")
    named = list(dict.fromkeys([*options["benchmark"], *filter(None, benchmarks)]))
    scenarios = options["scenarios"]
    if options["benchmark"] and scenarios:
        raise click.UsageError(
            "--benchmark and --scenarios cannot both be given; for some scenarios of a benchmark use --benchmarks "
            "NAME --scenarios ID"
        )
    if options["everything"] and named:
        raise click.UsageError("--all and --benchmark cannot both be given")
    if not (named or scenarios or options["everything"] or _named_elsewhere(options)):
        raise click.UsageError("nothing to run; give --benchmark, --scenarios or --all")
    for text in options["agents"]:
        AgentSpec.parse(text)
    if options["everything"] or (scenarios and not named and not _named_elsewhere(options)):
        yield _EVERY
    for name in named:
        yield f"--bench={name}"
    for scenario in scenarios:
        yield f"--bench-scenario={scenario}"
    for agent in options["agents"]:
        yield f"--bench-agent={agent}"


def _named_elsewhere(options: Mapping[str, Any]) -> bool:
    """Whether a file or an argument for pytest says what to run."""
    here = Path.cwd()
    layers = [read_profile(name, options["rootdir"] or _root(), here) for name in options["profiles"]]
    if options["job_file"] is not None:
        layers.append(read_job_file(here / options["job_file"]))
    places = (argument.partition("::")[0] for argument in options["rest"] if not argument.startswith("-"))
    return any("benchmarks" in layer.values for layer in layers) or any(
        Path(place).exists() for place in places
    )


def _how(options: Mapping[str, Any]) -> Iterable[str]:
    """Everything else."""
    yield from _texts(options)
    yield from _checked(options)
    yield from gate_arguments(options)
    for name in ("rerun_failed", "rerun_errors"):
        if options[name] and (options["force"] or not options["reuse"]):
            other = "--force" if options["force"] else "--no-reuse"
            raise click.UsageError(f"--{name.replace('_', '-')} and {other} contradict each other")
    if options["force"] or not options["reuse"]:
        yield "--bench-force"
    else:
        yield "--bench-reuse"
    for name in (
        "rerun_failed",
        "rerun_errors",
        "show_incompatible",
        "strict_capabilities",
        "no_docker",
        "until_decided",
        "interleave",
    ):
        if options[name]:
            yield f"--bench-{name.replace('_', '-')}"


_FLAGS = (
    "rerun_failed",
    "rerun_errors",
    "show_incompatible",
    "strict_capabilities",
    "no_docker",
    "until_decided",
    "interleave",
)
_TEXTS = {
    "job_file": "job-file",
    "provider": "provider",
    "model": "model",
    "timeout": "agent-timeout",
    "timeout_multiplier": "timeout-multiplier",
    "job_timeout": "job-timeout",
    "n_attempts": "attempts",
    "attempt_policy": "attempt-policy",
    "n_concurrent_trials": "concurrency",
    "max_examples": "max-examples",
    "sample": "sample",
    "grading": "grading",
    "keep": "keep",
    "exit_by": "exit",
    "max_cost": "max-cost",
    "max_tokens": "max-tokens",
    "confirm": "confirm",
    "job_name": "job-name",
}
"""Parameter -> option of pytest, where the value is passed on as it is."""


def _texts(options: Mapping[str, Any]) -> Iterable[str]:
    for profile in options["profiles"]:
        yield f"--bench-profile={profile}"
    for name, flag in _TEXTS.items():
        value = options[name]
        if value is None:
            continue
        if not value.strip():
            raise click.UsageError(f"--{name.replace('_', '-')} is empty; give a value, or leave it out")
        yield f"--bench-{flag}={value}"


def _job_name(text: str | None) -> str | None:
    try:
        name = parse_job_name(text)
    except ValueError as error:
        raise click.UsageError(f"--job-name: {error}") from None
    return None if name is None else str(name)


def _checked(options: Mapping[str, Any]) -> Iterable[str]:
    """What can be wrong in ways that are better said here, in the words that were typed."""
    for text in options["extra"]:
        extra_layer(text, Path.cwd(), "--extra")
        yield f"--bench-extra={text}"
    try:
        agents = [AgentSpec.parse(text) for text in options["agents"]]
        Matrix(parse_parameters(options["matrix"])).check(agents)
    except InputError as error:
        raise click.UsageError(f"--matrix: {error}") from None
    for text in options["matrix"]:
        yield f"--bench-matrix={text}"
    for name, parse in (("sample", parse_sample), ("attempt_policy", parse_policy)):
        if options[name] is not None:
            try:
                parse(options[name])
            except ValueError as error:
                raise click.UsageError(f"--{name.replace('_', '-')}: {error}") from None
    # A file may say what is to be compared with.
    gate_config(gate_settings(options), flag_of, GateConfig(baseline=NO_BASELINE))
    if options["temperature"] is not None:
        yield f"--bench-param=temperature={float(options['temperature']):g}"
    for variable, name in _pairs("--secrets", options["secrets"], "ENV_VAR=SECRET_NAME"):
        if not name:
            raise click.UsageError(f"--secrets: {variable}= names no secret; write ENV_VAR=SECRET_NAME")
        yield f"--bench-secret={variable}={name}"
    known = set()
    for path in options["env_files"]:
        if not path.strip():
            raise click.UsageError("--env-file is empty; give a value, or leave it out")
        yield f"--bench-env-file={path}"
    for key, value in _pairs("--metadata", options["metadata"], "key=value", variables=False):
        if key in known:
            raise click.UsageError(f"--metadata: {key} is given twice")
        known.add(key)
        yield f"--bench-meta={key}={value}"


def _pairs(
    flag: str, texts: Iterable[str], form: str, *, variables: bool = True
) -> Iterable[tuple[str, str]]:
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{flag}: {text!r} is not of the form {form}")
        if variables and not _VARIABLE.match(key):
            raise click.UsageError(f"{flag}: {key!r} is not a name for a variable (letters, digits and '_')")
        yield key, value


def results_directory(options: Mapping[str, Any]) -> Path:
    """Where the results of what `run_options` say go."""
    given: Path | None = options["directory"]
    if given is not None:
        return given.absolute()
    rootdir: Path | None = options["rootdir"]
    return default_directory() if rootdir is None else directory_of(rootdir.resolve())


def _root() -> Path:
    """Where pytest's rootdir will be, as near as can be told before it runs."""
    here = Path.cwd()
    return next((place for place in (here, *here.parents) if (place / "pyproject.toml").is_file()), here)


def _short(directory: Path) -> str:
    """A path for a command line: from here, where it is below."""
    shown = os.path.relpath(directory)
    return str(directory) if shown.startswith("..") else shown
