"""The table of settings: everything that can be said of a job, once. Add a setting by a row here and a typed field.

From it are made pytest's options and ini keys, the options of `benchjobs run` and its like, the keys of profiles and
job files with their JSON Schema, how layers merge, the words a job is called with again, and the groups of `--help`.
`docs/options.md` is checked against it. The typed field, in `JobConfig` or `GateConfig`, has the bounds.

Part of every pytest run of everyone who installed the package: plain data, and only the standard library.
"""

from __future__ import annotations

from . import rows_of_gates, rows_of_models, rows_of_trials
from .setting import Setting

EVERY = "*"
"""The value of `--bench` that stands for every benchmark; so does `--bench` alone."""
ALL = "all"
"""The value of `--bench-max-examples` that lifts the limit which a weaker layer sets."""
LOCAL = "local"
"""The sandbox that needs no Docker."""
GROUPS: tuple[tuple[str, tuple[Setting, ...]], ...] = (
    ("what runs", rows_of_trials.WHAT_RUNS),
    ("agents", rows_of_trials.AGENTS),
    ("attempts, concurrency and time", rows_of_trials.ATTEMPTS),
    ("models", rows_of_models.MODELS),
    ("grading", rows_of_trials.GRADING),
    ("gates", rows_of_gates.GATES),
    ("reuse", rows_of_trials.REUSE),
    ("sandboxes", rows_of_trials.SANDBOXES),
    ("results", rows_of_trials.RESULTS),
    ("for the benchjobs commands", rows_of_trials.OF_COMMANDS),
)
"""Title, as people see it, and the settings below it."""
SETTINGS = tuple(setting for _, settings in GROUPS for setting in settings)
BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_OPTION = {setting.option: setting for setting in SETTINGS if setting.on_line}
"""Ini key, which is pytest's name of the option as well -> setting."""
BY_FLAG = {setting.flag: setting for setting in BY_OPTION.values()}
IN_FILES = {setting.key: setting for setting in SETTINGS if setting.in_files}
"""Key of a profile or job file -> setting."""
ALIASES = {alias: setting.key for setting in SETTINGS for alias in setting.aliases}
"""Other keys in files -> ours."""
