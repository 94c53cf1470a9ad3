"""Options of `run` and similar commands, made from the table of settings, and their call of pytest."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from ..settings.call import Written, words
from ..settings.files import names_benchmarks
from ..settings.parse import parse
from ..settings.setting import Setting, texts_of
from ..settings.table import BY_FLAG, BY_NAME, EVERY, GROUPS, SETTINGS
from ..sources.project import rootdir
from ..store.project import default_directory, directory_of
from ..system.paths import exists
from ._directory import DIRECTORY
from ._pytest_call import Call

_VARIADIC = ("--agent", "--benchmark", "--benchmarks", "--scenarios", "--env-vars", "--secrets")
_UNEXPECTED = re.compile(r"Got unexpected extra arguments? \((\S+)[^()]*\)")
_HOTTEST = 100
_FEW = 25
"""Options shown above the groups."""
_TYPED = f"{__name__}.typed"
"""Key in the context's memory: flags as they were typed, by the name of the option."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Named(NamedTuple):
    """A benchmark, or one scenario, as it was typed: `PATH`, `NAME`, `PATH::ID`, `NAME::ID`."""

    place: str
    scenario: str | None

    @classmethod
    def read(cls, text: str) -> Named:
        """Read what was typed."""
        place, sign, scenario = text.rpartition("::")
        return cls(place, scenario) if sign and place and scenario else cls(text, None)


def benchmarks_of(typed: Sequence[Named]) -> tuple[str, ...]:
    """Return the benchmarks of what was typed, each once."""
    return tuple(dict.fromkeys(one.place for one in typed))


def scenarios_of(typed: Sequence[Named]) -> tuple[str, ...]:
    """Return the ids of what was typed; none for whole benchmarks."""
    ids = tuple(one.scenario for one in typed if one.scenario is not None)
    if ids and len(ids) < len(typed):
        raise click.UsageError("name scenarios (PATH::ID), or whole benchmarks, not both")
    return ids


class RunRequest(NamedTuple):
    """A call of pytest, with values of its settings."""

    call: Call
    directory: Path
    """The results directory."""
    name: str | None
    agent_timeout: float | None


