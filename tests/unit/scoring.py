"""Scorers, run for what an agent left in a directory that plays the container."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from pytest_benchjobs.model.result import ScorerResult
from pytest_benchjobs.model.scenario import Environment, ScorerSpec
from pytest_benchjobs.sandbox.protocol import File, SandboxSpec
from pytest_benchjobs.scoring.grade import make_context, run_scorer
from pytest_benchjobs.scoring.protocol import Scorer
from pytest_benchjobs.testing import FakeProvider, FakeSandbox

from .records import OWNER, trial

Files = Mapping[str, str | bytes]


@contextlib.contextmanager
def left(files: Files = MappingProxyType({}), setup: str = "true") -> Iterator[FakeSandbox]:
    """Yield a sandbox with these files in its workdir, after the agent's last command."""
    environment = Environment(image="x", workdir="/app")
    sandbox = FakeProvider(OWNER).start(SandboxSpec(environment, {}, "none", 60), on_phase=lambda phase: None)
    try:
        sandbox.put(
            File(name, content=text.encode() if isinstance(text, str) else text)
            for name, text in files.items()
        )
        sandbox.exec(("sh", "-c", setup), timeout=20, sink=lambda chunk: None)
        yield sandbox
    finally:
        sandbox.remove()


def scored(
    sandbox: FakeSandbox, spec: ScorerSpec, scorer: Scorer, directory: Path, timeout: float = 60
) -> ScorerResult:
    """Return the result of a scorer for what is in a sandbox, with its files in `directory`."""
    context = make_context(trial().scenario, spec, sandbox, timeout=timeout, env={}, directory=directory)
    return run_scorer(context, scorer, lambda text: text)
