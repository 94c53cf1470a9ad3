"""File systems of trials that were kept, as images of the engine.

A container that somebody starts from one inherits its labels, and must not be taken for a left-over of ours: those of
the container (its owner, its deadline) are emptied. Values of the scenario's variables are emptied, too. Only where the
image's own entrypoint was started (`keep_entrypoint`) do old engines tell them with the container an image was made of.

Files with holes are packed: an engine would write the holes out.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import posixpath
import stat
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

from ...model.errors import EngineError, EnvironmentFailed, ImageMissing, InfrastructureError
from ...model.result import ImageRecord
from ...model.scenario import Environment
from ..carry.records import Flag, Kind, Script, records
from ..paths import DEFAULT_PATH
from ..program import PROGRAM
from ..protocol import KEPT, Kept, Sandbox, SandboxSpec
from ..runner import serving
from .engine import LABEL, Engine
from .images import HOLES, ResolvedImage, resolved
from .running import run_program
from .snapshots import references_of

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
_PACKED = f"{posixpath.dirname(PROGRAM)}/holes"
_LEAST = 1 << 20
"""Bytes of holes for which a file is packed."""
_MOST = 64 << 20
"""Bytes of holes that are written out, of files that cannot be packed."""
_SET_ID = stat.S_ISUID | stat.S_ISGID
_PATIENCE = 1800.0


def commit(
    engine: Engine, container: str, name: str, image: ResolvedImage, spec: SandboxSpec, *, holes: bool
) -> str:
    """Make an image of a container as it is now; returns its reference. `holes`: it has files that are packed.

    Raises:
        InfrastructureError: the engine refuses.
    """
    # Laid over those of the container, so what must not stay has to be named. Labels of the trial are there.
    labels = {
        **{LABEL + key: "" for key in _OF_CONTAINERS},
        _KEPT: "1",
        _HOLES: "1" if holes else "",
        _IMAGE: image.record.model_dump_json(),
        _ENVIRONMENT: spec.environment.model_dump_json(include=_LASTING),
    }
    configuration = {
        # The values may be secrets.
        "Env": [f"{name}={image.env.get(name, _DEFAULTS.get(name, ''))}" for name in spec.environment.env],
        "Labels": labels,
        "User": image.user or "root",
        "Entrypoint": list(image.entrypoint),
        "Cmd": ["sh"],
    }
    # The library's own `commit` does not wait long enough.
    query: dict[str, Any] = {"container": container, "repo": _REPOSITORY, "tag": name, "pause": "0"}
    if not engine.dialect.keeps_configuration:
        query["changes"] = [
            *(f"LABEL {label}={quote(value)}" for label, value in labels.items()),
            *(f"{key.upper()} {json.dumps(configuration[key])}" for key in ("Entrypoint", "Cmd")),
            f"USER {configuration['User']}",
        ]
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
    found = []
    for image in images:
        labels = image.get("Labels") or {}
        job, trial, bundle = (labels.get(f"{LABEL}{name}", "") for name in ("job", "trial", "bundle"))
        created = datetime.datetime.fromtimestamp(image["Created"], datetime.UTC)
        for reference in references_of(image):
            # The last layer is its own; there is none of one that was removed meanwhile.
            layers = engine.get(f"/images/{reference}/history") or [{"Size": 0}]
            found.append(Kept(reference, job, trial, bundle, int(layers[0]["Size"]), created))
    return sorted(found, key=lambda one: (one.created, one.reference))


def forget_kept(engine: Engine, reference: str) -> bool:
    """Remove it; whether it is gone now and was there. Never raises."""
    if not reference.startswith(KEPT):
        return False
    with contextlib.suppress(InfrastructureError, OSError), engine.guard():
        # Its parents are the images of others.
        engine.client.remove_image(reference, force=True, noprune=True)
        return True
    return False


def _inspect(engine: Engine, reference: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what the engine says of it, and its labels."""
    found: dict[str, Any] | None = engine.get(f"/images/{reference}/json")
    if found is None:
        raise ImageMissing(
            f"{reference} is no longer on this machine: `benchjobs gc` or someone else removed it, or the trial "
            "ran elsewhere. Run the trial again with --bench-keep"
        )
    labels = (found.get("Config") or {}).get("Labels") or {}
    labels = {name: unquote(value) if value.startswith("%") else value for name, value in labels.items()}
    if _IMAGE not in labels:
        raise ImageMissing(f"{reference} is not an image that was kept from a trial")
    return found, labels


@contextlib.contextmanager
def packed(sandbox: Sandbox, listing: bytes, since_ns: int, *, in_use: bool) -> Iterator[bool]:
    """Have files with holes that were written since then packed inside the context; False: none are.

    None can be packed that is `in_use`: something runs which may have it open.

    Raises:
        EngineError: some cannot be packed.
    """
    files, removals = _with_holes(listing, since_ns, in_use=in_use)
    if not files.written:
        yield False
        return
    try:
        with contextlib.closing(serving(sandbox)) as runner:
            for _ in runner.program(("pack", "-o", _PACKED, "/"), files.pieces()):
                pass
            for _ in runner.program(("unpack", "/"), removals.pieces()):
                pass
        yield True
    finally:
        try:
            unpack(sandbox)
        except InfrastructureError:
            sandbox.kill()  # without these files it is not what the agent left
            raise


def unpack(sandbox: Sandbox) -> None:
    """Have packed files at their places again. Raises EnvironmentFailed: that does not work."""
    status, _ = run_program(sandbox, "unpack", "-i", _PACKED, "/", timeout=_PATIENCE)
    if status != 0:
        raise EnvironmentFailed(f"kept files with holes cannot be unpacked: exit status {status}")


def _with_holes(listing: bytes, since_ns: int, *, in_use: bool) -> tuple[Script, Script]:
    """Return the scripts of files to pack, and of their removal."""
    files, removals, written_out = Script(), Script(), 0
    for record in records(listing):
        files.follow(record)
        removals.follow(record)
        is_ours = record.device == 0 and record.changed_ns >= since_ns
        if record.type != stat.S_IFREG or not is_ours or record.size - record.data < _LEAST:
            continue
        if in_use or record.flags & Flag.LINKED or record.mode & _SET_ID:
            written_out += record.size - record.data
        else:
            files.add(record.turned(Kind.CONTENT))
            removals.add(record.turned(Kind.REMOVE))
    if written_out > _MOST:
        raise EngineError(
            "an engine would write out the holes of files that have several names or set-id bits, or may be in use"
        )
    return files, removals
