"""Patches as the reference solution of a row."""

from __future__ import annotations

from ...model.scenario import Reference

_END = "BENCHJOBS_END_OF_REFERENCE_PATCH"
_SCRIPT = f"""\
cat >/tmp/reference.patch <<'{_END}'
%s
{_END}
git apply --verbose /tmp/reference.patch || patch --batch --forward --fuzz=5 -p1 -i /tmp/reference.patch
"""


def reference_patch(patch: str) -> Reference:
    """Return the reference that applies a patch in the workdir."""
    return Reference(script=_SCRIPT % patch.removesuffix("\n"))
