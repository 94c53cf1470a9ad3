"""Registry files of Harbor: lists of datasets, each of task directories at commits of git repositories."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from ...model.base import Model
from ...model.errors import InputError
from ..complaints import first_mistake
from ..documents import read_text
from .entry import Entry

_SOURCE = "pytest_benchjobs.sources.datasets.harbor_tasks:sources"
_MAX_BYTES = 256 << 20


class _Task(Model, extra="ignore"):
    name: str
    git_url: str
    git_commit_id: str | None = None
    path: str


class _Dataset(Model, extra="ignore"):
    name: str
    version: str = "1"
    description: str = ""
    tasks: tuple[_Task, ...] = Field(min_length=1)


@functools.cache
def _datasets() -> TypeAdapter[list[_Dataset]]:
    return TypeAdapter(list[_Dataset])


def read_registry(path: Path) -> tuple[list[Entry], list[str]]:
    """Read the entries of a registry file, the newest version of each name first, and why others are unusable.

    Raises InputError: it is not a registry file.
    """
    try:
        datasets = _datasets().validate_python(json.loads(read_text(path, limit=_MAX_BYTES)))
    except ValidationError as error:
        raise InputError(f"is not a Harbor registry: {first_mistake(error)}", path=path) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not a Harbor registry: {str(error)[:300]}", path=path) from None
    found: list[Entry] = []
    problems: list[str] = []
    for dataset in datasets:
        try:
            found.append(Entry.model_validate(_written(dataset)))
        except ValidationError as error:
            problems.append(f"{dataset.name}@{dataset.version}: {first_mistake(error)}"[:300])
    found.sort(key=_age, reverse=True)
    return found, problems


def _written(dataset: _Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "version": dataset.version,
        "title": " ".join(dataset.description.split())[:200] or dataset.name,
        "source": _SOURCE,
        "scenarios": len(dataset.tasks),
        "licence": "unknown: the registry names none",
        "environment": "a container for each task, as its task.toml says",
        "scoring": "each task's own tests",
        "git": list(_origins(dataset)),
    }


def _origins(dataset: _Dataset) -> Iterator[dict[str, Any]]:
    """One origin for each commit, with a directory for each task, named after it."""
    placed: dict[tuple[str, str | None], dict[str, str]] = {}
    for task in dataset.tasks:
        placed.setdefault((task.git_url, task.git_commit_id), {})[task.path.strip("/")] = task.name
    for (url, commit), places in placed.items():
        yield {"repository": url, "commit": commit or "none", "placed": places}


def _age(entry: Entry) -> tuple[tuple[int, str], ...]:
    """Key that sorts versions by their numbers."""
    parts = entry.version.replace("-", ".").split(".")
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)
