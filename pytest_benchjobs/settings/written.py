"""Profiles and job files as models, made from the table of settings. `settings_schema` publishes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, create_model

from ..sources.complaints import Written
from .setting import Setting
from .table import ALIASES, IN_FILES, SETTINGS
from .types import type_of


def _model(name: str, about: str, settings: Mapping[str, Setting]) -> type[Written]:
    fields: dict[str, Any] = {key: _field(setting) for key, setting in settings.items()}
    return create_model(name, __base__=Written, __doc__=about, **fields)


def _field(setting: Setting) -> tuple[Any, Any]:
    tables = setting.written.merge == "merge" and setting.kind != "matrix"
    if tables or setting.kind in ("extra", "pairs"):
        return type_of(setting), Field(default={}, description=setting.help or None)
    return type_of(setting) | None, Field(default=None, description=setting.help or None)


WrittenBenchmark = _model(
    "WrittenBenchmark",
    "Settings of one benchmark. Any other key is a parameter, for agents and scorers.",
    {setting.name: setting for setting in SETTINGS if setting.per_benchmark},
)
Settings = _model("Settings", "A profile or job file. The keys are those of the options.", IN_FILES)


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of a profile or job file, for editors and for `benchjobs schema`."""
    schema = Settings.model_json_schema(mode="validation")
    properties = schema["properties"]
    for alias, name in ALIASES.items():
        properties[alias] = {**properties[name], "description": f"The same as `{name}`."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
