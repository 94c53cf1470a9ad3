"""Benchmarks of native manifests: those that come with the package, and those of other packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.errors import InputError
from ..manifest import Manifest, is_manifest

if TYPE_CHECKING:
    from ..catalogue.entry import Entry, Parameters

SAMPLE = "sample"


def sources(entry: Entry, directory: Path) -> Sequence[Manifest]:
    """One source for each manifest directly in the directory, in order of name. It names the entry and its version.

    Raises:
        InputError: there is none, one cannot be read, or it is of another benchmark or version.
    """
    try:
        found = [Manifest(path) for path in sorted(directory.iterdir()) if is_manifest(path)]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=directory) from None
    if not found:
        raise InputError("there is no *.bench.yaml or *.bench.toml here", path=directory)
    for manifest in found:
        if (manifest.benchmark, manifest.version) != (entry.name, entry.version):
            named = f"{manifest.benchmark}@{manifest.version or 'no version'}"
            raise InputError(f"is of {named}, and not of {entry}", path=manifest.path)
    return found


def samples(entry: Entry, directory: Path, given: Parameters) -> Sequence[Manifest]:
    """Return the sources of a benchmark whose only `dataset` is its sample.

    Raises:
        InputError: another one is wanted.
    """
    wanted = given.values.get("dataset", SAMPLE)
    if wanted != SAMPLE:
        raise InputError(
            f"{entry.name}: dataset: there is only {SAMPLE!r}, which comes with the package, and no "
            f"{str(wanted)[:100]!r}; for other questions write a manifest of your own"
        )
    return sources(entry, directory)
