"""Run agent benchmarks as pytest tests.

Names are imported on first use: this package is loaded into every pytest run of everyone who installed it.
"""

from __future__ import annotations

from typing import Any

_HOME = {
    "Agent": "agents.protocol",
    "AgentCall": "agents.protocol",
    "AgentCommand": "agents.protocol",
    "AgentSetupFailed": "model.errors",
    "AgentSpec": "model.agent",
    "AsyncTrial": "job.interactive",
    "BenchError": "model.errors",
    "BenchWarning": "plugin.items",
    "Benchmark": "sources.authored",
    "DrivenJob": "job.script",
    "Executed": "job.interactive",
    "File": "sandbox.protocol",
    "Graded": "scoring.protocol",
    "InfrastructureError": "model.errors",
    "InputError": "model.errors",
    "InteractiveTrial": "job.interactive",
    "LiveSandbox": "job.interactive",
    "NotLive": "model.errors",
    "Outcome": "model.result",
    "Scenario": "sources.authored",
    "ScenarioRef": "sources.protocol",
    "Scorer": "scoring.protocol",
    "ScoringContext": "scoring.protocol",
    "Source": "sources.protocol",
    "TrialFailed": "job.interactive",
    "TrialResult": "model.result",
    "TrialScore": "agents.protocol",
    "scenario_ids": "job.script",
    "scorer": "scoring.registering",
    "open": "api",
    "start": "job.script",
    "start_async": "job.script",
}

__all__ = sorted(_HOME.keys() - {"open"})  # `import *` shall not hide the one everybody knows


def __dir__() -> list[str]:
    return sorted({*_HOME, "__version__"})


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("pytest-benchjobs")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
