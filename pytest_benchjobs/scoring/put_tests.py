"""Files of scorers, put into the sandbox when the agent has ended: a tests directory, or one file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..sandbox.protocol import File
from .protocol import VERIFIER_DIRECTORY, ScoringContext

TESTS_DIRECTORY = "/tests"
TEST_SCRIPT = "test.sh"


def put_tests(context: ScoringContext, *paths: Path | None) -> None:
    """Put tests in the place of whatever is in `/tests`, each path over those before, and empty the reward directory.

    Any user can read them, and run `test.sh`. Without a path, the tests of the image stay.
    """
    files = [context.empty(VERIFIER_DIRECTORY, directory=True)]
    for path in filter(None, paths):
        files += _files_of(path, clean=len(files) == 1)
    context.sandbox.put(files)


def _files_of(path: Path, *, clean: bool) -> Iterator[File]:
    if path.is_file():
        yield File(TESTS_DIRECTORY, clean=clean)
        yield File(f"{TESTS_DIRECTORY}/{path.name}", source=path, readable=True)
        return
    yield File(TESTS_DIRECTORY, source=path, clean=clean, readable=True)
    script = path / TEST_SCRIPT
    if script.is_file():
        # Most repositories have it with mode 0644, and only root could change that in the sandbox.
        yield File(f"{TESTS_DIRECTORY}/{TEST_SCRIPT}", source=script, mode=0o755)
