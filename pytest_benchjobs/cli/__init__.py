"""The `benchjobs` command: data on stdout, talk on stderr, one line for an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0, or 2 for a mistake or a directory that refuses."""
    # Heavy imports wait until here, and those of a command until it runs: `--help` and completion stay quick.
    import click

    from ..model.errors import BenchError
    from .commands import benchjobs

    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding does not know is no reason to fail.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        status = benchjobs.main(args=arguments, prog_name="benchjobs", standalone_mode=False)
    except click.UsageError as error:
        # click puts choices on lines of their own.
        _fail(f"{' '.join(error.format_message().split()).rstrip('.')}. See `benchjobs --help`")
    except click.ClickException as error:
        _fail(error.format_message())
    except BenchError as error:
        _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The reader has seen enough. Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str) -> None:
    from ..store.text import clean, harmless

    print(harmless(f"benchjobs: {clean(message, 4000)}"), file=sys.stderr)  # noqa: T201
    sys.exit(2)
