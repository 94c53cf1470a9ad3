"""Options of commands for the results directory: `--dir`, else that of the project around the current directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ..store.project import default_directory


class GivenPath(click.Path):
    """A path that need not exist, but can."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return it as a `Path`."""
        found = super().convert(value, param, ctx)
        try:
            os.lstat(found)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError) as error:
            self.fail(f"{value[:100]!r}: {getattr(error, 'strerror', None) or error}", param, ctx)
        return found


FILE = GivenPath(dir_okay=False, path_type=Path)
DIRECTORY = GivenPath(file_okay=False, path_type=Path)


directory_option = click.option(
    "--dir",
    "directory",
    type=DIRECTORY,
    default=default_directory,
    show_default="bench_dir of the ini file, else reports/ of the project",
    help="Where jobs and the history are.",
)
