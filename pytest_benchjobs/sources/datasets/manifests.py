"""Benchmarks of native manifests: those that come with the package, and those of other packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.errors import InputError
from ...model.scenario import Scenario
from ..manifest import Manifest, is_manifest

if TYPE_CHECKING:
    from ..catalogue.entry import Entry, Parameters

SAMPLE = "sample"


class _Diagnostic(Manifest):
    """A manifest whose trials measure, and do not fail by what they measure."""

    def load(self, scenario_id: str) -> Scenario:
        """The whole scenario."""
        return super().load(scenario_id).model_copy(update={"diagnostic": True})


def conversations(entry: Entry, directory: Path, given: Parameters) -> Sequence[Manifest]:
    """Return the sources of a benchmark of conversations: strict ones, unless `strict` is false.

    Raises InputError: `strict` is neither true nor false, or a manifest cannot be used.
    """
    strict = given.values.get("strict", True)
    if not isinstance(strict, bool):
        raise InputError(f"{entry.name}: strict: true or false is expected, not {str(strict)[:100]!r}")
    found = sources(entry, directory)
    return found if strict else [_Diagnostic(manifest.path) for manifest in found]


def sources(entry: Entry, directory: Path) -> Sequence[Manifest]:
    """One source for each manifest directly in the directory, in order of name. It names the entry and its version.

    Raises InputError: there is none, one cannot be read, or it is of another benchmark or version.
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

    Raises InputError: another one is wanted.
    """
    wanted = given.values.get("dataset", SAMPLE)
    if wanted != SAMPLE:
        raise InputError(
            f"{entry.name}: dataset: there is only {SAMPLE!r}, which comes with the package, and no "
            f"{str(wanted)[:100]!r}; for other questions write a manifest of your own"
        )
    return sources(entry, directory)
