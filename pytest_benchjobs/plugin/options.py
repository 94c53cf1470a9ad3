"""The options `--bench*` and the ini keys `bench*`, made from the table of settings.

Part of every pytest run of everyone who installed the package, so it imports hardly anything.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import os
import shlex
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..settings.setting import Setting, check_given
from ..settings.table import BY_FLAG, BY_NAME, BY_OPTION, EVERY, GROUPS, SETTINGS

_ALONE = "benchmarks to run when --bench is not given"
ALL_HELP = "--bench-help"
_HELP = "bench_help"
INI_ALONE: dict[str, tuple[str, Any, Any]] = {
    "bench_benchmarks": ("lines `NAME[@VERSION] = PATH`: benchmarks for --bench", "linelist", []),
    "bench_paths": ("directories in which --bench looks for manifests", "linelist", ["benchmarks"]),
    "bench_high_scores_file": ("file with high scores of benchmarks, for `benchjobs compare`", None, None),
}
"""Ini keys without an option: meaning, type and default."""
_INTRODUCTION = """\
Options for agent benchmarks. Details are in `docs/options.md`. `benchjobs run` has the same options without
`bench-` in their names.
"""
_KEYS = """\
Ini keys: every option that makes sense for more than one run has an ini key of the same name, with underscores. A list
has one value per line. These keys have no option:
"""


def add(parser: pytest.Parser) -> None:
    """Register every option, and the ini key of the same name. `--help` shows only the usual options."""
    group = parser.getgroup("benchjobs", "agent benchmarks (usual options; see --bench-help for all)")
    group.addoption(
        ALL_HELP, dest=_HELP, action="store_true", help="show all options for benchmarks, and exit"
    )
    for title, settings in GROUPS:
        # pytest compares each option with all others of its group. `--help` has no heading for one that shows nothing.
        unusual = parser.getgroup(f"benchjobs: {title}")
        for setting in settings:
            if setting.on_line:
                options = how(setting) if setting.usual else {**how(setting), "help": argparse.SUPPRESS}
                (group if setting.usual else unusual).addoption(setting.flag, dest=setting.option, **options)
            if setting.has_ini:
                default: list[str] | None = [] if setting.many else None
                about = f"as {setting.flag}" if setting.option != "bench" else _ALONE
                parser.addini(setting.option, about, type=setting.written.ini, default=default)
    for name, (about, kind, value) in INI_ALONE.items():
        parser.addini(name, about, type=kind, default=value)


def show_help(config: pytest.Config) -> bool:
    """Print the help for all options if `--bench-help` was given; otherwise keep that of pytest short.

    Returns whether the help was printed, so that nothing else is to be done.
    """
    if config.getoption(_HELP):
        sys.stdout.write("".join(f"{line}\n" for line in _help_lines()))
        return True
    # Our seventy keys would bury those of pytest. If pytest stores them differently, all are shown.
    keys = getattr(getattr(config, "_parser", None), "_inidict", None)
    if config.option.help and isinstance(keys, dict):
        usual = {setting.option for setting in SETTINGS if setting.usual} | {*INI_ALONE}
        for key in {setting.option for setting in SETTINGS} - usual:
            keys.pop(key, None)
    return False


def _help_lines() -> Iterator[str]:
    """Return the page of `pytest --bench-help`: every option in its group, and every ini key."""
    import shutil
    import textwrap

    parser = argparse.ArgumentParser(usage="pytest --bench NAME [options]", description=None, add_help=False)
    for title, settings in GROUPS:
        group = parser.add_argument_group(title)
        for setting in settings:
            if setting.on_line:
                group.add_argument(setting.flag, **how(setting))
    width = min(shutil.get_terminal_size().columns, 120)
    yield from textwrap.wrap(_INTRODUCTION, width)
    yield ""
    yield from parser.format_help().splitlines()
    yield ""
    yield from textwrap.wrap(_KEYS, width)
    for key, (about, _, _) in INI_ALONE.items():
        yield f"  {key}: {about}"
    yield ""
    keys = ", ".join(setting.option for setting in SETTINGS if setting.has_ini)
    yield from textwrap.wrap(f"All others: {keys}", width, break_on_hyphens=False)


def how(setting: Setting) -> dict[str, Any]:
    """Return the keyword arguments of argparse's `add_argument`."""
    shown = argparse.SUPPRESS if setting.hidden else setting.help
    if setting.kind == "flag":
        # Not False, which would count as a value.
        return {"action": "store_true", "default": None, "help": shown}
    if setting.hidden:
        return {"help": shown, **({"action": "append"} if setting.many else {})}
    if setting.option == "bench":
        return {
            "action": "append", "nargs": "?", "const": EVERY, "metavar": setting.metavar, "help": setting.help,
        }  # fmt: skip
    action = {"action": "append"} if setting.many else {}
    return {**action, "metavar": setting.metavar, "help": setting.help}


