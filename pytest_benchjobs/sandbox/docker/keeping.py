"""File systems of trials that were kept, as images of the engine.

They are images like any other, but for their labels. Those of the container (its owner, its deadline) are emptied:
a container that somebody starts from such an image inherits labels, and must not be taken for a left-over of ours.
Values of the scenario's variables are emptied too. Only where the image's own entrypoint was started
(`keep_entrypoint`) do old engines remember them, in what they tell of the container an image was made of.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import docker.errors

from ...model.errors import ImageMissing, InfrastructureError
from ...model.result import ImageRecord
from ...model.scenario import Environment
from ..paths import DEFAULT_PATH
from ..protocol import KEPT, Kept, SandboxSpec
from .engine import LABEL, Engine
from .images import HOLES, ResolvedImage, resolved
from .library import ERRORS

_REPOSITORY = KEPT.removesuffix(":")
_KEPT = f"{LABEL}kept"
_IMAGE = f"{LABEL}image-record"
_ENVIRONMENT = f"{LABEL}environment"
_HOLES = f"{LABEL}{HOLES}"
# What a container that starts from it needs to be like the trial's. Nothing that may be a secret, no path of a host.
_LASTING = {"workdir", "user", "cpus", "memory", "storage", "pids", "gpus", "allow_sudo"}
_OF_CONTAINERS = ("owner", "host", "deadline")
_DEFAULTS = {"PATH": DEFAULT_PATH}
# A file system of some gigabytes takes minutes to copy.
_COMMIT_TIMEOUT = 1800


def commit(
    engine: Engine, container: str, name: str, image: ResolvedImage, spec: SandboxSpec, *, holes: bool
) -> str:
    """Make an image of a container as it is now; returns its reference. `holes`: it has files that are packed.

    Raises:
        InfrastructureError: the engine refuses.
    """
    configuration = {
        # Laid over those of the container, so what must not stay has to be named. The values may be secrets.
        "Env": [f"{name}={image.env.get(name, _DEFAULTS.get(name, ''))}" for name in spec.environment.env],
        "Labels": {
            **{LABEL + key: value for key, value in spec.labels.items()},
            **{LABEL + key: "" for key in _OF_CONTAINERS},
            _KEPT: "1",
            _HOLES: "1" if holes else "",
            _IMAGE: image.record.model_dump_json(),
            _ENVIRONMENT: spec.environment.model_dump_json(include=_LASTING),
        },
        "User": image.user or "root",
        "Entrypoint": list(image.entrypoint),
        "Cmd": ["sh"],
    }
    # The library's own `commit` does not wait long enough.
    query = {"container": container, "repo": _REPOSITORY, "tag": name, "pause": "0"}
    engine.post("/commit", configuration, _COMMIT_TIMEOUT, **query)
    return f"{KEPT}{name}"


def kept_image(engine: Engine, reference: str) -> ResolvedImage:
    """Return what was kept, to start from. Its record is that of the image the trial began with.

    Raises:
        ImageMissing: it is not there.
    """
    found, labels = _inspect(engine, reference)
    return resolved(found, ImageRecord.model_validate_json(labels[_IMAGE]))


def environment_of(engine: Engine, reference: str) -> Environment:
    """The workdir, user and limits of the trial that something was kept of; no variables, no network.

    Raises:
        ImageMissing: it is not there.
    """
    found, labels = _inspect(engine, reference)
    environment = Environment.model_validate_json(labels.get(_ENVIRONMENT, "{}"))
    user = environment.user or found["Config"].get("User") or None
    return environment.model_copy(update={"network": "none", "user": user})


def kept(engine: Engine) -> list[Kept]:
    """All that was kept, the oldest first."""
    images = engine.client.images(filters={"label": f"{_KEPT}=1"})
    found = [
        _described(engine, image, reference)
        for image in images
        for reference in image.get("RepoTags") or ()
        if reference.startswith(KEPT)
    ]
    return sorted(found, key=lambda one: (one.created, one.reference))


def forget_kept(engine: Engine, reference: str) -> bool:
    """Remove it; whether it is gone now and was there. Never raises."""
    if not reference.startswith(KEPT):
        return False
    try:
        # Its parents are the images of others.
        engine.client.remove_image(reference, force=True, noprune=True)
    except (InfrastructureError, *ERRORS, OSError):
        return False
    return True


def _inspect(engine: Engine, reference: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the engine says of it, and its labels."""
    try:
        found: dict[str, Any] = engine.client.inspect_image(reference)  # type: ignore[no-untyped-call]
    except docker.errors.NotFound:
        raise ImageMissing(
            f"{reference} is no longer on this machine: `benchjobs gc` or someone else removed it, or the trial "
            "ran elsewhere. Run the trial again with --bench-keep"
        ) from None
    labels = (found.get("Config") or {}).get("Labels") or {}
    if _IMAGE not in labels:
        raise ImageMissing(f"{reference} is not an image that was kept from a trial")
    return found, labels


def _described(engine: Engine, image: Mapping[str, Any], reference: str) -> Kept:
    labels = image.get("Labels") or {}
    return Kept(
        reference=reference,
        job=labels.get(f"{LABEL}job", ""),
        trial=labels.get(f"{LABEL}trial", ""),
        bundle=labels.get(f"{LABEL}bundle", ""),
        bytes=_own_bytes(engine, reference),
        created=datetime.datetime.fromtimestamp(image["Created"], datetime.UTC),
    )


def _own_bytes(engine: Engine, reference: str) -> int:
    """Return what the last layer takes; 0 for one that was removed meanwhile."""
    try:
        layers = engine.client.history(reference)  # type: ignore[no-untyped-call]
    except docker.errors.NotFound:
        return 0
    return int(layers[0]["Size"]) if layers else 0
