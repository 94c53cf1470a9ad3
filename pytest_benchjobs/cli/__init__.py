"""The `benchjobs` command: data on stdout, messages on stderr, one line for an error.

Each command is in a module of its name, or of a command like it; modules with an underscore are shared. `_commands.py`
lists the commands and imports the module of one when it is needed, so that imports all it needs at its top.
`_run_options.py` makes the options of `run` from the table of settings, `_pytest_call.py` calls pytest, `_output.py`
prints. Each function may raise a `click.UsageError` or a `BenchError`, which `main` prints. The room may import all
others but `plugin`. Start with `run.py`, or with `cancel.py` for a command without pytest.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0, 2 for an error in the call or on disk, 1 where stdout cannot be written."""
    # Heavy imports happen here, those of a command when it runs: `--help` and completion stay quick.
    import click

    from ..model.errors import BenchError
    from ..store.files import DISK_ERRORS
    from ._commands import benchjobs

    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks must not fail the command.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        _refuse_empty(sys.argv[1:] if arguments is None else arguments)
        status = benchjobs.main(args=arguments, prog_name="benchjobs", standalone_mode=False)
        # Report an error of stdout here, before the interpreter does at exit. `sys.stdout` may be None.
        print(end="", flush=True)  # noqa: T201
    except click.UsageError as error:
        # click puts choices on lines of their own.
        said = " ".join(error.format_message().split()).rstrip(".")
        where = "benchjobs" if error.ctx is None else error.ctx.command_path
        _fail(f"{said}{'' if said.endswith('?') else '.'} See `{where} --help`")
    except click.ClickException as error:
        _fail(error.format_message())
    except BenchError as error:
        _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The reader closed the pipe.
        _close_stdout()
        sys.exit(141)
    except OSError as error:
        if error.errno not in DISK_ERRORS or error.filename is not None:
            raise
        _close_stdout()
        _fail(f"stdout: cannot be written: {error.strerror}", 1)
    sys.exit(status if isinstance(status, int) else 0)


def _refuse_empty(words: Sequence[str]) -> None:
    """Refuse an argument that is empty, as by a variable that is not set. What follows `--` is for pytest."""
    import click

    before = ""
    for word in itertools.takewhile("--".__ne__, words):
        option, equals, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if equals and not value.strip():
            name = option if option.startswith("-") else "an argument"
            raise click.UsageError(f"{name}: it is empty; give a value, or leave it out")
        before = word


def _close_stdout() -> None:
    """Point stdout to /dev/null: Python would report the error again when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int = 2) -> None:
    from ..store.text import clean, harmless

    print(harmless(f"benchjobs: {clean(message, 4000)}"), file=sys.stderr)  # noqa: T201
    sys.exit(status)
