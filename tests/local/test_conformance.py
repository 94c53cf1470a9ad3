"""Local sandboxes keep the promises that namespaces can keep; so do those of the example of another provider."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider
from pytest_benchjobs.testing.conformance import SandboxConformance


class TestLocal(SandboxConformance):
    make = LocalProvider
    environment = {"image": "host"}

    def left(self, sandbox: str) -> bool:
        return Path(sandbox).exists()


def _example() -> Any:
    path = Path(__file__).parents[2] / "conftest_examples" / "sandbox-provider" / "conftest.py"
    spec = importlib.util.spec_from_file_location("sandbox_provider_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.UnshareProvider


class TestExample(TestLocal):
    make = _example()
