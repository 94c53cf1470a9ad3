"""Documents held against the schemas that are published for them."""

from __future__ import annotations

import functools

import jsonschema

from pytest_benchjobs.report.documents import schema_of


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = schema_of(name)
    # Once: it takes a hundred times as long as a document.
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def obeys(document: object, name: str) -> None:
    _validator(name).validate(document)
