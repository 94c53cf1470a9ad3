"""The template that people merge into every Pod: a YAML file with the parts of a Pod that are theirs to say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ...model.errors import EngineUnavailable

_OURS = (
    *("restartPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds"),
    *(
        "hostPID",
        "hostNetwork",
        "shareProcessNamespace",
    ),  # the first process has to be ours, and alone at its address
)
_NAMED = ("containers", "initContainers", "volumes")


def read_template(path: Path | None) -> Mapping[str, Any]:
    """Return what is in it; EngineUnavailable: it cannot be read, or says what trials depend on."""
    if path is None:
        return {}
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise EngineUnavailable(f"{path}: the template of Pods cannot be read: {error}") from error
    if not isinstance(found, Mapping) or set(found) - {"apiVersion", "kind", "metadata", "spec"}:
        raise EngineUnavailable(
            f"{path}: it is no template of Pods; it has `metadata` and `spec`, as a Pod has"
        )
    spec, metadata = found.get("spec") or {}, found.get("metadata") or {}
    if not isinstance(spec, Mapping) or not isinstance(metadata, Mapping):
        raise EngineUnavailable(f"{path}: `metadata` and `spec` of the template have names with values")
    if ours := [key for key in _OURS if key in spec]:
        raise EngineUnavailable(f"{path}: spec.{ours[0]} is not the template's to say")
    for key in _NAMED:
        if key in spec and not _are_named(spec[key]):
            raise EngineUnavailable(f"{path}: spec.{key} of the template is a list of things with a `name`")
    return {
        "metadata": {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)},
        "spec": spec,
    }


def _are_named(listed: object) -> bool:
    return isinstance(listed, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in listed
    )
