"""The sandboxes for tests of plugins keep the promises that they make."""

from __future__ import annotations

from pytest_benchjobs.testing import FakeProvider
from pytest_benchjobs.testing.conformance import SandboxConformance


class TestFake(SandboxConformance):
    make = FakeProvider
