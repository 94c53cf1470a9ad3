"""Hooks by which other plugins and conftest.py files add agents, scorers, sandboxes and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .agents.protocol import Agent
    from .sandbox.protocol import SandboxProvider
    from .scoring.protocol import Scorer
    from .sources.catalogue.entry import Entry
    from .sources.protocol import Source


@pytest.hookspec
def pytest_benchjobs_agents(config: pytest.Config) -> Iterable[Agent] | None:
    """Add agents. Called once, when the first trial is planned.

    ::

        def pytest_benchjobs_agents(config):
            return [MyAgent()]
    """


@pytest.hookspec
def pytest_benchjobs_scorers(config: pytest.Config) -> Mapping[str, Scorer] | None:
    """Add scorers, by the name a manifest uses as `type`.

    ::

        def pytest_benchjobs_scorers(config):
            return {"line-count": lambda context: float(context.run("wc -l < out.txt")[1].strip() == "3")}
    """


@pytest.hookspec
def pytest_benchjobs_benchmarks(
    config: pytest.Config,
) -> Mapping[str, Path | str | Entry | Source | Sequence[Source]] | None:
    """Add benchmarks, by the name given to `--bench`.

    A benchmark is the path of a manifest, of a directory of manifests or task directories, or of an entry of a
    catalogue (`*.benchmark.toml`); or such an `Entry`; or a `Benchmark`; or a `Source`, or several: objects that list
    scenarios cheaply (`refs`), and make one when it runs (`load`).

    ::

        def pytest_benchjobs_benchmarks(config):
            return {"ours": config.rootpath / "benchmarks" / "ours.bench.yaml", "rows": Rows("rows.jsonl")}
    """


@pytest.hookspec
def pytest_benchjobs_sandboxes(config: pytest.Config) -> Mapping[str, type[SandboxProvider]] | None:
    """Add places to run trials in, by the name given to `--bench-sandbox` (`pytest_benchjobs.sandboxes`)."""
