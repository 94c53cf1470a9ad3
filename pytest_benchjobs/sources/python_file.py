"""Benchmarks in a Python file, for commands that run without pytest."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from ..model.errors import InputError
from .authored import Benchmark


def benchmarks_at(path: Path, *, optional: bool = False) -> list[Benchmark]:
    """Run a Python file, and return the benchmarks in its public variables.

    Raises:
        InputError: it cannot be run, or has none and this is not `optional`.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError("is not a Python file", path=path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(
            f"cannot be imported: {type(error).__name__}: {str(error)[:500]}", path=path
        ) from None
    finally:
        sys.path.remove(str(path.parent))
        if sys.modules.get(path.stem) is module:
            del sys.modules[path.stem]
    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    found = [value for value in values if isinstance(value, Benchmark)]
    if not found and not optional:
        raise InputError("has no Benchmark in a variable of the module", path=path)
    return list({id(one): one for one in found}.values())
