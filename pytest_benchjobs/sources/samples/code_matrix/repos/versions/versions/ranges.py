"""Ranges: `1.2.3`, `^1.2`, `~1.2.3`, `>=1.2`."""

from .parsing import Version, parse


def fits(version, wanted):
    """True if a version is in a range. Pre-releases are in no range but their own."""
    found = parse(version) if isinstance(version, str) else version
    operator = next((one for one in ("^", "~", ">=") if wanted.startswith(one)), "")
    least = _whole(wanted.removeprefix(operator))
    if found.pre:
        return found == least
    if operator == ">=":
        return found >= least
    if operator == "":
        return found == least
    return least <= found < _end(operator, least)


def newest(versions, wanted):
    """The newest version in a range, as it was written; None if there is none."""
    found = [version for version in versions if fits(version, wanted)]
    return max(found, key=parse, default=None)


def _whole(text):
    core = text.partition("-")[0].split(".")
    missing = ".0" * (3 - len(core))
    return parse(text if not missing else f"{text}{missing}")


def _end(operator, least):
    major, minor, _ = least.numbers
    return Version((major + 1, 0, 0)) if operator == "^" else Version((major, minor + 1, 0))
