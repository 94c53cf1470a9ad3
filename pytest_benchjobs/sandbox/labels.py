"""What is written on things that are left in an engine: whose they are, and until when they are of use. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ..model.job import Owner
from ..model.owner import is_alive


def abandoned(
    labels: Mapping[str, str], me: Owner, now: float, prefix: str = "benchjobs.", *, shared: bool = False
) -> bool:
    """Return True if the thing with these labels is of a dead process, or past its deadline.

    `shared`: by machines that may have one name.
    """
    owner = parse_owner(labels, prefix)
    if owner is not None and owner.host == me.host and (not shared or owner.boot == me.boot):
        return not is_alive(owner)
    try:
        return now > float(labels[prefix + "deadline"])
    except (KeyError, ValueError):
        return False


def parse_owner(labels: Mapping[str, str], prefix: str) -> Owner | None:
    """The owner that is written on a thing; None when it is not written properly."""
    parts = labels.get(prefix + "owner", "").split("/")
    if len(parts) != 3 or not parts[1].isdigit() or prefix + "host" not in labels:
        return None
    return Owner(host=labels[prefix + "host"], boot=parts[0], pid=int(parts[1]), started=parts[2])