class VariadicCommand(click.Command):
    """A command with options of several values, and arguments for pytest after `--`, passed to it as `rest`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each of its values, as click expects."""
        end = args.index("--") if "--" in args else len(args)
        try:
            left = super().parse_args(ctx, list(self._spread(ctx, args[:end])))
        except click.UsageError as error:
            raise self._naming_the_option(ctx, error) from None
        ctx.params["rest"] = tuple(args[end + 1 :])
        return left

    def _naming_the_option(self, ctx: click.Context, error: click.UsageError) -> click.UsageError:
        """Return an error in the call; for an unexpected argument, which is mostly a benchmark, with its option."""
        found = _UNEXPECTED.fullmatch(error.message)
        flags = {flag for option in self.get_params(ctx) for flag in option.opts}
        if found is None or "--benchmark" not in flags:
            return error
        return click.UsageError(
            f"unexpected argument {found[1]!r}; for a benchmark write --benchmark {found[1]}", ctx
        )

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Mention the arguments after `--`."""
        return [*super().collect_usage_pieces(ctx), "[-- PYTEST ARGUMENTS]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the command's own options, then the settings in the groups of the table."""
        shown = {
            str(parameter.name): record
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx)) is not None
        }
        grouped = {
            title: [setting.name for setting in settings if setting.name in shown]
            for title, settings in GROUPS
        }
        grouped["selection"][:0] = [name for name in ("benchmark", "everything") if name in shown]
        if len(shown) <= _FEW:
            grouped = {}
        own = shown.keys() - {name for names in grouped.values() for name in names}
        for title, names in (("options", [name for name in shown if name in own]), *grouped.items()):
            if names:
                with formatter.section(title.capitalize()):
                    formatter.write_dl([shown[name] for name in names])

    def _spread(self, ctx: click.Context, args: Sequence[str]) -> Iterable[str]:
        options = {
            name: parameter
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        typed: dict[str, str] = ctx.meta.setdefault(_TYPED, {})
        index = 0
        while index < len(args):
            written, equals, value = args[index].partition("=")
            name = written if written in options else _without_prefix(written)
            option = options.get(name)
            if option is None:
                name = written
            else:
                typed.setdefault(str(option.name), written)
            yield f"{name}{equals}{value}"
            index += 1
            if option is None or option.is_flag or option.count:
                continue
            if not equals:
                if index == len(args) or args[index].partition("=")[0] in options:
                    raise click.UsageError(f"Option '{written}' needs a value", ctx)
                yield args[index]
                index += 1
            while name in _VARIADIC and index < len(args) and not args[index].startswith("-"):
                yield from (name, args[index])
                index += 1


def _without_prefix(flag: str) -> str:
    """Return the console option of an option of pytest: messages and lines that are copied have those."""
    if flag not in BY_FLAG:
        return flag
    return "--benchmarks" if flag == BY_NAME["benchmarks"].flag else flag.replace("--bench-", "--", 1)


def _option(setting: Setting) -> Callable[[_Command], _Command]:
    how: dict[str, Any] = {"help": _help(setting)}
    if setting.kind == "flag":
        how |= {"is_flag": True, "default": setting.name == "reuse"}
    else:
        how |= {"multiple": setting.many, "metavar": setting.metavar}
    return click.option(*setting.flags, setting.name, **how)


def _help(setting: Setting) -> str:
    text = setting.help.replace("--bench-", "--")
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


_SETTINGS = tuple(setting for setting in SETTINGS if setting.flags and setting.name != "dir")
_CHANGEABLE = tuple(setting for setting in _SETTINGS if setting.name not in ("env", "reuse"))
_AFTERWARDS = tuple(setting for setting in _SETTINGS if setting.afterwards)
_OPTIONS = (
    click.option("--benchmark", multiple=True, metavar="NAME|PATH", help="Benchmark to run."),
    click.option(
        "--benchmarks", multiple=True, metavar="NAME...", help="Benchmarks to run, separated by spaces or commas."
    ),
    click.option("--all", "everything", is_flag=True, help="Run every registered benchmark."),
    *map(_option, _SETTINGS),
    click.option("--resume", is_flag=True, help="The same as --reuse, which is the default."),
    click.option("--temperature", type=float, metavar="X", help="Parameter `temperature` of agents."),
    click.option(
        "--dir", "directory", type=DIRECTORY,
        help="Where results go.  [default: bench_dir of the ini file, else reports/ of the project]",
    ),
    click.option("--rootdir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="As for pytest."),
)  # fmt: skip
whats_argument = click.argument("whats", nargs=-1, metavar="[PATH|NAME|PATH::ID]...")
"""Benchmarks and scenarios, for `run_request` and `Named`."""
scenarios_option = click.option(
    "--scenario",
    "--scenarios",
    "scenarios",
    multiple=True,
    metavar="ID",
    help="Only this scenario, repeatable; --scenarios takes several.",
)
check_directory_option = click.option(
    "--dir",
    "directory",
    type=DIRECTORY,
    help="Where results go.  [default: a temporary directory, kept only if there are problems]",
)


def check_attempts_option(default: int) -> Callable[[_Command], _Command]:
    """Return the option for attempts of commands that check scenarios."""
    return click.option(
        "--attempts",
        type=click.IntRange(1, 1000),
        default=default,
        show_default=True,
        help="Attempts of each scenario and agent.",
    )


def _adding(options: Iterable[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options, passed to the command as keyword arguments."""

    def add(command: _Command) -> _Command:
        for option in reversed([*options]):
            command = option(command)
        return command

    return add


run_options = _adding(_OPTIONS)
"""Adds all options of a run, for `run_request`."""
setting_options = _adding(map(_option, _CHANGEABLE))
"""Adds everything that says how to run, each without a default, for `changed_settings`."""
gate_options = _adding(map(_option, _AFTERWARDS))
"""Adds the options that can be given anew for an ended job, for `gate_settings`."""


def changed_settings(options: Mapping[str, Any]) -> dict[str, Written]:
    """Return the settings of `setting_options` that were given, by name, as they are written."""
    written = _written(options, _CHANGEABLE)
    _parsed(written)
    return written


def run_request(options: Mapping[str, Any]) -> RunRequest:
    """Return the call of pytest for the options of `run_options`."""
    directory = results_directory(options)
    settings = {**_benchmarks(options), **_written(options, _SETTINGS), **_reuse(options)}
    if ids := scenarios_of([Named.read(text) for text in options.get("whats", ())]):
        settings["scenarios"] = (*options["scenarios"], *ids)
    values = _parsed(settings)
    keys = [text.partition("=")[0].strip() for text in options["metadata"]]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise click.UsageError(f"--metadata: {twice} is given twice")
    if str(options["name"]).isdigit():
        raise click.UsageError(
            f"-n is the job name, and {options['name']} is not a valid one; for {options['name']} concurrent trials "
            f"use --concurrency {options['name']}, for {options['name']} xdist workers -- -n {options['name']}"
        )
    env = values.get("env", {})
    settings.pop("env", None)
    # A command line has the path from the current directory where it is below.
    shown = os.path.relpath(directory)
    settings["dir"] = str(directory) if shown.startswith("..") else shown
    root = () if options["rootdir"] is None else (f"--rootdir={options['rootdir']}",)
    if (temperature := options["temperature"]) is not None:
        if not 0 <= temperature <= _HOTTEST:
            raise click.UsageError(f"--temperature: {temperature:g} is not a number from 0 to {_HOTTEST}")
        settings["params"] = (*texts_of(settings.get("params", ())), f"temperature={temperature:g}")
    call = Call((*words(settings, last=root), *options["rest"]), Path.cwd(), env)
    return RunRequest(call, directory, values.get("name"), values.get("agent_timeout"))


def gate_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `gate_options`, for `gate_config`. InputError: one of them is wrong."""
    return _parsed(_written(options, _AFTERWARDS))


def without_gates(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those of gates."""
    return {**options, **dict.fromkeys(setting.name for setting in _AFTERWARDS)}


def flag_of(name: str) -> str:
    """Return the console option of a setting, the one that was typed if any was."""
    context = click.get_current_context(silent=True)
    if context is not None and (typed := context.meta.get(_TYPED, {}).get(name)) is not None:
        return str(typed)
    return next(flag for flag in BY_NAME[name].flags if flag.startswith("--")).partition("/")[0]


def _written(options: Mapping[str, Any], settings: Iterable[Setting]) -> dict[str, Written]:
    """Return the given settings by name, as text."""
    return {
        setting.name: options[setting.name]
        for setting in settings
        if options[setting.name] is not None and options[setting.name] not in (False, ())
    }


def _parsed(settings: Mapping[str, Written]) -> dict[str, Any]:
    """Parse the values by the table, so that an error names the option as it was typed."""
    here = Path.cwd()
    return {
        name: parse(BY_NAME[name], written, flag_of(name), here)
        for name, written in settings.items()
        if BY_NAME[name].flags
    }


def _benchmarks(options: Mapping[str, Any]) -> dict[str, Written]:
    names = [name.strip() for text in options["benchmarks"] for name in text.split(",")]
    if options["benchmarks"] and not any(names):
        raise click.UsageError("--benchmarks is empty; name a benchmark")
    typed = benchmarks_of([Named.read(text) for text in options.get("whats", ())])
    named = tuple(dict.fromkeys([*typed, *options["benchmark"], *filter(None, names)]))
    scenarios = options["scenarios"]
    if options["everything"] and named:
        raise click.UsageError("--all and --benchmark cannot both be given")
    if not (named or options["everything"]) and not _named_elsewhere(options):
        if not scenarios:
            raise click.UsageError("nothing to run; give a PATH or NAME, --benchmark, --scenarios or --all")
        return {"benchmarks": (EVERY,)}
    return {"benchmarks": (EVERY,) if options["everything"] else named}


def _named_elsewhere(options: Mapping[str, Any]) -> bool:
    """Return whether a file or an argument for pytest names benchmarks."""
    here = Path.cwd()
    files = [here / options["job_file"]] if options["job_file"] is not None else []
    places = (argument.partition("::")[0] for argument in options["rest"] if not argument.startswith("-"))
    return names_benchmarks(options["profile"], files, options["rootdir"] or rootdir(), here) or any(
        exists(place) for place in places
    )


def _reuse(options: Mapping[str, Any]) -> dict[str, Written]:
    """Return settings of reuse, which is on by default."""
    for name in ("rerun_failed", "rerun_errors"):
        if options[name] and (options["force"] or not options["reuse"]):
            other = "--force" if options["force"] else "--no-reuse"
            raise click.UsageError(f"{flag_of(name)} and {other} contradict each other")
    anew = options["force"] or not options["reuse"]
    return {"force": anew, "reuse": not anew}


def results_directory(options: Mapping[str, Any]) -> Path:
    """Return the results directory that `run_options` name."""
    given: Path | None = options["directory"]
    if given is not None:
        return given.absolute()
    rootdir: Path | None = options["rootdir"]
    return default_directory() if rootdir is None else directory_of(rootdir.resolve())
