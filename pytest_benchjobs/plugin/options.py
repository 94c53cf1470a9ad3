"""The options `--bench*` and the ini keys `bench*`, made from the table of settings; `asked` reads them.

Part of every pytest run of everyone who installed the package, so it imports next to nothing.
"""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from ..settings.setting import Setting
from ..settings.table import BY_NAME, BY_OPTION, EVERY, GROUPS, SETTINGS

_ALONE = "benchmarks to run when --bench is not given"


def add(parser: pytest.Parser) -> None:
    """Register every option, and the ini key of the same name."""
    for number, (title, settings) in enumerate(GROUPS):
        group = parser.getgroup(f"benchjobs-{number}", f"agent benchmarks: {title}")
        for setting in settings:
            if setting.on_line:
                group.addoption(setting.flag, dest=setting.option, **_how(setting))
            if setting.has_ini:
                default: list[str] | None = [] if setting.many else None
                about = f"as {setting.flag}" if setting.option != "bench" else _ALONE
                parser.addini(setting.option, about, type=setting.written.ini, default=default)
    parser.addini(
        "bench_benchmarks",
        "lines `NAME[@VERSION] = PATH`: benchmarks --bench knows",
        type="linelist",
        default=[],
    )
    parser.addini(
        "bench_paths", "directories --bench looks for manifests in", type="linelist", default=["benchmarks"]
    )
    parser.addini("bench_high_scores_file", "the best that is known of benchmarks, for `benchjobs compare`")


def _how(setting: Setting) -> dict[str, Any]:
    """Return the keyword arguments of `addoption`."""
    if setting.hidden:
        return {"help": argparse.SUPPRESS}
    if setting.kind == "flag":
        # Not False: that would be a value.
        return {"action": "store_true", "default": None, "help": setting.help}
    if setting.option == "bench":
        return {
            "action": "append", "nargs": "?", "const": EVERY, "metavar": setting.metavar, "help": setting.help,
        }  # fmt: skip
    action = {"action": "append"} if setting.many else {}
    return {**action, "metavar": setting.metavar, "help": setting.help}


def flag(name: str) -> str:
    """Return the option of the setting called `name`."""
    return BY_NAME[name].flag


def given(config: pytest.Config) -> bool:
    """Return whether the command line has any of our options."""
    return any(config.getoption(setting.option) is not None for setting in SETTINGS if setting.on_line)


def ini(config: pytest.Config, key: str) -> Any:
    """An ini value.

    Raises:
        pytest.UsageError: of the wrong type.
    """
    try:
        return config.getini(key)
    except (TypeError, ValueError, pytest.UsageError) as error:  # which of them depends on pytest's version
        expected = BY_OPTION[key].expected if key in BY_OPTION else "a list"
        found = str(error).rpartition(": ")[2].removeprefix("invalid truth value ")
        raise pytest.UsageError(f"{origin(config, key)}: {expected} is expected, not {found}") from None


def origin(config: pytest.Config, key: str) -> str:
    """Return the place an ini key has its value from, for messages: `pytest.ini: bench_attempts`."""
    overridden = any(text.startswith(f"{key}=") for text in config.getoption("override_ini") or ())
    if overridden or config.inipath is None:
        return f"-o {key}"
    return f"{config.inipath.name}: {key}"
