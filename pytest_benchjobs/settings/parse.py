"""Parser of values of settings on a command line or in an ini file: one text, or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..model.errors import InputError
from .agents import read_agent
from .matrix import parse_parameters
from .setting import Setting, check_given
from .table import ALL
from .types import validated
from .values import read_number, read_value


def parse(setting: Setting, written: Any, blame: str, directory: Path | None = None) -> Any:
    """Parse the value of a setting for a layer. `blame` is the name of its place.

    Paths in a value are relative to `directory`.

    Raises InputError: it is wrong; the message begins with `blame`.
    """
    try:
        check_given(written, blame, many=setting.many)
    except ValueError as error:
        raise InputError(str(error)) from None
    if setting.kind == "extra":
        from .extra import extra_layer  # imports the models of whole files

        return [extra_layer(text, directory or Path(), blame) for text in written]
    try:
        if setting.kind == "agents":
            return [read_agent(text, directory or Path()) for text in written]
        return _value(setting, written)
    except (InputError, ValueError) as error:
        raise InputError(f"{blame}: {error}") from None


def _value(setting: Setting, written: Any) -> Any:
    match setting.kind:
        case "matrix":
            return parse_parameters(written)
        case "values":
            return {key: read_value(value) for key, value in _pairs(setting, written)}
        case "pairs":
            return _pairs(setting, written)
        case "most" if written == ALL:
            return None
        case "texts":
            return list(written)
    read = _READ.get(setting.kind)
    return validated(setting, read(setting, written) if read else written)


def _number(_setting: Setting, written: object) -> object:
    return read_number(written) if isinstance(written, str) else written


def _whole(_setting: Setting, written: object) -> object:
    """Read a whole number; `1e6` is one."""
    number = _number(_setting, written)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _pairs(setting: Setting, texts: Iterable[str]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{text!r} is not of the form {setting.metavar}")
        if setting.kind == "secrets" and not value:
            raise ValueError(f"{text} names no secret; write {setting.metavar}")
        pairs.append((key.strip(), value))
    return pairs


def _scenarios(_setting: Setting, texts: Iterable[str]) -> list[str]:
    patterns = [part.strip() for text in texts for part in text.split(",")]
    if not any(patterns):
        raise ValueError("it is empty; name a scenario, or leave it out")
    return [pattern for pattern in patterns if pattern]


def _names(_setting: Setting, texts: Iterable[str]) -> list[str]:
    names = [part.strip() for text in texts for part in text.split(",")]
    if not all(names):
        raise ValueError("a name is empty; leave it out")
    return names


def _by_name(setting: Setting, texts: Iterable[str]) -> dict[str, str]:
    """Parse `X` for all, or `NAME=X` for one."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        key = name.strip() if equals else "*"
        if not key or key in found:
            of_models = setting.kind == "rates"
            form = "N, or PROVIDER=N once for each provider" if of_models else "X, or NAME=X once for each"
            raise ValueError(f"{text!r}: write {form}{'' if of_models else ' benchmark or agent'}")
        found[key] = value.strip()
    return found


_READ: dict[str, Callable[[Setting, Any], Any]] = {
    **dict.fromkeys(("whole", "most"), _whole),
    "number": _number,
    **dict.fromkeys(
        ("table", "map", "variables", "secrets", "noise"),
        lambda setting, texts: dict(_pairs(setting, texts)),
    ),
    "scenarios": _scenarios,
    "names": _names,
    "rates": lambda setting, texts: {
        name: _whole(setting, value) for name, value in _by_name(setting, texts).items()
    },
    "floors": _by_name,
}
