"""Documents that are made of what has their fields."""

from __future__ import annotations

import pydantic
import pytest

from pytest_benchjobs.model.base import Model
from pytest_benchjobs.report.documents import Document, mirror


class Part(Model):
    name: str
    size: int


class Whole(Document):
    name: str
    part: Part
    known: bool = False


class Source:
    schema_version = 7
    name = "source"
    part = "not one"
    other = 1


def test_fields_of_the_same_name_are_taken_and_what_is_given_goes_before() -> None:
    part = Part(name="p", size=1)
    assert mirror(Whole, Source(), part=part) == Whole(name="source", part=part)
    assert mirror(Part, part, size=2) == Part(name="p", size=2)
    assert mirror(Whole, Source(), part=part).schema_version == 1, "a document counts its versions itself"


def test_what_is_nowhere_or_of_the_wrong_kind_is_an_error() -> None:
    with pytest.raises(pydantic.ValidationError, match="size"):
        mirror(Part, Source())
    with pytest.raises(pydantic.ValidationError, match="part"):
        mirror(Whole, Source())