def refuse_misspelt(parser: pytest.Parser, args: Sequence[str]) -> None:
    """Refuse an unknown option that looks like one of ours, and one of ours with `--` for a value."""
    ours = [arg for arg in itertools.takewhile("--".__ne__, args) if arg.startswith("--bench")]
    for name in (arg.removesuffix("=--") for arg in ours if arg.endswith("=--")):
        # Python 3.11 takes it for no value at all, or for the value of the option alone.
        raise usage_error(f"{name}: it is empty; give a value, or leave it out")
    ours = [arg for arg in ours if arg.startswith("--bench-")]
    if all(arg.partition("=")[0] in BY_FLAG for arg in ours):
        return
    import difflib

    _, unknown = parser.parse_known_and_unknown_args(args)
    for arg in unknown:
        name = arg.partition("=")[0]
        near = difflib.get_close_matches(name, [*BY_FLAG, ALL_HELP], n=1)
        if near and arg in ours and name not in BY_FLAG:
            raise usage_error(f"unknown option {name}; did you mean {near[0]}? --bench-help lists all")


def refuse_moved_rootdir(config: pytest.Config) -> None:
    """Refuse a call in which pytest took the value of one of our options for a path of tests.

    pytest determines rootdir and ini file before it knows our options: those of another project, or none, would hold.

    Raises pytest.UsageError: rootdir or ini file are others than without that value.
    """
    args = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.invocation_params.args]
    values = [
        (flag, value)
        for flag, value in itertools.pairwise(args)
        if flag in BY_FLAG and BY_FLAG[flag].kind != "flag" and os.path.exists(value)  # noqa: PTH110  False for what can be no path
    ]
    if not values or hasattr(config, "workerinput"):
        return
    right = _determined(config, ())
    # Another plugin's value may have done it.
    if right in ((config.rootpath, config.inipath), _determined(config, [value for _, value in values])):
        return
    what, here, there = next(
        row
        for row in zip(("rootdir", "ini file"), (config.rootpath, config.inipath), right, strict=True)
        if row[1] != row[2]
    )
    raise usage_error(
        f"{values[0][0]}: pytest took its value for a path of tests, so that {what} is {here or 'none'} in place of "
        f"{there or 'none'}; write {' '.join(map('='.join, values))}"
    )


def _determined(config: pytest.Config, values: Sequence[str]) -> tuple[Path, Path | None]:
    """Return rootdir and ini file, as pytest determines them if it takes values for paths of tests."""
    from .private import determine_setup

    overrides = (
        {"override_ini": None} if "override_ini" in inspect.signature(determine_setup).parameters else {}
    )
    rootdir, inipath, *_ = determine_setup(
        inifile=config.option.inifilename,
        args=[*config.option.file_or_dir, *values],
        rootdir_cmd_arg=config.option.rootdir or None,
        invocation_dir=config.invocation_params.dir,
        **overrides,
    )
    return rootdir, inipath


