"""Forms of single values: samples, shards, lists on a command line, JSON."""

from __future__ import annotations

import importlib.util
import json
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, ValidationError, WithJsonSchema

from ..model.errors import InputError
from ..sources.json_data import load_json
from ..sources.plain import dotted, faults_of_plain

_SHARE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*%")
_REPOSITORY = re.compile(
    r"(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+(?=:))(:\d+)?(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)+"
)
_SHARD = re.compile(r"(?P<part>\d{1,5})/(?P<parts>\d{1,5})")
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
_JOB = re.compile(r"last(~\d+)?|\d{8}-(\d{1,6}|\d{6}-[0-9a-f]{0,6})")
"""Matches names that mean a job by its id or age, and cannot be names of jobs."""
EXPORTS = {
    ".csv": "csv", ".jsonl": "jsonl", ".rl.jsonl": "rl", ".ndjson": "jsonl", ".json": "viewer", ".html": "html",
    ".htm": "html", ".parquet": "parquet", ".md": "markdown", ".prom": "metrics",
}  # fmt: skip
"""Ending of a file with a job's results -> its format; the longest that fits."""
CI_SYSTEMS = ("auto", "off", "github", "gitlab", "jenkins")
_OPENING, _CLOSING = "[{", "]}"


def export_kind(name: str) -> str | None:
    """Return the format that the name of a file suggests, of `EXPORTS`; None: none."""
    endings = filter(name.lower().endswith, EXPORTS)
    return EXPORTS.get(max(endings, key=len, default=""))


def lacks_package(kind: str) -> str | None:
    """Return what to install for a format of `EXPORTS`; None: nothing."""
    if kind != "parquet" or importlib.util.find_spec("pyarrow") is not None:
        return None
    return "Parquet needs pyarrow; install it with: pip install 'pytest-benchjobs[parquet]', or write .csv or .jsonl"


def parse_sample(value: object) -> object:
    """Parse a sample to `10%` or `12`: from such a text, a whole number, or a share between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a share such as 10% or a number of scenarios is expected")
    number: object = value
    whole = isinstance(value, int)
    if isinstance(value, str):
        text = value.strip()
        match = _SHARE.fullmatch(text)
        number = read_number(text) if match is None else float(match["number"]) / 100
        whole = text.isdecimal()
    if whole and isinstance(number, int) and number >= 1:
        return str(number)
    # Floating point does not keep 0.0000001% exactly.
    if isinstance(number, float) and 0.999e-9 <= number <= 1:
        # Without an exponent, which `_SHARE` does not match.
        return f"{number * 100:.9f}".rstrip("0").rstrip(".") + "%"
    raise ValueError(f"{number!r} is not a sample; write a share such as 10%, or a number of scenarios")


def parse_shard(value: object) -> object:
    """Parse a shard, such as `2/4`. ValueError: it is not a shard."""
    match = _SHARD.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not 1 <= int(match["part"]) <= int(match["parts"]):
        raise ValueError(f"{value!r} is not a shard; write I/N, from 1/N to N/N")
    return f"{int(match['part'])}/{int(match['parts'])}"


def parse_job_name(value: object) -> object:
    """Parse the name of a job, without surrounding blanks. ValueError: a job could not be looked up by it."""
    if not isinstance(value, str):
        return value
    name = value.strip()
    if not name:
        raise ValueError("it is empty; give a value, or leave it out")
    if _UNSEEN.search(name):
        raise ValueError("a name is one line, without control characters")
    if _JOB.fullmatch(name):
        raise ValueError(f"{name!r} is reserved for selecting a job by age; choose another name")
    return name


def parse_registry(value: object) -> object:
    """Parse a repository of a registry. ValueError: it is none."""
    if not isinstance(value, str) or not _REPOSITORY.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a repository; write HOST/PATH without scheme, tag and capitals, such as "
            "registry.example.org/team/bench"
        )
    return value


def parse_ci(value: object) -> object:
    """Parse the name of a CI system. ValueError: it is unknown."""
    if value not in CI_SYSTEMS:
        raise ValueError(f"{value!r} is not a known CI system; known are: {', '.join(CI_SYSTEMS)}")
    return value


Sample = Annotated[str, BeforeValidator(parse_sample, json_schema_input_type=str | int | float)]
"""`10%`, or a number of scenarios."""
Shard = Annotated[str, BeforeValidator(parse_shard, json_schema_input_type=str)]
"""`2/4`: the second of four shards."""
JobName = Annotated[str, BeforeValidator(parse_job_name, json_schema_input_type=str)]
"""One line; neither `last` nor like an id."""
Registry = Annotated[str, BeforeValidator(parse_registry, json_schema_input_type=str)]
"""`HOST/PATH`: a repository of a registry."""
CiSystem = Annotated[str, BeforeValidator(parse_ci), WithJsonSchema({"enum": list(CI_SYSTEMS)})]
"""The CI system to write for; `auto`: the one this runs in."""


def read_flag(text: str, blame: str) -> bool:
    """Return what an ini file says of a flag, in pytest's words, which are also pydantic's. InputError: neither."""
    try:
        return TypeAdapter(bool).validate_python(text)
    except ValidationError:
        raise InputError(f"{blame}: true or false is expected, not {text!r}") from None


def read_number(text: str) -> object:
    """Return a number if the text is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_value(text: str) -> Any:
    """Parse JSON if the text is JSON, else return the text. ValueError: no file can have the value, such as NaN."""
    try:
        return read_json(text)
    except json.JSONDecodeError:
        check_plain(text)
        return text


def read_json(text: str) -> Any:
    """Parse JSON that every parser reads alike. ValueError: it is none, has a key twice, NaN, or too much."""
    data = load_json(text)
    check_plain(data)
    return data


def check_plain(data: object) -> None:
    """Check that data is portable. ValueError: it has NaN, a number too large or NUL, or is nested too deeply."""
    for place, problem in faults_of_plain(data):
        raise ValueError(f"{dotted(place)}: {problem}" if place else problem)


def same(one: object, other: object) -> bool:
    """Return whether two values of parameters are the same: 1 is 1.0, but not true."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def split_values(text: str) -> list[str]:
    """Split `a,b` at its commas, except those within brackets or quotes of JSON."""
    parts = [""]
    depth, quoted, escaped = 0, False, False
    for char in text:
        if quoted:
            quoted, escaped = char != '"' or escaped, char == "\\" and not escaped
        elif char == '"' and (depth or not parts[-1].strip()):
            quoted = True
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth = max(0, depth - 1)
        elif char == "," and not depth:
            parts.append("")
            continue
        parts[-1] += char
    return [part.strip() for part in parts]


def overlay(below: Any, above: Any) -> Any:
    """Merge `above` over `below`: tables are merged recursively, anything else is replaced."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: overlay(below.get(key), value) for key, value in above.items()}}
    return above
