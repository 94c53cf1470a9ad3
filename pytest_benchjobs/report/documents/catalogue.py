"""Documents of `benchmarks list` and `benchmarks show`."""

from __future__ import annotations

import datetime

from ...model.base import Model
from ...sources.catalogue.verdicts import Verdicts
from . import Document


class CatalogueItem(Model):
    """A benchmark that is known by name."""

    name: str
    version: str | None
    title: str
    aliases: tuple[str, ...] = ()
    scenarios: int | None
    """Number of scenarios according to its authors; null: unknown."""
    fetched: bool | None
    """True if all of it is on this machine; null: there is nothing to fetch."""
    here: int | None = None
    """Number of its scenarios on this machine."""


class CatalogueDocument(Document):
    """`benchjobs benchmarks list`."""

    benchmarks: tuple[CatalogueItem, ...]


class CatalogueEntryDocument(Document):
    """`benchjobs benchmarks show`."""

    benchmark: CatalogueItem
    homepage: str = ""
    licence: str = ""
    environment: str = ""
    scoring: str = ""
    attempts: int = 1
    confidential: bool = False
    gated: str | None = None
    origins: tuple[str, ...] = ()
    parameters: dict[str, str] = {}
    """Parameters by which a job says what the benchmark consists of -> their meaning."""
    exceptions: dict[str, str] = {}
    """Scenarios known to be broken -> the reason."""
    published: dict[str, float] = {}
    directory: str | None = None
    trouble: str | None = None
    """Reason why the fetched directory cannot be used."""
    origin: str | None = None
    """Source it was fetched from."""
    fetched_at: datetime.datetime | None = None
    bytes: int | None = None
    checked: Verdicts | None = None
    run: str = ""
    """Command that runs the benchmark."""