def refuse_misspelt_keys(config: pytest.Config) -> None:
    """Refuse an unknown ini key that begins as ours do. Keys of other plugins are known to pytest."""
    odd = [key for key in _written(config) if key.lower().startswith(("bench_", "bench-"))]
    known = [*(setting.option for setting in SETTINGS if setting.has_ini), *INI_ALONE] if odd else []
    if config.option.help:
        return
    for key in odd:
        if key in known:
            continue
        try:
            config.getini(key)
        except ValueError:
            raise usage_error(f"{origin(config, key)}: unknown ini key{_meant(key, known)}") from None


def _meant(key: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown ini key."""
    import difflib

    name = key.lower().replace("-", "_")
    if name in BY_OPTION and name not in known:
        return f"; it is for single calls: {BY_OPTION[name].flag}"
    # Without the prefix, which all have, and which would make everything similar.
    ends = {one.removeprefix("bench_"): one for one in known}
    near = difflib.get_close_matches(name.removeprefix("bench_"), ends, n=1)
    return f"; did you mean {ends[near[0]]}?" if near else "; `pytest --bench-help` lists all"


def flag(name: str) -> str:
    """Return the option of the setting called `name`."""
    return BY_NAME[name].flag


def given(config: pytest.Config) -> bool:
    """Return whether the command line has any of our options."""
    return any(config.getoption(setting.option) is not None for setting in SETTINGS if setting.on_line)


def on_line(config: pytest.Config, name: str) -> Any:
    """Return what the command line gives for a setting; None: nothing. UsageError: it is empty."""
    setting = BY_NAME[name]
    written = config.getoption(setting.option)
    if written is not None:
        _check(written, setting.flag, many=setting.many)
    return written


def ini(config: pytest.Config, key: str) -> Any:
    """Return an ini value; None, False or no texts if there is none. UsageError: it has the wrong type, or is empty."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pytest's, of a list in place of a text, which is an error below
            written = config.getini(key)
    except (TypeError, ValueError, pytest.UsageError) as error:  # the exception depends on pytest's version
        form = BY_OPTION[key].expected if key in BY_OPTION else "a list"
        found = str(error).rpartition(": ")[2].removeprefix("invalid truth value ")
        raise usage_error(f"{origin(config, key)}: {form} is expected, not {found}") from None
    setting = BY_OPTION.get(key)
    many = isinstance(written, list) if setting is None else setting.many
    if written is not None:
        # A list of no texts is also what is there when nothing was written. `bench_paths` may be one.
        is_written = key in _written(config) or _is_overridden(config, key)
        is_empty = written == [] and setting is not None and is_written
        expected = "a text" if setting is None else setting.expected
        _check([""] if is_empty else written, origin(config, key), many=many, expected=expected)
    return written


def _check(written: Any, blame: str, **how: Any) -> None:
    try:
        check_given(written, blame, **how)
    except ValueError as error:
        raise usage_error(str(error)) from None


def origin(config: pytest.Config, key: str) -> str:
    """Return the place of an ini value, for messages: `pytest.ini: bench_attempts`."""
    if _is_overridden(config, key) or config.inipath is None:
        return f"-o {key}"
    return f"{config.inipath.name}: {key}"


def _written(config: pytest.Config) -> Collection[str]:
    """Return the keys of the ini file and, in most versions of pytest, of `-o`."""
    found: Collection[str] = (
        vars(config).get("_inicfg") or vars(config).get("inicfg") or ()
    )  # pytest 9; earlier ones
    return found


def _is_overridden(config: pytest.Config, key: str) -> bool:
    return any(text.startswith(f"{key}=") for text in config.getoption("override_ini") or ())


def usage_error(message: str) -> pytest.UsageError:
    """Return the error of a call that is wrong. The message may quote anything; see `model.escape.legible`."""
    from ..model.escape import legible

    return pytest.UsageError(legible(message))
