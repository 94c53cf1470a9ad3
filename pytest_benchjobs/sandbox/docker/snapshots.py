"""Snapshots: what was kept of a trial, as the environment of other scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.errors import ImageMissing
from ..protocol import KEPT
from .dockerfile import familiar
from .engine import LABEL, Engine


def find_snapshot(engine: Engine, text: str) -> Mapping[str, Any]:
    """Return what the engine says of the image that `JOB/TRIAL`, or the reference of something kept, names.

    TRIAL is the id of a trial, the part of it after the file, or the id of the scenario.

    Raises:
        ImageMissing: it is not on this machine, or several are meant.
    """
    meant = {text: ""} if text.startswith(KEPT) else _kept_of(engine, text)
    if len(meant) > 1:
        listed = "; ".join(f"{tag} of {node_id}" for tag, node_id in sorted(meant.items())[:5])
        raise ImageMissing(
            f"the snapshot {text} may be one of {len(meant)}; name one as `snapshot`: {listed}"
        )
    found = next((engine.get(f"/images/{reference}/json") for reference in meant), None) or {}
    if f"{LABEL}kept" not in ((found.get("Config") or {}).get("Labels") or {}):
        raise ImageMissing(
            f"the snapshot {text} is not on this machine: `benchjobs gc` or `rm` removed it, nothing was kept of it, "
            "or it ran on another machine. Run that trial again with --bench-keep always"
        )
    return dict(found)


def references_of(image: Mapping[str, Any]) -> list[str]:
    """Return the names by which an image of the engine's list was kept; none for others."""
    return [name for name in map(familiar, image.get("RepoTags") or ()) if name.startswith(KEPT)]


def _kept_of(engine: Engine, text: str) -> dict[str, str]:
    """Return the references of what was kept of a `JOB/TRIAL`, each with the id of its trial."""
    job, _, trial = text.partition("/")
    found: dict[str, str] = {}
    for image in engine.client.images(filters={"label": [f"{LABEL}kept=1", f"{LABEL}job={job}"]}):
        node_id = (image.get("Labels") or {}).get(f"{LABEL}trial", "")
        name = node_id.rpartition("::")[2]
        if trial in (node_id, name, name.partition("[")[0]):
            found.update(dict.fromkeys(references_of(image), node_id))
    return found
