"""The few sentences of an engine that decide something, where no state tells: each with the versions that say it.

What they decide may be wrong for an engine that says it otherwise: then something takes longer, or is shown as the
refusal that it is. No score depends on them.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Words:
    """Sentences with one meaning, in lower case."""

    means: str
    signs: tuple[str, ...]
    seen: str
    """Engines that say it."""

    def __contains__(self, text: object) -> bool:
        low = str(text).lower()
        return any(sign in low for sign in self.signs)


DISK_FULL = Words(
    "the engine's disk is full",
    ("no space left on device", "disk quota exceeded"),
    "Docker 20.10 to 29, Podman 4 and 5",
)
NO_SUCH_PATH = Words(
    "a path of a container leads nowhere",
    ("could not find the file", "not a directory", "too many l"),
    "Docker 20.10 to 29, Podman 4 and 5",
)
FILES_NOT_SEEN = Words(
    "the engine does not see files of this machine",
    ("bind source path does not exist", "making volume mountpoint"),
    "Docker 20.10 to 29, Podman 4 and 5 without root",
)
OWN_FAULT = Words(
    "a command cannot be started, for a reason of its own",
    ('exec: "', "executable file `", "unable to find user", "unable to find group", "chdir to cwd"),
    "runc 1.1; crun, which was not tried",
)
NO_COMMAND = Words(
    "a command was not started; whether one that says so was, events tell",
    (": oci runtime", ": oci permission denied"),
    "Podman 4 and 5",
)
NOT_GIVEN = Words(
    "a registry does not have an image, does not give it, or does not take one",
    (
        ": not found",
        "denied",
        "unauthorized",
        "authentication",
        "no basic auth",
        "name unknown",
        "manifest unknown",
        "no matching manifest",
        "invalid",
    ),
    "Docker 20.10 to 29",
)
TOO_OFTEN = Words(
    "a registry is asked too often",
    ("too many requests", "toomanyrequests", "429"),
    "Docker 20.10 to 29",
)
BUILDER_GONE = Words(
    "a builder did not live to see the end of a build",
    ("code = unavailable", "context deadline exceeded"),
    "buildx 0.13 with its driver `remote`",
)
TABLE = (DISK_FULL, NO_SUCH_PATH, FILES_NOT_SEEN, OWN_FAULT, NO_COMMAND, NOT_GIVEN, TOO_OFTEN, BUILDER_GONE)
