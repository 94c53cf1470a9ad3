"""Python files with benchmarks: their modules, and the `Benchmark` objects in variables of these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from ..model.errors import InputError
from .excerpts import shown

if TYPE_CHECKING:
    from ..sources.authored import Benchmark

CONFTEST = "conftest.py"
AUTHORED = "pytest_benchjobs.sources.authored"
"""Module of `Benchmark`: unless it was imported, there is none."""


def benchmarks_in(module: ModuleType) -> Iterator[tuple[str, Benchmark]]:
    """Yield the benchmarks of a module, each once, by the first public variable that has it."""
    from ..sources.authored import Benchmark

    seen: list[object] = []
    for name, value in list(vars(module).items()):
        if (
            isinstance(value, Benchmark)
            and not name.startswith("_")
            and not any(value is one for one in seen)
        ):
            seen.append(value)
            yield name, value


def conftest_of(config: pytest.Config, path: Path) -> ModuleType | None:
    """Return a conftest.py that pytest has loaded; None if it has not."""
    text = str(path)
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, ModuleType) and getattr(plugin, "__file__", None) == text:
            return plugin
    return None


def conftests(config: pytest.Config) -> Iterator[ModuleType]:
    """Yield the conftest.py files that pytest has loaded."""
    for plugin in config.pluginmanager.get_plugins():
        if isinstance(plugin, ModuleType) and Path(getattr(plugin, "__file__", None) or "").name == CONFTEST:
            yield plugin


def module_at(config: pytest.Config, path: Path) -> ModuleType:
    """Return the module of a Python file, as pytest imports a test module. InputError: it cannot be imported."""
    from .private import import_path

    loaded = conftest_of(config, path)
    if loaded is not None:
        return loaded
    namespaces = {"consider_namespace_packages": bool(config.getini("consider_namespace_packages"))}
    try:
        return import_path(path, mode=config.getoption("importmode"), root=config.rootpath, **namespaces)
    except Exception as error:
        line = _line_in(error, path)
        what = f"{type(error).__name__}: {str(error)[:500]}"
        raise InputError(f"cannot be imported: {what}", path=shown(config, path), line=line) from None


def _line_in(error: BaseException, path: Path) -> int | None:
    """Return the last line of a file that an error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
