"""What the fixtures `bench_env` and `bench_files` of a project provide, made part of a scenario."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from ..job.ticket import Provided
from ..model.environ import HOST, Variable
from ..system.paths import exists
from ..system.redact import looks_secret
from ..system.temporary import temporary_directory

ENV, FILES = "bench_env", "bench_files"
"""Fixtures that provide variables and files for trials, if a project has them."""
GIVING = (ENV, FILES)


class Providing:
    """Keeps what fixtures provide until `close`: content in files, secrets among the variables of this machine."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._directory: Path | None = None
        self._number = 0

    def of(self, values: Mapping[str, object]) -> Provided | None:
        """Return what the values of fixtures provide; None if none of them does.

        Raises TypeError: a value is of a wrong type; FileNotFoundError: a file does not exist.
        """
        if not any(name in values for name in GIVING):
            return None
        env = _table(ENV, values.get(ENV))
        files = _table(FILES, values.get(FILES))
        for name, value in env.items():
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                raise TypeError(f"fixture {ENV}: the value of {name} is not a text; give str")
        return Provided(
            {name: self._variable(name, str(value)) for name, value in env.items()},
            {path: self._file(path, content) for path, content in files.items()},
        )

    def close(self) -> None:
        """Forget everything. No trial may need it any more."""
        self._stack.close()

    def _variable(self, name: str, value: str) -> str:
        """Return the value for a manifest. A secret is looked up when it is needed, and so redacted everywhere."""
        if not looks_secret(name, value):
            return value
        self._number += 1
        hidden = f"BENCH_FIXTURE_{self._number}_{name}"
        self._stack.callback(HOST.lay_below({**HOST.below, hidden: Variable(value, f"fixture {ENV}")}))
        return f"${{{hidden}}}"

    def _file(self, path: str, content: object) -> Path:
        if isinstance(content, Path):
            if not exists(content):
                raise FileNotFoundError(
                    f"fixture {FILES}: there is no {content}, which trials need as {path}"
                )
            return content.absolute()
        if not isinstance(content, str | bytes):
            raise TypeError(
                f"fixture {FILES}: the value of {path} is neither a Path, nor content as str or bytes"
            )
        if self._directory is None:
            self._directory = self._stack.enter_context(temporary_directory("fixtures"))
        self._number += 1
        file = self._directory / str(self._number)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file


def _table(name: str, value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and key for key in value):
        raise TypeError(
            f"fixture {name} gave a value of type {type(value).__name__}; return a dict with texts as keys"
        )
    return value
