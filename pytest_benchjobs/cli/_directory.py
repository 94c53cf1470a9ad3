"""Options of commands for the results directory: `--dir`, else that of the project around the current directory."""

from __future__ import annotations

from pathlib import Path

import click

from ..store.project import default_directory

FILE = click.Path(dir_okay=False, path_type=Path)
DIRECTORY = click.Path(file_okay=False, path_type=Path)


directory_option = click.option(
    "--dir",
    "directory",
    type=DIRECTORY,
    default=default_directory,
    show_default="bench_dir of the ini file, else reports/ of the project",
    help="Where jobs and the history are.",
)
