"""Snapshots: what was kept of a trial, as the environment of other scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.errors import ImageMissing
from ..protocol import KEPT
from .engine import LABEL, Engine

_GONE = (
    "is not on this machine: `benchjobs gc` or `rm` removed it, nothing was kept of it, or it ran on another machine. "
    "Run that trial again with --bench-keep always"
)


def find_snapshot(engine: Engine, text: str) -> Mapping[str, Any]:
    """Return what the engine says of the image that `JOB/TRIAL`, or the reference of something kept, names.

    TRIAL is the id of a trial, the part of it after the file, or the id of the scenario.

    Raises:
        ImageMissing: it is not on this machine, or several are meant.
    """
    reference = text if text.startswith(KEPT) else _reference(engine, text)
    found = engine.get(f"/images/{reference}/json")
    labels = ((found or {}).get("Config") or {}).get("Labels") or {}
    if found is None or f"{LABEL}kept" not in labels:
        raise ImageMissing(f"the snapshot {text} {_GONE}")
    return dict(found)


def _reference(engine: Engine, text: str) -> str:
    job, _, trial = text.partition("/")
    images = engine.client.images(filters={"label": [f"{LABEL}kept=1", f"{LABEL}job={job}"]})
    found: dict[str, str] = {
        tag: node_id
        for image in images
        for tag in image.get("RepoTags") or ()
        if tag.startswith(KEPT)
        and _is_meant(node_id := (image.get("Labels") or {}).get(f"{LABEL}trial", ""), trial)
    }
    if not found:
        raise ImageMissing(f"the snapshot {text} {_GONE}")
    if len(found) > 1:
        listed = "; ".join(f"{tag} of {node_id}" for tag, node_id in sorted(found.items())[:5])
        raise ImageMissing(
            f"the snapshot {text} may be one of {len(found)}; name one as `snapshot`: {listed}"
        )
    return next(iter(found))


def _is_meant(node_id: str, trial: str) -> bool:
    name = node_id.rpartition("::")[2]
    return trial in (node_id, name, name.partition("[")[0])
